"""A small deterministic model: reads a conversation, decides on a call or a text, and counts tokens.

It knows no test's prompts. README.md explains how it decides.
"""

from __future__ import annotations

import itertools
import json
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

Json = Any


class Number(str):
    """A JSON number that isn't an integer, as it was written: 1e-7 and 0.10 stay what they are."""


def loads(text: str) -> Json:
    """Parses JSON and keeps the spelling of numbers."""
    return json.loads(text, parse_float=Number, parse_int=_integer)


def _integer(text: str) -> Json:
    return Number(text) if text == "-0" else int(text)


def dumps(value: Json) -> str:
    """Writes JSON with the numbers as they were written, and text unescaped."""
    if isinstance(value, Number):
        return str(value)
    if isinstance(value, dict):
        return (
            "{" + ", ".join(f"{json.dumps(str(key), ensure_ascii=False)}: {dumps(value[key])}" for key in value) + "}"
        )
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(dumps, value)) + "]"
    return json.dumps(value, ensure_ascii=False)


@dataclass(frozen=True, slots=True)
class Tool:
    name: str
    description: str = ""
    schema: dict[str, Json] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Call:
    name: str
    arguments: Json
    id: str = ""
    cut: str | None = None
    """The beginning of the arguments' text, where the limit of tokens ended it."""

    @property
    def text(self) -> str:
        return dumps(self.arguments) if self.cut is None else self.cut


@dataclass(frozen=True, slots=True)
class Message:
    role: str
    """system, developer, user, assistant or tool."""
    text: str = ""
    reasoning: str | None = None
    calls: tuple[Call, ...] = ()
    call_id: str = ""


@dataclass(frozen=True, slots=True)
class Request:
    api: str
    model: str
    messages: tuple[Message, ...]
    tools: tuple[Tool, ...] = ()
    choice: str = "auto"
    """auto, none, required, or `=NAME` for one tool."""
    parallel: bool = True
    max_tokens: int | None = None
    stop: tuple[str, ...] = ()
    effort: str | None = None
    schema: dict[str, Json] | None = None
    """Of structured output; {} for any JSON object."""
    stream: bool = False
    body: dict[str, Json] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Usage:
    input: int = 0
    output: int = 0
    reasoning: int = 0
    cached: int = 0


@dataclass(frozen=True, slots=True)
class Answer:
    text: str = ""
    reasoning: str = ""
    calls: tuple[Call, ...] = ()
    finish: str = "stop"
    """stop, length, tool_calls, or stop_sequence."""
    matched: str | None = None
    usage: Usage = Usage()


# -- tokens

_TOKEN = re.compile(r" ?[A-Za-z]{1,5}|\d{1,3}| ?[^\sA-Za-z\d]|\n+|[ \t]+|\s")


def tokens(text: str) -> list[str]:
    """Splits a text into pieces of about four characters; joined they are the text."""
    return _TOKEN.findall(text)


def input_tokens(request: Request, count: Any = tokens) -> int:
    """Counts what the model reads: messages, calls and results, definitions of tools and of the output."""
    total = 3
    for message in request.messages:
        total += 4 + len(count(message.text)) + len(count(message.reasoning or ""))
        total += sum(6 + len(count(call.name)) + len(count(call.text)) for call in message.calls)
    for tool in request.tools:
        total += 8 + len(count(tool.name)) + len(count(tool.description)) + len(count(dumps(tool.schema)))
    return total + (len(count(dumps(request.schema))) if request.schema else 0)


# -- reading values out of prose

_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)?")
_STOP_WORDS = (
    "a an and any are as at be by can could did do does for from give had has have here how i if in into is "
    "it its me my no not of on one only or our please reply answer respond say tell that the their them then "
    "there this to was we what when where which who will with would write you your exactly just now nothing "
    "else"
)
_STOP = frozenset(_STOP_WORDS.split())
_DECODER = json.JSONDecoder(parse_float=Number, parse_int=_integer)
_QUOTES = {"'": "'", "`": "`", "“": "”", "«": "»", "‘": "’", "「": "」"}
_LINK = re.compile(
    r"""["'`*]*\s*(?P<link>=|:|\b(?:is set to|set to|should be|must be|equal to|equals|being|is|as|to|of|for)\b)?"""
    r"""\s*(?:(?:exactly|the|this|following|string|number|integer|value|text|list|array|object|boolean)\b\s*)*:?"""
)


def objects(text: str) -> list[tuple[int, int, dict[str, Json]]]:
    """Returns the JSON objects that stand in a text, outermost only, with their places."""
    found = []
    at = text.find("{")
    while at >= 0:
        end = at + 1
        try:
            value, end = _DECODER.raw_decode(text, at)
        except (ValueError, RecursionError):
            value = None
        if isinstance(value, dict):
            found.append((at, end, value))
        at = text.find("{", end)
    return found


def quoted(text: str) -> list[tuple[int, int, str]]:
    """Returns the quoted texts with their places; a double-quoted one is read as JSON where it is JSON."""
    found = []
    at = 0
    while at < len(text):
        if text.startswith("```", at):
            end = text.find("```", at + 3)
            at = len(text) if end < 0 else end + 3
            continue
        read = _quoted_at(text, at) if text[at] == '"' or text[at] in _QUOTES else None
        if read is None:
            at += 1
        else:
            found.append((at, read[1], read[0]))
            at = read[1]
    return found


