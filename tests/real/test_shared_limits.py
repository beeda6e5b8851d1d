"""Four processes that share a limit in a real Valkey or Redis, and are killed."""

from __future__ import annotations

import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from valkeys import valkey_server

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "bench_limits.py"


@pytest.mark.slow
def test_four_processes_and_six_kills(tmp_path: Path) -> None:
    """Nearly all of the limit is used, whoever dies, and never more than that."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    with valkey_server(tmp_path, "--port", port, "--bind", "127.0.0.1"):
        command = [sys.executable, str(BENCHMARK), "--store", f"valkey://127.0.0.1:{port}", "--seconds", "14"]
        # Twenty a second: what the limit allows, and not what a busy machine manages, decides how much is used.
        command += ["--rate", "20", "--kills", "6"]
        out = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout
    used, worst = re.search(r"([\d.]+) % of the limit", out), re.search(r"worst 10 s: ([\d.]+) %", out)
    assert used is not None
    assert worst is not None
    assert float(used[1]) >= 90
    assert float(worst[1]) <= 102
