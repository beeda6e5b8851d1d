"""The models that clients may ask for, and the providers behind them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from difflib import get_close_matches
from fnmatch import fnmatchcase
from functools import cached_property
from typing import Any

from streamfold import ChatModel, ChatStream, ConfigError, Cost, Hooks, Provider, Usage
from streamfold.client import read_hooks
from streamfold.config import Config, did_you_mean, read_config
from streamfold.middleware import BaseChatModel, check_model, get_model_info
from streamfold.turn_cache import CachingAnswer, TurnCache
from streamfold.types import BackendInfo, ChatParams, ModelInfo, Request, TimeoutOptions

from .auth import ANONYMOUS, GatewayKey
from .config import GatewayOptions
from .http_errors import http_error

# Agents ask for a model of a day: claude-haiku-4-5-20251001, gpt-4o-2024-08-06, claude-opus-4@20250514.
_DATE = re.compile(r"[-@](?:\d{8}|\d{4}-\d{2}-\d{2})$")


@dataclass(frozen=True)
class ModelRoute:
    """The provider and the model that a name stands for.

    Attributes:
        model: the provider.
        other: the model to ask it for; None: its own.
    """

    model: ChatModel
    other: str | None = None

    @cached_property
    def _facts(self) -> ModelInfo | None:
        return get_model_info(self.model)

    @property
    def endpoints(self) -> tuple[BackendInfo, ...]:
        """The endpoints that may answer; none if the model does not say."""
        return self._facts.endpoints if self._facts else ()

    @property
    def priced(self) -> bool:
        """True if the prices of all endpoints that may answer are known."""
        endpoints = self.endpoints
        return not endpoints or all(endpoint.priced(model) for endpoint, model in self._endpoint_models(endpoints))

    def cost(self, usage: Usage) -> Cost | None:
        """Returns the highest cost of a usage at any endpoint that may answer; None if no price is known."""
        models = self._endpoint_models(self.endpoints)
        found = [cost for endpoint, model in models if (cost := endpoint.cost(usage, model)) is not None]
        return max(found, key=lambda cost: cost.amount, default=None)

    def max_output_tokens(self, allowed: int | None) -> int | None:
        """Returns the highest limit on output of any endpoint that may answer; None if none is known.

        Args:
            allowed: the limit of the request, if it has one.
        """
        models = self._endpoint_models(self.endpoints)
        return max((endpoint.max_output_tokens(allowed, model) for endpoint, model in models), default=None)

    def _endpoint_models(self, endpoints: tuple[BackendInfo, ...]) -> Iterator[tuple[BackendInfo, str | None]]:
        """Yields each endpoint with the model that is requested of it; None: its own."""
        for at, endpoint in enumerate(endpoints):
            yield endpoint, None if at else self.other

    @cached_property
    def adapters(self) -> set[str]:
        """The names of the providers' adapters; empty if they are not known."""
        return {endpoint.adapter_of(model) for endpoint, model in self._endpoint_models(self.endpoints)}

    @property
    def takes_arguments(self) -> bool:
        """True if the model takes a prepared request, as `Provider` does; models of other programs need not."""
        facts = self._facts
        return facts is not None and not facts.changed and isinstance(self.model, BaseChatModel)

    def stream(
        self, request: Request, *, repair_history: bool, partial_tool_calls: bool, turn_cache: TurnCache | None = None
    ) -> ChatStream:
        """Returns the streamed answer to a client's request. Raises ConfigError if it can't be sent.

        Args:
            repair_history, partial_tool_calls: see `ChatOptions`. Other models get no partial calls:
                one that changes another model's answer (a filter, a cache) would have to know of them.
            turn_cache: restores earlier turns. Other models get them as the client sent them.
        """
        arguments = ChatParams(
            replace(request, model=self.other or ""),
            repair_history=repair_history,
            partial_tool_calls=partial_tool_calls,
        )
        model = self.model
        if not self.takes_arguments or not isinstance(model, BaseChatModel):
            options = replace(arguments, partial_tool_calls=False).given()
            return model.chat_stream(request.messages, request.tools, tool_choice=request.tool_choice, **options)
        if turn_cache is None:
            return _stream(model, arguments)
        answer = CachingAnswer(turn_cache, arguments, lambda ready: _stream(model, ready).source)
        return ChatStream(answer, yields_call_deltas=partial_tool_calls)

    async def count(self, request: Request, timeouts: TimeoutOptions) -> int | None:
        """Returns how many tokens a client's request has; None where the API of the first provider can't count.

        Raises:
            ConfigError: the request can't be sent.
            APIError: the provider did not count.
        """
        facts = self._facts
        if facts is None or facts.count is None:
            return None
        return await facts.count(replace(request, model=self.other or ""), timeouts)


