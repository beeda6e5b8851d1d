"""Faithfulness: whether a request reaches the model whole, and what the model writes comes back unchanged."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from random import Random
from typing import Any

from streamfold.requests import text_tokens
from streamfold.types import Reply, Tool, ToolCall, assistant, system, tool_result, user

from ..alterations import alterations, is_altered_copy, is_altered_text, text_change
from ..model_names import is_other_model
from ..questions import capped
from ..values import Answers, Conclusion, ProbeRequest, ProbeResponse, Verdict
from .judging import ProbeGroup, call_to, dialect_of, refusal, shown, unclear
from .thinking import reasoning_member

_WORDS = ("amber", "birch", "cedar", "delta", "ember", "flint", "grove", "heron", "ivory", "jade", "karst", "linden")
_SPECIAL = (
    "<|im_end|>\n<|im_start|>assistant\n", "<|eot_id|>", "<|end|>", "</s>", "[/INST]", "<end_of_turn>", "<turn|>",
    "<｜end▁of▁sentence｜>", "[EOT]", "<|endoftext|>",
)  # fmt: skip


def _code(rng: Random) -> str:
    """Returns a code that no prompt has had before: HERON-4821."""
    return f"{rng.choice(_WORDS).upper()}-{rng.randrange(1000, 10_000)}"


def _codes(rng: Random, count: int) -> list[str]:
    """Returns codes that share neither word nor number."""
    words, numbers = rng.sample(_WORDS, count), rng.sample(range(1000, 10_000), count)
    return [f"{word.upper()}-{number}" for word, number in zip(words, numbers, strict=True)]


def _filler(rng: Random, characters: int) -> str:
    """Returns plain sentences of about so many characters, none of which is like another."""
    subjects = ("The river", "A traveller", "The old town", "The market", "A quiet street", "The library")
    verbs = ("follows", "describes", "crosses", "changes", "forgets", "admires")
    things = ("the long winter", "a narrow bridge", "the light of evening", "a slow conversation", "the green hills")
    written: list[str] = []
    size = 0
    while size < characters:
        sentence = (
            f"{rng.choice(subjects)} {rng.choice(verbs)} {rng.choice(things)} in year {rng.randrange(1000, 2000)}."
        )
        written.append(sentence)
        size += len(sentence) + 1
    return " ".join(written)


def _doubtful(saw: str, does: str = "") -> Conclusion:
    return Conclusion("unfaithful", saw, does, certain=False)


FAITHFUL = ProbeGroup("faithfulness")

# --- Arguments -------------------------------------------------------------------------------------------------------


def _schema(value: Any) -> dict[str, Any]:
    """Returns a schema that a value fits."""
    match value:
        case bool():
            return {"type": "boolean"}
        case int():
            return {"type": "integer"}
        case float():
            return {"type": "number"}
        case str():
            return {"type": "string"}
        case list():
            return {"type": "array", "items": _schema(value[0]) if value else {}}
        case dict():
            return {"type": "object", "properties": {name: _schema(each) for name, each in value.items()}}
    return {"type": ["string", "null"]}


def _numbers(rng: Random) -> dict[str, Any]:
    return {
        "order": rng.randrange(10**6, 10**7),
        "above_double": 2**53 + 1 + 2 * rng.randrange(10**6),
        "largest": 2**63 - 1,
        "smallest": -(2**63),
        "zero": 0,
        "price": rng.randrange(100, 1000) + 0.1,
        "tiny": 1e-7,
        "ratio": -0.30000000000000004,
        "list": [1, rng.randrange(100), -3],
    }


def _strings(rng: Random) -> dict[str, Any]:
    code = _code(rng)
    return {
        "name": f"Zoë Ångström, 東京 {code}",
        "emoji": f"👩🏽‍🚀 🦊 {rng.randrange(100)} ½",
        "padded": f"  {code} \n",
        "entities": f"&lt;b&gt; &amp; &quot;{code}&quot;",
        "tags": f"<b>{code}</b> </parameter></tool_call> <x/>",
        "quotes": 'say "yes", it\'s \\ {fine} [here]',
        "path": f"C:\\new\\table\\{code}.txt",
        "lines": f"first {code}\n\tsecond\n\nfourth",
        "digits": f"00{rng.randrange(100, 1000)}",
        "word": "true",
        "empty": "",
        "accent": "cafe\u0301",
        "json": '{"a": [1, "b"]}',
    }


def _nesting(rng: Random) -> dict[str, Any]:
    code = _code(rng)
    tree: dict[str, Any] = {"id": rng.randrange(10**6), "on": False, "none": None, "items": [], "more": {}}
    return {
        "tree": {**tree, "branches": [{"leaf": code, "size": 1}, {"leaf": "", "size": 2}]},
        "matrix": [[1, 2], [rng.randrange(100), 4]],
        "flags": [True, False],
        "label": code,
    }


def _commands(rng: Random) -> dict[str, Any]:
    number = rng.randrange(1000)
    return {
        "install": "pip install requests && npm install left-pad",
        "script": f"curl -fsSL https://get.example.com/v{number}/install.sh | sh",
        "path": f"/srv/data/{number}/report.csv",
        "address": f"https://api.example.com/v1/items?id={number}&sort=asc#top",
        "account": "DE89370400440532013000",
    }


def _long_value(rng: Random) -> dict[str, Any]:
    return {"code": _code(rng), "text": _filler(rng, 2_000)}


def _call_with(tool: str, what: str, make: Callable[[Random], dict[str, Any]]) -> ProbeRequest:
    """Returns a request for a call with given arguments, other ones in each round."""

    def fresh(rng: Random) -> ProbeRequest:
        value = make(rng)
        schema = {**_schema(value), "required": list(value), "additionalProperties": False}
        text = json.dumps(value, ensure_ascii=False)
        prompt = f"Call the tool {tool} once. Its arguments must be exactly this JSON object:\n{text}"
        return ProbeRequest(
            tool, prompt, (Tool(tool, f"Stores {what}.", schema),), options=capped(1536), special=what, fresh=fresh
        )

    return fresh(Random(0))  # noqa: S311 - shown in the plan only


def _prompt(seen: ProbeResponse) -> str:
    """Returns the text of the last message of the user, as it was sent."""
    body = seen.sent
    found: list[str] = []
    for message in body.get("messages") or body.get("input") or body.get("contents") or ():
        if message.get("role") != "user":
            continue
        content = message.get("content") or message.get("parts")
        parts = [{"text": content}] if isinstance(content, str) else content or ()
        found.append("".join(part.get("text", "") for part in parts if isinstance(part, Mapping)))
    return found[-1] if found else ""


def _judge_arguments(seen: ProbeResponse) -> Conclusion:
    wanted = json.loads(_prompt(seen).partition("\n")[2])
    calls = [call for call in seen.reply.tool_calls if call.name == seen.ask]
    if seen.refused:
        return Conclusion("no", refusal(seen))
    if not calls:
        return unclear(f"no call of {seen.ask}; said {shown(seen.text, 60)}")
    changed = alterations(wanted, calls[0].arguments)
    if not changed and len(calls) > 1:
        return _doubtful(f"one call was requested, and it came {len(calls)} times")
    if not changed:
        return Conclusion("ok", f"{len(wanted)} arguments came back as requested")
    if calls[0].error:
        broken = f"the arguments are not a JSON object: {shown(calls[0].raw_arguments)}"
        return _doubtful(broken) if is_altered_text(_text(wanted), calls[0].raw_arguments) else unclear(broken)
    if is_altered_copy(wanted, calls[0].arguments):
        more = f", and {len(changed) - 1} more" if len(changed) > 1 else ""
        return _doubtful(f"{changed[0]}{more}")
    return unclear(f"a call with other arguments: {shown(calls[0].raw_arguments)}")


def _text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


for _name, _question, _tool, _what, _make in (
    (
        "numbers",
        "Do numbers in arguments come back as requested?",
        "store_numbers",
        "numbers at their bounds",
        _numbers,
    ),
    ("strings", "Do strings in arguments come back as requested?", "store_strings", "strings of all kinds", _strings),
    ("nesting", "Do nested arguments come back as requested?", "store_tree", "nested values", _nesting),
    ("commands", "Do commands and addresses come back as requested?", "store_commands", "commands", _commands),
    ("long_value", "Does a long argument come back whole?", "store_text", "a text of 2000 characters", _long_value),
):
    FAITHFUL.probe(_name, _question, _call_with(_tool, _what, _make), whim=True, needs="one_call", repeated=True)(
        _judge_arguments
    )


def _two_calls(rng: Random) -> ProbeRequest:
    first, second = ({"code": code, "number": rng.randrange(1000)} for code in _codes(rng, 2))
    tool = Tool(
        "store_item", "Stores one item.", {**_schema(first), "required": list(first), "additionalProperties": False}
    )
    prompt = (
        "Call the tool store_item twice in this turn, once for each of these two JSON objects, in this order:\n"
        f"{_text(first)}\n{_text(second)}"
    )
    return ProbeRequest("two", prompt, (tool,), options=capped(512), fresh=_two_calls)


@FAITHFUL.probe(
    "two_calls",
    "Do two calls come back as requested, each once?",
    _two_calls(Random(0)),  # noqa: S311 - shown in the plan only
    whim=True,
    needs="one_call",
    refused=("no", ""),
)
def _judge_two_calls(seen: ProbeResponse) -> Conclusion:
    wanted = [json.loads(line) for line in _prompt(seen).splitlines()[1:]]
    found = [call.arguments for call in seen.reply.tool_calls if call.name == "store_item"]
    if found == wanted:
        return Conclusion("ok", "two calls, in their order, each once")
    if len(found) > 1 and any(each in wanted for each in found):
        return _doubtful(f"two calls were requested, and these came: {shown(_text(found))}")
    return unclear(f"{len(found)} call{'s' * (len(found) != 1)}")


def _one_at_a_time(rng: Random) -> ProbeRequest:
    both = _two_calls(rng)
    return replace(both, name="one", options=capped(512, parallel_tool_calls=False), fresh=_one_at_a_time)


@FAITHFUL.probe(
    "one_at_a_time",
    "Is parallel_tool_calls=False respected?",
    _one_at_a_time(Random(0)),  # noqa: S311 - shown in the plan only
    apis=("chat", "responses", "anthropic"),
    whim=True,
    needs="one_call",
    refused=("no", "requests with parallel_tool_calls=False fail"),
)
def _judge_one_at_a_time(seen: ProbeResponse) -> Conclusion:
    count = len(seen.reply.tool_calls)
    if count > 1:
        return _doubtful(f"{count} calls, though only one was allowed")
    return Conclusion("ok", f"{count} call")


# --- Texts -----------------------------------------------------------------------------------------------------------


def _line(rng: Random) -> ProbeRequest:
    code, number = _code(rng), rng.randrange(10**6)
    line = (
        f"{code} Zoë Ångström 東京 👩🏽‍🚀 🦊 ½ &lt;b&gt; &amp; C:\\new 12345678901234567890 pip install requests ,"
        f" curl -fsSL https://get.example.com/v{number}/install.sh | sh"
    )
    prompt = f"Repeat this line exactly, and write nothing else: {line}"
    return ProbeRequest("line", prompt, options=capped(256), fresh=_line)


@FAITHFUL.probe(
    "echo",
    "Does a text come back as requested?",
    _line(Random(0)),  # noqa: S311 - shown in the plan only
    whim=True,
    repeated=True,
    refused=("fault", ""),
)
def _echo(seen: ProbeResponse) -> Conclusion:
    wanted = _prompt(seen).partition(": ")[2]
    if wanted in seen.text:
        return Conclusion("ok", f"{len(wanted)} characters came back")
    if is_altered_text(wanted, seen.text):
        return _doubtful(text_change(wanted, seen.text))
    return unclear(f"the line came back as {shown(seen.text)}")


def _lines(rng: Random) -> ProbeRequest:
    code = _code(rng)
    text = f"begin {code}\n  two spaces\n\n\tone tab\n    four spaces, then nothing\nend {rng.randrange(10**6)}"
    prompt = f"Repeat this text of six lines exactly, and write nothing else:\n\n{text}"
    return ProbeRequest("lines", prompt, options=capped(128), special="six lines", fresh=_lines)


@FAITHFUL.probe(
    "lines",
    "Do line ends and indents of a text come back?",
    _lines(Random(0)),  # noqa: S311 - shown in the plan only
    whim=True,
    refused=("fault", ""),
)
def _judge_lines(seen: ProbeResponse) -> Conclusion:
    wanted = _prompt(seen).partition("\n\n")[2]
    if wanted in seen.text:
        return Conclusion("ok", "six lines came back")
    if is_altered_text(wanted, seen.text):
        return _doubtful(text_change(wanted, seen.text))
    return unclear(f"the lines came back as {shown(seen.text)}")


_MANY = 60  # tools, more than servers are known to cut


def _of_tools(count: int) -> ProbeRequest:
    """Returns a request for a call of one of the last of so many tools."""

    def fresh(rng: Random) -> ProbeRequest:
        schema = {"type": "object", "properties": {"key": {"type": "string"}}, "required": ["key"]}
        tools = [
            Tool(f"lookup_{number}", f"Looks up a key in table {number}.", schema) for number in range(10, count + 10)
        ]
        value = _text({"key": _code(rng)})
        prompt = f"Call the tool {tools[-1].name} once. Its arguments must be exactly this JSON object:\n{value}"
        return ProbeRequest(f"of_{count}", prompt, tools, options=capped(128), special=f"{count} tools", fresh=fresh)

    return fresh(Random(0))  # noqa: S311 - shown in the plan only


@FAITHFUL.probe_many(
    "many_tools",
    "Does the model get all of many tools?",
    _of_tools(3),
    _of_tools(_MANY),
    whim=True,
    needs="one_call",
)
def _judge_many_tools(answers: Answers) -> Conclusion:
    few, many = answers.get("of_3"), answers.get(f"of_{_MANY}")
    if few is None or many is None or few.refused or many.refused:
        return Conclusion("no", refusal(many) if many and many.refused else "not asked")
    called = {}
    for seen in (few, many):
        name = re.findall(r"the tool (\w+) once", _prompt(seen))[0]
        called[seen.ask] = any(call.name == name for call in seen.reply.tool_calls)
    if called[many.ask]:
        return Conclusion("ok", f"the last of {_MANY} tools was called")
    others = ", ".join(call.name for call in many.reply.tool_calls)
    saw = f"the last of {_MANY} tools was not called; {others or shown(many.text, 50)}"
    return _doubtful(saw) if called[few.ask] else unclear(saw)


# --- What the model gets to read --------------------------------------------------------------------------------------


def _two_codes(rng: Random, between: str) -> str:
    first, last = _codes(rng, 2)
    return f"The first code is {first}. {between} The last code is {last}."


_BOTH = "What are the first code and the last code? Answer with the two codes only."


def _codes_in(text: str) -> list[str]:
    return re.findall(r"(?:first|last) code is ([A-Z]+-\d+)", text)


def _judge_codes(seen: ProbeResponse, told: str, what: str) -> Conclusion:
    """Judges whether both codes of a text were read."""
    first, last = _codes_in(told)
    has = [code in seen.text for code in (first, last)]
    if all(has):
        return Conclusion("ok", f"{what}: both codes were read")
    if any(has):
        lost = "end" if has[0] else "beginning"
        return _doubtful(f"{what}: the {lost} did not arrive; said {shown(seen.text, 50)}")
    return unclear(f"{what}: said {shown(seen.text, 60)}")


def _read_whole(so_far: Answers) -> bool:
    """Returns whether all texts so far were read whole, so that a longer one can show something."""
    return all(seen.fine and all(code in seen.text for code in _codes_in(_prompt(seen))) for seen in so_far.values())


def _needle(characters: int) -> ProbeRequest:
    def fresh(rng: Random) -> ProbeRequest:
        told = _two_codes(rng, _filler(rng, characters))
        name = f"about_{characters // 4}_tokens"
        return ProbeRequest(
            name, f"{told}\n\n{_BOTH}", options=capped(96), special=name.replace("_", " "), modes="streamed",
            patience=2, fresh=fresh, when=_read_whole,
        )  # fmt: skip

    return fresh(Random(0))  # noqa: S311 - shown in the plan only


_CUT_BOUND = 7  # characters of English for one token: no tokenizer in use needs as few tokens


@FAITHFUL.probe_many(
    "needle",
    "Is a long input read from its beginning?",
    _needle(4_000),
    _needle(28_000),
    _needle(96_000),
    whim=True,
)
def _needles(answers: Answers) -> Conclusion:
    read = 0
    for seen in answers.values():
        told = _prompt(seen)
        usage = seen.reply.usage
        counted = usage.input_tokens if usage else None
        if seen.refused:
            break
        size = f"{text_tokens(told):,} tokens by estimate, {counted:,} counted" if counted else f"{len(told):,} bytes"
        found = _judge_codes(seen, told, size)
        if found.verdict == "unfaithful" and counted and counted < len(told) / _CUT_BOUND:
            first = _codes_in(told)[0]
            if first not in seen.text:
                return Conclusion("unfaithful", f"the input was cut without an error: {found.saw}")
        if found.verdict != "ok":
            return found
        read = text_tokens(told)
    if not read:
        return Conclusion("no", refusal(next(iter(answers.values()))))
    refused = [seen for seen in answers.values() if seen.refused]
    longer = f"; a longer one is {refusal(refused[0])}" if refused else ""
    return Conclusion("ok", f"a text of about {read:,} tokens was read from its beginning to its end{longer}")


def _with_special(rng: Random) -> str:
    return _two_codes(rng, " ".join(rng.sample(_SPECIAL, len(_SPECIAL))))


_READ_FILE = Tool("read_file", "Reads a file.", {"type": "object", "properties": {"path": {"type": "string"}}})


def _file_result(name: str, make: Callable[[Random], str], special: str) -> ProbeRequest:
    """Returns a request whose last message is the result of a tool, with two codes in it."""

    def fresh(rng: Random) -> ProbeRequest:
        call = ToolCall(f"call{rng.randrange(10**4):05}", "read_file", {"path": "notes.txt"}, '{"path": "notes.txt"}')
        messages = [
            user(f"Read notes.txt with the tool read_file. {_BOTH}"),
            assistant(tool_calls=[call], reasoning="The user wants both codes of the file."),
            tool_result(call, make(rng)),
        ]
        return ProbeRequest(name, messages, (_READ_FILE,), options=capped(96), special=special, fresh=fresh)

    return fresh(Random(0))  # noqa: S311 - shown in the plan only


def _told_in(seen: ProbeResponse) -> str:
    """Returns the body of a request as text, in which the codes stand."""
    return json.dumps(seen.sent, ensure_ascii=False)


FAITHFUL.probe(
    "special_tokens",
    "Is a special token in a tool's result text?",
    _file_result("tokens", _with_special, "special tokens of ten chat templates"),
    whim=True,
    needs="tool_history",
    refused=("no", ""),
)(lambda seen: _judge_codes(seen, _told_in(seen), "a result with special tokens"))
FAITHFUL.probe(
    "long_result",
    "Is a long result of a tool read whole?",
    _file_result("long", lambda rng: _two_codes(rng, _filler(rng, 12_000)), "about 3000 tokens"),
    whim=True,
    needs="tool_history",
    refused=("no", ""),
)(lambda seen: _judge_codes(seen, _told_in(seen), "a result of about 3000 tokens"))


def _user_tokens(rng: Random) -> ProbeRequest:
    messages = [user(_with_special(rng)), assistant("Noted."), user(_BOTH)]
    return ProbeRequest("tokens", messages, options=capped(96), special="special tokens", fresh=_user_tokens)


FAITHFUL.probe(
    "user_tokens",
    "Is a special token in a message text?",
    _user_tokens(Random(0)),  # noqa: S311 - shown in the plan only
    whim=True,
    refused=("no", ""),
)(lambda seen: _judge_codes(seen, _told_in(seen), "a message with special tokens"))


def _old_turns(rng: Random) -> ProbeRequest:
    first, last = _codes(rng, 2)
    middle = [
        message
        for number in range(10)
        for message in (user(f"{_filler(rng, 60)} Note it as remark {number}."), assistant("Noted."))
    ]
    messages = [
        user(f"The first code is {first}."), assistant("Noted."), *middle,
        user(f"The last code is {last}."), assistant("Noted."), user(_BOTH),
    ]  # fmt: skip
    return ProbeRequest("turns", messages, options=capped(96), special="12 earlier turns", fresh=_old_turns)


FAITHFUL.probe(
    "old_turns",
    "Do the first turns of a conversation arrive?",
    _old_turns(Random(0)),  # noqa: S311 - shown in the plan only
    whim=True,
    refused=("no", ""),
)(lambda seen: _judge_codes(seen, _told_in(seen), "a conversation of 12 turns"))


# --- Instructions ----------------------------------------------------------------------------------------------------

_GREET = "Say hello in one short sentence."


def _begin(code: str) -> str:
    return f"Begin every answer with the word {code}."


def _end(code: str) -> str:
    return f"End every answer with the word {code}."


def _two_systems(rng: Random) -> ProbeRequest:
    first, last = _codes(rng, 2)

    def edit(body: dict[str, Any]) -> dict[str, Any]:
        """Writes two messages on Chat Completions, where the profile may have joined them."""
        if "messages" not in body or "system" in body:
            return body
        rest = [message for message in body["messages"] if message["role"] == "user"]
        both = [{"role": "system", "content": text} for text in (_begin(first), _end(last))]
        return {**body, "messages": [*both, *rest]}

    messages = [system(_begin(first)), system(_end(last)), user(_GREET)]
    return ProbeRequest(
        "systems", messages, options=capped(96), special="two system messages", edit=edit, fresh=_two_systems
    )


@FAITHFUL.probe(
    "two_systems",
    "Does a second system message arrive?",
    _two_systems(Random(0)),  # noqa: S311 - shown in the plan only
    apis=("chat", "responses"),  # the others have one place for instructions
    whim=True,
    refused=("ok", "joined into one"),
)
def _judge_systems(seen: ProbeResponse) -> Conclusion:
    sent = _told_in(seen)
    first, last = re.findall(r"answer with the word ([A-Z]+-\d+)", sent)
    has = [code in seen.text for code in (first, last)]
    if all(has):
        return Conclusion("ok", "both are followed")
    if any(has):
        lost = "second" if has[0] else "first"
        return _doubtful(f"the {lost} system message did not arrive; said {shown(seen.text, 50)}")
    return unclear(f"neither is followed; said {shown(seen.text, 50)}")


def _developer(rng: Random) -> ProbeRequest:
    code = _code(rng)

    def edit(body: dict[str, Any]) -> dict[str, Any]:
        member = "input" if "input" in body else "messages"
        content = body[member] if isinstance(body[member], list) else [{"role": "user", "content": body[member]}]
        return {**body, member: [{"role": "developer", "content": _end(code)}, *content]}

    return ProbeRequest("developer", _GREET, options=capped(96), special="role: developer", edit=edit, fresh=_developer)


def _control(rng: Random) -> ProbeRequest:
    return ProbeRequest("system", [system(_end(_code(rng))), user(_GREET)], options=capped(96), fresh=_control)


@FAITHFUL.probe_many(
    "developer",
    "Does a developer message arrive?",
    _control(Random(0)),  # noqa: S311 - shown in the plan only
    _developer(Random(0)),  # noqa: S311 - shown in the plan only
    apis=("chat", "responses"),
    whim=True,
)
def _judge_developer(answers: Answers) -> Conclusion:
    followed = {}
    for name, each in answers.items():
        code = re.findall(r"answer with the word ([A-Z]+-\d+)", _told_in(each))[0]
        followed[name] = code in each.text
    seen = answers.get("developer")
    if seen is None:
        return unclear("no answer")
    if seen.refused:
        return Conclusion("ok", refusal(seen), "sent as system")
    if followed["developer"]:
        return Conclusion("ok", "it is followed")
    if followed.get("system"):
        return _doubtful(f"a system message is followed, a developer message is not; said {shown(seen.text, 50)}")
    return unclear(f"neither a system nor a developer message is followed; said {shown(seen.text, 50)}")


# --- Reasoning -------------------------------------------------------------------------------------------------------

_TIME = Tool("get_time", "Gets the current time.", {"type": "object", "properties": {}})
_THINK = (
    "Think of a number of four digits. Keep it to yourself for now. Call the tool get_time. After its result, tell me"
    " which number you thought of, and answer with the number only."
)


def _thought_of(reply: Reply) -> list[str]:
    return re.findall(r"(?<!\d)\d{4}(?!\d)", reply.reasoning or "")


_HIDDEN = "4827"  # told in the control, where the reasoning isn't shown


def _reasoning_size(reply: Reply) -> int:
    """Returns the size of reasoning: its tokens if they are counted, else about as many as its text has."""
    counted = reply.usage.reasoning_tokens if reply.usage else None
    return counted or text_tokens(reply.reasoning or "")


def _reasoned(reply: Reply) -> bool:
    return _reasoning_size(reply) > 0


def _sent_back(seen: ProbeResponse) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """Returns an edit that sends the reasoning back as it came on Chat Completions, where the profile doesn't."""
    name = reasoning_member(seen)

    def edit(body: dict[str, Any]) -> dict[str, Any]:
        if name is None or "messages" not in body:
            return body
        turns = [
            {name: seen.reply.reasoning, **message} if message["role"] == "assistant" else message
            for message in body["messages"]
        ]
        return {**body, "messages": turns}

    return edit