def _quoted_at(text: str, at: int) -> tuple[str, int] | None:
    if text[at] == '"':
        try:
            value, end = json.decoder.scanstring(text, at + 1)  # type: ignore[attr-defined]
        except ValueError:
            close = re.compile(r'"(?=[\s.,;:!?)\]}]|$)').search(text, at + 1)
            return (text[at + 1 : close.start()], close.end()) if close else None
        return value, end
    if text[at] == "'" and at and text[at - 1].isalnum():
        return None  # an apostrophe
    close = re.compile(re.escape(_QUOTES[text[at]]) + r"(?!\w)").search(text, at + 1)
    return (text[at + 1 : close.start()], close.end()) if close and close.start() > at + 1 else None


def announced(text: str) -> str | None:
    """Returns the text that a line with a colon at its end announces, unless it is one quoted text."""
    tail = re.search(r":[ \t]*\n+(.+)\Z", text, re.DOTALL)
    if tail is None:
        tail = re.search(r"\b(?:exactly|verbatim|following|unchanged)\b[^\n:]{0,80}:\s+(\S[^\n]*)\Z", text)
    first = next(iter(quoted(text)), None)
    if tail is None or "```" in tail[1] or re.match(r"<[A-Za-z][\w-]*>", tail[1]) or objects(tail[1]):
        return None
    return None if first is None or first[0] <= tail.start(1) else tail[1]


def blocks(text: str) -> list[str]:
    """Returns texts between fences or tags, and what follows a colon at the end of a line."""
    found = re.findall(r"```[\w-]*\n(.*?)\n?```", text, re.DOTALL)
    tagged = [match[2] for match in re.finditer(r"<([A-Za-z][\w-]*)>\n?(.*?)\n?</\1>", text, re.DOTALL)]
    found += [one for one in tagged if one.strip() not in ("and", "to", "...", "…")]
    tail = re.search(r":[ \t]*\n+(.+)\Z", text, re.DOTALL) or re.search(r":\s+(\S[^\n]*)\Z", text)
    return [*found, tail[1]] if tail else found


def _value_at(text: str, at: int, linked: bool, listed: bool) -> Json:
    """Reads the value that begins at a place; `_NOTHING` if there is none."""
    if at >= len(text):
        return _NOTHING
    if text[at] == '"' or text[at] in _QUOTES:
        read = _quoted_at(text, at)
        if read:
            return read[0]
    if text[at] in "{[-0123456789tfn":
        try:
            value, end = _DECODER.raw_decode(text, at)
        except (ValueError, RecursionError):
            pass
        else:
            if end == len(text) or not (text[end].isalnum() or text[end] in "_-"):
                return value
    if text[at] == "\n":
        return text[at:].strip("\n") if linked else _NOTHING
    if not linked and not re.compile(r"[A-Z]|[\w-]*\d").match(text, at):
        return _NOTHING
    if listed:
        line = re.compile(r"[^\n,;]+?(?=\s+and\s|[.!?)]*\s*(?:\n|$)|[,;]|\.\s)").match(text, at)
        if line:
            return line[0].strip()
    bare = re.compile(r"[^\s,;]+(?: [A-Z][\w'’-]*)*").match(text, at)
    return bare[0].strip("()").rstrip(".!?)") if bare else _NOTHING


_NOTHING = object()


class _Values:
    """The values of a prompt, each of which fills one place only."""

    def __init__(self, text: str, names: set[str]) -> None:
        self.text = text
        self.strings = [value for _, _, value in quoted(text) if value not in names]
        whole = announced(text)
        if whole is not None and not re.search(r"^\s*[-*]?\s*[\w-]+\s*[:=]", whole):
            self.strings.insert(0, whole)
        outside = text
        for start, end, _ in reversed([*quoted(text)]):
            outside = outside[:start] + " " * (end - start) + outside[end:]
        self.numbers = re.findall(r"(?<![\w.])-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?(?![\w]|\.\d)", outside)
        self.blocks = blocks(text)
        self.arrays = list(_arrays(text))
        self.names = re.findall(
            r"\b(?:in|for|to|about|of|from|at|near|with|and|named|called|,)\s+((?:[A-Z][\w'’-]*)(?: [A-Z][\w'’-]*)*)",
            text,
        )

    def string(self) -> str:
        for places in (self.strings, self.blocks, self.names):
            if places:
                return str(places.pop(0))
        return "example"

    def number(self) -> Json:
        return loads(self.numbers.pop(0)) if self.numbers else 1


def _arrays(text: str) -> list[list[Json]]:
    found = []
    at = text.find("[")
    while at >= 0:
        end = at + 1
        try:
            value, end = _DECODER.raw_decode(text, at)
            found.append(value)
        except (ValueError, RecursionError):
            pass
        at = text.find("[", end)
    return found


def _resolve(schema: Json, root: dict[str, Json]) -> dict[str, Json]:
    for _ in range(20):
        if not isinstance(schema, dict):
            return {}
        if "$ref" in schema:
            target: Json = root
            for key in str(schema["$ref"]).lstrip("#/").split("/"):
                target = target.get(key, {}) if isinstance(target, dict) else {}
            schema = {**target, **{key: schema[key] for key in schema if key != "$ref"}}
            continue
        options = schema.get("anyOf") or schema.get("oneOf")
        if options and "type" not in schema:
            schema = next((one for one in options if one.get("type") != "null"), options[0])
            continue
        if schema.get("allOf") and "properties" not in schema and "type" not in schema:
            schema = schema["allOf"][0]
            continue
        return schema
    return {}


def _type(schema: dict[str, Json]) -> str:
    kind = schema.get("type")
    if isinstance(kind, list):
        kind = next((one for one in kind if one != "null"), "null")
    if kind is None:
        kind = "object" if "properties" in schema else "array" if "items" in schema else "string"
    return str(kind).lower()


