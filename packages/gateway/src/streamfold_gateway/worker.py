"""The ASGI app of one worker process of `streamfold serve`, and how the process starts and stops.

On SIGTERM and SIGINT, a granian worker closes its port, completes the responses in flight and ends the app's lifespan.
But the gateway must accept requests for `drain` seconds after SIGTERM. So this app handles SIGTERM itself, and raises
SIGINT when these seconds have passed.
"""

from __future__ import annotations

import asyncio
import logging
import multiprocessing
import os
import signal
from contextlib import suppress
from pathlib import Path
from typing import Any

from .apis import CLIENT_APIS
from .app import Gateway
from .config import GatewaySettings
from .factory import GatewayPage, preload
from .metrics import forget_dead_processes
from .models import ModelRouter
from .request_body import Receive
from .request_log import one_line
from .response_stream import Send

METRICS = "metrics"
"""The folder in the shared folder in which the workers count."""

STOPPING = "stopping"
"""The file in the shared folder with a byte for each signal that told the server to stop."""

_READ_ON_SECONDS = 1.0  # seconds for which open connections may still send requests
_LISTENS = 0.1  # seconds after lifespan startup until granian certainly listens on the port
_LOOK = 0.5  # seconds between two checks whether the main process is alive
_DROPPED = 15.0  # seconds for the rest of a request body after the response has ended

log = logging.getLogger("streamfold.gateway")


class Worker:
    """The app that granian serves in a worker process.

    Args:
        gateway: the app that handles requests.
        settings: the settings of the server, such as `drain` and `shutdown`.
        shared: the folder that the workers share.
        generation: the number of configuration reloads before this worker was started.
        page: a web page that the worker serves in addition to the gateway's endpoints.
    """

    def __init__(
        self, gateway: Gateway, settings: GatewaySettings, shared: Path, generation: int, page: GatewayPage | None
    ) -> None:
        self._gateway = gateway
        self._app = page.around(gateway) if page else gateway
        self._page = page
        self._settings = settings
        self._shared = shared
        self._generation = generation
        self._answers: set[asyncio.Task[Any] | None] = set()
        self._stopping: asyncio.Task[None] | None = None
        self._signals = 0
        self._hurry = asyncio.Event()
        self._closes_connections = self._out_of_time = False

    async def __call__(self, scope: Any, receive: Receive, send: Send) -> None:
        await (self._run_lifespan if scope["type"] == "lifespan" else self._answer)(scope, receive, send)

    async def _answer(self, scope: Any, receive: Receive, send: Send) -> None:
        """Handles an HTTP request. If the response ends before the request body, receives the rest of the body and
        drops it.

        Otherwise granian's HTTP library would close the connection, and a client that is still sending would get no
        response.
        """
        whole = not any(name in (b"content-length", b"transfer-encoding") for name, _ in scope["headers"])

        async def receive_body() -> Any:
            nonlocal whole
            message = await receive()
            whole = whole or not message.get("more_body")
            return message

        async def send_answer(message: Any) -> None:
            if message["type"] == "http.response.start":
                if self._closes_connections:
                    message = {**message, "headers": [*message["headers"], (b"connection", b"close")]}
            elif not whole and not message.get("more_body"):
                await send({**message, "more_body": True})
                with suppress(TimeoutError):
                    async with asyncio.timeout(_DROPPED):
                        while not whole:
                            await receive_body()
                message = {"type": "http.response.body", "body": b"", "more_body": False}
            await send(message)

        task = asyncio.current_task()
        self._answers.add(task)
        try:
            await self._app(scope, receive_body, send_answer)
        except asyncio.CancelledError:
            if not self._out_of_time:  # after `shutdown` seconds, the client has received an error instead
                raise
        finally:
            self._answers.discard(task)

    async def _run_lifespan(self, scope: Any, receive: Receive, send: Send) -> None:
        loop = asyncio.get_running_loop()

        async def receive_event() -> Any:
            event = await receive()
            if event["type"] == "lifespan.startup":
                await preload(self._gateway)
                with suppress(NotImplementedError):  # event loops on Windows have no signal handlers
                    loop.add_signal_handler(signal.SIGTERM, self._stop)
            else:
                while self._gateway.running and not self._out_of_time:  # noqa: ASYNC110 - in the background
                    await asyncio.sleep(0.05)
                if self._stopping is not None:
                    self._stopping.cancel()
            return event

        async def send_event(event: Any) -> None:
            await send(event)
            if event["type"] == "lifespan.startup.complete":
                loop.call_later(_LISTENS, self._announce)
                self._watch_main_process()

        await self._app(scope, receive_event, send_event)

    def _announce(self) -> None:
        log.info("worker %d is ready", os.getpid())
        with suppress(FileExistsError):  # another worker has already logged this
            self._ready(self._generation).touch(exist_ok=False)
            _log_served(self._gateway.models, self._settings, self._page)
        if self._settings.metrics and os.name == "posix":
            forget_dead_processes(self._shared / METRICS)

    def _ready(self, generation: int) -> Path:
        return self._shared / f"ready-{generation}"

    def _watch_main_process(self) -> None:
        main = multiprocessing.parent_process()
        if main is None or (os.getppid() == main.pid and main.is_alive()):
            asyncio.get_running_loop().call_later(_LOOK, self._watch_main_process)
        else:
            log.error("the main process has died: worker %d stops too", os.getpid())
            (self._shared / STOPPING).write_bytes(b".")
            self._stop()

    def _stop(self) -> None:
        """Begins to stop the worker. A second stop signal ends the current wait (`drain` or `shutdown`)."""
        signals = stop_signals(self._shared)
        if self._stopping is None:
            self._stopping = asyncio.create_task(self._stop_in_order())
        elif signals > self._signals > 0:
            self._hurry.set()
        self._signals = signals

    async def _stop_in_order(self) -> None:
        for _ in range(600):  # waits up to a minute until the worker that replaces this one listens
            if stop_signals(self._shared) or self._ready(self._generation + 1).exists():
                break
            await asyncio.sleep(0.1)
        if stop_signals(self._shared):
            self._gateway.draining = True
            await self._wait(self._settings.drain)
        self._gateway.draining = self._closes_connections = True
        await self._wait(_READ_ON_SECONDS)
        log.info("worker %d stops, with %d responses in flight", os.getpid(), self._gateway.running)
        signal.raise_signal(signal.SIGINT)
        await self._wait(self._settings.shutdown)
        self._out_of_time = True
        for answer in self._answers:
            if answer is not None:
                answer.cancel()

    async def _wait(self, seconds: float) -> None:
        self._hurry.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._hurry.wait()