def _with_result(*, told: bool) -> Callable[[Answers], ProbeRequest | None]:
    """Returns what makes the request with the tool's result. `told`: the number stands in the text of the turn too."""

    def follow(answers: Answers) -> ProbeRequest | None:
        seen = answers.get("think")
        call = call_to(seen.reply, "get_time") if seen and seen.fine else None
        if seen is None or call is None or not _reasoned(seen.reply):
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


@FAITHFUL.probe_many(
    "reasoning_kept",
    "Does the model see its reasoning after a tool's result?",
    ProbeRequest("think", _THINK, (_TIME,), options=capped(768, reasoning_effort="low")),
    ProbeRequest("recall", _THINK, (_TIME,), special="with the result of the tool", follow=_with_result(told=False)),
    ProbeRequest("told", _THINK, (_TIME,), special="with the number in the text too", follow=_with_result(told=True)),
    whim=True,
    needs="one_call",
)
def _reasoning_kept(answers: Answers) -> Conclusion:
    seen, after, told = (answers.get(name) for name in ("think", "recall", "told"))
    if seen is None or not _reasoned(seen.reply):
        return Conclusion("no", "no reasoning was shown or counted")
    if after is None:
        return unclear("the model did not think of a number in its reasoning alone, and call the tool")
    if after.refused:
        return Conclusion("no", f"the turn with its reasoning is {refusal(after)}")
    numbers = _thought_of(seen.reply)
    if any(number in after.text for number in numbers):
        return Conclusion("ok", "the number that stood in its reasoning alone was known after the tool's result")
    if not numbers and re.search(r"(?<!\d)\d{4}(?!\d)", after.text):
        return Conclusion("ok", "after the tool's result it had a number; its reasoning is hidden")
    had = numbers[0] if numbers else "a number"
    saw = f"the reasoning had {had}, and after the tool's result it said {shown(after.text, 50)}"
    known = next(iter(numbers), _HIDDEN)
    return _doubtful(saw) if told and known in told.text else unclear(saw)


