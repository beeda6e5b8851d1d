"""Journals record which tool calls have started. If several processes share a journal, each tool call runs only once.

The saved state of a paused run can be resumed more than once, for example if a user presses a button twice. Both
resumed runs have the same id, so they claim the same journal key. The run that claims the key first runs the tool call.
The other run returns the stored result (see `run_once`).
"""

from __future__ import annotations

import errno
import hashlib
import json
import logging
import os
import secrets
import shutil
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from math import inf
from pathlib import Path
from time import sleep, time
from typing import BinaryIO, Protocol, TypeVar

import anyio
import anyio.to_thread

from ..errors import ConfigError, StreamfoldError
from ..jsontext import canonical_json
from ..stores import Retention, Store, StoreError, open_store
from ..types import ToolCall
from .tool_results import ToolResult

T = TypeVar("T")

KEEP_DAYS = 30.0  # days for which a journal keeps the entries of an ended run
_LASTING = Retention(entries=2**53, size=2**60, age=1e12, evicts=False)  # a full store refuses a claim
_DAY = 86_400.0
_PAUSES = (0.1, 1.1, 1.1)  # seconds before a store is tried again; one that has failed refuses calls for a second

_logger = logging.getLogger("streamfold.tools")


class CallJournal(Protocol):
    """The interface of journals. A journal records which tool calls have started, and their results. All processes that
    resume the same runs must use the same journal.

    A key has the form `RUN/CALL`. RUN is a digest of the run and its owner, CALL a digest of the tool call. A journal
    may also have the method `end_run(run)` and the attribute `keep_days`. After a run has ended, streamfold calls
    `end_run` with RUN, so that the journal can later delete the run's entries. `keep_days` is the maximum age in days
    of a saved state. streamfold raises ConfigError instead of resuming an older state.
    """

    async def claim(self, key: str, nonce: str) -> bool:
        """Claims the right to run a tool call. Returns True if `nonce`, a random text, is the first nonce with which
        this key was claimed. If the journal's response was lost, streamfold repeats the claim with the same nonce.
        """
        ...

    async def finish(self, key: str, result: str) -> None:
        """Stores the result of a tool call that was claimed."""
        ...

    async def result(self, key: str) -> str | None:
        """Returns the stored result of a tool call, or None."""
        ...


class CallInDoubtError(StreamfoldError):
    """Another run of the same saved state has started a tool call, and its result isn't known yet.

    The tool call is still running, or its process has crashed. streamfold doesn't run it again. Resume the state later:
    the other run may have stored the result by then. If the tool call's kind is `approval`, the other run has sent the
    decision to the provider, and resuming later raises this error again.

    Attributes:
        call: the tool call that another run has started.
    """

    def __init__(self, call: ToolCall) -> None:
        super().__init__(
            f"the approval request {call.id!r} of {call.name} was already answered: a decision is sent only once"
            if call.kind == "approval"
            else f"the call {call.id!r} of {call.name} was started by another run and has no result yet"
        )
        self.call = call


NOT_RUN = (CallInDoubtError, StoreError)  # errors of a call that was not started


