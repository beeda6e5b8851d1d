"""Stores answers that outlive a Ray worker. When Ray recomputes a block of rows, `Ask` returns the stored answers and
sends no requests.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Collection, Mapping
from hashlib import sha256
from typing import Any

import anyio

from streamfold import ConfigError
from streamfold.config import is_shared_store, store_place, store_url
from streamfold.stores import Retention, Store, StoreError, open_store

from ..answers import ANSWER_COLUMNS, Answer, answer_cells

_logger = logging.getLogger("streamfold")


def fingerprint(*parts: str | bytes) -> str:
    """Returns a hash of several strings or bytes."""
    found = sha256()
    for part in parts:
        data = part.encode("utf-8", "surrogatepass") if isinstance(part, str) else part
        found.update(b"%d:%b" % (len(data), data))
    return found.hexdigest()


def check_answers(where: str) -> None:
    """Raises ConfigError if a URL doesn't name a store that all Ray workers can reach."""
    store_place(where, "answers:")
    if not is_shared_store(where):
        raise ConfigError(
            f"answers: can't be {where!r}, which other workers can't reach. Allowed: valkey://HOST:PORT, or on one"
            " machine sqlite://// and the rest of an absolute path"
        )


class AnswerCache:
    """Stores answers by the hashes of their requests; see `fingerprint`.

    Args:
        store: the key-value store for the answers.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._waiting: dict[str, bytes] = {}
        self._lock = anyio.Lock()
        self._reached = False

    @classmethod
    def open(cls, where: str, seconds: float) -> AnswerCache:
        """Opens the store that a URL names.

        Args:
            where: a URL that `check_answers` accepted.
            seconds: seconds after which a stored answer expires.

        Raises:
            ConfigError: the folder of the SQLite file doesn't exist, or an environment variable is not set.
        """
        limits = Retention(entries=10**9, size=2**40, age=seconds)
        return cls(open_store(store_url(where), limits, table="answers"))

    async def find(self, keys: Collection[str]) -> Mapping[str, Answer]:
        """Returns the stored answers for these keys. If the store fails, logs the error and returns no answers.

        Leaves out answers whose stored data is damaged.

        Raises:
            ConfigError: the store has never been reachable.
        """
        try:
            found = await self._store.get("", list(keys))
        except StoreError as error:
            if not self._reached:
                raise ConfigError(f"answers: the store can't be read: {error}") from None
            _logger.warning("the stored answers could not be read: their rows are sent again", exc_info=error)
            return {}
        self._reached = True
        answers = {key: answer for key, value in found.items() if (answer := _read_answer(value)) is not None}
        if len(answers) < len(found):
            _logger.warning("%d answers in the store are damaged: their rows are sent again", len(found) - len(answers))
        return answers

    async def keep(self, key: str, answer: Answer) -> None:
        """Stores an answer. If the store fails, logs the error."""
        members = {"reply": answer.members, "error": answer.error, "tries": answer.tries, "seconds": answer.seconds}
        self._waiting[key] = json.dumps(members, separators=(",", ":")).encode()
        async with self._lock:  # one write at a time, with all answers that have arrived meanwhile
            if key not in self._waiting:
                return
            entries, self._waiting = self._waiting, {}
            with anyio.CancelScope(shield=True):
                try:
                    await self._store.put("", entries)
                except StoreError as error:  # the batch still gets its answers
                    _logger.warning("%d answers could not be stored", len(entries), exc_info=error)

    async def aclose(self) -> None:
        """Closes the key-value store."""
        await self._store.aclose()


def _read_answer(value: bytes) -> Answer | None:
    try:
        read = json.loads(value)
        answer = Answer("", 0, read.pop("reply"), **read)
        cells = answer_cells(answer)
        counts: list[Any] = [answer.usage.input_tokens, answer.usage.output_tokens, answer.tries]
        whole = answer.cost is None or answer.cost.amount.is_finite()
    except (ValueError, TypeError, KeyError, AttributeError, ArithmeticError, RecursionError):
        return None
    parts = isinstance(answer.members, dict) + isinstance(answer.error, dict)
    typed = all(cells[name] is None or isinstance(cells[name], kind) for name, kind in ANSWER_COLUMNS.items())
    small = all(count is None or (isinstance(count, int) and 0 <= count < 2**31) for count in counts)
    return answer if parts == 1 and typed and small and whole else None