def _fits(value: Json, schema: dict[str, Json]) -> Json:
    """Reads a value by the type that is declared for it."""
    kind = _type(schema)
    if kind in ("integer", "number") and isinstance(value, str) and not isinstance(value, Number):
        try:
            read = loads(value)
        except ValueError:
            return value
        return read if isinstance(read, int | Number) and not isinstance(read, bool) else value
    if kind == "boolean" and isinstance(value, str):
        return {"true": True, "yes": True, "false": False, "no": False}.get(value.lower(), value)
    if kind == "string" and isinstance(value, Number | int) and not isinstance(value, bool):
        return str(value)
    return value


def fill(schema: dict[str, Json], text: str, names: set[str], *, answer: str | None = None) -> Json:
    """Makes an object of a schema from what a text says."""
    schema = _resolve(schema, schema)
    properties = schema.get("properties") or {}
    for _, _, found in objects(text):
        if "arguments" in found and "arguments" not in properties and isinstance(found["arguments"], dict):
            found = found["arguments"]
        if not properties or (set(found) & set(properties) and not {"type", "properties"} <= set(found)):
            missing = [name for name in schema.get("required", []) if name not in found]
            if missing:
                rest = fill({**schema, "required": missing}, _without_objects(text), names, answer=answer)
                found = {**found, **{name: rest[name] for name in missing if name in rest}}
            return found
    return _fill(schema, schema, text, _Values(text, names | set(properties)), answer)


_WORDS_OF_ANSWERS = ("answer", "text", "reply", "response", "message", "result", "summary", "content", "output")


def _without_objects(text: str) -> str:
    for start, end, _ in reversed(objects(text)):
        text = text[:start] + text[end:]
    return text


def _fill(
    schema: dict[str, Json], root: dict[str, Json], text: str, values: _Values, answer: str | None, path: str = ""
) -> Json:
    schema = _resolve(schema, root)
    if "const" in schema:
        return schema["const"]
    if path:
        said = _named(path, text, schema)
        if said is not _NOTHING:
            if isinstance(said, str) and said in values.strings:
                values.strings.remove(said)
            if str(said) in values.numbers:
                values.numbers.remove(str(said))
            return said
    if schema.get("enum"):
        low = text.lower()
        return next(
            (one for one in schema["enum"] if re.search(rf"(?<!\w){re.escape(str(one).lower())}(?!\w)", low)),
            schema["enum"][0],
        )
    kind = _type(schema)
    if kind == "object":
        properties = schema.get("properties") or {}
        required = schema.get("required", list(properties))
        filled = {}
        for name, part in properties.items():
            optional = name not in required
            if optional and _named(name, text, _resolve(part, root)) is _NOTHING:
                continue
            filled[name] = _fill(part, root, text, values, answer, name)
        return filled
    if kind == "array":
        items = _resolve(schema.get("items", {}), root)
        if values.arrays:
            return values.arrays.pop(0)
        if _type(items) in ("integer", "number"):
            return [values.number() for _ in range(max(1, len(values.numbers)))]
        if _type(items) == "string":
            bare = re.search(
                rf"\b{re.escape(path)}\b\W*((?:[\w-]+)(?:,\s*(?:and\s+)?[\w-]+|\s+and\s+[\w-]+)+)", text, re.IGNORECASE
            )
            if bare and not values.strings:
                return re.split(r",\s*(?:and\s+)?|\s+and\s+", bare[1])
            many = len(values.strings) or len(values.names)
            return [values.string() for _ in range(max(1, many))]
        return [_fill(items, root, text, values, answer)]
    if kind in ("integer", "number"):
        value = values.number()
        return int(float(value)) if kind == "integer" and isinstance(value, Number) else value
    if kind == "boolean":
        return not re.search(r"\b(?:false|no|off|disabled)\b", text, re.IGNORECASE)
    if kind == "null":
        return None
    if answer is not None and "?" in text and not values.strings and not answer.startswith(("Hello!", "I don't")):
        return answer
    found = values.string() if values.strings or path not in _WORDS_OF_ANSWERS else None
    return answer if answer is not None and found in (None, "example") else found or "example"


def _named(name: str, text: str, schema: dict[str, Json]) -> Json:
    """Returns what a text says that a property is, as in `city is "Paris"`, `n=5` or `unit: celsius`."""
    spelled = "[ _-]?".join(
        re.escape(part) for part in re.findall(r"[A-Za-z][a-z]*|[A-Z]+|\d+|[^\W_]+", name)
    ) or re.escape(name)
    best: Json = _NOTHING
    after = re.compile(
        rf"""\s+(?:for|as|in|into)\s+(?:the\s+|its\s+)?(?:(?:property|argument|parameter|field|key)\s+)?["'`]?{spelled}(?![\w-])""",
        re.IGNORECASE,
    )
    for end, value in _spans(text):
        if after.match(text, end) and _plausible(_fits(value, schema), schema):
            return _fits(value, schema)
    for match in re.finditer(rf"(?<![\w-]){spelled}(?![\w-])", text, re.IGNORECASE):
        link = _LINK.match(text, match.end())
        if link is None:
            continue
        linked = link["link"] is not None or link[0].rstrip().endswith(":")
        at = link.end()
        while at < len(text) and text[at] in " \t*":
            at += 1
        listed = link["link"] in ("=", ":") or link[0].rstrip().endswith(":")
        value = _fits(_value_at(text, at, linked, listed), schema) if at < len(text) else _NOTHING
        if value is _NOTHING:
            continue
        strong = text[at] in "\"'`“{[-0123456789\n" or link["link"] in ("=", ":")
        if not _plausible(value, schema):
            continue
        if strong:
            return value
        if best is _NOTHING and link["link"] not in ("to", "of", "for", "as"):
            best = value
    return best


