"""LangChain's own standard tests, before a model that does what they ask for."""

from __future__ import annotations

import inspect
import json
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("langchain_tests")

from langchain_tests.integration_tests import ChatModelIntegrationTests, chat_models
from langchain_tests.unit_tests import ChatModelUnitTests

from streamfold.testing import ScriptedProvider, SentRequest, call, finish, usage
from streamfold_integrations.langchain import ChatStreamfold

CONFIG = {"adapter": "chat", "base_url": "http://127.0.0.1:9/v1"}


def obliging(sent: SentRequest) -> Any:
    """Answers as a model does that wants to please: it calls the tools it has, once, and fills in every schema."""
    counts = usage(7, 9)
    if (form := sent.body.get("response_format")) is not None:
        schema = form["json_schema"]["schema"] if "json_schema" in form else JOKE
        return [json.dumps(sample(schema, sent.text)), counts]
    done = any(message.role == "tool" for message in sent.messages[_last_question(sent) :])
    if sent.tools and not done and sent.tool_choice != "none":
        tool = sent.tools[0]
        return [call(tool.name, **sample(tool.parameters or {}, sent.text)), counts]
    return ["Hello", ", ", "here I am.", counts, finish("stop")]


def _last_question(sent: SentRequest) -> int:
    return max(at for at, message in enumerate(sent.messages) if message.role == "user")


JOKE = {"type": "object", "properties": {"setup": {"type": "string"}, "punchline": {"type": "string"}}}


def sample(schema: Any, text: str) -> Any:
    """A value that a schema allows; strings are the question."""
    match schema:
        case {"type": "object", "properties": dict(members)}:
            return {member: sample(inner, text) for member, inner in members.items()}
        case {"type": "integer" | "number"}:
            return 3
        case {"type": "boolean"}:
            return True
        case {"enum": [first, *_]}:
            return first
        case {"anyOf": [first, *_]}:
            return sample(first, text)
        case {"type": "array"}:
            return []
        case {"type": "object"}:
            return {}
    return text


@pytest.fixture(autouse=True)
def _no_downloads(monkeypatch: pytest.MonkeyPatch) -> None:
    """The standard tests fetch an image, a sound and a document. Here a few bytes stand for each."""
    fetched = SimpleNamespace(content=b"bytes")
    monkeypatch.setenv("LANGCHAIN_TESTS_USER_AGENT", "none")
    monkeypatch.setattr(chat_models, "httpx", SimpleNamespace(get=lambda *_, **__: fetched))


for standard in vars(ChatModelIntegrationTests).values():  # they expect pytest-asyncio's automatic mode
    if inspect.iscoroutinefunction(standard):
        pytest.mark.asyncio(standard)


class TestUnit(ChatModelUnitTests):
    @property
    def chat_model_class(self) -> type[ChatStreamfold]:
        return ChatStreamfold

    @property
    def chat_model_params(self) -> dict[str, Any]:
        return {"provider": CONFIG, "model": "m"}


class TestIntegration(ChatModelIntegrationTests):
    @property
    def chat_model_class(self) -> type[ChatStreamfold]:
        return ChatStreamfold

    @property
    def chat_model_params(self) -> dict[str, Any]:
        return {"client": ScriptedProvider(then=obliging), "model": "scripted"}

    supports_image_inputs = True
    supports_image_urls = True
    supports_image_tool_message = True
    supports_pdf_inputs = True
    supports_pdf_tool_message = True
    supports_audio_inputs = True
    supports_anthropic_inputs = True
    supports_json_mode = True
    model_override_value = "another-model"
