"""A common interface for the tool call parsers of SGLang and vLLM, and for other parsers with the same methods.

At the end of a stream, a parser may have parsed more of the last tool call's arguments than it has streamed. This
module adds the missing arguments, as the servers of SGLang and vLLM do.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from types import SimpleNamespace
from typing import Any, NamedTuple, Protocol

from streamfold import ConfigError


class ParsedCall(NamedTuple):
    """A tool call that a parser found, with its arguments as JSON text."""

    name: str
    arguments: str


class ParsedText(NamedTuple):
    """A parser's result for one text: its content and its tool calls."""

    content: str
    calls: tuple[ParsedCall, ...] = ()


Tools = Sequence[Mapping[str, Any]]
"""Tool declarations in the format of a Chat Completions request."""


class PieceParser(Protocol):
    """A tool call parser under test. Each call of a method parses a new text."""

    def whole(self, text: str, tools: Tools) -> ParsedText:
        """Parses a complete text."""
        ...

    def pieces(self, pieces: Iterable[str], tools: Tools) -> ParsedText:
        """Parses a text that arrives in pieces."""
        ...


def find_parser(name: str) -> Callable[[], Any]:
    """Imports a parser class by its name, `module:Class`. Raises ConfigError if the import fails."""
    module, colon, attribute = name.partition(":")
    if not colon:
        raise ConfigError(f"{name!r} doesn't name a parser: write module:Class")
    try:
        found = getattr(import_module(module), attribute)
    except (ImportError, AttributeError) as exc:
        raise ConfigError(f"the parser {name} can't be imported: {exc}") from exc
    if not callable(found):
        raise ConfigError(f"{name} is neither a class nor a function")
    return found  # type: ignore[no-any-return]


def as_piece_parser(make: Callable[[], Any]) -> PieceParser:
    """Wraps a tool call parser of SGLang or vLLM as a `PieceParser`.

    Args:
        make: the parser's class, or a function that returns a new parser. A vLLM class gets a fake tokenizer.

    Raises:
        ConfigError: the parser has neither the methods of SGLang nor those of vLLM.
    """
    if hasattr(make, "extract_tool_calls_streaming"):
        return _VLLMParser(lambda: make(_NoTokenizer()))  # type: ignore[call-arg]
    made = make if hasattr(make, "parse_streaming_increment") else make()
    if hasattr(made, "parse_streaming_increment"):
        return _SGLangParser(make)
    if hasattr(made, "extract_tool_calls_streaming"):
        return _VLLMParser(make)
    raise ConfigError(
        f"{make!r} is not a parser: it has the methods of neither SGLang (detect_and_parse,"
        " parse_streaming_increment) nor vLLM (extract_tool_calls, extract_tool_calls_streaming)"
    )


@dataclass(slots=True)
class _Calls:
    """Joins the streamed pieces of each tool call, by the index that the parser assigns to each piece."""

    calls: dict[int, list[str]] = field(default_factory=dict)

    def add(self, number: int, name: str | None, arguments: str | None) -> None:
        call = self.calls.setdefault(number, ["", ""])
        call[0] += name or ""
        call[1] += arguments or ""

    def finish(self, parser: Any) -> None:
        """Adds those arguments of the last tool call that the parser has parsed but not streamed."""
        known, streamed = (getattr(parser, name, None) for name in ("prev_tool_call_arr", "streamed_args_for_tool"))
        if not known or not streamed or len(known) > len(streamed):
            return
        number = len(known) - 1
        wanted = known[number].get("arguments", {})
        text = wanted if isinstance(wanted, str) else json.dumps(wanted, ensure_ascii=False)
        if text.startswith(streamed[number]) and number in self.calls:
            self.add(number, None, text[len(streamed[number]) :])

    def found(self) -> tuple[ParsedCall, ...]:
        return tuple(ParsedCall(*call) for _, call in sorted(self.calls.items()))


