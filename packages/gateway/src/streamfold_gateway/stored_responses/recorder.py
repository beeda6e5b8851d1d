"""Records the events of responses to store them, and limits the memory of all responses in progress."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import replace
from typing import Any

import anyio

from streamfold.adapters import Failure
from streamfold.serving import ResponsesSerializer, SerializedEvent, warning_comment
from streamfold.stores import StoreError
from streamfold.types import ErrorInfo

from ..http_errors import HTTPError, with_warning
from ..request_body import ClientGone
from ..response_stream import ResponseStream
from .store import ResponseStore, StoredResponse, interrupted_response

_PIECE = 64  # bytes of memory per fragment of text, in addition to its characters
_GATHERED = 2  # copies of the fragments: in the serializer and in the reply
_WRITTEN = 5  # copies of the complete text at the end: the text, three events that complete it, and the last event
_SMALL = 2**18  # bytes up to which a response is never paused
_AT_THE_END = 4  # copies of a text in the last events: three events that complete it, and the response object
TOO_LONG = "response_not_kept: the response is too long to be stored, so previous_response_id can't refer to it"
NO_EVENTS = "response_not_resumable: the response is too long to store its events"


class Recorder:
    """Records the events of a response while the gateway serializes them.

    Args:
        kept: the stored response, before its first event.
        serializer: the serializer of the response, with its option `records` set.

    Attributes:
        serializer: the serializer of the response; None after its memory has been freed.
        events: the serialized events that are in memory.
        held: the size of `events` in bytes.
        chars, pieces: the length of the output text so far, and the number of fragments in which it arrived.
        weight: the number of bytes that count towards the memory limit.
        may_wait: true if the response may be paused when the memory limit is reached.
        blocked: true if the response is paused because a subscriber reads slowly.
        resumable: true if the events are stored too, so that a client can resume the stream.
        state: the latest response object, as JSON.
        over: true if the final event has been recorded.
    """

    def __init__(
        self, responses: ResponseStore, memory: RecorderMemory, kept: StoredResponse, serializer: ResponsesSerializer
    ) -> None:
        self.kept = kept
        self.serializer: ResponsesSerializer | None = serializer
        self.events: list[SerializedEvent] = []
        self.held = self.chars = self.pieces = 0
        self.blocked = False
        self.resumable = kept.resumable
        self.state: bytes | memoryview = b""
        self.over = False
        self._responses = responses
        self._memory = memory
        memory.add(self)

    def record(self) -> list[SerializedEvent]:
        """Records the events that the serializer has made since the last call, and returns them."""
        events = [] if self.serializer is None else self.serializer.take_events()
        for event in events:
            if not self.over:
                self._add(event)
        return events

    def _add(self, event: SerializedEvent) -> None:
        if event.state:
            self.state, self.over = event.state, event.last
        if event.chars:
            self.chars, self.pieces = self.chars + event.chars, self.pieces + 1
        if self._holds:
            self.events.append(event)
            self._memory.count(self, len(event.data))
        to_come = _AT_THE_END * self.chars if event.chars else 0
        if self.resumable and self.held + to_come > self._responses.most:
            self.forget_events()

    def close(self) -> None:
        """Stops counting the response towards the memory limit."""
        self._memory.remove(self)

    def forget_events(self) -> None:
        """Drops the recorded events. From then on, only the response object is stored."""
        self.resumable = False
        self._release()

    @property
    def _holds(self) -> bool:
        return self.resumable

    def wake(self) -> None:
        """Makes a paused response check again whether it may continue."""

    @property
    def weight(self) -> int:
        return self.held

    @property
    def may_wait(self) -> bool:
        return False

    def _release(self) -> None:
        self.events = []
        self._memory.count(self, -self.held)

    async def _put(self, state: bytes | memoryview, events: list[SerializedEvent], **how: Any) -> bool:
        kept = replace(self.kept, resumable=self.resumable)
        return await self._responses.put(kept, state, events if self.resumable else (), **how)


class AttachedRecorder(Recorder):
    """Stores a response when it is complete. Cancels the response if its client disconnects.

    As an `AnswerOutput`, this class also sends the response to the client. It sends the last event only after it has
    stored the response, so that the client's next request can refer to the response.
    """

    def __init__(
        self,
        responses: ResponseStore,
        memory: RecorderMemory,
        kept: StoredResponse,
        serializer: ResponsesSerializer,
        client: ResponseStream,
    ) -> None:
        super().__init__(responses, memory, kept, serializer)
        self._client = client
        self.while_connected, self.leave = client.while_connected, client.leave

    @property
    def gone(self) -> bool:
        return self._client.gone

    @property
    def started(self) -> bool:
        return self._client.started

    async def write(self, data: bytes, *, last: bool = False) -> None:
        data += b"".join([event.data for event in self.record()])
        if last and (note := await self.save()):
            data = warning_comment(note) + data
        await self._client.write(data, last=last)

    async def send_json(self, status: int, body: Any, headers: Mapping[str, str]) -> None:
        self.record()
        note = await self.save() if self.over else ""
        await self._client.send_json(status, body, with_warning(headers, note))

    async def save(self) -> str:
        """Stores the response. Returns a warning for the client; "" if the response object and its events were
        stored.
        """
        streamed = self.kept.resumable
        try:
            for _ in range(2):
                if len(self.state) <= self._responses.most and await self._put(self.state, self.events, ended=True):
                    return NO_EVENTS if streamed and not self.resumable else ""
                self.forget_events()
        except StoreError as error:
            return f"response_not_kept: {error.message}"
        return TOO_LONG


class RecorderMemory:
    """Limits the memory of all responses in progress together. When the limit is reached, the largest responses drop
    their events. If that isn't enough, all background responses except the oldest are paused until memory is free.

    Args:
        size: the memory limit in bytes.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._events = 0
        self._making: dict[Recorder, None] = {}  # the oldest first
        self._full = False  # whether a response is paused

    def add(self, making: Recorder) -> None:
        self._making[making] = None

    def remove(self, making: Recorder) -> None:
        if making in self._making:
            del self._making[making]
            self._events -= making.held
            self.wake()

    def count(self, making: Recorder, more: int) -> None:
        """Adds the size of a response's events to the memory in use. Above the limit, drops events."""
        making.held += more
        if making not in self._making:
            return
        self._events += more
        if more > 0 and self._events > self._size:
            for each in sorted(self._making, key=lambda making: making.held, reverse=True):
                each.forget_events()
                if self._events <= self._size:
                    break
        elif more < 0:
            self.wake()

    def has_capacity(self, making: Recorder) -> bool:
        """Returns whether a response may continue without exceeding the memory limit."""
        if not making.may_wait or sum(each.weight for each in self._making) <= self._size:
            return True
        first = next(each for each in self._making if each is making or (each.may_wait and not each.blocked))
        self._full = self._full or first is not making
        return first is making

    def wake(self) -> None:
        """Wakes all paused responses, so that each checks whether it may continue."""
        if self._full:
            self._full = False
            for each in self._making:
                each.wake()


