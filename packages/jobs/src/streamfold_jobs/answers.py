"""Converts the answers of a job to JSON and to table columns, and adds up their usage and cost."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import date as Date
from decimal import Decimal
from typing import Any

from streamfold import APIError, ConfigError, Cost, Reply, ReplyWarning, ToolCall, Usage
from streamfold.types import CostSource, FixedPricing

_COUNTS = tuple(member.name for member in fields(Usage) if member.name not in ("raw", "steps"))


@dataclass(frozen=True, slots=True)
class Answer:
    """The model's answer to one row, or the error that the row ended with.

    Attributes:
        id: the id of the row.
        number: the position of the row in the job, from 0.
        members: the answer's text, reasoning, tool calls, finish reason, model, request id, usage, cost and warnings,
            as JSON data; None for an error.
        error: `type` and `message` of the error; None for an answer.
        tries: the number of times that the job sent the row.
        seconds: the duration of the last try.
    """

    id: str
    number: int
    members: Mapping[str, Any] | None = None
    error: Mapping[str, Any] | None = None
    tries: int = 1
    seconds: float = 0.0

    @property
    def text(self) -> str:
        """The text of the answer; empty if the row ended with an error."""
        return str(self.members["text"]) if self.members else ""

    @property
    def reply(self) -> Reply | None:
        """The answer as a Reply, rebuilt from `members`; None if the row ended with an error. Use the Reply's
        `parse_as` for structured output.
        """
        found = self.members
        if found is None:
            return None
        cost = self.cost
        return Reply(
            text=self.text,
            reasoning=found.get("reasoning") or "",
            refusal=found.get("refusal"),
            tool_calls=[_call(call) for call in found.get("tool_calls") or ()],
            finish_reason=found.get("finish_reason") or "unknown",
            usage=None if found.get("usage") is None else self.usage,
            warnings=[ReplyWarning(said["code"], said["detail"]) for said in found.get("warnings") or ()],
            model=found.get("model"),
            request_id=found.get("request_id"),
            pricing=None if cost is None else FixedPricing(cost),
        )

    @property
    def usage(self) -> Usage:
        """The token counts of the answer. A count is None if the server didn't send it. An answer that the job's
        `check` function rejected has token counts too.
        """
        return _read_usage(self._spent("usage") or {})

    @property
    def cost(self) -> Cost | None:
        """The cost of the answer; None if it is unknown. An answer that the job's `check` function rejected has a cost
        too.
        """
        members = self._spent("cost")
        return read_cost(**members) if members else None

    def _spent(self, name: str) -> Mapping[str, Any] | None:
        reply = self.members or (self.error or {}).get("reply") or {}
        found: Mapping[str, Any] | None = reply.get(name)
        return found

    def as_line(self) -> dict[str, Any]:
        """Returns the answer as a line of the output file."""
        line: dict[str, Any] = {"id": self.id}
        line |= {"error": dict(self.error)} if self.error else dict(self.members or {})
        return line | {"tries": self.tries, "seconds": round(self.seconds, 3)}


def _call(call: Mapping[str, Any]) -> ToolCall:
    arguments = dict(call["arguments"])
    raw = arguments["_raw"] if call.get("error") else json.dumps(arguments, ensure_ascii=False)
    return ToolCall(call["id"], call["name"], arguments, raw)


@dataclass(slots=True)
class JobSummary:
    """The progress of a job, over all its runs.

    Attributes:
        rows: the number of rows in the job; for a job with `shard`, in this shard.
        usage: the token counts of all answers together, without `tools` and `details`.
        costs: the known costs of all answers together, by currency. `unpriced` is the number of answers with an unknown
            cost.
        recorded: the number of answers that earlier runs recorded.
    """

    rows: int = 0
    done: int = 0
    errors: int = 0
    recorded: int = 0
    usage: Usage = field(default_factory=lambda: Usage(0, 0))
    costs: dict[str, Cost] = field(default_factory=dict)
    unpriced: int = 0

    def add(self, answer: Answer) -> None:
        """Adds an answer to the totals of the job. An answer that is an error may have token counts and a cost, too."""
        cost = answer.cost
        if answer.error:
            self.errors += 1
        else:
            self.done += 1
            self.unpriced += cost is None
        self.usage += replace(answer.usage, tools={}, details={})
        if cost is not None:
            self.add_cost(cost)

    def add_cost(self, cost: Cost) -> None:
        """Adds a cost to the total in the cost's currency."""
        before = self.costs.get(cost.currency)
        self.costs[cost.currency] = cost if before is None else before + cost


