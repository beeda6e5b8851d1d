"""Conversations: which roles, contents and earlier turns a server accepts."""

from __future__ import annotations

from typing import Any

from streamfold.values import assistant, image, system, user

from ..questions import DAYS, LINE, PICTURE, capped, words
from ..values import Answers, Ask, Outcome, Seen
from .judging import Theme, capability, edit_messages, edited, if_refused, refusal, sets, shown, unclear

_BEGUN = "monday tuesday wednesday"
_REST = ["thursday", "friday", "saturday", "sunday"]


def _begun_message(body: dict[str, Any]) -> dict[str, Any]:
    begun = {"role": "assistant", "content": _BEGUN}
    final = {"continue_final_message": True, "add_generation_prompt": False}
    return {**body, "messages": [*body["messages"], begun], **final}


def _goes_on(seen: Seen) -> bool:
    return words(seen.text)[: len(_REST)] == _REST


CONVERSATION = Theme("conversation")


@CONVERSATION.one(
    "system_middle",
    "May a system message stand in the middle?",
    Ask("middle", [user(LINE), assistant("Hello!"), system("Be brief."), user(LINE)], options=capped(48)),
    wires=("chat", "kimi", "responses"),
    refused=("no", "put system messages first"),
)
def _system(seen: Seen) -> Outcome:
    return Outcome("ok", "a system message in the middle is accepted")


@CONVERSATION.one(
    "inline_system",
    "May a system message stand in the middle?",
    edited(
        "middle",
        "a system message",
        edit_messages(lambda m: [*m[:2], {"role": "system", "content": "Be brief."}, *m[2:]]),
        [user(LINE), assistant("Hello!"), user(LINE)],
    ),
    wires=("anthropic",),
    refused=("ok", "moved to the beginning"),
)
def _inline_system(seen: Seen) -> Outcome:
    return sets("a system message in the middle is accepted", "inline_system = true", "inline_system", True)


CONVERSATION.one(
    "developer_role",
    "Is the role developer known?",
    edited(
        "developer", "role: developer", edit_messages(lambda m: [{"role": "developer", "content": "Be brief."}, *m])
    ),
    wires=("chat",),
)(if_refused("the role developer is accepted", "developer_role", False, "sent as system: developer_role = false"))


CONVERSATION.one(
    "message_names",
    "May a message have a name?",
    edited("name", "name: anna", edit_messages(lambda m: [{**m[0], "name": "anna"}, *m[1:]])),
    wires=("chat",),
)(if_refused("a name in a message is accepted", "message_names", False, "message_names = false"))


@CONVERSATION.one(
    "empty_turns",
    "May a turn be empty?",
    edited(
        "empty",
        "an empty turn of the user",
        edit_messages(lambda m: [{"role": "user", "content": ""}, {"role": "assistant", "content": "Yes?"}, *m]),
    ),
    wires=("chat",),
    refused=("ok", "refused before it is sent"),
)
def _empty(seen: Seen) -> Outcome:
    return sets("a turn without content is accepted", "empty_turns = true", "empty_turns", True)


@CONVERSATION.one(
    "images",
    "Can it see images?",
    Ask(
        "image",
        [user("Which colour is this picture? Answer with one word.", image(PICTURE))],
        options=capped(48),
        special="a red square as data",
    ),
    whim=True,
)
def _images(seen: Seen) -> Outcome:
    if seen.refused:
        why = refusal(seen)
        return Outcome("set", why, "images are refused before they are sent", (capability("images", "no", why),))
    if "red" in words(seen.text):
        saw = "saw that the picture is red"
        return Outcome("ok", saw, settings=(capability("images", "yes", saw),))
    return unclear(f"accepted; said {shown(seen.text, 60)}")


@CONVERSATION.several(
    "continues",
    "Can it go on with a text that was begun?",
    edited(
        "prefix",
        "a last message of the assistant with prefix: true",
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
    wires=("chat",),
)
def _continues(answers: Answers) -> Outcome:
    for name, member in (("prefix", "prefix"), ("final", "continue_final_message")):
        seen = answers.get(name)
        if seen and seen.fine and _goes_on(seen):
            why = f"went on with a text that was begun, by {member}"
            return sets(why, f'continues = "{member}"', "continues", member)
    return Outcome("no", "a text that was begun is not gone on with", "begin it again")
