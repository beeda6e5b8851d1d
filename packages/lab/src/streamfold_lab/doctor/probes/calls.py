"""Probes for tool calls: whether a tool call arrives complete and in the right field of the response, and whether the
server follows the tool choice.
"""

from __future__ import annotations

from streamfold import NamedTool

from ..alterations import is_altered_copy
from ..questions import HELLO, NOTE, NOTE_TEXT, ONE_CALL, SAVE, SAY_AND_CALL, TIME, TWO_CALLS, WEATHER, capped
from ..values import Answers, Conclusion, ProbeRequest, ProbeResponse, Setting
from .judging import (
    ProbeGroup,
    call_to,
    capability,
    dialect_of,
    doubtful,
    edited,
    force_a_call,
    refusal,
    set_quirk,
    shown,
    unclear,
    was_refused,
    with_members,
)


def _broken(seen: ProbeResponse) -> Conclusion | None:
    broken = [call for call in seen.reply.tool_calls if call.error]
    if not broken:
        return None
    name, text = broken[0].name, broken[0].raw_arguments
    return unclear(f"the tool call arguments of {name} are not a JSON object: {shown(text)}")


def _guided(seen: ProbeResponse, dialect: str) -> Conclusion | None:
    if dialect_of(seen, "get_time") not in ("required", "named"):
        return None
    why = f"the forced tool call is in the text: {shown(seen.text)}"
    return Conclusion("set", why, f'read by the dialect "{dialect}"', (Setting(("dialect",), dialect, why),))


CALLS = ProbeGroup("tool calls")


@CALLS.probe(
    "one_call",
    "Does a tool call arrive as structured data?",
    ProbeRequest("weather", ONE_CALL, (WEATHER, TIME), options=capped()),
    whim=True,
)
def _one_call(seen: ProbeResponse) -> Conclusion:
    if seen.refused:
        why, does = refusal(seen), "requests with tools are rejected before they are sent"
        return Conclusion("no", why, does, (capability("tools", "no", why),))
    call = call_to(seen.reply, "get_weather")
    if call is not None and "paris" in str(call.arguments).lower():
        pieces = seen.inspection.calls[0].fragments if seen.inspection and seen.inspection.calls else 1
        saw = f"one tool call, its arguments in {pieces} piece{'s' * (pieces != 1)}"
        return Conclusion("ok", saw, settings=(capability("tools", "yes", saw),))
    if (dialect := dialect_of(seen, "get_weather")) is not None:
        why = f"the tool call is in the text: {shown(seen.text)}"
        does = f'read by the dialect "{dialect}"'
        yes = capability("tools", "yes", "tool calls are read from the text")
        return Conclusion("set", why, does, (Setting(("dialect",), dialect, why), yes))
    if "leaked_markup" in seen.codes and seen.inspection:
        detail = next(w.detail for w in seen.inspection.warnings if w.code == "leaked_markup")
        return Conclusion("fault", detail, "no dialect finds a valid tool call in the text")
    if call is not None:
        return unclear(f"a tool call, but its arguments don't contain the city: {shown(call.raw_arguments)}")
    return _broken(seen) or unclear(f"no tool call; the text is {shown(seen.text, 60)}")


@CALLS.probe_many(
    "required",
    'Does tool_choice "required" lead to a tool call?',
    ProbeRequest("required", HELLO, (TIME,), "required", capped(), 'tool_choice: "required"', force_a_call),
    ProbeRequest(
        "disable_reasoning",
        HELLO,
        (TIME,),
        "required",
        capped(reasoning_effort="none"),
        "required, and thinking off",
        force_a_call,
        was_refused("required"),
    ),
    whim=True,
)
def _required(answers: Answers) -> Conclusion:
    if answers["required"].refused:
        why, calm = refusal(answers["required"]), answers.get("disable_reasoning")
        if calm and calm.fine and calm.reply.tool_calls and "messages" in calm.sent:  # these APIs have the quirk
            does = 'while the model thinks, "auto" is sent instead, with a warning: forced_while_thinking = false'
            return set_quirk(why, does, "forced_while_thinking", False)
        does = '"auto" is sent instead, with a warning'
        return Conclusion("set", why, does, (capability("forced_choice", "no", why),))
    seen = answers["required"]
    if seen.reply.tool_calls and not _broken(seen):
        return Conclusion("ok", f"called {seen.reply.tool_calls[0].name}")
    if guided := _guided(seen, "required"):
        return guided
    if seen.reply.finish_reason == "length":
        return unclear("the response was truncated before a tool call")
    saw = f"no tool call, although one was required; the text is {shown(seen.text, 60)}"
    return _broken(seen) or doubtful(saw, "the tool choice is accepted, but has no effect")


