"""Conversations: which roles, contents and earlier turns a server accepts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ....values import ToolCall, assistant, image, system, tool_result, user
from ..questions import LINE, PICTURE, WEATHER, capped, words
from ..values import Answers, Ask, Outcome, Probe
from .judging import capability, first, quirk, refusal, shown, unclear, was_refused, with_members

__all__ = ["CONVERSATION", "HISTORY", "raw_history"]

_LONG_ID = "call_0123456789abcdefghijklmn"
_SHORT_ID = "a1b2c3d4e"


PLACEHOLDER = {"google": {"thought_signature": "skip_thought_signature_validator"}}
_CALL = ToolCall(_SHORT_ID, "get_weather", {"city": "Paris"}, '{"city": "Paris"}')
HISTORY = (
    user("What is the weather in Paris?"),
    assistant(tool_calls=[_CALL]),
    tool_result(_CALL, "18 degrees and sunny"),
)


def _messages(edit: Callable[[list[dict[str, Any]]], list[dict[str, Any]]]) -> Callable[[dict[str, Any]], Any]:
    return lambda body: {**body, "messages": edit(body["messages"])}


def raw_history(
    call_id: str | None = None, result: Any = None, drop: Sequence[str] = (), **turn: Any
) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """Returns an edit that writes parts of the history as they are, where the profile would rewrite them.

    Args:
        call_id: the id of the call.
        result: the content of the tool's message.
        drop: members that the turn with the call is not to have.
        turn: members that it is to have.
    """

    def edit(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
        question, turn_before, outcome = messages
        (call,) = turn_before["tool_calls"]
        call_turn = {name: value for name, value in turn_before.items() if name not in drop} | turn
        chosen = call_id or call["id"]
        call_turn["tool_calls"] = [{**call, "id": chosen}]
        content = outcome["content"] if result is None else result
        return [question, call_turn, {**outcome, "tool_call_id": chosen, "content": content}]

    return _messages(edit)


def _signed_calls(**members: Any) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """Returns an edit that gives calls of Chat Completions these members, and no other signature."""

    def signed(message: dict[str, Any]) -> dict[str, Any]:
        calls = [
            {name: value for name, value in call.items() if name != "extra_content"} | members
            for call in message.get("tool_calls", ())
        ]
        return {**message, "tool_calls": calls} if calls else message

    return lambda body: (
        {**body, "messages": [signed(each) for each in body["messages"]]} if "messages" in body else body
    )


def _developer(answers: Answers) -> Outcome:
    seen = first(answers)
    if seen.fine:
        return Outcome("ok", "the role developer is accepted")
    why = refusal(seen)
    return Outcome("set", why, "sent as system: developer_role = false", (quirk("developer_role", False, why),))


def _names(answers: Answers) -> Outcome:
    seen = first(answers)
    if seen.fine:
        return Outcome("ok", "a name in a message is accepted")
    why = refusal(seen)
    return Outcome("set", why, "message_names = false", (quirk("message_names", False, why),))


def _empty(answers: Answers) -> Outcome:
    seen = first(answers)
    if seen.refused:
        return Outcome("ok", refusal(seen), "refused before it is sent")
    why = "a turn without content is accepted"
    return Outcome("set", why, "empty_turns = true", (quirk("empty_turns", True, why),))


def _system(answers: Answers) -> Outcome:
    seen = first(answers)
    if seen.refused:
        return Outcome("no", refusal(seen), "put system messages first")
    return Outcome("ok", "a system message in the middle is accepted")


def _inline_system(answers: Answers) -> Outcome:
    seen = first(answers)
    if seen.refused:
        return Outcome("ok", refusal(seen), "moved to the beginning")
    why = "a system message in the middle is accepted"
    return Outcome("set", why, "inline_system = true", (quirk("inline_system", True, why),))


def _tool_history(answers: Answers) -> Outcome:
    seen = first(answers)
    if seen.refused and (signed := answers.get("signed")) and signed.fine:
        why = f"calls without a thought signature are {refusal(seen)}"
        does = "lost signatures are replaced by a placeholder: call_signatures = true"
        return Outcome("set", why, does, (quirk("call_signatures", True, why),))
    if seen.refused:
        return Outcome("fault", refusal(seen), "a tool loop can't work")
    if "18" in words(seen.text):
        return Outcome("ok", "answered from the tool's result")
    return unclear(f"accepted; said {shown(seen.text, 60)}")


def _call_ids(answers: Answers) -> Outcome:
    if answers["long"].fine:
        return Outcome("ok", "an id of another provider is accepted")
    why = refusal(answers["long"])
    if (short := answers.get("short")) and short.fine:
        does = 'ids are replaced by nine letters and digits: call_ids = "nine_alphanumeric"'
        return Outcome("set", why, does, (quirk("call_ids", "nine_alphanumeric", why),))
    return unclear(why)


def _result_images(answers: Answers) -> Outcome:
    seen = first(answers)
    if seen.refused:
        return Outcome("ok", refusal(seen), "images are moved into a message of the user")
    why = "an image in a tool's result is accepted"
    return Outcome("set", why, "result_images = true", (quirk("result_images", True, why),))


def _images(answers: Answers) -> Outcome:
    seen = first(answers)
    if seen.refused:
        why = refusal(seen)
        return Outcome("set", why, "images are refused before they are sent", (capability("images", "no", why),))
    if "red" in words(seen.text):
        saw = "saw that the picture is red"
        return Outcome("ok", saw, settings=(capability("images", "yes", saw),))
    return unclear(f"accepted; said {shown(seen.text, 60)}")


def _unknown_model(answers: Answers) -> Outcome:
    seen = first(answers)
    if seen.fine:
        return Outcome("handled", "any name of a model is accepted", "a misspelled name is not noticed")
    return _error_shape(seen, "an unknown model")


def _malformed(answers: Answers) -> Outcome:
    seen = first(answers)
    if seen.fine:
        return Outcome("handled", "a malformed request is answered all the same")
    return _error_shape(seen, "a malformed request")


def _error_shape(seen: Any, what: str) -> Outcome:
    status = seen.recording.status if seen.recording else 0
    body = getattr(seen.error, "body", None)
    error = body.get("error") if isinstance(body, dict) else None
    has_message = isinstance(error, dict) and isinstance(error.get("message"), str)
    if status >= 500:
        return Outcome("fault", f"{what} is answered with status {status}: {shown(seen.said)}", "it may be retried")
    if has_message:
        return Outcome("ok", f"status {status}: {shown(seen.said)}")
    return Outcome("handled", f"status {status}, and no error object: {shown(seen.said)}", "the message is found")


CONVERSATION = (
    Probe(
        "system_middle",
        "conversation",
        "May a system message stand in the middle?",
        _system,
        (Ask("middle", [user(LINE), assistant("Hello!"), system("Be brief."), user(LINE)], options=capped(48)),),
        wires=("chat", "kimi", "responses"),
    ),
    Probe(
        "inline_system",
        "conversation",
        "May a system message stand in the middle?",
        _inline_system,
        (
            Ask(
                "middle",
                [user(LINE), assistant("Hello!"), user(LINE)],
                options=capped(48),
                special="a system message",
                edit=_messages(lambda m: [*m[:2], {"role": "system", "content": "Be brief."}, *m[2:]]),
            ),
        ),
        wires=("anthropic",),
    ),
    Probe(
        "developer_role",
        "conversation",
        "Is the role developer known?",
        _developer,
        (
            Ask(
                "developer",
                LINE,
                options=capped(48),
                special="role: developer",
                edit=_messages(lambda m: [{"role": "developer", "content": "Be brief."}, *m]),
            ),
        ),
        wires=("chat",),
    ),
    Probe(
        "message_names",
        "conversation",
        "May a message have a name?",
        _names,
        (
            Ask(
                "name",
                LINE,
                options=capped(48),
                special="name: anna",
                edit=_messages(lambda m: [{**m[0], "name": "anna"}, *m[1:]]),
            ),
        ),
        wires=("chat",),
    ),
    Probe(
        "empty_turns",
        "conversation",
        "May a turn be empty?",
        _empty,
        (
            Ask(
                "empty",
                LINE,
                options=capped(48),
                special="an empty turn of the user",
                edit=_messages(
                    lambda m: [{"role": "user", "content": ""}, {"role": "assistant", "content": "Yes?"}, *m]
                ),
            ),
        ),
        wires=("chat",),
    ),
    Probe(
        "tool_history",
        "conversation",
        "Are earlier calls and their results accepted?",
        _tool_history,
        (
            Ask("history", HISTORY, (WEATHER,), options=capped(), edit=_signed_calls()),
            Ask(
                "signed",
                HISTORY,
                (WEATHER,),
                options=capped(),
                special="a call with the placeholder of a thought signature",
                edit=_signed_calls(extra_content=PLACEHOLDER),
                when=was_refused("history"),
            ),
        ),
        whim=True,
        needs="one_call",
    ),
    Probe(
        "call_ids",
        "conversation",
        "Are ids of calls of other providers accepted?",
        _call_ids,
        (
            Ask("long", HISTORY, (WEATHER,), options=capped(64), special=_LONG_ID, edit=raw_history(_LONG_ID)),
            Ask(
                "short",
                HISTORY,
                (WEATHER,),
                options=capped(64),
                special=_SHORT_ID,
                when=was_refused("long"),
                edit=raw_history(_SHORT_ID),
            ),
        ),
        wires=("chat",),
        needs="tool_history",
    ),
    Probe(
        "result_images",
        "conversation",
        "May a tool's result be an image?",
        _result_images,
        (
            Ask(
                "image",
                HISTORY,
                (WEATHER,),
                options=capped(64),
                special="an image in the result",
                edit=raw_history(result=[{"type": "image_url", "image_url": {"url": PICTURE}}]),
            ),
        ),
        wires=("chat",),
        needs="tool_history",
    ),
    Probe(
        "images",
        "conversation",
        "Can it see images?",
        _images,
        (
            Ask(
                "image",
                [user("Which colour is this picture? Answer with one word.", image(PICTURE))],
                options=capped(48),
                special="a red square as data",
            ),
        ),
        whim=True,
    ),
    Probe(
        "unknown_model",
        "errors",
        "How is an unknown model refused?",
        _unknown_model,
        (
            Ask(
                "model",
                LINE,
                options=capped(16),
                special="model: no-such-model",
                edit=with_members(model="no-such-model"),
                patience=1,
            ),
        ),
        wires=("chat", "kimi", "responses", "anthropic"),
    ),
    Probe(
        "malformed",
        "errors",
        "How is a malformed request refused?",
        _malformed,
        (
            Ask(
                "malformed",
                LINE,
                options=capped(16),
                special="the conversation is a number",
                patience=1,
                edit=lambda body: {**body, **{key: 7 for key in ("messages", "input", "contents") if key in body}},
            ),
        ),
    ),
)
