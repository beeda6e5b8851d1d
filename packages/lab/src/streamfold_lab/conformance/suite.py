"""Pytest suite for authors of servers, with one test for each documented rule of each API that the server supports.

pytest --pyargs streamfold_lab.conformance.suite --streamfold-server http://127.0.0.1:8080/v1
"""

from __future__ import annotations

from collections.abc import Mapping

import anyio
import pytest

from streamfold import StreamfoldError

from ..doctor import read_target
from .judge import RULES, RuleResult, judge_server

__all__: list[str] = []


@pytest.fixture(scope="session")
def judged(request: pytest.FixtureRequest) -> Mapping[str, RuleResult]:
    """Tests the server once, and returns the results by the names of the rules."""
    server = request.config.getoption("streamfold_server")
    if not server:
        pytest.skip("no server: pass --streamfold-server URL")
    given = {name: request.config.getoption(f"streamfold_{name}") for name in ("model", "api_key_env")}
    try:
        rulings = anyio.run(judge_server, read_target(server, **given))
    except StreamfoldError as error:
        pytest.fail(str(error), pytrace=False)
    return {each.rule.name: each for ruling in rulings for each in ruling.judged}


@pytest.mark.parametrize("rule", dict.fromkeys(rule.name for rules in RULES.values() for rule in rules))
def test_rule(rule: str, judged: Mapping[str, RuleResult]) -> None:
    """Fails if a response of the server violates the rule."""
    found = judged.get(rule)
    if found is None or not found.answers:
        pytest.skip("the server doesn't support this API" if found is None else "the rule applies to no response")
    lines = [f"{found.rule.text} {found.rule.link}"]
    lines += [f"response {v.answer} ({v.asked}): {v.what}" for v in found.violations[:5]]
    if found.violations:
        pytest.fail("\n".join(lines), pytrace=False)
