"""Compares an endpoint with an endpoint of the company that made the model: sends the same requests to both, and counts
how often the responses match the requests.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from statistics import median
from typing import Any

from streamfold import Reply, Tool, user

from .confidence import CONFIDENCE, interval
from .questions import capped, object_schema
from .sending import ExaminedEndpoint
from .values import Finding, ProbeRequest, ProbeResponse, Verdict

ROUNDS = 5  # how often each request is sent, with other random values each time
_AGREEMENT = 0.9  # the share of requests for which two endpoints of one model should make the same choice
_COUNT_BOUND = 1.1  # the input token counts of one prompt may differ by this factor
_COUNT_SLACK = 8  # and additionally by this number of tokens
_THEME = "reference"
_CITIES = ("Oslo", "Lima", "Nairobi", "Osaka", "Quito", "Turin", "Perth", "Cork")


_TOOLS = (
    Tool(
        "get_weather",
        "Gets the weather of a city.",
        object_schema(city={"type": "string"}, unit={"type": "string", "enum": ["celsius", "fahrenheit"]})
        | {"required": ["city"]},
    ),
    Tool("get_time", "Gets the current time.", object_schema()),
    Tool(
        "create_event",
        "Creates an event in the user's calendar.",
        object_schema(
            title={"type": "string"},
            start=object_schema(hour={"type": "integer"}, minute={"type": "integer"}),
            guests={"type": "array", "items": {"type": "string"}},
        ),
    ),
)


@dataclass(frozen=True, slots=True)
class Share:
    """A proportion: `found` successes in `tries` tries."""

    found: int
    tries: int

    def __str__(self) -> str:
        if not self.tries:
            return "0 of 0"
        low, high = self.bounds
        return f"{self.found} of {self.tries} ({low:.0%} to {high:.0%})"

    @property
    def bounds(self) -> tuple[float, float]:
        """The confidence interval of the true proportion."""
        return interval(self.found, self.tries) if self.tries else (0.0, 1.0)


def requests(seed: int, rounds: int = ROUNDS) -> list[ProbeRequest]:
    """Returns the requests for both endpoints. Some prompts need a tool call, others don't."""
    rng = Random(seed)  # noqa: S311 - the same ones can be sent again
    prompts = []
    for _ in range(rounds):
        first, second = rng.sample(_CITIES, 2)
        hour, left, right = rng.randrange(8, 18), rng.randrange(10, 90), rng.randrange(10, 90)
        prompts += [
            f"What is the weather in {first}?",
            f"Create an event in my calendar: a walk with Grace, at {hour}:15.",
            "What is the current time?",
            f"Create an event in my calendar: lunch with Ada and Alan, at {hour}:30.",
            f"Create an event in my calendar: review of the {second} plans with Edsger, at {hour}:45.",
            f"How much is {left} plus {right}?",
            f"Write one sentence about {first}.",
            "Say hello.",
            "What can your tools do? Don't use them.",
            f"Thank you, that was all for {second}.",
        ]
    return [
        ProbeRequest(f"reference_{number:02}", [user(prompt)], _TOOLS, options=capped(512))
        for number, prompt in enumerate(prompts)
    ]


async def compare_with_reference(
    endpoint: ExaminedEndpoint, reference: ExaminedEndpoint, seed: int, rounds: int = ROUNDS
) -> tuple[list[Finding], list[ProbeResponse]]:
    """Sends the same requests to an endpoint and to the reference endpoint. Returns the findings, and the responses of
    `endpoint`.

    When the budget of one endpoint is used up, the function compares the responses that it has received so far.
    """
    pairs: list[tuple[ProbeResponse, ProbeResponse]] = []
    seen_here: list[ProbeResponse] = []
    for request in requests(seed, rounds):
        if endpoint.over_budget(request) or reference.over_budget(request):
            break
        pair = (await endpoint.ask("reference", request), await reference.ask("reference", request))
        seen_here.append(pair[0])
        if all(seen.fine and seen.reply.finish_reason != "length" for seen in pair):
            pairs.append(pair)
    name = f"{reference.profile.name}:{reference.profile.resolve().model}"
    return [_triggers(pairs, name), _schemas(pairs, name), _counts(pairs, name)], seen_here


