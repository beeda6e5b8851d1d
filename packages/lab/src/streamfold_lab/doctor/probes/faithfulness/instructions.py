"""Probes for instructions: whether each system and developer message reaches the model."""

from __future__ import annotations

import re
from random import Random
from typing import Any

from streamfold import system, user

from ...known_values import GREET, code, codes, sent_text, with_random_values
from ...questions import capped
from ...values import Answers, Conclusion, ProbeRequest, ProbeResponse
from ..judging import ProbeGroup, doubtful, refusal, shown, unclear

INSTRUCTIONS = ProbeGroup("faithfulness")
_WORD = re.compile(r"answer with the word ([A-Z]+-\d+)")


def _begin(word: str) -> str:
    return f"Begin every answer with the word {word}."


def _end(word: str) -> str:
    return f"End every answer with the word {word}."


def _two_systems(rng: Random) -> ProbeRequest:
    first, last = codes(rng, 2)

    def edit(body: dict[str, Any]) -> dict[str, Any]:
        """Keeps the two instructions of a Chat Completions request as separate messages, even if the profile joins
        system messages.
        """
        if "messages" not in body or "system" in body:
            return body
        rest = [message for message in body["messages"] if message["role"] == "user"]
        both = [{"role": "system", "content": text} for text in (_begin(first), _end(last))]
        return {**body, "messages": [*both, *rest]}

    messages = [system(_begin(first)), system(_end(last)), user(GREET)]
    return ProbeRequest("systems", messages, options=capped(96), special="two system messages", edit=edit)


@INSTRUCTIONS.probe(
    "two_systems",
    "Does the model see a second system message?",
    with_random_values(_two_systems),
    apis=("chat", "responses"),  # the other APIs have one field for all instructions
    whim=True,
    refused=("ok", "joined into one"),
)
def _judge_systems(seen: ProbeResponse) -> Conclusion:
    first, last = _WORD.findall(sent_text(seen))
    has = [word in seen.text for word in (first, last)]
    if all(has):
        return Conclusion("ok", "both are followed")
    if any(has):
        lost = "second" if has[0] else "first"
        return doubtful(f"the {lost} system message was ignored; the text is {shown(seen.text, 50)}")
    return unclear(f"both system messages were ignored; the text is {shown(seen.text, 50)}")


def _developer(rng: Random) -> ProbeRequest:
    word = code(rng)

    def edit(body: dict[str, Any]) -> dict[str, Any]:
        member = "input" if "input" in body else "messages"
        content = body[member] if isinstance(body[member], list) else [{"role": "user", "content": body[member]}]
        return {**body, member: [{"role": "developer", "content": _end(word)}, *content]}

    return ProbeRequest("developer", GREET, options=capped(96), special="role: developer", edit=edit)


def _control(rng: Random) -> ProbeRequest:
    return ProbeRequest("system", [system(_end(code(rng))), user(GREET)], options=capped(96))


@INSTRUCTIONS.probe_many(
    "developer",
    "Does the model see a developer message?",
    with_random_values(_control),
    with_random_values(_developer),
    apis=("chat", "responses"),
    whim=True,
)
def _judge_developer(answers: Answers) -> Conclusion:
    followed = {name: _WORD.findall(sent_text(each))[0] in each.text for name, each in answers.items()}
    seen = answers.get("developer")
    if seen is None:
        return unclear("no answer")
    if seen.refused:
        return Conclusion("ok", refusal(seen), "sent as system")
    if followed["developer"]:
        return Conclusion("ok", "it is followed")
    if followed.get("system"):
        return doubtful(
            f"a system message is followed, but a developer message is ignored; the text is {shown(seen.text, 50)}"
        )
    return unclear(f"both system and developer messages are ignored; the text is {shown(seen.text, 50)}")
