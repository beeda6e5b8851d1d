"""Probes that judge all responses of a test run: model names, token counts, markup, and codes from other requests."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from ...budget import OUTPUT_LIMITS, request_fields
from ...confidence import CONFIDENCE, interval
from ...known_values import CODE, sent_text
from ...model_names import is_other_model
from ...values import Answers, Conclusion, ProbeResponse, Verdict
from ..judging import ProbeGroup, dialect_of, numbers_of, shown

ALL_ANSWERS = ProbeGroup("faithfulness")


@ALL_ANSWERS.probe_many("own_answers", "Does every response belong to its request?", both_modes=True)
def _own_answers(answers: Answers) -> Conclusion:
    """Finds responses that belong to another request. Each random code is in only one prompt, so a response that
    contains the code of an earlier request belongs to that request.
    """
    told: set[str] = set()
    found: list[tuple[ProbeResponse, str]] = []
    for seen in answers.values():
        own = set(CODE.findall(sent_text(seen)))
        if "previous_response_id" not in seen.sent:
            calls = " ".join(call.raw_arguments for call in seen.reply.tool_calls)
            found += [(seen, value) for value in CODE.findall(f"{seen.text} {calls}") if value in told - own]
        told |= own
    if not told:
        return Conclusion("no", "no request had a code")
    if found:
        saw = f"{len({seen.number for seen, _ in found})} of {len(answers)} responses have a code of an earlier request"
        return Conclusion(
            "unfaithful",
            f"{saw}: {found[0][1]}",
            "responses are mixed up, or come from a cache that doesn't compare the complete request",
            telling=numbers_of(seen for seen, _ in found),
        )
    return Conclusion("ok", "no response has a code of an earlier request")


@ALL_ANSWERS.probe_many("model", "Are the responses from the requested model?", both_modes=True)
def _model(answers: Answers) -> Conclusion:
    named = [seen for seen in answers.values() if seen.fine and seen.reply.model and seen.probe != "unknown_model"]
    others = [seen for seen in named if is_other_model(_requested_model(seen), seen.reply.model or "")]
    if others:
        names = ", ".join(sorted({seen.reply.model or "" for seen in others}))
        saw = (
            f"{len(others)} of {len(named)} responses are from {names}, although {_requested_model(others[0])}"
            " was requested"
        )
        return Conclusion("unfaithful", saw, telling=numbers_of(others))
    if not named:
        return Conclusion("no", "the responses don't name a model")
    names = ", ".join(sorted({seen.reply.model or "" for seen in named}))
    return Conclusion("ok", f"{len(named)} answers are from {names}")


def _requested_model(seen: ProbeResponse) -> str:
    sent = seen.recording.sent if seen.recording else None
    in_path = re.search(r"/models/([^/:?]+):", sent.path) if sent else None  # Gemini
    return str(seen.sent.get("model") or (in_path[1] if in_path else ""))


def _declared(seen: ProbeResponse) -> dict[str, Mapping[str, Any]]:
    """Returns the parameter schemas of a request's tools, by tool name. The request may be in the format of any API."""
    tools: dict[str, Mapping[str, Any]] = {}
    for tool in seen.sent.get("tools", ()):
        for each in (tool, tool.get("function") or {}, *(tool.get("functionDeclarations") or ())):
            if "name" in each:
                found = (each.get(name) for name in ("parameters", "input_schema", "parametersJsonSchema"))
                tools[str(each["name"])] = next((schema for schema in found if schema), {})
    return tools


@ALL_ANSWERS.probe_many("call_names", "Do tool calls have the names of declared tools?", both_modes=True)
def _call_names(answers: Answers) -> Conclusion:
    with_calls = [seen for seen in answers.values() if seen.fine and seen.reply.tool_calls]
    calls = [(seen, call.name) for seen in with_calls for call in seen.reply.tool_calls]
    found = [(seen, name) for seen, name in calls if name not in _declared(seen)]
    if not found:
        return Conclusion("ok" if with_calls else "no", f"{len(with_calls)} responses with tool calls")
    seen, name = found[0]
    saw = f"{len(found)} tool calls have an undeclared name: {shown(name)}"
    plain = _plain(name)
    damaged = any(_plain(each) in plain or plain in _plain(each) for each in _declared(seen)) or _TOKENS.search(name)
    verdict: Verdict = "unfaithful" if damaged and len(found) > 1 else "unclear"
    return Conclusion(verdict, saw, telling=numbers_of(seen for seen, _ in found))


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


_MISFITS = 0.1  # a model itself may omit a required argument in this share of its tool calls


@ALL_ANSWERS.probe_many("required_arguments", "Do tool calls have all required arguments?", both_modes=True)
def _required_arguments(answers: Answers) -> Conclusion:
    calls = [
        (seen, call, _declared(seen)[call.name].get("required") or ())
        for seen in answers.values()
        for call in seen.reply.tool_calls
        if seen.fine and not call.error and call.name in _declared(seen)
    ]
    # A tool that is never called with all required arguments may be too difficult for the model.
    can = {call.name for _, call, names in calls if all(name in call.arguments for name in names)}
    calls = [each for each in calls if each[1].name in can]
    found = [(seen, call, name) for seen, call, names in calls for name in names if name not in call.arguments]
    misfits = len({(seen.number, call.id) for seen, call, _ in found})
    if not misfits:
        return Conclusion("ok" if calls else "no", f"{len(calls)} tool calls have all required arguments")
    low, high = interval(misfits, len(calls))
    saw = (
        f"{misfits} of {len(calls)} tool calls lack a required argument; for example, {found[0][1].name} lacks"
        f" {found[0][2]}"
    )
    if low <= _MISFITS:
        return Conclusion("unclear", saw, telling=numbers_of(seen for seen, _, _ in found))
    sure = f"with {CONFIDENCE:.0%} confidence, {low:.0%} to {high:.0%} of all tool calls lack one"
    return Conclusion("unfaithful", f"{saw}; {sure}", telling=numbers_of(seen for seen, _, _ in found))