def stop_signals(shared: Path) -> int:
    """Returns the number of stop signals that the server has received so far."""
    try:
        return (shared / STOPPING).stat().st_size
    except FileNotFoundError:
        return 0


class OneLine(logging.Filter):
    """Escapes line ends and control characters in log messages, which may contain text from clients and providers."""

    def filter(self, record: logging.LogRecord) -> bool:
        record.msg, record.args = one_line(record.getMessage()), ()
        return True


def log_config() -> dict[str, Any]:
    """Returns the logging configuration for `logging.config.dictConfig`."""
    line = {"class": "logging.StreamHandler", "formatter": "line", "filters": ["one_line"]}
    bare = {"class": "logging.StreamHandler", "formatter": "bare", "stream": "ext://sys.stdout"}
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "filters": {"one_line": {"()": OneLine}},
        "formatters": {"line": {"format": "%(levelname)-8s %(message)s"}, "bare": {"format": "%(message)s"}},
        "handlers": {"line": line, "bare": bare},
        "loggers": {
            "_granian": {"handlers": ["line"], "propagate": False},
            # The gateway's own log lines already contain the library's retries and warnings, with the request's id.
            "streamfold": {"handlers": ["line"], "level": "ERROR", "propagate": False},
            "streamfold.gateway": {"level": "INFO"},
            "streamfold.stores": {"level": "WARNING"},  # warnings of stores don't belong to a request
            "streamfold.limits": {"level": "WARNING"},
            "streamfold.transport": {"level": "INFO"},  # which HTTP library sends, for each provider
            # For programs: each line is one JSON object.
            "streamfold.gateway.requests": {"handlers": ["bare"], "level": "INFO", "propagate": False},
        },
    }


def _log_served(models: ModelRouter, settings: GatewaySettings, page: GatewayPage | None) -> None:
    endpoints = [
        endpoint
        for api in CLIENT_APIS
        for endpoint in api.endpoints
        if not (endpoint.count_member or endpoint.compacts)
    ]
    paths = [each.path.removeprefix("/v1") for each in endpoints if each.path.startswith("/v1/")]
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    here = f"http://{host}:{settings.port}"
    log.info("Base URL for clients: %s/v1 (%s, /models); health check: /healthz", here, ", ".join(paths))
    log.info("Base URL for Google's and Anthropic's clients: %s", here)
    if page:
        log.info("Page with the last responses: %s%s", here, page.path)
    log.info("Models: %s", ", ".join(models.describe()))
    for problem in models.problems():
        log.warning("%s, and restart the server. Until then, requests to this provider get HTTP 500", problem)
