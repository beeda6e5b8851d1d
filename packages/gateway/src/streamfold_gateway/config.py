"""Settings of the gateway. The same pydantic models validate the table `[gateway]`, the command line and the arguments
of `gateway()`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Annotated, Any, ClassVar

from pydantic import Field

from streamfold.config import (
    Count,
    Flag,
    KeyPath,
    Names,
    PackageTable,
    PositiveCount,
    PositiveNumber,
    Seconds,
    StoreName,
    Table,
    validated_by,
    variable_is_set,
)

from .client_members import chooses_destination


def _check_passthrough(paths: tuple[str, ...]) -> None:
    for path in paths:
        if chooses_destination(path):
            raise ValueError(f"{path!r} chooses a model, an address or an API key; such fields are never sent")


class KeyOptions(Table):
    """The rights of a client's key.

    Attributes:
        models: the models that the key may use, as names or patterns: `["main", "kimi:*"]`. The gateway rejects other
            models with a 404, and leaves them out of the list of models. To allow an alias, list the alias too.
        rpm: maximum requests per minute. The gateway rejects requests above this and the other limits with a 429.
        tpm: maximum input and output tokens per minute. Until a request's usage is known, the gateway reserves the
            average usage of earlier requests for it.
        max_concurrent: maximum number of simultaneous requests.
        max_cost_per_day: budget per day (UTC), in the currency of the providers' prices. When the budget is spent, the
            gateway rejects the key's requests until the next day.
        passthrough_members: undocumented request fields that the key may send: `["plugins"]`, or `["text.tone"]` for a
            nested field. By default, a key with `models` or a budget may send only fields that are documented for the
            client's API or for servers such as vLLM. The gateway never sends fields that choose a model, an address or
            an API key.
    """

    models: Names = ("*",)
    rpm: PositiveCount | None = None
    tpm: PositiveCount | None = None
    max_concurrent: PositiveCount | None = None
    max_cost_per_day: PositiveNumber | None = None
    passthrough_members: Annotated[Names, validated_by(_check_passthrough)] = ()

    def rate_limits(self) -> dict[str, Any]:
        """Returns the configured limits of the key, by name."""
        limits = {name: getattr(self, name) for name in ("rpm", "tpm", "max_concurrent", "max_cost_per_day")}
        return {name: value for name, value in limits.items() if value is not None}

    @property
    def any_model(self) -> bool:
        """True if the key may use every model."""
        return "*" in self.models

    @property
    def only_known_members(self) -> bool:
        """True if the gateway removes undocumented fields, because they may change the model or the cost."""
        return not self.any_model or self.max_cost_per_day is not None


class KeySettings(KeyOptions):
    """The settings of a table `[gateway.keys.NAME]` in the configuration file.

    Attributes:
        key_env: the name of the environment variable that contains the key.
    """

    required: ClassVar[Mapping[str, str]] = {"key_env": "required: the environment variable that holds the key"}

    key_env: str


def _key_name(name: str) -> None:
    if not name.strip() or not name.isprintable():
        raise ValueError("the name of a key must have printable characters")


class GatewayOptions(Table):
    """Options of the gateway as an ASGI app; also keyword arguments of `gateway(...)`.

    Attributes:
        aliases: additional names for providers and models, such as `{"gpt-4o": "main"}` or `{"small": "main:kimi-k2"}`.
            An alias also matches model names that add a date to it (`gpt-4o-2024-08-06`). `*` matches any text:
            `{"claude-*": "main"}`.
        allow_models: patterns for the `PROVIDER:MODEL` names that clients may use in addition to the configured models.
            The default `["*"]` allows every model; `["main:kimi-*"]` allows some models of one provider; `[]` allows
            only the configured models.
        hosts: allowed values of the `Host` header, without a port; `"*"` allows every value. By default, a server
            without keys on a loopback address accepts only loopback names, which prevents DNS rebinding; other servers
            accept every name.
        repair_history: true: the gateway repairs conversations that a provider would reject, and adds a warning to the
            response (see `ChatOptions`).
        keepalive: seconds of silence in a stream after which the gateway sends an SSE comment (in the Messages API, a
            ping), so that proxies keep the connection open; 0: never.
        turn_cache: where the gateway stores the messages of models: `true` or "memory", "sqlite:///turns.db",
            "valkey://host:6379"; `false`: nowhere. If a client leaves reasoning, signatures or encrypted items out of a
            later request, the gateway adds them from the stored message. The key and the end user of the request must
            be those that received the message.
        turn_cache_turns: maximum number of messages in the turn cache.
        turn_cache_bytes: maximum total size of the turn cache, in bytes.
        turn_cache_age: seconds after which an unused message expires.
        responses: where the gateway stores responses of the Responses API, with the same values as `turn_cache`.
            `false`: nowhere.
        responses_number: maximum number of stored responses. When the limit is reached, the gateway deletes the oldest
            response of the key that has the most stored responses.
        responses_bytes: maximum total size of stored responses, in bytes.
        responses_age: seconds after which an unused response expires.
        websockets: true: the gateway also serves the Responses API over WebSockets. By default, it rejects a WebSocket
            with a 426.
        metrics: serve `/metrics` in Prometheus' text format (extra `metrics`). If clients need keys, a request to
            `/metrics` needs a key too.
        metrics_by_key: also count requests, tokens and cost for each key, by the key's name. Every client that may read
            `/metrics` then sees the usage of all keys.
        json_log: log one line of JSON for each request to the logger `streamfold.gateway.requests`, with its outcome
            and usage.
        unasked_thinking: on the Messages and Gemini APIs, send reasoning even to clients that didn't request it.
        forward_client_ids: forward the request fields that identify a client's installation, a session or a user to
            providers: `user`, `safety_identifier`, `prompt_cache_key` and `client_metadata` on OpenAI's APIs,
            `metadata` on the Messages API.
        max_requests: maximum number of simultaneous requests. Above it, the gateway rejects requests with a 503.
        max_body_bytes: maximum size of a request body, and maximum memory for its parsed lists and objects. The gateway
            rejects larger bodies with a 413.
        max_total_body_bytes: maximum size of all request bodies in memory together. Above it, the gateway rejects
            requests with a 503.
        body_timeout: seconds in which a request body must arrive. Each 64 KiB received extend this time by one second.
            The gateway rejects a slower request with a 408.
        send_timeout: seconds after which the gateway treats a client that reads nothing as disconnected.
        max_objects: maximum number of JSON objects in a request, such as messages, parts, tool calls and schemas.
    """

    aliases: dict[str, str] = Field(default={})
    allow_models: Names = ("*",)
    hosts: Names = ()
    repair_history: Flag = False
    keepalive: Seconds = 15.0
    turn_cache: StoreName = Field(default=True, repr=False)  # may contain a password
    turn_cache_turns: PositiveCount = 20_000
    turn_cache_bytes: PositiveCount = 64 * 2**20
    turn_cache_age: PositiveNumber = 24 * 3600.0
    responses: StoreName = Field(default=True, repr=False)
    responses_number: PositiveCount = 1000
    responses_bytes: PositiveCount = 256 * 2**20
    responses_age: PositiveNumber = 24 * 3600.0
    websockets: Flag = False
    metrics: Flag = False
    metrics_by_key: Flag = False
    json_log: Flag = False
    unasked_thinking: Flag = False
    forward_client_ids: Flag = False
    max_requests: PositiveCount = 256
    max_body_bytes: PositiveCount = 32 * 2**20
    max_total_body_bytes: PositiveCount = 256 * 2**20
    body_timeout: PositiveNumber = 15.0
    send_timeout: PositiveNumber = 300.0
    max_objects: PositiveCount = 100_000


class GatewaySettings(GatewayOptions, PackageTable):
    """All keys of the `[gateway]` table in `streamfold.toml`: the options of the app and of the server.

    Attributes:
        host: address to listen on.
        port: port to listen on; 0: a free port.
        workers: number of processes that serve the port. Several processes share limits, the turn cache and stored
            responses by means of temporary files. `max_requests` applies to each process.
        providers: names of the providers to serve; empty: all providers of the file.
        api_key_env: names of environment variables that contain the keys of clients. Without `api_key_env` and `keys`,
            clients need no key.
        keys: keys with names and rights; see `KeySettings`. The request log shows the names.
        open: allow other machines to use a server without keys.
        head_timeout: seconds in which a request's first line and headers must arrive.
        drain: seconds for which a stopping server still accepts requests. Meanwhile `/readyz` returns a 503, so that a
            load balancer sends no more requests.
        shutdown: seconds for which a stopping server waits until the responses in flight are complete.
        ui: serve a page at `/ui` that shows the last responses while they stream.
        ui_key_env: names of environment variables that contain keys for the page, which shows the responses of all
            clients. Without a key, only browsers on the server's machine that connect without a proxy may open the
            page.
        ui_answers: maximum number of responses that the page shows.
        ui_fixtures: folder in which the page saves responses as fixtures.
    """

    store_keys: ClassVar[tuple[str, ...]] = ("turn_cache", "responses")

    host: str = "127.0.0.1"
    port: Annotated[Count, Field(le=65535)] = 8100
    workers: Annotated[PositiveCount, Field(le=256)] = 1
    providers: Names = ()
    api_key_env: Names = ()
    keys: dict[Annotated[str, validated_by(_key_name)], KeySettings] = Field(default={})
    open: Flag = False
    head_timeout: PositiveNumber = 10.0
    drain: Seconds = 0.0
    shutdown: Seconds = 30.0
    ui: Flag = False
    ui_key_env: Names = ()
    ui_answers: PositiveCount = 50
    ui_fixtures: str = "fixtures/gateway"

    @property
    def needs_key(self) -> bool:
        """True if clients need a key."""
        return bool(self.api_key_env or self.keys)

    def problems(self, unknown: Callable[[str], str | None]) -> Iterator[tuple[KeyPath, str]]:
        """Yields the unknown provider names and unset environment variables in the settings, each as the path of the
        setting and a message.
        """
        for index, name in enumerate(self.providers):
            if text := unknown(name):
                yield ("providers", index), text
        for variable in self.api_key_env:
            if not variable_is_set(variable):
                yield ("api_key_env",), f"{variable} is not set"
        for name, key in self.keys.items():
            if not variable_is_set(key.key_env):
                yield ("keys", name, "key_env"), f"{key.key_env} is not set"

    def budgets(self, providers: Sequence[str]) -> Iterator[tuple[KeyPath, Sequence[str]]]:
        """Yields, for each key with a budget, the path of the budget's setting and the names of the providers that the
        key may use.
        """
        served = self.providers or providers
        for name, key in self.keys.items():
            if key.max_cost_per_day is not None:
                models = [self.aliases.get(pattern, pattern).partition(":")[0] for pattern in key.models]
                usable = [each for each in served if any(fnmatchcase(each, model) for model in models)]
                yield ("keys", name, "max_cost_per_day"), [each.partition(":")[0] for each in usable]
