"""`Ask`, a class for Ray Data's `map_batches`, its settings, and functions that read Ray's batches and add columns to
them.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal
from urllib.parse import urlsplit

import anyio

from streamfold import ConfigError, PermissionDeniedError, Provider, Reply, StreamfoldError
from streamfold.config import did_you_mean, variable_names
from streamfold.tools import as_tools
from streamfold.types import ToolLike

from ..answers import ANSWER_COLUMNS, Answer, answer_cells, answer_schema, error_members, row_members
from ..live_requests import Pacing, RowRequests
from ..rows import ROW_MEMBERS, Row
from ..settings import JobPausedError, JobSettings, schema_check
from .answer_cache import AnswerCache, check_answers, fingerprint

_logger = logging.getLogger("streamfold")
_FORBIDDEN = 20  # consecutive 403 responses after which the API key is the cause, not the rows
_WRONG = (400, 413, 422)  # statuses for invalid requests
Check = Callable[[Reply], str | None]


class AskStoppedError(StreamfoldError):
    """The Ray job stops, because the API key is missing or rejected, or the account has no credit."""


class Ask:
    """A class for `map_batches` of Ray Data, which sends each row of a batch to a model and adds the answers as
    columns.

        ds.map_batches(Ask, fn_constructor_kwargs={"provider": "main"}, batch_format="pyarrow")

    The function `ask` calls `map_batches` with safe settings for large jobs. `ANSWER_COLUMNS` lists the new columns:
    `text`, `tool_calls`, `usage`, `cost`, `warnings`, `error`, `tries` and others. If a row fails, its `error` column
    contains the error. Only invalid settings or a rejected API key stop the Ray job.

    Args:
        provider: a name in the worker's configuration, or a mapping of settings; see `Provider.from_config`. A mapping
            may name environment variables of the worker (`api_key_env`), but must not contain API keys, because Ray
            stores the mapping with the job.
        columns: maps the fields of a row to columns of the batch: `{"prompt": "question"}`. The fields are id, prompt,
            messages, system, model, options, tools and tool_choice; messages, options and tools may be JSON text. By
            default, each field is read from the column with the same name.
        prefix: a prefix for the names of the new columns.
        concurrency: maximum number of rows in flight in one worker.
        tries: the maximum number of times that `Ask` sends a row. A request that the provider rejects with a 429
            doesn't count.
        answers: the URL of a store for answers: `valkey://HOST:PORT`, or on one machine `sqlite:////PATH`. If Ray
            recomputes a block, `Ask` returns the stored answers. Rows need an id.
        keep: seconds after which a stored answer expires.
        job: the name of the job. `Ask` returns a stored answer only for the same job name, row id and request.
        schema: a JSON schema for the answers. If an answer doesn't match the schema, its row ends with an error.
        check: a function that returns what is wrong with a reply, or None. If the function rejects a row's reply, the
            row ends with an error. With `answers`, `check` must be a function of a module; with a lambda, for example,
            `Ask` stores no answers.
        tools: the tools for rows without `tools`. The answers contain the tool calls; `Ask` doesn't run the tools.
        on_refused: what happens if the provider rejects the API key or the account: "stop" stops the Ray job, "error"
            records an error for each row.
        config: the path of the configuration file on the worker's machine.
        stream: request streamed answers. For short answers, `stream=False` needs less CPU time.
        options: options for all rows; see `chat_stream`. Options in a row take precedence.

    Raises:
        ConfigError: a setting is invalid or contains an API key. `Ask` checks the provider's settings at the first
            batch.
    """

    def __init__(
        self,
        provider: str | Mapping[str, Any] | None = None,
        *,
        columns: Mapping[str, str] | None = None,
        prefix: str = "",
        concurrency: int = 50,
        tries: int = 3,
        answers: str | None = None,
        keep: float = 3600.0,
        job: str = "",
        schema: Mapping[str, Any] | None = None,
        check: Callable[[Reply], str | None] | None = None,
        tools: Sequence[ToolLike] = (),
        on_refused: Literal["stop", "error"] = "stop",
        config: str | None = None,
        stream: bool = True,
        **options: Any,
    ) -> None:
        self._set_up(AskSettings(
            provider, columns, prefix, concurrency, tries, answers, keep, job, schema, check, tools, on_refused,
            config, stream, options,
        ))  # fmt: skip

    def __getstate__(self) -> AskSettings:
        return self.settings

    def __setstate__(self, settings: AskSettings) -> None:
        self._set_up(settings)

    def _set_up(self, settings: AskSettings) -> None:
        self.settings = settings
        self._rows = settings.for_rows()
        self._forbidden = 0
        self._stopped = ""

    async def __call__(self, batch: Any) -> Any:
        """Sends the rows of a batch. Returns the batch with additional columns for the answers.

        Raises:
            ConfigError: the batch lacks a column, or one of the new columns has the name of a column of the batch.
            AskStoppedError: the provider rejects the API key, or the account has no credit.
        """
        requests, kept, _ = self._requests, self._kept, self._common
        names = column_names(batch)
        check_columns(names, self.settings.prefix)
        columns = self.settings.members(names)
        cells = rows_of(batch, list(columns.values()))
        rows = [{member: row[column] for member, column in columns.items()} for row in cells]
        keys = [self._key(row) for row in rows] if kept else [None] * len(rows)
        known = await kept.find([key for key in keys if key]) if kept else {}
        answers = [known.get(key or "") for key in keys]

        todo = iter([at for at, answer in enumerate(answers) if answer is None])

        async def work() -> None:
            while True:
                async with self._slots:
                    if (at := next(todo, None)) is None:
                        return
                    answers[at] = await self._answer(requests, rows[at], keys[at])

        async with anyio.create_task_group() as tasks:
            for _ in range(min(self.settings.concurrency, len(rows))):
                tasks.start_soon(work)
        made = [answer for answer in answers if answer is not None]
        if len(made) < len(rows):
            raise AskStoppedError(self._stopped)
        return with_answers(batch, made, self.settings.prefix)

    async def aclose(self) -> None:
        """Closes connections. Ray doesn't call this method when it ends a worker."""
        try:
            await self._provider.aclose()
        finally:
            if self._kept is not None:
                await self._kept.aclose()

    @cached_property
    def _provider(self) -> Provider:
        made = Provider.from_config(self.settings.provider, config=self.settings.config, max_retries=0)
        return made.prefer_aiohttp()

    @cached_property
    def _requests(self) -> RowRequests:
        return RowRequests(self._rows, Pacing(self._provider))  # with the provider's rate limits

    @cached_property
    def _slots(self) -> anyio.CapacityLimiter:
        return anyio.CapacityLimiter(self.settings.concurrency)

    @cached_property
    def _kept(self) -> AnswerCache | None:
        where = self.settings.answers
        if not where:
            return None
        if self._check_name is None:
            _logger.warning(
                "answers aren't stored, because `check` has no unique name: define it as a function of a module"
            )
            return None
        return AnswerCache.open(where, self.settings.keep)

    @cached_property
    def _check_name(self) -> str | None:
        """The name of `check`, which is part of the keys of stored answers; None if the function has no unique name."""
        check = self.settings.check
        if check is None:
            return ""
        name = getattr(check, "__qualname__", "<")  # lambdas and nested functions have no unique name
        return None if "<" in name else f"{getattr(check, '__module__', '')}.{name}"

    @cached_property
    def _common(self) -> str:
        """A hash of the settings that are the same for all requests. Raises ConfigError if the provider can't send
        requests.
        """
        options = self._rows.options if self._provider.profile.model else {"model": "-", **self._rows.options}
        sent = self._provider.preview("-", self._rows.tools or None, **options)
        return fingerprint(sent.url, sent.body, self._check_name or "", self.settings.job)

    def _key(self, members: Mapping[str, Any]) -> str | None:
        if members["id"] is None:
            return None
        return fingerprint(self._common, json.dumps(members, sort_keys=True, default=str))

    async def _answer(self, requests: RowRequests, members: Mapping[str, Any], key: str | None) -> Answer | None:
        if self._stopped:
            return None
        try:
            row = Row.read(0, row_members({**members, "id": None}))  # Ray and Daft have ids of any type
            answer = await requests.answer(row)
        except JobPausedError as error:
            return self._refused(error.__cause__)
        except PermissionDeniedError as error:
            self._forbidden += 1
            return self._refused(error) if self._forbidden >= _FORBIDDEN else _failed(error)
        except Exception as error:  # affects only this row
            if not isinstance(error, StreamfoldError):
                _logger.exception("a row could not be sent")
            return _failed(error)
        if answer is not None and answer.error is None:
            self._forbidden = 0
        if self._kept and key and answer is not None and _is_final(answer):
            await self._kept.keep(key, answer)
        return answer

    def _refused(self, error: BaseException | None) -> Answer | None:
        """Stops the Ray job. With `on_refused="error"`, returns the error as the row's answer instead."""
        if self.settings.on_refused == "error" and isinstance(error, Exception):
            return _failed(error)
        if not self._stopped:
            self._stopped = f"the job ends, because no further row can be answered: {error}"
            self._requests.stop()
        return None