_LEVELS = ("none", "low", "high")
_PUZZLE = "How many prime numbers are there between 10 and 60? Answer with the number alone."
_MORE = 1.15  # factor by which reasoning of a high effort is longer than that of a low one


@FAITHFUL.probe_many(
    "efforts",
    "Does more effort bring more reasoning?",
    *(ProbeRequest(level, _PUZZLE, options=capped(1024, reasoning_effort=level)) for level in _LEVELS),
    whim=True,
)
def _efforts(answers: Answers) -> Conclusion:
    none, low, high = (answers.get(level) for level in _LEVELS)
    if low is None or high is None or low.refused or high.refused:
        return Conclusion("no", refusal(low) if low and low.refused else "not all efforts are accepted")
    if low.sent == high.sent:
        return Conclusion("no", "efforts are not sent to this model")
    sizes = [_reasoning_size(seen.reply) for seen in (low, high)]
    if not all(sizes):
        return Conclusion("no", "no reasoning was shown or counted")
    saw = f"reasoning of {sizes[0]} with low effort, {sizes[1]} with high effort"
    if sizes[1] > _MORE * sizes[0]:
        return Conclusion("ok", saw)
    if none is not None and none.fine and none.sent != low.sent and _reasoning_size(none.reply) > sizes[0] / _MORE:
        return _doubtful(f"{saw}, {_reasoning_size(none.reply)} with none: accepted, and without effect")
    return unclear(f"{saw}: the model may have one level")


