"""The doctor: what is planted in a server is found, nothing else is, and the profile that it writes fits the server."""

from __future__ import annotations

import json
import random
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import httpx
import pytest
import trio
from trio.testing import MockClock

from examined import KEY, PROFILE, examine
from patients import Patient
from scale import pick, some
from streamfold import AuthenticationError, faults
from streamfold.adapters.chat import ChatQuirks
from streamfold.config import config_problems, read_config, read_profile
from streamfold.faults import Fault
from streamfold_lab.doctor import (
    NOT_EXAMINED,
    Budget,
    Finding,
    ReportCard,
    cards_from,
    cards_to_dict,
    compare_cards,
    find_apis,
    plan,
    render_card,
    sending,
    write_profile,
)
from streamfold_lab.doctor.probes import PROBES
from streamfold_lab.doctor.values import Setting
from tables import each_row

# httpx on trio, when a stream is left before its end.
pytestmark = pytest.mark.filterwarnings("ignore:Async generator:ResourceWarning")


# One planted value for each quirk.
QUIRKS: dict[str, Any] = {
    "max_tokens_field": "max_completion_tokens",
    "stream_usage": False,
    "response_format": "json_object",
    "strict_output": True,
    "inline_refs": True,
    "unsupported_keywords": ("minLength", "pattern"),
    "reasoning_field": "reasoning",
    "reasoning_required": True,
    "reasoning_details": True,
    "reasoning_split": True,
    "thinking_switch": "enable_thinking",
    "effort_grades": False,
    "forced_while_thinking": False,
    "allowed_tools": True,
    "result_images": True,
    "developer_role": False,
    "message_names": False,
    "empty_turns": True,
    "seed_field": "random_seed",
    "stop_max": 4,
    "says_json": True,
    "call_ids": "nine_alphanumeric",
    "call_signatures": True,
    "continues": "prefix",
}
# One planted fault of each kind, and the probe that names it.
FAULTS: dict[str, tuple[Fault, str]] = {
    "cut_after": (faults.cut_after(events=3), "cuts"),
    "reset": (faults.reset(after_events=3), "resets"),
    "hang_up": (faults.hang_up(), "hang_ups"),
    "stall": (faults.stall(after_events=3), "stalls"),
    "slow": (faults.slow(0.5), "pace"),
    "keepalive": (faults.keepalive(after_events=2), "comments"),
    "garbage": (faults.garbage(after_events=2), "garbage"),
    "drop": (faults.drop([4, 8]), "lost"),
    "duplicate": (faults.duplicate([4, 8]), "repeated"),
    "corrupt": (faults.corrupt(3), "utf8"),
    "truncate_json": (faults.truncate_json(3), "truncated"),
    "status": (faults.status(503), "statuses"),
}


@dataclass
class Plant:
    """What is planted in a server, and how it is recognised."""

    quirk: str = ""
    fault: str = ""

    def found(self, card: ReportCard) -> bool:
        if self.fault:
            finding = card.of(FAULTS[self.fault][1])
            return finding is not None and finding.verdict in ("fault", "handled")
        settings = {setting.key: setting.value for setting in card.settings}
        if self.quirk == "forced_while_thinking" and ("capabilities", "forced_choice") in settings:
            return True  # where nothing switches thinking off, there is no other way to say it
        wanted = QUIRKS[self.quirk]
        found = settings.get(("quirks", self.quirk))
        return sorted(found or ()) == sorted(wanted) if isinstance(wanted, tuple) else found == wanted


def quirks(*names: str) -> ChatQuirks:
    """Quirks with planted values. Reasoning can only be required under some name."""
    values = {name: QUIRKS[name] for name in names}
    if "reasoning_required" in names:
        values.setdefault("reasoning_field", "reasoning_content")
    return ChatQuirks(**values)


SEED = 7  # of the values in prompts


def card_data(page: str) -> dict[str, Any]:
    """Returns what a report card has in its data block."""
    data: dict[str, Any] = json.loads(page.partition('id="data">')[2].partition("</script>")[0])
    return data


@pytest.fixture(scope="module")
def clean() -> ReportCard:
    return examine(Patient(), seed=SEED)[0]


