"""Made conversations: seeded, in a neutral form, built by the library's public messages.

Each text has a mark of its own (`m7k`), so that it is found again in whatever body it was written into. `verdict` says,
from the turns alone, whether the library may refuse a conversation, and why.
"""

from __future__ import annotations

import json
import random
from base64 import b64decode
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from streamfold import Message, ToolCall, assistant, image, system, tool_result, user

Role = Literal["system", "user", "assistant", "tool"]
Answer = Literal["send", "refuse", "either"]
WORDS = [
    "river",
    "stone",
    "lamp",
    "cedar",
    "violet",
    "harbor",
    "copper",
    "meadow",
    "signal",
    "winter",
    "paper",
    "orchard",
    "glacier",
    "velvet",
    "engine",
    "canyon",
]
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
IMAGE = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}"}}
SEED = 5252


@dataclass(frozen=True)
class Call:
    """A call: its arguments are the text that the model wrote."""

    id: str
    name: str
    arguments: str
    mark: str


@dataclass(frozen=True)
class Turn:
    """A message. `pieces` are its texts: one string, or with `listed` a list of parts."""

    role: Role
    pieces: tuple[str, ...] = ()
    listed: bool = False
    images: int = 0
    calls: tuple[Call, ...] = ()
    answers: str | None = None
    error: bool = False
    reasoning: str | None = None
    refusal: str | None = None
    name: str | None = None

    @property
    def text(self) -> str:
        """All texts together."""
        return "".join(self.pieces)

    @property
    def empty(self) -> bool:
        """Whether nothing is in it."""
        return not (self.text.strip() or self.calls or self.reasoning or self.refusal or self.images)


@dataclass(frozen=True)
class Conversation:
    """Turns, the kinds of oddness in them, and the wire format that its plain answers come from ("": none)."""

    number: int
    kinds: tuple[str, ...]
    turns: tuple[Turn, ...]
    origin: str = ""

    @property
    def tools(self) -> tuple[str, ...]:
        """The names of all tools that it calls."""
        return tuple(dict.fromkeys(call.name for turn in self.turns for call in turn.calls))

    @property
    def images(self) -> bool:
        """Whether it has images."""
        return any(turn.images for turn in self.turns)


@dataclass
class Pen:
    """Writes texts, ids and calls with marks."""

    rng: random.Random
    count: int = 0
    ids: int = 0
    origin: str = ""
    taken: list[str] = field(default_factory=list)

    def mark(self) -> str:
        """Returns a new mark."""
        self.count += 1
        return f"m{self.count}k"

    def text(self) -> str:
        """Returns a text with a mark."""
        return f"{self.mark()} {' '.join(self.rng.sample(WORDS, self.rng.randint(2, 5)))}."

    def id(self) -> str:
        """Returns an id in the style of the conversation's origin."""
        self.ids += 1
        letters = "".join(self.rng.choices("abcdefghijkmnpqrstuvwxyzABCDEFGHJKLMNPQRSTUVWXYZ23456789", k=22))
        return {"anthropic": f"toolu_01{letters}", "gemini": letters[:8]}.get(self.origin, f"call_{letters}")

    def call(self, name: str | None = None) -> Call:
        """Returns a call."""
        mark = self.mark()
        chosen = name or self.rng.choice(("get_weather", "search_files", "read_page"))
        return Call(self.id(), chosen, f'{{"query": "{mark}", "limit": {self.rng.randint(1, 9)}}}', mark)

    def say(self, role: Role, **members: Any) -> Turn:
        """Returns a turn with a text."""
        return Turn(role, (self.text(),), **members)

    def result(self, call: Call, **members: Any) -> Turn:
        """Returns the result of a call."""
        return Turn("tool", (self.text(),), answers=call.id, **members)


Turns = list[Turn]
Twist = Callable[[Pen, Turns], Turns]
TWISTS: dict[str, Twist] = {}


def _twist(function: Twist) -> Twist:
    TWISTS[function.__name__] = function
    return function


def _first(turns: Turns, role: Role, calls: bool = False) -> int:
    return next(i for i, turn in enumerate(turns) if turn.role == role and bool(turn.calls) >= calls)


def _plain(turns: Turns) -> int:
    return next(i for i, turn in enumerate(turns) if turn.role == "assistant" and not turn.calls)


