"""The patchers of RepairTransport use the serializers as anybody else could."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path

import pytest

from streamfold_repair.patchers.anthropic import AnthropicStreamPatcher
from streamfold_repair.patchers.base import StreamPatcher
from streamfold_repair.patchers.chat import ChatStreamPatcher
from streamfold_repair.patchers.gemini import GeminiStreamPatcher
from streamfold_repair.patchers.responses import ResponsesStreamPatcher


@pytest.mark.parametrize(
    "patcher", [ChatStreamPatcher, GeminiStreamPatcher, AnthropicStreamPatcher, ResponsesStreamPatcher]
)
def test_a_patcher_uses_public_members_of_its_serializer_alone(patcher: type) -> None:
    """A serializer has one public `send` and public `write_...` methods: a patcher shares no private name with it."""
    bases = [base for base in patcher.__mro__[1:] if base.__module__.startswith("streamfold")]
    assert StreamPatcher in bases
    assert len(bases) == 3
    private = set().union(*map(_private, bases))
    assert private  # serializers have some
    assert _private(patcher) & private == set()


def _private(made: type) -> set[str]:
    """Returns the private attributes and methods in the source of a class."""
    file = next(member.__code__.co_filename for member in vars(made).values() if inspect.isfunction(member))
    tree = ast.parse(Path(file).read_text("utf-8"))  # public classes name their public module, and not this one
    [found] = [node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == made.__name__]
    nodes = list(ast.walk(found))
    names = {node.attr for node in nodes if isinstance(node, ast.Attribute)}
    names |= {node.name for node in nodes if isinstance(node, ast.FunctionDef)}
    return {name for name in names if name.startswith("_") and not name.startswith("__")}
