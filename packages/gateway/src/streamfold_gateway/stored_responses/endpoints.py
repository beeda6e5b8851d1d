"""HTTP endpoints for stored responses: https://platform.openai.com/docs/api-reference/responses.

The endpoint for new responses replaces each reference in a request with stored items, and then handles the request like
any other.
"""

from __future__ import annotations

import logging
import re
from dataclasses import replace
from typing import Any

import anyio
from starlette.datastructures import Headers, QueryParams
from starlette.routing import Route

from streamfold.serving import ResponsesSerializer, new_response_object, warning_comment
from streamfold.stores import StoreError
from streamfold.turn_cache import named_end_user
from streamfold.types import ErrorInfo

from ..apis import RESPONSES_API, ClientRequest
from ..handler import Answer, AppTaskGroup, IncomingRequest, RequestHandler
from ..http_errors import HTTPError, http_error, with_warning
from ..rate_limits import Meter
from ..request_body import ClientGone, RequestBody
from ..request_log import RequestLog
from ..response_stream import ResponseStream
from .recorder import AttachedRecorder, BackgroundResponse, RecorderMemory
from .references import ReferenceResolver, input_items, listed_item
from .store import ResponseStore, StoredResponse

_POLL = 0.25  # seconds between two reads of a response that runs in another process
_WATCH = 1.0  # seconds between two checks whether another process has cancelled a response
_PATIENCE = 20  # maximum number of reads while another process cancels a response
_LOST = 120  # failed reads from a store after which a client's stream of events ends
_PAGE = 20  # default number of items in a page
_NUMBER = re.compile(r"-?[0-9]{1,18}")
_OURS = ("previous_response_id", "background")  # fields that the gateway handles itself

_logger = logging.getLogger("streamfold.gateway")


