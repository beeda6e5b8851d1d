"""What a streamed chunk costs in streamfold, in a bare httpx loop and in the alternatives, side by side.

Each contestant is a process in an environment of its own (`worker.py`), and reads the same bytes over real HTTP from
the same server (`replay.py`). In each round every contestant streams each answer once, in shuffled order, so that
whatever else the machine does falls on all of them. What counts is CPU time of the contestant's process per event, and
its ratio to that of the floor, the cheapest bare loop, in the same round. A result that is not what the answer says is
shown as wrong, and has no time.

    python benchmarks/run.py --setup [NAME ...]     make the environments, once
    python benchmarks/run.py                        measure, print the table, write results/streams.json and the plot
    python benchmarks/run.py --quick                three rounds, no peers, for whoever changes the hot path
    python benchmarks/run.py --beside ../before     another checkout of streamfold as one more contestant
"""

from __future__ import annotations

import argparse
import json
import platform
import random
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import environments
import report
from environments import CONTESTANTS, FLOOR, HERE, PEERS, PLOT, ROOT, Contestant
from payloads import PAYLOADS, Payload, payload

DELIVERIES = {"one": 2000, "bulk": 2000, "live": 400}  # events that carry something
LIMIT = 120.0  # seconds for one answer
RESULTS = HERE / "results" / "streams.json"
PLOTTED = ROOT / "docs" / "cost.svg"


