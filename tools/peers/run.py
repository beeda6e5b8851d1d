"""Runs the test suites of other projects with `RepairTransport` below their clients, and without.

    python tools/peers/run.py [NAME...] [--folder .peers] [--json results.json]

Each suite gets an environment of its own. No test that passes without us may fail with us, apart from the exceptions in
`peers.toml`, which are of at most ten kinds, each with its reason. Exit 1 if there are others, more or fewer, or if a
suite was stopped before its end.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tarfile
import tomllib
import venv
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from shutil import copytree
from typing import Any, TypeAlias

HERE = Path(__file__).resolve().parent
MOST_EXCEPTIONS = 10
SECONDS = 1800  # for one run of a suite

Outcomes: TypeAlias = dict[str, tuple[str, str]]  # by test: outcome, and the last line of what failed


@dataclass(frozen=True, slots=True)
class Peer:
    """A suite: see `peers.toml`.

    Attributes:
        requirement: what is installed, with its version.
        tests: what is run, below the folder that holds the tests.
        without: what is not run.
        requires: what the tests need besides.
        options: words for pytest.
        variables: what is set in the environment, from which keys of APIs are taken away.
        in_wheel: the tests are in the installed package; otherwise they are in the source distribution.
        exceptions: what may fail with us, by the reason: the beginnings of the names of tests, and how many those are.
    """

    name: str
    requirement: str
    tests: list[str]
    without: list[str]
    requires: list[str]
    options: list[str] = field(default_factory=list)
    variables: Mapping[str, str] = field(default_factory=dict)
    in_wheel: bool = False
    exceptions: Mapping[str, Mapping[str, int]] = field(default_factory=dict)

    def reason(self, test: str) -> str | None:
        """Returns why a test may fail with us: it is listed, or its function or file is."""
        return next((why for why, tests in self.exceptions.items() if test.startswith(tuple(tests))), None)


def main() -> int:
    """Runs the suites that are named, or all. Returns the exit code."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("names", nargs="*")
    parser.add_argument("--folder", type=Path, default=Path(".peers"))
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    peers = read_peers(HERE / "peers.toml")
    if unknown := set(given.names) - peers.keys():
        parser.error(f"no such suites: {', '.join(sorted(unknown))}. There are {', '.join(peers)}")
    problems, found = exceptions_problem(peers), {}
    for peer in peers.values():
        if not given.names or peer.name in given.names:
            python, tests = installed(peer, given.folder.resolve() / peer.name)
            found[peer.name] = {how: run(peer, python, tests, how) for how in ("without", "with")}
            problems += report(peer, found[peer.name]["without"], found[peer.name]["with"])
            problems += [
                f"{peer.name}, {how} us: stopped after {SECONDS} seconds; what had not run by then is not compared"
                for how in ("without", "with")
                if (tests.parent / f"{how}.stopped").exists()
            ]
    if given.json:
        given.json.write_text(json.dumps(found, indent=1))
    for problem in problems:
        print(problem)
    return 1 if problems else 0


def read_peers(path: Path) -> dict[str, Peer]:
    """Returns the suites that a file describes."""
    return {name: Peer(name, **values) for name, values in tomllib.loads(path.read_text("utf-8")).items()}


def exceptions_problem(peers: Mapping[str, Peer]) -> list[str]:
    """Returns what is wrong with the list of exceptions."""
    listed = {why for peer in peers.values() for why in peer.exceptions}
    return [] if len(listed) <= MOST_EXCEPTIONS else [f"{len(listed)} exceptions; at most {MOST_EXCEPTIONS} may be"]


def installed(peer: Peer, folder: Path) -> tuple[Path, Path]:
    """Makes the environment of a suite, unless it is there. Returns its Python, and the folder with the tests."""
    python = folder / "venv" / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")
    tests = folder / "suite"
    if not (folder / "complete").exists():
        venv.create(folder / "venv", with_pip=True, clear=True)
        pip = [str(python), "-m", "pip", "--disable-pip-version-check", "-q"]
        ours = ["-e", str(HERE.parents[1]), "-e", str(HERE.parents[1] / "packages" / "repair")]
        subprocess.run([*pip, "install", peer.requirement, *peer.requires, *ours], check=True)
        if peer.in_wheel:
            code = "import sysconfig; print(sysconfig.get_path('purelib'))"
            where = subprocess.run([str(python), "-c", code], check=True, capture_output=True, text=True).stdout.strip()
            tests.unlink(missing_ok=True)
            tests.symlink_to(where, target_is_directory=True)
        else:
            unpack(pip, peer.requirement, folder, tests)
        (folder / "complete").touch()
    return python, tests


