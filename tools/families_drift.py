"""Compares `providers/families.toml` with what four packages say of the same models, and lists what is worth a look.

`nox -s facts` installs them for that alone. Nothing is changed: each of them is silent or wrong where it counts, so a
person decides. Read: LiteLLM's table, langchain-openai's and pydantic-ai's profiles, and modelparams.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from streamfold.config.model_facts import find_family
from streamfold.requests import NO_FAMILY, Family

__all__ = ["WITNESSES", "drift", "ours"]

Said = dict[str, bool]  # of a model: whether it takes a temperature, thinks, has tools, sees images
MAKERS = ("openai", "anthropic", "gemini", "google", "xai", "mistral", "deepseek", "moonshot", "moonshotai", "zai")


def litellm() -> Iterator[tuple[str, Said]]:
    """LiteLLM's table, as the file in its wheel: the package, when imported, fetches a newer one."""
    spec = find_spec("litellm")
    (folder,) = (spec.submodule_search_locations if spec else None) or [""]
    table = json.loads(Path(folder, "model_prices_and_context_window_backup.json").read_text("utf-8"))
    for name, row in table.items():
        if row.get("mode") in ("chat", "responses") and row.get("litellm_provider") in MAKERS:
            flags = {"thinks": "supports_reasoning", "tools": "supports_function_calling", "images": "supports_vision"}
            yield name, {fact: row[flag] for fact, flag in flags.items() if isinstance(row.get(flag), bool)}


def langchain_openai() -> Iterator[tuple[str, Said]]:
    """LangChain's profiles of OpenAI's models."""
    for name, row in import_module("langchain_openai.data._profiles")._PROFILES.items():
        flags = {"temperature": "temperature", "thinks": "reasoning_output", "tools": "tool_calling"}
        yield name, {fact: row[flag] for fact, flag in flags.items() if isinstance(row.get(flag), bool)}


def pydantic_ai() -> Iterator[tuple[str, Said]]:
    """pydantic-ai's profiles, which are functions of a name: asked for the names that it knows."""
    names = import_module("pydantic_ai.models").known_model_names()
    readers = {maker: import_module(f"pydantic_ai.profiles.{maker}") for maker in ("openai", "anthropic", "google")}
    for maker, _, model in (name.partition(":") for name in names):
        if maker in readers:
            profile = getattr(readers[maker], f"{maker}_model_profile")(model) or {}
            if isinstance(thinks := profile.get("supports_thinking"), bool):
                yield model, {"thinks": thinks}


def modelparams() -> Iterator[tuple[str, Said]]:
    """modelparams: the parameters of each model. One that is not listed is not taken."""
    for entry in import_module("modelparams").list_all_models():
        if entry.provider in MAKERS:
            yield entry.model, {"temperature": any(parameter.path == "temperature" for parameter in entry.params)}


WITNESSES: dict[str, Callable[[], Iterator[tuple[str, Said]]]] = {
    "litellm": litellm,
    "langchain-openai": langchain_openai,
    "pydantic-ai": pydantic_ai,
    "modelparams": modelparams,
}


def ours(family: Family) -> Said:
    """What the families say of the same questions. What they don't know is left out."""
    said: Said = {}
    if family.sampling is not None:
        said["temperature"] = family.sampling in ("yes", "one_of")
    if family.thinking is not None:
        said["thinks"] = family.thinking != "never"
    known: dict[str, Any] = {"tools": family.tools, "images": family.images}
    return said | {fact: word == "yes" for fact, word in known.items() if word in ("yes", "no")}


def drift(model: str, said: Said) -> Iterator[str]:
    """What disagrees about a model, or is missing here."""
    family = find_family(model)
    if family is NO_FAMILY:
        yield "no row"
        return
    here = ours(family)
    for fact, word in said.items():
        if fact in here and here[fact] is not word:
            yield f"{fact}: {'yes' if here[fact] else 'no'} here, {'yes' if word else 'no'} there"


def main() -> None:
    for witness, read in WITNESSES.items():
        lines, models = list[str](), 0
        for model, said in read():
            models += 1
            lines += [f"  {model}: {words}" for words in drift(model, said)]
        print(f"{witness}: {models} models, {len(lines)} to look at", *sorted(set(lines)), sep="\n")


if __name__ == "__main__":
    main()