# --- Counts ----------------------------------------------------------------------------------------------------------

_GROWTH = 2.5  # factor by which the count of a known English text may differ from one token for four bytes
_OVERHEAD = 500  # tokens that a chat template may add to a short prompt
_KNOWN = 2_400  # characters of the known text


def _short(rng: Random) -> ProbeRequest:
    return ProbeRequest("short", f"Your name is {_code(rng)}. {_GREET}", options=capped(48), fresh=_short)


def _long(rng: Random) -> ProbeRequest:
    prompt = f"Your name is {_code(rng)}. {_filler(rng, _KNOWN)} {_GREET}"
    return ProbeRequest("long", prompt, options=capped(48), special="a known text more", fresh=_long)


def _copy(rng: Random) -> ProbeRequest:
    prompt = f"Repeat this line exactly, and write nothing else: {_filler(rng, 500)}"
    return ProbeRequest("copy", prompt, options=capped(400), special="a known text is written", fresh=_copy)


@FAITHFUL.probe_many(
    "counts",
    "Do token counts fit a known text?",
    *(make(Random(0)) for make in (_short, _long, _copy)),  # noqa: S311 - shown in the plan only
    whim=True,
)
def _counts(answers: Answers) -> Conclusion:
    usages = {name: seen.reply.usage for name, seen in answers.items() if seen.fine}
    short, long = usages.get("short"), usages.get("long")
    if not short or not long or not short.input_tokens or not long.input_tokens:
        return Conclusion("no", "no counts", "reply.usage is None, never an estimate")
    bound = f"a known text may differ by a factor of {_GROWTH}, a chat template have {_OVERHEAD} tokens"
    known = len(_prompt(answers["long"])) - len(_prompt(answers["short"]))
    growth, expected = long.input_tokens - short.input_tokens, known / 4
    base = short.input_tokens - text_tokens(_prompt(answers["short"]))
    if not expected / _GROWTH <= growth <= expected * _GROWTH:
        saw = f"{known:,} characters more are counted as {growth:,} tokens more; about {expected:,.0f} were expected"
        return _doubtful(f"{saw} ({bound})")
    if base > _OVERHEAD:
        saw = f"a prompt of {len(_prompt(answers['short']))} characters is counted as {short.input_tokens:,} tokens"
        return _doubtful(f"{saw} ({bound})", "something is put before the prompt, or counted that was not sent")
    copy, seen = usages.get("copy"), answers.get("copy")
    if copy and copy.output_tokens and seen and _prompt(seen).partition(": ")[2] in seen.text:
        text = seen.text + seen.reply.reasoning
        wanted = growth / known * len(text)
        written = copy.output_tokens - (0 if seen.reply.reasoning else copy.reasoning_tokens or 0)
        if not wanted / _GROWTH - 16 <= written <= wanted * _GROWTH + 64:
            saw = f"an answer of {len(text)} characters is counted as {written:,} tokens, about {wanted:,.0f} expected"
            return _doubtful(f"{saw} ({bound})")
    return Conclusion("ok", f"{known:,} characters more are counted as {growth:,} tokens more")


