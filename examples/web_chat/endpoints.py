"""Two chat endpoints, for the AI SDK and for AG-UI. A user approves the calls of their own chats, each once."""

from __future__ import annotations

import json
from collections.abc import Callable, MutableMapping, Sequence
from contextlib import aclosing
from typing import Any

from fastapi import APIRouter, Depends, HTTPException, Request
from fastapi.responses import StreamingResponse
from pydantic_core import from_json

from streamfold import ChatModel, ConfigError, StreamfoldError, Tool, ToolRun
from streamfold.tools import CallJournal
from streamfold_integrations import agui, aisdk

MAX_BODY = 10_000_000  # bytes


async def read_body(request: Request) -> Any:
    """Returns the parsed JSON of a request. Raises ValueError if it is invalid or nested too deeply."""
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise HTTPException(415, "the content type must be application/json")  # a form of another site can't send it
    body = bytearray()
    async with aclosing(request.stream()) as pieces:
        async for piece in pieces:
            body += piece
            if len(body) > MAX_BODY:
                raise HTTPException(413, "the conversation is too long")
    return from_json(bytes(body))


def chat_router(
    model: ChatModel,
    tools: Sequence[Tool],
    *,
    current_user: Callable[..., str],
    states: MutableMapping[tuple[str, str], str],
    journal: CallJournal,
) -> APIRouter:
    """Returns the endpoints `/api/chat` (AI SDK) and `/agent` (AG-UI).

    Args:
        current_user: a dependency of FastAPI that returns the user's id: from the session or a token, never from the
            body.
        states: the state of the last run of each chat, by user and chat, until the run ends. Never send it to a client.
        journal: records which tool calls were started: an approval that is sent twice runs its tool once.
    """
    router = APIRouter()

    def known_user(user: str = Depends(current_user)) -> str:
        if not user:  # all users share the empty owner
            raise HTTPException(401)
        return user

    def start(asked: aisdk.ChatRequest | agui.AgentRequest, external: Sequence[Tool] = ()) -> ToolRun:
        chat = (asked.owner, asked.id)  # the client chose the chat's id, which another user may have, too
        run = asked.run(
            model,
            tools,
            state=states.get(chat),
            journal=journal,
            external=external,
            instructions="Be brief.",
        )
        if not is_last(run):
            states[chat] = run.dump()  # this replaces an older run, whose approvals are no longer valid
        return run

    def is_last(run: ToolRun) -> bool:
        state = states.get((run.owner, run.chat_id))
        return state is not None and json.loads(state)["run_id"] == run.id

    def save(run: ToolRun) -> None:  # in a database: compare and write in one transaction
        if not is_last(run):
            raise StreamfoldError("the user sent a new message, so this run is not saved")
        states[run.owner, run.chat_id] = run.dump()

    def forget(run: ToolRun) -> None:
        if is_last(run):
            del states[run.owner, run.chat_id]

    @router.post("/api/chat")  # useChat({ transport: new DefaultChatTransport({ api: "/api/chat" }) })
    async def chat(request: Request, user: str = Depends(known_user)) -> StreamingResponse:
        try:
            asked = aisdk.read_request(await read_body(request), owner=user)
            run = start(asked)
        except (ConfigError, ValueError) as error:  # ValueError: the body isn't JSON
            raise HTTPException(400, str(error)) from error
        body = aisdk.stream(run, message_id=asked.message_id, on_pause=save, on_end=forget)
        return StreamingResponse(body, headers=dict(aisdk.HEADERS))

    @router.post("/agent")  # new HttpAgent({ url: "/agent" })
    async def agent(request: Request, user: str = Depends(known_user)) -> StreamingResponse:
        try:
            asked = agui.read_request(await read_body(request), owner=user)
            run = start(asked, external=asked.tools)  # the tools that the client runs itself
        except (ConfigError, ValueError) as error:
            raise HTTPException(400, str(error)) from error
        body = agui.stream(run, asked, on_pause=save, on_end=forget)
        return StreamingResponse(body, headers=dict(agui.HEADERS))

    return router
