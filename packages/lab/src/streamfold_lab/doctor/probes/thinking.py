"""Probes for thinking: in which field reasoning arrives, how a request turns it off, and whether it must be sent
back.
"""

from __future__ import annotations

from typing import Any

from ..questions import REASON, WEATHER, capped
from ..values import Answers, Conclusion, ProbeRequest, ProbeResponse, Setting
from .judging import (
    ProbeGroup,
    capability,
    edited,
    if_refused,
    read_again,
    refusal,
    set_quirk,
    shown,
    unclear,
    with_members,
    without_members,
)
from .turns import HISTORY, raw_history

_FIELDS = ("reasoning_content", "reasoning")
_OFF: dict[str, dict[str, Any]] = {
    "thinking": {"thinking": {"type": "disabled"}},
    "enable_thinking": {"enable_thinking": False},
    "reasoning": {"reasoning": {"enabled": False}},
}


def reasoning_member(seen: ProbeResponse) -> str | None:
    """Returns the name of the field that contains the reasoning in a Chat Completions response; None if the response
    has no reasoning.
    """
    body = seen.recording.body if seen.recording else b""
    return next((name for name in _FIELDS if f'"{name}":'.encode() in body), None)


def _leaks(seen: ProbeResponse) -> bool:
    return "leaked_markup" in seen.codes or seen.text.lstrip().startswith("<think>")


def _asked_back(name: str, text: str = "The user wants the weather.") -> ProbeRequest:
    def is_needed(so_far: Answers) -> bool:
        if text:
            return _FIELDS[0] not in so_far or so_far[_FIELDS[0]].refused
        return so_far["without"].refused and name in so_far and so_far[name].fine

    return edited(
        name if text else f"empty_{name}",
        f"a turn with {name}" if text else f"a turn with an empty {name}",
        raw_history(drop=_FIELDS, **{name: text}),
        HISTORY,
        (WEATHER,),
        tokens=64,
        when=is_needed,
    )


def _quiet(seen: ProbeResponse) -> bool:
    return seen.fine and not seen.reply.reasoning and not _leaks(seen)


THINKING = ProbeGroup("thinking")


@THINKING.probe_many(
    "reasoning",
    "Where does reasoning arrive?",
    ProbeRequest("plain", REASON, options=capped(512), edit=without_members("reasoning_split")),
    edited(
        "split",
        "reasoning_split: true",
        with_members(reasoning_split=True),
        REASON,
        tokens=512,
        when=lambda so_far: "plain" in so_far and _leaks(so_far["plain"]),
    ),
)
def _reasons(answers: Answers) -> Conclusion:
    seen = answers.get("plain") or answers["split"]
    if seen.refused:
        return Conclusion("fault", refusal(seen))
    split = answers.get("split")
    if split and split.fine and split.reply.reasoning and not split.text.lstrip().startswith("<think>"):
        why = f"reasoning is in the text ({shown(seen.text, 40)}), and with reasoning_split it is separate"
        return set_quirk(why, "reasoning_split = true", "reasoning_split", True, capability("reasoning", "yes", why))
    if _leaks(seen) and read_again(seen, "think", "chat").reasoning:
        why = f"reasoning is in the text: {shown(seen.text, 50)}"
        settings = (Setting(("dialect",), "think", why), capability("reasoning", "yes", why))
        return Conclusion("set", why, 'the dialect "think" reads it', settings)
    if seen.reply.extras.get("reasoning_details"):
        why = "responses contain reasoning_details"
        does = "they are sent back unchanged: reasoning_details = true"
        return set_quirk(why, does, "reasoning_details", True, capability("reasoning", "yes", why))
    if seen.reply.reasoning:
        saw = f"reasoning is separate from the text, in {reasoning_member(seen) or 'its own field'}"
        return Conclusion("ok", saw, settings=(capability("reasoning", "yes", saw),))
    return Conclusion("no", "the response contains no reasoning")


@THINKING.probe_many(
    "thinking_switch",
    "Which field turns thinking off?",
    *(
        edited(
            name,
            f"{members}",
            with_members(**members),
            REASON,
            tokens=512,
            when=lambda so_far: not any(map(_quiet, so_far.values())),
        )
        for name, members in _OFF.items()
    ),
    apis=("chat",),
    needs="reasoning",
)
def _switch(answers: Answers) -> Conclusion:
    for name in _OFF:
        if (seen := answers.get(name)) and _quiet(seen):
            return set_quirk(f"no reasoning with {_OFF[name]}", f'thinking_switch = "{name}"', "thinking_switch", name)
    return Conclusion("no", "no known field turns thinking off")


THINKING.probe(
    "effort",
    "Are effort levels accepted?",
    edited("low", 'reasoning_effort: "low"', with_members(reasoning_effort="low"), REASON, tokens=512),
    apis=("chat",),
)(if_refused("reasoning_effort is accepted", "effort_grades", False, "effort levels aren't sent, with a warning"))


@THINKING.probe_many(
    "reasoning_back",
    "Is reasoning accepted in the history?",
    edited(
        "without",
        "an assistant message with tool calls, but without reasoning",
        raw_history(drop=_FIELDS),
        HISTORY,
        (WEATHER,),
        tokens=64,
    ),
    *(_asked_back(name) for name in _FIELDS),
    *(_asked_back(name, "") for name in _FIELDS),
    apis=("chat",),
    needs="reasoning",
)
def _reasoning_back(answers: Answers) -> Conclusion:
    without = answers["without"]
    works = next((name for name in _FIELDS if (seen := answers.get(name)) and seen.fine), None)
    if without.refused and works:
        why = f"an assistant message with tool calls, but without reasoning, is {refusal(without)}"
        if (empty := answers.get(f"empty_{works}")) and empty.refused:  # as by Kimi's API
            does = f"reasoning is sent back as {works}; empty reasoning is rejected too"
            return set_quirk(why, does, "reasoning_field", works)
        does = f"reasoning is sent back as {works}, empty if there is none: reasoning_required = true"
        required = Setting(("quirks", "reasoning_required"), True, why)
        return set_quirk(why, does, "reasoning_field", works, required)
    if without.refused:
        return unclear(refusal(without))
    if works:
        why = f"responses contain reasoning, and {works} is accepted in the history"
        return set_quirk(why, f'reasoning_field = "{works}"', "reasoning_field", works)
    return Conclusion("ok", "reasoning in the history is rejected", "reasoning is not sent back")
