"""For each check a body that passes it and one that doesn't, made from the parameters of the rule."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from .rules import CHECKS, Endpoint, Rule

Json = dict[str, Any]
Pair = tuple[Json, Json]  # accepted, refused


def _user(text: object = "Hello.") -> Json:
    return {"role": "user", "content": text}


def _says(text: object = "Hi.") -> Json:
    return {"role": "assistant", "content": text}


def _call(own: object = "abcdef123", name: str = "get_weather", arguments: object = "{}") -> Json:
    return {"id": own, "type": "function", "function": {"name": name, "arguments": arguments}}


def _calls(*calls: Json) -> Json:
    return {"role": "assistant", "content": None, "tool_calls": list(calls) or [_call()]}


def _result(own: object = "abcdef123", text: object = "18 degrees") -> Json:
    return {"role": "tool", "tool_call_id": own, "content": text}


def _system(text: object = "Be brief.") -> Json:
    return {"role": "system", "content": text}


def _chat(*messages: Json) -> Json:
    return {"messages": list(messages)}


GOOD = _chat(_system(), _user(), _calls(), _result(), _says(), _user())
LIST = [{"type": "text", "text": "Hello."}]


def _matching(pattern: str) -> str:
    """Returns an id or a name that a pattern accepts."""
    for word in ("abcdef123", "get_weather", "a1", "Anna-1"):
        if re.fullmatch(pattern, word):
            return word
    raise AssertionError(f"no example for {pattern}")


def _chat_example(check: str, params: Mapping[str, Any]) -> Pair:
    role = (params.get("of") or ["user"])[0] if not isinstance(params.get("of"), Mapping) else "user"
    of = {
        "system": _system,
        "user": _user,
        "assistant": _says,
        "tool": lambda text: _result(text=text),
        "developer": _system,
    }
    pattern = str(params.get("pattern", ""))
    limit = int(params.get("limit", 0))
    match check:
        case "not_empty":
            return GOOD, _chat()
        case "roles":
            return GOOD, _chat({"role": "critic", "content": "Hm."})
        case "system_first" | "system_leading":
            return GOOD, _chat(_user(), _system())
        case "system_once":
            return GOOD, _chat(_system(), _system(), _user())
        case "some_user":
            return GOOD, _chat(_system(), _says())
        case "first_is":
            return GOOD, _chat(_says(), _user())
        case "last_is":
            end = {**_says(), params["prefix"]: True} if params.get("prefix") else _user()
            return _chat(_user(), end), _chat(_user(), _says())
        case "follows":
            first = next(iter(params["after"]))
            second = next(each for each in ("user", "system", "tool") if each not in params["after"][first])
            for before, allowed in params["after"].items():
                second = next((each for each in ("user", "system", "tool") if each not in allowed), second)
                if second not in allowed:
                    first = before
            turn = {"user": _user(), "system": _system(), "assistant": _says(), "tool": _result()}
            return _chat(_user(), _says(), _user()), _chat(turn[first], turn[second])
        case "alternate":
            return GOOD, _chat(_user(), _user())
        case "no_two_last_assistants":
            return _chat(_user(), _says()), _chat(_user(), _says(), _says())
        case "content_string":
            return GOOD, _chat(of[role](LIST))
        case "content_present":
            return _chat(_user(), _says("")), _chat(of[role](None))
        case "content_not_blank":
            return GOOD, _chat(of[role](" " if params.get("space", True) else ""))
        case "parts_not_blank":
            return _chat(_user(LIST)), _chat(_user([*LIST, {"type": "text", "text": ""}]))
        case "no_empty_assistant":
            return GOOD, _chat(_user(), _says(""))
        case "ids_present":
            return GOOD, _chat(_user(), _calls(_call("")), _result(""))
        case "id_length":
            return _chat(_calls(_call("a" * limit))), _chat(_calls(_call("a" * (limit + 1))))
        case "id_pattern":
            return _chat(_calls(_call(_matching(pattern)))), _chat(_calls(_call("a b")))
        case "results_follow" | "results_counted":
            return GOOD, _chat(_user(), _calls(), _user())
        case "results_known":
            return GOOD, _chat(_user(), _result("other"))
        case "arguments_json":
            return GOOD, _chat(_user(), _calls(_call(arguments="[1]")), _result())
        case "single_call":
            return GOOD, _chat(_user(), _calls(_call("a"), _call("b")), _result("a"), _result("b"))
        case "message_names":
            return _chat({**_user(), "name": "Anna"}), _chat({**_user(), "name": "Anna Smith"})
        case "function_names":
            return GOOD, _chat(_user(), _calls(_call(name="get weather")), _result())
        case "no_members":
            return GOOD, _chat({**_says(), params["names"][0]: "Hm."})
        case "only_members":
            return GOOD, _chat({**_user(), "colour": "red"})
        case "reasoning_present":
            return _chat({**_calls(), params["member"]: ""}, _result()), _chat(_calls(), _result())
        case "messages_at_most":
            return GOOD, _chat(*[_user()] * (limit + 1))
    raise AssertionError(f"no example for {check}")


def _responses_example(check: str, params: Mapping[str, Any]) -> Pair:
    user = {"role": "user", "content": "Hello."}
    call = {"type": "function_call", "call_id": "c1", "name": "get_weather", "arguments": "{}", "id": "fc_1"}
    output = {"type": "function_call_output", "call_id": "c1", "output": "18"}
    thought = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAA"}
    good = {"input": [user, thought, call, output, user]}
    refused: dict[str, list[Json]] = {
        "not_empty": [],
        "item_types": [{"type": "poem"}],
        "roles": [{"role": "critic", "content": "Hm."}],
        "part_types": [{"role": "assistant", "content": [{"type": "input_text", "text": "Hi."}]}],
        "message_members": [{**user, "name": "Anna"}],
        "call_ids": [{**call, "call_id": "c" * (int(params.get("limit", 0)) + 1)}],
        "unique_calls": [call, call],
        "outputs": [call],
        "outputs_known": [output],
        "output_types": [call, {**output, "output": {"celsius": 18}}],
        "arguments_string": [{**call, "arguments": {}}],
        "item_ids": [{**call, "id": "item-1"}],
        "function_names": [{**call, "name": "get weather"}],
        "reasoning_followed": [thought, user],
        "reasoning_shape": [{"type": "reasoning", "id": "rs_1"}],
    }
    return good, {"input": refused[check]}


def _anthropic_example(check: str, params: Mapping[str, Any]) -> Pair:
    use = {"type": "tool_use", "id": "toolu_1", "name": "get_weather", "input": {}}
    result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "18"}
    user, answer = {"role": "user", "content": "Hello."}, {"role": "assistant", "content": "Hi."}
    uses, results = {"role": "assistant", "content": [use]}, {"role": "user", "content": [result]}
    tools = [{"name": "get_weather", "input_schema": {"type": "object"}}]
    good = {"messages": [user, answer, user, uses, results], "tools": tools}

    def blocks(role: str, *inside: Json) -> Json:
        return {"role": role, "content": list(inside)}

    text = {"type": "text", "text": "Hello."}
    marked = {**text, "cache_control": {"type": "ephemeral"}}
    refused: dict[str, Json] = {
        "not_empty": {"messages": []},
        "roles": {"messages": [{"role": "critic", "content": "Hm."}]},
        "system_placed": {"messages": [user, answer, {"role": "system", "content": "Be brief."}]},
        "first_is_user": {"messages": [answer, user]},
        "last_is_user": {"messages": [user, answer]},
        "no_prefill_while_thinking": {"messages": [user, answer], "thinking": {"type": "enabled"}},
        "content_not_empty": {"messages": [{"role": "user", "content": ""}]},
        "text_not_blank": {"messages": [blocks("user", {"type": "text", "text": " "})]},
        "system_not_blank": {"messages": [user], "system": [{"type": "text", "text": ""}]},
        "no_final_space": {"messages": [user, {"role": "assistant", "content": "Hi. "}]},
        "result_content": {"messages": [user, uses, blocks("user", {**result, "content": []})]},
        "id_pattern": {"messages": [user, blocks("assistant", {**use, "id": "call.1"})]},
        "unique_ids": {"messages": [user, uses, results, uses, results]},
        "calls_answered": {"messages": [user, uses, user]},
        "results_known": {"messages": [user, answer, results]},
        "results_once": {"messages": [user, uses, blocks("user", result, result)]},
        "results_lead": {"messages": [user, uses, blocks("user", text, result)]},
        "input_object": {"messages": [user, blocks("assistant", {**use, "input": "{}"})]},
        "thinking_signed": {
            "messages": [user, blocks("assistant", {"type": "thinking", "thinking": "Hm.", "signature": "x"})]
        },
        "thinking_first": {**good, "thinking": {"type": "enabled", "budget_tokens": 1024}},
        "function_names": {"messages": [user, blocks("assistant", {**use, "name": "get weather"})]},
        "tools_defined": {"messages": [user, uses, results]},
        "cache_marks": {"messages": [blocks("user", *[marked] * 5)]},
        "block_types": {"messages": [blocks("user", use)]},
    }
    return good, refused[check]


def _gemini_example(check: str, params: Mapping[str, Any]) -> Pair:
    def content(role: str, *parts: Json) -> Json:
        return {"role": role, "parts": list(parts)}

    text = {"text": "Hello."}
    call = {"functionCall": {"name": "get_weather", "args": {}}, "thoughtSignature": "CgIB"}
    result = {"functionResponse": {"name": "get_weather", "response": {"output": "18"}}}
    user, answer, uses, results = (
        content("user", text),
        content("model", text),
        content("model", call),
        content("user", result),
    )
    refused: dict[str, Json] = {
        "not_empty": {"contents": []},
        "roles": {"contents": [content("function", result)]},
        "parts_present": {"contents": [content("user")]},
        "text_not_blank": {"contents": [content("user", {"text": ""})]},
        "first_is_user": {"contents": [answer, user]},
        "last_is_user": {"contents": [user, answer]},
        "calls_placed": {"contents": [user, answer, uses, results]},
        "responses_match": {"contents": [user, uses, content("user", result, result)]},
        "responses_alone": {"contents": [user, uses, content("user", result, text)]},
        "response_object": {
            "contents": [user, uses, content("user", {"functionResponse": {"name": "get_weather", "response": "18"}})]
        },
        "arguments_object": {
            "contents": [user, content("model", {"functionCall": {"name": "get_weather", "args": "{}"}})]
        },
        "calls_signed": {
            "contents": [user, content("model", {"functionCall": {"name": "get_weather", "args": {}}}), results]
        },
        "no_call_ids": {
            "contents": [user, content("model", {"functionCall": {"id": "a", "name": "get_weather", "args": {}}})]
        },
        "function_names": {"contents": [user, content("model", {"functionCall": {"name": "get weather", "args": {}}})]},
        "system_not_blank": {"contents": [user], "systemInstruction": {"parts": [{"text": ""}]}},
    }
    return {"contents": [user, answer, user, uses, results]}, refused[check]


EXAMPLES = {
    "chat": _chat_example,
    "responses": _responses_example,
    "anthropic": _anthropic_example,
    "gemini": _gemini_example,
}


def examples_of(row: Endpoint, rule: Rule) -> Pair:
    """Returns a body that a rule of a row accepts, and one that it refuses."""
    return EXAMPLES[row.api](rule.check, rule.params)


def faults(row: Endpoint) -> list[str]:
    """Returns the rules of a row that refuse their good example or accept their bad one."""
    found = []
    for rule in row.rules:
        accepted, refused = examples_of(row, rule)
        check = CHECKS[row.api][rule.check]
        if (
            check(accepted, **rule.params) is not None
            or check(refused, **rule.params) is None
            or not row.refusal(refused)
        ):
            found.append(f"{row.name}: {rule.check}")
    return found
