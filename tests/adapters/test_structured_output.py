"""Answers that fit a model: how they are asked for on each API, how they are read, and their value while they come."""

from __future__ import annotations

import json
from datetime import date
from typing import Annotated, Any, Literal

import httpx
import pytest
from pydantic import BaseModel, ConfigDict, Field, RootModel

from folding import DONE, assert_any_cut, call, chunk, entry, fin, fold, text
from streamfold import (
    AllowedTools,
    ConfigError,
    InvalidReplyError,
    NamedTool,
    Provider,
    Reply,
    Tool,
    system,
    user,
)
from streamfold.adapters import EncodingReport
from streamfold.adapters.anthropic import AnthropicAdapter
from streamfold.adapters.chat import ChatAdapter, ChatQuirks
from streamfold.adapters.gemini import GeminiAdapter
from streamfold.adapters.kimi import KimiAdapter
from streamfold.adapters.responses import ResponsesAdapter, ResponsesQuirks
from streamfold.answers.partial_values import Partial, PartialReader
from streamfold.engine import ToolNameMap
from streamfold.requests.request import Request
from tables import each_row


class City(BaseModel):
    """A city."""

    name: str
    people: int = 0


CLOSED = {
    "description": "A city.",
    "properties": {
        "name": {"title": "Name", "type": "string"},
        "people": {"title": "People", "type": ["integer", "null"]},
    },
    "required": ["name", "people"],
    "title": "City",
    "type": "object",
    "additionalProperties": False,
}


def prepared(adapter: Any, *, messages: Any = "x", tools: Any = None, choice: Any = "auto", wanted: Any = City) -> Any:
    """The body, the prepared request, and the codes of the warnings."""
    asked = Request.read("kimi-k2", messages, tools, choice, {"response_format": wanted})
    request, warnings = adapter.rewrite(asked)
    report = EncodingReport()
    body = adapter.encode(request, report)
    return body, request, [warning.code for warning in (*warnings, *report.warnings())]


# --- asking -----------------------------------------------------------------------------------------------------------


@each_row(
    "wanted",
    [
        {"type": "json_schema", "json_schema": {"name": "City", "schema": CLOSED, "strict": True}},
        {"type": "json_schema", "name": "City", "schema": CLOSED, "strict": True},
        {"format": {"type": "json_schema", "name": "City", "schema": CLOSED, "strict": True}},
        {"type": "json_object", "name": "City", "schema": CLOSED, "strict": True},
    ],
)
def test_by_the_forms_of_other_apis(wanted: Any) -> None:
    """The forms of Chat Completions, Responses and llama.cpp are the same schema, and sent as each API has it."""
    form = {"name": "City", "schema": CLOSED, "strict": True}
    assert prepared(ChatAdapter(), wanted=wanted)[0]["response_format"] == {"type": "json_schema", "json_schema": form}
    assert prepared(ResponsesAdapter(), wanted=wanted)[0]["text"] == {"format": {"type": "json_schema", **form}}
    assert prepared(GeminiAdapter(), wanted=wanted)[0]["generationConfig"]["responseJsonSchema"] == CLOSED


def test_by_schema() -> None:
    """The model's schema: as it is, or closed for the strict mode of servers that have one."""
    body, _, warnings = prepared(ChatAdapter())
    schema = City.model_json_schema()
    assert body["response_format"] == {"type": "json_schema", "json_schema": {"name": "City", "schema": schema}}
    assert warnings == []
    body, _, warnings = prepared(ChatAdapter(ChatQuirks(strict_output=True)))
    assert body["response_format"]["json_schema"] == {"name": "City", "schema": CLOSED, "strict": True}
    assert warnings == []  # closed objects and nulls for defaults change nothing for the caller
    body, _, warnings = prepared(ResponsesAdapter())
    assert body["text"]["format"] == {"type": "json_schema", "name": "City", "schema": CLOSED, "strict": True}
    assert warnings == []
    body, _, warnings = prepared(ResponsesAdapter(ResponsesQuirks(strict_output=False)))
    assert body["text"]["format"] == {"type": "json_schema", "name": "City", "schema": schema}
    body, _, warnings = prepared(KimiAdapter())
    assert (body["response_format"]["json_schema"], warnings) == ({"name": "City", "schema": schema}, [])


class Prices(BaseModel):
    by_name: dict[str, float]