def _is_final(answer: Answer) -> bool:
    """Returns True for a reply, and for the error of an invalid request. A retry may fix other errors."""
    error = answer.error or {"reply": answer.members}
    return "reply" in error or error.get("status_code") in _WRONG


def _failed(error: Exception) -> Answer:
    return Answer("", 0, None, error_members(error))


# --- settings ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class AskSettings:
    """The validated arguments of `Ask`. Raises ConfigError for an invalid argument."""

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
    stream: bool
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
                f"columns: unknown field {unknown!r}{did_you_mean(unknown, ROW_MEMBERS)}. Allowed: {allowed}"
            )
        self.for_rows()

    def for_rows(self) -> JobSettings:
        """Converts the settings to those that `RowRequests` needs. Raises ConfigError for an invalid setting."""
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
        """Returns the name of the column for each field. Raises ConfigError if a column is missing."""
        found = dict(self.columns or {name: name for name in ROW_MEMBERS if name in names})
        if missing := next((column for column in found.values() if column not in names), None):
            raise ConfigError(f"there is no column {missing!r}{did_you_mean(missing, names)} among {', '.join(names)}")
        if not found.keys() & {"prompt", "messages"}:
            raise ConfigError(
                f"there is no column 'prompt' or 'messages' among {', '.join(names)}: name it with"
                ' columns={"prompt": "question"}'
            )
        if self.answers and "id" not in found:
            raise ConfigError(
                'answers: stored answers need rows with an id: name its column with columns={"id": "key"}'
            )
        return found


