"""The paths of kept responses, as an ASGI app in front of the gateway's own endpoint for the Responses API.

https://platform.openai.com/docs/api-reference/responses is the API. A request is changed as little as possible and then
answered by the gateway as any other: what it refers to is written into its input, and what says how it is to be kept is
taken out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import anyio
from starlette.datastructures import Headers, QueryParams
from starlette.routing import Route

from ...adapters.emitting import json_text
from ...adapters.responses import response_skeleton
from ...values import index
from ..background import Background
from ..bodies import Receive
from ..failures import LONGEST_HEADER, refused
from ..handler import RequestHandler
from ..sink import EventSink, Send, send_json
from ..wire import Wire
from .asking import Handler, Request, parsed, relay, replayed, while_there
from .conversation import Conversation, input_items, listed_item, not_found
from .running import Attached, Running
from .store import KeptResponse, ResponseStore

__all__ = ["KeptResponses"]

_POLL = 0.25  # seconds between two looks at an answer that another process makes
_WATCH = 1.0  # seconds between two looks whether another process has given an answer up
_PATIENCE = 20  # looks at an answer that another process was asked to give up
_PAGE = 20  # items, unless the client says otherwise
_OURS = ("previous_response_id", "background")  # members that say how a response is kept


class KeptResponses:
    """Answers the requests of the Responses API, and keeps what it answered.

    Responses are kept unless a request says `store: false`. One that says `store: true` or `background: true` goes on
    when its client has left; any other is given up, as everywhere.
    """

    def __init__(self, handler: RequestHandler, background: Background, wire: Wire, store: ResponseStore) -> None:
        self._handler = handler
        self._background = background
        self._wire = wire
        self._store = store
        self._running: dict[str, Running] = {}

    def routes(self) -> list[Route]:
        """Returns the paths that are served."""
        one = f"{self._wire.path}/{{response_id}}"
        return [
            Route(self._wire.path, _Endpoint(self, self._create), methods=["POST"]),
            Route(one, _Endpoint(self, self._get), methods=["GET"]),
            Route(one, _Endpoint(self, self._delete), methods=["DELETE"]),
            Route(f"{one}/cancel", _Endpoint(self, self._cancel), methods=["POST"]),
            Route(f"{one}/input_items", _Endpoint(self, self._input_items), methods=["GET"]),
        ]

    async def answer(self, handle: Handler, scope: Any, receive: Receive, send: Send) -> None:
        """Answers one request, with an error in the API's form if need be."""
        log = self._handler.log(self._wire)
        async with self._handler.refusing(self._wire, send, log) as guarded:
            await handle(Request(scope, receive, guarded, self._handler.access.check(scope), log))

    # --- new responses ------------------------------------------------------------------------------------------------

    async def _create(self, asked: Request) -> None:
        with self._handler.bodies.held() as held:
            raw = await held.read(Headers(scope=asked.scope), asked.receive)
        body = await parsed(raw)
        if body is None or (body.get("store") is False and not any(body.get(name) for name in _OURS)):
            await self._pass_on(asked, raw, asked.send)
            return
        if body.get("background") and body.get("store") is False:
            raise refused(400, "background needs store: true: nobody waits for the answer, so it has to be kept")
        sent, items = await self._expanded(body, asked.caller)
        if body.get("store") is False:
            await self._pass_on(asked, json_text(sent).encode(), asked.send)
            return
        previous = body.get("previous_response_id")
        about = {"store": True, "background": bool(body.get("background")), "previous_response_id": previous}
        kept = KeptResponse(asked.log.id, asked.caller, items, previous, {})
        if body.get("store") or body.get("background"):
            await self._detached(asked, sent, kept, about)
        else:
            attached = Attached(asked.send, self._store, kept, about)
            await self._pass_on(asked, json_text(sent).encode(), attached.send)

    async def _expanded(self, body: Mapping[str, Any], caller: str) -> tuple[dict[str, Any], list[Any]]:
        """Returns the body that the gateway is to answer, and the request's own items."""
        conversation = Conversation(self._store, caller)
        sent = {name: value for name, value in body.items() if name not in (*_OURS, "store")}
        items = await conversation.resolved(input_items(body.get("input")))
        previous = body.get("previous_response_id")
        if previous is not None and not isinstance(previous, str):
            raise refused(400, "previous_response_id must be a string")
        if previous:
            sent["input"] = [*await conversation.before(previous), *items]
        elif isinstance(body.get("input"), list):
            sent["input"] = items
        return {**sent, "store": False}, items

    async def _pass_on(self, asked: Request, body: bytes, send: Send) -> None:
        await self._handler.answer(self._wire, asked.scope, replayed(body, asked.receive), send, answer_id=asked.log.id)

    async def _detached(
        self, asked: Request, sent: dict[str, Any], kept: KeptResponse, about: Mapping[str, Any]
    ) -> None:
        """Has the answer made by a task of its own, and reads along for as long as the client is there."""
        body = json_text({**sent, "stream": True}).encode()
        self._handler.check(self._wire, body, asked.scope, asked.log, asked.client)  # its mistakes are not for later
        head = {"id": kept.id, "created_at": asked.created, "model": sent["model"], "status": "queued"}
        kept = replace(kept, response={**response_skeleton(sent), **head, **about})
        running = self._running[kept.id] = Running(self._store, kept, about)
        await self._store.put(kept)
        async with self._background.tasks() as tasks:
            tasks.start_soon(self._make, running, asked.scope, body)
            if sent.get("stream"):
                await self._follow(asked, kept.id, -1)
            elif about["background"]:
                await send_json(asked.send, 200, kept.response, self._wire.headers(kept.id))
            else:
                await while_there(asked.receive, self._wait(running, asked))

    async def _make(self, running: Running, scope: Any, body: bytes) -> None:
        response_id = running.kept.id
        try:
            receive = replayed(body, running.receive)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._watch, running)
                await self._handler.answer(self._wire, scope, receive, running.send, answer_id=response_id)
                tasks.cancel_scope.cancel()
        except Exception:  # it is the task of nobody: its failure must not end the answers of others
            running.log_failure()
        finally:
            with anyio.CancelScope(shield=True):
                await running.finish()
                del self._running[response_id]

    async def _watch(self, running: Running) -> None:
        """Gives an answer up when another process was asked to."""
        wanted = True
        while wanted:
            await anyio.sleep(_WATCH)
            wanted = await self._store.wanted(running.kept.id)
        await running.cancel()

    async def _wait(self, running: Running, asked: Request) -> None:
        while not running.ended:
            await running.next_change(running.events[-1].number if running.events else -1)
        response, headers = running.kept.response, self._wire.headers(asked.log.id)
        if running.refused is not None:
            await relay(asked.send, running.refused)
        elif response["status"] == "failed":
            status = index(response["error"].get("status")) or 502
            await send_json(asked.send, status, {"error": response["error"]}, headers)
        else:
            warnings = "; ".join(said.removeprefix("streamfold warning ") for said in running.events[-1].comments)
            headers |= {"x-streamfold-warnings": warnings[:LONGEST_HEADER]} if warnings else {}
            await send_json(asked.send, 200, response, headers)

    # --- responses that are kept --------------------------------------------------------------------------------------

    async def _get(self, asked: Request) -> None:
        kept, query = await self._kept(asked), QueryParams(asked.scope["query_string"])
        if query.get("stream") not in ("true", "1"):
            await send_json(asked.send, 200, kept.response, self._wire.headers(asked.log.id))
            return
        if not kept.resumable:
            raise refused(400, "stream: this response was not streamed, so that there are no events of it")
        after = query.get("starting_after", "-1")
        if not after.removeprefix("-").isdecimal():
            raise refused(400, f"starting_after must be a whole number, not {after[:100]!r}")
        await self._follow(asked, kept.id, int(after))

    async def _delete(self, asked: Request) -> None:
        kept = await self._kept(asked)
        if (running := self._running.get(kept.id)) is not None:
            await running.cancel()
        await self._store.delete(kept.id, asked.caller)
        body = {"id": kept.id, "object": "response", "deleted": True}
        await send_json(asked.send, 200, body, self._wire.headers(asked.log.id))

    async def _cancel(self, asked: Request) -> None:
        kept = await self._kept(asked)
        if (running := self._running.get(kept.id)) is not None:
            await running.cancel()
            kept = running.kept
        elif not kept.ended:  # another process makes it
            await self._store.cancel(kept.id)
            for _ in range(_PATIENCE):
                await anyio.sleep(_POLL)
                if (kept := await self._kept(asked)).ended:
                    break
        await send_json(asked.send, 200, kept.response, self._wire.headers(asked.log.id))

    async def _input_items(self, asked: Request) -> None:
        kept, query = await self._kept(asked), QueryParams(asked.scope["query_string"])
        before = await Conversation(self._store, asked.caller).before(kept.previous) if kept.previous else []
        items = [listed_item(item, f"item_{kept.id}_{at}") for at, item in enumerate([*before, *kept.items])]
        if query.get("order", "desc") == "desc":
            items.reverse()
        ids = [item["id"] for item in items]
        start = ids.index(query["after"]) + 1 if query.get("after") in ids else 0
        limit = min(100, max(1, index(query.get("limit")) or _PAGE))
        page = items[start : start + limit]
        ends = {"first_id": page[0]["id"], "last_id": page[-1]["id"]} if page else {"first_id": None, "last_id": None}
        body = {"object": "list", "data": page, **ends, "has_more": start + limit < len(items)}
        await send_json(asked.send, 200, body, self._wire.headers(asked.log.id))

    async def _kept(self, asked: Request) -> KeptResponse:
        response_id = asked.scope["path_params"]["response_id"]
        kept = await self._store.get(response_id, asked.caller)
        if kept is None:
            raise not_found(response_id)
        return kept

    async def _follow(self, asked: Request, response_id: str, after: int) -> None:
        """Writes the events of a response to a client, those that are there and those that come."""
        headers = self._wire.headers(response_id)
        sink = EventSink(asked.send, headers, self._handler.options.keepalive, self._wire.keep_alive)

        async def write() -> None:
            at = after
            while not sink.ended:
                running = self._running.get(response_id)
                if running is not None:
                    await running.next_change(at)
                    if running.refused is not None:
                        await relay(asked.send, running.refused)
                        return
                    ended, events = running.ended, [kept for kept in running.events if kept.number > at]
                else:
                    kept = await self._store.get(response_id, asked.caller)  # first: it may end in between
                    ended = kept is None or kept.ended
                    events = await self._store.events(response_id, at)
                if events:
                    at = events[-1].number
                    await sink.write(b"".join(kept.data for kept in events), last=events[-1].last)
                elif ended:
                    await sink.write(b"", last=True)
                elif running is None:
                    await anyio.sleep(_POLL)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(sink.keep_alive)
            await while_there(asked.receive, write())
            tasks.cancel_scope.cancel()


class _Endpoint:
    """One path, as an ASGI app. Starlette would call a function with a request that it has read."""

    def __init__(self, responses: KeptResponses, handle: Handler) -> None:
        self._responses = responses
        self._handle = handle

    async def __call__(self, scope: Any, receive: Receive, send: Send) -> None:
        await self._responses.answer(self._handle, scope, receive, send)