def _finding(probe: str, question: str, verdict: Verdict, saw: str, pairs: Sequence[Any]) -> Finding:
    does = f"intervals of {CONFIDENCE:.0%} confidence" if pairs else ""
    return Finding(probe, _THEME, question, verdict, saw, does, answers=tuple(seen.number for seen, _ in pairs))


def _names(reply: Reply) -> set[str]:
    return {call.name for call in reply.tool_calls}


def _triggers(pairs: Sequence[tuple[ProbeResponse, ProbeResponse]], name: str) -> Finding:
    same = Share(sum(_names(seen.reply) == _names(other.reply) for seen, other in pairs), len(pairs))
    verdict: Verdict = "unfaithful" if same.bounds[1] < _AGREEMENT else "ok"
    saw = f"both endpoints called the same tools, or none, for {same} requests"
    if not pairs:
        verdict, saw = "unclear", "both endpoints responded to no request"
    return _finding("reference_triggers", f"Does the model call the same tools as at {name}?", verdict, saw, pairs)


def _schemas(pairs: Sequence[tuple[ProbeResponse, ProbeResponse]], name: str) -> Finding:
    here, there = (_valid([pair[side].reply for pair in pairs]) for side in (0, 1))
    saw = f"the arguments of {here} tool calls match; at the reference, {there}"
    verdict: Verdict = "unfaithful" if here.bounds[1] < there.bounds[0] else "ok"
    if not here.tries or not there.tries:
        verdict = "unclear"
    question = f"Do arguments match their schemas as often as at {name}?"
    return _finding("reference_schemas", question, verdict, saw, pairs)


def _valid(replies: Sequence[Reply]) -> Share:
    schemas = {tool.name: tool.parameters for tool in _TOOLS}
    calls = [call for reply in replies for call in reply.tool_calls]
    fit = [call for call in calls if not call.error and fits(call.arguments, schemas.get(call.name, {"not": {}}))]
    return Share(len(fit), len(calls))


def _counts(pairs: Sequence[tuple[ProbeResponse, ProbeResponse]], name: str) -> Finding:
    counts = [
        (seen.reply.usage.input_tokens, other.reply.usage.input_tokens)
        for seen, other in pairs
        if seen.reply.usage and other.reply.usage and seen.reply.usage.input_tokens and other.reply.usage.input_tokens
    ]
    question = f"Are input token counts the same as at {name}?"
    if not counts:
        return _finding("reference_counts", question, "unclear", "no request has token counts from both endpoints", [])
    near = [max(pair) <= _COUNT_BOUND * min(pair) + _COUNT_SLACK for pair in counts]
    same, ratio = Share(sum(near), len(counts)), median(first / second for first, second in counts)
    verdict: Verdict = "unfaithful" if same.bounds[1] < _AGREEMENT else "ok"
    saw = f"the counts differ by at most {_COUNT_BOUND - 1:.0%} for {same} requests; the median ratio is {ratio:.2f}"
    return _finding("reference_counts", question, verdict, saw, pairs)


_TYPES: dict[str, type | tuple[type, ...]] = {
    "object": dict, "array": list, "string": str, "integer": int, "number": (int, float), "boolean": bool,
}  # fmt: skip


def fits(value: Any, schema: Any) -> bool:
    """Returns whether a value matches a JSON schema. The function supports only the schema keywords of this module's
    tools.

    >>> fits({"city": 1}, _TOOLS[0].parameters)
    False
    """
    if "type" not in schema or not isinstance(value, _TYPES[schema["type"]]):
        return False
    if isinstance(value, bool) != (schema["type"] == "boolean"):
        return False
    if "enum" in schema and value not in schema["enum"]:
        return False
    match value:
        case dict():
            known, required = schema["properties"], schema["required"]
            inside = all(name in known and fits(each, known[name]) for name, each in value.items())
            return inside and set(required) <= value.keys()
        case list():
            return all(fits(each, schema["items"]) for each in value)
    return True
