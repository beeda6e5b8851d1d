"""What `streamfold serve --ui` costs for each event while nobody looks: CPU time of two gateways, asked in pairs.

python benchmarks/bench_live_page.py [ROUNDS]        twelve, if not said otherwise
"""

from __future__ import annotations

import os
import random
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median

from bench_gateway import KEY, SCENARIOS, SIZES, ask, cpu, free_port, judged, streamfold_command
from payloads import payload
from run import replay_server

ANSWERS = 2  # in one measurement
LEAST = "least of all rounds"


@contextmanager
def serving(folder: Path, base: str, *words: str) -> Iterator[tuple[int, str]]:
    """A gateway: its process id, and its host with the port."""
    port = free_port()
    command = [sys.executable, *streamfold_command(folder, base, port), *words]
    environment = {**os.environ, "BENCH_KEY": KEY}
    with (
        (folder / "log").open("w") as said,
        subprocess.Popen(command, stdout=said, stderr=said, env=environment) as process,
    ):
        try:
            while True:
                with socket.socket() as trial:
                    if trial.connect_ex(("127.0.0.1", port)) == 0:
                        break
                if process.poll() is not None:
                    sys.exit((folder / "log").read_text())
                time.sleep(0.1)
            yield process.pid, f"127.0.0.1:{port}"
        finally:
            process.terminate()
            process.wait(30)


def main() -> None:
    if not Path("/proc/self/stat").exists():
        print("left out: there is no /proc, which tells the CPU time of another process")
        return
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 12
    with ExitStack() as stack:
        base = stack.enter_context(replay_server())
        servers = {}
        for name, words in {"without": (), "with": ("--ui",)}.items():
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            servers[name] = stack.enter_context(serving(folder, base, *words))
        print(f"{'':28s}{'µs of CPU per event':>24s}{'with / without: median of pairs':>36s}{LEAST:>22s}")
        for scenario, delivery in SCENARIOS:
            answer, model = payload(scenario, SIZES[delivery]), f"{scenario}-{delivery}"
            took: dict[str, list[float]] = {name: [] for name in servers}
            for number in range(rounds + 1):  # the first one warms up
                for name in random.sample(list(servers), len(servers)):
                    pid, address = servers[name]
                    began = cpu(pid)
                    verdicts = {judged(ask(address, model), answer) for _ in range(ANSWERS)}
                    assert verdicts == {"right"}, verdicts
                    if number:
                        took[name].append((cpu(pid) - began) / ANSWERS / len(answer.events) * 1e6)
            pairs = median(one / other for one, other in zip(took["with"], took["without"], strict=True))
            least = min(took["with"]) / min(took["without"])
            spent = f"{median(took['without']):.1f} and {median(took['with']):.1f}"
            print(f"{answer.title + ', ' + delivery:28.28s}{spent:>24s}{pairs:>36.3f}{least:>22.3f}")


if __name__ == "__main__":
    main()