def test_what_strict_mode_can_not_say() -> None:
    """The schema is sent without it, and the reply says why. A schema that the caller wrote is not touched."""
    request, warnings = ResponsesAdapter().rewrite(Request.read("m", "x", None, "auto", {"response_format": Prices}))
    written = ResponsesAdapter().encode(request, EncodingReport())["text"]["format"]
    assert (written["schema"], written["strict"]) == (Prices.model_json_schema(), False)
    (warning,) = warnings
    assert warning.detail.startswith(
        "Prices: response_format: strict mode is not requested (response_format.properties"
    )
    own = {"type": "object", "properties": {"a": {"default": 1}}}
    body, _, codes = prepared(ResponsesAdapter(), wanted=own)
    assert (body["text"]["format"], codes) == ({"type": "json_schema", "name": "answer", "schema": own}, [])


class Page(BaseModel, extra="forbid"):
    model_config = ConfigDict(title="Page[City]")


Page.__name__ = "Page[City]"


def test_names_of_models() -> None:
    """OpenAI takes letters, digits, `_` and `-` for the name of a schema."""
    assert prepared(ChatAdapter(), wanted=Page)[0]["response_format"]["json_schema"]["name"] == "Page_City"


@pytest.mark.parametrize(
    ("messages", "written"),
    [
        ("x", [("system", "{}"), ("user", "x")]),
        ([system("Be brief."), user("x")], [("system", "Be brief.\n\n{}"), ("user", "x")]),
        ([{"role": "developer", "content": "B."}, user("x")], [("developer", "B.\n\n{}"), ("user", "x")]),
    ],
)
def test_by_instruction(messages: Any, written: list[tuple[str, str]]) -> None:
    """JSON mode with the schema in words, in the one system message that there is."""
    body, _, warnings = prepared(ChatAdapter(ChatQuirks(response_format="json_object")), messages=messages)
    schema = json.dumps(City.model_json_schema())
    said = f"Answer with one JSON object that fits this JSON schema, and with nothing else:\n{schema}"
    assert [(message["role"], message["content"]) for message in body["messages"]] == [
        (role, content.replace("{}", said)) for role, content in written
    ]
    assert (body["response_format"], warnings) == ({"type": "json_object"}, ["response_format_changed"])


def test_any_json_needs_no_schema() -> None:
    """`"json"` is JSON mode, whatever the server can do with schemas."""
    for mode in ("json_schema", "json_object", "tool"):
        body, _, warnings = prepared(ChatAdapter(ChatQuirks(response_format=mode)), wanted="json")  # type: ignore[arg-type]
        assert (body["response_format"], len(body["messages"]), warnings) == ({"type": "json_object"}, 1, [])


BY_TOOL = ChatAdapter(ChatQuirks(response_format="tool"))
OTHER = Tool("look")


@each_row(
    ("tools", "choice", "sent", "sent_choice"),
    [
        (None, "auto", ["City"], {"type": "function", "function": {"name": "City"}}),
        ([OTHER], "auto", ["look", "City"], "required"),
        ([OTHER], "required", ["look", "City"], "required"),
        ([OTHER], "none", ["City"], {"type": "function", "function": {"name": "City"}}),
        ([OTHER], NamedTool("look"), ["look", "City"], {"type": "function", "function": {"name": "look"}}),
        ([Tool("City")], "auto", ["City", "final_answer"], "required"),
    ],
)
def test_by_tool(tools: Any, choice: Any, sent: list[str], sent_choice: Any) -> None:
    """A tool that must be called; beside other tools the model may call those first (J10)."""
    body, request, warnings = prepared(BY_TOOL, tools=tools, choice=choice)
    assert [tool["function"]["name"] for tool in body["tools"]] == sent
    assert body["tools"][-1]["function"]["parameters"] == City.model_json_schema()
    assert (body["tool_choice"], request.answer_tool) == (sent_choice, sent[-1])
    assert ("response_format" in body, warnings) == (False, ["response_format_changed"])


def test_by_tool_among_allowed_ones() -> None:
    knows_it = ChatAdapter(ChatQuirks(response_format="tool", allowed_tools=True))
    _, request, _ = prepared(knows_it, tools=[OTHER, Tool("b")], choice=AllowedTools(("b",)))
    assert request.tool_choice == AllowedTools(("b", "City"), "required")
    _, request, _ = prepared(BY_TOOL, tools=[OTHER, Tool("b")], choice=AllowedTools(("b",)))
    assert ([tool.name for tool in request.tools], request.tool_choice) == (["b", "City"], "required")