def _base(pen: Pen, exchanges: int) -> Turns:
    """A conversation without oddness: a system message, and exchanges of which the second has calls."""
    turns = [pen.say("system")]
    for number in range(exchanges):
        turns.append(pen.say("user"))
        if number % 2:
            calls = tuple(pen.call() for _ in range(pen.rng.choice((1, 1, 2, 3))))
            opening = (pen.text(),) if pen.rng.random() < 0.5 else ()
            turns += [Turn("assistant", opening, calls=calls), *(pen.result(call) for call in calls)]
        turns.append(pen.say("assistant"))
    return [*turns, pen.say("user")]


def _calls_last(turns: Turns) -> Turns:
    """The conversation up to the results of its first calls."""
    start = _first(turns, "assistant", True)
    return turns[: start + 1 + len(turns[start].calls)]


def _with_calls(turns: Turns, change: Callable[[Call], Call]) -> Turns:
    """Changes all calls, and the ids of their results with them."""
    changed: dict[str, str] = {}
    found: Turns = []
    for turn in turns:
        calls = tuple(change(call) for call in turn.calls)
        changed |= {old.id: new.id for old, new in zip(turn.calls, calls, strict=True)}
        answers = changed.get(turn.answers, turn.answers) if turn.answers is not None else None
        found.append(replace(turn, calls=calls, answers=answers))
    return found


# --- system messages ---------------------------------------------------------------------------------------------


@_twist
def no_system(pen: Pen, turns: Turns) -> Turns:
    return turns[1:]


@_twist
def two_systems(pen: Pen, turns: Turns) -> Turns:
    return [pen.say("system"), *turns]


@_twist
def system_behind_user(pen: Pen, turns: Turns) -> Turns:
    place = _first(turns, "user") + 1
    return [*turns[:place], pen.say("system"), *turns[place:]]


@_twist
def system_behind_assistant(pen: Pen, turns: Turns) -> Turns:
    place = _plain(turns) + 1
    return [*turns[:place], pen.say("system"), *turns[place:]]


@_twist
def system_behind_result(pen: Pen, turns: Turns) -> Turns:
    return [*_calls_last(turns), pen.say("system")]


@_twist
def system_between_call_and_result(pen: Pen, turns: Turns) -> Turns:
    place = _first(turns, "assistant", True) + 1
    return [*turns[:place], pen.say("system"), *turns[place:]]


@_twist
def system_last(pen: Pen, turns: Turns) -> Turns:
    return [*turns, pen.say("system")]


@_twist
def system_alone(pen: Pen, turns: Turns) -> Turns:
    return turns[:1]


@_twist
def system_listed(pen: Pen, turns: Turns) -> Turns:
    return [Turn("system", (pen.text(), pen.text()), listed=True), *turns[1:]]


@_twist
def system_blank(pen: Pen, turns: Turns) -> Turns:
    return [Turn("system", ("",)), *turns[1:]]


@_twist
def system_without_user(pen: Pen, turns: Turns) -> Turns:
    return [*turns[:1], pen.say("assistant"), pen.say("system")]


# --- ids ---------------------------------------------------------------------------------------------------------


def _ids(name: str, make: Callable[[Pen, Call], str]) -> None:
    def twist(pen: Pen, turns: Turns) -> Turns:
        return _with_calls(turns, lambda call: replace(call, id=make(pen, call)))

    twist.__name__ = name
    _twist(twist)


_ids("id_of_41", lambda pen, call: f"call_{call.id.ljust(36, 'x')[-36:]}")
_ids("id_of_64", lambda pen, call: f"call_{call.id.ljust(59, 'y')[-59:]}")
_ids("id_of_90", lambda pen, call: f"call_{call.id.ljust(85, 'z')[-85:]}")
_ids("id_with_thought", lambda pen, call: f"{call.id[:10]}{call.mark}__thought__{'Q2dJQkFn' * 60}")
_ids("id_with_pipe", lambda pen, call: f"{call.id}|fc_{call.mark}")
_ids("id_of_kimi", lambda pen, call: f"functions.{call.name}:{call.mark[1:-1]}")
_ids("id_of_one_digit", lambda pen, call: call.mark[1:-1])
_ids("id_of_nine", lambda pen, call: f"a{call.mark[1:-1]}".ljust(9, "b"))
_ids("id_uuid", lambda pen, call: f"7b1f3c2e-8a4d-4f6b-9c0d-{call.mark[1:-1].zfill(12)}")
_ids("id_with_space", lambda pen, call: f"call {call.mark}")
_ids("id_not_ascii", lambda pen, call: f"ruf-ä-{call.mark}")


