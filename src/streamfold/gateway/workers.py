"""Several processes that serve one port: they are started, started again, replaced and stopped together.

uvicorn has a supervisor too (`uvicorn.supervisors.Multiprocess`, as of 0.54), which also replaces workers one by one.
This one does what that one does not:

- It closes the port when it is told to stop, so that clients of a server that drains are refused and go elsewhere,
  instead of waiting in a queue that nobody reads.
- It hears signals while a worker that leaves finishes its answers; a second one cuts `drain` short, a third one kills.
- It reads the configuration again before workers are replaced, and keeps the old ones if there is a mistake in it.
- It gives its workers a folder for what they share, and drops the gauges of those that have ended.
"""

from __future__ import annotations

import logging
import logging.config
import multiprocessing
import os
import signal
import socket
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic
from typing import Any

from ..config import GatewaySettings, collect_rarely, set_variable
from ..values import ConfigError
from .metrics import METRICS_FOLDER, forget_process
from .server import FAILED
from .server_log import log_config
from .worker import STOPS, Recipe, Share, work

log = logging.getLogger("streamfold.gateway")

_TICK = 0.2  # seconds between two looks at signals
_PAUSE = 1.0  # seconds before a worker is started in the place of one that could not start
_START = 60.0  # seconds in which a worker must be ready
_LATE = 10.0  # seconds that a worker gets beyond its time to stop


def run(path: str | os.PathLike[str] | None, overrides: Mapping[str, Any]) -> int:
    """Serves with several workers until it is told to stop. Returns the exit code of the process.

    SIGTERM and SIGINT stop the server, as with one process; a second one does not wait for `drain`, and a third one
    for nothing. SIGHUP reads the configuration again and replaces the workers one by one. A worker that dies is
    replaced; answers that it was giving are cut.

    Raises:
        ConfigError: there is nothing to serve, or something in the settings can't be used.
    """
    logging.config.dictConfig(log_config())
    with ExitStack() as stack:
        shared = stack.enter_context(TemporaryDirectory(prefix="streamfold-serve-", ignore_cleanup_errors=True))
        recipe = Recipe(path, dict(overrides), Path(shared))
        recipe.metrics.mkdir()
        set_variable(METRICS_FOLDER, str(recipe.metrics))  # before anything imports prometheus-client
        chosen = recipe.settings()
        try:
            sockets = _listeners(chosen.host, chosen.port)
        except OSError as exc:
            log.error("%s:%d can't be listened on: %s", chosen.host, chosen.port, exc)
            return FAILED
        for each in sockets:
            stack.enter_context(each)
        recipe.check(say=[each.getsockname() for each in sockets])
        collect_rarely()
        return _Supervisor(recipe, chosen, sockets).run()


@dataclass(slots=True, eq=False)
class _Worker:
    """A process, and the end of a pipe at which it says that it is ready."""

    process: BaseProcess
    says: Connection
    share: Share
    ready: bool = False
    began: float = field(default_factory=monotonic)