def unpack(pip: list[str], requirement: str, folder: Path, tests: Path) -> None:
    """Fetches the source distribution of a package, and puts what is in it into a folder."""
    package = requirement.partition("==")[0].partition("[")[0]
    plain = f"{package}=={requirement.partition('==')[2]}"
    downloads = folder / "sdist"
    words = ["download", "--no-deps", "--no-binary", package, "-d", str(downloads), plain]
    subprocess.run([*pip, *words], check=True)
    (archive,) = downloads.glob("*.tar.gz")
    with tarfile.open(archive) as packed:
        packed.extractall(downloads, filter="data")
    (unpacked,) = (path for path in downloads.iterdir() if path.is_dir())
    copytree(unpacked, tests, dirs_exist_ok=True)


def run(peer: Peer, python: Path, tests: Path, how: str) -> Outcomes:
    """Runs a suite once, and returns what became of each of its tests."""
    results = tests.parent / f"{how}.jsonl"
    stopped = tests.parent / f"{how}.stopped"
    results.unlink(missing_ok=True)
    stopped.unlink(missing_ok=True)
    words = ["-p", "streamfold_peers", "-p", "no:cacheprovider", "-q", "--no-header", "--tb=line"]
    words += [f"--ignore={path}" for path in peer.without] + peer.options + peer.tests
    environment = {name: value for name, value in os.environ.items() if not name.endswith("_API_KEY")}
    environment |= peer.variables
    environment |= {"STREAMFOLD_PEERS": how, "STREAMFOLD_PEERS_RESULTS": str(results), "PYTHONPATH": str(HERE)}
    log = tests.parent / f"{how}.log"
    with log.open("w") as output:
        command = [str(python), "-m", "pytest", *words]
        try:
            subprocess.run(
                command, cwd=tests, env=environment, stdout=output, stderr=output, timeout=SECONDS, check=False
            )
        except subprocess.TimeoutExpired:
            stopped.touch()
    return read_outcomes(results)


def read_outcomes(path: Path) -> Outcomes:
    """Returns the worst outcome of each test."""
    found: Outcomes = {}
    for line in path.read_text("utf-8").splitlines() if path.exists() else ():
        entry = json.loads(line)
        if entry["outcome"] != "passed" or entry["test"] not in found:
            found[entry["test"]] = (entry["outcome"], entry["why"])
    return found


def report(peer: Peer, without: Outcomes, with_us: Outcomes) -> list[str]:
    """Prints what became of a suite. Returns what is wrong: new failures, and exceptions that are not needed."""
    passed = [test for test, (outcome, _) in without.items() if outcome == "passed"]
    failing = {test: with_us.get(test, ("missing", ""))[1] for test in passed if not _passes(test, with_us)}
    print(
        f"{peer.name} ({peer.requirement}): {len(passed)} pass without us, {len(passed) - len(failing)} of them with us"
    )
    for reason, count in Counter(map(peer.reason, failing)).items():
        print(f"  {count}: {reason or 'not listed'}")
    new = [f"{peer.name}: {test} fails with us: {why}" for test, why in failing.items() if peer.reason(test) is None]
    counts = {listed: sum(test.startswith(listed) for test in failing) for listed in _listed(peer)}
    others = [
        f"{peer.name}: {listed} is listed with {number} tests ({why}), and {counts[listed]} fail"
        for why, tests in peer.exceptions.items()
        for listed, number in tests.items()
        if counts[listed] != number
    ]
    return new + others if passed else [f"{peer.name}: no test passes without us; see its log"]


def _listed(peer: Peer) -> list[str]:
    return [listed for tests in peer.exceptions.values() for listed in tests]


def _passes(test: str, outcomes: Outcomes) -> bool:
    found: Any = outcomes.get(test)
    return found is not None and found[0] == "passed"


if __name__ == "__main__":
    sys.exit(main())
