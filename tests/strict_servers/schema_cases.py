"""Sixty schemas as programs have them: pydantic models, and JSON schemas of MCP servers.

Each has values that it accepts and values that it doesn't, to see whether a schema that was sent means the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from enum import Enum, IntEnum
from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field, HttpUrl, RootModel


@dataclass(frozen=True)
class Case:
    """A schema, as a model or as a dict, with values that fit and values that don't."""

    name: str
    given: Mapping[str, Any] | type[BaseModel]
    fits: Sequence[Any]
    others: Sequence[Any] = ()

    @property
    def schema(self) -> Mapping[str, Any]:
        """The JSON schema."""
        return self.given if isinstance(self.given, Mapping) else self.given.model_json_schema()


class Plain(BaseModel):
    """A person."""

    name: str
    age: int


class Optional_(BaseModel):
    name: str
    nick: str | None = None
    tags: list[str] = Field(default_factory=list)


class Address(BaseModel):
    """Where somebody lives."""

    street: str
    city: str = Field(description="The town")


class Nested(BaseModel):
    home: Address = Field(description="Where letters go")
    work: Address | None = None
    others: list[Address]


class Bounded(BaseModel):
    age: int = Field(ge=0, le=120)
    share: float = Field(gt=0, lt=1)
    name: str = Field(min_length=2, max_length=20)
    code: str = Field(pattern=r"^[A-Z]{3}$")
    tags: list[str] = Field(min_length=1, max_length=3)


class Color(Enum):
    RED = "red"
    BLUE = "blue"


class Level(IntEnum):
    LOW = 1
    HIGH = 2


class Enums(BaseModel):
    color: Color
    level: Level
    kind: Literal["a", "b"]
    one: Literal["only"]


class Tree(BaseModel):
    value: int
    children: list[Tree] = []


class Chain(BaseModel):
    value: int
    next: Chain | None = None


class Cat(BaseModel):
    kind: Literal["cat"]
    lives: int


class Dog(BaseModel):
    kind: Literal["dog"]
    breed: str


class Discriminated(BaseModel):
    pet: Annotated[Cat | Dog, Field(discriminator="kind")]


class Union_(BaseModel):
    value: int | str | list[int]


class Maps(BaseModel):
    counts: dict[str, int]


class MapOfModels(BaseModel):
    people: dict[str, Plain]


class AnyMap(BaseModel):
    data: dict[str, Any]


class Anything(BaseModel):
    value: Any


class Tuple_(BaseModel):
    point: tuple[float, float]


class Formats(BaseModel):
    born: date
    seen: datetime
    id: UUID
    price: Decimal


class Mail(BaseModel):
    address: str = Field(json_schema_extra={"format": "email"})
    page: HttpUrl


class Open(BaseModel):
    model_config = ConfigDict(extra="allow")
    name: str


class Closed(BaseModel):
    model_config = ConfigDict(extra="forbid")
    name: str


class Aliased(BaseModel):
    type_: str = Field(alias="@type")
    from_: str = Field(alias="from user")


class Sets(BaseModel):
    tags: set[str]


class Defaults(BaseModel):
    unit: Literal["c", "f"] = "c"
    limit: int = 10
    where: Address = Address(street="x", city="y")


class Deep(BaseModel):
    class Inner(BaseModel):
        class Core(BaseModel):
            values: list[list[int]]

        core: Core

    inner: Inner


class Empty(BaseModel):
    pass


class People(RootModel[list[Plain]]):
    pass


class Wide(BaseModel):
    """Thirty optional properties."""

    a1: int | None = None
    a2: int | None = None
    a3: int | None = None
    a4: int | None = None
    a5: int | None = None
    a6: int | None = None
    a7: int | None = None
    a8: int | None = None
    a9: int | None = None
    b1: str | None = None
    b2: str | None = None
    b3: str | None = None
    b4: str | None = None
    b5: str | None = None
    b6: str | None = None
    b7: str | None = None
    b8: str | None = None
    b9: str | None = None
    c1: bool | None = None
    c2: bool | None = None
    c3: bool | None = None
    c4: bool | None = None
    c5: bool | None = None
    c6: bool | None = None
    c7: bool | None = None
    c8: bool | None = None
    c9: bool | None = None
    d1: float | None = None
    d2: float | None = None
    d3: float | None = None


