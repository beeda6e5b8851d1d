"""`ChatStream`, the interface of its chunk sources, and a base class for chunk sources that wrap another source."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from operator import length_hint
from typing import TYPE_CHECKING, Any, NoReturn, Protocol, Self, TypeVar

from ..errors import APIError, StreamfoldError
from ..jsontext import whole_characters
from ..net import clear_frames
from ..types import CallKind, ChunkDetails, PartialToolCall, Reply, ReplyWarning, StreamChunk

if TYPE_CHECKING:
    from .partial_values import Partial, PartialReader, Watcher, Watchers

# Type checkers don't see the methods that explain a synchronous use, so that they report the mistake too.


class AsyncContext:
    """An async context manager. If a program uses `with`, the error message suggests `async with`."""

    if TYPE_CHECKING:

        async def aclose(self) -> None: ...

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    if not TYPE_CHECKING:

        def __enter__(self) -> NoReturn:
            raise TypeError(_message(self, "async with"))

        def __exit__(self, *_: Any) -> None:
            """Never called. Without this method, Python would only report that `__exit__` is missing."""


class AsyncIteration:
    """An async iterator. If a program uses `for`, the error message suggests `async for`."""

    if not TYPE_CHECKING:

        def __iter__(self) -> NoReturn:
            raise TypeError(_message(self, "async for"))


def _message(misused: object, statement: str) -> str:
    return (
        f"{type(misused).__name__} is asynchronous: use `{statement}`, inside an `async def` function."
        " In synchronous code, use streamfold.sync"
    )


class ChunkSource(Protocol):
    """The source from which a `ChatStream` gets its chunks.

    Attributes:
        reply: the complete answer; None until the source has yielded the last chunk.
        warnings: the warnings about the request and the answer so far.
        partial_tool_calls: the tool calls that the model is writing.
        context_window: the model's context window in tokens, or None if unknown.
        answer_id: the provider's id of the answer, once it has arrived.
    """

    @property
    def reply(self) -> Reply | None: ...

    @property
    def warnings(self) -> tuple[ReplyWarning, ...]: ...

    @property
    def partial_tool_calls(self) -> tuple[PartialToolCall, ...]: ...

    @property
    def context_window(self) -> int | None: ...

    @property
    def answer_id(self) -> str | None: ...

    def batches(self, *, call_deltas: bool = False) -> AsyncGenerator[list[StreamChunk], None]:
        """Yields lists of chunks. Each list contains the chunks from one network read. Called once.

        Args:
            call_deltas: also yield chunks of partial tool calls.
        """
        ...

    async def aclose(self) -> None:
        """Closes the connection. A task that waits for a chunk stops waiting."""
        ...


if TYPE_CHECKING:
    from pydantic import BaseModel

    M = TypeVar("M", bound=BaseModel)


class ChatStream(AsyncIteration, AsyncContext):
    """The chunks of one answer. A stream is an async iterator, and an async context manager that closes the connection.

        async with provider.chat_stream("Hello") as stream:
            async for chunk in stream:
                print(chunk.delta, end="")
        print(stream.reply.usage)

    A stream can be read once. Without `async with`, the connection is closed at the end of the answer, or when an
    unfinished stream is garbage-collected. Use `async with` if you may stop reading early.

    Attributes:
        source: the source of the chunks, for models that wrap other models.
        yields_call_deltas: True if the stream yields chunks of partial tool calls: see
            `ChatOptions.partial_tool_calls`.
    """

    def __init__(self, source: ChunkSource, *, yields_call_deltas: bool = False) -> None:
        self.source = source
        self.yields_call_deltas = yields_call_deltas
        self._watchers: Watchers | None = None
        # Name, text and kind of calls in the chunks that were returned. The source may have read more of them.
        self._partial_calls: dict[int, tuple[str, list[str], CallKind]] = {}
        self._batches: AsyncGenerator[list[StreamChunk], None] | None = None  # None until the stream is read
        self._ready: Iterator[StreamChunk] = iter(())
        self._started = False
        self._closed = self._ended = False  # ended: the finished chunk was returned
        self._reading = False
        self._deltas: list[str] = []  # the text in the returned chunks, for `partial`
        self._size = 0  # the number of its characters
        self._readers: dict[type, PartialReader[Any]] = {}

    @property
    def reply(self) -> Reply:
        """The whole answer. Raises StreamfoldError if the stream hasn't ended yet."""
        if self.source.reply is None or not self._ended:
            raise StreamfoldError("there is no reply yet: read the stream to its end first")
        return self.source.reply

    @property
    def ready(self) -> bool:
        """True if the next chunk has already arrived, so that a server can send both chunks to its client in one
        write."""
        return length_hint(self._ready) > 0 and (self.yields_call_deltas or self._watchers is None)

    @property
    def warnings(self) -> tuple[ReplyWarning, ...]:
        """The warnings so far. Warnings about the request are available before the first chunk."""
        return self.source.warnings

    @property
    def answer_id(self) -> str | None:
        """The provider's id of the answer, or None if it hasn't arrived yet. See `Provider.retrieve`."""
        return self.source.answer_id

    @property
    def partial_tool_calls(self) -> tuple[PartialToolCall, ...]:
        """The tool calls that the model is writing, for display. The tuple is empty after the answer has ended.

        Any task can read this property at any time. With the option `partial_tool_calls`, the stream yields a chunk for
        each piece of a tool call. Each access joins all text so far, so use `watch` for long arguments.
        """
        if self._ended:
            return ()
        if self._partial_calls:
            calls = self._partial_calls.values()
            return tuple(
                PartialToolCall(name, whole_characters("".join(text)), kind) for name, text, kind in calls if name
            )
        return self.source.partial_tool_calls

    def watch(self, path: str, function: Watcher, *, tool: str | None = None) -> None:
        """Calls a function while a value of a tool call or of a structured answer grows.

            def show(update: PartialUpdate) -> None:
                print(update.delta, end="")

            async with provider.chat_stream("Write hello.py", [write_files]) as stream:
                stream.watch("files[].content", show)
                async for chunk in stream: ...

        streamfold calls `function` while your program reads the stream, with the values in the order of the complete
        answer. Don't run a tool with partial values: only the `ToolCall` on the last chunk is final.

        Args:
            path: keys of JSON objects, with `[]` for every item of a list, `[0]` for the first item, and `*` for every
                key of an object. The empty path matches the complete value.
            function: a function whose argument is a `PartialUpdate`. If the function raises an exception, the loop that
                reads the stream raises this exception.
            tool: watches only calls of this tool. With None, the function gets all tool calls, and the answer's text if
                the text is JSON.

        Raises:
            ConfigError: the path is malformed, or the function is async.
            StreamfoldError: your program has already started to read the stream.
        """
        if self._started:
            raise StreamfoldError("watch() must be called before the stream is read")
        from .partial_values import Watchers

        watchers = self._watchers or Watchers()
        watchers.add(path, function, tool)
        self._watchers = watchers

    async def start(self) -> Self:
        """Sends the request, waits for the first chunk, and returns the stream. A later loop over the stream still
        yields the first chunk.

        A web application can call `start()` before it sets the status of its own response:

            stream = await provider.chat_stream("Hello").start()  # raises RateLimitError, ...

        Raises:
            APIError: the request failed.
        """
        if not self._started:
            batches = self._begin()
            try:
                self._ready = iter(await anext(batches))
            except BaseException as error:
                self._failed(error)
                raise
            finally:
                self._reading = False
        return self

    def __aiter__(self) -> Self:
        if self._ended:
            raise StreamfoldError("this stream was already read to its end: use stream.reply")
        return self

    async def __anext__(self) -> StreamChunk:
        chunk = next(self._ready, None)
        while chunk is None or (chunk.details is not None and not self._note_details(chunk.details)):
            if chunk is None:
                if self._closed:
                    raise StopAsyncIteration
                batches = self._begin()
                try:  # as in `start`, because a helper would cost a coroutine for each chunk
                    self._ready = iter(await anext(batches))
                except BaseException as error:
                    self._failed(error)
                    raise
                finally:
                    self._reading = False
            chunk = next(self._ready, None)
        self._deltas.append(chunk.delta)
        self._size += len(chunk.delta)
        if chunk.finished:
            self._ended = True
            self._keep_text(self.source.reply)
        if self._watchers is not None:
            self._watchers.feed(chunk)
        return chunk

    async def read(self) -> Reply:
        """Reads the stream to its end, closes the connection and returns the reply.

        Raises:
            APIError: the request failed, or the answer is incomplete. `error.partial` contains the text that had
                arrived.
            StreamfoldError: the stream was closed before its end.
        """
        async with self:
            if not self._ended:
                async for _ in self:
                    pass
            if not self._ended:
                raise StreamfoldError("the stream was closed before its end")
            return self.reply

    def partial(self, model: type[M]) -> Partial[M] | None:
        """Returns the part of a structured answer that has arrived, or None if nothing has arrived.

        Fields that haven't arrived are None, strings may be incomplete, and no validator runs: see `Partial`. To save
        time, the method parses a text of more than 4096 characters again only when the text has grown by 1/32, and at
        the end. If streamfold requests the answer as a tool call (see the quirk `response_format`), the complete answer
        arrives at the end.

        Args:
            model: the pydantic model that was passed as `response_format`.

        Raises:
            ConfigError: the model is a pydantic `RootModel`, which can't be partial.
        """
        reader = self._readers.get(model)
        if reader is None:
            from .partial_values import PartialReader

            reader = self._readers[model] = PartialReader(model)
        reply = self.source.reply if self._ended else None
        if reply is not None and reply.answer is not None:
            return reader.read(self._size, lambda: str(reply.answer), whole=True)
        return reader.read(self._size, self._text, whole=reply is not None)

    def _text(self) -> str:
        self._deltas = ["".join(self._deltas)]
        return self._deltas[0]

    def _keep_text(self, reply: Reply | None) -> None:
        if reply is not None:
            self._deltas, self._size = [reply.text], len(reply.text)

    async def aclose(self) -> None:
        """Closes the connection before it returns. Any task may call this method, also several times.

        If another task waits for a chunk, its loop over the stream ends.
        """
        self._closed = True
        self._ready = iter(())
        await self.source.aclose()
        if self._batches is not None and not self._reading:
            self._reading = True  # only one task may read or close a generator
            try:
                await self._batches.aclose()
            finally:
                self._reading = False

    def _repr_markdown_(self) -> str:
        if self._ended and self.source.reply is not None:
            return self.source.reply._repr_markdown_()
        return f"`{self!r}`: read it with `async for chunk in stream: print(chunk.delta, end='', flush=True)`"

    def __repr__(self) -> str:
        state = "finished" if self._ended else "closed" if self._closed else "reading" if self._started else "not sent"
        return f"<ChatStream {state}>"

    def _note_details(self, details: ChunkDetails) -> bool:
        call = details.call
        if call is not None:
            if self._watchers is not None:
                self._watchers.feed_call(call)
            if self.yields_call_deltas:
                text = self._partial_calls[call.number][1] if call.number in self._partial_calls else []
                text.append(call.text)
                self._partial_calls[call.number] = (call.tool or "", text, call.kind)
        return self.yields_call_deltas or details.is_for_all

    def _begin(self) -> AsyncGenerator[list[StreamChunk], None]:
        if self._reading:
            raise StreamfoldError("another task is reading this stream: only one task can read a stream")
        self._reading = self._started = True
        if self._batches is None:
            # The generator must not refer to this object: when the caller drops it, the generator goes too, and the
            # event loop's hook for abandoned generators runs its `finally`.
            call_deltas = self.yields_call_deltas or self._watchers is not None
            self._batches = self.source.batches(call_deltas=call_deltas)
        return self._batches

    def _failed(self, error: BaseException) -> None:
        if isinstance(error, StopAsyncIteration):
            return
        self._keep_text(error.partial if isinstance(error, APIError) else None)
        clear_frames(error)

    if not TYPE_CHECKING:  # so that type checkers report the mistake too

        def __await__(self) -> NoReturn:
            raise TypeError(
                "chat_stream() returns the stream without await: use `async with provider.chat_stream(...) as stream`,"
                " or `await provider.chat(...)` for the whole answer"
            )


