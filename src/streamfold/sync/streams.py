"""Response streams and tool runs that synchronous code reads with a plain `for` loop."""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

from ..answers import ChatStream as AsyncChatStream
from ..answers import Partial, Watcher, checked_watcher
from ..errors import APIError, StreamfoldError
from ..tools import PendingCall
from ..tools import ToolRun as AsyncToolRun
from ..types import Message, PartialToolCall, PartialUpdate, Reply, ReplyWarning, StreamChunk, Usage
from .thread import LoopThread

if TYPE_CHECKING:
    from pydantic import BaseModel

    M = TypeVar("M", bound=BaseModel)

T = TypeVar("T")
S = TypeVar("S", AsyncChatStream, AsyncToolRun)


class Chunks(Generic[S]):
    """An iterator over the chunks of an asynchronous stream or run, and a context manager that closes the
    connection.
    """

    def __init__(self, owner: object, thread: LoopThread, source: S) -> None:
        self._owner = owner  # the provider, which is closed when it is garbage-collected
        self._thread = thread
        self._source: S = source
        self._started = self._ended = False
        self._last: StreamChunk | None = None

    @property
    def reply(self) -> Reply:
        """The complete reply, or for a tool run the last reply. Raises StreamfoldError before the reply is complete."""
        return self._source.reply

    def read(self) -> Reply:
        """Reads all chunks and returns the reply.

        Raises:
            APIError: the request failed, or the response is incomplete. The error's `partial` contains the text
                received so far.
            StreamfoldError: the stream was closed before its end.
        """
        with self:
            if not self._ended:
                self._last = self._run(_read) or self._last
            if not self._whole:
                raise StreamfoldError("the stream was closed before its end")
            self._ended = True
            return self.reply

    def close(self) -> None:
        """Closes the connection, and waits until it is closed. May be called from any thread, and repeatedly.

        If another thread is waiting for a chunk, its `for` loop ends.
        """
        ended, self._ended = self._ended, True
        if self._started and not ended:
            self._thread.close(self._source)

    def __iter__(self) -> Self:
        aiter(self._source)  # raises an error if the stream was read to its end
        return self

    def __next__(self) -> StreamChunk:
        chunk = None if self._ended else self._run(lambda source: anext(source, None))
        if chunk is not None:
            self._last = chunk
            return chunk
        if not self._ended and not self._whole and self._thread.closed:
            raise StreamfoldError("the provider was closed before the response ended")
        self._ended = True
        raise StopIteration

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<sync {self._source!r}>"

    @property
    def _whole(self) -> bool:
        return self._last is not None and self._last.finished

    def _run(self, function: Callable[[S], Awaitable[T]]) -> T:
        self._started = True
        return self._thread.run(partial(function, self._source), self._source)