class FileJournal:
    """A journal in a folder, for processes that share a file system.

    The journal creates a folder for each run, and two files for each tool call: the claim and the result. The journal
    writes the claim to the disk before the tool runs.

    Args:
        directory: the journal's folder, which is created if it doesn't exist.
        keep_days: the number of days after which the journal deletes the files of an ended run. Resuming a run that
            began earlier raises ConfigError, because its tool calls could run twice. The journal never deletes the
            files of an unfinished run.
    """

    def __init__(self, directory: str | os.PathLike[str], *, keep_days: float = KEEP_DAYS) -> None:
        self._directory = Path(directory)
        self.keep_days = _checked_days(keep_days)
        self._swept = -inf

    async def claim(self, key: str, nonce: str | None = None) -> bool:
        """Claims a tool call; see `CallJournal.claim`. The default nonce is a new random value."""
        return await anyio.to_thread.run_sync(self._create, self._path(key, "claim"), nonce or secrets.token_hex(16))

    async def finish(self, key: str, result: str) -> None:
        """Stores the result of a tool call that was claimed."""
        await anyio.to_thread.run_sync(self._write, self._path(key, "result"), result)

    async def result(self, key: str) -> str | None:
        """Returns the stored result of a tool call, or None."""
        return await anyio.to_thread.run_sync(self._read, self._path(key, "result"))

    async def end_run(self, run: str) -> None:
        """Records that a run has ended, and deletes the files of all runs that ended at least `keep_days` ago."""
        await anyio.to_thread.run_sync(self._end, self._directory / _digest(run))

    def _path(self, key: str, kind: str) -> Path:
        run, call = _names(key)
        return self._directory / run / f"{call}.{kind}"

    def _make_folder(self, folder: Path) -> None:
        for made in (self._directory, folder):
            if not made.is_dir():
                made.mkdir(parents=True, exist_ok=True, mode=0o700)
                _sync_folder(made.parent)

    def _create(self, path: Path, nonce: str) -> bool:
        self._make_folder(path.parent)
        try:
            _write_new(path, nonce)
        except FileExistsError:
            return self._read(path) == nonce
        return True

    def _write(self, path: Path, text: str) -> None:
        self._make_folder(path.parent)
        fresh = path.with_suffix(f".{secrets.token_hex(8)}")
        _write_new(fresh, text)
        _unless_open(partial(fresh.replace, path))  # a reader sees all of it or nothing
        _sync_folder(path.parent)

    def _read(self, path: Path) -> str | None:
        try:
            return _unless_open(path.read_bytes).decode("utf-8", "surrogatepass")
        except FileNotFoundError:
            return None

    def _end(self, folder: Path) -> None:
        if folder.is_dir():
            (folder / "ended").touch(mode=0o600)
        now = time()
        if now - self._swept < _DAY or not self._directory.is_dir():
            return
        self._swept = now
        for run in self._directory.iterdir():
            with suppress(FileNotFoundError, NotADirectoryError):  # the run hasn't ended, or its files were deleted
                # A day longer than saved states, because one may have been resumed just before it expired.
                if (run / "ended").stat().st_mtime < now - (self.keep_days + 1) * _DAY:
                    shutil.rmtree(run)