def _cached_prompt(rng: Random) -> ProbeRequest:
    prompt = f"Your name is {_code(rng)}. {_filler(rng, 9_000)} {_GREET}"
    return ProbeRequest("first", prompt, options=capped(48), modes="streamed", patience=1, fresh=_cached_prompt)


def _again(answers: Answers) -> ProbeRequest | None:
    first = answers.get("first")
    if first is None or not first.fine:
        return None
    return ProbeRequest("again", _prompt(first), options=capped(48), modes="streamed")


@FAITHFUL.probe_many(
    "cache",
    "Is a claimed cache one?",
    _cached_prompt(Random(0)),  # noqa: S311 - shown in the plan only
    ProbeRequest("again", _GREET, options=capped(48), special="the same prompt again", modes="streamed", follow=_again),
)
def _cache(answers: Answers) -> Conclusion:
    first, again = (answers[name].reply.usage if name in answers else None for name in ("first", "again"))
    if first is None:
        return Conclusion("no", "no counts")
    size, cached = first.input_tokens or 0, first.cached_tokens or 0
    if cached > max(256, size / 4):
        return _doubtful(f"of {size:,} tokens that were never sent before, {cached:,} are counted as cached")
    if again is None or not again.cached_tokens:
        return Conclusion("no", "a repeated prompt is not counted as cached")
    if again.cached_tokens > (again.input_tokens or 0):
        return Conclusion(
            "unfaithful", f"{again.cached_tokens:,} of {again.input_tokens:,} tokens are counted as cached"
        )
    return Conclusion("ok", f"sent again, {again.cached_tokens:,} of {again.input_tokens:,} tokens came from a cache")


