"""A chat in the browser: both protocols, two tools, one of which needs an approval."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from endpoints import chat_router
from fastapi import FastAPI, Request, Response
from fastapi.responses import FileResponse
from fastapi.staticfiles import StaticFiles
from script import make_model

from streamfold import ChatModel, Provider, tool
from streamfold.tools import StoreJournal

STATIC = Path(__file__).parent / "static"
CONTENT = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'"


def current_user(request: Request) -> str:
    """Returns the user. Everybody is the same one here; a real application reads its session."""
    return "me"


def make_app(model: ChatModel) -> FastAPI:
    """Returns the application."""
    app = FastAPI(title="Web chat", openapi_url=None)
    app.mount("/static", StaticFiles(directory=STATIC))
    app.state.notes = {"Shopping list": "milk, bread", "Ideas": "none yet"}

    @tool
    def get_weather(city: str) -> dict[str, Any]:
        """Returns the weather in a city."""
        return {"city": city, "celsius": 18}

    @tool(needs_approval=True)
    def delete_note(title: str) -> str:
        """Deletes a note."""
        return "deleted" if app.state.notes.pop(title, None) else "there is no such note"

    # A real application keeps states and journal in a database, so that they outlive the process.
    states: dict[tuple[str, str], str] = {}
    journal = StoreJournal("memory")
    app.include_router(
        chat_router(model, [get_weather, delete_note], current_user=current_user, states=states, journal=journal)
    )

    @app.get("/")
    async def page() -> Response:
        return FileResponse(STATIC / "index.html", headers={"content-security-policy": CONTENT})

    return app


if __name__ == "__main__":
    import uvicorn

    chosen = os.environ.get("STREAMFOLD_PROVIDER")
    uvicorn.run(make_app(Provider.from_config(chosen) if chosen else make_model()), host="127.0.0.1", port=8080)