def _spans(text: str) -> Iterator[tuple[int, Json]]:
    """Returns the values that stand in a text, each with the place where it ends."""
    for start in (
        match.start() for match in re.finditer(r"[\"'`“«‘「\[{]|(?<![\w.-])(?:-?\d|true\b|false\b|null\b)", text)
    ):
        if text[start] in _QUOTES or text[start] == '"':
            read = _quoted_at(text, start)
            if read:
                yield read[1], read[0]
            continue
        try:
            value, end = _DECODER.raw_decode(text, start)
        except (ValueError, RecursionError):
            continue
        yield end, value


def _plausible(value: Json, schema: dict[str, Json]) -> bool:
    if value is None:
        return "null" in (schema.get("type") or "null")
    if schema.get("enum"):
        return value in schema["enum"]
    kind = _type(schema)
    return {
        "integer": isinstance(value, int) and not isinstance(value, bool),
        "number": isinstance(value, int | Number) and not isinstance(value, bool),
        "boolean": isinstance(value, bool),
        "array": isinstance(value, list),
        "object": isinstance(value, dict),
        "string": isinstance(value, str) and not isinstance(value, Number),
    }.get(kind, True)


# -- calls


def _keys(text: str) -> set[str]:
    """Returns what the words of a text have in common with others: five letters, without a plural's s."""
    words = (word.lower() for word in _WORD.findall(text))
    return {(word.removesuffix("s") if len(word) > 3 else word)[:5] for word in words if word not in _STOP}


def last_prompt(messages: tuple[Message, ...]) -> tuple[str, int]:
    """Returns the user's last text, and where the turn that answers it begins."""
    for at in range(len(messages) - 1, -1, -1):
        if messages[at].role == "user" and messages[at].text:
            start = at
            while start and messages[start - 1].role == "user":
                start -= 1
            return "\n".join(one.text for one in messages[start : at + 1]), at + 1
    return "", len(messages)


_THEN = re.compile(
    r"\b(?:then|after that|afterwards|after you|once you|once it|next|step by step|one after|first)\b", re.I
)
_NO_CALL = re.compile(r"\b(?:do not|don't|don’t|never|without)\s+(?:call|calling|use|using|invoke|run)", re.I)
_VERB = re.compile(r"\b(?:call|use|invoke|run|execute|using|calling|with)\b[^.!?\n]{0,80}$", re.I)
_EACH = re.compile(
    r"\b(?:each|both|twice|two|three|four|five|six|parallel|separate(?:ly)?|one for|every|simultaneously|times)\b", re.I
)


def planned(prompt: str, tools: tuple[Tool, ...]) -> list[Call]:
    """Returns the calls that a prompt asks for, in its order."""
    if not tools or _NO_CALL.search(prompt):
        return []
    names = {tool.name for tool in tools}
    mentions: list[tuple[int, Tool]] = []
    for tool in tools:
        for number, match in enumerate(re.finditer(rf"(?<![\w-]){re.escape(tool.name)}(?![\w-])", prompt)):
            before = prompt[max(0, match.start() - 100) : match.start()]
            if re.match(r"\s*=", prompt[match.end() : match.end() + 3]):
                continue
            if re.search(r"\b(?:not|instead of|rather than|never)\s*(?:the\s+)?(?:tool\s+)?[\"'`]?$", before, re.I):
                continue
            if number and not _VERB.search(before) and prompt[match.end() : match.end() + 1] != "(":
                continue
            mentions.append((match.start(), tool))
    if not mentions:
        chosen = _meant(prompt, tools)
        return _calls(chosen, prompt, names) if chosen else []
    mentions.sort(key=lambda one: one[0])
    repeated: list[tuple[int, Tool]] = []
    for number, (at, tool) in enumerate(mentions):
        end = mentions[number + 1][0] if number + 1 < len(mentions) else len(prompt)
        known = any(tool is other for _, other in repeated)
        segment = prompt[at + len(tool.name) : end]
        if not known or objects(segment) or [one for one in quoted(segment) if one[2] not in names]:
            repeated.append((at, tool))
    found: list[Call] = []
    for number, (at, tool) in enumerate(repeated):
        start = at if number else 0
        end = repeated[number + 1][0] if number + 1 < len(repeated) else len(prompt)
        found += _calls(tool, prompt[start:end], names)
    return found


def _meant(prompt: str, tools: tuple[Tool, ...]) -> Tool | None:
    """Returns the tool whose name or description speaks of what the prompt speaks of."""
    asked = _keys(prompt)
    best, best_score = None, 1.0
    for tool in tools:
        name = " ".join(re.findall(r"[A-Z]?[a-z]+|[A-Z]+|\d+", tool.name))
        generic = _keys("get set tool function call find make test check probe")
        score = 2.0 * len((_keys(name) - generic) & asked) + 0.7 * len((_keys(tool.description) - generic) & asked)
        if score > best_score:
            best, best_score = tool, score
    if best is None and re.search(r"\b(?:tool|function)s?\b", prompt, re.I):
        return tools[0]
    return best


