"""A chat in the browser: both protocols, two tools, one of which asks first."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from fastapi import FastAPI, HTTPException, Request, Response
from fastapi.responses import FileResponse, StreamingResponse
from fastapi.staticfiles import StaticFiles
from script import make_model

from streamfold import ChatModel, ConfigError, Provider, ToolRun, tool
from streamfold.integrations import agui, aisdk

STATIC = Path(__file__).parent / "static"
CONTENT = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'"


def make_app(model: ChatModel) -> FastAPI:
    """Returns the application."""
    app = FastAPI(title="Web chat", openapi_url=None)
    app.mount("/static", StaticFiles(directory=STATIC))
    app.state.notes = {"Shopping list": "milk, bread", "Ideas": "none yet"}
    states: dict[str, str] = {}  # of paused runs, by conversation; a real application keeps them in a database

    @tool
    def get_weather(city: str) -> dict[str, Any]:
        """Returns the weather in a city."""
        return {"city": city, "celsius": 18}

    @tool(needs_approval=True)
    def delete_note(title: str) -> str:
        """Deletes a note."""
        return "deleted" if app.state.notes.pop(title, None) else "there is no such note"

    tools = [get_weather, delete_note]

    def begin(asked: aisdk.ChatRequest | agui.AgentRequest) -> ToolRun:
        """Returns a new run, or the one that waits for these decisions. Only decisions are taken from the browser."""
        state = states.pop(asked.id, None) if asked.decisions else None
        if asked.decisions and state is None:
            raise HTTPException(409, "this was decided before")
        return asked.run(model, tools, state=state, instructions="Be brief.")

    async def body(run: ToolRun, chat: str, events: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """The events of a run; a run that pauses is kept before the browser has seen its end."""
        async for event in events:
            if run.pending:
                states[chat] = run.dump()
            yield event

    @app.post("/api/chat")
    async def chat(request: Request) -> Response:
        try:
            asked = aisdk.read_request(await request.json())
            run = begin(asked)
        except ConfigError as error:
            raise HTTPException(400, str(error)) from error
        events = body(run, asked.id, aisdk.stream(run, message_id=asked.message_id))
        return StreamingResponse(events, headers=dict(aisdk.HEADERS))

    @app.post("/agent")
    async def agent(request: Request) -> Response:
        try:
            asked = agui.read_request(await request.json())
            run = begin(asked)
        except ConfigError as error:
            raise HTTPException(400, str(error)) from error
        return StreamingResponse(body(run, asked.id, agui.stream(run, asked)), headers=dict(agui.HEADERS))

    @app.get("/")
    async def page() -> Response:
        return FileResponse(STATIC / "index.html", headers={"content-security-policy": CONTENT})

    return app


if __name__ == "__main__":
    import uvicorn

    chosen = os.environ.get("STREAMFOLD_PROVIDER")
    uvicorn.run(make_app(Provider.from_config(chosen) if chosen else make_model()), host="127.0.0.1", port=8080)
