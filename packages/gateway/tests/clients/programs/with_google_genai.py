"""Google's client, google-genai, on Gemini's API; its chat keeps the conversation."""

from __future__ import annotations

import json
from importlib.metadata import version
from typing import Any

from answering import RESULT, Heard, answer_all
from google import genai
from google.genai import types


def ask(command: dict[str, Any], heard: Heard) -> None:
    base_url = command["base_url"].removesuffix("/v1")
    with genai.Client(api_key=command["key"], http_options=types.HttpOptions(base_url=base_url)) as client:
        chat = client.chats.create(model=command["model"], config=configured(command))
        try:
            calls = streamed(chat, command["prompt"], heard)
        except genai.errors.APIError as error:
            error.status_code = error.code  # type: ignore[attr-defined] # where the others have it
            raise
        heard.calls += [[call.id, call.name, json.dumps(call.args, ensure_ascii=False)] for call in calls]
        if command["loop"]:
            results = [
                types.Part(
                    function_response=types.FunctionResponse(id=call.id, name=call.name, response={"output": RESULT})
                )
                for call in calls
            ]
            streamed(chat, results, heard)


def configured(command: dict[str, Any]) -> types.GenerateContentConfig:
    options, tools = command["options"], [tool["function"] for tool in command["tools"]]
    declared = [
        types.FunctionDeclaration(
            name=tool["name"], description=tool["description"], parameters_json_schema=tool["parameters"]
        )
        for tool in tools
    ]
    mode = "ANY" if options.get("tool_choice") == "required" else "AUTO"
    calling = types.ToolConfig(function_calling_config=types.FunctionCallingConfig(mode=mode))
    return types.GenerateContentConfig(
        tools=[types.Tool(function_declarations=declared)] if tools else None,
        tool_config=calling if tools else None,
        max_output_tokens=options.get("max_tokens"),
        thinking_config=types.ThinkingConfig(include_thoughts=True),
    )


def streamed(chat: Any, said: Any, heard: Heard) -> list[Any]:
    calls: list[Any] = []
    for chunk in chat.send_message_stream(said):
        for candidate in chunk.candidates or ():
            heard.finish = candidate.finish_reason.value if candidate.finish_reason else heard.finish
            for part in (candidate.content.parts if candidate.content else None) or ():
                if part.function_call:
                    calls.append(part.function_call)
                elif part.text:
                    (heard.reasoning if part.thought else heard.text).append(part.text)
    return calls


answer_all(ask, {"google-genai": version("google-genai")})
