"""The doctor before real servers: what is known about each of them is found, and found again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from subprocess import DEVNULL
from typing import Any

import anyio
import pytest
from litellm_proxy import KEY, LiteLLM

from processes import free_port, running, wait_for

pytest.importorskip("streamfold_lab", reason="streamfold-lab is not installed: `.ci/run` installs it")

from streamfold_lab.conformance import judge
from streamfold_lab.doctor import Doctor, ReportCard, compare_cards, find_apis, read_target

HERE = Path(__file__).parent


def examined(url: str, **given: Any) -> dict[str, ReportCard]:
    """The cards of a server, by the API."""

    async def run() -> dict[str, ReportCard]:
        cards = [(await Doctor().run(found))[0] for found in await find_apis(read_target(url, **given))]
        return {card.adapter: card for card in cards}

    return anyio.run(run)


def verdict(card: ReportCard, probe: str) -> str:
    finding = card.of(probe)
    assert finding is not None, probe
    return finding.verdict


def broken(card: ReportCard) -> set[str]:
    return {each.rule.name for each in judge(card).judged if each.violations}


@pytest.fixture(scope="module")
def aimock_for_the_doctor(aimock: str) -> Iterator[str]:
    """A second aimock, with answers to what the doctor asks."""
    import os

    port = free_port()
    command = ["node", os.environ["STREAMFOLD_AIMOCK"], "--host", "127.0.0.1", "--port", str(port)]
    with running([*command, "--fixtures", HERE / "doctor_answers.json"], stdout=DEVNULL, stderr=DEVNULL) as process:
        wait_for(f"http://127.0.0.1:{port}/health", process)
        yield f"http://127.0.0.1:{port}"


def test_llamacpp(llamacpp: str) -> None:
    """It speaks three APIs, cuts an answer on the Responses API without saying so, and drops kept connections."""
    cards = examined(llamacpp)
    assert set(cards) == {"chat", "responses", "anthropic"}
    # This model ends its answer to the question after six tokens, so nothing is cut; the rule "cut" below finds it.
    assert verdict(cards["responses"], "length") == "unclear"
    assert {verdict(card, "kept_open") for card in cards.values()} == {"handled"}
    assert verdict(cards["chat"], "images") == "set"
    assert verdict(cards["chat"], "length") == "ok"
    missing = {"sequence", "items", "indexes", "places", "response", "cut"}
    assert {f"responses/{name}" for name in missing} <= broken(cards["responses"])
    assert "messages/order" not in broken(cards["anthropic"])


def test_a_second_run_finds_the_same(llamacpp: str) -> None:
    """Cards of the same server are equal, apart from times."""
    first, second = examined(llamacpp), examined(llamacpp)
    assert [(c.adapter, c.probe) for c in compare_cards(first.values(), second.values())] == []


def test_aimock(aimock_for_the_doctor: str) -> None:
    """It ignores limits, stops and tool choices, sends the role twice, and cuts characters in two."""
    cards = examined(aimock_for_the_doctor, model="gpt-4o")
    assert set(cards) == {"chat", "responses", "anthropic"}
    chat = cards["chat"]
    for probe in ("max_tokens", "stop", "none"):
        assert verdict(chat, probe) == "unfaithful"
    assert verdict(chat, "halves") == "handled"
    assert verdict(chat, "one_at_a_time") == "ok"  # it answers this question with one call
    assert {verdict(chat, probe) for probe in ("text", "unicode", "parallel", "long_arguments", "reasoning")} == {"ok"}
    assert "chat/role-first" in broken(chat)
    assert "responses/sequence" in broken(cards["responses"])
    assert broken(cards["anthropic"]) == set()


def test_litellm(litellm: LiteLLM, monkeypatch: pytest.MonkeyPatch) -> None:
    """It numbers bridged events of the Responses API badly, and leaves out their names."""
    monkeypatch.setenv("DOCTOR_KEY", KEY)
    cards = examined(litellm.base_url, model="tiny-bridge", api_key_env="DOCTOR_KEY")
    assert "responses/names" in broken(cards["responses"])
    assert "responses/sequence" in broken(cards["responses"])
    assert all(KEY not in repr(card) for card in cards.values())