# --- reading ----------------------------------------------------------------------------------------------------------

OSLO = '{"name": "Oslo", "people": 717710}'
ANSWER = {"tools": [Tool("City"), OTHER], "tool_choice": NamedTool("City"), "names": ToolNameMap(answer="City")}


def test_the_arguments_are_the_answer() -> None:
    """They are the text, at the end; no call is handed out, and the finish reason is that of a text."""
    reply = assert_any_cut(call(entry(0, "i", "City", OSLO)) + fin("tool_calls") + DONE, **ANSWER)
    assert (reply.text, reply.tool_calls, reply.finish_reason, reply.warnings) == (OSLO, [], "stop", [])
    assert reply.parse_as(City) == City(name="Oslo", people=717710)
    assert (reply.message.content, reply.message.tool_calls) == (OSLO, ())


def test_words_before_the_answer() -> None:
    """They are text too; what is parsed is the answer."""
    reply = fold(text("Here: ") + call(entry(0, "i", "City", OSLO)) + fin("stop") + DONE, **ANSWER)
    assert (reply.text, reply.parse_as(City).name, reply.finish_reason) == ("Here: " + OSLO, "Oslo", "stop")


def test_other_calls_beside_the_answer() -> None:
    """They are calls like any other."""
    stream = chunk({"tool_calls": [entry(0, "i", "look", "{}"), entry(1, "j", "City", OSLO)]}, "tool_calls")
    reply = fold(stream + DONE, **{**ANSWER, "tool_choice": "required"})
    assert ([made.name for made in reply.tool_calls], reply.text, reply.finish_reason) == (["look"], OSLO, "tool_calls")
    assert reply.warnings == []


def test_an_answer_given_twice() -> None:
    stream = chunk({"tool_calls": [entry(0, "i", "City", OSLO), entry(1, "j", "City", "{}")]}, "tool_calls")
    reply = fold(stream + DONE, **ANSWER)
    assert (reply.text, [warning.code for warning in reply.warnings]) == (OSLO, ["calls_dropped"])


def test_an_answer_that_was_cut_off() -> None:
    """As with any text, what there is of it is shown, and the finish reason says so."""
    reply = fold(call(entry(0, "i", "City", OSLO[:12])) + fin("length") + DONE, **ANSWER)
    assert (reply.text, reply.finish_reason) == (OSLO[:12], "length")
    with pytest.raises(InvalidReplyError, match=r"match City: the answer was truncated \(finish reason 'length'\)"):
        reply.parse_as(City)


def test_an_answer_in_words() -> None:
    """A model that does not call the tool has not met the demand; its text is the text."""
    reply = fold(text(OSLO) + fin("stop") + DONE, **ANSWER)
    assert (reply.parse_as(City).name, [warning.code for warning in reply.warnings]) == ("Oslo", ["tool_choice_unmet"])


@each_row(
    "said",
    [OSLO, f" \n{OSLO}\n", f"```json\n{OSLO}\n```", f"```\n{OSLO}\n```\n", '{"name": "Oslo", "people": "717710"}'],
)
def test_parse_as(said: str) -> None:
    """JSON with blanks or a code fence around it."""
    assert Reply(said).parse_as(City) == City(name="Oslo", people=717710)


@each_row(
    ("reply", "message"),
    [
        (Reply('{"people": 1}'), "the answer does not match City: name: Field required. It was: '{\"people\": 1}'"),
        (Reply("[]"), "the answer does not match City: the answer: Input should be an object. It was: '[]'"),
        (Reply("Oslo!"), "the answer does not match City: the text is not JSON"),
        (Reply(""), "the answer does not match City: the text is not JSON"),
        (Reply(f"Here: {OSLO}"), "the answer does not match City: the text is not JSON"),
        (Reply('{"name": NaN}'), "the answer does not match City: the text is not JSON"),
        (Reply("", refusal="I can't."), "the model refused to answer as City: I can't."),
        (Reply("x" * 1000), "..."),
    ],
    ids=["field", "list", "words", "nothing", "both", "nan", "refusal", "long"],
)
def test_answers_that_do_not_fit(reply: Reply, message: str) -> None:
    """The error says why, shows the text, and has the reply; it is a ValueError too."""
    with pytest.raises(InvalidReplyError) as caught:
        reply.parse_as(City)
    assert message in str(caught.value)
    assert len(str(caught.value)) < 700
    assert caught.value.reply is reply
    assert isinstance(caught.value, ValueError)