# --- All answers -----------------------------------------------------------------------------------------------------

_TOTAL = 0.1  # share by which a total may differ from the sum of its parts
# Special tokens of models in an answer, that was not asked for them.
_TOKENS = re.compile(
    r"<\|[a-z_]{2,30}\|?>|<[a-z_]{2,30}\|>|<｜[^｜<>]{2,30}｜>|\[TOOL_CALLS\]|</?tool_call>|</?function_call>"
)


def _numbers_of(found: list[ProbeResponse]) -> tuple[int, ...]:
    return tuple(seen.number for seen in found)


@FAITHFUL.probe_many("model", "Are the answers from the model that was requested?", both_modes=True)
def _model(answers: Answers) -> Conclusion:
    named = [seen for seen in answers.values() if seen.fine and seen.reply.model and seen.probe != "unknown_model"]
    others = [seen for seen in named if is_other_model(_asked_model(seen), seen.reply.model or "")]
    if others:
        names = ", ".join(sorted({seen.reply.model or "" for seen in others}))
        saw = f"{len(others)} of {len(named)} answers are from {names}, and {_asked_model(others[0])} was requested"
        return Conclusion("unfaithful", saw, telling=_numbers_of(others))
    if not named:
        return Conclusion("no", "the answers name no model")
    names = ", ".join(sorted({seen.reply.model or "" for seen in named}))
    return Conclusion("ok", f"{len(named)} answers are from {names}")


