"""Compares `providers/families.toml` with what other packages say of the same models.

`families_of_peers.toml` beside this file lists what was decided where they differ, each with a reason and the maker's
page. `nox -s facts` installs the packages for that alone. The exit code is 1 for a contradiction that isn't listed.

Read are LiteLLM's table, LangChain's and pydantic-ai's profiles, modelparams, and the names and dates in the types of
OpenAI's and Anthropic's SDKs. Nothing is changed: each of them is silent or wrong somewhere, so a person decides.
"""

from __future__ import annotations

import inspect
import json
import re
import sys
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime
from fnmatch import fnmatchcase
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeAlias, get_args

from streamfold.config.model_facts import find_family
from streamfold.requests import EFFORTS, NO_FAMILY, Family, bare_name

__all__ = ["WITNESSES", "Contradiction", "contradictions", "ours", "read_list", "undecided", "unused"]

LIST = Path(__file__).with_name("families_of_peers.toml")
Said: TypeAlias = dict[str, Any]
"""What is said of a model, by fact:

row: True, for a model that exists: it should have a row of its own, not that of an older version or of a maker.
temperature, thinks, always_thinks, tools, forced_choice, images, structured_output, responses_only, binds_thinking:
    yes or no.
context, output: tokens. The context may be that of the input alone.
retires: a day. effort NAME: whether it has this level.
"""
MAKERS = (
    "openai", "anthropic", "gemini", "google", "xai", "mistral", "deepseek", "moonshot", "moonshotai", "zai", "minimax",
    "dashscope",
)  # fmt: skip
# Models that aren't for chats, by a part of their names.
_OTHER_KINDS = re.compile(
    r"embed|image|imagine|tts|whisper|transcribe|realtime|-live|dall-e|moderation|ocr|veo|lyria|robotics|omni|audio"
    r"|computer-use|deep-research|search|container|voxtral|fim|learnlm|exp-\d|translate|babbage|davinci|instruct"
)
# Rows of a whole maker: a model that falls to one of them has no row of its own.
_CATCH_ALL = ("claude", "gemini", "grok", "kimi", "kimi-k2p")
_VERSIONED = ("openai", "anthropic")


@dataclass(frozen=True, slots=True)
class Contradiction:
    """Something that a package says otherwise of a model."""

    package: str
    model: str
    fact: str
    there: Any
    here: Any

    def __str__(self) -> str:
        return f"{self.package}: {self.model}: {self.fact}: {self.here} here, {self.there} there"


# --- what the packages say --------------------------------------------------------------------------------------------


def litellm() -> Iterator[tuple[str, Said]]:
    """LiteLLM's table, as the file in its wheel: the package, when imported, fetches a newer one."""
    table = json.loads((_folder("litellm") / "model_prices_and_context_window_backup.json").read_text("utf-8"))
    flags = {
        "thinks": "supports_reasoning",
        "tools": "supports_function_calling",
        "images": "supports_vision",
        "structured_output": "supports_response_schema",
        **{f"effort {name}": f"supports_{name}_reasoning_effort" for name in ("none", "minimal", "xhigh", "max")},
    }
    for name, row in table.items():
        if row.get("mode") not in ("chat", "responses") or row.get("litellm_provider") not in MAKERS:
            continue
        said: Said = {fact: row[flag] for fact, flag in flags.items() if isinstance(row.get(flag), bool)}
        said["row"] = True
        said |= {fact: row[key] for fact, key in _LIMITS.items() if isinstance(row.get(key), int)}
        if day := row.get("deprecation_date"):
            said["retires"] = date.fromisoformat(day)
        if endpoints := row.get("supported_endpoints"):
            paths = {path for path in endpoints if path != "/v1/batch"}
            said["responses_only"] = paths == {"/v1/responses"}
        yield name, said


_LIMITS = {"context": "max_input_tokens", "output": "max_output_tokens"}


def langchain() -> Iterator[tuple[str, Said]]:
    """LangChain's profiles, of the packages for six makers."""
    flags = {
        "temperature": "temperature",
        "thinks": "reasoning_output",
        "tools": "tool_calling",
        "images": "image_inputs",
        "structured_output": "structured_output",
    }
    for package in ("openai", "anthropic", "google_genai", "xai", "mistralai", "deepseek"):
        for name, row in import_module(f"langchain_{package}.data._profiles")._PROFILES.items():
            said: Said = {fact: row[flag] for fact, flag in flags.items() if isinstance(row.get(flag), bool)}
            said["row"] = True
            yield name, said | {fact: row[key] for fact, key in _LIMITS.items() if isinstance(row.get(key), int)}


