"""The settings of `Ask`. They travel to workers, and are kept by the engine on the way: they name keys only."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal
from urllib.parse import urlsplit

from streamfold import ConfigError, Reply
from streamfold.config import did_you_mean, variable_names
from streamfold.tools import as_tools
from streamfold.types import ToolLike

from ..rows import ROW_MEMBERS
from ..schema import schema_check
from ..settings import JobSettings
from .answer_cache import check_answers

Check = Callable[[Reply], str | None]


@dataclass(frozen=True, slots=True)
class AskSettings:
    """See `Ask`. Raises ConfigError for one that is wrong."""

    provider: str | Mapping[str, Any] | None
    columns: Mapping[str, str] | None
    prefix: str
    concurrency: int
    tries: int
    answers: str | None
    keep: float
    job: str
    schema: Mapping[str, Any] | None
    check: Check | None
    tools: Sequence[ToolLike]
    on_refused: Literal["stop", "error"]
    config: str | None
    stream: bool | None
    options: Mapping[str, Any]

    def __post_init__(self) -> None:
        _check_no_secrets(self)
        if self.answers is not None:
            check_answers(self.answers)
        if self.keep <= 0:
            raise ConfigError(f"keep must be greater than 0, not {self.keep:g}")
        if self.on_refused not in ("stop", "error"):
            raise ConfigError(f"on_refused: can't be {self.on_refused!r}. Allowed: stop, error")
        if unknown := next((name for name in self.columns or () if name not in ROW_MEMBERS), None):
            allowed = ", ".join(ROW_MEMBERS)
            raise ConfigError(
                f"columns: unknown member {unknown!r}{did_you_mean(unknown, ROW_MEMBERS)}. Allowed: {allowed}"
            )
        self.for_rows()

    def for_rows(self) -> JobSettings:
        """Returns the settings for asking one row. Raises ConfigError."""
        checks: list[Check] = [self.check] if self.check else []
        options = dict(self.options)
        if self.schema is not None:
            options["response_format"] = self.schema
            checks.insert(0, schema_check(self.schema))
        return JobSettings(
            concurrency=self.concurrency, tries=self.tries, max_cost=None, in_flight="ask", retry_errors=False,
            shard=(0, 1), tools=as_tools(self.tools), run_tools=False, check=_first(checks), options=options,
            stream=self.stream,
        )  # fmt: skip

    def members(self, names: Sequence[str]) -> dict[str, str]:
        """Returns where the members of rows are among the columns of a batch. Raises ConfigError if one is missing."""
        found = dict(self.columns or {name: name for name in ROW_MEMBERS if name in names})
        if missing := next((column for column in found.values() if column not in names), None):
            raise ConfigError(f"there is no column {missing!r}{did_you_mean(missing, names)} among {', '.join(names)}")
        if not found.keys() & {"prompt", "messages"}:
            raise ConfigError(
                f"there is no column 'prompt' or 'messages' among {', '.join(names)}: say which it is, as in"
                ' columns={"prompt": "question"}'
            )
        if self.answers and "id" not in found:
            raise ConfigError(
                'answers: they are kept for rows with an id: say where it is, as in columns={"id": "key"}'
            )
        return found


def _first(checks: Sequence[Check]) -> Check | None:
    """Returns the checks as one: it finds the first thing that is wrong."""
    if len(checks) < 2:
        return next(iter(checks), None)
    return lambda reply: next((wrong for check in checks if (wrong := check(reply)) is not None), None)


def _check_no_secrets(settings: AskSettings) -> None:
    """Raises ConfigError where there is a key, a password or a header, and not just the name of a variable."""
    spec = settings.provider if isinstance(settings.provider, Mapping) else {}
    if spec.get("api_key") is not None and not _refers(spec["api_key"]):
        raise _would_travel("api_key", 'api_key_env = "NAME"')
    for name, value in (spec.get("headers") or {}).items():
        if not _refers(value):
            raise _would_travel(f"the header {name!r}", '"${NAME}" as its value')
    if settings.options.get("extra_headers"):
        raise _would_travel("extra_headers", 'headers = {"...": "${NAME}"} in the settings of the provider')
    urls = {"base_url": spec.get("base_url"), "turn_cache": spec.get("turn_cache"), "answers": settings.answers}
    for place, url in urls.items():
        if isinstance(url, str) and (password := urlsplit(url).password) and not _refers(password):
            raise _would_travel(f"the password in {place}", "${NAME} in its place")


def _refers(value: Any) -> bool:
    return isinstance(value, str) and bool(variable_names(value))


def _would_travel(what: str, instead: str) -> ConfigError:
    return ConfigError(
        f"{what} would travel to the workers with the job. Set a variable in their environment, and name it: {instead}"
    )
