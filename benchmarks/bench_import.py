"""What importing streamfold adds to importing httpx and pydantic, which nearly every program that uses it has anyway.

Each import runs in a process of its own, several times in turn; the medians are printed.

    python benchmarks/bench_import.py [RUNS]
"""

from __future__ import annotations

import os
import subprocess
import sys
from statistics import median

# Half of pydantic is imported by the first model that is made of it.
BASE = "import httpx, pydantic; pydantic.create_model('Model', field=(int, 1))"
CASES = {
    "httpx + pydantic, one model": (BASE, ""),
    "+ streamfold": (BASE, "import streamfold"),
    "+ streamfold.Provider": (BASE, "import streamfold; streamfold.Provider"),
    "streamfold alone (pure core)": ("", "import streamfold"),
    "streamfold.Provider alone": ("", "import streamfold; streamfold.Provider"),
}
PROBE = """
import sys
from time import perf_counter
began = perf_counter()
{before}
middle = perf_counter()
{after}
print((middle - began) * 1e3, (perf_counter() - middle) * 1e3, len(sys.modules))
"""


def run(before: str, after: str) -> tuple[float, float, int]:
    """Milliseconds for what is before, for what is after, and the number of modules."""
    code = PROBE.format(before=before, after=after)
    # Compiled once, as it is for whoever installed it.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    words = [sys.executable, "-c", code]
    out = subprocess.run(words, capture_output=True, text=True, check=True, env=environment).stdout.split()
    return float(out[0]), float(out[1]), int(out[2])


def main() -> None:
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 7
    for before, after in CASES.values():
        run(before, after)
    measured: dict[str, list[tuple[float, float, int]]] = {name: [] for name in CASES}
    for _ in range(runs):
        for name, (before, after) in CASES.items():
            measured[name].append(run(before, after))
    print(f"{'import':30s} {'ms':>8s} {'modules':>8s}")
    for name, rows in measured.items():
        which = 1 if CASES[name][1] else 0
        print(f"{name:30s} {median(row[which] for row in rows):8.1f} {rows[0][2]:8d}")


if __name__ == "__main__":
    main()