def _calls(tool: Tool, text: str, names: set[str]) -> list[Call]:
    schema = _resolve(tool.schema, tool.schema)
    properties = schema.get("properties") or {}
    required = schema.get("required", list(properties))
    given = [
        value
        for _, _, value in objects(text)
        if set(value) & set(properties) and not {"type", "properties"} <= set(value)
    ]
    if len(given) > 1 and all(set(required) <= set(one) for one in given):
        return [Call(tool.name, one) for one in given]
    only = _resolve(properties.get(required[0], {}), schema) if len(required) == 1 else None
    if not given and only is not None and _type(only) == "string" and not only.get("enum"):
        strings = [value for _, _, value in quoted(text) if value not in names | set(properties)]
        places = re.search(
            r"\b(?:in|for|of)\s+([A-Z][\w'’-]*(?:(?:,\s*(?:and\s+)?|\s+and\s+)(?:in\s+|for\s+)?[A-Z][\w'’-]*)+)", text
        )
        if len(strings) > 1 and _EACH.search(text):
            return [Call(tool.name, {required[0]: one}) for one in strings]
        if not strings and places:
            return [Call(tool.name, {required[0]: one}) for one in re.findall(r"[A-Z][\w'’-]*", places[1])]
    return [Call(tool.name, fill(tool.schema, text, names) if properties or given else _any_object(text))]


def _any_object(text: str) -> dict[str, Json]:
    found = objects(text)
    return found[0][2] if found else {}


# -- texts

_REPEAT = re.compile(r"\b(?:repeat|say|echo|output|print|write|reply|respond|answer|return|copy)\b", re.I)
_SEQUENCE = re.compile(
    r"\b(?:from\s+)?(\d+)\s*(?:to|through|until|-|–|up to)\s*(\d+)\b|\bcount\b[^.\n]{0,30}?\bto\s+(\d+)\b", re.I
)
_TIMES = re.compile(r"(\d+)\s+times\b(?!\s*\d)", re.I)
_SUM = re.compile(r"(-?\d+)\s*(\+|plus|-|minus|\*|x|×|times|multiplied by)\s*(-?\d+)(?!\s*times)", re.I)
_ASK = re.compile(
    r"\?|\b(?:what|which|who|where|tell me|recall|remember(?:ed)?|find|name the|list|give me|look up|state)\b", re.I
)
_TOKENISH = re.compile(
    r"(?<![\w-])(?=[\w-]*\d)[A-Za-z0-9][\w-]{2,}|(?<![\w-])[A-Z][A-Z0-9_-]{2,}(?![\w-])|(?<![\w-])[A-Za-z]+(?:-[A-Za-z0-9]+)+"
)
_NOUNS = ("harbour", "lantern", "meadow", "copper", "violet", "granite", "willow", "saffron")


_KNOWN = {
    "capital of france": "Paris",
    "capital of germany": "Berlin",
    "capital of italy": "Rome",
    "capital of japan": "Tokyo",
    "capital of spain": "Madrid",
    "the sky": "Blue",
    "yes or no": "Yes",
    "introduce yourself": "I am a small language model that does as it is told.",
    "fruits": "apple, banana, cherry",
    "colours": "red, green, blue",
    "colors": "red, green, blue",
    "animals": "cat, dog, horse",
    "joke": "Two tests walk into a bar. Both pass.",
}


def sentences(text: str) -> list[str]:
    return [one.strip() for one in re.split(r"(?<=[.!?。])\s+|\n+", text) if one.strip()]


def value_of(sentence: str, asked: set[str]) -> str:
    """Returns what a sentence tells: a quoted text, a code, or what follows its verb."""
    inside = [value for _, _, value in quoted(sentence)]
    if inside:
        return inside[-1]
    for _, _, found in objects(sentence):
        return next((str(found[key]) for key in found if key.lower()[:5] in asked), dumps(found))
    codes = [one for one in _TOKENISH.findall(sentence) if one.lower()[:5] not in asked]
    link = re.search(r"(?:\bis\b|\bare\b|\bwas\b|\bnamed\b|\bcalled\b|[:=])\s*(.+)$", sentence)
    if link and not codes:
        return link[1].strip().rstrip(".!。")
    return codes[-1] if codes else sentence.rstrip(".!。")


def recall(ask: str, told: list[str]) -> list[str]:
    """Returns the values of the sentences that speak of what is asked, the best first."""
    asked = _keys(ask)
    common: dict[str, int] = {}
    words = [(sentence, _keys(sentence)) for sentence in told]
    for _, keys in words:
        for key in keys & asked:
            common[key] = common.get(key, 0) + 1
    scored = [
        (sum(1 / common[key] for key in keys & asked), number, sentence)
        for number, (sentence, keys) in enumerate(words)
    ]
    scored = [one for one in scored if one[0] > 0 and "?" not in one[2]]
    if not scored:
        return []
    best = max(score for score, _, _ in scored)
    if re.search(
        r"\b(?:all|both|every|each|list|two|three|codes|words|values|facts|numbers|secrets|tokens|names)\b", ask, re.I
    ):
        kept = [one for one in scored if one[0] >= best * 0.5]
        return list(dict.fromkeys(value_of(sentence, asked) for _, _, sentence in kept))
    top = max(scored)
    return [value_of(top[2], asked)]


def instructions(texts: list[str]) -> dict[str, list[str]]:
    """Reads standing instructions: how each answer begins, ends, what it has in it, or what it is."""
    found: dict[str, list[str]] = {"is": [], "begin": [], "end": [], "include": [], "upper": []}
    for sentence in itertools.chain.from_iterable(map(sentences, texts)):
        inside = [value for _, _, value in quoted(sentence)] or _TOKENISH.findall(sentence)
        marked = re.search(
            r"\b(?:word|token|code|phrase|string|marker|tag|with)\s+(?:the\s+(?:word|token)\s+)?([\w-]+)",
            sentence,
            re.I,
        )
        value = inside[-1] if inside else marked[1] if marked and marked[1].lower() not in _STOP else ""
        if re.search(r"\b(?:upper ?case|capital letters|all caps)\b", sentence, re.I):
            found["upper"].append("yes")
        elif not value:
            continue
        elif re.search(r"\b(?:begin|start|prefix|open)\w*\b", sentence, re.I):
            found["begin"].append(value)
        elif re.search(r"\b(?:end|finish|conclude|close|append|suffix|sign)\b", sentence, re.I):
            found["end"].append(value)
        elif re.search(r"\b(?:include|mention|contain|add|insert|use|put)\b", sentence, re.I):
            found["include"].append(value)
        elif re.search(r"\b(?:answer|reply|respond|say|output)\b", sentence, re.I):
            found["is"].append(value)
    return found


