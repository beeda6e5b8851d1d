"""Thinking: where reasoning arrives, how it is switched off, and whether it must go back."""

from __future__ import annotations

from typing import Any

from ..questions import REASON, WEATHER, capped
from ..values import Answers, Ask, Outcome, Probe, Seen, Setting
from .judging import capability, first, quirk, read_again, refusal, shown, unclear, with_members, without_members
from .turns import HISTORY, raw_history

__all__ = ["THINKING"]

_FIELDS = ("reasoning_content", "reasoning")
_OFF: dict[str, dict[str, Any]] = {
    "thinking": {"thinking": {"type": "disabled"}},
    "enable_thinking": {"enable_thinking": False},
    "reasoning": {"reasoning": {"enabled": False}},
}


def _field(seen: Seen) -> str | None:
    """The member in which the reasoning of a chat answer came."""
    body = seen.recording.body if seen.recording else b""
    return next((name for name in _FIELDS if f'"{name}":'.encode() in body), None)


def _reasons(answers: Answers) -> Outcome:
    seen = first(answers)
    if seen.refused:
        return Outcome("fault", refusal(seen))
    split = answers.get("split")
    if split and split.fine and split.reply.reasoning and not split.text.lstrip().startswith("<think>"):
        why = f"reasoning is in the text ({shown(seen.text, 40)}), and apart with reasoning_split"
        return Outcome("set", why, "reasoning_split = true",
                       (quirk("reasoning_split", True, why), capability("reasoning", "yes", why)))  # fmt: skip
    if _leaks(seen) and read_again(seen, "think", "chat").reasoning:
        why = f"reasoning is in the text: {shown(seen.text, 50)}"
        return Outcome("set", why, 'read by the dialect "think"',
                       (Setting(("dialect",), "think", why), capability("reasoning", "yes", why)))  # fmt: skip
    if seen.reply.extras.get("reasoning_details"):
        why = "answers have reasoning_details"
        does = "they are sent back unchanged: reasoning_details = true"
        return Outcome("set", why, does, (quirk("reasoning_details", True, why), capability("reasoning", "yes", why)))
    if seen.reply.reasoning:
        saw = f"reasoning apart from the text, as {_field(seen) or 'the wire has it'}"
        return Outcome("ok", saw, settings=(capability("reasoning", "yes", saw),))
    return Outcome("no", "no reasoning was shown")


def _leaks(seen: Seen) -> bool:
    return "leaked_markup" in seen.codes or seen.text.lstrip().startswith("<think>")


def _leaks_in(answers: Answers) -> bool:
    return "plain" in answers and _leaks(answers["plain"])


def _switch(answers: Answers) -> Outcome:
    for name in _OFF:
        seen = answers.get(name)
        if seen and seen.fine and not seen.reply.reasoning and not _leaks(seen):
            why = f"no reasoning with {_OFF[name]}"
            return Outcome("set", why, f'thinking_switch = "{name}"', (quirk("thinking_switch", name, why),))
    return Outcome("no", "none of the known members switches thinking off")


def _effort(answers: Answers) -> Outcome:
    seen = first(answers)
    if seen.refused:
        why = refusal(seen)
        return Outcome("set", why, "grades are not sent, with a warning", (quirk("effort_grades", False, why),))
    return Outcome("ok", "reasoning_effort is accepted")


def _reasoning_back(answers: Answers) -> Outcome:
    without = answers["without"]
    works = next((name for name in _FIELDS if (seen := answers.get(name)) and seen.fine), None)
    if without.refused and works:
        why = f"a turn with calls and without reasoning is {refusal(without)}"
        does = f"sent back as {works}, at least empty: reasoning_required = true"
        return Outcome("set", why, does, (quirk("reasoning_field", works, why), quirk("reasoning_required", True, why)))
    if without.refused:
        return unclear(refusal(without))
    if works:
        why = f"answers carry reasoning, and {works} is accepted in the history"
        return Outcome("set", why, f'reasoning_field = "{works}"', (quirk("reasoning_field", works, why),))
    return Outcome("ok", "reasoning is refused in the history", "it is not sent back")


def _asked_back(name: str) -> Ask:
    turn: dict[str, Any] = {name: "The user wants the weather."}
    return Ask(name, HISTORY, (WEATHER,), options=capped(64), special=f"a turn with {name}",
               edit=raw_history(drop=_FIELDS, **turn), when=lambda so_far: _FIELDS[0] not in so_far
               or so_far[_FIELDS[0]].refused)  # fmt: skip


THINKING = (
    Probe(
        "reasoning",
        "thinking",
        "Where does reasoning arrive?",
        _reasons,
        (
            Ask("plain", REASON, options=capped(512), edit=without_members("reasoning_split")),
            Ask(
                "split",
                REASON,
                options=capped(512),
                special="reasoning_split: true",
                when=_leaks_in,
                edit=with_members(reasoning_split=True),
            ),
        ),
    ),
    Probe(
        "thinking_switch",
        "thinking",
        "Which member switches thinking off?",
        _switch,
        tuple(
            Ask(
                name,
                REASON,
                options=capped(512),
                special=f"{members}",
                edit=with_members(**members),
                when=lambda so_far: not any(_quiet(seen) for seen in so_far.values()),
            )
            for name, members in _OFF.items()
        ),
        wires=("chat",),
        needs="reasoning",
    ),
    Probe(
        "effort",
        "thinking",
        "Are grades of effort accepted?",
        _effort,
        (
            Ask(
                "low",
                REASON,
                options=capped(512),
                special='reasoning_effort: "low"',
                edit=with_members(reasoning_effort="low"),
            ),
        ),
        wires=("chat",),
    ),
    Probe(
        "reasoning_back",
        "thinking",
        "Does reasoning go back in the history?",
        _reasoning_back,
        (
            Ask(
                "without",
                HISTORY,
                (WEATHER,),
                options=capped(64),
                special="a turn with calls and without reasoning",
                edit=raw_history(drop=_FIELDS),
            ),
            *(_asked_back(name) for name in _FIELDS),
        ),
        wires=("chat",),
        needs="reasoning",
    ),
)


def _quiet(seen: Seen) -> bool:
    return seen.fine and not seen.reply.reasoning and not _leaks(seen)