@CALLS.probe(
    "named",
    "If the request names a tool, is that tool called?",
    ProbeRequest("named", HELLO, (WEATHER, TIME), NamedTool("get_time"), capped(), "tool_choice: get_time"),
    whim=True,
    needs="one_call",
    refused=("no", "requests that name a tool fail"),
)
def _named(seen: ProbeResponse) -> Conclusion:
    if not any("get_time" in str(seen.sent.get(member)) for member in ("tool_choice", "toolConfig")):
        return Conclusion("no", "the server rejects forced tool calls", '"auto" is sent instead, with a warning')
    names = [call.name for call in seen.reply.tool_calls]
    if names and set(names) == {"get_time"}:
        return Conclusion("ok", "the named tool was called")
    if names:
        saw = f"the request named get_time, but {', '.join(names)} was called"
        return doubtful(saw, "the calls are delivered unchanged")
    if seen.reply.finish_reason == "length":
        return unclear("the response was truncated before a tool call")
    saw = f"no tool call, although get_time was named; the text is {shown(seen.text, 60)}"
    return _guided(seen, "named") or doubtful(saw, "the tool choice has no effect")


@CALLS.probe(
    "none",
    'Does tool_choice "none" prevent calls?',
    ProbeRequest("none", ONE_CALL, (WEATHER, TIME), "none", capped(96), 'tool_choice: "none"'),
    needs="one_call",
    refused=("no", "leave the tools out instead"),
)
def _none(seen: ProbeResponse) -> Conclusion:
    if "calls_dropped" in seen.codes:
        return doubtful("tool calls arrived anyway", "the calls are dropped, with the warning calls_dropped")
    if "leaked_markup" in seen.codes or "<tool_call>" in seen.text:
        saw = f"the text contains a tool call: {shown(seen.text)}"
        return Conclusion("handled", saw, "the tool call stays text, with a warning")
    return Conclusion("ok", "no call")


@CALLS.probe(
    "left_alone",
    "Does the model call no tool if the prompt doesn't need one?",
    ProbeRequest("hello", HELLO, (WEATHER, TIME), options=capped(96)),
    whim=True,
    needs="one_call",
    refused=("fault", ""),
)
def _left_alone(seen: ProbeResponse) -> Conclusion:
    if seen.reply.tool_calls:
        return unclear(f"called {seen.reply.tool_calls[0].name}, although the prompt doesn't need it")
    return Conclusion("ok", "answered in text")


@CALLS.probe(
    "parallel",
    "Are two parallel tool calls separate?",
    ProbeRequest("two", TWO_CALLS, (WEATHER,), options=capped(512)),
    whim=True,
    needs="one_call",
    refused=("fault", ""),
)
def _parallel(seen: ProbeResponse) -> Conclusion:
    good = [call for call in seen.reply.tool_calls if not call.error]
    cities = " ".join(str(call.arguments).lower() for call in good)
    if len(good) > 1 and "paris" in cities and "london" in cities:
        saw = f"the response has {len(good)} separate tool calls"
        return Conclusion("ok", saw, settings=(capability("parallel_calls", "yes", saw),))
    if len(good) < len(seen.reply.tool_calls):
        return unclear(f"tool calls are mixed up: {shown(' '.join(c.raw_arguments for c in seen.reply.tool_calls))}")
    return unclear(f"{len(good)} call{'s' * (len(good) != 1)}")


@CALLS.probe(
    "say_and_call",
    "Does text before a tool call arrive?",
    ProbeRequest("both", SAY_AND_CALL, (WEATHER,), options=capped()),
    whim=True,
    needs="one_call",
    refused=("fault", ""),
)
def _say_and_call(seen: ProbeResponse) -> Conclusion:
    if call_to(seen.reply, "get_weather") and seen.text.strip():
        return Conclusion("ok", f"a tool call, and the text {shown(seen.text, 50)}")
    what = "a tool call without text" if seen.reply.tool_calls else f"no tool call; the text is {shown(seen.text, 50)}"
    return unclear(what)


