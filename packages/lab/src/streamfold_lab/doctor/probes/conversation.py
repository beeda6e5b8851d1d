"""Probes for conversations: which message roles, contents and earlier turns a server accepts."""

from __future__ import annotations

from random import Random
from typing import Any

from streamfold import assistant, image, system, user

from ..known_values import BOTH, CODE_TOKENS, codes, sent_text, with_random_values
from ..questions import DAYS, LINE, PICTURE, capped, prompt_words
from ..values import Answers, Conclusion, ProbeRequest, ProbeResponse
from .judging import (
    ProbeGroup,
    capability,
    edit_messages,
    edited,
    if_refused,
    judge_codes,
    refusal,
    set_quirk,
    shown,
    unclear,
)

_BEGUN = "monday tuesday wednesday"
_REST = ["thursday", "friday", "saturday", "sunday"]


def _begun_message(body: dict[str, Any]) -> dict[str, Any]:
    messages = [*body["messages"], {"role": "assistant", "content": _BEGUN}]
    return {**body, "messages": messages, "continue_final_message": True, "add_generation_prompt": False}


def _goes_on(seen: ProbeResponse) -> bool:
    return prompt_words(seen.text)[: len(_REST)] == _REST


CONVERSATION = ProbeGroup("conversation")


def _middle(rng: Random) -> ProbeRequest:
    first, last = codes(rng, 2)
    messages = [
        user(f"The first code is {first}."), assistant("Noted."), system(f"The last code is {last}."), user(BOTH)
    ]  # fmt: skip
    return ProbeRequest("middle", messages, options=capped(CODE_TOKENS))


CONVERSATION.probe(
    "system_middle",
    "Does the model see a system message in the middle of a conversation?",
    with_random_values(_middle),
    apis=("chat", "kimi", "responses"),
    whim=True,
    refused=("no", "put system messages first"),
)(lambda seen: judge_codes(seen, sent_text(seen), "a system message in the middle"))


CONVERSATION.probe(
    "inline_system",
    "Is a system message in the middle of a conversation accepted?",
    edited(
        "middle",
        "a system message",
        edit_messages(lambda m: [*m[:2], {"role": "system", "content": "Be brief."}, *m[2:]]),
        [user(LINE), assistant("Hello!"), user(LINE)],
    ),
    apis=("anthropic",),
    refused=("ok", "moved to the beginning"),
)(lambda _: set_quirk("a system message in the middle is accepted", "inline_system = true", "inline_system", True))


CONVERSATION.probe(
    "developer_role",
    "Is the role developer accepted?",
    edited(
        "developer", "role: developer", edit_messages(lambda m: [{"role": "developer", "content": "Be brief."}, *m])
    ),
    apis=("chat",),
)(if_refused("the role developer is accepted", "developer_role", False, "sent as system: developer_role = false"))


CONVERSATION.probe(
    "message_names",
    "May a message have a name?",
    edited("name", "name: anna", edit_messages(lambda m: [{**m[0], "name": "anna"}, *m[1:]])),
    apis=("chat",),
)(if_refused("a name in a message is accepted", "message_names", False, "message_names = false"))


CONVERSATION.probe(
    "empty_turns",
    "May a message be empty?",
    edited(
        "empty",
        "an empty user message",
        edit_messages(lambda m: [{"role": "user", "content": ""}, {"role": "assistant", "content": "Yes?"}, *m]),
    ),
    apis=("chat",),
    refused=("ok", "empty messages are rejected before they are sent"),
)(lambda _: set_quirk("a message without content is accepted", "empty_turns = true", "empty_turns", True))


@CONVERSATION.probe(
    "images",
    "Can the model see images?",
    ProbeRequest(
        "image",
        [user("Which colour is this picture? Answer with one word.", image(PICTURE))],
        options=capped(48),
        special="a red square as data",
    ),
    whim=True,
)
def _images(seen: ProbeResponse) -> Conclusion:
    if seen.refused:
        why = refusal(seen)
        return Conclusion("set", why, "images are rejected before they are sent", (capability("images", "no", why),))
    if "red" in prompt_words(seen.text):
        saw = "the model saw that the picture is red"
        return Conclusion("ok", saw, settings=(capability("images", "yes", saw),))
    return unclear(f"accepted; the text is {shown(seen.text, 60)}")


@CONVERSATION.probe_many(
    "continues",
    "Can the model continue a partial text?",
    edited(
        "prefix",
        "a last assistant message with prefix: true",
        edit_messages(lambda m: [*m, {"role": "assistant", "content": _BEGUN, "prefix": True}]),
        DAYS,
        tokens=64,
    ),
    edited(
        "final",
        "continue_final_message: true",
        _begun_message,
        DAYS,
        tokens=64,
        when=lambda so_far: not (so_far["prefix"].fine and _goes_on(so_far["prefix"])),
    ),
    apis=("chat",),
)
def _continues(answers: Answers) -> Conclusion:
    for name, member in (("prefix", "prefix"), ("final", "continue_final_message")):
        seen = answers.get(name)
        if seen and seen.fine and _goes_on(seen):
            why = f"the model continued a partial text with {member}"
            return set_quirk(why, f'continues = "{member}"', "continues", member)
    return Conclusion("no", "a partial text isn't continued", "send the request again")
