"""Dialects find tool calls and reasoning in a model's text. Each dialect replaces text deltas with tool call and
reasoning deltas.

The configuration names the dialect of an endpoint whose server doesn't parse tool calls. streamfold never guesses a
dialect, because several dialects share their markers. A `+` in this name joins several dialects. Other packages can
register dialects in the entry point group `streamfold.dialects`. All built-in dialects share one reader (`reader.py`)
and one scanner (`scanner.py`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from importlib import import_module

from ...deltas import Delta, TextDelta, Warn
from ...errors import ConfigError, did_you_mean
from ...public_names import set_public_module
from ...types import NamedTool, ToolCallDelta
from .dialect import Dialect, DialectContext
from .leaked_markup import bare_forms, leaked_markup, reader_of
from .special_tokens import any_special_token, special_tokens

# The doctor takes the first one that reads a text best: those without markers of their own are the last ones.
_BUILT_IN = {
    "hermes": "hermes:Hermes",
    "kimi": "special_token_calls:Kimi",
    "qwen3coder": "xml_arguments:Qwen3Coder",
    "glm": "xml_arguments:GLM",
    "deepseek": "special_token_calls:DeepSeek",
    "mistral": "mistral:Mistral",
    "llama3": "llama3:Llama3",
    "harmony": "harmony:Harmony",
    "dsml": "xml_tags:DSML",
    "kimi3": "xml_tags:Kimi3",
    "minimax": "xml_tags:MiniMax",
    "minimax3": "minimax3:MiniMax3",
    "gemma4": "gemma:Gemma4",
    "functiongemma": "gemma:FunctionGemma",
    "lfm2": "lfm2:LFM2",
    "seed": "xml_arguments:Seed",
    "cohere": "cohere:Cohere",
    "required": "guided:GuidedOutput",
    "named": "guided:GuidedOutput",
    "think": "reader:ThinkTags",
}
DIALECTS = tuple(_BUILT_IN)
"""The names of the built-in dialects."""
_GUIDED_WHEN_FORCED = ("kimi", "hermes")
_CALLS_FOUND = ("unfinished_markup", "markup_dropped")


def find_dialect(name: str, context: DialectContext) -> Dialect:
    """Returns a new instance of the dialect with this name, or of several dialects joined by `+`. Raises ConfigError
    for an unknown name."""
    families: list[str] = []
    others: list[Dialect] = []
    for part in dict.fromkeys(part.strip() for part in name.split("+")):
        if part in _BUILT_IN:
            families.append(part)
        else:
            others.append(_third_party(part, context))
    if not families:
        return others[0] if len(others) == 1 else DialectChain(others)
    return DialectChain([_markup(families, context), *others]) if others else _markup(families, context)


def leak_warning(text: str, read: Collection[str], context: DialectContext) -> str | None:
    """Returns a warning's text if `text` contains tool calls or reasoning that no configured dialect has parsed,
    otherwise None.

    The warning recommends a dialect only if tools were declared and that dialect finds tool calls in this text.

    Args:
        read: the names of the dialects that have parsed the text.
    """
    form = leaked_markup(text, read)
    reader = form and reader_of(form)
    if form is not None and form.endswith("think"):
        return f"the text contains reasoning that the dialect {reader!r} would read"
    if context.calls_allowed:
        bare = [name for name in bare_forms(text) if name not in read]
        bare = [name for name in bare if name != "named" or isinstance(context.tool_choice, NamedTool)]
        if reader is None or not _reads_calls(reader, text, context):
            reader = next((name for name in bare if _reads_calls(name, text, context, declared=True)), None)
    if reader is not None:
        return f"the text contains tool calls that the dialect {reader!r} would read"
    if form is not None:
        return f"the text contains tool calls in the format of {form}, which no dialect reads"
    return None


def _reads_calls(name: str, text: str, context: DialectContext, *, declared: bool = False) -> bool:
    dialect = find_dialect(name, context)
    found = [*dialect.feed(TextDelta(text)), *dialect.finish()]
    names = {tool.name for tool in context.tools}
    calls = {delta.name for delta in found if isinstance(delta, ToolCallDelta) and delta.name}
    if declared:
        return bool(calls & names)
    return bool(calls) or any(isinstance(delta, Warn) and delta.code in _CALLS_FOUND for delta in found)


def _markup(names: Sequence[str], context: DialectContext) -> Dialect:
    from .markup import MarkupDialect

    if context.call_demanded and any(name in _GUIDED_WHEN_FORCED for name in names):
        names = [*names, "required"]
    families = []
    for target in dict.fromkeys(_BUILT_IN[name] for name in names):
        module, _, attribute = target.partition(":")
        families.append(getattr(import_module(f"{__name__}.{module}"), attribute)(context))
    return MarkupDialect(families, context)


def _third_party(name: str, context: DialectContext) -> Dialect:
    from importlib.metadata import entry_points  # slow to import, and mostly not needed

    found = {entry.name: entry for entry in entry_points(group="streamfold.dialects")}
    if name in found:
        try:
            made: Dialect = found[name].load()(context)
        except Exception as exc:  # whatever the other package raises
            raise ConfigError(f"dialect {name!r} ({found[name].value}) can't be used: {exc!r}") from exc
        return made
    known = sorted({*_BUILT_IN, *found})
    raise ConfigError(
        f"unknown dialect {name!r}{did_you_mean(name, known)}. Allowed: {', '.join(known)}, or several joined by '+'"
    )


class DialectChain:
    """Runs several dialects after one another. Each dialect parses the deltas that the previous dialect returned."""

    def __init__(self, dialects: Sequence[Dialect]) -> None:
        self._dialects = dialects

    def feed(self, delta: Delta) -> Iterable[Delta]:
        return _through(self._dialects, [delta])

    def finish(self) -> Iterable[Delta]:
        out: list[Delta] = []
        for number, dialect in enumerate(self._dialects, 1):
            out += _through(self._dialects[number:], dialect.finish())
        return out


def _through(dialects: Sequence[Dialect], deltas: Iterable[Delta]) -> list[Delta]:
    for dialect in dialects:
        deltas = [out for delta in deltas for out in dialect.feed(delta)]
    return list(deltas)


set_public_module("streamfold.types", [Dialect, DialectContext])
