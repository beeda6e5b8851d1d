"""The web page with the gateway's latest responses, as an ASGI app around the gateway."""

from __future__ import annotations

import re
from collections.abc import Collection
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import anyio.to_thread
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route

from streamfold import ConfigError, Hooks

from ..inspection import document
from .page_access import PageAccess
from .recent_answers import RecentAnswers, WatchedAnswer
from .views import AnswerSummary, recording_of, timeline

_PREFIX = "/ui"
_NAME = re.compile(r"[A-Za-z0-9_][\w.-]{0,99}", re.ASCII)
_COMMON = {
    "cache-control": "no-store",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}
# The HTML contains a policy with hashes of its script and style. `frame-ancestors` works only as a header.
_PAGE = {**_COMMON, "content-security-policy": "frame-ancestors 'none'"}


class LivePage:
    """Observes the providers of a gateway, and shows their responses on the page `/ui`.

    Args:
        answers: the maximum number of responses in memory.
        most_bytes: the maximum size of all response bodies in memory together, in bytes.
        keys: the keys with which a browser may open the page. Without keys, only a browser on the server's machine can
            open the page, with a token in the URL.
        fixtures: the folder in which the page saves responses as fixtures.

    Attributes:
        hooks: the provider hooks, for `gateway(hooks=...)`.
        path: the URL path of the page, with its token if it has one.
    """

    def __init__(
        self,
        *,
        answers: int = 50,
        most_bytes: int = 64 * 2**20,
        keys: Collection[str] = (),
        fixtures: str | Path = "fixtures/gateway",
    ) -> None:
        self._watch = RecentAnswers(answers, most_bytes)
        self._viewers = PageAccess(keys)
        self._fixtures = Path(fixtures)
        self._glances: dict[int, AnswerSummary] = {}
        self.hooks: Hooks = self._watch.hooks
        self.path = f"{_PREFIX}?token={self._viewers.token}" if self._viewers.token else _PREFIX
        self._app = Starlette(
            routes=[
                Route(_PREFIX, self._show),
                Route(f"{_PREFIX}/answers", self._list),
                Route(f"{_PREFIX}/answers/{{number:int}}", self._timeline),
                Route(f"{_PREFIX}/answers/{{number:int}}/fixture", self._save, methods=["POST"]),
            ],
            exception_handlers={HTTPException: _error},  # type: ignore[dict-item]
        )

    def around(self, app: Any) -> Any:
        """Returns an ASGI app that serves the page, and passes all other requests to `app`."""

        async def serve(scope: Any, receive: Any, send: Any) -> None:
            path = scope.get("path", "").removeprefix(scope.get("root_path", ""))
            ours = scope["type"] == "http" and (path == _PREFIX or path.startswith(f"{_PREFIX}/"))
            await (self._app if ours else app)(scope, receive, send)

        return serve

    async def _show(self, request: Request) -> Response:
        self._viewers.check(request.scope)
        return HTMLResponse(_page(), headers={**_PAGE, **self._viewers.cookie(request.scope)})

    async def _list(self, request: Request) -> Response:
        """Returns the responses whose `version` is later than `since`, and the numbers of all stored responses."""
        self._viewers.check(request.scope)
        given, kept = request.query_params.get("since", ""), self._watch.all()
        since = int(given) if given.isascii() and given.isdigit() and len(given) < 16 else -1
        numbers = [watched.number for watched in kept]
        self._glances = {number: glance for number, glance in self._glances.items() if number in set(numbers)}
        changed = [
            self._glances.setdefault(watched.number, AnswerSummary(watched)).line()
            for watched in kept
            if watched.version > since
        ]
        data = {"clock": self._watch.clock, "numbers": numbers, "changed": changed}
        return JSONResponse(data, headers=_COMMON)

    async def _timeline(self, request: Request) -> Response:
        self._viewers.check(request.scope)
        page = await anyio.to_thread.run_sync(timeline, self._found(request))
        return HTMLResponse(page, headers=_PAGE)

    async def _save(self, request: Request) -> Response:
        self._viewers.check(request.scope)
        watched, name = self._found(request), request.query_params.get("name", "")
        if not _NAME.fullmatch(name):
            raise HTTPException(400, "a fixture name has at most 100 characters: letters, digits, _, . and -")
        if watched.ended is None:
            raise HTTPException(409, "the response isn't complete yet")
        if not watched.pieces or watched.dropped:
            raise HTTPException(409, "the response has no body, or is too large to be stored")
        path = await anyio.to_thread.run_sync(self._write, watched, name)
        return JSONResponse({"saved": str(path)}, 201, headers=_COMMON)

    def _write(self, watched: WatchedAnswer, name: str) -> Path:
        path = self._fixtures / name
        try:
            self._fixtures.mkdir(parents=True, exist_ok=True)
            recording_of(watched, name).save(path, replace_older=False)
        except FileExistsError:
            raise HTTPException(409, f"the fixture {path} exists already") from None
        except (OSError, ConfigError) as exc:
            raise HTTPException(500, f"the fixture can't be written: {exc}") from exc
        return path

    def _found(self, request: Request) -> WatchedAnswer:
        if (watched := self._watch.find(request.path_params["number"])) is None:
            raise HTTPException(404, "this response is no longer stored")
        return watched


@cache
def _page() -> str:
    body, style, script = (
        files(__package__).joinpath("assets", f"page.{kind}").read_text("utf-8") for kind in ("html", "css", "js")
    )
    before, after = document(body, command="serve", title="gateway", style=style, script=script, connects=True)
    return f"{before}null{after}"


async def _error(_: Request, error: HTTPException) -> Response:
    return JSONResponse({"error": error.detail}, error.status_code, headers={**_COMMON, **(error.headers or {})})
