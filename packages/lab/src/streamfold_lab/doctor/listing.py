"""Fetches an endpoint's list of models, with the token limits that the list contains."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import httpx

from streamfold import Timeouts
from streamfold.types import Profile

from .sending import fetched

_TIMEOUTS = Timeouts(connect=10.0, first_event=30.0, read=30.0, total=60.0)
_PAGES = 50  # the maximum number of pages, because a faulty server may never end its list

# The fields in which servers list limits: OpenRouter, Moonshot and Together; vLLM; Groq; Mistral and LM Studio;
# Anthropic; Gemini; llama.cpp (`meta`).
_CONTEXT = (
    "context_length", "max_model_len", "context_window", "max_context_length", "max_input_tokens", "inputTokenLimit",
    "n_ctx", "n_ctx_train",
)  # fmt: skip
_OUTPUT = ("max_completion_tokens", "max_output_tokens", "max_tokens", "outputTokenLimit")


@dataclass(frozen=True, slots=True)
class ServedModel:
    """A model that an endpoint lists.

    Attributes:
        context_tokens, max_output_tokens: the token limits in the endpoint's list; None if the list has no limit.
        known: true if streamfold's catalogue or the configuration has settings for the model.
    """

    name: str
    context_tokens: int | None = None
    max_output_tokens: int | None = None
    known: bool = False


async def served_models(profile: Profile, *, http_client: httpx.AsyncClient | None = None) -> list[ServedModel]:
    """Returns the models of an endpoint, in the order of the endpoint's list.

    Raises:
        APIError: the endpoint's list can't be fetched, or is invalid.
        ConfigError: the API key or an environment variable isn't set.
    """
    found: list[ServedModel] = []
    path = "/models"
    for _ in range(_PAGES):
        page = await fetched(profile, path, _TIMEOUTS, http_client)
        found += read_models(page, profile)
        match page:
            case {"has_more": True, "last_id": str(last)}:  # Anthropic
                path = f"/models?after_id={quote(last)}"
            case {"nextPageToken": str(token)} if token:  # Gemini
                path = f"/models?pageToken={quote(token)}"
            case _:
                break
    return found


def read_models(listed: Any, profile: Profile | None = None) -> list[ServedModel]:
    """Parses a server's list of models, in the format of any known server.

    >>> read_models({"data": [{"id": "m-1", "max_model_len": 4096}]})
    [ServedModel(name='m-1', context_tokens=4096, max_output_tokens=None, known=False)]
    """
    rows = listed.get("data") or listed.get("models") if isinstance(listed, Mapping) else listed
    models = []
    for row in rows if isinstance(rows, list) else []:
        members = row if isinstance(row, Mapping) else {"id": row}
        name = members.get("id") or members.get("name")
        if isinstance(name, str) and name:
            name = name.removeprefix("models/")  # Gemini
            models.append(ServedModel(name, _limit(members, _CONTEXT), _limit(members, _OUTPUT), _known(name, profile)))
    return models


def _limit(row: Mapping[str, Any], names: tuple[str, ...]) -> int | None:
    parts = [row, *(row.get(name) for name in ("top_provider", "meta", "limits"))]
    values = [part.get(name) for part in parts if isinstance(part, Mapping) for name in names]
    return next((value for value in values if type(value) is int and value > 0), None)


def _known(name: str, profile: Profile | None) -> bool:
    if profile is None:
        return False
    named = any(table.pattern != "*" and table.fits(name) for table in profile.models)
    return named or any(family != type(family)() for family in profile.families_of(name))