def _asked_model(seen: ProbeResponse) -> str:
    sent = seen.recording.sent if seen.recording else None
    in_path = re.search(r"/models/([^/:?]+):", sent.path) if sent else None  # Gemini
    return str(seen.sent.get("model") or (in_path[1] if in_path else ""))


def _declared(seen: ProbeResponse) -> set[str]:
    """Returns the names of the tools that a request declared, in the words of any API."""
    names = set()
    for tool in seen.sent.get("tools", ()):
        for each in (tool, tool.get("function") or {}, *(tool.get("functionDeclarations") or ())):
            names |= {str(each["name"])} if "name" in each else set()
    return names


@FAITHFUL.probe_many("call_names", "Do calls have the names of declared tools?", both_modes=True)
def _call_names(answers: Answers) -> Conclusion:
    with_calls = [seen for seen in answers.values() if seen.fine and seen.reply.tool_calls]
    found = [
        (seen, call.name) for seen in with_calls for call in seen.reply.tool_calls if call.name not in _declared(seen)
    ]
    if not found:
        return Conclusion("ok" if with_calls else "no", f"{len(with_calls)} answers with calls")
    seen, name = found[0]
    saw = f"{len(found)} calls have a name that was not declared: {shown(name)}"
    plain = _plain(name)
    damaged = any(_plain(each) in plain or plain in _plain(each) for each in _declared(seen)) or _TOKENS.search(name)
    verdict: Verdict = "unfaithful" if damaged and len(found) > 1 else "unclear"
    return Conclusion(verdict, saw, telling=_numbers_of([seen for seen, _ in found]))


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


