"""Conversations: which roles, contents and earlier turns a server accepts."""

from __future__ import annotations

from typing import Any

from streamfold.values import assistant, image, system, user

from ..questions import DAYS, LINE, PICTURE, capped, words
from ..values import Answers, Ask, Outcome, Probe, Seen
from .judging import capability, edit_messages, first, quirk, refusal, shown, unclear

__all__ = ["CONVERSATION"]

_BEGUN = "monday tuesday wednesday"
_REST = ["thursday", "friday", "saturday", "sunday"]


def _begun_message(body: dict[str, Any]) -> dict[str, Any]:
    begun = {"role": "assistant", "content": _BEGUN}
    final = {"continue_final_message": True, "add_generation_prompt": False}
    return {**body, "messages": [*body["messages"], begun], **final}


def _goes_on(seen: Seen) -> bool:
    return words(seen.text)[: len(_REST)] == _REST


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


def _images(answers: Answers) -> Outcome:
    seen = first(answers)
    if seen.refused:
        why = refusal(seen)
        return Outcome("set", why, "images are refused before they are sent", (capability("images", "no", why),))
    if "red" in words(seen.text):
        saw = "saw that the picture is red"
        return Outcome("ok", saw, settings=(capability("images", "yes", saw),))
    return unclear(f"accepted; said {shown(seen.text, 60)}")


def _continues(answers: Answers) -> Outcome:
    for name, member in (("prefix", "prefix"), ("final", "continue_final_message")):
        seen = answers.get(name)
        if seen and seen.fine and _goes_on(seen):
            why = f"went on with a text that was begun, by {member}"
            return Outcome("set", why, f'continues = "{member}"', (quirk("continues", member, why),))
    return Outcome("no", "a text that was begun is not gone on with", "begin it again")


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
                edit=edit_messages(lambda m: [*m[:2], {"role": "system", "content": "Be brief."}, *m[2:]]),
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
                edit=edit_messages(lambda m: [{"role": "developer", "content": "Be brief."}, *m]),
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
                edit=edit_messages(lambda m: [{**m[0], "name": "anna"}, *m[1:]]),
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
                edit=edit_messages(
                    lambda m: [{"role": "user", "content": ""}, {"role": "assistant", "content": "Yes?"}, *m]
                ),
            ),
        ),
        wires=("chat",),
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
        "continues",
        "conversation",
        "Can it go on with a text that was begun?",
        _continues,
        (
            Ask(
                "prefix",
                DAYS,
                options=capped(64),
                special="a last message of the assistant with prefix: true",
                edit=edit_messages(lambda m: [*m, {"role": "assistant", "content": _BEGUN, "prefix": True}]),
            ),
            Ask(
                "final",
                DAYS,
                options=capped(64),
                special="continue_final_message: true",
                edit=_begun_message,
                when=lambda so_far: not (so_far["prefix"].fine and _goes_on(so_far["prefix"])),
            ),
        ),
        wires=("chat",),
    ),
)
