"""The class that Ray gives batches to."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, Literal

import anyio

from streamfold import PermissionDeniedError, Provider, Reply, StreamfoldError
from streamfold.types import ToolLike

from ..answers import Answer, error_members
from ..columns import row_members
from ..errors import JobPausedError
from ..pacing import Pacing
from ..row_requests import RowRequests
from ..rows import Row
from .answer_cache import AnswerCache, fingerprint
from .settings import AskSettings
from .table import check_columns, column_names, rows_of, with_answers

_logger = logging.getLogger("streamfold")

_FORBIDDEN = 20  # rows in succession that are refused with 403: it is the key, and not these rows
_WRONG = (400, 413, 422)  # the request itself is


class AskStoppedError(StreamfoldError):
    """Nothing more would be answered: the key or the account is refused, or there is no key. It ends the job."""


class Ask:
    """Asks a model about each row of a batch, and adds the answers as columns. For `map_batches` of Ray Data.

        ds.map_batches(Ask, fn_constructor_kwargs={"provider": "main"}, batch_format="pyarrow")

    `ask` does that with the settings that make a large job safe. The new columns are those of `ANSWER_COLUMNS`: `text`,
    `tool_calls`, `usage`, `cost`, `warnings`, `error`, `tries` and others. A row that goes wrong is a row with an
    `error`. Only a mistake in the settings, or a key that is refused, ends the job.

    Args:
        provider: a name in the configuration of the worker, or a mapping of settings, as for `Provider.from_config`. It
            may name variables of the worker's environment (`api_key_env`), but not have keys: it travels with the job.
        columns: where the members of a row are: `{"prompt": "question"}`. Members are id, prompt, messages, system,
            model, options, tools and tool_choice; messages, options and tools may be JSON text. Default: the columns
            that have these names.
        prefix: what the names of the new columns begin with.
        concurrency: how many rows one worker asks at once, those of all its batches together.
        tries: how often a row is asked before it is an error. Being told to wait is no try.
        answers: a store for answers, `valkey://HOST:PORT`, or on one machine `sqlite:////PATH`. Each answer is written
            there before it is handed on, so that a block that is computed again after a worker died is not paid twice.
            Rows need an id for it.
        keep: seconds for which answers are kept there.
        job: a name. An answer that is kept is given to the same row of the same job, if it asks for the same.
        schema: a JSON schema: it is asked for, and an answer that does not fit is an error.
        check: looks at each reply, and returns what is wrong with it; such a row is an error. With `answers`, it must
            be a function of a module: without a name of its own, nothing is kept.
        tools: for all rows that have none of their own. Calls are part of the answer; nothing is run.
        on_refused: a key or an account that is refused ends the job ("stop"), or is the error of each row ("error").
        config: the configuration file on the worker.
        stream: False fetches answers in one piece, which costs less to read. Default: once they are known to be short.
        options: for all rows, as for `chat_stream`; those of a row win.

    Raises:
        ConfigError: a setting is wrong, or has a key. What is wrong with the provider is raised by the first batch.
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
        stream: bool | None = None,
        **options: Any,
    ) -> None:
        self.__setstate__(AskSettings(
            provider, columns, prefix, concurrency, tries, answers, keep, job, schema, check, tools, on_refused,
            config, stream, options,
        ))  # fmt: skip

    def __getstate__(self) -> AskSettings:
        return self.settings

    def __setstate__(self, settings: AskSettings) -> None:
        self.settings = settings
        self._rows = settings.for_rows()
        self._forbidden = 0
        self._stopped = ""

    async def __call__(self, batch: Any) -> Any:
        """Returns a batch with the columns of its answers.

        Raises:
            ConfigError: the batch lacks a column, or has one with the name of a new one.
            AskStoppedError: nothing more would be answered.
        """
        asking, kept, _ = self._asking, self._kept, self._common
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
                    answers[at] = await self._answer(asking, rows[at], keys[at])

        async with anyio.create_task_group() as tasks:
            for _ in range(min(self.settings.concurrency, len(rows))):
                tasks.start_soon(work)
        made = [answer for answer in answers if answer is not None]
        if len(made) < len(rows):
            raise AskStoppedError(self._stopped)
        return with_answers(batch, made, self.settings.prefix)

    async def aclose(self) -> None:
        """Closes connections. Ray ends its workers without it."""
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
    def _asking(self) -> RowRequests:
        return RowRequests(self._rows, Pacing(self._provider))  # limits are those of the provider

    @cached_property
    def _slots(self) -> anyio.CapacityLimiter:
        return anyio.CapacityLimiter(self.settings.concurrency)

    @cached_property
    def _kept(self) -> AnswerCache | None:
        where = self.settings.answers
        if not where:
            return None
        if self._check_name is None:
            _logger.warning("answers are not kept: `check` has no name of its own. Write it as a function of a module")
            return None
        return AnswerCache.open(where, self.settings.keep)

    @cached_property
    def _check_name(self) -> str | None:
        """The name by which an answer that passed the check is found again; None: the check has none of its own."""
        check = self.settings.check
        if check is None:
            return ""
        name = getattr(check, "__qualname__", "<")  # two lambdas have one name, and so have two functions of a function
        return None if "<" in name else f"{getattr(check, '__module__', '')}.{name}"

    @cached_property
    def _common(self) -> str:
        """A fingerprint of what all rows ask for. Raises ConfigError if no row could be asked."""
        options = self._rows.options if self._provider.profile.model else {"model": "-", **self._rows.options}
        sent = self._provider.preview("-", self._rows.tools or None, **options)
        return fingerprint(sent.url, sent.body, self._check_name or "", self.settings.job)

    def _key(self, members: Mapping[str, Any]) -> str | None:
        """Returns the key of a row's answer, or None for a row without an id."""
        if members["id"] is None:
            return None
        return fingerprint(self._common, json.dumps(members, sort_keys=True, default=str))

    async def _answer(self, asking: RowRequests, members: Mapping[str, Any], key: str | None) -> Answer | None:
        """Returns the answer to a row, which may be an error; None if nothing more is asked."""
        if self._stopped:
            return None
        try:
            row = Row.read(0, row_members({**members, "id": None}))  # ids of any type are the engine's business
            answer = await asking.answer(row)
        except JobPausedError as error:
            return self._refused(error.__cause__)
        except PermissionDeniedError as error:
            self._forbidden += 1
            return self._refused(error) if self._forbidden >= _FORBIDDEN else _failed(error)
        except Exception as error:  # whatever it is, it is about this row
            if not isinstance(error, StreamfoldError):
                _logger.exception("a row could not be asked")
            return _failed(error)
        if answer is not None and answer.error is None:
            self._forbidden = 0
        if self._kept and key and answer is not None and _is_final(answer):
            await self._kept.keep(key, answer)
        return answer

    def _refused(self, error: BaseException | None) -> Answer | None:
        """Ends the job, unless each row is to have the error."""
        if self.settings.on_refused == "error" and isinstance(error, Exception):
            return _failed(error)
        if not self._stopped:
            self._stopped = f"the job ends, because nothing more would be answered: {error}"
            self._asking.stop()
        return None


def _is_final(answer: Answer) -> bool:
    """Whether the same request would have the same answer: a reply, or the error of a request that is wrong."""
    error = answer.error or {"reply": answer.reply}
    return "reply" in error or error.get("status_code") in _WRONG


def _failed(error: Exception) -> Answer:
    return Answer("", 0, None, error_members(error))
