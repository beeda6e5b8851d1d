"""`LoopThread`: the background thread of a synchronous provider, whose event loop runs the provider's coroutines.

anyio's blocking portal isn't used, because a finalizer can't stop it without waiting. A portal that ends also starts a
thread, which Python 3.12 and later forbid while the interpreter exits.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import sys
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import CancelledError, Future, wait
from contextlib import AsyncExitStack
from functools import partial
from typing import Protocol, TypeVar
from weakref import WeakSet

import anyio

from ..answers import ChatModel
from ..errors import StreamfoldError

T = TypeVar("T")


class Closeable(Protocol):
    """A `ChatStream` or a `ToolRun`."""

    async def aclose(self) -> None: ...


# On Windows, Ctrl-C does not interrupt a wait for another thread, so it is a series of short ones:
# https://github.com/python/cpython/issues/79953
_POLL_SECONDS = 0.2 if sys.platform == "win32" else None
_EXIT_SECONDS = 5.0  # for closing connections at the exit of the interpreter


class LoopThread:
    """Runs the coroutines of a model for callers in other threads. The first call starts the thread.

    A LoopThread must not hold a reference to the synchronous provider. When the provider is garbage-collected, the
    thread is stopped.

    Args:
        model: the asynchronous model. The thread closes it when it stops.

    Attributes:
        closed: True after `stop` was called.
    """

    def __init__(self, model: ChatModel) -> None:
        self.closed = False
        self._model = model
        self._open: WeakSet[Closeable] = WeakSet()  # used only in the event loop's thread
        self._lock = threading.RLock()  # a signal handler or a finalizer may call `stop` during a call
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop = asyncio.Event()
        self._thread = threading.Thread(target=self._serve, name="streamfold", daemon=True)
        self._process = 0

    def run(self, step: Callable[[], Awaitable[T]], source: Closeable | None = None) -> T:
        """Calls an async function on the thread's event loop, and waits for its result.

        Args:
            source: the stream or run that the function reads. If the calling thread is interrupted, for example by
                Ctrl-C, this stream is closed.

        Raises:
            StreamfoldError: the thread was stopped, or the method was called from the thread itself or after a fork.
            Exception: the function raised this exception.
        """
        future: Future[T] = Future()  # created first, so that an interruption can cancel it at any time
        try:
            self._submit(future, step, source)
            while _POLL_SECONDS is not None and not future.done():  # `wait` never returns a cancelled one as done
                wait([future], _POLL_SECONDS)
            return future.result()
        except BaseException as exc:
            if future.done() and not future.cancelled() and future.exception() is exc:
                raise
            if isinstance(exc, CancelledError):
                raise self._closed_error() from None
            if not isinstance(exc, StreamfoldError) and future.cancel() and source is not None:
                self.close(source)  # a StreamfoldError means that nothing was begun
            raise

    def close(self, source: Closeable) -> None:
        if not self.closed:
            self.run(source.aclose, source)

    def stop(self) -> None:
        """Signals the thread to close the model and to stop. Doesn't wait. May be called from any thread."""
        with self._lock:
            before, self.closed = self.closed, True  # first: callers that wake up without an answer check it
            if not before and self._loop is not None:
                self._loop.call_soon_threadsafe(self._stop.set)

    def join(self, timeout: float | None = None) -> None:
        """Waits until the thread has stopped. Does nothing if the caller is this thread."""
        if self._loop is not None and self._thread is not threading.current_thread():
            self._thread.join(timeout)

    def _submit(self, future: Future[T], step: Callable[[], Awaitable[T]], source: Closeable | None) -> None:
        with self._lock:
            if self.closed:
                raise self._closed_error()
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._process = os.getpid()
                _running.add(self)
                self._thread.start()
            elif self._process != os.getpid():
                raise StreamfoldError(
                    f'the provider "{self._model.name}" was used before this process was forked, and its thread'
                    " doesn't exist in this process: create a provider in each process"
                )
            elif self._thread is threading.current_thread():
                raise StreamfoldError(
                    f'the provider "{self._model.name}" was called from one of its own hooks or async tools, where it'
                    " would wait for itself forever"
                )
            self._loop.call_soon_threadsafe(self._begin, self._loop, future, step, source)

    def _begin(
        self,
        loop: asyncio.AbstractEventLoop,
        future: Future[T],
        step: Callable[[], Awaitable[T]],
        source: Closeable | None,
    ) -> None:
        """Starts a call as a task on the event loop.

        `step` is called here and not in the calling thread: Ctrl-C could lose a coroutine that the calling thread
        created.
        """

        def cancel(future: Future[T]) -> None:
            if future.cancelled() and not loop.is_closed():
                loop.call_soon_threadsafe(task.cancel)

        if not future.cancelled():
            task = loop.create_task(self._call(step, source))
            task.add_done_callback(partial(_settle, future))
            future.add_done_callback(cancel)

    def _closed_error(self) -> StreamfoldError:
        return StreamfoldError(f'the provider "{self._model.name}" is closed')

    async def _call(self, step: Callable[[], Awaitable[T]], source: Closeable | None) -> T:
        if source is not None:
            self._open.add(source)
        return await step()

    def _serve(self) -> None:
        assert self._loop is not None  # noqa: S101 # for the type checker
        try:
            self._loop.run_until_complete(self._until_stopped())
        finally:
            # Unlike asyncio.run(), does not start a thread that waits for the threads of name look-ups.
            self._loop.close()
            _running.discard(self)

    async def _until_stopped(self) -> None:
        # anyio imports its backend at its first use. If that were the closing after Ctrl-C, the program would end with
        # exit code 1: compiling in a thread makes CPython forget the interruption.
        anyio.get_cancelled_exc_class()
        async with AsyncExitStack() as stack:  # closes in reverse order
            stack.push_async_callback(asyncio.get_running_loop().shutdown_asyncgens)
            stack.push_async_callback(_end_tasks)
            stack.push_async_callback(self._model.aclose)
            await self._stop.wait()
            for source in self._open:
                stack.push_async_callback(source.aclose)


def _settle(future: Future[T], task: asyncio.Task[T]) -> None:
    error = None if task.cancelled() else task.exception()  # asyncio logs one that is never retrieved
    if task.cancelled():
        future.cancel()
    elif future.set_running_or_notify_cancel():
        future.set_result(task.result()) if error is None else future.set_exception(error)


async def _end_tasks() -> None:
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


_running: set[LoopThread] = set()


@atexit.register
def _at_exit() -> None:
    for thread in list(_running):
        thread.stop()
        thread.join(_EXIT_SECONDS)
