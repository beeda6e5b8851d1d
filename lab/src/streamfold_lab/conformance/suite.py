"""The rules as tests, for the authors of servers: each rule of each wire that the server speaks is one test.

pytest --pyargs streamfold_lab.conformance.suite --streamfold-server http://127.0.0.1:8080/v1
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import anyio
import pytest

from streamfold.values import StreamfoldError

from ..doctor import AUTO, Diagnosis, find_wires, read_target
from .judge import RULES, Judged, judge

__all__: list[str] = []

_WIRES = ("chat", "responses", "anthropic")


@pytest.fixture(scope="session")
def judged(request: pytest.FixtureRequest) -> Mapping[str, Judged]:
    """What the examination of the server found, by the names of the rules."""
    server = request.config.getoption("streamfold_server")
    if not server:
        pytest.skip("no server: pass --streamfold-server URL")
    given = {name: request.config.getoption(f"streamfold_{name}") for name in ("model", "api_key_env")}
    return {each.rule.name: each for each in anyio.run(_judge, server, given)}


async def _judge(server: str, given: Mapping[str, Any]) -> list[Judged]:
    found: list[Judged] = []
    try:
        for profile in await find_wires(read_target(server, **given), AUTO):
            card, _ = await Diagnosis().run(profile)
            found += judge(card).judged
    except StreamfoldError as error:
        pytest.fail(str(error), pytrace=False)
    return found


def _names() -> Iterator[str]:
    for wire in _WIRES:
        yield from (rule.name for rule in RULES[wire])


@pytest.mark.parametrize("rule", _names())
def test_rule(rule: str, judged: Mapping[str, Judged]) -> None:
    """No answer of the server breaks the rule."""
    found = judged.get(rule)
    if found is None or not found.answers:
        pytest.skip("the server does not speak this wire" if found is None else "no answer shows it")
    lines = [f"{found.rule.text} {found.rule.link}"]
    lines += [f"answer {v.answer} ({v.asked}): {v.what}" for v in found.violations[:5]]
    if found.violations:
        pytest.fail("\n".join(lines), pytrace=False)
