"""The models that README, guides and examples name, which `documented_models.toml` beside this file lists.

python tools/documented_models.py           # fails if one of them ends within 90 days
python tools/documented_models.py OLD NEW   # names another model on all pages, and in the list
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from streamfold.config.model_facts import find_family
from streamfold.requests import retirement_notice

__all__ = ["named_models", "pages", "read_list"]

ROOT = Path(__file__).resolve().parents[1]
LIST = Path(__file__).with_suffix(".toml")
DAYS = 90
# Pages that name models for other reasons: what changed, what others have reported, what each model accepts.
_OTHER_PAGES = {"CHANGELOG.md", "bugs.md", "changelog.md", "failures.md", "options-table.md", "warnings.md"}
_ENDINGS = {".md", ".py", ".toml", ".ts", ".sh", ".ipynb"}
_MODEL = re.compile(r"(?<![\w/-])(?:gpt|claude|gemini|o[134]|grok|kimi|deepseek|glm|mistral)-[a-z0-9.-]*[a-z0-9]")


def read_list() -> dict[str, Any]:
    """Returns the list: `models`, and the day until which they live."""
    return tomllib.loads(LIST.read_text("utf-8"))


def pages() -> Iterator[Path]:
    """Yields README, guides, examples and the packages' READMEs."""
    found = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("packages/*/README.md")]
    found += [path for path in ROOT.glob("examples/**/*") if path.suffix in _ENDINGS]
    yield from (path for path in sorted(found) if path.name not in _OTHER_PAGES and "node_modules" not in path.parts)


def named_models(text: str) -> set[str]:
    """Returns the names of hosted models in a text: those of a version."""
    names = {name.removesuffix(".md").removesuffix(".py") for name in _MODEL.findall(text)}
    return {name for name in names if re.search(r"\d", name)}


def ending() -> list[str]:
    """Returns a line for each documented model that ends within 90 days, or that may."""
    notices = ((model, retirement_notice(model, find_family(model), DAYS)) for model in read_list()["models"])
    return [f"the documentation names a model: {notice}" for _, notice in notices if notice is not None]


def rename(old: str, new: str) -> None:
    """Names another model on all pages, and in the list."""
    whole = re.compile(rf"(?<![\w-]){re.escape(old)}(?![\w-])")
    for path in (*pages(), LIST):
        text = path.read_text("utf-8")
        if (changed := whole.sub(new, text)) != text:
            path.write_text(changed, "utf-8")


if __name__ == "__main__":
    if len(sys.argv) == 3:
        rename(*sys.argv[1:])
    else:
        lines = ending()
        print("\n".join(lines) or "the models of the documentation live at least 90 days")
        sys.exit(1 if lines else 0)
