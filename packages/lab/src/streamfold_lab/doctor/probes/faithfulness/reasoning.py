"""Probes for reasoning: whether the model sees its earlier reasoning after a tool result, and whether the reasoning
effort has an effect.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from streamfold import Reply, Tool, assistant, tool_result, user
from streamfold.limits import text_tokens

from ...known_values import sent_text
from ...questions import capped
from ...values import Answers, Conclusion, ProbeRequest, ProbeResponse
from ..judging import ProbeGroup, call_to, doubtful, refusal, shown, unclear
from ..thinking import reasoning_member

REASONING = ProbeGroup("faithfulness")


_TIME = Tool("get_time", "Gets the current time.", {"type": "object", "properties": {}})
_THINK = (
    "Think of a number of four digits. Keep it to yourself for now. Call the tool get_time. After its result, tell me"
    " which number you thought of, and answer with the number only."
)


def _thought_of(reply: Reply) -> list[str]:
    return re.findall(r"(?<!\d)\d{4}(?!\d)", reply.reasoning or "")


_OPAQUE = ("encrypted_content", "signature", "thoughtSignature", "reasoning_details")  # fields with hidden reasoning
_HIDDEN = "4827"  # the number for the request `told` if the reasoning isn't visible


def _reasoning_size(reply: Reply) -> int:
    """Returns the number of reasoning tokens that the server counted; without such a count, an estimate from the
    reasoning text.
    """
    counted = reply.usage.reasoning_tokens if reply.usage else None
    return counted or text_tokens(reply.reasoning or "")


def _sent_back(seen: ProbeResponse) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """Returns a function that adds the model's reasoning to a Chat Completions request, even if the profile leaves
    reasoning out.
    """
    name = reasoning_member(seen)

    def edit(body: dict[str, Any]) -> dict[str, Any]:
        for message in body.get("messages", ()) if name else ():
            if message["role"] == "assistant":
                message.setdefault(name, seen.reply.reasoning)
        return body

    return edit


def _with_result(*, told: bool) -> Callable[[Answers], ProbeRequest | None]:
    """Returns a function that creates the request with the tool result. With `told`, the text of the earlier assistant
    message contains the number that the model thought of.
    """

    def follow(answers: Answers) -> ProbeRequest | None:
        seen = answers.get("think")
        call = call_to(seen.reply, "get_time") if seen and seen.fine else None
        if seen is None or call is None or not _reasoning_size(seen.reply):
            return None
        number = next(iter(_thought_of(seen.reply)), _HIDDEN)
        if re.search(r"\d{4}", seen.text) or (seen.reply.reasoning and number == _HIDDEN):
            return None
        turn = seen.reply.message
        if told:
            text = f"The number that I thought of is {number}."
            turn = assistant(text, tool_calls=[call], reasoning=seen.reply.reasoning or None)
        messages = [user(_THINK), turn, tool_result(call, "It is noon.")]
        options = capped(512, reasoning_effort="low")
        name = "told" if told else "recall"
        return ProbeRequest(name, messages, (_TIME,), options=options, edit=_sent_back(seen))

    return follow


@REASONING.probe_many(
    "reasoning_kept",
    "Does the model see its earlier reasoning after a tool result?",
    ProbeRequest("think", _THINK, (_TIME,), options=capped(768, reasoning_effort="low")),
    ProbeRequest("recall", _THINK, (_TIME,), special="with the tool result", follow=_with_result(told=False)),
    ProbeRequest("told", _THINK, (_TIME,), special="with the number in the text too", follow=_with_result(told=True)),
    whim=True,
    needs="one_call",
)
def _reasoning_kept(answers: Answers) -> Conclusion:
    seen, after, told = (answers.get(name) for name in ("think", "recall", "told"))
    if seen is None or not _reasoning_size(seen.reply):
        return Conclusion("no", "no reasoning was shown or counted")
    if after is None:
        return unclear("the model didn't choose a number in its reasoning before the tool call")
    if after.refused:
        return Conclusion("no", f"the assistant message with its reasoning is {refusal(after)}")
    sent = sent_text(after)
    if not seen.reply.reasoning and not any(name in sent for name in _OPAQUE):
        return Conclusion("no", "the reasoning is hidden, and this API can't send it back")
    numbers = _thought_of(seen.reply)
    if any(number in after.text for number in numbers):
        return Conclusion("ok", "the model still knew the number from its reasoning after the tool result")
    if not numbers and re.search(r"(?<!\d)\d{4}(?!\d)", after.text):
        return Conclusion("ok", "the model named a number after the tool result; its reasoning is hidden")
    had = numbers[0] if numbers else "a number"
    saw = f"the reasoning contained {had}, but after the tool result the text is {shown(after.text, 50)}"
    known = next(iter(numbers), _HIDDEN)
    return doubtful(saw) if told and known in told.text else unclear(saw)


_LEVELS = ("none", "low", "high")
_PUZZLE = "How many prime numbers are there between 10 and 60? Answer with the number alone."


def _without_thinking(body: dict[str, Any]) -> dict[str, Any]:
    """Sets Gemini's thinking budget to 0, because Gemini has no thinking level for "none"."""
    if "generationConfig" in body:
        body["generationConfig"]["thinkingConfig"] = {"thinkingBudget": 0}
    return body


_MORE = 1.15  # reasoning with high effort should be longer by this factor than with low effort


@REASONING.probe_many(
    "efforts",
    "Does a higher effort lead to more reasoning?",
    *(
        ProbeRequest(level, _PUZZLE, options=capped(1024, reasoning_effort=level), edit=edit)
        for level, edit in zip(_LEVELS, (_without_thinking, None, None), strict=True)
    ),
    whim=True,
)
def _efforts(answers: Answers) -> Conclusion:
    none, low, high = (answers.get(level) for level in _LEVELS)
    if low is None or high is None or low.refused or high.refused:
        return Conclusion("no", refusal(low) if low and low.refused else "not all effort levels are accepted")
    if low.sent == high.sent:
        return Conclusion("no", "effort levels are not sent to this model")
    sizes = [_reasoning_size(seen.reply) for seen in (low, high)]
    if not all(sizes):
        return Conclusion("no", "no reasoning was shown or counted")
    saw = f"{sizes[0]} reasoning tokens with low effort, {sizes[1]} with high effort"
    if sizes[1] > _MORE * sizes[0]:
        return Conclusion("ok", saw)
    if none is not None and none.fine and none.sent != low.sent and _reasoning_size(none.reply) > sizes[0] / _MORE:
        none_too = f"{_reasoning_size(none.reply)} with effort none"
        return doubtful(f"{saw}, {none_too}: the levels are accepted, but have no effect")
    return unclear(f"{saw}: the model may have only one effort level")
