"""Finds the provider and the model for the model name in a client's request."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from difflib import get_close_matches
from fnmatch import fnmatchcase
from functools import cached_property
from typing import Any

from streamfold import ChatModel, ChatStream, ConfigError, Cost, Hooks, Provider, Usage
from streamfold.client import read_hooks
from streamfold.config import Config, did_you_mean, read_config
from streamfold.middleware import BaseChatModel, check_model, forward, get_model_info
from streamfold.turn_cache import TurnCache
from streamfold.types import BackendInfo, ChatParams, ModelInfo, Request, TimeoutOptions

from .auth import ANONYMOUS, GatewayKey
from .config import GatewayOptions
from .http_errors import http_error

# Agents request models by name and date: claude-haiku-4-5-20251001, gpt-4o-2024-08-06, claude-opus-4@20250514.
_DATE = re.compile(r"[-@](?:\d{8}|\d{4}-\d{2}-\d{2})$")


@dataclass(frozen=True)
class ModelRoute:
    """The provider and the model that handle the requests for a model name.

    Attributes:
        model: the provider, or another `ChatModel` that serves the name.
        other: the model to request from the provider; None: the provider's configured model.
    """

    model: ChatModel
    other: str | None = None

    @cached_property
    def _facts(self) -> ModelInfo:
        return get_model_info(self.model) or ModelInfo((), changed=True)

    @property
    def endpoints(self) -> tuple[BackendInfo, ...]:
        """The endpoints of the provider and its fallbacks; empty if `model` doesn't describe its endpoints."""
        return self._facts.endpoints

    @property
    def priced(self) -> bool:
        """True if the prices of the provider and of all its fallbacks are known."""
        return self._facts.is_priced(self.other)

    def cost(self, usage: Usage) -> Cost | None:
        """Returns the highest cost of these token counts among the provider and its fallbacks; None if no price is
        known.
        """
        models = self._facts.endpoint_models(self.other)
        found = [cost for endpoint, model in models if (cost := endpoint.cost(usage, model)) is not None]
        return max(found, key=lambda cost: cost.amount, default=None)

    def max_output_tokens(self, allowed: int | None) -> int | None:
        """Returns the highest output token limit of the provider and its fallbacks; None if no limit is known.

        Args:
            allowed: the output token limit in the request; None if the request has none.
        """
        models = self._facts.endpoint_models(self.other)
        return max((endpoint.max_output_tokens(allowed, model) for endpoint, model in models), default=None)

    @cached_property
    def adapters(self) -> set[str]:
        """The names of the adapters of the provider and its fallbacks; empty if they are unknown."""
        return {endpoint.adapter_of(model) for endpoint, model in self._facts.endpoint_models(self.other)}

    @property
    def takes_arguments(self) -> bool:
        """True if `model` accepts `ChatParams`, as `Provider` does. Other implementations of `ChatModel` accept only
        the arguments of `chat_stream`.
        """
        return not self._facts.changed and isinstance(self.model, BaseChatModel)

    def stream(
        self, request: Request, *, repair_history: bool, partial_tool_calls: bool, turn_cache: TurnCache | None = None
    ) -> ChatStream:
        """Sends a client's request, and returns the streamed response. Raises ConfigError if the model can't handle the
        request.

        Args:
            repair_history, partial_tool_calls: see `ChatOptions`. Implementations of `ChatModel` other than `Provider`
                don't send partial tool calls.
            turn_cache: adds the reasoning that the client left out of earlier messages. Implementations of `ChatModel`
                other than `Provider` receive the messages as the client sent them.
        """
        arguments = ChatParams(
            replace(request, model=self.other or ""),
            repair_history=repair_history,
            partial_tool_calls=partial_tool_calls,
            many_conversations=True,
        )
        if not self.takes_arguments:
            options = replace(arguments, partial_tool_calls=False).given()
            return self.model.chat_stream(request.messages, request.tools, tool_choice=request.tool_choice, **options)
        return forward(self.model, arguments) if turn_cache is None else turn_cache.chat_stream(self.model, arguments)

    async def count(self, request: Request, timeouts: TimeoutOptions) -> int | None:
        """Returns the token count of a client's request. Returns None if the API of the first provider can't count
        tokens.

        Raises:
            ConfigError: the provider can't handle the request.
            APIError: the provider returned an error.
        """
        facts = self._facts
        if facts.count is None:
            return None
        return await facts.count(replace(request, model=self.other or ""), timeouts)