def reply_members(reply: Reply, cost: Cost | None) -> dict[str, Any]:
    """Converts a reply to the JSON fields of `Answer.members`."""
    calls = []
    for call in reply.tool_calls:
        calls.append({"id": call.id, "name": call.name, "arguments": call.arguments})
        if call.error:
            calls[-1]["error"] = call.error
    return {
        "text": reply.text,
        "reasoning": reply.reasoning or None,
        "refusal": reply.refusal,
        "tool_calls": calls,
        "finish_reason": reply.finish_reason,
        "model": reply.model,
        "request_id": reply.request_id,
        "usage": None if reply.usage is None else _usage_members(reply.usage),
        "cost": cost and cost_members(cost),
        "warnings": [asdict(warning) for warning in reply.warnings],
    }


def cost_members(cost: Cost) -> dict[str, Any]:
    """Converts a cost to JSON data: the arguments of `read_cost`."""
    day = cost.date and cost.date.isoformat()
    amount = f"{cost.amount:f}"
    return {
        "amount": amount, "currency": cost.currency, "source": cost.source, "date": day, "estimated": cost.estimated,
    }  # fmt: skip


def read_cost(
    amount: str, currency: str, source: CostSource | None, date: str | None = None, estimated: bool = False
) -> Cost:
    """Converts JSON data of `cost_members` back to a cost."""
    return Cost(Decimal(amount), currency, source, Date.fromisoformat(date) if date else None, bool(estimated))


def _usage_members(usage: Usage) -> dict[str, Any]:
    steps = [_usage_members(step) for step in usage.steps]
    return {**{name: getattr(usage, name) for name in _COUNTS}, "steps": steps}


def _read_usage(members: Mapping[str, Any]) -> Usage:
    steps = tuple(_read_usage(step) for step in members.get("steps") or ())
    return Usage(**{**members, "steps": steps})


def error_members(error: Exception) -> dict[str, Any]:
    """Converts an exception to the JSON fields of `Answer.error`."""
    members: dict[str, Any] = {"type": type(error).__name__, "message": str(error)}
    if isinstance(error, APIError):
        members |= {"retryable": error.retryable, "status_code": getattr(error, "status_code", None)}
        partial = error.partial.text if error.partial else ""
        members |= {"partial": partial} if partial else {}
    return members


def encoded(value: Any) -> str:
    """Serializes a value as one line of JSON. Escapes all non-ASCII characters if one of them is unprintable, such as
    an unpaired surrogate.
    """
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return text if text.isprintable() else json.dumps(value, separators=(",", ":"))


# All values in a column have one type, so fields with values of several types may be JSON text.
_JSON_MEMBERS = ("messages", "options", "tools", "body")

ANSWER_COLUMNS: Mapping[str, type] = {
    **dict.fromkeys(("text", "reasoning", "refusal", "tool_calls", "finish_reason", "model", "request_id"), str),
    **dict.fromkeys(("usage", "cost", "warnings", "error"), str),
    "tries": int,
    "seconds": float,
}
"""The columns of an answer, and the types of their values. Objects and lists are stored as JSON text, absent values as
null.
"""


def answer_cells(answer: Answer) -> dict[str, Any]:
    """Returns the table cells of an answer, by column name; see `ANSWER_COLUMNS`."""
    line = answer.as_line()
    return {name: _text(line.get(name)) for name in ANSWER_COLUMNS}


def answer_schema(*names: str) -> Any:
    """Returns the pyarrow schema of a table with answers."""
    import pyarrow

    types = {str: pyarrow.string(), int: pyarrow.int64(), float: pyarrow.float64()}
    columns = {**dict.fromkeys(names, str), **ANSWER_COLUMNS}
    return pyarrow.schema([(name, types[kind]) for name, kind in columns.items()])


def row_members(cells: Mapping[str, Any]) -> dict[str, Any]:
    """Converts a row of a table to a row of a job: drops null values, and parses the JSON text of `messages`, `options`
    and `tools`.

    Raises:
        ConfigError: a field contains invalid JSON.
    """
    found = {name: value for name, value in cells.items() if value is not None}
    for name in _JSON_MEMBERS:
        if isinstance(text := found.get(name), str):
            try:
                found[name] = json.loads(text)
            except (ValueError, RecursionError) as error:
                raise ConfigError(f"{name}: not JSON: {error}") from None
    return found


def _text(value: Any) -> Any:
    if isinstance(value, dict | list):
        return json.dumps(value)
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else value  # half a surrogate pair
