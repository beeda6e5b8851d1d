"""Signs of life for slots that are counted outside of this process."""

from __future__ import annotations

from collections.abc import Callable
from math import isinf
from threading import Event, Lock, Thread


class Heartbeat:
    """Calls a function from time to time, in a thread of its own, as long as something is held.

    A thread, because answers are read in whatever way the caller likes: no task of ours is alive all the time.

    Args:
        beat: called with how many are held.
        every: seconds; infinite: never.
    """

    def __init__(self, beat: Callable[[int], None], every: float) -> None:
        self._beat = beat
        self._every = every
        self._held = 0
        self._lock = Lock()
        self._running = False
        self._stopped = Event()

    def hold(self, number: int) -> None:
        """Adds to what is held."""
        with self._lock:
            self._held += number
            if self._held and not self._running and not isinf(self._every):
                self._running = True
                Thread(target=self._run, name="streamfold-limits", daemon=True).start()

    def release(self, number: int) -> None:
        """Takes from what is held. The thread ends some time after nothing is left."""
        with self._lock:
            self._held = max(0, self._held - number)

    def stop(self) -> None:
        """Ends the thread for good."""
        self._stopped.set()

    def _run(self) -> None:
        while not self._stopped.wait(self._every):
            with self._lock:
                held = self._held
                if not held:
                    self._running = False
                    return
            self._beat(held)
