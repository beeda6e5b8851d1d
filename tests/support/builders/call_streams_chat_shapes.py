"""How servers number the calls of Chat Completions streams, and the pieces that they send them in."""

from __future__ import annotations

import json
import random
from typing import Any

from call_streams_chat import NUMBERING, PIECES, SAYING, Piece, Plan, deviation, entry, every_piece, some, tails
from call_truth import an_object, cut, full, parse

# ---- How calls are numbered


@deviation(NUMBERING, 1, "numbering")
def starts_elsewhere(plan: Plan, rng: random.Random) -> None:
    """The first index is 1, or any other."""
    first = rng.choice((1, 1, 7))
    for call in plan.calls:
        call.index += first


@deviation(NUMBERING, 0.5, "numbering")
def starts_at_minus_one(plan: Plan, rng: random.Random) -> None:
    """The first index is -1: it tells its call from the others, but is no place in the order."""
    plan.ordered = False
    for call in plan.calls:
        call.index -= 1


@deviation(NUMBERING, 1, "numbering")
def gaps(plan: Plan, rng: random.Random) -> None:
    """Indices count something else too."""
    for call, index in zip(plan.calls, sorted(rng.sample(range(20), len(plan.calls))), strict=True):
        call.index = index


@deviation(NUMBERING, 1, "numbering")
def descending(plan: Plan, rng: random.Random) -> None:
    """The first call has the highest index."""
    for call in plan.calls:
        call.index = len(plan.calls) - 1 - call.index


@deviation(NUMBERING, 0.5, "numbering")
def index_of_another_type(plan: Plan, rng: random.Random) -> None:
    """An index is written as text or as a float."""
    kind = rng.choice((str, float))
    for call in plan.calls:
        call.index = kind(call.index)


@deviation(NUMBERING, 1, "numbering")
def no_index_but_ids(plan: Plan, rng: random.Random) -> None:
    """No fragment has an index, each has the id of its call."""
    plan.by = "id"
    for call in plan.calls:
        call.index = None


@deviation(NUMBERING, 1, "numbering")
def index_on_heads_ids_on_all(plan: Plan, rng: random.Random) -> None:
    """Only the first fragment of a call has its index, each has its id."""
    plan.by, plan.bare_tails = "id", True


@deviation(NUMBERING, 1, "numbering")
def no_index(plan: Plan, rng: random.Random) -> None:
    """No fragment has an index, only heads have an id: one call after the other."""
    plan.by = "order"
    for call in plan.calls:
        call.index = None


@deviation(NUMBERING, 0.7, "numbering")
def no_index_no_id(plan: Plan, rng: random.Random) -> None:
    """No fragment has an index or an id: each name begins a call."""
    plan.by = "order"
    for call in plan.calls:
        call.index = call.id = None


@deviation(NUMBERING, 1, "numbering")
def constant_index(plan: Plan, rng: random.Random) -> None:
    """All calls have one index; a head with an id of its own begins the next one."""
    plan.by = "order"
    index = rng.choice((0, 0, 0, 1, -1))
    for call in plan.calls:
        call.index = index


@deviation(NUMBERING, 0.5, "numbering")
def constant_index_no_ids(plan: Plan, rng: random.Random) -> None:
    """All calls have one index and no id. Only that nothing is mixed is sure."""
    plan.need(len(plan.calls) > 1)
    plan.by, plan.safe = "order", True
    for call in plan.calls:
        call.index, call.id, call.text = 0, None, an_object(rng)  # names without arguments could be one name in parts


@deviation(NUMBERING, 0.5, "numbering")
def constant_index_ids_on_all(plan: Plan, rng: random.Random) -> None:
    """All calls have one index, and interleaved fragments with their ids. Only that nothing is mixed is sure."""
    plan.need(len(plan.calls) > 1)
    plan.by, plan.safe = "id", True
    for call in plan.calls:
        call.index = 0


@deviation(NUMBERING, 0.7, "numbering")
def index_on_some_calls(plan: Plan, rng: random.Random) -> None:
    """Calls come one after the other, some with an index and some without; each head has an id."""
    plan.by = "order"
    for call in some(plan, rng):
        call.index = None


@deviation(NUMBERING, 0.7, "numbering")
def index_on_heads(plan: Plan, rng: random.Random) -> None:
    """Only heads have an index, the other fragments belong to the newest call."""
    plan.by, plan.bare_tails = "order", True


@deviation(NUMBERING, 0.3, "numbering")
def tails_one_index_further(plan: Plan, rng: random.Random) -> None:
    """Heads have the index of the call before, fragments their own. Only that nothing is mixed is sure."""
    plan.by, plan.safe, plan.tails_further = "order", True, True


