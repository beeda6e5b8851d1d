"""Records one conversation with tools from each hosted provider whose key is in the environment, and checks it.

`nox -s live` runs it; `nox -s live -- kimi openai:gpt-5-mini` asks only these. Without a key it says what it would do.
What passes is a fixture, ready to be looked at and committed: secrets are out, and each recording folds, however it is
cut, to what the program got. What does not pass is kept apart, under `failed/`, and the exit code is 1.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import anyio
import httpx

from streamfold import Provider, Reply, StreamChunk, StreamfoldError, tool, tool_result, user
from streamfold.config.catalogue import catalogue_values, provider_files
from streamfold.recording import Recording, RecordTransport
from streamfold.recording.expectations import as_expectation
from streamfold.testing import assert_recording

__all__ = ["Candidate", "candidates", "main", "record"]

FOLDER = Path(__file__).parents[1] / "fixtures"
_SHOWS = "Two questions, two calls of one answer, and their results put into words."
_QUESTION = (
    "How warm is it in Oslo, and how warm in Lima? Call get_temperature for both at once, then answer in one sentence."
)


@tool
async def get_temperature(city: str) -> int:
    """The temperature in a city, in degrees Celsius.

    Args:
        city: its English name.
    """
    return {"oslo": -3, "lima": 24}.get(city.strip().casefold(), 11)


@dataclass(frozen=True)
class Candidate:
    """An endpoint of the catalogue that is not on this machine.

    Attributes:
        keys: variables of which one must be set.
        places: variables that stand in its address.
    """

    name: str
    keys: tuple[str, ...]
    places: tuple[str, ...]

    def missing(self, environ: Mapping[str, str]) -> str | None:
        """What has to be set before it can be asked; None if nothing."""
        wanted = [] if any(environ.get(key) for key in self.keys) else [" or ".join(self.keys)]
        return " and ".join([*wanted, *(place for place in self.places if not environ.get(place))]) or None


def candidates() -> Iterator[Candidate]:
    """The hosted endpoints of the catalogue that want a key."""
    for name in sorted(provider_files()):
        values = catalogue_values(name)
        keys, address = values.get("api_key_env", ()), str(values.get("base_url", ""))
        if keys and address.startswith(("https:", "$")):
            yield Candidate(name, tuple(keys), tuple(dict.fromkeys(re.findall(r"\$\{(\w+)\}", address))))


async def record(provider: str, folder: Path, **overrides: Any) -> list[str]:
    """Holds the conversation with `provider` and writes its recordings into `folder`. Returns what is wrong with them.

    Args:
        provider: a name of the catalogue, with a model or without one.
        overrides: keys of `Provider.from_config`.
    """
    name = f"{provider.partition(':')[0]}/live_tools"
    transport = RecordTransport(httpx.AsyncHTTPTransport(), folder, name=name)
    async with httpx.AsyncClient(transport=transport, timeout=None) as client:
        asked = Provider.from_config(provider, http_client=client, max_retries=0, **overrides)
        try:
            first, wrong = await _turn(asked, [user(_QUESTION)])
            if bad := _wrong_calls(first):
                return wrong + bad
            results = [tool_result(call, str(await get_temperature(**call.arguments))) for call in first.tool_calls]
            last, more = await _turn(asked, [user(_QUESTION), first.message, *results])
        except StreamfoldError as error:
            return [f"{type(error).__name__}: {error}"]
        wrong += more
        if last.finish_reason != "stop" or not last.text.strip():
            wrong.append(f"the last answer ends with {last.finish_reason!r} and has the text {last.text!r}")
    for path, reply in zip(transport.written, (first, last), strict=True):
        wrong += _described(path, reply, asked)
    return wrong


async def _turn(provider: Provider, messages: list[Any]) -> tuple[Reply, list[str]]:
    """An answer, and what is wrong with its chunks."""
    stream = provider.chat_stream(messages, [get_temperature])
    chunks: list[StreamChunk] = [chunk async for chunk in stream]
    reply = stream.reply
    wrong = [f"warning: {warning}" for warning in reply.warnings]
    if [chunk.finished for chunk in chunks] != [False] * (len(chunks) - 1) + [True]:
        wrong.append("not the last chunk alone is the finished one")
    if "".join(chunk.delta for chunk in chunks) != reply.text:
        wrong.append("the deltas are not the text of the reply")
    if (chunks[-1].tool_calls or []) != reply.tool_calls:
        wrong.append("the calls of the last chunk are not those of the reply")
    if reply.usage is None:
        wrong.append("there is no usage")
    return reply, wrong


def _wrong_calls(reply: Reply) -> list[str]:
    calls = reply.tool_calls
    wrong = [f"{call.name} was called with {call.raw_arguments!r}" for call in calls if set(call.arguments) != {"city"}]
    if len({call.id for call in calls}) != len(calls):
        wrong.append("two calls have one id")
    if not calls or reply.finish_reason != "tool_calls":
        wrong.append(f"the first answer has {len(calls)} calls and ends with {reply.finish_reason!r}")
    return wrong


def _described(path: Path, reply: Reply, provider: Provider) -> list[str]:
    """Completes the description of a recording. Returns what is wrong with it, also as to secrets."""
    profile = provider.profile
    made = replace(Recording.load(path), shows=_SHOWS, tools=(get_temperature.name,), dialect=profile.dialect or "")
    made = replace(made, expect=made.expectation())  # of what was written, without secrets
    made.save(path)
    got = as_expectation(reply)
    same = ("calls", "finish_reason", "usage")
    wrong = [
        f"{path.name} has other {key} than the program got" for key in same if got.get(key) != made.expect.get(key)
    ]
    try:
        assert_recording(path)
    except AssertionError as error:
        wrong.append(f"{path.name}: {error}")
    files = [path.with_name(path.name + suffix).read_bytes() for suffix in (".sse", ".toml")]
    if any(secret.encode() in content for secret in profile.resolve().secrets() for content in files):
        wrong.append(f"{path.name} has a secret in it")
    return wrong


def main(words: list[str], folder: Path = FOLDER) -> int:
    """Asks everybody who can be asked. Returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("providers", nargs="*", help="names of the catalogue, with a model or without one")
    chosen = parser.parse_args(words).providers or [candidate.name for candidate in candidates()]
    known = {candidate.name: candidate for candidate in candidates()}
    failed = 0
    for spec in chosen:
        name, _, model = spec.partition(":")
        if name not in known:
            print(f"{spec}: no hosted provider of the catalogue")
            failed += 1
        elif missing := known[name].missing(os.environ):
            print(f"{name}: not asked; with {missing} set, two requests would be recorded as {name}/live_tools")
        else:
            failed += _asked(spec if model else f"{name}:{_model(name)}", folder)
    print("then: `nox -s fixtures` for the page, a look at each new file, and `pytest tests/engine/test_fixtures.py`")
    return 1 if failed else 0


def _model(name: str) -> str:
    profile = Provider.from_config(name).profile
    return (profile.examples() or [profile.model or ""])[0]


def _asked(spec: str, folder: Path) -> bool:
    """Asks one provider and keeps what was recorded. Returns whether something is wrong."""
    with TemporaryDirectory() as apart:
        wrong = anyio.run(record, spec, Path(apart))
        target = folder / "failed" if wrong else folder
        for file in sorted(Path(apart).rglob("*.sse")):
            kept = target / file.relative_to(apart)
            kept.parent.mkdir(parents=True, exist_ok=True)
            Recording.load(file).save(kept)
            print(f"{spec}: {kept}")
    print(f"{spec}: " + ("; ".join(wrong) or "right"))
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