def _first(checks: Sequence[Check]) -> Check | None:
    """Combines several checks into one check, which returns the first problem that they find."""
    if len(checks) < 2:
        return next(iter(checks), None)
    return lambda reply: next((wrong for check in checks if (wrong := check(reply)) is not None), None)


def _check_no_secrets(settings: AskSettings) -> None:
    """Raises ConfigError if an API key, a password or a header's value doesn't come from an environment variable."""
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
        f"{what} would be stored with the job. Set an environment variable on the workers, and name it: {instead}"
    )


# --- batches as rows and columns --------------------------------------------------------------------------------------


def column_names(batch: Any) -> list[str]:
    """Returns the column names of a batch: a pyarrow table, a data frame, or a mapping of arrays."""
    if hasattr(batch, "column_names"):
        return list(batch.column_names)
    return [str(name) for name in (batch if isinstance(batch, Mapping) else batch.columns)]


def rows_of(batch: Any, names: Sequence[str]) -> list[dict[str, Any]]:
    """Returns the columns `names` of a batch as rows of Python values."""
    if hasattr(batch, "column_names"):
        return list(batch.select(list(names)).to_pylist())
    columns = {name: [_plain(value) for value in _values(batch[name])] for name in names}
    return [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]


def with_answers(batch: Any, answers: Sequence[Answer], prefix: str = "") -> Any:
    """Returns a copy of a batch with new columns that contain the answers."""
    rows = [answer_cells(answer) for answer in answers]
    if hasattr(batch, "column_names"):
        import pyarrow

        for field in answer_schema():
            values = pyarrow.array([row[field.name] for row in rows], field.type)
            batch = batch.append_column(field.with_name(prefix + field.name), values)
        return batch
    columns = {prefix + name: [row[name] for row in rows] for name in ANSWER_COLUMNS}
    return {**batch, **columns} if isinstance(batch, Mapping) else batch.assign(**columns)


def check_columns(names: Sequence[str], prefix: str) -> None:
    """Raises ConfigError if one of the new columns has the name of a column of the batch."""
    taken = [prefix + name for name in ANSWER_COLUMNS if prefix + name in names]
    if taken:
        raise ConfigError(
            f'the rows have a column {taken[0]!r} already: rename it, or rename the new columns with prefix="answer_"'
        )


def _values(column: Any) -> Any:
    """Returns the values of a column, with None in place of values that pandas counts as missing."""
    return column.astype(object).where(column.notna(), None) if hasattr(column, "notna") else column


def _plain(value: Any) -> Any:
    """Converts a value to Python data. Batches of pandas and numpy may contain numpy's types at any depth."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, Mapping):
        return {name: _plain(member) for name, member in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(member) for member in value]
    return value
