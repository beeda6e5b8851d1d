"""Two chat endpoints, for the AI SDK and for AG-UI. A user approves the calls of their own chats, each once."""

from __future__ import annotations

import json
from collections.abc import Callable, MutableMapping, Sequence

from fastapi import APIRouter, Depends, HTTPException, Request
from fastapi.responses import StreamingResponse

from streamfold import ChatModel, ConfigError, StreamfoldError, Tool, ToolRun
from streamfold.integrations import agui, aisdk
from streamfold.tools import CallJournal


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
        states: the state of the last run of each chat, by user and chat, until it ends. The client sees none of them.
        journal: records which calls were started: an approval that is sent twice runs its call once.
    """
    router = APIRouter()

    def start(asked: aisdk.ChatRequest | agui.AgentRequest, external: Sequence[Tool] = ()) -> ToolRun:
        chat = (asked.owner, asked.id)  # the client chose the chat's id: it is unique for one user only
        run = asked.run(
            model,
            tools,
            state=states.get(chat),
            journal=journal,
            external=external,
            instructions="Be brief.",
        )
        if not is_last(run):
            states[chat] = run.dump()  # the person went on: what was to be approved is void
        return run

    def is_last(run: ToolRun) -> bool:
        state = states.get((run.owner, run.chat_id))
        return state is not None and json.loads(state)["run_id"] == run.id

    def save(run: ToolRun) -> None:  # of a database: compare and write in one transaction
        if not is_last(run):
            raise StreamfoldError("the person went on without this run, which is not saved")
        states[run.owner, run.chat_id] = run.dump()

    def forget(run: ToolRun) -> None:
        if is_last(run):
            del states[run.owner, run.chat_id]

    @router.post("/api/chat")  # useChat({ transport: new DefaultChatTransport({ api: "/api/chat" }) })
    async def chat(request: Request, user: str = Depends(current_user)) -> StreamingResponse:
        try:
            asked = aisdk.read_request(await request.json(), owner=user)
            run = start(asked)
        except (ConfigError, ValueError) as error:  # ValueError: the body isn't JSON
            raise HTTPException(400, str(error)) from error
        body = aisdk.stream(run, message_id=asked.message_id, on_pause=save, on_end=forget)
        return StreamingResponse(body, headers=dict(aisdk.HEADERS))

    @router.post("/agent")  # new HttpAgent({ url: "/agent" })
    async def agent(request: Request, user: str = Depends(current_user)) -> StreamingResponse:
        try:
            asked = agui.read_request(await request.json(), owner=user)
            run = start(asked, external=asked.tools)  # the tools that the client runs itself
        except (ConfigError, ValueError) as error:
            raise HTTPException(400, str(error)) from error
        body = agui.stream(run, asked, on_pause=save, on_end=forget)
        return StreamingResponse(body, headers=dict(agui.HEADERS))

    return router