class ChatStream(Chunks[AsyncChatStream]):
    """An iterator over the chunks of one response, and a context manager that closes the connection.

        with provider.chat_stream("Hello") as stream:
            for chunk in stream:
                print(chunk.delta, end="")
        print(stream.reply.usage)

    Without `with`, the connection is closed at the end of the response, or when the stream is garbage-collected. An
    exception in the thread that waits for a chunk, such as KeyboardInterrupt, also closes the connection. Only one
    thread may read a stream.
    """

    def __init__(self, owner: object, thread: LoopThread, source: AsyncChatStream) -> None:
        super().__init__(owner, thread, source)
        self._grown: deque[tuple[Watcher, PartialUpdate]] = deque()
        self._watching = self._hidden = False  # hidden: the caller did not request chunks of partial tool calls

    @property
    def warnings(self) -> tuple[ReplyWarning, ...]:
        """The warnings about the request and the response so far. See `streamfold.ChatStream.warnings`."""
        return self._source.warnings

    @property
    def partial_tool_calls(self) -> tuple[PartialToolCall, ...]:
        """The tool calls whose arguments aren't complete yet. See `streamfold.ChatStream.partial_tool_calls`."""
        return self._source.partial_tool_calls

    @property
    def answer_id(self) -> str | None:
        """The provider's id of the answer, or None before it has arrived. See `streamfold.ChatStream.answer_id`."""
        return self._source.answer_id

    def watch(self, path: str, function: Watcher, *, tool: str | None = None) -> None:
        """Registers a function that is called for each update of a partial value, in the thread that reads the stream.

        See `streamfold.ChatStream.watch`.
        """
        watcher = checked_watcher(function)
        self._source.watch(path, lambda update: self._grown.append((watcher, update)), tool=tool)
        if not self._watching:
            self._watching, self._hidden = True, not self._source.yields_call_deltas
            self._source.yields_call_deltas = True  # this thread has to wake up for them

    def _run(self, function: Callable[[AsyncChatStream], Awaitable[T]]) -> T:
        try:
            return super()._run(function)
        except APIError as error:
            resume = error.continuation
            if resume is not None:  # returns an asynchronous stream, which is converted here
                error.continuation = lambda failed: ChatStream(self._owner, self._thread, resume(failed))
            raise

    def __next__(self) -> StreamChunk:
        try:
            chunk = super().__next__()
            while self._hidden and chunk.silent:
                self._call_watchers()
                chunk = super().__next__()
        finally:
            self._call_watchers()
        return chunk

    def read(self) -> Reply:
        if self._watching:
            with self:
                for _ in self:
                    pass
        return super().read()

    def _call_watchers(self) -> None:
        while self._grown:
            function, update = self._grown.popleft()
            function(update)

    def start(self) -> Self:
        """Sends the request and waits for the first chunk. See `streamfold.ChatStream.start`."""
        self._run(AsyncChatStream.start)
        return self

    def partial(self, model: type[M]) -> Partial[M] | None:
        """Returns the part of a structured response that has arrived. See `streamfold.ChatStream.partial`."""
        return self._source.partial(model)


class ToolRun(Chunks[AsyncToolRun]):
    """An iterator over the chunks of all turns of a tool run, and a context manager that closes the connection."""

    @property
    def id(self) -> str:
        """A random id of the run. See `streamfold.ToolRun.id`."""
        return self._source.id

    @property
    def messages(self) -> list[Message]:
        """The conversation so far. See `streamfold.ToolRun.messages`."""
        return self._source.messages

    @property
    def replies(self) -> list[Reply]:
        """The replies of the model's turns so far."""
        return self._source.replies

    @property
    def output(self) -> Any:
        """The final answer as an instance of `output_type`.

        Raises:
            StreamfoldError: the run hasn't ended, or it has no `output_type`.
        """
        return self._source.output

    @property
    def usage(self) -> Usage | None:
        """The token counts of all responses so far, added up. None if the server sent no token counts."""
        return self._source.usage

    @property
    def pending(self) -> tuple[PendingCall, ...]:
        """The tool calls that wait for a decision or a result. Empty if the run isn't paused."""
        return self._source.pending

    def approve(self, call_id: str) -> None:
        """Approves a tool call that waits for approval. See `streamfold.ToolRun.approve`."""
        self._source.approve(call_id)
        self._ended = False

    def deny(self, call_id: str, reason: str | None = None) -> None:
        """Denies a tool call that waits for approval. See `streamfold.ToolRun.deny`."""
        self._source.deny(call_id, reason)
        self._ended = False

    def answer(self, call_id: str, content: Any, *, error: bool = False) -> None:
        """Sets the result of an external tool call. See `streamfold.ToolRun.answer`."""
        self._source.answer(call_id, content, error=error)
        self._ended = False

    def dump(self) -> str:
        """Returns the state of the run as JSON text. See `streamfold.ToolRun.dump`."""
        return self._source.dump()

    @property
    def _whole(self) -> bool:
        last = self._last
        return super()._whole and last is not None and (not last.tool_calls or bool(self.pending))


async def _read(source: AsyncChatStream | AsyncToolRun) -> StreamChunk | None:
    last = None
    while (chunk := await anext(source, None)) is not None:
        last = chunk
    return last
