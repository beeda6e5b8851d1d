"""pydantic-ai's direct model requests, without an agent round them."""

from __future__ import annotations

from payloads import TOOLS
from pydantic_ai.direct import model_request_stream
from pydantic_ai.messages import ModelRequest, PartDeltaEvent, PartStartEvent, TextPart, TextPartDelta, ToolCallPart
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai.tools import ToolDefinition

from . import KEY, MODEL, Answer, Ask

PACKAGES = ("pydantic-ai-slim", "openai")


def prepare(url: str, api: str, _: str | None) -> Ask:
    kind = OpenAIChatModel if api == "chat" else OpenAIResponsesModel
    model = kind(MODEL, provider=OpenAIProvider(base_url=url, api_key=KEY))
    functions = [tool["function"] for tool in TOOLS]
    parameters = ModelRequestParameters(
        function_tools=[
            ToolDefinition(
                name=function["name"],
                description=function["description"],
                parameters_json_schema=function["parameters"],
            )
            for function in functions
        ]
    )
    messages = [ModelRequest.user_text_prompt("Hi")]

    async def ask() -> Answer:
        text, chunks = [], 0
        async with model_request_stream(model, messages, model_request_parameters=parameters) as stream:
            async for event in stream:
                chunks += 1
                match event:
                    case PartDeltaEvent(delta=TextPartDelta() as delta):
                        text.append(delta.content_delta)
                    case PartStartEvent(part=TextPart() as part):
                        text.append(part.content)
            parts = stream.get().parts
        calls = [
            (part.tool_call_id.partition("|")[0], part.tool_name, part.args_as_dict())
            for part in parts
            if isinstance(part, ToolCallPart)
        ]
        return "".join(text), calls, chunks

    return ask