@deviation(NUMBERING, 0.5, "numbering")
def function_call(plan: Plan, rng: random.Random) -> None:
    """The legacy form: one `function_call` without index and id."""
    plan.need(len(plan.calls) == 1)
    plan.by = "legacy"
    plan.calls[0].id = plan.calls[0].index = None


# ---- What calls say


@deviation(SAYING, 1)
def one_id_for_two_calls(plan: Plan, rng: random.Random) -> None:
    """Ids begin anew in one answer; the index tells the calls apart."""
    plan.need(plan.by == "index", len(plan.calls) > 1)
    for call in rng.sample(plan.calls, rng.randint(2, len(plan.calls))):
        call.id = "functions.f:0"


@deviation(SAYING, 1)
def missing_ids(plan: Plan, rng: random.Random) -> None:
    """Some calls never get an id."""
    plan.need(plan.by == "index")
    for call in some(plan, rng):
        call.id = None


@deviation(SAYING, 1)
def the_same_call_again(plan: Plan, rng: random.Random) -> None:
    """A model calls one tool twice with the same arguments."""
    plan.need(len(plan.calls) > 1)
    first, *others = rng.sample(plan.calls, rng.randint(2, len(plan.calls)))
    for call in others:
        call.name, call.text = first.name, first.text


@deviation(SAYING, 0.7)
def one_name(plan: Plan, rng: random.Random) -> None:
    """All calls are of one tool."""
    for call in plan.calls:
        call.name = "f"


@deviation(SAYING, 1)
def no_arguments(plan: Plan, rng: random.Random) -> None:
    """Some calls are of tools without parameters."""
    plan.need(not plan.safe)
    for call in rng.sample(plan.calls, rng.randint(0, len(plan.calls))):
        call.text = rng.choice(("", "", "{}", "null", " "))


@deviation(SAYING, 0.7)
def null_instead_of_no_index(plan: Plan, rng: random.Random) -> None:
    """An index that is not known is null."""
    plan.need(plan.by in ("id", "order"))
    plan.null_index = True


@deviation(SAYING, 0.7)
def halves_of_pairs(plan: Plan, rng: random.Random) -> None:
    """A server cuts characters beyond U+FFFF in two."""
    plan.halves = True
    for call in plan.calls:
        call.text = json.dumps({rng.choice("a😀"): rng.choice(("😀", "x😀😀", "👩‍🚀{"))}, ensure_ascii=False)


# ---- Which pieces a call comes in


@deviation(PIECES, 1)
def ids_again(plan: Plan, rng: random.Random) -> None:
    """Each fragment repeats the id of its call."""
    plan.need(plan.by != "legacy")
    for piece in tails(plan):
        if piece.call and piece.call.id:
            piece.entry["id"] = piece.call.id


@deviation(PIECES, 1)
def names_again(plan: Plan, rng: random.Random) -> None:
    """Each fragment repeats the name of its call."""
    plan.need(plan.by in ("index", "id"))
    for piece in tails(plan):
        if piece.call and rng.random() < 0.8:
            piece.entry.setdefault("function", {})["name"] = piece.call.name


@deviation(PIECES, 1)
def empty_ids_and_names(plan: Plan, rng: random.Random) -> None:
    """Members that say nothing come as "" or null on later fragments."""
    nothing = rng.choice(("", None))
    for piece in tails(plan):
        piece.entry.setdefault("id", nothing)
        piece.entry.setdefault("type", nothing)
        function = piece.entry.setdefault("function", {})
        if isinstance(function, dict):
            function.setdefault("name", nothing)


@deviation(PIECES, 1, "identity")
def ids_change(plan: Plan, rng: random.Random) -> None:
    """An id is drawn anew for each fragment inside the arguments; the index and the first id stay."""
    plan.need(plan.by == "index")
    for call in plan.calls:
        before = call.pieces[0].text
        for number, piece in enumerate(call.pieces[1:]):
            if before.lstrip().startswith("{") and parse(before)[1] and rng.random() < 0.8:
                piece.entry["id"] = f"new_{call.index}_{number}"
            before += piece.text


@deviation(PIECES, 1, "identity")
def ids_come_late(plan: Plan, rng: random.Random) -> None:
    """The id of a call comes with one of its later fragments."""
    plan.need(plan.by == "index")
    for call in some(plan, rng):
        if call.id and call.pieces[0].entry.pop("id", None):
            late = Piece(call, entry(call, call.id))
            call.pieces.append(late)
            if len(call.pieces) > 2 and rng.random() < 0.7:
                call.pieces.pop()
                rng.choice(call.pieces[1:]).entry["id"] = call.id