@dataclass(frozen=True, slots=True)
class _SGLangParser:
    """Wraps a parser with the methods of SGLang's `BaseFormatDetector` (sglang/srt/function_call)."""

    make: Callable[[], Any]

    def whole(self, text: str, tools: Tools) -> ParsedText:
        found = self.make().detect_and_parse(text, _sglang_tools(tools))
        return ParsedText(
            found.normal_text, tuple(ParsedCall(call.name or "", call.parameters) for call in found.calls)
        )

    def pieces(self, pieces: Iterable[str], tools: Tools) -> ParsedText:
        parser, declared, calls, content = self.make(), _sglang_tools(tools), _Calls(), ""
        for piece in pieces:
            content += self._take(parser.parse_streaming_increment(piece, declared), calls)
        if hasattr(parser, "finish"):
            content += self._take(parser.finish(declared), calls)
        calls.finish(parser)
        return ParsedText(content, calls.found())

    @staticmethod
    def _take(found: Any, calls: _Calls) -> str:
        for call in found.calls:
            calls.add(call.tool_index, call.name, call.parameters)
        return found.normal_text or ""


def _sglang_tools(tools: Tools) -> list[Any]:
    try:
        tool_class = import_module("sglang.srt.entrypoints.openai.protocol").Tool
    except ImportError:
        return [SimpleNamespace(type="function", function=SimpleNamespace(**tool["function"])) for tool in tools]
    return [tool_class.model_validate(tool) for tool in tools]


@dataclass(frozen=True, slots=True)
class _VLLMParser:
    """Wraps a parser with the methods of vLLM's `ToolParser`. Each piece of text counts as one token, with an arbitrary
    token id.
    """

    make: Callable[[], Any]

    def whole(self, text: str, tools: Tools) -> ParsedText:
        found = self.make().extract_tool_calls(text, _vllm_request(tools))
        calls = tuple(ParsedCall(call.function.name, call.function.arguments) for call in found.tool_calls or ())
        return ParsedText(found.content or "", calls)

    def pieces(self, pieces: Iterable[str], tools: Tools) -> ParsedText:
        parser, request, calls, content = self.make(), _vllm_request(tools), _Calls(), ""
        so_far, numbers = "", list[int]()
        for number, piece in enumerate(pieces, start=1):
            delta = parser.extract_tool_calls_streaming(
                so_far, so_far + piece, piece, tuple(numbers), (*numbers, number), (number,), request
            )
            so_far, numbers = so_far + piece, [*numbers, number]
            content += (delta.content or "") if delta else ""
            for call in (delta.tool_calls or ()) if delta else ():
                function = call.function or SimpleNamespace(name=None, arguments=None)
                calls.add(call.index, function.name, function.arguments)
        calls.finish(parser)
        return ParsedText(content, calls.found())


def _vllm_request(tools: Tools) -> Any:
    body = {"model": "m", "messages": [{"role": "user", "content": "Hello"}], "tools": list(tools)}
    for module in ("vllm.entrypoints.openai.chat_completion.protocol", "vllm.entrypoints.openai.protocol"):
        try:
            return import_module(module).ChatCompletionRequest.model_validate(body)
        except ImportError:
            continue
    declared = [SimpleNamespace(type="function", function=SimpleNamespace(**tool["function"])) for tool in tools]
    return SimpleNamespace(tools=declared, tool_choice="auto", skip_special_tokens=False)


class _Vocabulary(dict[str, int]):
    """A fake vocabulary, which assigns an id to each token that a parser looks up."""

    def get(self, key: str, default: Any = None) -> Any:
        return self.setdefault(key, 1_000_000 + len(self))

    def __getitem__(self, key: str) -> int:
        return int(self.get(key))

    def __contains__(self, key: object) -> bool:
        return True


class _NoTokenizer:
    """A fake tokenizer, for parsers that only need the token ids of their special tokens."""

    def __init__(self) -> None:
        self.vocab = _Vocabulary()

    def get_vocab(self) -> dict[str, int]:
        return self.vocab

    def encode(self, text: str, **_: Any) -> list[int]:
        return [int(self.vocab.get(text))]

    def decode(self, numbers: Sequence[int], **_: Any) -> str:
        return "".join(text for text, number in self.vocab.items() if number in numbers)