# Special tokens of models, which a response should contain only if its request does.
_TOKENS = re.compile(
    r"<\|[a-z_]{2,30}\|?>|<[a-z_]{2,30}\|>|<｜[^｜<>]{2,30}｜>|\[TOOL_CALLS\]|</?tool_call>|</?function_call>"
)
# Probes whose prompts contain markup.
_QUOTING = ("special_tokens", "long_result", "strings", "echo", "user_tokens", "long_arguments")


@ALL_ANSWERS.probe_many("markup", "Does the text contain special tokens or tool call markup?", both_modes=True)
def _markup(answers: Answers) -> Conclusion:
    judged = [seen for seen in answers.values() if seen.fine and seen.probe not in _QUOTING]
    found = [seen for seen in judged if _TOKENS.search(seen.text) or (_declared(seen) and _call_in_text(seen))]
    if len(found) > 1:
        saw = f"{len(found)} of {len(judged)} responses: {shown(found[0].text, 70)}"
        does = "a dialect may read it: see the finding one_call"
        return Conclusion("unfaithful", saw, does, telling=numbers_of(found))
    return Conclusion("ok" if judged else "no", "none")


def _call_in_text(seen: ProbeResponse) -> bool:
    if not re.search(r"[<\[{]", seen.text):
        return False
    return any(dialect_of(seen, name) not in (None, "required", "named") for name in _declared(seen))


_TOTAL = 0.1  # a total may differ by this share from the sum of its parts
# Request fields that don't change the prompt, and therefore not the input token count.
_NOT_READ = (*OUTPUT_LIMITS, "stream", "stream_options", "temperature", "seed", "random_seed", "stop")
_SAME = 1.2  # the token counts of one prompt may differ by this factor
_SLACK = 16  # and counts additionally by this number of tokens


@ALL_ANSWERS.probe_many("totals", "Do token counts add up?", both_modes=True)
def _totals(answers: Answers) -> Conclusion:
    found, counted = [], 0
    counts: dict[str, list[tuple[int, ProbeResponse]]] = defaultdict(list)
    for seen in answers.values():
        usage = seen.reply.usage if seen.fine else None
        if usage is None or usage.input_tokens is None or usage.output_tokens is None:
            continue
        counted += 1
        if wrong := _wrong_count(seen):
            found.append((seen, wrong))
        if seen.probe != "cache":  # this probe compares its counts itself
            read = {name: value for name, value in request_fields(seen.sent).items() if name not in _NOT_READ}
            counts[json.dumps(read)].append((usage.input_tokens, seen))
    for same in counts.values():
        (least, _), (most, seen) = min(same, key=lambda each: each[0]), max(same, key=lambda each: each[0])
        cached = max(each.reply.usage.cached_tokens or 0 for _, each in same if each.reply.usage)
        if least and most > _SAME * least + _SLACK and not cached:
            found.append((seen, f"the same prompt is counted as {least} and as {most} tokens"))
    if len(found) > 1:
        saw = f"the token counts of {len(found)} of {counted} responses don't add up: {found[0][1]}"
        telling = numbers_of(seen for seen, _ in found)
        return Conclusion("unfaithful", f"{saw} (tolerance: {_TOTAL:.0%})", telling=telling)
    if not counted:
        return Conclusion("no", "no counts")
    return Conclusion("ok", f"the token counts of {counted} responses add up")


def _wrong_count(seen: ProbeResponse) -> str:
    """Describes what is wrong with the token counts of a response; empty if they are right."""
    usage = seen.reply.usage
    if usage is None or usage.input_tokens is None or usage.output_tokens is None:
        return ""
    raw = usage.raw or {}
    total = raw.get("total_tokens", raw.get("totalTokenCount"))
    thought, cached = usage.reasoning_tokens or 0, usage.cached_tokens or 0
    parts = usage.input_tokens + usage.output_tokens
    off = isinstance(total, int) and abs(total - parts) > max(8, _TOTAL * parts) and abs(total - parts - thought) > 8
    if off or cached > usage.input_tokens or thought > usage.output_tokens:
        return f"{usage.input_tokens} input and {usage.output_tokens} output tokens, {total or parts} in total"
    if not usage.input_tokens or (not usage.output_tokens and (seen.text.strip() or seen.reply.tool_calls)):
        return f"{usage.input_tokens} input tokens and {usage.output_tokens} output tokens"
    limits = map(request_fields(seen.sent).get, OUTPUT_LIMITS)
    limit = next((value for value in limits if isinstance(value, int)), None)
    if limit and seen.reply.finish_reason == "length" and usage.output_tokens - thought > limit * (1 + _TOTAL) + 8:
        return f"truncated at {limit} tokens, but counted as {usage.output_tokens}"
    return ""
