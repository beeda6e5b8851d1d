"""What the settings of a provider say of its models, together with what is known of their families."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from ..adapters import Adapter, find_adapter
from ..requests import CAPABILITIES, Capabilities, Family, ModelTable, merge_facts
from ..values import NotConfiguredError
from .families import examples, find_family, is_first_party_host, own_family
from .quirks_and_prices import read_quirks

# What the chat templates of the models with a dialect want, on whichever server: Mistral's refuse other ids.
_OF_DIALECTS = {("mistral", "chat"): {"call_ids": "nine_alphanumeric"}}


def prices_in(common: Mapping[str, Any], tables: Iterable[ModelTable], model: str) -> dict[str, Any]:
    """Returns the prices of a model: those of its tables win over the common ones, key by key."""
    return dict(ChainMap(*(dict(table.prices) for table in reversed([*tables]) if table.fits(model)), dict(common)))


class EndpointModels:
    """The part of a `Profile` that is about models."""

    if TYPE_CHECKING:
        adapter: str
        base_url: str
        dialect: str | None
        wire: str | None
        model_family: str | None
        families: str | None
        quirks: dict[str, Any]
        prices: dict[str, Any]
        capabilities: Capabilities
        models: tuple[ModelTable, ...]

        def _filled(self, key: str, text: str) -> str: ...

    def make_adapter(self, model: str | None = None) -> Adapter:
        """Returns the adapter with the quirks of this endpoint, and of a model where they differ for it."""
        name = self.adapter_of(model)
        kind, quirks = find_adapter(name), read_quirks(name, self.quirks_of(model))
        adapter = kind() if quirks is None else kind(quirks)  # type: ignore[call-arg]
        adapter.family = adapter.known_family(self.family_of(model))
        return adapter

    def adapter_of(self, model: str | None) -> str:
        """Returns the wire format on which a model is asked. It is the same for all requests of a conversation."""
        if self.wire is None or self.adapter not in ("chat", "responses"):
            return self.adapter
        return self.wire if self.wire != "auto" else "chat" if self.family_of(model).takes_chat else "responses"

    def capabilities_of(self, model: str | None) -> Capabilities:
        """Returns the known capabilities of a model; without one, those of all models of the endpoint."""
        return self.family_of(model).capabilities

    def family_of(self, model: str | None) -> Family:
        """Returns what is known of a model at this endpoint.

        Key by key: what `models` says of it, `capabilities`, the user's own families, those of the catalogue.
        """
        own, found = self.families_of(model)
        can = {each: said for each in CAPABILITIES if (said := self.capabilities.of(each)) != "unknown"}
        quirks = {adapter: {**found.quirks.get(adapter, {}), **table} for adapter, table in own.quirks.items()}
        known = {**own.known(), **can, **merge_facts(self.models, model or "")}
        return found.over({**known, "quirks": {**found.quirks, **quirks}} if quirks else known)

    def families_of(self, model: str | None) -> tuple[Family, Family]:
        """Returns what the user's own families say of a model, and what those of the catalogue say of it here."""
        name = self.model_family or model or ""
        found = find_family(name)
        return own_family(self.families, name), found if self._is_makers_own(found.vendor) else found.elsewhere()

    def quirks_of(self, model: str | None) -> dict[str, Any]:
        """Returns those for a model: of its dialect, of its family, of this endpoint, and of its tables in `models`."""
        tables = [table.quirks for table in self.models if table.fits(model or "")]
        adapter = self.adapter_of(model)
        quirks: dict[str, Any] = {}
        for name in (self.dialect or "").split("+"):
            quirks |= _OF_DIALECTS.get((name.strip(), adapter), {})
        quirks |= self.family_of(model).quirks.get(adapter, {})
        for table in (self.quirks, *tables) if adapter == self.adapter else ():
            quirks |= table
        return quirks

    def prices_of(self, model: str | None) -> dict[str, Any]:
        """Returns the known prices of a model as a table; those of `models` win over those of all, key by key."""
        return prices_in(self.prices, self.models, model or "")

    def models_with(self, capability: str) -> list[str]:
        """Returns the example models that are known to have a capability."""
        return [name for name in self.examples() if self.capabilities_of(name).of(capability) == "yes"]

    def examples(self) -> list[str]:
        """Returns some models of this endpoint of which something is known."""
        own = (name for table in self.models for name in table.examples)
        return list(dict.fromkeys([*examples(self._is_makers_own), *own]))

    def _is_makers_own(self, vendor: str | None) -> bool:
        """Whether the maker of a model serves it here itself: a matter of the host, unless the adapter is its own."""
        if vendor is not None and find_adapter(self.adapter).maker == vendor:
            return bool(self.quirks.get("hosted", True))
        host = self._host()
        if host is None:  # not known yet: an endpoint with both of OpenAI's APIs is OpenAI's own, or Azure
            return self.wire is not None
        return is_first_party_host(vendor, host)

    def _host(self) -> str | None:
        """Returns the host of the base URL; None if a variable in it is not set."""
        try:
            return (urlsplit(self._filled("base_url", self.base_url)).hostname or "").lower()
        except (NotConfiguredError, ValueError):
            return None