def _object(required: Sequence[str] = (), **properties: Any) -> dict[str, Any]:
    made: dict[str, Any] = {"type": "object", "properties": properties}
    return made | {"required": list(required)} if required else made


S, WHOLE = {"type": "string"}, {"type": "integer"}
ADDRESS = {"street": "Elm 1", "city": "Oslo"}
ANN = {"name": "Ann", "age": 3}

CASES = [
    Case("plain model", Plain, [ANN], [{"name": "Ann"}, {"name": "Ann", "age": "x"}]),
    Case("optional members", Optional_, [{"name": "A"}, {"name": "A", "nick": "B", "tags": ["c"]}], [{"nick": "B"}]),
    Case(
        "nested models with descriptions",
        Nested,
        [{"home": ADDRESS, "others": []}, {"home": ADDRESS, "work": ADDRESS, "others": [ADDRESS]}],
        [{"home": {}, "others": []}],
    ),
    Case(
        "bounds",
        Bounded,
        [{"age": 3, "share": 0.5, "name": "Ann", "code": "ABC", "tags": ["a"]}],
        [
            {"age": 200, "share": 0.5, "name": "Ann", "code": "ABC", "tags": ["a"]},
            {"age": 3, "share": 0.5, "name": "Ann", "code": "abc", "tags": []},
        ],
    ),
    Case(
        "enums and literals",
        Enums,
        [{"color": "red", "level": 2, "kind": "a", "one": "only"}],
        [
            {"color": "green", "level": 2, "kind": "a", "one": "only"},
            {"color": "red", "level": 3, "kind": "a", "one": "only"},
        ],
    ),
    Case(
        "recursive tree",
        Tree,
        [{"value": 1}, {"value": 1, "children": [{"value": 2, "children": []}]}],
        [{"value": 1, "children": [{"value": "x"}]}],
    ),
    Case(
        "recursive chain",
        Chain,
        [{"value": 1, "next": {"value": 2, "next": None}}],
        [{"value": 1, "next": {"value": "x", "next": None}}],
    ),
    Case(
        "discriminated union",
        Discriminated,
        [{"pet": {"kind": "cat", "lives": 9}}, {"pet": {"kind": "dog", "breed": "pug"}}],
        [{"pet": {"kind": "cow", "lives": 1}}],
    ),
    Case("union of types", Union_, [{"value": 1}, {"value": "a"}, {"value": [1]}], [{"value": {"a": 1}}]),
    Case("map of numbers", Maps, [{"counts": {}}, {"counts": {"a": 1}}], [{"counts": {"a": "x"}}]),
    Case("map of models", MapOfModels, [{"people": {"a": ANN}}], [{"people": {"a": {"name": 1}}}]),
    Case("map of anything", AnyMap, [{"data": {"a": [1, {"b": None}]}}], [{"data": 1}]),
    Case("anything", Anything, [{"value": 1}, {"value": {"a": [None]}}], [{}]),
    Case("tuple", Tuple_, [{"point": [1.0, 2.5]}], [{"point": [1.0]}, {"point": ["a", "b"]}]),
    Case(
        "dates, uuid, decimal",
        Formats,
        [
            {
                "born": "2026-11-29",
                "seen": "2026-11-29T10:00:00Z",
                "id": "7b1f3c2e-8a4d-4f6b-9c0d-000000000001",
                "price": "1.50",
            }
        ],
        [{"born": 5, "seen": "2026-11-29T10:00:00Z", "id": "7b1f3c2e-8a4d-4f6b-9c0d-000000000001", "price": "1.50"}],
    ),
    Case(
        "mail and address",
        Mail,
        [{"address": "a@example.com", "page": "https://example.com/"}],
        [{"address": 1, "page": "https://example.com/"}],
    ),
    Case("open model", Open, [{"name": "A"}, {"name": "A", "more": 1}], [{"more": 1}]),
    Case("closed model", Closed, [{"name": "A"}], [{"name": "A", "more": 1}]),
    Case("aliases with odd characters", Aliased, [{"@type": "a", "from user": "b"}], [{"@type": "a"}]),
    Case("set", Sets, [{"tags": ["a", "b"]}], [{"tags": ["a", "a"]}]),
    Case("defaults", Defaults, [{}, {"unit": "f", "limit": 3, "where": ADDRESS}], [{"unit": "k"}]),
    Case("deep lists", Deep, [{"inner": {"core": {"values": [[1, 2], []]}}}], [{"inner": {"core": {"values": [1]}}}]),
    Case("empty model", Empty, [{}]),
    Case("list at the root", People, [[ANN], []], [[{"name": "Ann"}]]),
    Case("thirty optional members", Wide, [{}, {"a1": 1, "d3": 1.5}], [{"a1": "x"}]),
    Case("no schema", {}, [{}]),
    Case("object without properties", {"type": "object"}, [{}, {"a": 1}], [1]),
    Case("object with empty properties", {"type": "object", "properties": {}}, [{}], [[]]),
    Case(
        "properties without a type",
        {"properties": {"query": S}, "required": ["query"]},
        [{"query": "a"}],
        [{"query": 1}],
    ),
    Case(
        "with $schema and title",
        {
            "$schema": "http://json-schema.org/draft-07/schema#",
            "title": "Search",
            **_object(["q"], q=S),
            "additionalProperties": False,
        },
        [{"q": "a"}],
        [{"q": "a", "b": 1}],
    ),
    Case(
        "property without a type",
        _object(["mode"], mode={"description": "The mode"}),
        [{"mode": "a"}, {"mode": 1}],
        [{}],
    ),
    Case("property that is anything", _object(x=True, y={}), [{}, {"x": 1, "y": "a"}]),
    Case(
        "nullable by a list of types",
        _object(["a"], a={"type": ["string", "null"]}),
        [{"a": None}, {"a": "x"}],
        [{"a": 1}],
    ),
    Case(
        "list of types with items",
        _object(["a"], a={"type": ["array", "string"], "items": S}),
        [{"a": ["x"]}, {"a": "x"}],
        [{"a": [1]}, {"a": 1}],
    ),
    Case(
        "type beside anyOf",
        _object(
            ["a"],
            a={"type": "object", "anyOf": [{"required": ["x"]}, {"required": ["y"]}], "properties": {"x": S, "y": S}},
        ),
        [{"a": {"x": "1"}}],
        [{"a": {}}],
    ),
    Case(
        "anyOf of required at the root",
        {**_object(code=S, year=WHOLE), "anyOf": [{"required": ["code"]}, {"required": ["year"]}]},
        [{"code": "a"}, {"year": 1}],
        [{}],
    ),
    Case(
        "oneOf at the root",
        {"type": "object", "oneOf": [_object(["a"], a=S), _object(["b"], b=WHOLE)]},
        [{"a": "x"}, {"b": 1}],
        [{"a": "x", "b": 1}],
    ),
    Case(
        "allOf at the root",
        {"type": "object", "allOf": [_object(["a"], a=S), _object(["b"], b=WHOLE)]},
        [{"a": "x", "b": 1}],
        [{"a": "x"}],
    ),
    Case("oneOf of types", _object(["v"], v={"oneOf": [S, WHOLE]}), [{"v": "a"}, {"v": 1}], [{"v": None}]),
    Case(
        "allOf of one reference",
        {
            **_object(["p"], p={"allOf": [{"$ref": "#/$defs/P"}], "description": "The person"}),
            "$defs": {"P": _object(["name"], name=S)},
        },
        [{"p": {"name": "A"}}],
        [{"p": {}}],
    ),
    Case(
        "reference beside a description",
        {
            **_object(["p"], p={"$ref": "#/$defs/P", "description": "The person"}),
            "$defs": {"P": {**_object(["name"], name=S), "description": "Anybody"}},
        },
        [{"p": {"name": "A"}}],
        [{"p": {}}],
    ),
    Case(
        "definitions of draft 7",
        {**_object(["p"], p={"$ref": "#/definitions/P"}), "definitions": {"P": _object(["name"], name=S)}},
        [{"p": {"name": "A"}}],
        [{"p": {}}],
    ),
    Case("root reference", {"$ref": "#/$defs/Q", "$defs": {"Q": _object(["q"], q=S)}}, [{"q": "a"}], [{}]),
    Case(
        "reference to the root",
        _object(["name"], name=S, child={"$ref": "#"}),
        [{"name": "a", "child": {"name": "b"}}],
        [{"name": "a", "child": {}}],
    ),
    Case(
        "reference into properties",
        _object(["a", "b"], a=_object(["x"], x=WHOLE), b={"$ref": "#/properties/a"}),
        [{"a": {"x": 1}, "b": {"x": 2}}],
        [{"a": {"x": 1}, "b": {}}],
    ),
    Case("array without items", _object(["rows"], rows={"type": "array"}), [{"rows": [1, "a"]}], [{"rows": "a"}]),
    Case(
        "array of open objects",
        _object(["rows"], rows={"type": "array", "items": {"type": "object"}}),
        [{"rows": [{"a": 1}]}],
        [{"rows": [1]}],
    ),
    Case(
        "map with additionalProperties true",
        _object(["meta"], meta={"type": "object", "additionalProperties": True}),
        [{"meta": {"a": 1}}],
        [{"meta": 1}],
    ),
    Case(
        "headers",
        _object(
            ["url"], url={"type": "string", "format": "uri"}, headers={"type": "object", "additionalProperties": S}
        ),
        [{"url": "https://a.example", "headers": {"x": "1"}}],
        [{"url": "https://a.example", "headers": {"x": 1}}],
    ),
    Case(
        "pattern properties",
        _object(env={"type": "object", "patternProperties": {"^[A-Z_]+$": S}, "additionalProperties": False}),
        [{"env": {"A_B": "x"}}],
        [{"env": {"a": "x"}}, {"env": {"A": 1}}],
    ),
    Case(
        "pattern without anchors",
        _object(["id"], id={"type": "string", "pattern": "[0-9]{3}"}),
        [{"id": "a123"}],
        [{"id": "ab"}],
    ),
    Case(
        "pattern with lookahead",
        _object(["pw"], pw={"type": "string", "pattern": "^(?=.*[0-9])[a-z0-9]+$"}),
        [{"pw": "a1"}],
        [{"pw": "ab"}],
    ),
    Case(
        "const and not",
        _object(["v", "w"], v={"const": 2}, w={"type": "string", "not": {"const": "x"}}),
        [{"v": 2, "w": "a"}],
        [{"v": 3, "w": "a"}, {"v": 2, "w": "x"}],
    ),
    Case(
        "if, then, else",
        {
            **_object(["kind"], kind=S, size=WHOLE),
            "if": {"properties": {"kind": {"const": "box"}}},
            "then": {"required": ["size"]},
        },
        [{"kind": "bag"}, {"kind": "box", "size": 1}],
        [{"kind": "box"}],
    ),
    Case(
        "enum of several types",
        _object(["v"], v={"enum": ["auto", 1, None, True]}),
        [{"v": "auto"}, {"v": None}, {"v": 1}],
        [{"v": "x"}],
    ),
    Case("enum of objects", _object(["v"], v={"enum": [{"a": 1}, {"a": 2}]}), [{"v": {"a": 1}}], [{"v": {"a": 3}}]),
    Case(
        "required that is unknown", {**_object(a=S), "required": ["a", "ghost"]}, [{"a": "x", "ghost": 1}], [{"a": "x"}]
    ),
    Case(
        "dependent members",
        {**_object(a=S, b=S), "dependentRequired": {"a": ["b"]}},
        [{"b": "x"}, {"a": "x", "b": "y"}],
        [{"a": "x"}],
    ),
    Case(
        "exclusive bounds and multiples",
        _object(["n", "m"], n={"type": "number", "exclusiveMinimum": 0}, m={"type": "integer", "multipleOf": 5}),
        [{"n": 0.5, "m": 10}],
        [{"n": 0, "m": 10}, {"n": 1, "m": 3}],
    ),
    Case(
        "seven levels",
        _object(["a"], a=_object(["b"], b=_object(["c"], c=_object(["d"], d=_object(["e"], e=_object(["f"], f=S)))))),
        [{"a": {"b": {"c": {"d": {"e": {"f": "x"}}}}}}],
        [{"a": {"b": {"c": {}}}}],
    ),
]