class StoreJournal:
    """A journal in a store: an SQLite file, or a Valkey or Redis server that several machines share.

    If the store is full or fails, the run raises an error before the tool starts. Entries never expire. If the server
    is configured to evict keys, the journal raises ConfigError.

    Args:
        store: a store, or a store's URL as for `streamfold.stores.open_store`. A store that you implement must keep
            claims as long as a state may be resumed, and declare this with `Retention(evicts=False, age=...)`.
        owner: the owner of the journal's entries in the store. Two journals with different owners share no entries.
        keep_days: the number of days after which the journal deletes the entries of an ended run. Resuming a run that
            began earlier raises ConfigError, because its tool calls could run twice. The journal never deletes the
            entries of an unfinished run.
    """

    def __init__(self, store: Store | str, *, owner: str = "", keep_days: float = KEEP_DAYS) -> None:
        self.store = open_store(store, _LASTING, table="calls") if isinstance(store, str) else store
        self._owner = owner
        self.keep_days = _checked_days(keep_days)
        self._swept = -1

    async def claim(self, key: str, nonce: str | None = None) -> bool:
        """Claims a tool call; see `CallJournal.claim`. The default nonce is a new random value.

        Raises:
            StoreError: the store can't be used.
            ConfigError: the server may evict stored entries.
        """
        record, name = self._record(key, "claim"), nonce or secrets.token_hex(16)
        if await self.store.put(self._owner, {record: name.encode("utf-8", "surrogatepass")}, new=True):
            return True
        found = (await self.store.get(self._owner, [record])).get(record)
        if found is None:
            raise StoreError(f"{self.store!r} can't store the claim of a tool call")
        return found == name.encode("utf-8", "surrogatepass")

    async def finish(self, key: str, result: str) -> None:
        """Stores the result of a tool call that was claimed. Raises StoreError or ConfigError."""
        value = result.encode("utf-8", "surrogatepass")
        if not await self.store.put(self._owner, {self._record(key, "result"): value}):
            raise StoreError(f"{self.store!r} can't store the result of a tool call")

    async def result(self, key: str) -> str | None:
        """Returns the stored result of a tool call, or None. Raises StoreError."""
        record = self._record(key, "result")
        found = (await self.store.get(self._owner, [record])).get(record)
        return None if found is None else found.decode("utf-8", "surrogatepass")

    async def end_run(self, run: str) -> None:
        """Records that a run has ended, and deletes all runs that ended at least `keep_days` ago. Raises StoreError."""
        today = int(time() // _DAY)
        await self.store.put(self._owner, {f"ended {today}/{_digest(run)}": b""})
        if self._swept == today:
            return
        self._swept = today
        kept = today - int(self.keep_days) - 1
        found = (await self.store.get(self._owner, ["swept"])).get("swept")
        for day in range(today if found is None else int(found), kept):
            for ended in await self.store.parts(self._owner, f"ended {day}"):
                await self.store.delete(self._owner, ended)
            await self.store.delete(self._owner, f"ended {day}")
        await self.store.put(self._owner, {"swept": b"%d" % (today if found is None else max(kept, int(found)))})

    def _record(self, key: str, kind: str) -> str:
        run, call = _names(key)
        return f"{run}/{call}.{kind}"


@dataclass(frozen=True, slots=True)
class CallKey:
    """Identifies one tool call of one run in a journal.

    Attributes:
        text: the tool call's key in the journal, as `call_key` returns it.
        call: the tool call.
        unanswered: the nonces of claims that failed, so that it is unknown whether the journal stored them. After a
            failed claim, the run doesn't start the tool call. A run's saved state contains the nonces.
    """

    text: str
    call: ToolCall
    unanswered: list[str] = field(default_factory=list)


async def run_once(journal: CallJournal, key: CallKey, run: Callable[[], Awaitable[ToolResult]]) -> ToolResult:
    """Claims a tool call in the journal, runs it, and returns its result. If another run has claimed the tool call,
    returns the result that the other run has stored.

    If the journal fails, streamfold retries the operation for a few seconds. If the claim still fails, its nonce is
    added to `key.unanswered`, and `run` isn't called.

    Args:
        run: a function that runs the tool call.

    Returns:
        The result. If the journal can't store the result, streamfold logs the error and returns the result anyway.

    Raises:
        CallInDoubtError: another run has claimed the tool call, and there is no result yet.
        Exception: the journal failed before `run` was called, or `run` raised the exception.
    """
    nonce = secrets.token_hex(16)
    try:
        claimed = await _claim(journal, key, nonce)
    except BaseException:
        key.unanswered.append(nonce)  # this run never starts the tool call, even if the claim was stored
        raise
    if not claimed:
        if (stored := await _retried(partial(journal.result, key.text))) is None:
            raise CallInDoubtError(key.call)
        return ToolResult.from_json(key.call, stored)
    result = await run()
    with anyio.CancelScope(shield=True):  # the tool has run, so its result must be stored
        try:
            await _retried(partial(journal.finish, key.text, result.to_json()))
        except (StoreError, OSError):
            _logger.exception("the result of the call %r of %s can't be stored", key.call.id, key.call.name)
    return result


async def claim_answer(journal: CallJournal, key: CallKey) -> None:
    """Claims the right to send the decision about a hosted tool call to the provider, so that only one run sends the
    decision.

    Raises:
        CallInDoubtError: another run has already sent the decision.
        Exception: the journal failed.
    """
    nonce = secrets.token_hex(16)
    try:
        claimed = await _claim(journal, CallKey(f"{key.text} answer", key.call, key.unanswered), nonce)
    except BaseException:
        key.unanswered.append(nonce)
        raise
    if not claimed:
        raise CallInDoubtError(key.call)


async def _claim(journal: CallJournal, key: CallKey, nonce: str) -> bool:
    # After a failed claim, only a run that is resumed from this state can repeat the claim.
    place = key.text
    for link in (*key.unanswered, nonce):  # each nonce claims the key of the previous nonce
        if not await _retried(partial(journal.claim, place, link)):
            return False
        place = f"{place} {link}"
    return True


async def end_runs(journal: CallJournal, keys: Iterable[str]) -> None:
    """Records that runs have ended. If the journal fails, the failure is only logged, because the answer is already
    complete.
    """
    end: Callable[[str], Awaitable[None]] | None = getattr(journal, "end_run", None)
    if end is None:
        return
    for run in sorted({key.partition("/")[0] for key in keys}):
        try:
            await end(run)
        except (StoreError, OSError) as error:
            _logger.warning("a journal could not record that a run has ended: %s", error)


def run_key(owner: str, run_id: str) -> str:
    """Returns the first part of a journal key, which identifies the run and its owner."""
    return _digest(json.dumps(["run", owner, run_id]))


def call_key(owner: str, run_id: str, position: int, call: ToolCall) -> str:
    """Returns the journal key of a tool call.

    All runs of the same saved state compute the same key for a tool call. Different tool calls have different keys.

    Args:
        position: the index of the assistant turn in the conversation. The key contains this index, because ids of tool
            calls may repeat in later turns.
    """
    return f"{run_key(owner, run_id)}/{_digest(json.dumps([position, *_identity(call)]))}"


@dataclass(frozen=True, slots=True)
class Approval:
    """A request for a person's approval of a tool call, as a journal stores it.

    Attributes:
        nonce: a random text that the application's server created, valid for one decision only.
        key: the journal key of the tool call, as `call_key` returns it.
    """

    nonce: str
    key: str


def approval_key(owner: str, chat_id: str, call: ToolCall) -> str:
    """Returns the journal key of the latest approval for a tool call with these arguments in an owner's chat.

    The client chooses the chat id. So under this key, the journal stores an `Approval` and never a result. The
    application's server verifies the nonce of the approval.
    """
    return f"{_digest(json.dumps(['approval', owner, chat_id, *_identity(call)]))}/approval"


async def store_approval(journal: CallJournal, key: str, approval: Approval) -> None:
    await _retried(partial(journal.finish, key, json.dumps([approval.nonce, approval.key])))


async def load_approval(journal: CallJournal, key: str) -> Approval | None:
    stored = await _retried(partial(journal.result, key))
    return None if stored is None else Approval(*json.loads(stored))


def required_journal(journal: CallJournal | None) -> CallJournal:
    """Returns the journal that signed approvals need. Raises ConfigError if the argument is None."""
    if journal is None:
        raise ConfigError(
            "signed approvals need a journal, so that each approval is used once: pass the same journal= to each run,"
            ' such as FileJournal("calls"), or StoreJournal("memory") within one process'
        )
    return journal


def check_age(journal: CallJournal | None, began: float) -> None:
    """Raises ConfigError if a run began so long ago that the journal may have deleted its entries."""
    days: float | None = getattr(journal, "keep_days", None)
    if days is not None and time() - began > days * _DAY:
        raise ConfigError(
            f"the state is too old to be resumed: the run began {(time() - began) / _DAY:.1f} days ago, and the journal"
            f" deletes entries after {days:g} days (keep_days), so a tool call could run twice. Start a new run"
        )


async def _retried(ask: Callable[[], Awaitable[T]]) -> T:
    # Each operation of a journal can be repeated safely.
    for pause in _PAUSES:
        try:
            return await ask()
        except (StoreError, OSError):
            await anyio.sleep(pause)
    return await ask()


def _identity(call: ToolCall) -> list[str]:
    return [call.id, call.name, canonical_json(call.arguments)]


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _names(key: str) -> tuple[str, str]:
    run, _, call = key.partition("/")
    return _digest(run), _digest(call)


def _checked_days(days: float) -> float:
    if not days > 0:
        raise ConfigError(f"keep_days must be greater than 0, not {days!r}")
    return days


def _write_new(path: Path, text: str) -> None:
    private = partial(os.open, mode=0o600)
    file: BinaryIO = _unless_open(lambda: open(path, "xb", opener=private))  # noqa: SIM115 - closed below
    try:
        with file:
            file.write(text.encode("utf-8", "surrogatepass"))
            file.flush()
            os.fsync(file.fileno())
    except BaseException:
        with suppress(OSError):
            path.unlink()
        raise
    _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    if os.name == "nt":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # the file system doesn't support it
            raise
    finally:
        os.close(descriptor)


def _unless_open(act: Callable[[], T]) -> T:
    # On Windows, a file can't be replaced while another process reads it.
    for _ in range(100):
        try:
            return act()
        except PermissionError:
            if os.name != "nt":
                raise
            sleep(0.01)
    return act()