_BACKLOG = 2**20  # bytes of events that may wait for slow clients, if the events aren't stored


class Subscriber:
    """A client that receives the events of a running response.

    Attributes:
        at: the `sequence_number` of the last event that the client has received.
    """

    def __init__(self, at: int) -> None:
        self.at = at


class BackgroundResponse(Recorder):
    """Records a response that continues even if its client disconnects. Any number of subscribers may receive its
    events.

    Subscribers receive an event only after it has been stored. The provider's stream doesn't wait for a slow store.
    This class is an `AnswerOutput`.

    Args:
        background: true if the client's request has `background: true`.

    Attributes:
        gone: true if the response has been cancelled.
        forgotten: true if the response was deleted and must not be stored.
        refused: the error response, if the request failed before its first event and isn't a background request;
            otherwise None.
        done: true if no further event will follow.
        warnings: the warnings of the complete response.
        storage_warning: the warning for subscribers that the response object or its events couldn't be stored; "" if
            they were stored.
    """

    def __init__(
        self,
        responses: ResponseStore,
        memory: RecorderMemory,
        kept: StoredResponse,
        serializer: ResponsesSerializer,
        *,
        background: bool,
    ) -> None:
        super().__init__(responses, memory, kept, serializer)
        self.background = background
        self._followers: set[Subscriber] = set()
        self._users = 0
        self._closed = False
        self._told = -1
        self._last = -1  # the number of the last event
        self._shown: bytes | memoryview = b""  # the response object that subscribers have received
        self.gone = False
        self._making = anyio.CancelScope()
        self._grace = 0.0
        self._news = anyio.Event()
        self._changed = anyio.Event()
        self._saving = anyio.Lock()
        # The stored state, and whether the store has the events too.
        self._saved: tuple[bytes | memoryview, bool] = b"", True
        self.forgotten = self._not_stored = False
        self.warnings: list[str] = []
        self.storage_warning = ""
        self.refused: HTTPError | None = None
        self.done = False

    async def begin(self) -> bool:
        """Stores the response object before the first event. Returns False if it is too large."""
        self._not_stored = not await self._put(json.dumps(self.kept.response).encode(), [], ended=False)
        return not self._not_stored

    def close(self) -> None:
        """Stops counting the response towards the memory limit. Frees its memory when the last block of `used` has
        ended.
        """
        super().close()
        self._closed = True
        self._free_unused()

    @contextmanager
    def used(self) -> Iterator[None]:
        """Keeps the response in memory until the block ends, even if `close` is called earlier."""
        self._users += 1
        try:
            yield
        finally:
            self._users -= 1
            self._free_unused()

    def _free_unused(self) -> None:
        if self._closed and not self._users:  # because a cancelled task may keep a reference to the recorder
            self.serializer, self.events, self.state, self._shown = None, [], b"", b""

    # --- recording ----------------------------------------------------------------------------------------------------

    def _add(self, event: SerializedEvent) -> None:
        self._last = event.number
        if event.last:
            self.warnings = self.serializer.warnings if self.serializer is not None else []
        super()._add(event)
        self._news.set()

    @property
    def _holds(self) -> bool:
        return self.resumable or bool(self._followers)

    def forget_events(self) -> None:
        super().forget_events()
        self._omit_unneeded()

    def _omit_unneeded(self) -> None:
        if self.serializer is not None:
            self.serializer.omits_data = not self._holds

    @property
    def weight(self) -> int:
        return self.held + _GATHERED * (self.chars + _PIECE * self.pieces) + _WRITTEN * self.chars

    @property
    def may_wait(self) -> bool:
        return not self.over and self.weight > _SMALL

    def _release(self) -> None:
        left = self._behind(min((follower.at for follower in self._followers), default=self._last))
        freed, self.events = self.events[: len(self.events) - len(left)], left
        self._memory.count(self, -sum(len(event.data) for event in freed))

    def _behind(self, number: int) -> list[SerializedEvent]:
        return self.events[max(0, number + 1 - self.events[0].number) :] if self.events else []

    @asynccontextmanager
    async def while_connected(self, grace: float) -> AsyncIterator[None]:
        """Runs a block. `grace` seconds after the response was cancelled, cancels the block and raises ClientGone."""
        self._grace = grace
        with self._making:
            yield
        if self._making.cancelled_caught:
            raise ClientGone

    def leave(self) -> None:
        self.gone = True
        if self._grace:
            self._making.deadline = anyio.current_time() + self._grace
        else:
            self._making.cancel()

    @property
    def started(self) -> bool:
        return bool(self.state)

    async def write(self, data: bytes, *, last: bool = False) -> None:
        """Records the serialized events, and stores the end of the response. Waits while memory is short."""
        self.record()
        if last:
            await self.save()
        while not self.done:
            blocked, self.blocked = self.blocked, not self.resumable and self.held > _BACKLOG
            if self.blocked and not blocked:
                self._memory.wake()  # another response may continue instead
            elif self._memory.has_capacity(self) and not self.blocked:
                return
            else:
                await self._changed.wait()

    async def send_json(self, status: int, body: Any, headers: Mapping[str, str]) -> None:
        """Does nothing, because clients read the complete response from `response`."""

    async def save_continuously(self) -> None:
        """Stores events as they arrive, until the task is cancelled."""
        while True:
            await self._news.wait()
            self._news = anyio.Event()
            await self.save()

    # --- end ----------------------------------------------------------------------------------------------------------

    async def refuse(self, refusal: HTTPError) -> None:
        """Ends a response that failed before its first event. A background response gets the status "failed". For any
        other response, the client receives an HTTP error.
        """
        if self.background:
            info = refusal.info
            await self.fail(ErrorInfo(info.message, code=info.code or info.type or "server_error"))
            return
        self.forgotten = True
        await self._delete()  # before subscribers learn of the error, because they may fetch the response
        self.refused = refusal
        self._notify()

    async def fail(self, info: ErrorInfo) -> None:
        """Ends the response with an error event, unless it has ended already."""
        if self.serializer is not None and self.refused is None:
            self.serializer.feed(Failure(info))
            self.record()
        await self.save()

    async def cancel(self) -> None:
        """Cancels the response and its request to the provider. Stores the output received so far."""
        if self.serializer is not None and self.refused is None:
            self.serializer.cancel()
            self.record()
        self.leave()
        await self.save()

    async def forget(self) -> None:
        """Cancels the response without storing it."""
        self.forgotten = True
        await self.cancel()

    # --- storing and notifying ----------------------------------------------------------------------------------------

    async def save(self) -> None:
        """Stores the recorded events, then passes them to subscribers. If storing fails, sets `storage_warning`."""
        async with self._saving:
            while (last := self._last) > self._told:
                state = self.state
                await self._keep(self._behind(self._told))
                self._told, self._shown = last, state
                self._notify()

    async def _keep(self, events: list[SerializedEvent]) -> None:
        state, over = self.state, self.over
        if self.forgotten or self._not_stored:
            self.storage_warning = TOO_LONG if self._not_stored else ""
            return
        new = state if over or state is not self._saved[0] else b""
        head = over or self.resumable != self._saved[1]
        if head and self._saved[1] and not self.resumable:  # the stored events can't be resumed any more, but use space
            await self._delete()
            new = state
        self._saved = state, self.resumable
        fits = len(state) <= self._responses.most
        if not (fits and await self._put(new, events, ended=over, head=head)) and over:
            await self._keep_less(state, fits=fits)
        elif over and not self.resumable:
            self.storage_warning = NO_EVENTS

    async def _keep_less(self, state: bytes | memoryview, *, fits: bool) -> None:
        """Stores the response object without its events. If even the response object is too large, stores a background
        response as failed.
        """
        self.forget_events()
        await self._delete()
        if fits and await self._put(state, [], ended=True):
            self.storage_warning = NO_EVENTS
            return
        self.storage_warning = TOO_LONG
        if self.background:
            error = {"code": "response_too_long", "message": "the response is too long to be stored"}
            response, _ = interrupted_response(self.kept.response, [], "failed", error=error)
            await self._put(json.dumps(response).encode(), [], ended=True)

    async def _delete(self) -> None:
        with suppress(StoreError):  # the store is unavailable, and keeps the response without its end
            await self._responses.delete(self.kept.id, self.kept.owner)

    @property
    def response(self) -> dict[str, Any]:
        """The response object, as it was last stored."""
        read: dict[str, Any] = json.loads(str(self._shown, "utf-8")) if self._shown else self.kept.response
        return read

    @contextmanager
    def followed(self, after: int) -> Iterator[Subscriber]:
        """Yields a new subscriber. It receives the events with a `sequence_number` greater than `after`."""
        follower = Subscriber(after)
        self.record()
        self._followers.add(follower)
        self._omit_unneeded()
        try:
            with self.used():
                yield follower
        finally:
            self._followers.discard(follower)
            self._omit_unneeded()
            if not self.resumable:
                self._release()
            self.wake()

    async def next_events(self, follower: Subscriber) -> list[SerializedEvent]:
        """Waits for a subscriber's next events and returns them. Returns an empty list at the end of the response."""
        while True:
            found, size = list[SerializedEvent](), 0
            for event in self._behind(follower.at):
                if event.number > self._told or size > _BACKLOG:
                    break
                found.append(event)
                size += len(event.data)
            if found or self.done:
                return found
            await self._changed.wait()

    def done_by(self, event: SerializedEvent) -> bool:
        """Returns whether the response ends with this event."""
        return self.done and event.number == self._last

    async def until_done(self) -> None:
        """Waits until the response has ended."""
        while not self.done:
            await self._changed.wait()

    def as_kept(self) -> StoredResponse:
        """Returns the response as `ResponseStore.get` would return it, with the output received so far."""
        return replace(self.kept, response=self.response, resumable=self.resumable)

    def acknowledge(self, follower: Subscriber, events: list[SerializedEvent]) -> None:
        """Records that a subscriber has received these events."""
        follower.at = events[-1].number
        if not self.resumable:
            self._release()
            self.wake()

    def _notify(self) -> None:
        self.done = self.refused is not None or (self.over and self._told == self._last)
        if not self.resumable:
            self._release()
        self.wake()

    def wake(self) -> None:
        """Checks whether the paused response and its waiting subscribers may continue."""
        changed, self._changed = self._changed, anyio.Event()
        changed.set()