@deviation(PIECES, 1.5, "names")
def names_come_late(plan: Plan, rng: random.Random) -> None:
    """The name of a call comes behind some or all of its arguments."""
    plan.need(plan.by in ("index", "id"))
    for call in some(plan, rng):
        head = call.pieces[0].entry
        head.get("function", {}).pop("name", None)
        if not head.get("function") and rng.random() < 0.5:
            head.pop("function", None)
        at = rng.randint(1, len(call.pieces))
        for piece in call.pieces[1:at]:
            piece.entry.get("function", {}).pop("name", None)
        call.pieces.insert(at, Piece(call, entry(call, name=call.name)))


@deviation(PIECES, 0.7, "names")
def heads_come_last(plan: Plan, rng: random.Random) -> None:
    """Id and name come in one entry behind all of the arguments."""
    plan.need(plan.by == "index")
    for call in some(plan, rng):
        head = call.pieces[0]
        if head.text or len(call.pieces) == 1:
            continue
        call.pieces.append(call.pieces.pop(0))


@deviation(PIECES, 0.7)
def without_type(plan: Plan, rng: random.Random) -> None:
    """The type is missing or empty."""
    for piece in every_piece(plan):
        if rng.random() < 0.7:
            piece.entry.pop("type", None)
        else:
            piece.entry["type"] = rng.choice(("", None, "function"))


@deviation(PIECES, 0.7, "repair")
def empty_object_first(plan: Plan, rng: random.Random) -> None:
    """`{}` comes before the real arguments."""
    for call in plan.calls:
        if full(call.text) and not call.pieces[0].text:
            call.pieces[0].entry.setdefault("function", {})["arguments"] = "{}"
            call.exact = False


@deviation(PIECES, 0.7, "repair")
def all_again_at_the_end(plan: Plan, rng: random.Random) -> None:
    """A closing entry repeats a whole call."""
    plan.need(plan.by in ("index", "id"))
    for call in plan.calls:
        if full(call.text) and call.text == call.text.strip():
            call.pieces.append(Piece(call, entry(call, call.id, call.name, call.text)))
            call.exact = False


@deviation(PIECES, 0.7, "repair")
def arguments_as_objects(plan: Plan, rng: random.Random) -> None:
    """Arguments come as an object instead of a text."""
    for call in plan.calls:
        if full(call.text):
            whole_entry = entry(call, call.id, call.name, json.loads(call.text), type="function")
            call.pieces, call.exact = [Piece(call, whole_entry, call.text)], False


@deviation(PIECES, 0.7, "repair")
def encoded_twice(plan: Plan, rng: random.Random) -> None:
    """Arguments are a JSON string that holds the JSON object."""
    for call in plan.calls:
        if full(call.text):
            parts = cut(json.dumps(call.text), rng)
            call.pieces = [Piece(call, entry(call, call.id, call.name, "", type="function"))]
            call.pieces += [Piece(call, entry(call, text=part)) for part in parts]
            call.pieces[-1].text, call.exact = call.text, False


@deviation(PIECES, 0.5)
def names_and_arguments_apart(plan: Plan, rng: random.Random) -> None:
    """The head has no arguments, not even empty ones."""
    for call in plan.calls:
        head = call.pieces[0]
        function = head.entry.get("function") or {}
        if head.text and "arguments" in function and call.exact:
            text, head.text = head.text, ""
            del function["arguments"]
            call.pieces.insert(1, Piece(call, entry(call, text=text), text))


@deviation(PIECES, 1)
def empty_fragments(plan: Plan, rng: random.Random) -> None:
    """Entries that say nothing: no function, an empty one, null or empty arguments."""
    for call in plan.calls:
        for _ in range(rng.randint(1, 3)):
            nothing: dict[str, Any] = rng.choice(
                (
                    *({}, {"function": None}, {"function": {}}, {"function": {"arguments": None}}),
                    *({"function": {"arguments": ""}}, {"id": "", "function": {"name": "", "arguments": ""}}),
                )
            )
            at = rng.randint(0 if plan.by == "index" else 1, len(call.pieces))
            index = {} if call.index is None else {"index": call.index}
            call.pieces.insert(at, Piece(call, {**index, **json.loads(json.dumps(nothing))}))


@deviation(PIECES, 0.7)
def entries_of_no_call(plan: Plan, rng: random.Random) -> None:
    """An entry with an index that no call has, and nothing else, is no call."""
    plan.need(plan.by == "index", plan.calls)
    rest: dict[str, Any] = rng.choice(({}, {"type": "function"}, {"function": {"name": "", "arguments": ""}}))
    call = rng.choice(plan.calls)
    call.pieces.insert(rng.randint(0, len(call.pieces)), Piece(None, {"index": 90, **rest}))