@_twist
def id_empty(pen: Pen, turns: Turns) -> Turns:
    start = _first(turns, "assistant", True)
    call = replace(turns[start].calls[0], id="")
    return [
        *turns[:start],
        replace(turns[start], calls=(call,)),
        Turn("tool", (pen.text(),), answers=""),
        pen.say("assistant"),
        pen.say("user"),
    ]


@_twist
def id_repeated_later(pen: Pen, turns: Turns) -> Turns:
    start = _first(turns, "assistant", True)
    old = turns[start].calls[0]
    again = replace(pen.call(), id=old.id)
    return [*turns, Turn("assistant", calls=(again,)), pen.result(again), pen.say("assistant"), pen.say("user")]


@_twist
def id_twice_in_a_turn(pen: Pen, turns: Turns) -> Turns:
    first = pen.call()
    second = replace(pen.call(), id=first.id)
    return [*turns, Turn("assistant", calls=(first, second)), pen.result(first), pen.result(second)]


# --- turns of one role, first and last ---------------------------------------------------------------------------


@_twist
def two_users(pen: Pen, turns: Turns) -> Turns:
    return [*turns, pen.say("user")]


@_twist
def two_assistants(pen: Pen, turns: Turns) -> Turns:
    place = _plain(turns)
    return [*turns[:place], pen.say("assistant"), *turns[place:]]


@_twist
def assistant_then_calls(pen: Pen, turns: Turns) -> Turns:
    place = _first(turns, "assistant", True)
    return [*turns[:place], pen.say("assistant"), *turns[place:]]


@_twist
def assistant_first(pen: Pen, turns: Turns) -> Turns:
    return [turns[0], pen.say("assistant"), *turns[1:]]


@_twist
def calls_first(pen: Pen, turns: Turns) -> Turns:
    call = pen.call()
    return [turns[0], Turn("assistant", calls=(call,)), pen.result(call), *turns[1:]]


@_twist
def assistant_last(pen: Pen, turns: Turns) -> Turns:
    return [*turns, pen.say("assistant")]


@_twist
def assistant_last_with_space(pen: Pen, turns: Turns) -> Turns:
    return [*turns, Turn("assistant", (pen.text() + " \n",))]


@_twist
def two_assistants_last(pen: Pen, turns: Turns) -> Turns:
    return [*turns, pen.say("assistant"), pen.say("assistant")]


@_twist
def user_behind_result(pen: Pen, turns: Turns) -> Turns:
    return [*_calls_last(turns), pen.say("user")]


@_twist
def calls_behind_results(pen: Pen, turns: Turns) -> Turns:
    call = pen.call()
    return [*_calls_last(turns), Turn("assistant", calls=(call,)), pen.result(call)]


@_twist
def results_last(pen: Pen, turns: Turns) -> Turns:
    return _calls_last(turns)


# --- blanks and lists --------------------------------------------------------------------------------------------


@_twist
def user_blank(pen: Pen, turns: Turns) -> Turns:
    place = _plain(turns) + 1
    return [*turns[:place], Turn("user", ("",)), pen.say("assistant"), *turns[place:]]


@_twist
def user_of_space(pen: Pen, turns: Turns) -> Turns:
    place = _plain(turns) + 1
    return [*turns[:place], Turn("user", (" \n ",)), pen.say("assistant"), *turns[place:]]


@_twist
def user_blank_last(pen: Pen, turns: Turns) -> Turns:
    return [*turns[:-1], Turn("user", ("",))]


@_twist
def user_blank_alone(pen: Pen, turns: Turns) -> Turns:
    return [Turn("user", ("",))]


@_twist
def assistant_empty(pen: Pen, turns: Turns) -> Turns:
    place = _plain(turns)
    return [*turns[:place], Turn("assistant"), *turns[place + 1 :]]


@_twist
def assistant_blank(pen: Pen, turns: Turns) -> Turns:
    place = _plain(turns)
    return [*turns[:place], Turn("assistant", ("",)), *turns[place + 1 :]]


