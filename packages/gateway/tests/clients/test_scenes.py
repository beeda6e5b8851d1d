"""Fourteen scenes by real clients: directly at a server of their own API, and at the gateway before four upstream APIs.

Text, reasoning, the calls that ran, usage, the finish reason, and the class and status of an error must be the same.
`DOCUMENTED` has every difference that is not a mistake. `nox -s scenes` installs the clients.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from scene_clients import SCENE_CLIENTS, TASKS, modes
from scenes import APIS, CITY, SCENES, Failure, scripted_server

from gateways import serving_app
from streamfold_gateway import gateway

ADAPTERS = {"chat": "chat", "responses": "responses", "messages": "anthropic", "gemini": "gemini"}
FIELDS = ("text", "reasoning", "calls", "usage", "finish", "error")


@dataclass(frozen=True)
class Case:
    """One conversation with the gateway."""

    client: str
    api: str
    scene: str
    stream: bool
    upstream: str


@dataclass(frozen=True)
class Difference:
    """Where two conversations differ: the path of a value, and both values."""

    path: str
    direct: Any
    gateway: Any


# Every difference that is not a mistake of the gateway, with its reason.
DOCUMENTED: dict[str, Callable[[Case, Difference], bool]] = {
    "a stream that is cut is an error instead of half an answer": lambda case, found: case.scene == "cut",
    "the provider's 401 is a 502, as it is about the gateway's key": lambda case, found: (
        case.scene == "401"
        and (found.path == "error.type" or (found.path, found.direct, found.gateway) == ("error.status", 401, 502))
    ),
    "an error inside a stream has a status only on Gemini's API; before others it is a 502": lambda case, found: (
        (case.scene, case.api) == ("failed", "gemini")
        and (found.path, found.direct, found.gateway) == ("error.status", 500, 502)
    ),
    "`message_start` has no counts yet, and AutoGen does not read the input's in `message_delta`": lambda case, found: (
        (case.client, case.api, case.stream) == ("autogen", "messages", True)
        and (found.path, found.gateway) == ("usage.prompt_tokens", 0)
    ),
    "a count of 0 may be left out": lambda case, found: (
        found.path.startswith("usage") and [found.direct, found.gateway] in ([0, None], [None, 0])
    ),
}


def differences(direct: Any, gateway: Any, path: str = "") -> Iterator[Difference]:
    """Yields the values that differ. Absent members are None."""
    if isinstance(direct, dict) and isinstance(gateway, dict):
        for name in direct | gateway:
            yield from differences(direct.get(name), gateway.get(name), f"{path}.{name}")
    elif isinstance(direct, list) and isinstance(gateway, list) and len(direct) == len(gateway):
        for one, other in zip(direct, gateway, strict=True):
            yield from differences(one, other, path)
    elif direct != gateway:
        yield Difference(path.removeprefix("."), direct, gateway)


def comparable(result: dict[str, Any]) -> dict[str, Any]:
    """Returns the members of a result that are compared."""
    error = result["error"] and {name: result["error"][name] for name in ("type", "status")}
    return {**{name: result[name] for name in FIELDS}, "error": error}


def is_right(client: str, scene: str, direct: dict[str, Any]) -> bool:
    """Returns whether a client reads directly what the server sends, so that a comparison means something."""
    answer = SCENES[scene]
    if isinstance(answer, Failure):
        return direct["error"] is not None
    if answer.cut or answer.failed:
        return True  # clients differ in what they make of these
    if scene == "structured":
        return bool(json.loads(direct["text"]) == CITY)
    if answer.truncated and direct["error"]:
        return client == "openai-agents"  # on the Responses API
    calls = [list(call) for call in answer.calls]
    text = answer.text if not answer.calls else "" if client == "instructor" else "The tools say: "
    return direct["error"] is None and direct["calls"] == calls and text in direct["text"]


@pytest.fixture(scope="module")
def upstream() -> Iterator[str]:
    """The scripted server."""
    with serving_app(scripted_server()) as address:
        yield address


@pytest.fixture(scope="module")
def gateway_url(upstream: str) -> Iterator[str]:
    """A gateway before it, with a provider for each API."""
    providers = {
        api: {
            "adapter": adapter,
            "base_url": f"{upstream}/v1{'beta' if api == 'gemini' else ''}",
            "model": "none",
            "api_key": "none",
            "max_retries": 0,
        }
        for api, adapter in ADAPTERS.items()
    }
    with serving_app(gateway(providers)) as address:
        yield address


def cases() -> list[tuple[str, str, str]]:
    """Each client on each API in each scene; without clients there is one test, to be skipped."""
    if not os.environ.get("STREAMFOLD_CLIENTS"):
        return [("no client", "chat", "text")]
    triples = [(name, api, scene) for name, row in SCENE_CLIENTS.items() for api in row[3] for scene in SCENES]
    return [triple for triple in triples if modes(*triple)]


@pytest.mark.parametrize(("name", "api", "scene"), cases())
def test_scene(
    name: str,
    api: str,
    scene: str,
    clients: Any,
    upstream: str,
    gateway_url: str,
    scenes_played: dict[str, Counter[str]],
) -> None:
    """A client reads the same from the gateway as from a server of its own API, except for what the table says."""
    client, undocumented = clients(name), []
    for stream in modes(name, api, scene):
        options = {"prompt": "How warm is it?", "task": TASKS.get(scene, "text"), "stream": stream}
        direct = comparable(client.ask(upstream, api, scene, **options))
        assert is_right(name, scene, direct), direct
        for provider in APIS:
            case = Case(name, api, scene, stream, provider)
            result = comparable(client.ask(gateway_url, api, f"{provider}:{scene}", **options))
            if scene in ("cut", "failed"):
                assert result["error"], result
                assert result["calls"] == [], result
                assert SCENES[scene].text.startswith(result["text"]), result
            found = list(differences(direct, result))
            reasons = [next((why for why, fits in DOCUMENTED.items() if fits(case, one)), None) for one in found]
            undocumented += [f"{case}: {one}" for one, why in zip(found, reasons, strict=True) if why is None]
            kind = "equal" if not found else "different" if None in reasons else "documented"
            scenes_played[f"{name} on {api}, provider on {provider}"][kind] += 1
            scenes_played["documented"].update({f"({why})" for why in reasons if why})
    assert not undocumented, "\n".join(undocumented)
