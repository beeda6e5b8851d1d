"""What a checkout and its tests need on Windows; `nox -s windows` runs the tests as if they were there."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SIMULATION = ROOT / "tests" / "support" / "windows"

# Run in a folder below "pytest-of-", whose files have the rules of Windows, and as a module of the repository.
CODE = """
import asyncio, os, signal, sys, time
assert (sys.platform, os.name) == ("win32", "nt")
assert not [name for name in ("SIGHUP", "SIGKILL", "SIGSTOP") if hasattr(signal, name)]
assert not hasattr(os, "fork") and hasattr(os, "kill")
try:
    import fcntl
except ImportError:
    import msvcrt
else:
    raise AssertionError(fcntl)


def refused(error, function, *arguments):
    try:
        function(*arguments)
    except error:
        return
    raise AssertionError(function)


async def main():
    refused(NotImplementedError, asyncio.get_running_loop().add_signal_handler, signal.SIGTERM, print)
    refused(NotImplementedError, asyncio.get_running_loop().add_reader, 0, print)


asyncio.run(main())
with open("a.txt", "w") as file:
    file.write("1\\n")
    file.flush()
    refused(PermissionError, os.remove, "a.txt")
    refused(PermissionError, os.replace, "a.txt", "b.txt")
assert open("a.txt", "rb").read() == b"1\\r\\n"
open("b.txt", "w").close()
refused(FileExistsError, os.rename, "a.txt", "b.txt")
os.replace("a.txt", "b.txt")
refused(OSError, open, "B.txt", "w")
refused(OSError, open, "a:b.txt", "w")
refused(OSError, open, "nul.txt", "w")
assert time.monotonic() * 64 % 1 == 0
"""


@pytest.mark.skipif(sys.platform == "win32", reason="this is no simulation")
def test_the_simulation_has_the_limits_of_windows(tmp_path: Path) -> None:
    """What is not there is missing, and files that are open stay where they are."""
    words = f"__file__ = {str(ROOT / 'made.py')!r}\nexec(compile({CODE!r}, __file__, 'exec'), globals())"
    env = {**os.environ, "PYTHONPATH": str(SIMULATION)}
    done = subprocess.run([sys.executable, "-c", words], cwd=tmp_path, env=env, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()


def test_every_file_can_be_checked_out_on_windows() -> None:
    """No two names differ by case alone, and none has a character, an ending or a length that Windows refuses."""
    if not (ROOT / ".git").exists():
        pytest.skip("this is not a checkout")
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout
    names = listed.decode().split("\0")[:-1]
    assert len(names) > 500
    assert [name for name, count in Counter(name.lower() for name in names).items() if count > 1] == []
    parts = {part for name in names for part in name.split("/")}
    assert [part for part in parts if set(part) & set('<>:"|?*\\') or part[-1] in ". "] == []
    reserved = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(\..*)?", re.IGNORECASE)
    assert [part for part in parts if reserved.fullmatch(part)] == []
    assert [name for name in names if len(name) > 160] == []  # of 260 with the folder of the checkout


def test_what_is_skipped_there_is_skipped_with_a_reason() -> None:
    """A test that needs POSIX says so by name, and says what it needs."""
    tests = [*(ROOT / "tests").rglob("test_*.py"), *(ROOT / "packages").glob("*/tests/**/test_*.py")]
    pattern = re.compile(r'skipif\((?:os\.name|sys\.platform) [!=]= "(?:nt|posix|win32)"(?P<rest>[^\n]*)')
    marks = [(path.name, found["rest"]) for path in tests for found in pattern.finditer(path.read_text("utf-8"))]
    assert len(marks) > 10
    assert [mark for mark in marks if not re.match(r', reason="[^"]{5,}"\)', mark[1])] == []
