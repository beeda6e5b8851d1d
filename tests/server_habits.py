"""A server with random habits: the truth first, then a stream that says it the way some server does.

`make(seed)` draws calls, then habits, then writes the stream. It uses nothing of the library. Habits are drawn so that
the stream still says the truth: a reader without guesses could find it. Whatever can't be told from a stream, such as
interleaved fragments without any number or id, is not drawn.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Any

DONE = b"data: [DONE]\n\n"
NAMES = ["f", "g", "get_weather", "get_time", "delete"]
EMPTIES = ["{}", "", "null", "[]"]


@dataclass
class Said:
    """A stream and its truth.

    Attributes:
        wire: the adapter that reads it.
        body: the stream.
        calls: name and arguments of each call, in order.
        cut: the answer is not whole: no call may be handed out.
        broken: the stream ends with an error.
        lost: an event is missing: no more is promised than that no call runs with other arguments than it has.
        ordered: the stream says in which order the calls are.
        habits: what the server does, for the message of a failure.
    """

    wire: str
    body: bytes
    calls: list[tuple[str, dict[str, Any]]]
    cut: bool
    broken: bool
    lost: bool
    ordered: bool
    habits: dict[str, Any] = field(default_factory=dict)


def make(seed: int) -> Said:
    """The stream of a seed."""
    rng = Random(seed)
    return (_responses if rng.random() < 0.5 else _chat)(rng)


def _truth(rng: Random) -> list[tuple[str, dict[str, Any]]]:
    values = [1, -2.5, "x", "é👋", "{}", '"}', None, True, [1, {"a": []}], {"b": {}}, "a" * 30]
    return [
        (
            rng.choice(NAMES),
            {rng.choice("abxy") + str(n): rng.choice(values) for n in range(rng.choice([0, 1, 1, 2, 3]))},
        )
        for _ in range(rng.choice([1, 1, 2, 2, 3, 4]))
    ]


def _pieces(rng: Random, text: str) -> list[str]:
    cuts = sorted({rng.randrange(1, len(text)) for _ in range(rng.choice([0, 1, 2, 5]))}) if len(text) > 1 else []
    return [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)] if text else []


def _text(rng: Random, arguments: dict[str, Any]) -> str:
    if not arguments:
        return rng.choice(["", "{}"])
    return json.dumps(arguments, ensure_ascii=rng.random() < 0.5)


def _mixed(rng: Random, lanes: list[list[Any]], *, interleave: bool) -> list[Any]:
    """The lanes one behind the other, or mixed, each in its own order."""
    if not interleave:
        return [one for lane in lanes for one in lane]
    lanes, mixed = [list(lane) for lane in lanes], []
    while left := [lane for lane in lanes if lane]:
        mixed.append(rng.choice(left).pop(0))
    return mixed


def _event(payload: dict[str, Any], name: str = "") -> bytes:
    head = f"event: {name}\n" if name else ""
    return f"{head}data: {json.dumps(payload)}\n\n".encode()


# --- Responses -------------------------------------------------------------------------------------------------------


def _responses(rng: Random) -> Said:
    habits = _responses_habits(rng)
    truth = _truth(rng)
    fresh = iter(range(10**6))

    def redrawn(kind: str) -> str:
        return f"{kind}_{rng.randrange(16**6):06x}{next(fresh)}"

    def emptied(text: str) -> str:
        return rng.choice(EMPTIES) if text not in ("", "{}") else text

    def place(number: int) -> dict[str, Any]:
        members: dict[str, Any] = {}
        if habits["index"]:
            members["output_index"] = {"int": number, "str": str(number), "float": float(number)}[habits["index"]]
        if habits["item"]:
            members["item_id"] = f"fc_{number}" if habits["item"] == "kept" else redrawn("fc")
        return members

    def item(number: int, arguments: str, call_id: str | None, status: str) -> dict[str, Any]:
        members = {"type": "function_call", "name": truth[number][0], "arguments": arguments, "status": status}
        if habits["item"]:
            members["id"] = f"fc_{number}" if habits["item"] == "kept" else redrawn("fc")
        return members if call_id is None else {**members, "call_id": call_id}

    def lane(number: int) -> Iterator[dict[str, Any]]:
        text, call_id = _text(rng, truth[number][1]), f"call_{number}"
        at = place(number)
        at.pop("item_id", None)
        if habits["added"]:
            begun = {"full": text, "placeholder": "{}", None: ""}[habits["begun"]]
            yield {"type": "output_item.added", **at, "item": item(number, begun, call_id, "in_progress")}
        if habits["deltas"]:
            for piece in _pieces(rng, text):
                yield {"type": "function_call_arguments.delta", **place(number), "delta": piece}
        if habits["done"]:
            said = emptied(text) if habits["done"] == "emptied" else text
            name = {"name": truth[number][0]} if habits["done"] == "named" else {}
            where = {} if habits["done_bare"] else place(number)
            yield {"type": "function_call_arguments.done", **where, "arguments": said, **name}
        if habits["item_done"]:
            said = emptied(text) if habits["item_done"] == "emptied" else text
            done_id = redrawn("call") if habits["done_id"] == "redrawn" else call_id
            yield {"type": "output_item.done", **at, "item": item(number, said, done_id, "completed")}

    texts = [_text(rng, arguments) for _, arguments in truth]
    events = _mixed(rng, [list(lane(number)) for number in range(len(truth))], interleave=habits["interleave"])
    output = []
    if habits["output"]:
        for number, text in enumerate(texts):
            said = emptied(text) if habits["output"] == "emptied" else text
            call_id = redrawn("call") if habits["output_id"] == "redrawn" else f"call_{number}"
            output.append(item(number, said, call_id, "completed"))
    end = habits["end"]
    response = {"id": "resp", "status": "completed", "output": output}
    if end == "incomplete":
        response |= {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}
    if end == "failed":
        response |= {"status": "failed", "error": {"code": "server_error", "message": "no"}}
    if end != "eof":
        events.append({"type": end, "response": response})
    if habits["numbered"]:
        events = [{**one, "sequence_number": number} for number, one in enumerate(events)]
    deltas = [one for one in events if one["type"].endswith("arguments.delta")]
    emptied_too = "emptied" in (habits["done"], habits["item_done"], habits["output"])
    lost = habits["numbered"] and habits["lost"] and bool(deltas) and not emptied_too
    if lost:
        events.remove(rng.choice(deltas))
    ordered = bool(habits["index"]) or not habits["interleave"]
    body = b"".join(_event({**one, "type": f"response.{one['type']}"}, f"response.{one['type']}") for one in events)
    if habits["done_mark"] and end != "eof":
        body += DONE
    return Said("responses", body, truth, end != "completed", end in ("eof", "failed"), lost, ordered, habits)


def _responses_habits(rng: Random) -> dict[str, Any]:
    while True:
        habits: dict[str, Any] = {
            "item": rng.choice(["kept", "kept", "redrawn", None]),
            "index": rng.choice(["int", "int", "str", "float", None]),
            "added": rng.random() < 0.7,
            "begun": rng.choice([None, None, None, "placeholder", "full"]),
            "deltas": rng.random() < 0.8,
            "done": rng.choice(["full", "named", "emptied", None]),
            "done_bare": rng.random() < 0.2,
            "item_done": rng.choice(["full", "full", "emptied", None]),
            "done_id": rng.choice(["kept", "kept", "redrawn"]),
            "output": rng.choice(["full", "full", "emptied", None]),
            "output_id": rng.choice(["kept", "kept", "redrawn"]),
            "interleave": rng.random() < 0.4,
            "numbered": rng.random() < 0.5,
            "lost": rng.random() < 0.1,
            "done_mark": rng.random() < 0.2,
            "end": rng.choice(["completed"] * 6 + ["incomplete", "failed", "eof"]),
        }
        if _says_the_truth(habits):
            return habits


def _says_the_truth(habits: dict[str, Any]) -> bool:
    """Whether these habits leave enough in the stream to find the calls."""
    placed = habits["index"] or habits["item"] == "kept"
    named = habits["added"] or habits["item_done"] or (habits["output"] and placed)
    filled = habits["deltas"] or "full" in (habits["done"], habits["item_done"], habits["output"])
    filled = filled or habits["done"] == "named"
    if not (named and filled):
        return False
    if not placed and (
        habits["interleave"] or not habits["added"] or "redrawn" in (habits["done_id"], habits["output_id"])
    ):
        return False
    bare = habits["done_bare"] and habits["done"]
    return not (bare and (habits["interleave"] or not habits["added"]))


# --- Chat Completions ------------------------------------------------------------------------------------------------


def _chat(rng: Random) -> Said:
    habits = _chat_habits(rng)
    truth = _truth(rng)

    def entry(number: int, place: int, arguments: Any) -> dict[str, Any]:
        made: dict[str, Any] = {"type": "function", "function": {}}
        if habits["index"] is not None:
            made["index"] = {"right": number, "one": number + 1, "zero": 0, "str": str(number)}[habits["index"]]
        first, second = place == 0, place == 1
        if habits["id"] == "every" or (habits["id"] == "head" and first) or (habits["id"] == "late" and second):
            made["id"] = f"call_{number}"
        elif habits["blank"]:
            made["id"] = ""
        if first or habits["name"] == "every":
            made["function"]["name"] = truth[number][0]
        elif habits["blank"]:
            made["function"]["name"] = ""
        if arguments is not None:
            made["function"]["arguments"] = arguments
        return made

    def lane(number: int) -> list[dict[str, Any]]:
        text = _text(rng, truth[number][1])
        if habits["form"] == "object":
            return [entry(number, 0, truth[number][1])]
        if habits["form"] == "twice" and truth[number][1]:
            text = json.dumps(text)
        pieces: list[str | None] = list(_pieces(rng, text))
        if habits["head"] == "empty" or not pieces:
            pieces = [rng.choice(["", None]), *pieces]
        elif habits["head"] == "placeholder" and truth[number][1]:
            pieces = ["{}", *pieces]
        if habits["id"] == "late" and len(pieces) < 2:
            pieces.append("")
        if habits["repeat"] and truth[number][1]:
            pieces.append(text)
        return [entry(number, place, piece) for place, piece in enumerate(pieces)]

    lanes = [lane(number) for number in range(len(truth))]
    told = [any(one["function"].get("arguments") not in (None, "") for one in each) for each in lanes]
    entries = _mixed(rng, lanes, interleave=habits["interleave"])
    deltas: list[dict[str, Any]] = []
    while entries:
        taken = rng.choice([1, 1, 2, 3])
        deltas.append({"tool_calls": entries[:taken]})
        entries = entries[taken:]
    if rng.random() < 0.3:
        deltas.insert(rng.randrange(len(deltas) + 1), {"content": "hm"})
    events: list[dict[str, Any]] = [_chunk(delta) for delta in deltas]
    words, cut, broken = habits["end"]
    if habits["early"] and words:  # an end behind it alone is inside a call or not: tests/engine/test_breaks.py
        events.insert(rng.randrange(len(events) + 1), _chunk({}, rng.choice(["stop", "tool_calls"])))
    for word in words:
        events.append(_chunk({}, word))
    if habits["message"] and words:
        calls = []
        for number, (name, arguments) in enumerate(truth):
            said = "{}" if habits["message"] == "emptied" else _text(rng, arguments)
            told[number] = told[number] or said != ""
            ids = {"kept": {"id": f"call_{number}"}, "redrawn": {"id": f"again_{number}"}, None: {}}
            calls.append(
                {"type": "function", **ids[habits["message_id"]], "function": {"name": name, "arguments": said}}
            )
        message = {"role": "assistant", "content": None, "tool_calls": calls}
        choice = {"index": 0, "message": message, "finish_reason": words[-1]}
        events[-1] = {"id": "c", "object": "chat.completion", "choices": [choice]}
    body = b"".join(map(_event, events))
    ordered = habits["index"] not in ("zero", None) or not habits["interleave"]
    if words == ["weird"]:  # nobody knows whether heads alone are whole
        truth = [one for one, whole in zip(truth, told, strict=True) if whole]
    body += DONE if habits["done"] and words else b""
    return Said("chat", body, truth, cut, broken, False, ordered, habits)


def _chunk(delta: dict[str, Any], reason: str | None = None) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta, "finish_reason": reason}
    return {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}


_ENDS: list[tuple[list[str], bool, bool]] = [
    (["tool_calls"], False, False),
    (["stop"], False, False),
    (["stop", "tool_calls"], False, False),
    (["weird"], False, False),
    (["length"], True, False),
    (["length", "tool_calls"], True, False),
    (["content_filter", "stop"], True, False),
    (["timeout"], True, False),
    (["max_length", "stop"], True, False),
    (["error"], True, True),
    ([], True, True),
]


def _chat_habits(rng: Random) -> dict[str, Any]:
    while True:
        habits: dict[str, Any] = {
            "index": rng.choice(["right", "right", "one", "zero", "str", None]),
            "id": rng.choice(["head", "head", "every", "late", None]),
            "name": rng.choice(["head", "head", "every"]),
            "blank": rng.random() < 0.3,
            "head": rng.choice(["empty", "empty", "full", "placeholder"]),
            "repeat": rng.random() < 0.1,
            "form": rng.choice(["text"] * 6 + ["object", "twice"]),
            "early": rng.random() < 0.15,
            "interleave": rng.random() < 0.4,
            "message": rng.choice([None, None, None, "full", "emptied"]),
            "message_id": rng.choice(["kept", "redrawn", None]),
            "end": rng.choice(_ENDS[:3] * 4 + _ENDS),
            "done": rng.random() < 0.8,
        }
        placed = habits["index"] in ("right", "one", "str")
        if habits["form"] != "text" and (habits["repeat"] or habits["head"] == "placeholder" or habits["id"] == "late"):
            continue
        if not placed and (habits["id"] not in ("head", "every") or (habits["interleave"] and habits["id"] != "every")):
            continue
        return habits