class ModelRouter:
    """Finds the provider and the model for each model name that a client sends.

    `"main"` stands for the provider with this name and its configured model. `"main:other-model"` stands for the same
    provider with the model `other-model`.

    Args:
        providers: the providers by name; a string or a mapping is passed to `Provider.from_config`. None: all providers
            of `streamfold.toml`.
        options: the aliases, and the additional models that clients may use.
        config: the path of the configuration file, or a loaded configuration. None: streamfold searches for the file.
        hooks: hooks for the providers that the router creates.

    Raises:
        ConfigError: there are no providers, a provider can't be created, or an alias has an unknown target.
    """

    def __init__(
        self,
        providers: Mapping[str, Any] | None,
        options: GatewayOptions,
        config: str | os.PathLike[str] | Config | None = None,
        hooks: Hooks | Iterable[Hooks] = (),
    ) -> None:
        self._hooks = read_hooks(hooks)
        self._made: list[ChatModel] = []
        self._providers: dict[str, ModelRoute] = {}
        self._aliases = options.aliases
        self._allowed = options.allow_models
        if providers is None:
            found = read_config(config)
            providers = {name: name for name in found.names}
            if not providers:
                where = " or ".join(str(place.path) for place in found.looked_in)
                raise ConfigError(f"no provider to serve: add one to {where}, or name one (-p, --provider)")
        for name, given in providers.items():
            self._providers[name] = ModelRoute(self._provider(given, config))
        if not self._providers:
            raise ConfigError("no provider to serve: the mapping is empty")
        for alias, name in self._aliases.items():
            if self._find(name) is None:
                raise ConfigError(f"aliases: {alias!r} stands for {name!r}, which is not served. {self._known()}")

    @property
    def names(self) -> list[str]:
        """The names of the providers and the aliases, without aliases such as `claude-*`."""
        return list(dict.fromkeys([*self._providers, *(alias for alias in self._aliases if not _is_pattern(alias))]))

    def names_for(self, client: GatewayKey) -> list[str]:
        """Returns the model names that a client may use."""
        return [name for name in self.names if client.allows_model(name)]

    def resolve(self, name: str, client: GatewayKey = ANONYMOUS) -> ModelRoute:
        """Returns the provider and the model for a model name. Raises HTTPError if the name is unknown, or if the
        client may not use it.
        """
        requested, name = name, self._resolve_alias(name)
        found = self._find(self._aliases.get(name, name))
        if found is None or not (client.allows_model(requested) or client.allows_model(name)):
            close = get_close_matches(name, self.names_for(client), n=1)
            hint = f" (did you mean {close[0]!r}?)" if close else ""
            why = (
                f"unknown model {name!r}{hint}" if found is None else f"this gateway key may not use the model {name!r}"
            )
            raise http_error(404, f"{why}. {self._known(client)}", "model_not_found")
        is_allowed = name in self._aliases or any(fnmatchcase(name, pattern) for pattern in self._allowed)
        if found.other is not None and not is_allowed:
            what = f"the model {name!r} is not allowed here"
            raise http_error(404, f"{what}. {self._known(client)}", "model_not_found")
        return found

    def describe(self) -> list[str]:
        """Returns one line of text for each provider and alias: its name, and the provider's models or the alias's
        target.
        """
        lines = []
        for name in self.names:
            endpoints = () if name in self._aliases else self._providers[name].endpoints
            means = self._aliases.get(name) or ", then ".join(each.model or "no model" for each in endpoints)
            lines.append(f"{name} ({means})" if means else name)
        return lines

    def problems(self) -> list[str]:
        """Returns a message for each problem in the providers' settings, such as a missing API key."""
        found = [endpoint.problem for route in self._providers.values() for endpoint in route.endpoints]
        return list(dict.fromkeys(filter(None, found)))

    def check_usable(self) -> None:
        """Raises ConfigError if every endpoint of every provider lacks a setting, such as its API key."""
        endpoints = [route.endpoints for route in self._providers.values()]
        if all(found and all(endpoint.problem for endpoint in found) for found in endpoints):
            raise ConfigError(f"no model can be used: {'; '.join(self.problems())}")

    def price(self) -> None:
        """Loads the prices of all models before the first request."""
        for route in self._providers.values():
            route.cost(Usage(0, 0, 0))

    async def aclose(self) -> None:
        """Closes the providers that the router created."""
        async with AsyncExitStack() as stack:
            for provider in self._made:
                stack.push_async_callback(provider.aclose)

    def _resolve_alias(self, name: str) -> str:
        """Returns the provider or alias that a model name stands for: the same name, the name without its date, or the
        first alias whose pattern matches.
        """
        for known in (name, _DATE.sub("", name)):
            if known in self._aliases or self._find(known) is not None:
                return known
        return next((alias for alias in self._aliases if _is_pattern(alias) and fnmatchcase(name, alias)), name)

    def _find(self, name: str) -> ModelRoute | None:
        if (route := self._providers.get(name)) is not None:
            return route
        first, _, other = name.partition(":")
        return ModelRoute(self._providers[first].model, other) if other and first in self._providers else None

    def check_key(self, client: GatewayKey) -> None:
        """Raises ConfigError if a key has rights for a model name that the gateway doesn't serve."""
        for pattern in client.options.models:
            if not _is_pattern(pattern) and pattern not in self.names and self._find(pattern) is None:
                where = f"keys: {client.name}: models: {pattern!r} is not served{did_you_mean(pattern, self.names)}"
                raise ConfigError(f"{where}. {self._known()}")

    def _known(self, client: GatewayKey = ANONYMOUS) -> str:
        if not client.options.any_model:
            return f"Allowed: {', '.join(client.options.models) or 'none'}"
        others = "; PROVIDER:MODEL for another model of a provider" if self._allowed else ""
        return f"Allowed: {', '.join(self.names)}{others}"

    def _provider(self, given: Any, config: str | os.PathLike[str] | Config | None) -> ChatModel:
        if not isinstance(given, str | Mapping):
            check_model(given, "gateway()")
            model: ChatModel = given
            return model
        file = None if isinstance(given, Mapping) else config  # `from_config` accepts no file with a mapping
        made = Provider.from_config(given, config=file, hooks=self._hooks).prefer_aiohttp()
        self._made.append(made)
        return made


def _is_pattern(name: str) -> bool:
    return any(char in name for char in "*?[")
