"""The answers of a job as a file, and the ledgers of several shards and models together."""

from __future__ import annotations

import errno
import json
import os
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest

from folding import DONE, text
from streamfold import ConfigError, Provider, Tool
from streamfold.testing import ScriptedProvider
from streamfold_jobs import Ledger, batch, check_output, export


def provider(*, shout: bool = False, **settings: Any) -> Provider:
    """A model that says what it is asked."""

    def answer(request: httpx.Request) -> httpx.Response:
        said = json.loads(request.content)["messages"][-1]["content"]
        if said == "bad":
            return httpx.Response(400, json={"error": {"message": "no"}})
        return httpx.Response(200, content=text(said.upper() if shout else said) + DONE)

    client = httpx.AsyncClient(transport=httpx.MockTransport(answer))
    return Provider.from_config({"base_url": "http://127.0.0.1:9/v1", "model": "m", **settings}, http_client=client)


async def job(path: Path, prompts: list[str], model: Provider | None = None, **settings: Any) -> None:
    given = [{"id": f"r{number}", "prompt": prompt} for number, prompt in enumerate(prompts)]
    async with batch(model or provider(), given, ledger=path, **settings) as running:
        await running.run()


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_bytes().split(b"\n")[:-1]]


HARD = ["plain", "bad", "two\nlines", "\u2028 and \ud83d alone", "日本語 👋"]


async def test_lines_in_the_order_of_the_rows(tmp_path: Path) -> None:
    """Each is one line of JSON, whatever the text is; an error is one too."""
    await job(tmp_path / "ledger", HARD)
    with Ledger(tmp_path / "ledger", readonly=True) as ledger:
        assert export([ledger], tmp_path / "out.jsonl") == 5
    found = lines(tmp_path / "out.jsonl")
    assert [line["id"] for line in found] == [f"r{number}" for number in range(5)]
    assert [line.get("text") for line in found] == ["plain", None, "two\nlines", "\u2028 and \ufffd alone", "日本語 👋"]
    assert found[1]["error"] == {
        "type": "BadRequestError", "message": "custom: no (HTTP 400)", "retryable": False, "status_code": 400,
    }  # fmt: skip
    assert "日本語".encode() in (tmp_path / "out.jsonl").read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["ledger", "ledger.lock", "out.jsonl"]


async def test_shards_that_are_no_whole_job(tmp_path: Path) -> None:
    """Those of different splits have rows in common; a merged file must not leave rows out."""
    prompts = [str(number) for number in range(6)]
    for name, shard in {"0of2": (0, 2), "1of2": (1, 2), "0of3": (0, 3), "1of3": (1, 3)}.items():
        await job(tmp_path / name, prompts, shard=shard)
    await job(tmp_path / "tools", prompts, shard=(1, 2), tools=[Tool("f", parameters={})])
    rows = [{"id": f"r{number}", "prompt": text} for number, text in enumerate(prompts)]
    async with batch(provider(), rows, ledger=tmp_path / "begun", shard=(1, 2)):
        pass  # left before its answers
    out = tmp_path / "out.jsonl"
    with ExitStack() as stack:
        opened = {
            path.name: stack.enter_context(Ledger(path, readonly=True))
            for path in tmp_path.iterdir()
            if path.suffix == ""
        }
        for names, problem in {
            "0of2 0of3": "different numbers of shards, so they share rows: 0/2, 0/3",
            "0of3 1of3 1of2": "different numbers of shards",
            "0of2 tools": "they differ in tools",
            "0of3 1of3": r"missing rows: shard 2/3, 2 rows\. `streamfold batch export` writes the answers so far",
            "0of2": "shard 1/2, 3 rows",
            "0of2 begun": r"begun has \d of its 3 rows",
        }.items():
            with pytest.raises(ConfigError, match=problem):
                export([opened[name] for name in names.split()], out, whole=True)
        assert not out.exists()
        assert export([opened["0of3"], opened["1of3"]], out) == 4
        assert export([opened["1of2"], opened["0of2"]], out, whole=True) == 6


@pytest.mark.skipif(os.name == "nt", reason="files have no such modes there")
async def test_a_ledger_is_for_its_user_alone(tmp_path: Path) -> None:
    """It holds prompts and answers. Where a link is in its place, somebody else may have put it there."""
    await job(tmp_path / "ledger", ["1"])
    modes = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.iterdir()}
    assert modes == {"ledger": 0o600, "ledger.lock": 0o600}
    for name in ("other", "third.lock"):
        (tmp_path / name).symlink_to(tmp_path / "precious")
        with pytest.raises(ConfigError, match="it is a symbolic link; name the target file"):
            await job(tmp_path / name.removesuffix(".lock"), ["1"])
    assert not (tmp_path / "precious").exists()