@_twist
def assistant_of_space(pen: Pen, turns: Turns) -> Turns:
    place = _plain(turns)
    return [*turns[:place], Turn("assistant", ("\n\n",)), *turns[place + 1 :]]


@_twist
def calls_with_blank_text(pen: Pen, turns: Turns) -> Turns:
    place = _first(turns, "assistant", True)
    return [*turns[:place], replace(turns[place], pieces=("",)), *turns[place + 1 :]]


@_twist
def calls_with_space(pen: Pen, turns: Turns) -> Turns:
    place = _first(turns, "assistant", True)
    return [*turns[:place], replace(turns[place], pieces=("\n",)), *turns[place + 1 :]]


@_twist
def result_blank(pen: Pen, turns: Turns) -> Turns:
    place = _first(turns, "tool")
    return [*turns[:place], replace(turns[place], pieces=("",)), *turns[place + 1 :]]


@_twist
def result_of_space(pen: Pen, turns: Turns) -> Turns:
    place = _first(turns, "tool")
    return [*turns[:place], replace(turns[place], pieces=("  ",)), *turns[place + 1 :]]


@_twist
def user_listed(pen: Pen, turns: Turns) -> Turns:
    return [*turns[:-1], Turn("user", (pen.text(), pen.text()), listed=True)]


@_twist
def user_listed_with_blank(pen: Pen, turns: Turns) -> Turns:
    return [*turns[:-1], Turn("user", (pen.text(), "", pen.text()), listed=True)]


@_twist
def assistant_listed(pen: Pen, turns: Turns) -> Turns:
    place = _plain(turns)
    return [*turns[:place], Turn("assistant", (pen.text(), pen.text()), listed=True), *turns[place + 1 :]]


@_twist
def result_listed(pen: Pen, turns: Turns) -> Turns:
    place = _first(turns, "tool")
    return [*turns[:place], replace(turns[place], pieces=(pen.text(), pen.text()), listed=True), *turns[place + 1 :]]


@_twist
def user_with_image(pen: Pen, turns: Turns) -> Turns:
    return [*turns[:-1], Turn("user", (pen.text(),), listed=True, images=1)]


@_twist
def result_with_image(pen: Pen, turns: Turns) -> Turns:
    place = _first(turns, "tool")
    return [*turns[:place], replace(turns[place], listed=True, images=1), *turns[place + 1 :]]


# --- results -----------------------------------------------------------------------------------------------------


@_twist
def results_reversed(pen: Pen, turns: Turns) -> Turns:
    calls = (pen.call(), pen.call(), pen.call())
    return [*turns, Turn("assistant", calls=calls), *(pen.result(call) for call in reversed(calls))]


@_twist
def result_twice_equal(pen: Pen, turns: Turns) -> Turns:
    place = _first(turns, "tool")
    return [*turns[: place + 1], turns[place], *turns[place + 1 :]]


@_twist
def result_twice_different(pen: Pen, turns: Turns) -> Turns:
    place = _first(turns, "tool")
    return [*turns[: place + 1], replace(turns[place], pieces=(pen.text(),)), *turns[place + 1 :]]


@_twist
def result_missing(pen: Pen, turns: Turns) -> Turns:
    place = _first(turns, "tool")
    return [*turns[:place], *turns[place + 1 :]]


@_twist
def result_unknown(pen: Pen, turns: Turns) -> Turns:
    place = _first(turns, "tool")
    return [*turns[: place + 1], pen.result(pen.call()), *turns[place + 1 :]]


@_twist
def calls_open(pen: Pen, turns: Turns) -> Turns:
    return turns[: _first(turns, "assistant", True) + 1]


@_twist
def calls_open_then_user(pen: Pen, turns: Turns) -> Turns:
    return [*turns[: _first(turns, "assistant", True) + 1], pen.say("user")]


@_twist
def result_before_call(pen: Pen, turns: Turns) -> Turns:
    call = pen.call()
    return [*turns, pen.result(call), Turn("assistant", calls=(call,)), pen.say("user")]


@_twist
def result_behind_user(pen: Pen, turns: Turns) -> Turns:
    call = pen.call()
    return [*turns, Turn("assistant", calls=(call,)), pen.say("user"), pen.result(call)]


