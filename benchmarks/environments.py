"""The environments that the contestants run in: one for streamfold and the bare loops, one for each other library.

They share no package, since no two of these libraries want the same versions for long; and a library that can't be
installed leaves the others alone. The folder is `benchmarks/.venvs`, or what STREAMFOLD_BENCH_VENVS names.
"""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

__all__ = [
    "CONTESTANTS",
    "FLOOR",
    "PEERS",
    "PLOT",
    "ROOT",
    "Contestant",
    "clean_environment",
    "is_set_up",
    "python",
    "set_up",
]

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
FOLDER = Path(os.environ.get("STREAMFOLD_BENCH_VENVS") or HERE / ".venvs")

REQUIREMENTS: dict[str, list[str]] = {
    "streamfold": ["-e", f"{ROOT}[aiohttp,cli]", "-e", f"{ROOT}/packages/gateway"],
    "openai": ["openai"],
    "anthropic": ["anthropic"],
    "google-genai": ["google-genai"],
    "pydantic-ai": ["pydantic-ai-slim[openai]"],
    "litellm": ["litellm", "mcp"],  # it imports mcp when it is called, and does not ask for it
    "langchain-openai": ["langchain-openai"],
    "any-llm": ["any-llm-sdk[openai]"],
    "litellm-proxy": ["litellm[proxy]"],
    "plot": ["matplotlib"],
}
PLOT = "plot"
FLOOR = "floor"  # the contestant to which all others are compared
_OPENAI = ("chat", "responses")
_APIS = (*_OPENAI, "anthropic", "gemini")


@dataclass(frozen=True)
class Contestant:
    """Who is measured.

    Attributes:
        name: its module in `contestants/`, and what the table calls it.
        environment: one of REQUIREMENTS.
        tree: the checkout of streamfold that it imports.
        label: what the table calls it instead.
        apis: those that it speaks.
    """

    name: str
    environment: str
    tree: Path = ROOT
    label: str = ""
    apis: tuple[str, ...] = _APIS

    @property
    def title(self) -> str:
        return self.label or self.name


_SPOKEN = {
    **dict.fromkeys(("openai", "pydantic-ai", "litellm", "langchain-openai", "any-llm"), _OPENAI),
    "anthropic": ("anthropic",),
    "google-genai": ("gemini",),
}
PEERS = tuple(_SPOKEN)
CONTESTANTS = [
    *(Contestant(name, "streamfold") for name in (FLOOR, "bare", "httpx-sse", "streamfold", "streamfold-aiohttp")),
    *(Contestant(name, name, apis=apis) for name, apis in _SPOKEN.items()),
]


def python(environment: str) -> Path:
    """The interpreter of an environment."""
    folder = FOLDER / environment
    return folder / "Scripts" / "python.exe" if sys.platform == "win32" else folder / "bin" / "python"


def is_set_up(environment: str) -> bool:
    return python(environment).exists()


def set_up(names: Collection[str]) -> list[str]:
    """Makes environments, or brings them up to date; the names of those that could not be made.

    Args:
        names: environments, or contestants, which stand for theirs.

    Raises:
        ValueError: there is no such name.
    """
    of = {contestant.name: contestant.environment for contestant in CONTESTANTS} | {name: name for name in REQUIREMENTS}
    if unknown := [name for name in names if name not in of]:
        raise ValueError(f"no such environments: {', '.join(unknown)}. There are {', '.join(of)}")
    failed = []
    for name in dict.fromkeys(of[name] for name in names):
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