@CALLS.probe(
    "long_arguments",
    "Do special characters in arguments arrive unchanged?",
    ProbeRequest("note", SAVE, (NOTE,), options=capped(512)),
    whim=True,
    needs="one_call",
    refused=("fault", ""),
)
def _long_arguments(seen: ProbeResponse) -> Conclusion:
    if "repaired_arguments" in seen.codes and seen.inspection:
        detail = next(w.detail for w in seen.inspection.warnings if w.code == "repaired_arguments")
        return Conclusion("handled", detail, "repaired, with the warning repaired_arguments")
    call = call_to(seen.reply, "save_note")
    if call is not None:
        if call.arguments.get("text", "").strip() == NOTE_TEXT:
            return Conclusion("ok", "quotes, backslash, brackets, tags and a line end arrived unchanged")
        saw = f"a valid tool call, but with a different text: {shown(str(call.arguments.get('text')))}"
        altered = is_altered_copy({"text": NOTE_TEXT}, call.arguments)
        return doubtful(saw) if altered else unclear(saw)
    return _broken(seen) or unclear(f"no tool call; the text is {shown(seen.text, 60)}")


_CUT = 16  # a token limit; OpenAI's Responses API rejects lower limits


@CALLS.probe(
    "cut_call",
    "Is a truncated tool call reported as truncated?",
    ProbeRequest("note", SAVE, (NOTE,), options=capped(_CUT), special=f"at most {_CUT} tokens"),
    whim=True,
    needs="one_call",
)
def _cut_call(seen: ProbeResponse) -> Conclusion:
    if seen.refused and seen.inspection:
        saw = f"a truncated tool call ends with an error: {shown(seen.said)}"
        return Conclusion("handled", saw, "no call is delivered")
    if seen.refused:
        return Conclusion("no", refusal(seen))
    if seen.reply.finish_reason == "length":
        return Conclusion("ok", "a truncated tool call is reported as truncated", "no call is delivered")
    usage, raw = seen.reply.usage, seen.reply.raw_finish_reason
    if any(call.error for call in seen.reply.tool_calls):
        does = "a tool call with invalid arguments has an error, so it can't be run by accident"
        return doubtful(f"a truncated tool call is reported as complete ({raw})", does)
    if not seen.reply.tool_calls and usage and usage.output_tokens and usage.output_tokens >= _CUT:
        saw = f"truncated at {usage.output_tokens} tokens, but reported as complete ({raw}), without the tool call"
        return doubtful(saw)
    return unclear("the tool call was shorter than the limit" if seen.reply.tool_calls else "no call")


@CALLS.probe(
    "no_arguments",
    "How does a tool call without arguments arrive?",
    ProbeRequest("time", "What time is it? Use the tool get_time.", (TIME,), options=capped()),
    whim=True,
    needs="one_call",
    refused=("fault", ""),
)
def _no_arguments(seen: ProbeResponse) -> Conclusion:
    call = call_to(seen.reply, "get_time")
    if call is None:
        return _broken(seen) or unclear(f"no tool call; the text is {shown(seen.text, 60)}")
    if call.raw_arguments.strip() == "{}":
        return Conclusion("ok", "no arguments, as {}", "read as {}")
    if not call.raw_arguments.strip():
        return Conclusion("handled", "no arguments, as an empty text", "read as {}")
    return Conclusion("ok", f"arguments {shown(call.raw_arguments, 40)}")


_ALLOWED = {"mode": "required", "tools": [{"type": "function", "function": {"name": "get_time"}}]}


@CALLS.probe(
    "allowed_tools",
    "Can the tool choice be limited to some of the tools?",
    edited(
        "allowed",
        "allowed_tools: get_time",
        with_members(tool_choice={"type": "allowed_tools", "allowed_tools": _ALLOWED}),
        ONE_CALL,
        (WEATHER, TIME),
        tokens=256,
    ),
    apis=("chat",),
    needs="one_call",
    refused=("ok", "the other tools are left out instead"),
)
def _allowed(seen: ProbeResponse) -> Conclusion:
    if {call.name for call in seen.reply.tool_calls} == {"get_time"}:
        return set_quirk("only the allowed tool was called", "sent as allowed_tools", "allowed_tools", True)
    return Conclusion("ok", "accepted, but ignored", "the other tools are left out instead")