@pytest.mark.slow
async def test_shards_are_merged(tmp_path: Path) -> None:
    """Their rows come out as if one job had asked for all."""
    prompts = [str(number) for number in range(20)]
    for part in range(3):
        await job(tmp_path / str(part), prompts, shard=(part, 3))
    await job(tmp_path / "other", ["x"])
    with ExitStack() as stack:
        *ledgers, other = [
            stack.enter_context(Ledger(tmp_path / name, readonly=True)) for name in ("2", "0", "1", "other")
        ]
        assert export(ledgers, tmp_path / "out.jsonl") == 20
        with pytest.raises(ConfigError, match="two of the ledgers belong to the same shard"):
            export([ledgers[0], ledgers[0]], tmp_path / "again.jsonl")
        with pytest.raises(ConfigError, match="belong to different jobs: they differ in rows"):
            export([ledgers[0], other], tmp_path / "again.jsonl")
    assert [line["text"] for line in lines(tmp_path / "out.jsonl")] == prompts
    assert not (tmp_path / "again.jsonl").exists()


async def test_parquet_in_and_out(tmp_path: Path) -> None:
    """Rows are read from a table, and answers written to one."""
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    table = pyarrow.table(
        {"id": ["a", "b"], "prompt": ["one", None], "messages": [None, [{"role": "user", "content": "two"}]]}
    )
    parquet.write_table(table, tmp_path / "rows.parquet")
    async with batch(provider(), tmp_path / "rows.parquet", ledger=tmp_path / "ledger") as running:
        await running.run()
    with Ledger(tmp_path / "ledger", readonly=True) as ledger:
        export([ledger], tmp_path / "out.parquet")
    found = parquet.read_table(tmp_path / "out.parquet").to_pylist()
    assert [(row["id"], row["text"], row["finish_reason"]) for row in found] == [
        ("a", "one", "unknown"),
        ("b", "two", "unknown"),
    ]
    parquet.write_table(pyarrow.table({"question": ["x"]}), tmp_path / "wrong.parquet")
    with pytest.raises(ConfigError, match="there is no column named prompt or messages or body"):
        async with batch(provider(), tmp_path / "wrong.parquet"):
            pass


async def test_what_is_no_single_value_is_json_text(tmp_path: Path) -> None:
    """A column has one type: messages and options may be text, and warnings and tool calls of answers are text."""
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    messages = json.dumps([{"role": "user", "content": "one"}])
    columns = {"messages": [messages, "[", None], "options": ['{"seed": 1}', None, None], "body": [None, None, "[]"]}
    parquet.write_table(pyarrow.table(columns), tmp_path / "rows.parquet")
    async with batch(provider(), tmp_path / "rows.parquet", ledger=tmp_path / "ledger") as running:
        await running.run()
    with Ledger(tmp_path / "ledger", readonly=True) as ledger:
        export([ledger], tmp_path / "out.parquet")
    first, second, third = parquet.read_table(tmp_path / "out.parquet").to_pylist()
    assert (first["text"], first["error"], first["tool_calls"], first["refusal"]) == ("one", None, "[]", None)
    assert [warning["code"] for warning in json.loads(first["warnings"])] == ["missing_finish_reason"]
    assert json.loads(second["error"])["message"].startswith("rows.parquet, row 2: messages: not JSON")
    assert json.loads(third["error"])["message"] == "rows.parquet, row 3: body: must be an object, not list"


def test_outputs_that_can_not_be_written(tmp_path: Path) -> None:
    """They are refused before anything is asked."""
    with pytest.raises(ConfigError, match=r"answers are written to \.jsonl, \.ndjson and \.parquet files"):
        check_output(tmp_path / "out.csv")
    with pytest.raises(ConfigError, match="can't be written"):
        check_output(tmp_path / "nowhere" / "out.jsonl")
    (tmp_path / "folder.jsonl").mkdir()
    with pytest.raises(ConfigError, match="can't be written"):
        check_output(tmp_path / "folder.jsonl")


async def test_an_output_on_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error has the name of the file, and what was there before stays."""
    await job(tmp_path / "ledger", ["a"])
    (tmp_path / "out.jsonl").write_text("before")

    def full(file: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with Ledger(tmp_path / "ledger", readonly=True) as ledger, pytest.raises(OSError, match=r"No space.*out\.jsonl"):
        export([ledger], tmp_path / "out.jsonl")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["ledger", "ledger.lock", "out.jsonl"]
    assert (tmp_path / "out.jsonl").read_text() == "before"


async def test_rows_in_utf_16(tmp_path: Path) -> None:
    """They are refused as a whole, before anything is asked."""
    (tmp_path / "rows.jsonl").write_text('{"prompt": "x"}\n', "utf-16")
    with pytest.raises(ConfigError, match="this file is UTF-16"):
        async with batch(provider(), tmp_path / "rows.jsonl"):
            pass


def test_a_ledger_that_is_not_there(tmp_path: Path) -> None:
    """Looking for one does not make one."""
    with pytest.raises(ConfigError, match="this ledger doesn't exist"):
        Ledger(tmp_path / "ledger", readonly=True)
    assert list(tmp_path.iterdir()) == []


def test_parquet_needs_its_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A job says what to install before it sends anything, for rows and for answers."""
    monkeypatch.setattr("streamfold_jobs.rows.find_spec", lambda name: None)
    install = r'rows.parquet: Parquet needs pyarrow: pip install "streamfold-jobs\[parquet\]"'
    with pytest.raises(ConfigError, match=install):
        batch(ScriptedProvider(), tmp_path / "rows.parquet")
    with pytest.raises(ConfigError, match=install):
        check_output(tmp_path / "rows.parquet")