def test_a_clean_server_has_no_findings(clean: ReportCard) -> None:
    """Nothing is at fault, nothing has to be set, and every question has an answer."""
    assert clean.with_verdict("unfaithful", "fault", "set", "handled") == []
    assert [setting.key for setting in clean.settings if setting.key[0] != "capabilities"] == []
    unknown = clean.with_verdict("unclear", "no", "skipped")
    assert [finding.probe for finding in unknown if finding.theme != "faithfulness"] == [
        "reasoning", "thinking_switch", "reasoning_back", "system_middle", "continues", "kept_open", "caching"
    ]  # fmt: skip
    assert clean.requests < 250


def test_every_quirk_and_every_fault_can_be_planted() -> None:
    """A new quirk or fault has to be planted here, and found."""
    assert sorted([*QUIRKS, *NOT_EXAMINED]) == sorted(field.name for field in fields(ChatQuirks))
    kinds = {name: getattr(faults, name) for name in faults.__all__}
    assert set(FAULTS) == {
        name for name, kind in kinds.items() if isinstance(kind, type) and issubclass(kind, Fault)
    } - {"Fault"}


@pytest.mark.slow
@pytest.mark.parametrize("name", some(list(QUIRKS), 5))
def test_a_planted_quirk_is_found(name: str, clean: ReportCard) -> None:
    """The profile gets exactly the quirk that was planted."""
    card, _ = examine(Patient(quirks=quirks(name)))
    expected = {("quirks", field) for field in {name, *(["reasoning_field"] if "required" in name else [])}}
    assert Plant(quirk=name).found(card)
    assert {setting.key for setting in card.settings if setting.key[0] != "capabilities"} == expected
    assert [finding.probe for finding in card.with_verdict("fault")] == []


@pytest.mark.slow
@each_row("most", some([1, 2, 3, 4, 5, 9, 16, 17], 3))
def test_the_number_of_stop_texts_is_one_that_is_accepted(most: int) -> None:
    """The most that it takes, of those that servers are known to have; more are never sent."""
    card, _ = examine(Patient(quirks=replace(quirks("stop_max"), stop_max=most)))
    found = {setting.key: setting.value for setting in card.settings}.get(("quirks", "stop_max"))
    assert found == {9: 5, 17: None}.get(most, most)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "times"), some([(name, times) for times in (1, None) for name in FAULTS], 7))
def test_a_planted_fault_is_named(name: str, times: int | None, clean: ReportCard) -> None:
    """A fault is named whether it happens always or once, and no other one is."""
    fault, probe = FAULTS[name]
    card, _ = examine(Patient(faults=[fault], turns=times))
    names = {probe for _, probe in FAULTS.values()}
    wrong = {finding.probe for finding in card.findings if finding.verdict in ("fault", "handled")}
    assert wrong & names == {probe}


@pytest.mark.slow
@pytest.mark.parametrize("dialect", some(["hermes", "kimi", "deepseek", "mistral", "llama3", "think"], 3))
def test_the_dialect_is_found(dialect: str) -> None:
    """A server that leaves calls or reasoning in the text gets the dialect that reads them."""
    card, learned = examine(Patient(dialect=dialect))
    assert learned.dialect == dialect
    assert card.with_verdict("fault") == []


def _threes(rng: random.Random) -> Iterator[list[Plant]]:
    """Three different things, several times. Faults happen a few times only: one that never ends hides the others."""
    pool = [*(Plant(quirk=name) for name in QUIRKS), *(Plant(fault=name) for name in FAULTS)]
    for _ in range(pick(10, 4)):
        three = rng.sample(pool, 3)
        while {"response_format", "strict_output"} <= {plant.quirk for plant in three}:
            three = rng.sample(pool, 3)  # a server without schemas has no strict ones
        yield three


@pytest.mark.slow
def test_three_at_once_are_found() -> None:
    """Of what is planted three at a time, at least 95 % is named."""
    planted, found = 0, 0
    missed: list[Any] = []
    for seed in range(pick(20, 1)):
        for three in _threes(random.Random(seed)):
            patient = Patient(
                quirks=quirks(*(plant.quirk for plant in three if plant.quirk)),
                faults=[FAULTS[plant.fault][0] for plant in three if plant.fault],
                turns=2,
            )
            card, _ = examine(patient)
            planted += 3
            found += sum(plant.found(card) for plant in three)
            missed += [(plant, three) for plant in three if not plant.found(card)]
    assert found >= 0.95 * planted, missed