def number_of(text: str) -> int:
    return zlib.crc32(text.encode()) % 9000 + 1000


def secret(prompt: str) -> str:
    """Returns what the model thinks of when it is told to think of something."""
    match = re.search(
        r"\b(?:think of|pick|choose|invent|make up|decide on)\b[^.\n]{0,60}?"
        r"\b(number|integer|digit|word|name|colou?r|code)\b",
        prompt,
        re.I,
    )
    if not match:
        return ""
    what = match[1].lower()
    value = (
        str(number_of(prompt))
        if what in ("number", "integer", "digit", "code")
        else _NOUNS[number_of(prompt) % len(_NOUNS)]
    )
    return f"The {what} that I {match[0].split()[0].lower()} is {value}."


def prose(words: int, about: str) -> str:
    """Writes so many words of plain prose."""
    subjects = ("The river", "A traveller", "The old town", "Each morning the market", "The library", "A quiet street")
    verbs = ("remembers", "follows", "describes", "changes", "crosses", "answers")
    things = (
        "the long winter",
        "a narrow bridge",
        "its own history",
        "the people who live there",
        "a slow conversation",
        "the light of evening",
    )
    written: list[str] = []
    start = number_of(about)
    for number in itertools.count(start):
        sentence = (
            f"{subjects[number % 6]} {verbs[number // 2 % 6]} {things[number // 3 % 6]} in year {number - start + 1}."
        )
        written += sentence.split()
        if len(written) >= words:
            return " ".join(written[:words])
    raise AssertionError


def _joined(items: list[str], ask: str) -> str:
    if re.search(r"\b(?:one per line|per line|new ?lines?|each on)\b", ask, re.I):
        return "\n".join(items)
    if re.search(r"\bspaces?\b", ask, re.I) and not re.search(r"\bno spaces\b|comma", ask, re.I):
        return " ".join(items)
    return ", ".join(items)


_UNIT_WORDS = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen "
    "seventeen eighteen nineteen"
)
_UNITS = _UNIT_WORDS.split()
_TEN_WORDS = "twenty thirty forty fifty sixty seventy eighty ninety"
_TENS = _TEN_WORDS.split()


_SPOKEN = re.compile(
    r"\b(?:one|a) (?:hundred|thousand)\b|\b(?:" + "|".join([*_UNITS[1:], *_TENS]) + r")\b", re.IGNORECASE
)


def _digits(text: str) -> str:
    """Writes numbers in words as digits: one to one hundred, in tens beyond twenty."""

    def digits(match: re.Match[str]) -> str:
        word = match[0].lower()
        if " " in word:
            return "100" if word.endswith("hundred") else "1000"
        return str(_UNITS.index(word) if word in _UNITS else 10 * (_TENS.index(word) + 2))

    return _SPOKEN.sub(digits, text)