class StoredResponses:
    """The endpoints of the Responses API that create, read, cancel and delete stored responses.

    A response is stored unless its request has `store: false`. If the request has `store: true` or `background: true`,
    the response continues after its client has disconnected. Otherwise, the gateway cancels a response whose client
    disconnects.
    """

    def __init__(self, handler: RequestHandler, background: AppTaskGroup, responses: ResponseStore) -> None:
        self._handler = handler
        self._background = background
        self._responses = responses
        self._memory = RecorderMemory(responses.size)
        self._running: dict[str, BackgroundResponse] = {}

    def routes(self) -> list[Route]:
        """Returns the routes of the endpoints that read, cancel and delete stored responses."""
        api, endpoint = RESPONSES_API, RESPONSES_API.endpoints[0]
        one = f"{endpoint.path}/{{response_id}}"
        return [
            self._handler.make_route(one, "GET", self._get, api, endpoint),
            self._handler.make_route(one, "DELETE", self._delete, api, endpoint),
            self._handler.make_route(f"{one}/cancel", "POST", self._cancel, api, endpoint),
            self._handler.make_route(f"{one}/input_items", "GET", self._input_items, api, endpoint),
        ]

    # --- new responses ------------------------------------------------------------------------------------------------

    async def create(self, incoming: IncomingRequest) -> None:
        """Handles a request for a new response, and stores the response unless the request has `store: false`."""
        async with self._handler.body(incoming) as body:
            payload: dict[str, Any] = body.value if isinstance(body.value, dict) else {"store": False}
            stored, background = payload.get("store"), bool(payload.get("background"))
            if stored is False and not any(payload.get(name) for name in _OURS):
                await self._handler.reply(incoming, body)
                return
            if background and stored is False:
                raise http_error(400, "background: true can't be combined with store: false")
            items, user = await self._expand(incoming, body)
            if stored is False:
                await self._handler.reply(incoming, body)
                return
            previous = payload.get("previous_response_id")
            name, owner = incoming.log.id, incoming.client.id
            about = {"store": True, "background": background, "previous_response_id": previous}
            continues = bool(stored or background)
            resumable = continues or bool(payload.get("stream"))
            request = replace(await self._handler.parse(incoming, body), stored=about)
            kept = StoredResponse(name, owner, items, previous, {}, resumable, user=user)
            if continues:  # the task has its own log, because it may outlive the client's HTTP request
                request = replace(request, stream=True, log=replace(request.log))
            request = self._handler.adapt(request)
            serializer = RESPONSES_API.serializer(request, self._handler.options)
            if not continues:
                recorder = AttachedRecorder(self._responses, self._memory, kept, serializer, incoming.response)
                try:
                    await self._handler.send_reply(incoming, request, serializer, recorder)
                finally:
                    recorder.close()
                return
            head = {"id": name, "created_at": request.created, "model": request.model, "status": "queued"}
            kept = replace(kept, response={**new_response_object(request.body), **head, **about})
            running = BackgroundResponse(self._responses, self._memory, kept, serializer, background=background)
        await self._detached(incoming, request, serializer, running, body.size)

    async def compact(self, incoming: IncomingRequest) -> None:
        """Handles a request to compact a conversation, which may continue a stored response. Stores nothing."""
        async with self._handler.body(incoming) as body:
            if isinstance(body.value, dict):
                await self._expand(incoming, body)
            await self._handler.reply(incoming, body)

    async def _expand(self, incoming: IncomingRequest, body: RequestBody) -> tuple[list[Any], str]:
        """Replaces the references in a request's body with the stored items that they name.

        Returns:
            The input items of the request itself, and the end user that it names.
        """
        payload = body.value
        user = named_end_user(payload, Headers(scope=incoming.scope), explicit=True)
        conversation = ReferenceResolver(self._responses, incoming.client.id, user, body.grow)
        sent = {name: value for name, value in payload.items() if name not in (*_OURS, "store")}
        items = await conversation.resolved(input_items(payload.get("input")))
        previous = payload.get("previous_response_id")
        if previous is not None and not isinstance(previous, str):
            raise http_error(400, "previous_response_id must be a string")
        if previous:
            sent["input"] = [*await conversation.earlier_items(previous), *items]
        elif isinstance(payload.get("input"), list):
            sent["input"] = items
        body.value = {**sent, "store": False}
        return items, user

    async def _detached(
        self,
        incoming: IncomingRequest,
        request: ClientRequest,
        serializer: ResponsesSerializer,
        running: BackgroundResponse,
        size: int,
    ) -> None:
        """Starts a task that completes the response even if the client disconnects, and sends the response to the
        client as it arrives.
        """
        meter: Meter | None = None
        try:
            # Rejects the request if a limit is reached, because requests aren't queued.
            meter = await self._handler.rate_limits.reserve(request)
            if not await running.begin() and running.background:
                raise http_error(413, "background: the request is too large to be stored")
        except BaseException:
            running.close()
            if meter is not None:
                await meter.aclose()
            raise
        self._running[running.kept.id] = running
        answer = Answer(request, serializer, running, meter, self._handler.options)
        async with self._background.tasks() as tasks:
            tasks.start_soon(self._make, running, answer, request.log, size)
            if request.body.get("stream"):
                await self._follow(incoming, running.kept.id, -1)
            elif running.background:
                headers = RESPONSES_API.headers(running.kept.id)
                await incoming.response.send_json(200, running.kept.response, headers)
            else:
                async with incoming.response.while_connected():
                    await self._wait(running, incoming)

    async def _make(self, running: BackgroundResponse, answer: Answer, log: RequestLog, size: int) -> None:
        try:
            with self._handler.capacity.occupied(size):
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(running.save_continuously)
                    tasks.start_soon(self._watch, running)
                    try:
                        await answer.send()
                    except HTTPError as refusal:
                        log.failed(refusal)
                        await running.refuse(refusal)
                    except ClientGone:
                        log.disconnected()
                    tasks.cancel_scope.cancel()
        except Exception:  # a failure in the app's task group would cancel other responses
            _logger.exception("%s: failed: unexpected error", running.kept.id)
        finally:
            with anyio.CancelScope(shield=True):
                await running.fail(ErrorInfo("the answer broke off", code="server_error"))
            running.close()
            del self._running[running.kept.id]

    async def _watch(self, running: BackgroundResponse) -> None:
        wanted = None
        while wanted is None:
            await anyio.sleep(_WATCH)
            wanted = await self._responses.pending_cancellation(running.kept)
        await (running.cancel() if wanted == "cancelled" else running.forget())

    async def _wait(self, running: BackgroundResponse, incoming: IncomingRequest) -> None:
        with running.used():
            await running.until_done()
            response, headers = running.response, RESPONSES_API.headers(running.kept.id)
        if running.refused is not None:
            await incoming.response.send_json(*RESPONSES_API.error_response(running.refused, incoming.log.id))
            return
        if response["status"] == "failed":
            status = _number(response["error"].get("status")) or 502
            await incoming.response.send_json(status, {"error": response["error"]}, headers)
            return
        warnings = "; ".join([*running.warnings, *([running.storage_warning] if running.storage_warning else [])])
        await incoming.response.send_json(200, response, with_warning(headers, warnings))

    # --- stored responses --------------------------------------------------------------------------------------------

    async def _get(self, incoming: IncomingRequest) -> None:
        kept, query = await self._kept(incoming), QueryParams(incoming.scope["query_string"])
        if query.get("stream") not in ("true", "1"):
            await incoming.response.send_json(200, kept.response, RESPONSES_API.headers(incoming.log.id))
            return
        if not kept.resumable:
            raise http_error(
                400, "stream: the events of this response aren't stored: it was not streamed, or it is too long"
            )
        after = query.get("starting_after", "-1")
        if not _NUMBER.fullmatch(after):
            raise http_error(400, f"starting_after must be a whole number, not {after[:100]!r}")
        await self._follow(incoming, kept.id, int(after))

    async def _delete(self, incoming: IncomingRequest) -> None:
        kept, late = await self._kept(incoming), False
        if (running := self._running.get(kept.id)) is not None:
            await running.forget()
        elif not kept.ended:
            late = not (await self._cancelled(incoming, kept)).ended
        await self._responses.delete(kept.id, kept.owner)
        if late:
            await self._responses.cancel(kept)  # so that the process that runs the response stops storing it
        body = {"id": kept.id, "object": "response", "deleted": True}
        await incoming.response.send_json(200, body, RESPONSES_API.headers(incoming.log.id))

    async def _cancel(self, incoming: IncomingRequest) -> None:
        kept = await self._kept(incoming)
        if (running := self._running.get(kept.id)) is not None:
            with running.used():
                await running.cancel()
                kept = running.as_kept()
        elif not kept.ended:
            kept = await self._cancelled(incoming, kept)
        await incoming.response.send_json(200, kept.response, RESPONSES_API.headers(incoming.log.id))

    async def _cancelled(self, incoming: IncomingRequest, kept: StoredResponse) -> StoredResponse:
        """Asks the process that runs a response to cancel it, and waits for up to five seconds."""
        await self._responses.cancel(kept)
        for _ in range(_PATIENCE):
            await anyio.sleep(_POLL)
            if (kept := await self._kept(incoming)).ended:
                break
        return kept

    async def _input_items(self, incoming: IncomingRequest) -> None:
        kept, query = await self._kept(incoming), QueryParams(incoming.scope["query_string"])
        conversation = ReferenceResolver(self._responses, incoming.client.id, kept.user)
        before = await conversation.earlier_items(kept.previous) if kept.previous else []
        items = [listed_item(item, f"item_{kept.id}_{at}") for at, item in enumerate([*before, *kept.items])]
        if query.get("order", "desc") == "desc":
            items.reverse()
        ids = [item["id"] for item in items]
        start = ids.index(query["after"]) + 1 if query.get("after") in ids else 0
        limit = min(100, max(1, _number(query.get("limit")) or _PAGE))
        page = items[start : start + limit]
        ends = {"first_id": page[0]["id"], "last_id": page[-1]["id"]} if page else {"first_id": None, "last_id": None}
        body = {"object": "list", "data": page, **ends, "has_more": start + limit < len(items)}
        await incoming.response.send_json(200, body, RESPONSES_API.headers(incoming.log.id))

    async def _kept(self, incoming: IncomingRequest) -> StoredResponse:
        response_id, scope = incoming.scope["path_params"]["response_id"], incoming.scope
        # These requests name no end user: a client with the owner's key and the id may see the response.
        user = named_end_user(QueryParams(scope["query_string"]), Headers(scope=scope), explicit=True) or None
        running = self._running.get(response_id)
        if running is not None and running.kept.owner == incoming.client.id and not running.forgotten:
            kept: StoredResponse | None = running.as_kept() if user in (None, running.kept.user) else None
        else:
            kept = await self._responses.get(response_id, incoming.client.id, user)
        if kept is None:
            raise http_error(404, f"there is no response {response_id[:200]!r}: it has expired, or was never stored")
        return kept

    async def _follow(self, incoming: IncomingRequest, response_id: str, after: int) -> None:
        headers, response = RESPONSES_API.headers(response_id), incoming.response
        response.stream_events(headers, self._handler.options.keepalive, RESPONSES_API.keep_alive)
        async with response.while_connected():
            if (running := self._running.get(response_id)) is not None:
                await self._read_along(running, incoming, after)
            else:
                await self._read(response, response_id, incoming.client.id, after)

    async def _read_along(self, running: BackgroundResponse, incoming: IncomingRequest, after: int) -> None:
        """Sends the client the events of a response that runs in this process."""
        response = incoming.response
        with running.followed(after) as follower:
            while events := await running.next_events(follower):
                data = b"".join([event.data for event in events])
                last = running.done_by(events[-1])
                if last and running.storage_warning:
                    data = warning_comment(running.storage_warning) + data
                await response.write(data, last=last)
                running.acknowledge(follower, events)
        if running.refused is not None:
            await response.send_json(*RESPONSES_API.error_response(running.refused, incoming.log.id))
        else:
            await response.write(b"", last=True)

    async def _read(self, response: ResponseStream, response_id: str, owner: str, after: int) -> None:
        """Sends the client the events of a response that has ended, or that runs in another process."""
        at, looks = after, 0
        while not response.ended:
            try:
                kept = await self._responses.get(response_id, owner)  # before its events, because it may end meanwhile
                events = await self._responses.events(kept, at) if kept is not None else []
            except StoreError:
                if not response.started:
                    raise
                kept, events, looks = None, [], looks + 1
                if looks < _LOST:  # the store may be available again soon, and the response hasn't ended
                    await anyio.sleep(_POLL)
                    continue
            if events:
                at = events[-1].number
                await response.write(b"".join([event.data for event in events]))
            if kept is None or kept.ended:
                await response.write(b"", last=True)
            elif not events:
                await anyio.sleep(_POLL)


def _number(value: object) -> int | None:
    text = str(value)
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else None
