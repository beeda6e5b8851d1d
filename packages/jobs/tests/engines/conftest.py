"""Data engines ask a counting server: `nox -s engines`. Without an engine, its tests are skipped."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from engine_jobs import Server

from processes import free_port


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    """A counting server that takes a tenth of a second, more or less, for an answer."""
    port, notes = free_port(), tmp_path / "notes"
    notes.touch()
    command = [sys.executable, Path(__file__).with_name("counting_server.py"), str(port), notes, "0.1"]
    with subprocess.Popen(command) as process:
        yield Server(port, notes)
        process.kill()


@pytest.fixture
def folder(tmp_path: Path, server: Server) -> Path:
    """A folder with the configuration of a job."""
    (tmp_path / "streamfold.toml").write_text(
        f'[providers.main]\nbase_url = "http://127.0.0.1:{server.port}/v1"\nmodel = "m"\napi_key_env = "JOB_KEY"\n',
        "utf-8",
    )
    return tmp_path
