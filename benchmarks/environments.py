"""The environments that the contestants run in: one for streamfold and the bare loops, one for each other library.

They share no package, since no two of these libraries want the same versions for long; and a library that can't be
installed leaves the others alone. The folder is `benchmarks/.venvs`, or what STREAMFOLD_BENCH_VENVS names.
"""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

__all__ = ["CONTESTANTS", "PEERS", "PLOT", "ROOT", "Contestant", "clean_environment", "is_set_up", "python", "set_up"]

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
FOLDER = Path(os.environ.get("STREAMFOLD_BENCH_VENVS") or HERE / ".venvs")

REQUIREMENTS: dict[str, list[str]] = {
    "streamfold": ["-e", f"{ROOT}[aiohttp,cli,gateway]"],
    "openai": ["openai"],
    "pydantic-ai": ["pydantic-ai-slim[openai]"],
    "litellm": ["litellm", "mcp"],  # it imports mcp when it is called, and does not ask for it
    "langchain-openai": ["langchain-openai"],
    "any-llm": ["any-llm-sdk[openai]"],
    "litellm-proxy": ["litellm[proxy]"],
    "plot": ["matplotlib"],
}
PLOT = "plot"


@dataclass(frozen=True)
class Contestant:
    """Who is measured.

    Attributes:
        name: its module in `contestants/`, and what the table calls it.
        environment: one of REQUIREMENTS.
        tree: the checkout of streamfold that it imports.
        label: what the table calls it instead.
    """

    name: str
    environment: str
    tree: Path = ROOT
    label: str = ""

    @property
    def title(self) -> str:
        return self.label or self.name


PEERS = ("openai", "pydantic-ai", "litellm", "langchain-openai", "any-llm")
CONTESTANTS = [
    *(Contestant(name, "streamfold") for name in ("bare", "httpx-sse", "streamfold", "streamfold-aiohttp")),
    *(Contestant(name, name) for name in PEERS),
]


def python(environment: str) -> Path:
    """The interpreter of an environment."""
    folder = FOLDER / environment
    return folder / "Scripts" / "python.exe" if sys.platform == "win32" else folder / "bin" / "python"


def is_set_up(environment: str) -> bool:
    return python(environment).exists()


def set_up(names: Iterable[str]) -> list[str]:
    """Makes environments, or brings them up to date; the names of those that could not be made."""
    failed = []
    for name in names:
        print(f"setting up {name}: {' '.join(REQUIREMENTS[name])}", flush=True)
        venv.create(FOLDER / name, with_pip=True, symlinks=sys.platform != "win32")
        words = [str(python(name)), "-m", "pip", "install", "-q", "--disable-pip-version-check", "--upgrade"]
        if subprocess.run([*words, *REQUIREMENTS[name]], check=False).returncode:
            failed.append(name)
    return failed


def clean_environment(tree: Path = ROOT) -> dict[str, str]:
    """The variables for a process that is measured: its streamfold is the one in `tree`, and nothing is said elsewhere.

    Proxies would be asked for loopback too, and some of the libraries report home or fetch tables when they are loaded.
    """
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.lower().endswith("_proxy") and name not in ("PYTHONDONTWRITEBYTECODE", "STREAMFOLD_CONFIG")
    }
    return {
        **kept,
        "PYTHONPATH": str(tree / "src"),
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        "LANGSMITH_TRACING": "false",
        "PYTHONWARNINGS": "ignore",
    }
