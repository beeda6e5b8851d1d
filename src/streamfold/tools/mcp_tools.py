"""`McpTools`: the tools of an MCP server as `Tool`s, by means of the official MCP SDK (extra `mcp`)."""

from __future__ import annotations

import logging
import os
import re
import shlex
import sys
import threading
import unicodedata
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from contextvars import ContextVar
from dataclasses import replace
from importlib import import_module, metadata
from inspect import isawaitable
from math import inf
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeAlias
from urllib.parse import urlsplit

import anyio
import anyio.abc
import anyio.to_thread

from ..engine.dialects import any_special_token
from ..errors import ConfigError, StreamfoldError, did_you_mean
from ..net import Redactor, secrets_in_headers, secrets_in_url
from ..types import (
    Message,
    NeedsApproval,
    Tool,
    assistant,
    mcp_content,
    mcp_member,
    mcp_resource,
    read_mcp_result,
    user,
)
from ..urls import shown_url

if TYPE_CHECKING:
    from mcp import ClientSession

OnProgress: TypeAlias = Callable[[str, float, float | None, str | None], object | Awaitable[object]]

_MAX_RESTARTS = 3  # restarts in a row without a successful tool call
_MAX_TEXT = 4_000  # characters of a description, and of an error
_MAX_TOOLS = 10_000
_MAX_EVENT = 64 * 2**20  # bytes of a message over HTTP
_MAX_ERROR_OUTPUT = 16_384  # bytes of a server's standard error that are kept
_LAST_LINES = 5  # lines of standard error in an error message
_CLOSE_SECONDS = 10.0  # a server has 2 seconds to end, and 2 more after SIGTERM
_NAME = re.compile(r"[\w./:-]{1,128}")
_CONNECTION_LOST = (-32000, -32600, 32600)  # the SDK's codes for a closed connection and an ended session
_WORD_JOINER = "\u2060"  # invisible, and no special token has one

_logger = logging.getLogger("streamfold.tools")


class McpServerError(StreamfoldError):
    """An MCP server couldn't be started or reached, or it returned an error."""


