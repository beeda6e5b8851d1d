"""Bodies of Anthropic's and Google's APIs in the shape of Chat Completions, which the search reads.

Written from the APIs alone, without a look at our adapters: https://docs.anthropic.com/en/api/messages,
https://ai.google.dev/api/generate-content and https://ai.google.dev/api/interactions-api.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

__all__ = ["NAMELESS", "in_chat_shape"]

NAMELESS = "\0"  # how ids begin that are ours: Gemini's calls and results need none, and go by their order


def in_chat_shape(body: dict[str, Any], path: str) -> dict[str, Any]:
    """Returns the body of a request to this path in the shape of Chat Completions, if it is of another API."""
    if path.endswith(("/messages", ":streamRawPredict")) or "/invoke" in path:  # also on Vertex AI and Bedrock
        return _of_anthropic(body)
    if ":streamGenerateContent" in path:
        return _of_gemini(body)
    if path.endswith("/interactions"):
        return _of_interactions(body)
    return body


# --- Anthropic --------------------------------------------------------------------------------------------------------


def _of_anthropic(body: Mapping[str, Any]) -> dict[str, Any]:
    system = body.get("system") or ()
    blocks = [{"type": "text", "text": system}] if isinstance(system, str) else system
    messages: list[dict[str, Any]] = [{"role": "system", "content": [block]} for block in blocks]
    for turn in body["messages"]:
        messages += _anthropic_turn(turn["role"], turn["content"])
    out = {**body, "messages": messages, "stop": body.get("stop_sequences")}
    out["tools"] = [{"function": {**tool, "parameters": tool.get("input_schema")}} for tool in body.get("tools", ())]
    choice = body.get("tool_choice") or {}
    words = {"any": "required", "tool": {"type": "function", "function": {"name": choice.get("name")}}}
    kind = choice.get("type", "auto")
    out["tool_choice"] = words.get(kind, kind)
    if "disable_parallel_tool_use" in choice:
        out["parallel_tool_calls"] = not choice["disable_parallel_tool_use"]
    elif kind in ("auto", "any", "tool"):
        out["parallel_tool_calls"] = True  # what is done unless it is switched off
    if "thinking" in body or "output_config" in body:
        out["graded_thinking"] = True
    if wanted := (body.get("output_config") or {}).get("format") or body.get("output_format"):
        out["response_format"] = {"type": "json_schema", "json_schema": {"schema": _opened(wanted["schema"])}}
    return out


def _opened(schema: Any) -> Any:
    """The schema as it is before its objects are closed, as the API demands them."""
    if isinstance(schema, list):
        return [_opened(inner) for inner in schema]
    if not isinstance(schema, dict):
        return schema
    return {name: _opened(inner) for name, inner in schema.items() if (name, inner) != ("additionalProperties", False)}


def _anthropic_turn(role: str, content: Any) -> Iterator[dict[str, Any]]:
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
    said: dict[str, Any] = {"role": role, "content": []}
    for block in blocks:
        match block["type"]:
            case "tool_result":
                inner = block.get("content") or ""
                parts = inner if isinstance(inner, str) else [_anthropic_part(part) for part in inner]
                failed = bool(block.get("is_error"))
                yield {"role": "tool", "tool_call_id": block["tool_use_id"], "content": parts, "failed": failed}
            case "tool_use":
                function = {"name": block["name"], "arguments": block["input"]}
                said.setdefault("tool_calls", []).append({"id": block["id"], "function": function})
            case "thinking":
                said["reasoning_content"] = said.get("reasoning_content", "") + block["thinking"]
            case _:
                said["content"].append(_anthropic_part(block))
    if said["content"] or len(said) > 2:
        yield said


def _anthropic_part(block: dict[str, Any]) -> dict[str, Any]:
    source = block.get("source")
    if source is None:
        return block
    data = f"data:{source.get('media_type')};base64,{source.get('data')}"
    place = data if source["type"] == "base64" else source.get("url") or source.get("file_id")
    return {**{name: value for name, value in block.items() if name != "source"}, "place": place}


# --- Google -----------------------------------------------------------------------------------------------------------


def _of_gemini(body: Mapping[str, Any]) -> dict[str, Any]:
    texts = (body.get("systemInstruction") or {}).get("parts", ())
    messages: list[dict[str, Any]] = [{"role": "system", "content": [part]} for part in texts]
    waiting: list[tuple[str, str]] = []  # ids and names of calls
    for at, content in enumerate(body["contents"]):
        said: dict[str, Any] = {"role": {"model": "assistant"}.get(content["role"], content["role"]), "content": []}
        made = []
        for number, part in enumerate(content["parts"]):
            if "functionCall" in part:
                call = part["functionCall"]
                made.append((call.get("id") or f"{NAMELESS}{at}.{number}", call["name"]))
                function = {"name": call["name"], "arguments": call.get("args", {})}
                said.setdefault("tool_calls", []).append({"id": made[-1][0], "function": function})
            elif "functionResponse" in part:
                role = "tool" if content["role"] == "user" else content["role"]
                call_id, name = waiting.pop(0) if waiting else ("", None)
                result = part["functionResponse"]
                call_id = call_id if result["name"] == name else ""  # else it is the result of nothing
                messages.append({**_gemini_result(result, call_id), "role": role})
            else:
                said["content"].append(_gemini_part(part))
        waiting = made or waiting
        if said["content"] or len(said) > 2:
            messages.append(said)
    config, out = body.get("generationConfig", {}), {**body, "messages": messages}
    declared = [tool for entry in body.get("tools", ()) for tool in entry.get("functionDeclarations", ())]
    empty: dict[str, Any] = {"type": "object", "properties": {}}
    out["tools"] = [{"function": {"parameters": tool.get("parametersJsonSchema", empty), **tool}} for tool in declared]
    calling = (body.get("toolConfig") or {}).get("functionCallingConfig", {})
    names, mode = calling.get("allowedFunctionNames", []), calling.get("mode", "AUTO")
    required: Any = {"type": "function", "function": {"name": names[0]}} if len(names) == 1 else "required"
    out["tool_choice"] = {"AUTO": "auto", "VALIDATED": "auto", "NONE": "none", "ANY": required}[mode]
    renamed = {"temperature": "temperature", "topP": "top_p", "seed": "seed", "maxOutputTokens": "max_tokens"}
    out |= {name: config[theirs] for theirs, name in renamed.items() if theirs in config}
    out["stop"] = config.get("stopSequences")
    out["parallel_tool_calls"] = True  # it can't be switched off
    if "thinkingConfig" in config:
        out["graded_thinking"] = True
    if config.get("responseMimeType") == "application/json":
        schema = config.get("responseJsonSchema")
        wanted = {"type": "json_schema", "json_schema": {"schema": schema}} if schema else {"type": "json_object"}
        out["response_format"] = wanted
    return out


def _gemini_result(result: dict[str, Any], call_id: str) -> dict[str, Any]:
    response = result["response"]
    value = response.get("error", response.get("output")) if len(response) == 1 else response
    text = value if isinstance(value, str) else json.dumps(response if value is None else value, ensure_ascii=False)
    parts = [{"type": "text", "text": text}, *map(_gemini_part, result.get("parts", ()))]
    return {"role": "tool", "tool_call_id": call_id, "content": parts, "failed": "error" in response}


def _gemini_part(part: dict[str, Any]) -> dict[str, Any]:
    if blob := part.get("inlineData"):
        return {"place": f"data:{blob['mimeType']};base64,{blob['data']}"}
    if file := part.get("fileData"):
        return {"place": file["fileUri"], "media_type": file.get("mimeType")}
    return {"type": "text", "text": part["text"]}


def _of_interactions(body: Mapping[str, Any]) -> dict[str, Any]:
    system = body.get("system_instruction")
    messages: list[dict[str, Any]] = (
        [{"role": "system", "content": [{"type": "text", "text": system}]}] if system else []
    )
    for step in body["input"]:
        turn = messages[-1] if messages and messages[-1]["role"] == "assistant" else None
        if step["type"] == "user_input":
            messages.append({"role": "user", "content": [*map(_interaction_part, step["content"])]})
        elif step["type"] == "function_result":
            result = step["result"]
            parts = result if isinstance(result, str) else [*map(_interaction_part, result)]
            failed = bool(step.get("is_error"))
            messages.append({"role": "tool", "tool_call_id": step["call_id"], "content": parts, "failed": failed})
        else:
            if turn is None or (step["type"] == "model_output" and turn.get("tool_calls")):
                messages.append(turn := {"role": "assistant", "content": []})
            if step["type"] == "model_output":
                turn["content"] += map(_interaction_part, step["content"])
            elif step["type"] == "function_call":
                function = {"name": step["name"], "arguments": step["arguments"]}
                turn.setdefault("tool_calls", []).append({"id": step["id"], "function": function})
            elif step["type"] == "thought":
                texts = [content["text"] for content in step.get("summary", ())]
                turn["reasoning_content"] = turn.get("reasoning_content", "") + "".join(texts)
    config, out = body["generation_config"], {**body, "messages": messages}
    del out["input"]
    out["tools"] = [{"function": tool} for tool in body.get("tools", ())]
    choice = config.get("tool_choice", "auto")
    words: dict[str, Any] = {"any": "required", "validated": "auto"}
    if isinstance(choice, dict):
        names, mode = choice["allowed_tools"]["tools"], words[choice["allowed_tools"]["mode"]]
        functions = [{"type": "function", "function": {"name": name}} for name in names]
        allowed = {"type": "allowed_tools", "allowed_tools": {"mode": mode, "tools": functions}}
        out["tool_choice"] = functions[0] if mode == "required" and len(names) == 1 else allowed
    else:
        out["tool_choice"] = words.get(choice, choice)
    out |= {name: config[name] for name in ("temperature", "top_p", "seed") if name in config}
    if "max_output_tokens" in config:
        out["max_tokens"] = config["max_output_tokens"]
    out["stop"] = config.get("stop_sequences")
    out["parallel_tool_calls"] = True  # it can't be switched off
    if "thinking_level" in config:
        out["graded_thinking"] = True
    if wanted := body.get("response_format"):
        schema = {"type": "json_schema", "json_schema": {"schema": wanted.get("schema")}}
        out["response_format"] = schema if "schema" in wanted else {"type": "json_object"}
    return out


def _interaction_part(content: dict[str, Any]) -> dict[str, Any]:
    if content["type"] == "text":
        return content
    kind, detail = content.get("mime_type"), content.get("resolution")
    place = f"data:{kind};base64,{content['data']}" if "data" in content else content["uri"]
    return {"place": place, "media_type": kind, **({"detail": detail} if detail else {})}