@pytest.mark.slow
@pytest.mark.parametrize("name", some(list(QUIRKS), 2))
def test_the_written_profile_fits(name: str, tmp_path: Path) -> None:
    """The profile passes `config check`, the same probes find it right, and nothing that fails is left."""
    card, learned = examine(Patient(quirks=quirks(name)))
    file = tmp_path / "streamfold.toml"
    write_profile(file, card, learned)
    config = read_config(file)
    assert config_problems(config) == []
    profile = config.tables["patient"]
    again, _ = examine(Patient(quirks=quirks(name)), dict(profile))
    assert {s.key: s.value for s in again.settings} == {s.key: s.value for s in card.settings}
    assert again.with_verdict("fault") == []


@pytest.mark.slow
def test_no_key_is_in_the_output(tmp_path: Path) -> None:
    """Cards, recordings and profiles have no key, also where the server echoes it."""
    patient = Patient(echo=KEY)
    card, learned = examine(patient, folder=tmp_path / "answers")
    write_profile(tmp_path / "streamfold.toml", card, learned)
    assert KEY not in str(cards_to_dict([card]))
    written = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
    assert len(written) > 2 * card.requests
    assert not any(KEY.encode() in content for content in written)
    assert patient.requests


def test_the_written_profile_reaches_the_server_as_the_examined_one_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A new table has the header of the key and headers that name variables; a literal value may be a secret."""
    monkeypatch.setenv("ACME_KEY", KEY)
    headers = {"X-Team": "${TEAM}", "X-Token": "geheim"}
    settings = {"api_key_env": ["ACME_KEY"], "key_header": "x-acme-key", "headers": headers}
    profile = read_profile({"name": "acme", "base_url": "http://acme.test/v1", "model": "m", **settings})
    file = tmp_path / "streamfold.toml"
    write_profile(file, ReportCard("acme", "http://acme.test/v1", "chat", "m"), profile)
    written = read_config(file).profile("acme")
    assert (written.api_key_env, written.key_header) == (profile.api_key_env, "x-acme-key")
    assert written.headers == {"X-Team": "${TEAM}"}
    assert "geheim" not in file.read_text()


def test_a_new_table_comes_behind_a_list_of_several_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A setting for a table that isn't there yet leaves the lines of the provider's last value together."""
    monkeypatch.setenv("ACME_KEY", KEY)
    file = tmp_path / "streamfold.toml"
    before = '[providers.acme]\nbase_url = "http://acme.test/v1"\nmodel = "m"\napi_key_env = [\n  "ACME_KEY",\n]\n'
    other = '\n# The other one.\n[providers.other]\nbase_url = "http://other.test/v1"\n'
    file.write_text(before + other)
    setting = Setting(("quirks", "stream_usage"), False, "refused")
    finding = Finding("stream_usage", "basics", "?", "set", "refused", settings=(setting,))
    card = ReportCard("acme", "http://acme.test/v1", "chat", "m", findings=(finding,))
    assert write_profile(file, card, read_config(file).profile("acme")) == ["quirks.stream_usage = false"]
    assert file.read_text() == before + "\n[providers.acme.quirks]\nstream_usage = false # refused\n" + other


@each_row("adapter", ["chat", "auto"])
def test_a_refused_key_ends_the_examination(adapter: str) -> None:
    """Nothing is examined with a key that no API takes: the error is the server's refusal."""

    async def run() -> None:
        refuse = httpx.MockTransport(lambda request: httpx.Response(401, json={"error": {"message": "no such key"}}))
        async with httpx.AsyncClient(transport=refuse) as client:
            profile = read_profile({"base_url": "http://acme.test/v1", "model": "m", "api_key": KEY, "max_retries": 0})
            with pytest.raises(AuthenticationError, match="no such key"):
                await find_apis(profile, adapter, http_client=client)

    trio.run(run, clock=MockClock(autojump_threshold=0))


