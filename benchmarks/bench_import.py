"""What importing streamfold takes beside httpx and pydantic, which nearly every program that uses it has anyway.

Each import runs in a process of its own, several times in turn; the least CPU time and the median peak of the memory
are printed, and the ratio to `import httpx, pydantic` with one model, which imports the other half of pydantic. Other
libraries are there if their environments are (`benchmarks/run.py --setup`), each with its way to a client.

    python benchmarks/bench_import.py [RUNS]
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from statistics import median

import environments
from environments import PEERS

BASE = "import httpx, pydantic; pydantic.create_model('Model', field=(int, 1))"
OURS = {
    "httpx + pydantic, one model": BASE,
    "streamfold": "import streamfold",
    "streamfold, Provider": "from streamfold import Provider",
    "streamfold, from_config": "from streamfold import Provider; Provider.from_config('openai:gpt-5-mini')",
    "  the same, after httpx + pydantic": f"{BASE}; from streamfold import Provider",
}
THEIRS = {
    "openai": "from openai import AsyncOpenAI",
    "pydantic-ai": "from pydantic_ai.direct import model_request_stream; import pydantic_ai.models.openai",
    "litellm": "import litellm",
    "langchain-openai": "from langchain_openai import ChatOpenAI",
    "any-llm": "from any_llm import AnyLLM",
}
PROBE = """
import sys
sys.path.append({here!r})
from memory import peak
from time import process_time
before, began = len(sys.modules), process_time()
{code}
print((process_time() - began) * 1e3, peak() / 2**20, len(sys.modules) - before)
"""


def run(python: Path, code: str) -> tuple[float, float, int]:
    """Milliseconds of CPU, the peak of the memory in MiB, and the number of modules."""
    words = [str(python), "-c", PROBE.format(code=code, here=str(environments.HERE))]
    variables = environments.clean_environment()  # compiled once, as it is for whoever installed it
    out = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True, env=variables, text=True)
    took, memory, modules = out.stdout.split()[-3:]
    return float(took), float(memory), int(modules)


def main() -> None:
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 7
    cases = {name: (Path(sys.executable), code) for name, code in OURS.items()}
    cases |= {name: (environments.python(name), THEIRS[name]) for name in PEERS if environments.is_set_up(name)}
    measured: dict[str, list[tuple[float, float, int]]] = {name: [] for name in cases}
    for number in range(runs + 1):
        for name, (python, code) in cases.items():
            result = run(python, code)
            if number:  # the first run compiles
                measured[name].append(result)
    print(f"{'import':36s} {'CPU':>9s} {'of the first':>13s} {'peak':>10s} {'of the first':>13s} {'modules':>8s}")
    first: tuple[float, float] | None = None
    for name, results in measured.items():
        took, memory = min(result[0] for result in results), median(result[1] for result in results)
        first = first or (took, memory)
        print(
            f"{name:36s} {took:6.0f} ms {took / first[0]:12.2f}x {memory:6.1f} MiB {memory / first[1]:12.2f}x"
            f" {results[0][2]:8d}"
        )


if __name__ == "__main__":
    main()