@_twist
def result_with_error(pen: Pen, turns: Turns) -> Turns:
    place = _first(turns, "tool")
    return [*turns[:place], replace(turns[place], error=True), *turns[place + 1 :]]


@_twist
def many_calls(pen: Pen, turns: Turns) -> Turns:
    calls = tuple(pen.call() for _ in range(6))
    return [*turns, Turn("assistant", calls=calls), *(pen.result(call) for call in calls)]


# --- arguments, names, reasoning ---------------------------------------------------------------------------------


def _arguments(name: str, make: Callable[[Call], str]) -> None:
    def twist(pen: Pen, turns: Turns) -> Turns:
        place = _first(turns, "assistant", True)
        first, *others = turns[place].calls
        changed = replace(first, arguments=make(first))
        return [*turns[:place], replace(turns[place], calls=(changed, *others)), *turns[place + 1 :]]

    twist.__name__ = name
    _twist(twist)


_arguments("arguments_cut", lambda call: f'{{"query": "{call.mark}", "li')
_arguments("arguments_list", lambda call: f'["{call.mark}"]')
_arguments("arguments_string", lambda call: f'"{call.mark}"')
_arguments("arguments_words", lambda call: f"query={call.mark}")
_arguments("arguments_empty", lambda call: "")
_arguments("arguments_null", lambda call: "null")
_arguments("arguments_spaced", lambda call: f'{{ "query" :"{call.mark}",\n "größe":[1.0,1e3] }}')


@_twist
def user_name_with_space(pen: Pen, turns: Turns) -> Turns:
    return [*turns[:-1], replace(turns[-1], name="Anna Smith")]


@_twist
def user_name_not_ascii(pen: Pen, turns: Turns) -> Turns:
    return [*turns[:-1], replace(turns[-1], name="Jörg@home")]


@_twist
def tool_name_with_dot(pen: Pen, turns: Turns) -> Turns:
    return _with_calls(turns, lambda call: replace(call, name=f"files.{call.name}"))


@_twist
def tool_name_long(pen: Pen, turns: Turns) -> Turns:
    return _with_calls(turns, lambda call: replace(call, name=call.name.ljust(80, "x")))


@_twist
def tool_name_short(pen: Pen, turns: Turns) -> Turns:
    return _with_calls(turns, lambda call: replace(call, name=call.name[:2]))


@_twist
def reasoning_everywhere(pen: Pen, turns: Turns) -> Turns:
    return [replace(turn, reasoning=pen.text()) if turn.role == "assistant" else turn for turn in turns]


@_twist
def reasoning_blank(pen: Pen, turns: Turns) -> Turns:
    return [replace(turn, reasoning="") if turn.role == "assistant" else turn for turn in turns]


@_twist
def reasoning_alone(pen: Pen, turns: Turns) -> Turns:
    place = _plain(turns)
    return [*turns[:place], Turn("assistant", reasoning=pen.text()), *turns[place + 1 :]]


@_twist
def refusal(pen: Pen, turns: Turns) -> Turns:
    place = _plain(turns)
    return [*turns[:place], Turn("assistant", refusal=pen.text()), *turns[place + 1 :]]


@_twist
def refusal_last(pen: Pen, turns: Turns) -> Turns:
    return [*turns, Turn("assistant", refusal=pen.text()), pen.say("user")]


@_twist
def nothing_odd(pen: Pen, turns: Turns) -> Turns:
    return turns


ALONE = {"system_alone", "user_blank_alone", "system_without_user"}  # they replace the whole conversation
FROM_PROVIDERS = ("", "chat", "responses", "anthropic", "gemini", "")


