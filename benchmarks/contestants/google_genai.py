"""Google's own library: `generate_content_stream`, whose calls come whole."""

from __future__ import annotations

from google import genai
from payloads import TOOLS

from . import KEY, MODEL, Answer, Ask

PACKAGES = ("google-genai",)


def prepare(url: str, api: str, _: str | None) -> Ask:
    options = genai.types.HttpOptions(base_url=url.removesuffix("/v1"), api_version="v1")
    client = genai.Client(api_key=KEY, http_options=options)
    functions = [tool["function"] for tool in TOOLS]
    declared = [
        {"name": found["name"], "description": found["description"], "parameters_json_schema": found["parameters"]}
        for found in functions
    ]
    config = genai.types.GenerateContentConfig(tools=[{"function_declarations": declared}])

    async def ask() -> Answer:
        text, calls, chunks = [], [], 0
        async for chunk in await client.aio.models.generate_content_stream(model=MODEL, contents="Hi", config=config):
            chunks += 1
            for part in chunk.candidates[0].content.parts:
                if part.text:
                    text.append(part.text)
                elif part.function_call:
                    calls.append((part.function_call.id, part.function_call.name, part.function_call.args))
        return "".join(text), calls, chunks

    return ask