def pydantic_ai() -> Iterator[tuple[str, Said]]:
    """pydantic-ai's profiles, which are functions of a name: called for the names that it knows."""
    known = import_module("pydantic_ai.models").known_model_names()
    for maker, _, model in (name.partition(":") for name in known):
        if maker not in MAKERS or find_spec(f"pydantic_ai.profiles.{maker}") is None:
            continue
        profile = getattr(import_module(f"pydantic_ai.profiles.{maker}"), f"{maker}_model_profile")(model) or {}
        said: Said = {"row": True}
        flags = {
            "thinks": "supports_thinking",
            "always_thinks": "thinking_always_enabled",
            "forced_choice": "supports_forced_tool_choice",
            "binds_thinking": "anthropic_binds_thinking_blocks",
            "effort none": "openai_supports_reasoning_effort_none",
        }
        said |= {fact: profile[key] for fact, key in flags.items() if isinstance(profile.get(key), bool)}
        if isinstance(fixed := profile.get("anthropic_disallows_sampling_settings"), bool):
            said["temperature"] = not fixed
        if isinstance(most := profile.get("anthropic_max_output_tokens"), int):
            said["output"] = most
        levels = profile.get("openai_reasoning_efforts") or profile.get("grok_reasoning_efforts")
        levels = levels or {level.lower() for level in profile.get("google_thinking_levels") or ()}
        said |= {f"effort {name}": name in levels for name in EFFORTS if levels}
        yield model, said


def modelparams() -> Iterator[tuple[str, Said]]:
    """modelparams: the parameters of each model. One that is not listed is not accepted."""
    for entry in import_module("modelparams").list_all_models():
        if entry.provider in MAKERS:
            yield (
                entry.model,
                {"temperature": any(parameter.path.endswith("temperature") for parameter in entry.params)},
            )


def openai_sdk() -> Iterator[tuple[str, Said]]:
    """The names in the types of OpenAI's SDK, and the days in their docstring."""
    module = import_module("openai.types.shared.chat_model")
    text = " ".join(inspect.getsource(module).partition('"""')[2].split())
    days: dict[str, date] = {}
    for names, day in re.findall(r'- ((?:"[^"]+",? ?)+): Announced shutdown date: (\d{4}-\d\d-\d\d)', text):
        days |= dict.fromkeys(re.findall(r'"([^"]+)"', names), date.fromisoformat(day))
    on_chat = set(get_args(module.ChatModel))
    union = get_args(import_module("openai.types.shared.responses_model").ResponsesModel)
    names = {name for kind in union for name in get_args(kind)} | on_chat
    for name in sorted(names):
        said: Said = {"row": True, **({"retires": days[name]} if name in days else {})}
        yield name, said if name in on_chat else {**said, "responses_only": True}


def anthropic_sdk() -> Iterator[tuple[str, Said]]:
    """The names in the types of Anthropic's SDK, and its days."""
    days: dict[str, date] = {}
    for name, text in import_module("anthropic._data").DEPRECATED_MODELS.items():
        day = re.sub(r"(?<=\d)(st|nd|rd|th)", "", text)
        days[name] = datetime.strptime(day, "%B %d, %Y").replace(tzinfo=UTC).date()
    union = get_args(import_module("anthropic.types.model_param").ModelParam)
    named = {name for kind in union for name in get_args(kind)}
    for name in sorted(named | set(days)):
        yield name, {"row": True, **({"retires": days[name]} if name in days else {})}


WITNESSES: dict[str, Callable[[], Iterator[tuple[str, Said]]]] = {
    "litellm": litellm,
    "langchain": langchain,
    "pydantic-ai": pydantic_ai,
    "modelparams": modelparams,
    "openai": openai_sdk,
    "anthropic": anthropic_sdk,
}


# --- what is said here ------------------------------------------------------------------------------------------------


