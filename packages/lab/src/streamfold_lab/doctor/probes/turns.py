"""Probes for earlier turns: whether a server accepts tool calls and tool results in the format of other providers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from streamfold import ToolCall, assistant, tool_result, user

from ..questions import ONE_CALL, PICTURE, WEATHER, capped, prompt_words
from ..values import Answers, Conclusion, ProbeRequest
from .judging import ProbeGroup, call_to, edited, refusal, set_quirk, shown, unclear, was_refused

_LONG_ID = "call_0123456789abcdefghijklmn"
_SHORT_ID = "a1b2c3d4e"
PLACEHOLDER = {"google": {"thought_signature": "skip_thought_signature_validator"}}
_CALL = ToolCall(_SHORT_ID, "get_weather", {"city": "Paris"}, '{"city": "Paris"}')
HISTORY = (
    user("What is the weather in Paris?"),
    assistant(tool_calls=[_CALL], reasoning="The user wants the weather."),  # Kimi's API rejects empty reasoning
    tool_result(_CALL, "18 degrees and sunny"),
)


def raw_history(
    call_id: str | None = None, result: Any = None, drop: Sequence[str] = (), **turn: Any
) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """Returns a function that changes the tool call and its result in a request's history, after the profile's own
    changes.

    Args:
        call_id: the id of the tool call.
        result: the content of the tool result message.
        drop: fields to remove from the assistant message with the tool call.
        turn: fields to add to the assistant message with the tool call.
    """

    def edit(body: dict[str, Any]) -> dict[str, Any]:
        _, call_turn, outcome = body["messages"]
        for name in drop:
            call_turn.pop(name, None)
        call_turn.update(turn)
        (call,) = call_turn["tool_calls"]
        call["id"] = outcome["tool_call_id"] = call_id or call["id"]
        if result is not None:
            outcome["content"] = result
        return body

    return edit


def _signed_calls(**members: Any) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """Returns a function that adds fields to the tool calls in a Chat Completions request, and removes their thought
    signatures.
    """

    def edit(body: dict[str, Any]) -> dict[str, Any]:
        for message in body.get("messages", ()):
            for call in message.get("tool_calls", ()):
                call.pop("extra_content", None)
                call.update(members)
        return body

    return edit


def _own_turn(answers: Answers) -> ProbeRequest | None:
    """Returns the second request of a tool loop, which contains the model's tool call and its result."""
    seen = answers.get("call")
    call = call_to(seen.reply, "get_weather") if seen and seen.fine else None
    if seen is None or call is None:
        return None
    messages = [user(ONE_CALL), seen.reply.message, tool_result(call, "18 degrees and sunny")]
    return ProbeRequest("loop", messages, (WEATHER,), options=capped())


TURNS = ProbeGroup("conversation")


@TURNS.probe_many(
    "tool_history",
    "Are earlier tool calls and results accepted?",
    ProbeRequest("history", HISTORY, (WEATHER,), options=capped(), edit=_signed_calls()),
    edited(
        "signed",
        "a tool call with a placeholder as its thought signature",
        _signed_calls(extra_content=PLACEHOLDER),
        HISTORY,
        (WEATHER,),
        tokens=256,
        when=was_refused("history"),
    ),
    ProbeRequest("call", ONE_CALL, (WEATHER,), options=capped(), when=was_refused("history")),
    ProbeRequest(
        "loop", HISTORY, (WEATHER,), options=capped(), special="with the model's own tool call", follow=_own_turn
    ),
    whim=True,
    needs="one_call",
)
def _tool_history(answers: Answers) -> Conclusion:
    seen = answers["history"]
    if seen.refused and (signed := answers.get("signed")) and signed.fine:
        why = f"tool calls without a thought signature are {refusal(seen)}"
        does = "missing signatures are replaced by a placeholder: call_signatures = true"
        return set_quirk(why, does, "call_signatures", True)
    if seen.refused and (loop := answers.get("loop")) and loop.fine:
        saw = f"a tool call that the model didn't make is {refusal(seen)}; its own tool call is accepted"
        return Conclusion("handled", saw, "a tool loop works; a conversation from another model may be rejected")
    if seen.refused:
        return Conclusion("fault", refusal(seen), "a tool loop can't work")
    if "18" in prompt_words(seen.text):
        return Conclusion("ok", "the response uses the tool result")
    return unclear(f"accepted; the text is {shown(seen.text, 60)}")


@TURNS.probe_many(
    "call_ids",
    "Are tool call ids of other providers accepted?",
    edited("long", _LONG_ID, raw_history(_LONG_ID), HISTORY, (WEATHER,), tokens=64),
    edited("short", _SHORT_ID, raw_history(_SHORT_ID), HISTORY, (WEATHER,), tokens=64, when=was_refused("long")),
    apis=("chat",),
    needs="tool_history",
)
def _call_ids(answers: Answers) -> Conclusion:
    if answers["long"].fine:
        return Conclusion("ok", "accepts a tool call id that another provider issued")
    why = refusal(answers["long"])
    if (short := answers.get("short")) and short.fine:
        does = 'ids are replaced by nine alphanumeric characters: call_ids = "nine_alphanumeric"'
        return set_quirk(why, does, "call_ids", "nine_alphanumeric")
    return unclear(why)


TURNS.probe(
    "result_images",
    "Can a tool result be an image?",
    edited(
        "image",
        "an image in the result",
        raw_history(result=[{"type": "image_url", "image_url": {"url": PICTURE}}]),
        HISTORY,
        (WEATHER,),
        tokens=64,
    ),
    apis=("chat",),
    needs="tool_history",
    refused=("ok", "images are moved into a user message"),
)(lambda _: set_quirk("an image in a tool result is accepted", "result_images = true", "result_images", True))