class Worker:
    """A contestant's process."""

    def __init__(self, contestant: Contestant) -> None:
        self.contestant = contestant
        words = [environments.python(contestant.environment), HERE / "worker.py", contestant.name]
        self._process = subprocess.Popen(
            [str(word) for word in words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=environments.clean_environment(contestant.tree),
        )
        started = self._read()
        self.versions = started.get("versions", {})
        self.error = started.get("error")

    def ask(self, answer: Payload, url: str) -> dict[str, Any]:
        """Streams one answer; what it took, or `error`."""
        if self._process.poll() is not None:
            return {"error": self.error or "the process has ended"}
        command = {"url": url, "api": answer.api, "dialect": answer.dialect, "repetitions": 1}
        assert self._process.stdin
        self._process.stdin.write(json.dumps(command) + "\n")
        self._process.stdin.flush()
        return self._read()

    def stop(self) -> None:
        assert self._process.stdin
        self._process.stdin.close()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()

    def _read(self) -> dict[str, Any]:
        assert self._process.stdout
        late = threading.Timer(LIMIT, self._process.kill)
        late.start()
        line = self._process.stdout.readline()
        late.cancel()
        read: dict[str, Any] = json.loads(line) if line else {"error": "the process died, or took too long"}
        return read


@contextmanager
def replay_server() -> Iterator[str]:
    """The base of the URLs at which the server answers."""
    words = [sys.executable, str(HERE / "replay.py")]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin
        assert process.stdout
        try:
            yield f"http://127.0.0.1:{int(process.stdout.readline())}"
        finally:
            process.stdin.close()


def measure(
    contestants: list[Contestant], scenarios: list[tuple[str, str]], rounds: int
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """One row for each run, and the versions that were measured."""
    rows = []
    with ExitStack() as stack:
        base = stack.enter_context(replay_server())
        workers = [Worker(contestant) for contestant in contestants]
        for worker in workers:
            stack.callback(worker.stop)
        for number in range(rounds):
            for name, delivery in scenarios:
                size = DELIVERIES[delivery]
                answer = payload(name, size)
                url = f"{base}/{name}/{delivery}/{size}/v1"
                able = [worker for worker in workers if answer.api in worker.contestant.apis]
                for worker in random.sample(able, len(able)):
                    got = worker.ask(answer, url)
                    rows.append(row(number, name, delivery, answer, worker.contestant, got))
            print(f"round {number + 1} of {rounds}", file=sys.stderr)
        return rows, {worker.contestant.title: worker.versions for worker in workers}


def row(
    number: int, name: str, delivery: str, answer: Payload, contestant: Contestant, got: dict[str, Any]
) -> dict[str, Any]:
    made: dict[str, Any] = {
        "round": number,
        "payload": name,
        "delivery": delivery,
        "contestant": contestant.title,
        "events": len(answer.events),
    }
    if "error" in got:
        return {**made, "result": "failed", "error": got["error"]}
    results = {answer.digest: "right", answer.digest_unread: "markup unread"}
    return {
        **made,
        "result": results.get(got["digest"], "wrong"),
        "us_per_event": got["cpu"] / len(answer.events) * 1e6,
        "chunks": got["chunks"],
    }


def chosen_contestants(arguments: argparse.Namespace) -> list[Contestant]:
    names = arguments.contestants or [
        contestant.name for contestant in CONTESTANTS if not (arguments.quick and contestant.name in PEERS)
    ]
    known = [contestant.name for contestant in CONTESTANTS]
    if unknown := [name for name in names if name not in known]:
        sys.exit(f"no such contestants: {', '.join(unknown)}. There are {', '.join(known)}")
    chosen = [contestant for contestant in CONTESTANTS if contestant.name in (FLOOR, *names)]
    for path in arguments.beside:
        for name in ("streamfold", "streamfold-aiohttp"):
            chosen.append(Contestant(name, "streamfold", Path(path).resolve(), f"{name} in {path}"))
    missing = [contestant.title for contestant in chosen if not environments.is_set_up(contestant.environment)]
    if FLOOR in missing:
        sys.exit("the environment of streamfold is not set up: benchmarks/run.py --setup streamfold")
    if missing:
        print(f"not set up, and left out: {', '.join(missing)} (benchmarks/run.py --setup)", file=sys.stderr)
    return [contestant for contestant in chosen if contestant.title not in missing]


def chosen_scenarios(arguments: argparse.Namespace) -> list[tuple[str, str]]:
    wanted = set(arguments.scenarios)
    every = [(name, delivery) for name in PAYLOADS for delivery in DELIVERIES]
    chosen = [(name, delivery) for name, delivery in every if wanted & {name, delivery, f"{name}:{delivery}"}]
    if wanted and not chosen:
        sys.exit(f"no such scenarios. There are {', '.join(PAYLOADS)}, each in the deliveries {', '.join(DELIVERIES)}")
    return chosen or every


def plot(results: Path, target: Path) -> None:
    if not environments.is_set_up(PLOT):
        print("no plot: its environment is not set up (benchmarks/run.py --setup plot)", file=sys.stderr)
        return
    target.parent.mkdir(exist_ok=True)
    subprocess.run([str(environments.python(PLOT)), str(HERE / "plot.py"), str(results), str(target)], check=True)


def words(value: str) -> list[str]:
    return [word for word in value.split(",") if word]


def main() -> None:
    parser = argparse.ArgumentParser(description="The cost of a streamed chunk, side by side.")
    parser.add_argument("--setup", nargs="*", metavar="NAME", help="make the environments, or only those named")
    parser.add_argument("--rounds", type=int, help="how often everybody runs (7, with --quick 3)")
    parser.add_argument("--quick", action="store_true", help="three rounds, without the peers; writes nothing")
    parser.add_argument("--contestants", type=words, default=[], metavar="A,B", help="only these")
    parser.add_argument(
        "--scenarios", type=words, default=[], metavar="A,B:one", help="only these payloads, deliveries"
    )
    parser.add_argument("--beside", action="append", default=[], metavar="PATH", help="another checkout of streamfold")
    parser.add_argument("--out", type=Path, help=f"where the results go ({RESULTS.relative_to(ROOT)})")
    parser.add_argument("--plot", action="store_true", help="only draw the plot of the results that are there")
    arguments = parser.parse_args()
    if arguments.setup is not None:
        try:
            failed = environments.set_up(arguments.setup or list(environments.REQUIREMENTS))
        except ValueError as error:
            sys.exit(str(error))
        sys.exit(f"could not be set up: {', '.join(failed)}" if failed else None)
    results = arguments.out or RESULTS
    if arguments.plot:
        plot(results, PLOTTED)
        return
    contestants, scenarios = chosen_contestants(arguments), chosen_scenarios(arguments)
    rows, versions = measure(contestants, scenarios, arguments.rounds or (3 if arguments.quick else 7))
    found = {"python": platform.python_version(), "versions": versions, "runs": rows}
    print(report.table(found))
    whole = not (arguments.quick or arguments.contestants or arguments.scenarios or arguments.beside)
    if arguments.out or whole:
        results.parent.mkdir(exist_ok=True)
        results.write_text(json.dumps(found, indent=1) + "\n", "utf-8")
    if whole:
        plot(results, PLOTTED)


if __name__ == "__main__":
    main()
