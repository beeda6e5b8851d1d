"""Settings of a job, the check of answers against a JSON schema, and JobPausedError."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, cast

import jsonschema

from streamfold import ChatOptions, ConfigError, Reply, StreamfoldError, Tool
from streamfold.limits import check_number
from streamfold.types import ChatParams


@dataclass(frozen=True, slots=True)
class JobSettings:
    """The validated arguments of `batch`. Raises ConfigError for an invalid argument."""

    concurrency: int
    tries: int
    max_cost: float | None
    in_flight: Literal["ask", "error"]
    retry_errors: bool
    shard: tuple[int, int]
    tools: Sequence[Tool]
    run_tools: bool
    check: Callable[[Reply], str | None] | None
    options: Mapping[str, Any] = field(default_factory=dict)
    stream: bool = True
    retry_checks: bool = False

    def __post_init__(self) -> None:
        check_number("max_cost", self.max_cost)
        # Otherwise every row would fail with the same error.
        ChatParams.read("-", self.tools, "auto", cast("ChatOptions", self.options), stream=self.stream)
        first, count = self.shard
        if self.concurrency < 1 or self.tries < 1:
            raise ConfigError("concurrency and tries must be at least 1")
        if not 0 <= first < count:
            raise ConfigError(f"shard must be (i, n) with 0 <= i < n, not ({first}, {count})")
        for tool in self.tools if self.run_tools else ():
            if tool.function is None:
                raise ConfigError(f"run_tools: the tool {tool.name!r} has no function to run")
            if tool.needs_approval is not False:
                raise ConfigError(f"run_tools: the tool {tool.name!r} needs approval, which isn't possible in a job")
        if self.in_flight not in ("ask", "error"):
            raise ConfigError(f"in_flight: can't be {self.in_flight!r}. Allowed: ask, error")


def schema_check(schema: Mapping[str, Any], place: str = "schema") -> Callable[[Reply], str | None]:
    """Returns a function that validates replies against a JSON schema. The function returns None, or a description of
    the mistake.

    Args:
        schema: the JSON schema.
        place: the name of the schema in error messages.

    Raises:
        ConfigError: the schema is invalid.
    """
    kind = jsonschema.validators.validator_for(schema)
    try:
        kind.check_schema(schema)
    except jsonschema.SchemaError as error:
        raise ConfigError(f"{place}: not a JSON schema: {error.message}") from None
    validator = kind(schema)

    def check(reply: Reply) -> str | None:
        try:
            value = json.loads(reply.text if reply.answer is None else reply.answer)
        except (ValueError, RecursionError) as error:
            return f"the answer is not JSON: {error}"
        wrong = jsonschema.exceptions.best_match(validator.iter_errors(value))
        return None if wrong is None else f"the answer doesn't match the schema: {wrong.json_path}: {wrong.message}"

    return check


class JobPausedError(StreamfoldError):
    """A job stopped early: `BatchJob.stop` was called, the provider rejects the API key or the account, the budget is
    spent, or the ledger can't be written.

    The answers so far are in the ledger. The job continues when it is started again.
    """