# --- while it comes ---------------------------------------------------------------------------------------------------


class Step(BaseModel):
    title: str
    minutes: Annotated[int, Field(ge=5)]


class Recipe(BaseModel):
    name: Annotated[str, Field(min_length=3, alias="recipeName")]
    day: date
    kind: Literal["sweet", "sour"] | None = None
    steps: list[Step]
    tags: set[str] = set()
    notes: dict[str, int] = {}
    parts: list[Recipe] = []
    pair: tuple[int, int] = (0, 0)
    vegan: bool = False


CAKE = {
    "recipeName": "Cake", "day": "2024-01-02", "kind": "sweet",
    "steps": [{"title": "Mix 2 eggs", "minutes": 15}, {"title": "Bake", "minutes": 40}],
    "tags": ["a", "b"], "notes": {"x": 12}, "parts": [{"recipeName": "Icing", "steps": []}],
    "pair": [1, 20], "vegan": True,
}  # fmt: skip


def partials(said: str, model: type[BaseModel] = Recipe) -> list[Partial[Any] | None]:
    reader = PartialReader(model)
    return [reader.read(at, lambda at=at: said[:at]) for at in range(len(said) + 1)]  # type: ignore[misc]


def test_partial_values() -> None:
    """Texts grow; a date, a choice, a number come when they are whole; limits and validators are not asked."""
    seen: dict[str, list[Any]] = {"name": [], "day": [], "kind": [], "pair": []}
    minutes: list[Any] = []
    for value in partials(json.dumps(CAKE)):
        for field, values in seen.items():
            now = getattr(value, field) if value else None
            if not values or values[-1] != now:
                values.append(now)
        for step in (value and value.steps) or ():
            if step.minutes not in minutes:
                minutes.append(step.minutes)
    assert seen == {
        "name": [None, "", "C", "Ca", "Cak", "Cake"],
        "day": [None, date(2024, 1, 2)],
        "kind": [None, "sweet"],
        "pair": [None, (1, 20)],
    }
    assert minutes == [None, 15, 40]
    last = partials(json.dumps(CAKE))[-1]
    assert last is not None
    assert (last.steps[1].title, last.tags, last.notes, last.parts[0].name) == ("Bake", ["a", "b"], {"x": 12}, "Icing")
    assert (last.parts[0].day, last.vegan, last.model_dump()["pair"]) == (None, True, (1, 20))


@each_row(
    ("said", "values"),
    [
        ("", [None]),
        ("So, Oslo", [None]),
        ("[1", [None]),
        ('```json\n{"name": "A"}\n```', [None, ("A", None)]),
        ('{"name": "Os\\u00e9', [None, ("Osé", None)]),
        ('{"people": 12, "name": null', [None, (None, 12)]),
        ('{"people": -1', [None, (None, None)]),
    ],
)
def test_partial_texts(said: str, values: list[Any]) -> None:
    """What is no JSON object, or not yet, has no value; a fence and an open number don't show."""
    made = [(value.name, value.people) if value else None for value in partials(said, City)]
    assert (made[0], made[-1]) == (values[0], values[-1])


def test_partial_of_a_root_model() -> None:
    with pytest.raises(ConfigError, match="RootModel"):
        PartialReader(RootModel[list[int]])


def test_partial_looks_like_its_value() -> None:
    one, two = partials('{"name": "A"}', City)[-1], partials('{"name":"A"', City)[-1]
    assert (one == two, one == 1, repr(one)) == (True, False, "PartialCity(name='A', people=None)")
    with pytest.raises(AttributeError):
        _ = one.nobody  # type: ignore[union-attr]
    with pytest.raises(AttributeError):
        _ = one._private  # type: ignore[union-attr]


