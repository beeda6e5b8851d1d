"""DSPy on any model of streamfold: `dspy.configure(lm=StreamfoldLM(provider))`.

DSPy 3.4 still takes classes like this one and warns that 3.5 will want an engine instead.
"""

from __future__ import annotations

import asyncio
from typing import Any, cast

import dspy
from openai.types.chat import ChatCompletion

from streamfold import ChatModel, ChatOptions, ToolChoice
from streamfold.serving import serialize_reply
from streamfold.sync import Provider
from streamfold.types import Messages, ToolLike

# The names of options in DSPy, which are those of Chat Completions.
_NAMES = {"max_tokens": "max_output_tokens", "max_completion_tokens": "max_output_tokens"}
_DSPY_ALONE = ("rollout_id", "cache", "num_retries")


class StreamfoldLM(dspy.BaseLM):
    """A language model of DSPy that is a model of streamfold.

    Args:
        model: a `streamfold.Provider`, a `Fallback`, or any other `ChatModel`. It must not be used elsewhere.
        options: options for every request, by the names of DSPy: `temperature`, `max_tokens`, `seed`, ...
    """

    def __init__(self, model: ChatModel, **options: Any) -> None:
        super().__init__(model.name, **options)
        self._provider = Provider(model)

    @property
    def supports_function_calling(self) -> bool:
        """Tools are sent as tools, and not described in the prompt."""
        return True

    @property
    def supports_response_schema(self) -> bool:
        """A model without schemas gets one as a tool, or in its instructions: see `streamfold`'s warnings."""
        return True

    @property
    def supported_params(self) -> set[str]:
        """The options that DSPy asks about before it sends them."""
        return {"temperature", "max_tokens", "response_format", "tools", "tool_choice", "reasoning_effort", "stop"}

    def forward(
        self, prompt: str | None = None, messages: list[dict[str, Any]] | None = None, **kwargs: Any
    ) -> ChatCompletion:
        """Returns an answer in the form of Chat Completions."""
        given = {name: value for name, value in {**self.kwargs, **kwargs}.items() if name not in _DSPY_ALONE}
        if given.pop("n", None) not in (None, 1):
            raise ValueError("n is always 1 here: ask several times, with temperature")
        tools: list[ToolLike] | None = given.pop("tools", None)
        choice: ToolChoice = given.pop("tool_choice", None) or "auto"
        options = cast("ChatOptions", {_NAMES.get(name, name): value for name, value in given.items()})
        conversation: Messages = messages or prompt or ""
        reply = self._provider.chat(conversation, tools, tool_choice=choice, **options)
        return ChatCompletion.model_validate(serialize_reply(reply, "chat").body)

    async def aforward(
        self, prompt: str | None = None, messages: list[dict[str, Any]] | None = None, **kwargs: Any
    ) -> ChatCompletion:
        """The same without blocking the event loop."""
        return await asyncio.to_thread(self.forward, prompt, messages, **kwargs)

    def close(self) -> None:
        """Closes the connections."""
        self._provider.close()