def conversations(count: int = 400, seed: int = SEED) -> list[Conversation]:
    """Makes conversations, each kind in turn; about two in five have a second kind."""
    rng = random.Random(seed)
    names = list(TWISTS)
    made = []
    for number in range(count):
        pen = Pen(rng, origin=FROM_PROVIDERS[number // len(names) % len(FROM_PROVIDERS)])
        kinds = [names[number % len(names)]]
        if kinds[0] not in ALONE and rng.random() < 0.4:
            kinds.append(rng.choice([name for name in names if name not in (*ALONE, *kinds)]))
        turns = _base(pen, rng.choice((2, 2, 3)))
        for kind in list(kinds):
            try:
                turns = TWISTS[kind](pen, turns)
            except (StopIteration, IndexError):  # the first kind took away what the second one changes
                kinds.remove(kind)
        made.append(Conversation(number, tuple(kinds), tuple(turns), pen.origin))
    return made


# --- what may be refused -----------------------------------------------------------------------------------------


def verdict(conversation: Conversation) -> tuple[Answer, str]:
    """Says whether the library must send a conversation, must refuse it, or may do either, and why."""
    turns = conversation.turns
    if not any(turn.role != "system" and not turn.empty for turn in turns):
        return "either", "nothing is left but system messages: no request can be made of it on most endpoints"
    answers: list[tuple[Answer, str]] = []
    for problem in _pairing(turns):
        answers.append(problem)
    for answer in ("refuse", "either"):
        found = next((each for each in answers if each[0] == answer), None)
        if found:
            return found
    return "send", "each call has one result, or equal ones; all else can be written differently, with a warning"


def _pairing(turns: tuple[Turn, ...]) -> Iterator[tuple[Answer, str]]:
    open_calls: dict[str, tuple[int, list[str]]] = {}  # id: turn, results so far
    for index, turn in enumerate(turns):
        if turn.role == "tool":
            known = open_calls.get(turn.answers or "")
            if known is None:
                yield "refuse", f"turn {index} is a result without a call"
                continue
            place, results = known
            if results and turn.text not in results:
                yield "refuse", f"turn {index} is a second, different result of one call"
            results.append(turn.text)
            between = {each.role for each in turns[place + 1 : index]}
            if between - {"tool", "system"}:
                yield (
                    "either",
                    f"turn {index}, a result, is behind another message: moving it changes what was known when",
                )
        if turn.calls:
            if len({call.id for call in turn.calls}) < len(turn.calls):
                yield "either", f"turn {index} has two calls of one id: their results can only be told apart by order"
                return
            for call in turn.calls:
                before = open_calls.get(call.id)
                if before is not None and not before[1]:
                    yield "refuse", f"a call of turn {before[0]} has no result"
                open_calls[call.id] = (index, [])
    for place, results in open_calls.values():
        if not results:
            yield "refuse", f"a call of turn {place} has no result"


# --- building ----------------------------------------------------------------------------------------------------


def build(turn: Turn, calls: dict[str, ToolCall]) -> Message:
    """Builds a message of the library. `calls`: those so far, by the id of the neutral form; it is added to."""
    parts: list[Any] = [{"type": "text", "text": piece} for piece in turn.pieces] + [IMAGE] * turn.images
    content: Any = parts if turn.listed else (turn.text if turn.pieces else None)
    if turn.role == "tool":
        call = calls.get(turn.answers or "")
        if call is None:
            return Message("tool", content, tool_call_id=turn.answers)
        if turn.listed:  # dicts are data there, so that parts are written as the library has them
            content = [*turn.pieces, *[image(b64decode(PIXEL))] * turn.images]
        return tool_result(call, content, error=turn.error)
    if turn.role == "system":
        return Message("system", content) if turn.listed else system(turn.text)
    if turn.role == "user":
        return Message("user", content, name=turn.name) if turn.name else user(content)
    made = tuple(_tool_call(call) for call in turn.calls)
    calls |= {call.id: each for call, each in zip(turn.calls, made, strict=True)}
    if turn.listed or turn.refusal is not None:
        return Message("assistant", content, tool_calls=made, reasoning=turn.reasoning, refusal=turn.refusal)
    return assistant(content, tool_calls=made, reasoning=turn.reasoning)


def _tool_call(call: Call) -> ToolCall:
    try:
        value = json.loads(call.arguments) if call.arguments else {}
    except ValueError:
        value = None
    broken = {"_raw": call.arguments, "_error": "invalid_json"}
    return ToolCall(call.id, call.name, value if isinstance(value, dict) else broken, call.arguments)


def plain(turn: Turn) -> bool:
    """Whether a provider's answer could be this turn: text, reasoning and calls with an object and an id."""
    good = all(call.id and call.arguments.startswith("{") and call.arguments.endswith("}") for call in turn.calls)
    return (
        turn.role == "assistant"
        and good
        and bool(turn.text.strip() or turn.calls)
        and not turn.listed
        and turn.refusal is None
    )