def ours(family: Family, model: str) -> Said:
    """Returns what the families say of the same questions. What they don't know is left out."""
    said: Said = {"row": _has_row(family, model)}
    if family.sampling not in (None, "ignored") and family.samples_while_thinking is not False:  # else it depends
        said["temperature"] = family.sampling in ("yes", "one_of")
    if family.thinking is not None:
        said |= {"thinks": family.thinking != "never", "always_thinks": family.thinking == "always"}
    if family.vendor == "anthropic":
        said["binds_thinking"] = family.binds_thinking is not None
    known = {name: getattr(family, name) for name in ("tools", "forced_choice", "images", "structured_output")}
    said |= {fact: word == "yes" for fact, word in known.items() if word in ("yes", "no")}
    if family.vendor in ("openai", "xai"):
        said["responses_only"] = family.apis == ("responses",)
    if family.efforts is not None:
        said |= {f"effort {name}": name in family.efforts for name in EFFORTS}
    limits = {"context": family.context_tokens, "output": family.max_output_tokens}
    said |= {fact: tokens for fact, tokens in limits.items() if tokens is not None}
    if family.vendor in ("openai", "anthropic"):
        said["retires"] = family.retires if family.retirement_holds(bare_name(model)) else None
    elif family.retires is not None:
        said["retires"] = family.retires
    return said


def _has_row(family: Family, model: str) -> bool:
    """Returns whether a model has a row of its own: not that of a maker, nor of an older version where those differ."""
    name = bare_name(model)
    if family is NO_FAMILY or (family.vendor in _VERSIONED and not family.retirement_holds(name)):
        return False
    return not set(_CATCH_ALL) & set(family.prefix) or name in family.prefix


def contradictions(package: str, model: str, said: Said) -> Iterator[Contradiction]:
    """Yields what a package says otherwise of a model. Of a model without a row, that alone."""
    if _OTHER_KINDS.search(model):
        return
    family = find_family(model)
    here = ours(family, model)
    if not here["row"]:
        if said.get("row"):
            yield Contradiction(package, model, "row", True, False)
        return
    for fact, there in said.items():
        if fact in here and not _agree(fact, here[fact], there, family):
            yield Contradiction(package, model, fact, there, here[fact])


def _agree(fact: str, here: Any, there: Any, family: Family) -> bool:
    if fact == "context":  # the whole window, or the part for the input; 1,000,000 and 1,048,576 are alike
        sums = (here, here - (family.max_output_tokens or 0))
        return any(0.94 <= there / tokens <= 1.06 for tokens in sums if tokens > 0)
    if fact == "output":
        return bool(0.94 <= there / here <= 1.06)
    if fact == "retires" and family.retires_earliest:  # the others don't list these
        return here == there or there is None
    return bool(here == there)


# --- what was decided -------------------------------------------------------------------------------------------------


def read_list() -> dict[str, Any]:
    """Returns the list of decisions."""
    return tomllib.loads(LIST.read_text("utf-8"))


def _is_about(decision: dict[str, Any], found: Contradiction) -> bool:
    named = any(fnmatchcase(found.model.rpartition("/")[2].lower(), pattern) for pattern in decision["models"])
    return named and found.package in decision["packages"] and found.fact in decision["facts"]


def undecided(found: list[Contradiction], decided: list[dict[str, Any]]) -> list[Contradiction]:
    """Returns the contradictions without a decision."""
    return [each for each in found if not any(_is_about(decision, each) for decision in decided)]


def unused(found: list[Contradiction], decided: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Returns the decisions about nothing: the packages have changed, or the families."""
    return [decision for decision in decided if not any(_is_about(decision, each) for each in found)]


def _folder(package: str) -> Path:
    spec = find_spec(package)
    (folder,) = (spec.submodule_search_locations if spec else None) or [""]
    return Path(folder)


def main() -> int:
    """Prints what differs. Returns 1 if something is not listed."""
    listed = read_list()
    found, models = list[Contradiction](), Counter[str]()
    for package, read in WITNESSES.items():
        for model, said in read():
            models[package] += 1
            found += contradictions(package, model, said)
    found = list(dict.fromkeys(found))
    new = undecided(found, listed["decided"])
    print(f"compared: {', '.join(f'{package} ({number} models)' for package, number in models.items())}")
    print(f"{len(found)} contradictions, {len(found) - len(new)} of them listed with a reason")
    print("newest models:")
    for newest in listed["newest"]:
        family = find_family(newest["model"])
        where = f"row {', '.join(family.prefix)}" if ours(family, newest["model"])["row"] else newest.get("reason", "?")
        print(f"  {newest['maker']}: {newest['model']} ({newest['released']}): {where}")
    for decision in unused(found, listed["decided"]):
        print(f"no longer needed: {', '.join(decision['models'])}: {', '.join(decision['facts'])}")
    print(*new, sep="\n")
    return 1 if new else 0


if __name__ == "__main__":
    sys.exit(main())