class WrappedAnswer:
    """A `ChunkSource` that wraps another source. A subclass can replace the wrapped source before the first chunk.

    A subclass that changes chunks overrides `batches`. Other subclasses override only `_begin`, `_complete` and
    `_fail`.
    """

    def __init__(self, source: ChunkSource) -> None:
        self._source = source
        self._closed = False
        self.reply: Reply | None = None

    @property
    def warnings(self) -> tuple[ReplyWarning, ...]:
        return self._source.warnings

    @property
    def partial_tool_calls(self) -> tuple[PartialToolCall, ...]:
        return self._source.partial_tool_calls

    @property
    def context_window(self) -> int | None:
        return self._source.context_window

    @property
    def answer_id(self) -> str | None:
        """The provider's id of the answer, once it has arrived."""
        return self._source.answer_id

    async def batches(self, *, call_deltas: bool = False) -> AsyncGenerator[list[StreamChunk], None]:
        """Yields lists of chunks. Each list contains the chunks from one network read. Called once. See
        `ChunkSource.batches`."""
        await self._begin()
        if self._closed:
            return
        try:
            async with self._opened(call_deltas) as batches:
                async for batch in batches:
                    if self.reply is None and (reply := self._source.reply) is not None:
                        self.reply = await self._complete(reply)
                    yield batch
        except APIError as error:
            self._fail(error)
            raise

    async def _begin(self) -> None:
        """Called before the request is sent. A subclass may override this method to replace the wrapped source."""

    async def _complete(self, reply: Reply) -> Reply:
        """Returns the reply of this source, which a subclass may create from the wrapped source's reply. Called before
        the last chunk is delivered."""
        return reply

    def _fail(self, error: APIError) -> None:
        """Called before an error of the wrapped source is raised. A subclass may override this to change the error."""

    async def aclose(self) -> None:
        self._closed = True
        await self._source.aclose()

    def _opened(self, call_deltas: bool) -> aclosing[AsyncGenerator[list[StreamChunk], None]]:
        return aclosing(self._source.batches(call_deltas=call_deltas))