@pytest.mark.slow
def test_a_card_shows_the_responses_of_findings_alone() -> None:
    """What is as documented has the number of its responses, a finding up to three of them, and each is there once."""
    page = card_data(render_card([examine(Patient(quirks=quirks("stream_usage")))]))
    findings = {finding["probe"]: finding for finding in page["cards"][0]["findings"]}
    assert (findings["answers"]["answers"], findings["answers"]["count"]) == ([], 2)
    assert (len(findings["stream_usage"]["answers"]), findings["stream_usage"]["count"]) == (3, 4)
    opened = {number for finding in findings.values() for number in finding["answers"]}
    assert [answer["number"] for answer in page["answers"]] == sorted(opened)
    assert all((answer["stream"] is None) == (answer["body"] is not None) for answer in page["answers"])


def test_cards_can_be_read_and_compared(clean: ReportCard) -> None:
    """A card survives JSON, is equal to itself, and tells what another version of the server does differently."""
    (read,) = cards_from(cards_to_dict([clean]))
    assert compare_cards([clean], [read]) == []
    other, _ = examine(Patient(quirks=quirks("seed_field")))
    assert [(change.probe, change.after and change.after.verdict) for change in compare_cards([read], [other])] == [
        ("seed", "set")
    ]


@pytest.mark.slow
def test_a_second_run_is_equal_apart_from_times(clean: ReportCard) -> None:
    """The same server gives the same card for the same seed."""
    again, _ = examine(Patient(), seed=SEED)
    assert [f for f in again.findings if f.probe != "pace"] == [f for f in clean.findings if f.probe != "pace"]


def test_the_budget_is_kept() -> None:
    """No more requests are sent than allowed, and what was not asked says so."""
    patient = Patient()
    card, _ = examine(patient, budget=Budget(requests=5))
    assert len(patient.requests) == card.requests == 5
    assert "the budget of 5 requests is used up" in [finding.saw for finding in card.with_verdict("skipped")]


def test_the_plan_sends_nothing() -> None:
    """All requests that an examination sends are announced by the plan."""
    patient = Patient()
    alike = [probe for probe in PROBES if not any(ask.fresh or ask.follow for ask in probe.asks)]
    card, _ = examine(patient, probes=alike)
    planned = [dict(each.written.body) for each in plan(read_profile(PROFILE), alike)]
    planned += [{name: value for name, value in body.items() if name != "temperature"} for body in planned]
    assert [body for body in patient.requests if body not in planned] == []
    assert card.requests <= len(planned) * 3


def test_a_server_is_found_without_path_and_model() -> None:
    """The URL of a host is enough: `/v1`, the API and the model are found."""

    async def run() -> Sequence[Any]:
        async with Patient().client() as client:
            return await find_apis(read_profile({"base_url": "http://patient.test"}), http_client=client)

    (profile,) = trio.run(run, clock=MockClock(autojump_threshold=0))
    assert (profile.adapter, profile.base_url, profile.model) == ("chat", "http://patient.test/v1", "patient-1")


class Empty(Patient):
    """Every other time it asks for a tool without arguments."""

    asked = 0

    def _calls(self, body: dict[str, Any]) -> Any:
        self.asked += 1
        return [(name, "{}" if self.asked % 2 else arguments) for name, arguments in super()._calls(body)]


@pytest.mark.slow
def test_calls_without_arguments_are_no_text() -> None:
    """They came as calls: no dialect is written into the profile, however often the arguments are missing."""
    card, profile = examine(Empty())
    assert profile.dialect is None
    assert not [setting for found in card.findings for setting in found.settings if setting.key == ("dialect",)]


class Endless(Patient):
    """Its answers have no end; it counts how much of them is read."""

    sent = 0

    def respond(self, request: httpx.Request) -> httpx.Response:
        if request.method == "GET":
            return super().respond(request)
        return httpx.Response(200, headers={"content-type": "text/event-stream"}, stream=_NoEnd(self))


class _NoEnd(httpx.AsyncByteStream):
    def __init__(self, patient: Endless) -> None:
        self._patient = patient

    async def __aiter__(self) -> AsyncIterator[bytes]:
        event = b"data: " + json.dumps({"choices": [{"delta": {"content": "x" * 2000}}]}).encode() + b"\n\n"
        while True:
            self._patient.sent += len(event) * 50
            yield event * 50


def test_an_answer_without_an_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """After four mebibytes, which is far more than any question asks for."""
    monkeypatch.setattr(sending, "_MOST_BYTES", 2**18)
    patient = Endless()
    examine(patient, budget=Budget(requests=3))
    assert 0 < patient.sent < 20 * 2**18