class McpTools:
    """The tools of an MCP server. An instance is an async context manager, and iterating over it yields `Tool`s.

        async with McpTools(["uvx", "mcp-server-git"]) as git, McpTools(url="https://example.com/mcp") as web:
            reply = await run_tools(provider, "What changed last?", [git, web, get_weather])

    If the server changes its list of tools, `run_tools` uses the new list from the next turn on. In the example,
    `[*git]` is a list of the tools that the server offers now.

    If the server stops, the next tool call restarts it. After three restarts without a successful tool call, the server
    isn't restarted again. If a tool call fails or takes too long, or the server stops meanwhile, the model receives an
    error message as the result. Cancelling a tool call also cancels it on the server.

    The model treats a server's tool descriptions as instructions. Use only servers that you trust, and set
    `needs_approval` for dangerous tools. streamfold cuts descriptions after 4,000 characters, replaces control
    characters by visible characters, and escapes special tokens.

    Args:
        command: a command that starts an MCP server on its standard input and output. The server's process receives
            only a few environment variables (`PATH`, `HOME`, ...) and the variables in `env`.
        url: the URL of a server that uses streamable HTTP.
        env: additional environment variables for the command, such as secrets.
        cwd: the working directory of the command.
        headers: HTTP headers for the URL, such as `{"Authorization": "Bearer ..."}`.
        http_client: an `httpx.AsyncClient` to use instead of `headers`, or an `httpx2.AsyncClient` for version 2 of the
            MCP SDK. Your program must close the client.
        prefix: a text to insert before the name of each tool, needed if two servers have tools with the same name.
        allowed_tools: the names of the tools that the model may call, without the prefix. By default, the model may
            call all tools.
        needs_approval: True, False or a function, as for `Tool`, or the list of tools that need approval, by their
            names without the prefix.
        connect_timeout: the maximum time for starting the server and listing its tools, in seconds.
        call_timeout: the maximum time for a tool call, in seconds. None disables the limit.
        on_progress: a synchronous or async function that is called when a tool reports its progress. The arguments are
            the tool's name, the progress, the total or None, and a message or None.
        sampling_callback: a function that handles the server's sampling requests, as for the SDK's `ClientSession`.
            Without this function, streamfold refuses sampling requests.
        elicitation_callback: a function that handles the server's questions to the user, as for the SDK's
            `ClientSession`.

    Raises:
        ConfigError: the arguments are invalid, the package `mcp` isn't installed, or the server doesn't offer a tool in
            `allowed_tools`.
        McpServerError: `async with` couldn't start or reach the server.
    """

    def __init__(
        self,
        command: Sequence[str] | None = None,
        *,
        url: str | None = None,
        env: Mapping[str, str] | None = None,
        cwd: str | PathLike[str] | None = None,
        headers: Mapping[str, str] | None = None,
        http_client: object = None,
        prefix: str = "",
        allowed_tools: Collection[str] | None = None,
        needs_approval: NeedsApproval | Collection[str] = False,
        connect_timeout: float = 30.0,
        call_timeout: float | None = 120.0,
        on_progress: OnProgress | None = None,
        sampling_callback: Callable[..., Awaitable[object]] | None = None,
        elicitation_callback: Callable[..., Awaitable[object]] | None = None,
    ) -> None:
        if (command is None) == (url is None):
            raise ConfigError("McpTools needs either a command or a url")
        if isinstance(command, str) or (command is not None and len(command) == 0):
            raise ConfigError(f"McpTools: command must be a list of the program and its arguments, not {command!r}")
        if isinstance(allowed_tools, str) or isinstance(needs_approval, str):
            raise ConfigError("McpTools: allowed_tools and needs_approval must be a list of names, not a string")
        if url is not None and secrets_in_url(url):
            raise ConfigError(
                "McpTools: the url contains a password or a query, which logs would show: pass secrets in headers="
            )
        if url is not None and (env is not None or cwd is not None):
            raise ConfigError("McpTools: env and cwd are only for a command")
        if command is not None and (headers is not None or http_client is not None):
            raise ConfigError("McpTools: headers and http_client are only for a url")
        self._command = tuple(command or ())
        self._url = url
        self._env = dict(env) if env is not None else None
        self._cwd = cwd
        self._headers = dict(headers or {})
        self._http_client = http_client
        self._prefix = prefix
        self._allowed = allowed_tools
        self._needs_approval = needs_approval
        self._connect_timeout = connect_timeout
        self._call_timeout = call_timeout
        self._on_progress = on_progress
        self._callbacks = {"sampling_callback": sampling_callback, "elicitation_callback": elicitation_callback}
        name = urlsplit(url).hostname or "" if url is not None else Path(self._command[0]).name
        self._label = prefix.strip("_-.") or name
        self._address = shown_url(url) if url is not None else _shown_command(self._command)
        secrets = [*(env or {}).values(), *secrets_in_headers(self._headers.items()), *self._headers.values()]
        self._redactor = Redactor(secrets, guess=True)
        self._tools: tuple[Tool, ...] = ()
        self._group: anyio.abc.TaskGroup | None = None
        self._connection: _Connection | None = None
        self._connecting = anyio.Lock()
        self._error_output: _ErrorOutput | None = None  # of a command
        self._restarts = 0

    def __repr__(self) -> str:
        return f"<McpTools {self._label}>"

    def __iter__(self) -> Iterator[Tool]:
        if self._group is None:
            raise ConfigError(f"the tools of {self!r} are available only inside `async with McpTools(...) as tools`")
        return iter(self._tools)

    def __len__(self) -> int:
        return len(self._tools)

    @property
    def session(self) -> ClientSession:
        """The MCP SDK's `ClientSession`, for features of MCP that this class doesn't support. After a restart of the
        server, the property returns a new session.
        """
        if self._connection is None:
            raise ConfigError(f"the session of {self!r} is available only inside `async with McpTools(...) as tools`")
        return self._connection.session

    async def __aenter__(self) -> Self:
        if self._group is not None:
            raise ConfigError(f"{self!r} was entered already")
        self._group = anyio.create_task_group()
        await self._group.__aenter__()
        try:
            await self._connect(self._group)
            known = (await self._connected()).names
            for name in self._allowed or ():
                if name not in known:
                    raise ConfigError(f"{self!r} has no tool {name!r}{did_you_mean(name, known)}")
        except BaseException:
            await self.aclose()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Closes the session and stops the server. Only the task that entered the context manager may call `aclose`."""
        group, self._group = self._group, None
        if group is None:
            return
        group.cancel_scope.shield = True  # the server has to be ended when the caller is cancelled, too
        if self._connection is not None:
            with anyio.move_on_after(_CLOSE_SECONDS):
                self._connection.close()
                await self._connection.ended.wait()
        group.cancel_scope.cancel()
        await group.__aexit__(None, None, None)

    async def read_resource(self, uri: str) -> Message:
        """Reads a resource from the server, and returns it as a user message. Raises McpServerError."""
        result = await self._request(lambda client: client.read_resource(uri))
        parts = [mcp_resource(contents) for contents in result.contents]
        return user(*parts)

    async def get_prompt(self, name: str, /, **arguments: str) -> list[Message]:
        """Gets a prompt from the server, and returns it as messages. Raises McpServerError."""
        result = await self._request(lambda client: client.get_prompt(name, arguments))
        messages = []
        for message in result.messages:
            content = mcp_content([message.content])
            if message.role == "assistant" and isinstance(content, str):
                messages.append(assistant(content))
            else:
                messages.append(user(content))
        return messages

    async def _request(self, send: Callable[[Any], Awaitable[Any]]) -> Any:
        try:
            connection = await self._connected()
            with anyio.fail_after(self._call_timeout):
                result = await connection.request(send)
        except McpServerError:
            raise
        except TimeoutError:
            raise self._error(f"did not answer within {self._call_timeout:g} seconds") from None
        except Exception as error:
            raise self._error(f"failed: {self._explain(error)}") from None  # the SDK's error may hold secrets
        self._restarts = 0
        return result

    async def _connected(self) -> _Connection:
        async with self._connecting:
            if self._connection is None or self._group is None:
                raise ConfigError(f"{self!r} was closed")
            if self._connection.lost:
                if self._command and self._restarts >= _MAX_RESTARTS:
                    raise self._error(f"stopped, and was restarted {_MAX_RESTARTS} times")
                self._restarts += 1
                await self._connection.ended.wait()
                await self._connect(self._group)
            return self._connection

    async def _connect(self, group: anyio.abc.TaskGroup) -> None:
        self._connection = connection = _Connection(self)
        started = anyio.current_time()
        try:
            await group.start(connection.run)
        except StreamfoldError:
            raise
        except Exception as error:
            if isinstance(error, TimeoutError):
                # A 1.x client and a 2.x server over stdio, for example: the server ignores what it doesn't understand.
                why = (
                    f"no answer within {self._connect_timeout:g} seconds. Set connect_timeout= if it needs more time. A"
                    f" server of another version of MCP may never answer: mcp {metadata.version('mcp')} is installed"
                )
            else:
                why = f"failed after {anyio.current_time() - started:.1f} seconds: {self._explain(error)}"
            if self._error_output is not None:
                lines = self._error_output.last_lines(self._redactor)
                why += "\nIts standard error ends with:\n" if lines else "; the server wrote nothing to standard error"
                why += "\n".join(lines)
            raise self._error(f"can't be reached ({self._address}): {why}") from None

    @asynccontextmanager
    async def _open_streams(self) -> AsyncIterator[tuple[Any, Any]]:
        sdk = _sdk()
        if self._command:
            command, *arguments = self._command
            server = sdk.StdioServerParameters(command=command, args=arguments, env=self._env, cwd=self._cwd)
            self._error_output = output = _ErrorOutput()
            try:
                async with sdk.stdio_client(server, errlog=output.file) as streams:
                    output.file.close()  # the server has it now
                    yield streams
            finally:
                await output.end()
            return
        from mcp.client.streamable_http import streamable_http_client

        async with AsyncExitStack() as stack:
            client: Any = self._http_client
            is_version_2 = hasattr(sdk, "Client")
            options: dict[str, Any] = {"max_sse_event_size": _MAX_EVENT} if is_version_2 else {}
            if client is None:
                http = import_module("httpx2" if is_version_2 else "httpx")
                timeout = http.Timeout(30, read=None)  # calls have their own timeout
                client = await stack.enter_async_context(http.AsyncClient(headers=self._headers, timeout=timeout))
            read, write, *_ = await stack.enter_async_context(
                streamable_http_client(self._url or "", http_client=client, **options)
            )
            yield read, write

    def _set_tools(self, described: Sequence[Any]) -> None:
        tools: dict[str, Tool] = {}
        for description in described:
            name = description.name
            if self._allowed is not None and name not in self._allowed:
                continue
            approval = self._needs_approval
            if not isinstance(approval, bool) and not callable(approval):
                approval = name in approval
            try:
                tool = Tool.from_mcp(description, function=self._function(name), needs_approval=approval)
                if not _NAME.fullmatch(name) or name in tools:
                    raise ConfigError("the tool's name is invalid, or another tool has the same name")
            except ConfigError as error:
                _logger.warning("%r: the tool %s is left out: %s", self, ascii(name[:200]), _plain_text(str(error)))
                continue
            about, schema = _plain_text(tool.description), _plain_schema(tool.parameters)
            tools[name] = replace(tool, name=f"{self._prefix}{name}", description=about, parameters=schema)
        self._tools = tuple(tools.values())

    def _function(self, name: str) -> Callable[..., Awaitable[Any]]:
        on_progress = self._on_progress

        async def report(progress: float, total: float | None, message: str | None) -> None:
            if on_progress is not None and isawaitable(done := on_progress(name, progress, total, message)):
                await done

        async def call(**arguments: Any) -> Any:
            listener = report if on_progress is not None else None
            try:
                result = await self._request(
                    lambda client: client.call_tool(name, arguments, progress_callback=listener)
                )
            except McpServerError as error:
                _logger.warning("a call of the MCP tool %s: %s", name, error)
                text = str(error).partition("\n")[0]  # the rest is standard error, which isn't for the model
            else:
                read = read_mcp_result(result)
                if read is None or not read.error or not isinstance(read.content, str):
                    return result
                text = self._redactor.text(read.content)
            content = [{"type": "text", "text": text}]
            return _sdk().types.CallToolResult.model_validate({"content": content, "isError": True})

        return call

    def _error(self, what: str) -> McpServerError:
        return McpServerError(f"the MCP server {self._label} {_plain_text(self._redactor.text(what))}")

    def _explain(self, error: BaseException) -> str:
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        if (answered := getattr(error, "error", None)) is not None:
            text = str(answered.message)
        elif hasattr(error, "error_count"):  # pydantic's errors quote the answer
            text = "the server's response violates the protocol"
        else:
            text = str(error) or type(error).__name__
        return _plain_text(self._redactor.text(text))


class _Connection:
    """A session with a server. A separate task keeps the session open.

    Attributes:
        lost: True if the server has stopped, or the session was closed.
        ended: an event that is set when the task and the server's process have ended.
        names: the names of all tools, without the prefix.
    """

    def __init__(self, tools: McpTools) -> None:
        self.lost = False
        self.ended = anyio.Event()
        self.names: list[str] = []
        self.session: ClientSession
        self._owner = tools
        self._client: Any = None  # the session, or in version 2 the `Client` around it
        self._wake = anyio.Event()
        self._has_tools = False
        self._changes = 0
        self._listed: anyio.Event | None = None  # set when the list has been read again; None if it is up to date
        self._requests: set[anyio.CancelScope] = set()

    async def run(self, *, task_status: anyio.abc.TaskStatus[None]) -> None:
        connected = False
        try:
            with anyio.CancelScope(deadline=anyio.current_time() + self._owner._connect_timeout) as scope:
                async with AsyncExitStack() as stack:
                    await self._open_session(stack)
                    await self._list()
                    scope.deadline, connected = inf, True
                    task_status.started()
                    while not self.lost:
                        await self._wake.wait()
                        self._wake = anyio.Event()
                        await self._list_again()
            if not connected:
                raise TimeoutError
        except Exception as error:
            if not connected:
                raise
            _logger.warning("the connection to %r is lost: %s", self._owner, self._owner._explain(error))
        finally:
            self.close()
            self.ended.set()

    def close(self) -> None:
        self.lost = True
        self._wake.set()
        for scope in tuple(self._requests):
            scope.cancel()

    async def request(self, send: Callable[[Any], Awaitable[Any]]) -> Any:
        with anyio.CancelScope() as scope:
            self._requests.add(scope)
            sent: list[Any] = []
            token = _sent_ids.set(sent)
            try:
                result = await send(self._client)
                if self._listed is not None:  # then the next turn has the new list
                    await self._listed.wait()
                return result
            except anyio.get_cancelled_exc_class():
                if sent and not self.lost:
                    with anyio.CancelScope(shield=True), anyio.move_on_after(1):
                        await self._cancel(sent[-1])
                raise
            except Exception as error:
                if not self.lost and getattr(getattr(error, "error", None), "code", None) not in _CONNECTION_LOST:
                    raise
                self.close()
            finally:
                _sent_ids.reset(token)
                self._requests.discard(scope)
        raise self._owner._error("stopped before it responded")

    async def _cancel(self, request_id: Any) -> None:
        # Version 2 of the SDK sends cancellations itself.
        types = _sdk().types
        params = types.CancelledNotificationParams(requestId=request_id, reason="cancelled by the caller")
        notification = types.CancelledNotification(method="notifications/cancelled", params=params)
        await self.session.send_notification(types.ClientNotification(notification))

    async def _open_session(self, stack: AsyncExitStack) -> None:
        sdk, callbacks = _sdk(), self._owner._callbacks
        if hasattr(sdk, "Client"):
            self._client = client = await stack.enter_async_context(
                sdk.Client(self._open_streams(), cache=None, **callbacks)
            )
            self.session, capabilities = client.session, client.server_capabilities
            if capabilities.tools is not None and capabilities.tools.list_changed:
                try:
                    await stack.enter_async_context(client.listen(tools_list_changed=True))
                except (RuntimeError, sdk.MCPError) as error:  # an earlier protocol, which sends changes unasked
                    _logger.debug("%r: no subscription: %s", self._owner, type(error).__name__)
        else:
            read, write = await stack.enter_async_context(self._open_streams())
            self._client = self.session = session = sdk.ClientSession(read, _RequestIds(write), **callbacks)
            await stack.enter_async_context(session)
            capabilities = (await session.initialize()).capabilities
        self._has_tools = capabilities.tools is not None

    @asynccontextmanager
    async def _open_streams(self) -> AsyncIterator[tuple[Any, Any]]:
        async with self._owner._open_streams() as (read, write):
            yield _WatchedStream(read, self._changed, self.close), write

    def _changed(self) -> None:
        self._changes += 1
        self._listed = self._listed or anyio.Event()
        self._wake.set()

    async def _list_again(self) -> None:
        # The list may change while its pages are read.
        while (listed := self._listed) is not None and not self.lost:
            changes = self._changes
            try:
                with anyio.fail_after(self._owner._connect_timeout):
                    await self._list()
            except Exception as error:
                _logger.warning("%r: the list of tools can't be read: %s", self._owner, self._owner._explain(error))
            self._listed = None if changes == self._changes else anyio.Event()
            listed.set()

    async def _list(self) -> None:
        described: list[Any] = []
        cursor: str | None = None
        seen: set[str] = set()
        while self._has_tools:
            params = None if cursor is None else _sdk().types.PaginatedRequestParams(cursor=cursor)
            page = await self.session.list_tools(params=params)
            described += page.tools
            cursor = mcp_member(page, "nextCursor", "next_cursor")
            if not cursor:
                break
            if cursor in seen or len(described) > _MAX_TOOLS:
                raise self._owner._error("returned too many pages of tools")
            seen.add(cursor)
        self.names = [description.name for description in described]
        self._owner._set_tools(described)


class _ErrorOutput:
    """Copies the standard error of a server's process to this process's standard error. Stores the last lines for error
    messages.

    A thread reads the pipe, because neither trio nor Windows can wait for a pipe asynchronously.
    """

    def __init__(self) -> None:
        self._source, target = os.pipe()
        self.file = os.fdopen(target, "w")
        self._kept = b""
        self._thread = threading.Thread(target=self._read, name="streamfold MCP stderr", daemon=True)
        self._thread.start()

    def _read(self) -> None:
        with os.fdopen(self._source, "rb", buffering=0) as source:
            while piece := source.read(65_536):
                self._kept = (self._kept + piece)[-_MAX_ERROR_OUTPUT:]
                # `sys.stderr` has no file in notebooks and under pytest. `sys.__stderr__` is None without a console.
                if sys.__stderr__ is not None:
                    with suppress(OSError, ValueError):  # standard error is closed
                        sys.__stderr__.buffer.write(piece)
                        sys.__stderr__.buffer.flush()

    async def end(self) -> None:
        # Child processes may keep the pipe open, so the wait has a limit.
        self.file.close()
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(self._thread.join, 1.0)

    def last_lines(self, redactor: Redactor) -> list[str]:
        lines = self._kept.decode("utf-8", "replace").splitlines()
        if len(self._kept) == _MAX_ERROR_OUTPUT:
            del lines[0]  # the beginning of this line is missing, and may be a secret's
        lines = redactor.text("\n".join(lines)).splitlines()
        return [line[:500] for line in lines if line.strip()][-_LAST_LINES:]


class _WrappedStream:
    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stream.aclose()


class _WatchedStream(_WrappedStream):
    def __init__(self, stream: Any, on_change: Callable[[], None], on_end: Callable[[], None]) -> None:
        super().__init__(stream)
        self._on_change = on_change
        self._on_end = on_end

    async def receive(self) -> Any:
        try:
            item = await self._stream.receive()
        except (anyio.EndOfStream, anyio.ClosedResourceError):
            self._on_end()
            raise
        message = getattr(item, "message", None)
        if getattr(getattr(message, "root", message), "method", None) == "notifications/tools/list_changed":
            self._on_change()
        return item

    async def __anext__(self) -> Any:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None

    def __aiter__(self) -> Self:
        return self


_sent_ids: ContextVar[list[Any] | None] = ContextVar("_sent_ids", default=None)


class _RequestIds(_WrappedStream):
    async def send(self, item: Any) -> None:
        if (sent := _sent_ids.get()) is not None and hasattr(item.message.root, "id"):
            sent.append(item.message.root.id)
        await self._stream.send(item)


def _sdk() -> Any:
    try:
        import mcp
    except ImportError as error:
        raise ConfigError('McpTools needs the package mcp: pip install "streamfold[mcp]"') from error
    return mcp


def _shown_command(command: Sequence[str]) -> str:
    """Returns a shortened command for log messages. Most arguments are left out, because they may be secrets.

    >>> _shown_command(["/usr/bin/python3", "server.py", "--key", "secret"]), _shown_command(["x", "--key=secret"])
    ('python3 server.py ...', 'x ...')
    >>> _shown_command(["npx", "-y", "@acme/server"]), _shown_command(["python", "-c", "print('secret')"])
    ('npx -y @acme/server', 'python -c ...')
    """
    shown = [Path(command[0]).name if command else ""]
    for word in command[1:]:
        if not (re.fullmatch(r"-\w+", word) or re.fullmatch(r"[\w@./\\:-]{1,200}", word)) or word.startswith("--"):
            break
        shown.append(word)
        if not word.startswith("-"):
            break
    return shlex.join(shown) + (" ..." if len(shown) < len(command) else "")


def _plain_text(text: str) -> str:
    if len(text) > _MAX_TEXT:
        text = text[:_MAX_TEXT] + "..."
    text = "".join(
        char if char in "\n\t" or unicodedata.category(char)[0] != "C" else char.encode("unicode_escape").decode()
        for char in text
    )
    tokens = any_special_token()
    while tokens.search(text):  # special tokens may overlap
        text = tokens.sub(lambda found: found[0][0] + _WORD_JOINER + found[0][1:], text)
    return text


def _plain_schema(schema: Any) -> Any:
    if isinstance(schema, Mapping):
        return {
            name: _plain_text(value)
            if name in ("description", "title", "$comment") and isinstance(value, str)
            else _plain_schema(value)
            for name, value in schema.items()
        }
    return [_plain_schema(item) for item in schema] if isinstance(schema, list) else schema
