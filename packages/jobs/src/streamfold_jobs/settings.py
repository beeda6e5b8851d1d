"""The settings of a job."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, cast

from streamfold import ChatOptions, ConfigError, Reply, Tool
from streamfold.limits import check_number
from streamfold.types import ChatParams


@dataclass(frozen=True, slots=True)
class JobSettings:
    """See `batch`. Raises ConfigError for one that is wrong."""

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
    stream: bool | None = None

    def __post_init__(self) -> None:
        check_number("max_cost", self.max_cost)
        stream = True if self.stream is None else self.stream
        # A wrong option is wrong in each row.
        ChatParams.read("-", self.tools, "auto", cast("ChatOptions", self.options), stream=stream)
        first, count = self.shard
        if self.concurrency < 1 or self.tries < 1:
            raise ConfigError("concurrency and tries must be at least 1")
        if not 0 <= first < count:
            raise ConfigError(f"shard must be (i, n) with 0 <= i < n, not ({first}, {count})")
        for tool in self.tools if self.run_tools else ():
            if tool.function is None:
                raise ConfigError(f"run_tools: the tool {tool.name!r} is only described, and has no function to run")
            if tool.needs_approval is not False:
                raise ConfigError(f"run_tools: the tool {tool.name!r} needs approval, and nobody gives it in a job")
        if self.in_flight not in ("ask", "error"):
            raise ConfigError(f"in_flight: can't be {self.in_flight!r}. Allowed: ask, error")