def _spelled(number: int) -> str:
    if number < 20:
        return _UNITS[number]
    if number < 100:
        return _TENS[number // 10 - 2] + ("" if number % 10 == 0 else "-" + _UNITS[number % 10])
    return str(number)


def speak(request: Request) -> str:
    """Answers in words."""
    prompt, begin = last_prompt(request.messages)
    results = [one.text for one in request.messages[begin:] if one.role == "tool"]
    standing = instructions([one.text for one in request.messages if one.role in ("system", "developer")])
    ask = prompt if len(prompt) <= 700 else prompt[:300] + "\n" + prompt[-400:]
    text = _speak(request, prompt, ask, results)
    if standing["is"]:
        text = " ".join(standing["is"])
    if standing["upper"]:
        text = text.upper()
    for value in standing["include"]:
        text = text if value in text else f"{text} {value}"
    for value in reversed(standing["begin"]):
        text = text if text.startswith(value) else f"{value} {text}"
    for value in standing["end"]:
        text = text if text.endswith(value) else f"{text} {value}"
    return text


def _speak(request: Request, prompt: str, ask: str, results: list[str]) -> str:
    verbatim = bool(
        re.search(r"\b(?:exactly|only|just|verbatim|nothing else|word for word|unchanged|as it is)\b", ask, re.I)
    )
    if results:
        shown = "\n".join(results)
        more = [
            one for one in recall(_without_results(ask), _told(request, prompt, ask, results=False)) if one not in shown
        ]
        asks_more = re.search(
            r"\b(?:you (?:thought|picked|chose|decided)|your thoughts?|earlier|told you|remember|reasoning)\b",
            ask,
            re.I,
        )
        if asks_more and more:
            return ", ".join(more) if verbatim else f"The tool returned: {shown}\nAnd: {', '.join(more)}"
        picked = recall(ask, [one for result in results for one in sentences(result)]) if verbatim else []
        if verbatim and re.search(
            r"\b(?:verbatim|unchanged|word for word|result|output|returned|what it returns)\b", ask, re.I
        ):
            return shown
        return ", ".join(picked) if picked else f"The tool returned: {shown}"
    times = _TIMES.search(ask)
    strings = [value for _, _, value in quoted(ask)]
    if times and _REPEAT.search(ask):
        word = (
            strings[0]
            if strings
            else (
                re.search(r"\bword\s+([\w-]+)", ask)
                or re.search(r"\b(?:say|repeat|write)\s+([\w-]+)", ask, re.I)
                or ["", "word"]
            )[1]
        )
        return _joined([word] * int(times[1]), ask if re.search(r"comma|line", ask, re.I) else "spaces")
    found = _SEQUENCE.search(_digits(ask))
    if found and re.search(r"\b(?:count|numbers?|list|integers?|digits)\b", ask, re.I):
        first, last = (int(found[1]), int(found[2])) if found[1] else (1, int(found[3]))
        if 0 <= last - first <= 20000:
            spell = re.search(r"\b(?:in words|as words|spelled|in english|written out)\b", ask, re.I)
            return _joined([_spelled(one) if spell else str(one) for one in range(first, last + 1)], ask)
    listed = _listed(ask)
    if listed:
        return _joined(listed, ask)
    if re.search(r"\balphabet\b|\bletters\b[^.\n]*\ba (?:to|through|-) z\b", ask, re.I):
        letters = [chr(one) for one in range(ord("a"), ord("z") + 1)]
        return _joined([one.upper() for one in letters] if re.search(r"upper|capital", ask, re.I) else letters, ask)
    if "?" in ask or not strings:
        sum_ = _SUM.search(ask)
        if sum_:
            left, right = int(sum_[1]), int(sum_[3])
            sign = sum_[2].lower()
            return str(
                left + right if sign in ("+", "plus") else left - right if sign in ("-", "minus") else left * right
            )
        known = next((value for name, value in _KNOWN.items() if name in ask.lower()), None)
        if known:
            return known
    repeated = _repeated(prompt, ask, strings)
    if repeated is not None:
        return repeated
    if re.search(r"\b(?:which|what) model are you|who are you|your name\b|identify yourself", ask, re.I):
        return f"I am {request.model}."
    if _ASK.search(ask):
        values = recall(ask, _told(request, prompt, ask))
        if values:
            return ", ".join(values)
    if re.search(r"\brandom(?:ly)?\b", ask, re.I):
        chance = number_of(prompt + _salt(request))
        return (
            _NOUNS[chance % len(_NOUNS)]
            if re.search(r"\brandom(?:ly)?\b.*\b(?:word|name)\b", ask, re.I)
            else str(chance)
        )
    if secret(prompt):
        return "Done, I have thought of one."
    if re.search(
        r"\b(?:story|essay|poem|long|paragraphs?|describe|explain|article|letter|report|words|history of|summar)\b",
        ask,
        re.I,
    ):
        amount = re.search(r"(\d+)[- ]words?", ask)
        return prose(min(int(amount[1]), 20000) if amount else 400, prompt)
    if re.search(r"\b(?:remember|note|memori[sz]e|keep in mind)\b", ask, re.I):
        return "Noted."
    said = set(sentences(ask))
    values = recall(ask, [one for one in _told(request, prompt, ask) if one not in said])
    if values:
        return ", ".join(values)
    return "I don't know that." if "?" in ask else "Hello! How can I help you today?"


_CHANCE = itertools.count()


def _salt(request: Request) -> str:
    """Returns what chance depends on: the seed, or else the number of the request, unless the temperature is 0."""
    settings = request.body.get("generationConfig") or request.body
    if settings.get("seed") is not None:
        return f"seed {settings['seed']}"
    return "" if str(settings.get("temperature")) in ("0", "0.0") else f"chance {next(_CHANCE)}"


_LISTS = {
    "days": "Monday Tuesday Wednesday Thursday Friday Saturday Sunday",
    "months": "January February March April May June July August September October November December",
    "planets": "Mercury Venus Earth Mars Jupiter Saturn Uranus Neptune",
}


def _listed(ask: str) -> list[str]:
    """Returns the days, months or planets that are asked for."""
    match = re.search(r"\b(?:write|list|name|say|give)\b[^.\n]{0,40}?\b(days of the week|months|planets)\b", ask, re.I)
    if not match:
        return []
    items = _LISTS[match[1].split()[0].lower()].split()
    return [one.lower() for one in items] if re.search(r"\blower[- ]?case\b", ask, re.I) else items


def _without_results(ask: str) -> str:
    return re.sub(r"\b(?:tool|result|call|returned)\b", " ", ask, flags=re.I)


def _repeated(prompt: str, ask: str, strings: list[str]) -> str | None:
    """Returns the text that the prompt says is to be repeated, if it does."""
    verb = _REPEAT.search(ask)
    if verb is None:
        return None
    whole = announced(prompt)
    if whole is not None:
        return whole
    question = bool(_ASK.search(ask))
    rest = ask[verb.end() :]
    asked = re.search(
        r"\b(?:exactly|only|just|verbatim|back|following|after me|this|word|text|string|with|unchanged)\b",
        rest[:120],
        re.I,
    )
    bare = re.match(
        r"\s+(?:with\s+)?(?:exactly\s+|only\s+|just\s+|back\s+)*(?:the\s+)?(?:single\s+|one\s+)?(?:word|token|string|text|phrase|code)?\s*([A-Z0-9][\w-]*)",
        rest,
    )
    if question and not (asked and (strings or bare)):
        return None
    if strings and (asked or len(strings) == 1):
        after = [value for start, _, value in quoted(ask) if start > verb.start()]
        return after[0] if after else strings[0]
    if len(prompt) > len(ask) or "\n" in prompt or ":" in rest:
        parts = blocks(prompt)
        if parts and asked and not question:
            return parts[0]
    if bare and bare[1].lower() not in _STOP:
        return bare[1]
    noun = re.match(r"\s+(?:with\s+)?(?:the\s+)?(?:single\s+|one\s+)?(?:word|token)\s+([\w-]+)[.!]?(?:\s|$)", rest)
    if noun and noun[1].lower() not in _STOP:
        return noun[1]
    simple = re.match(r"\s+([a-z][\w-]*)[.!]?\s*\Z", rest)
    return simple[1] if simple and simple[1] not in _STOP else None


def _told(request: Request, prompt: str, ask: str, results: bool = True) -> list[str]:
    """Returns every sentence that the model was told or has thought, the newest last."""
    texts: list[str] = []
    for message in request.messages:
        if message.role == "tool" and not results:
            continue
        texts += sentences(message.reasoning or "")
        texts += sentences(message.text)
    imperative = (
        r"(?:what|which|reply|answer|tell|respond|find|now|please|give|list|call|use|then|recall|repeat|once|after|"
    )
    imperative += r"think|pick|choose|write|say|look|get)\b|.*\btell me\b"
    asking = {one for one in sentences(ask) if "?" in one or re.match(imperative, one, re.I)}
    return [one for one in texts if one not in asking]


def reasoning(request: Request, effort: str | None) -> str:
    """Writes the reasoning of an effort; none for None, "none" and "minimal"."""
    lines = {"low": 2, "medium": 5, "high": 12, "xhigh": 18, "max": 24}.get(effort or "", 0)
    if not lines:
        return ""
    prompt, begin = last_prompt(request.messages)
    thought = [] if any(one.reasoning for one in request.messages[begin:]) else [secret(prompt)]
    thought += [
        "The user has written a request, and I read it closely.",
        "I look at the tools and at what was said before.",
    ]
    thought += [f"Check {number}: nothing in the conversation contradicts the answer." for number in range(1, lines)]
    return " ".join([one for one in thought if one][: lines + 1])


def decide(request: Request) -> Answer:
    """Returns what the model wants to say, before any limit."""
    prompt, begin = last_prompt(request.messages)
    if request.tools and request.choice != "none":
        tools = request.tools
        if request.choice.startswith("="):
            tools = tuple(one for one in tools if one.name == request.choice[1:]) or tools[:1]
        made = [call.name for message in request.messages[begin:] for call in message.calls]
        wanted = planned(prompt, tools)
        for name in made:
            used = next((call for call in wanted if call.name == name), None)
            if used:
                wanted.remove(used)
        if not wanted and request.choice != "auto":
            wanted = [call for one in tools[:1] for call in _calls(one, prompt, {tool.name for tool in tools})[:1]]
        results = "\n".join(one.text for one in request.messages[begin:] if one.role == "tool")
        if wanted and made and results:
            tool = next(one for one in tools if one.name == wanted[0].name)
            if re.search(r"\b(?:its|the|that|returned|result|output)\b", prompt, re.I) and "example" in dumps(
                wanted[0].arguments
            ):
                said = json.dumps(value_of(sentences(results)[-1], _keys(prompt)))
                filled = dumps(fill(tool.schema, results, set())).replace('"example"', said)
                wanted[0] = Call(tool.name, loads(filled))
        several = len({call.name for call in wanted}) > 1 and _THEN.search(prompt)
        if wanted and (several or not request.parallel):
            wanted = wanted[:1]
        if wanted:
            before = re.match(
                r"\s*(?:please\s+)?(?:first,?\s+)?(?:write|say|tell)\b[^.\n]*?\b(?:then|before)\b", prompt, re.I
            )
            words = "I will use a tool for this." if before and not made else ""
            return Answer(words, calls=tuple(wanted), finish="tool_calls")
    if request.schema is not None:
        return Answer(text=dumps(_structured(request, prompt)))
    return Answer(text=speak(request))


def _structured(request: Request, prompt: str) -> Json:
    told = "\n".join(
        [one.text for one in request.messages if one.role != "assistant" and one.text != prompt] + [prompt]
    )
    said = _speak(replace(request, schema=None), prompt, prompt[-700:], [])
    if not request.schema:
        keys = re.findall(r"\bkeys?\s+[\"'`](\w+)[\"'`]", prompt)
        return _any_object(prompt) or {keys[0] if keys else "answer": said}
    return fill(request.schema, told if len(told) < 20000 else prompt[-4000:], set(), answer=said)


def limit(request: Request, answer: Answer, count: Any = tokens) -> Answer:
    """Ends an answer at a stop sequence and at the limit of tokens, and counts what is left."""
    text, finish, matched = answer.text, answer.finish, None
    places = sorted((text.find(one), one) for one in request.stop if one and one in text)
    if places:
        text, finish, matched = text[: places[0][0]], "stop_sequence", places[0][1]
    left = request.max_tokens if request.max_tokens is not None else 10**9
    thought = count(answer.reasoning)
    kept_thought = thought[:left]
    left -= len(kept_thought)
    pieces = count(text)
    kept = pieces[:left]
    if len(kept_thought) < len(thought) or len(kept) < len(pieces):
        finish, matched = "length", None
    left -= len(kept)
    used = len(kept_thought) + len(kept)
    calls = []
    for call in answer.calls:
        head, body = 4 + len(count(call.name)), count(call.text)
        if left < head:
            finish = "length"
            break
        left -= head
        used += head + len(body[:left])
        if left < len(body):
            calls.append(replace(call, cut="".join(body[:left])))
            finish = "length"
            break
        left -= len(body)
        calls.append(call)
    usage = Usage(output=used, reasoning=len(kept_thought))
    return replace(
        answer,
        text="".join(kept),
        reasoning="".join(kept_thought),
        calls=tuple(calls),
        finish=finish,
        matched=matched,
        usage=usage,
    )