class ModelRouter:
    """Finds the provider for the name of a model in a client's request.

    `"main"` is the provider of that name with its own model, `"main:other-model"` the same with another one.

    Args:
        providers: by name; a string or a mapping is given to `Provider.from_config`. None: all of `streamfold.toml`.
        options: the aliases, and the other models that clients may ask for.
        config: the file to read, or one that was read; None: the one that is found.
        hooks: of the providers that are made here.

    Raises:
        ConfigError: there are no providers, one of them can't be made, or an alias leads nowhere.
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
                raise ConfigError(f"no provider to serve: write one into {where}, or name one (-p, --provider)")
        for name, given in providers.items():
            self._providers[name] = ModelRoute(self._provider(given, config))
        if not self._providers:
            raise ConfigError("no provider to serve: the mapping is empty")
        for alias, name in self._aliases.items():
            if self._find(name) is None:
                raise ConfigError(f"aliases: {alias!r} stands for {name!r}, which is not served. {self._known()}")

    @property
    def names(self) -> list[str]:
        """The names of the providers and aliases, without those that are patterns."""
        return list(dict.fromkeys([*self._providers, *(alias for alias in self._aliases if not _is_pattern(alias))]))

    def names_for(self, client: GatewayKey) -> list[str]:
        """Returns the names that a client may ask for."""
        return [name for name in self.names if client.allows_model(name)]

    def resolve(self, name: str, client: GatewayKey = ANONYMOUS) -> ModelRoute:
        """Returns the route for a name. Raises HTTPError if the name is unknown or not allowed."""
        requested, name = name, self._resolve_alias(name)
        found = self._find(self._aliases.get(name, name))
        if found is None or not (client.allows_model(requested) or client.allows_model(name)):
            close = get_close_matches(name, self.names_for(client), n=1)
            hint = f" (did you mean {close[0]!r}?)" if close else ""
            why = f"unknown model {name!r}{hint}" if found is None else f"this key may not use the model {name!r}"
            raise http_error(404, f"{why}. {self._known(client)}", "model_not_found")
        is_allowed = name in self._aliases or any(fnmatchcase(name, pattern) for pattern in self._allowed)
        if found.other is not None and not is_allowed:
            what = f"the model {name!r} is not allowed here"
            raise http_error(404, f"{what}. {self._known(client)}", "model_not_found")
        return found

    def describe(self) -> list[str]:
        """Returns one line for each name: the provider's own model, or what an alias stands for."""
        lines = []
        for name in self.names:
            endpoints = () if name in self._aliases else self._providers[name].endpoints
            means = self._aliases.get(name) or ", then ".join(each.model or "no model" for each in endpoints)
            lines.append(f"{name} ({means})" if means else name)
        return lines

    def problems(self) -> list[str]:
        """Returns what the configuration of the providers lacks, one text for each problem."""
        found = [endpoint.problem for route in self._providers.values() for endpoint in route.endpoints]
        return list(dict.fromkeys(filter(None, found)))

    def check_usable(self) -> None:
        """Raises ConfigError if no model can be used: something is missing for all endpoints of all of them."""
        endpoints = [route.endpoints for route in self._providers.values()]
        if all(found and all(endpoint.problem for endpoint in found) for found in endpoints):
            raise ConfigError(f"no model can be used: {'; '.join(self.problems())}")

    def price(self) -> None:
        """Loads the prices of all models, which the first answer would do otherwise."""
        for route in self._providers.values():
            route.cost(Usage(0, 0, 0))

    async def aclose(self) -> None:
        """Closes the providers that were made here."""
        async with AsyncExitStack() as stack:
            for provider in self._made:
                stack.push_async_callback(provider.aclose)

    def _resolve_alias(self, name: str) -> str:
        """Returns the provider or alias that a name stands for, without the date of a model, or by a pattern."""
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
        """Raises ConfigError if a key is to use a model that is not served."""
        for pattern in client.options.models:
            if not _is_pattern(pattern) and pattern not in self.names and self._find(pattern) is None:
                where = f"keys: {client.name}: models: {pattern!r} is not served{did_you_mean(pattern, self.names)}"
                raise ConfigError(f"{where}. {self._known()}")

    def _known(self, client: GatewayKey = ANONYMOUS) -> str:
        if not client.allows_any_model:
            return f"Allowed: {', '.join(client.options.models) or 'none'}"
        others = "; PROVIDER:MODEL for another model of a provider" if self._allowed else ""
        return f"Allowed: {', '.join(self.names)}{others}"

    def _provider(self, given: Any, config: str | os.PathLike[str] | Config | None) -> ChatModel:
        if not isinstance(given, str | Mapping):
            check_model(given, "gateway()")
            model: ChatModel = given
            return model
        if isinstance(given, Mapping):
            made = Provider.from_config(given, hooks=self._hooks).prefer_aiohttp()
        else:
            made = Provider.from_config(given, config=config, hooks=self._hooks).prefer_aiohttp()
        self._made.append(made)
        return made


def _is_pattern(name: str) -> bool:
    return any(char in name for char in "*?[")


def _stream(model: BaseChatModel, params: ChatParams) -> ChatStream:
    return model.stream_request(
        params.request, repair_history=params.repair_history, partial_tool_calls=params.partial_tool_calls
    )