class _Supervisor:
    """Keeps a number of workers alive, and tells them to stop when it is told so."""

    def __init__(self, recipe: Recipe, chosen: GatewaySettings, sockets: list[socket.socket]) -> None:
        self._recipe = recipe
        self._chosen = chosen
        self._number = chosen.workers
        self._sockets = sockets
        self._longest = chosen.drain + chosen.shutdown + _LATE
        self._signals: list[int] = []
        self._workers: list[_Worker] = []
        self._leaving: list[_Worker] = []
        self._failed = 0.0  # when a worker could not start
        self._counts = multiprocessing.RawArray("i", [Share.NONE] * (4 * self._number))  # some for those that leave

    def run(self) -> int:
        """Returns the exit code of the process, when it has been told to stop and all workers have ended."""
        with self._listening_to_signals():
            for _ in range(self._number):
                self._workers.append(self._started())
            while self._workers:
                for sig in self._taken():
                    if sig != getattr(signal, "SIGHUP", None):
                        return self._stop()
                    self._replace_all()
                self._look()
            return FAILED

    def _started(self) -> _Worker:
        taken = {worker.share.place for worker in (*self._workers, *self._leaving)}
        places = range(len(self._counts))
        share = Share(self._counts, next((place for place in places if place not in taken), places[-1]))
        ours, theirs = multiprocessing.Pipe(duplex=False)
        process = _process(self._recipe, self._sockets, theirs, share)
        signal.pthread_sigmask(signal.SIG_BLOCK, STOPS)  # until it has its own handlers
        try:
            process.start()
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPS)
        theirs.close()
        return _Worker(process, ours, share)

    def _look(self) -> None:
        """Waits a moment for workers that have become ready, or have ended."""
        every = [*self._workers, *self._leaving]
        heard = wait(
            [*(each.says for each in every if not each.ready), *(each.process.sentinel for each in every)], _TICK
        )
        for worker in every:
            if not worker.ready and worker.says in heard:
                with suppress(EOFError):  # it has ended instead
                    worker.ready = bool(worker.says.recv())
        for worker in every:
            if worker.process.sentinel in heard and (worker in self._workers or worker in self._leaving):
                self._ended(worker)
        if len(self._workers) < self._number and monotonic() >= self._failed + _PAUSE:
            self._workers.append(self._started())

    def _ended(self, worker: _Worker) -> None:
        worker.process.join()
        worker.says.close()
        worker.share.set(Share.NONE)
        if self._chosen.metrics:
            forget_process(self._recipe.metrics, worker.process.pid or 0)
        if worker in self._leaving:
            self._leaving.remove(worker)
            return
        self._workers.remove(worker)
        how = worker.process.exitcode
        if worker.ready:
            log.error("worker %s ended (%s); another one is started", worker.process.pid, _said(how))
        elif any(each.ready for each in self._workers):
            log.error("worker %s could not start (%s); it is tried again", worker.process.pid, _said(how))
            self._failed = monotonic()
        else:  # none of them can: its own log says why
            log.error("worker %s could not start (%s)", worker.process.pid, _said(how))
            self._kill()

    def _replace_all(self) -> None:
        """Starts new workers in the places of all, each before the old one leaves."""
        try:
            self._recipe.check()
        except ConfigError as exc:
            log.error("the configuration is not read again: %s", exc)
            return
        log.info("the configuration is read again, by new workers")
        for old in list(self._workers):
            new = self._started()
            end = monotonic() + _START
            while not new.ready and monotonic() < end and not self._signals and new.process.is_alive():
                if wait([new.says, new.process.sentinel], _TICK):
                    with suppress(EOFError):
                        new.ready = new.says.poll() and bool(new.says.recv())
            if not new.ready:
                log.error("a new worker could not start; the others stay as they are")
                new.process.kill()
                self._leaving.append(new)
                return
            self._workers[self._workers.index(old)] = new
            self._leaving.append(old)
            _tell(old, signal.SIGUSR1)

    def _stop(self) -> int:
        """Has all workers finish what they do. Clients are refused from when the last one has stopped listening."""
        log.info("told to stop: %d workers finish their answers", len(self._workers))
        for each in self._sockets:
            each.close()  # the workers have their own
        every = [*self._workers, *self._leaving]
        for worker in every:
            _tell(worker, signal.SIGTERM)
        self._number, told, end = 0, 1, monotonic() + self._longest
        while alive := [worker for worker in every if worker.process.is_alive()]:
            for _ in self._taken():
                told += 1
                for worker in alive:
                    _tell(worker, signal.SIGTERM if told == 2 else signal.SIGKILL)
            if monotonic() > end:
                log.error("%d workers do not stop; they are killed", len(alive))
                self._kill()
            wait([worker.process.sentinel for worker in alive], _TICK)
        return 0

    def _kill(self) -> None:
        every, self._workers, self._number = [*self._workers, *self._leaving], [], 0
        for worker in every:
            worker.process.kill()
            worker.process.join()

    def _taken(self) -> list[int]:
        signals, self._signals[:] = list(self._signals), []
        return signals

    @contextmanager
    def _listening_to_signals(self) -> Iterator[None]:
        names = ("SIGTERM", "SIGINT", "SIGHUP")
        heard = [getattr(signal, name) for name in names if hasattr(signal, name)]
        before = {sig: signal.signal(sig, lambda got, _: self._signals.append(got)) for sig in heard}
        try:
            yield
        finally:
            for sig, handler in before.items():
                signal.signal(sig, handler)


def _process(*args: Any) -> BaseProcess:
    """A process that works: a copy of this one, whose memory it shares, or a new one where threads may hold locks."""
    if sys.platform == "linux" and len(list(Path("/proc/self/task").iterdir())) == 1:
        return multiprocessing.get_context("fork").Process(target=work, args=args)
    return multiprocessing.get_context("spawn").Process(target=work, args=args)


def _tell(worker: _Worker, sig: int) -> None:
    if worker.process.pid is not None and worker.process.is_alive():
        os.kill(worker.process.pid, sig)


def _said(code: int | None) -> str:
    if code is not None and code < 0:
        with suppress(ValueError):
            return signal.Signals(-code).name
    return f"exit code {code}"


def _listeners(host: str, port: int) -> list[socket.socket]:
    """The sockets of all addresses of a host, on one port; 0: a free one. Raises OSError."""
    made: list[socket.socket] = []
    found = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    with ExitStack() as stack:
        for family, _, _, _, address in dict.fromkeys(found):
            chosen = made[0].getsockname()[1] if made else port
            each = socket.create_server((address[0], chosen), family=family, backlog=2048)
            made.append(stack.enter_context(each))
        stack.pop_all()
    return made