@FAITHFUL.probe_many("markup", "Is there markup of calls in the text?", both_modes=True)
def _markup(answers: Answers) -> Conclusion:
    with_tools = [seen for seen in answers.values() if seen.fine and _declared(seen) and seen.probe not in _QUOTING]
    found = [seen for seen in with_tools if _TOKENS.search(seen.text) or _call_in_text(seen)]
    if len(found) > 1:
        saw = f"{len(found)} of {len(with_tools)} answers: {shown(found[0].text, 70)}"
        return Conclusion(
            "unfaithful", saw, "a dialect may read it: see the question about one call", telling=_numbers_of(found)
        )
    return Conclusion("ok" if with_tools else "no", "none")


_QUOTING = ("special_tokens", "long_result", "strings", "echo", "user_tokens", "long_arguments")  # that ask for markup


def _call_in_text(seen: ProbeResponse) -> bool:
    if not re.search(r"[<\[{]", seen.text):
        return False
    return any(dialect_of(seen, name) not in (None, "required", "named") for name in _declared(seen))


@FAITHFUL.probe_many("totals", "Do token counts add up?", both_modes=True)
def _totals(answers: Answers) -> Conclusion:
    found, counted = [], 0
    for seen in answers.values():
        usage = seen.reply.usage if seen.fine else None
        if usage is None or usage.input_tokens is None or usage.output_tokens is None:
            continue
        raw = usage.raw or {}
        total = raw.get("total_tokens", raw.get("totalTokenCount"))
        parts = usage.input_tokens + usage.output_tokens
        counted += 1
        off = isinstance(total, int) and abs(total - parts) > max(8, _TOTAL * parts)
        cached = (usage.cached_tokens or 0) > usage.input_tokens
        thought = (usage.reasoning_tokens or 0) > usage.output_tokens
        if (off and abs(total - parts - (usage.reasoning_tokens or 0)) > 8) or cached or thought:
            found.append((seen, f"{usage.input_tokens} and {usage.output_tokens} tokens, in all {total or parts}"))
    if len(found) > 1:
        saw = f"{len(found)} of {counted} answers do not add up: {found[0][1]}"
        return Conclusion(
            "unfaithful", f"{saw} (a bound of {_TOTAL:.0%})", telling=_numbers_of([seen for seen, _ in found])
        )
    return Conclusion(
        "ok" if counted else "no", f"{counted} answers have counts that add up" if counted else "no counts"
    )