def test_partial_is_parsed_a_bounded_number_of_times() -> None:
    """A long text is parsed when it has grown by a thirty-second part: linear cost, however often one asks."""
    said = '{"name": "' + "x" * 400_000
    parsed: list[int] = []
    reader = PartialReader(City)
    for size in range(0, len(said), 4):

        def give(size: int = size) -> str:
            parsed.append(size)
            return said[:size]

        reader.read(size, give)
        assert size - parsed[-1] <= size / 32 if size else True
    assert sum(size for size in parsed if size > 4096) < 34 * len(said)
    whole = reader.read(len(said), lambda: said, whole=True)
    assert whole is not None
    assert len(whole.name) == 400_000
    assert reader.read(len(said), lambda: "not asked again", whole=True) is whole


async def test_partial_of_a_stream() -> None:
    """After each chunk the value so far; at the end the reply parses to the model."""
    body = b"".join(chunk({"content": OSLO[at : at + 5]}) for at in range(0, len(OSLO), 5)) + fin("stop") + DONE
    client = httpx.AsyncClient(transport=httpx.MockTransport(lambda request: httpx.Response(200, content=body)))
    provider = Provider.from_config({"base_url": "http://test/v1", "model": "m"}, http_client=client)
    names, people = [], []
    async with provider.chat_stream("x", response_format=City, coalesce=False) as stream:
        assert stream.partial(City) is None
        async for _ in stream:
            if value := stream.partial(City):
                names.append(value.name)
                people.append(value.people)
    assert (names[:4], names[-1], people[0], people[-1]) == ([None, "", "Oslo", "Oslo"], "Oslo", None, 717710)
    assert set(people) == {None, 717710}
    assert stream.reply.parse_as(City) == City(name="Oslo", people=717710)


async def test_partial_of_an_answer_by_tool() -> None:
    """It comes in one piece, at the end; what was said before it is no part of it."""
    body = text("Here: ") + call(entry(0, "i", "City", OSLO)) + fin("tool_calls") + DONE
    client = httpx.AsyncClient(transport=httpx.MockTransport(lambda request: httpx.Response(200, content=body)))
    config = {"base_url": "http://test/v1", "model": "m", "quirks": {"response_format": "tool"}}
    async with Provider.from_config(config, http_client=client).chat_stream("x", response_format=City) as stream:
        values = [stream.partial(City) async for _ in stream]
    assert (values[0], values[-1] and values[-1].people) == (None, 717710)
    assert [warning.code for warning in stream.reply.warnings] == ["response_format_changed"]


PLAIN = {"type": "object", "properties": {}, "additionalProperties": False, "required": []}
FORM = {
    "type": "json_schema",
    "json_schema": {"name": "river", "description": "One river.", "schema": PLAIN, "strict": True},
}
DESCRIBED = {**PLAIN, "description": "One river."}


@each_row(
    ("adapter", "place", "expected", "details"),
    [
        (ChatAdapter(), ["response_format"], FORM, []),
        (ResponsesAdapter(), ["text", "format"], {"type": "json_schema", **FORM["json_schema"]}, []),  # type: ignore[dict-item]
        (AnthropicAdapter(), ["output_config", "format", "schema", "description"], "One river.",
         ["river: the name is not sent; the description is sent inside the schema"]),
        (GeminiAdapter(), ["generationConfig", "responseJsonSchema"], DESCRIBED,
         ["river: the name is not sent; the description is sent inside the schema"]),
        (ChatAdapter(ChatQuirks(response_format="tool")), ["tools", 0, "function"],
         {"name": "river", "description": "Gives the final answer, in this form. One river.", "parameters": PLAIN},
         ["river: sent as the tool river, which the model must call"]),
    ],
    ids=["chat", "responses", "anthropic", "gemini", "tool"],
)  # fmt: skip
def test_name_and_description_of_a_form(adapter: Any, place: list[Any], expected: Any, details: list[str]) -> None:
    """They are sent where the API has them; elsewhere a warning says what became of them."""
    request, warnings = adapter.rewrite(Request.read("m", "x", None, "auto", {"response_format": FORM}))
    found = adapter.encode(request, EncodingReport())
    for step in place:
        found = found[step]
    said = [one.detail for one in warnings if one.code == "response_format_changed"]
    assert (found, said) == (expected, details)


def test_a_description_in_an_instruction() -> None:
    """A server without schemas reads it before the schema."""
    adapter = ChatAdapter(ChatQuirks(response_format="json_object"))
    request, _ = adapter.rewrite(Request.read("m", "x", None, "auto", {"response_format": FORM}))
    assert adapter.encode(request, EncodingReport())["messages"][0]["content"].startswith(
        "One river.\n\nAnswer with one JSON object"
    )
