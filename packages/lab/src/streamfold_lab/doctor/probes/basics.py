"""Probes for basic features: text, token limits, stop sequences and token counts."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from streamfold import user

from ..damage import said
from ..questions import COUNT, LINE, LINE_WORDS, UNICODE, UNICODE_TEXT, capped, prompt_words
from ..values import Answers, Conclusion, ProbeRequest, ProbeResponse
from .judging import (
    ProbeGroup,
    accepted,
    doubtful,
    edited,
    refusal,
    set_quirk,
    shown,
    unclear,
    was_refused,
    with_members,
    without_members,
)

_CHAT = ("chat", "kimi")
_LIMIT = 16  # the token limit of the probe for limits; OpenAI's Responses API rejects lower limits
_CUT = 24  # the token limit of a response that must be truncated


def _counted(usage: Any) -> str:
    return f"{usage.input_tokens} tokens in, {usage.output_tokens} out"


def _is_cut(seen: ProbeResponse | None) -> bool:
    return seen is not None and seen.fine and seen.reply.finish_reason == "length"


BASICS = ProbeGroup("basics")


@BASICS.probe(
    "answers",
    "Does the server respond to a simple prompt?",
    ProbeRequest("hello", LINE, special="only model, message and stream", edit=without_members("stream_options")),
    basic=True,
    refused=("fault", ""),
)
def _answers(seen: ProbeResponse) -> Conclusion:
    if not seen.text:
        return Conclusion("fault", "a response without text", "an empty response has the warning empty_answer")
    return Conclusion("ok", f"the text is {shown(seen.text, 50)}")


@BASICS.probe_many(
    "max_tokens",
    "Which field limits the length of a response?",
    ProbeRequest(
        "max_tokens",
        COUNT,
        special=f"max_tokens: {_LIMIT}",
        edit=without_members("max_completion_tokens", "stream_options", max_tokens=_LIMIT),
    ),
    ProbeRequest(
        "max_completion_tokens",
        COUNT,
        special=f"max_completion_tokens: {_LIMIT}",
        when=lambda so_far: not _is_cut(so_far.get("max_tokens")),
        edit=without_members("max_tokens", "stream_options", max_completion_tokens=_LIMIT),
    ),
    apis=_CHAT,
    whim=True,
)
def _max_tokens(answers: Answers) -> Conclusion:
    old, new = answers.get("max_tokens"), answers.get("max_completion_tokens")
    if _is_cut(old):
        return Conclusion("ok", "max_tokens is respected")
    if _is_cut(new):
        why = refusal(old) if old and old.refused else "max_tokens is ignored"
        does = 'the limit is sent as max_completion_tokens: max_tokens_field = "max_completion_tokens"'
        return set_quirk(why, does, "max_tokens_field", "max_completion_tokens")
    if old and old.refused:
        return Conclusion("no", f"{refusal(old)}; max_completion_tokens doesn't limit the response either")
    longest = max((len(prompt_words(seen.text)) for seen in (old, new) if seen), default=0)
    if longest <= _LIMIT:
        return unclear(f"the responses end before the limit, after {longest} words")
    return doubtful(
        f"neither field limits the response: it has {longest} words, although at most {_LIMIT} tokens were allowed"
    )


@BASICS.probe_many(
    "stream_usage",
    "Does the server report usage if the request enables usage?",
    ProbeRequest(
        "asked",
        LINE,
        options={"max_output_tokens": 64},
        special="stream_options.include_usage",
        edit=with_members(stream_options={"include_usage": True}),
    ),
    ProbeRequest(
        "unasked",
        LINE,
        options={"max_output_tokens": 64},
        special="no stream_options",
        when=was_refused("asked"),
        edit=without_members("stream_options"),
    ),
    apis=_CHAT,
)
def _stream_usage(answers: Answers) -> Conclusion:
    seen = answers.get("asked")
    if seen is None or seen.refused:
        why = refusal(seen) if seen else "no answer"
        without = answers.get("unasked")
        if without is None or not without.fine:
            return Conclusion("fault", why)
        has = "usage arrives without being requested" if without.reply.usage else "there is no usage"
        return set_quirk(f"stream_options: {why}", has, "stream_usage", False)
    if seen.reply.usage is None:
        saw = "the response has no usage, although stream_options requested it"
        return Conclusion("no", saw, "reply.usage is None, never an estimate")
    return Conclusion("ok", _counted(seen.reply.usage))


@BASICS.probe(
    "usage",
    "Does the server report usage?",
    ProbeRequest("hello", LINE, options={"max_output_tokens": 64}),
    apis=("responses", "anthropic", "gemini"),
)
def _usage(seen: ProbeResponse) -> Conclusion:
    usage = seen.reply.usage
    if usage is None:
        return Conclusion("no", "no usage", "reply.usage is None, never an estimate")
    if usage.input_tokens is None or usage.output_tokens is None:
        return Conclusion("handled", f"incomplete: {_counted(usage)}", "missing counts are None")
    return Conclusion("ok", _counted(usage))


@BASICS.probe(
    "temperature",
    "May a request set the temperature?",
    ProbeRequest("zero", LINE, options={"temperature": 0.0, "max_output_tokens": 64}, special="temperature: 0"),
)
def _temperature(seen: ProbeResponse) -> Conclusion:
    if seen.refused:
        return Conclusion("no", refusal(seen), "later requests leave the temperature out", avoid=("temperature",))
    return Conclusion("ok", "temperature 0 is accepted")


@BASICS.probe(
    "text",
    "Is text streamed while the model writes it?",
    ProbeRequest("line", LINE, options=capped(96)),
    whim=True,
    refused=("fault", ""),
)
def _text(seen: ProbeResponse) -> Conclusion:
    said, wanted = prompt_words(seen.text), prompt_words(LINE_WORDS)
    if said == wanted:
        return Conclusion("ok", f"the text arrived in {seen.inspection.count if seen.inspection else 0} events")
    return unclear(f"the line arrived as {shown(seen.text)}")


@BASICS.probe(
    "unicode",
    "Do all characters arrive unchanged?",
    ProbeRequest("line", UNICODE, options=capped(96)),
    whim=True,
    refused=("fault", ""),
)
def _unicode(seen: ProbeResponse) -> Conclusion:
    if UNICODE_TEXT in seen.text:
        return Conclusion("ok", "accents, Chinese and an emoji arrived unchanged")
    if "\ufffd" in seen.text:
        return Conclusion("fault", f"characters are broken: {shown(seen.text)}", "broken bytes become U+FFFD")
    return unclear(f"the line arrived as {shown(seen.text)}")


_NEVER = "~never~"  # a stop text that the model doesn't write


@BASICS.probe_many(
    "stop",
    "Does the response stop at a stop sequence?",
    ProbeRequest("count", COUNT, options=capped(64, stop=[_NEVER, "5"]), special=f'stop: ["{_NEVER}", "5"]'),
    ProbeRequest("one", COUNT, options=capped(64, stop=["5"]), special='stop: ["5"]', when=was_refused("count")),
    apis=("chat", "anthropic", "gemini"),
    whim=True,
)
def _stop(answers: Answers) -> Conclusion:
    seen = next((seen for seen in answers.values() if not seen.refused), None)
    if seen is None:
        return Conclusion("no", refusal(answers["count"]))
    if "6" in prompt_words(seen.text) or "7" in prompt_words(seen.text):
        return doubtful(f"continued after the stop sequence: {shown(seen.text, 50)}")
    if not {"3", "4"} & set(prompt_words(seen.text)):
        return unclear(f"the model didn't count to 5: {shown(seen.text, 50)}")
    if foreign := _words_behind_numbers(seen):
        return doubtful(f"the text continues after the stop sequence: {shown(foreign, 60)}")
    kept = "5" in prompt_words(seen.text)
    reason = seen.reply.finish_reason
    saw = f"stopped{' and included the stop sequence' if kept else ''}, finish reason {reason}"
    return Conclusion("handled" if kept or reason != "stop" else "ok", saw)


def _words_behind_numbers(seen: ProbeResponse) -> str:
    """Returns the text after the last number, for a response in which the model counted until it was stopped. Such text
    isn't from the model. For a response without numbers, returns an empty text.
    """
    if not {"3", "4"} & set(prompt_words(seen.text)):
        return ""
    behind = re.split(r"\d", said(seen.text))[-1].strip()
    return behind if len(re.findall(r"[^\W\d_]{2,}", behind)) >= 3 else ""


# Documented limits for the number of stop sequences: 16 (DeepSeek), 5 (Gemini), 4 (OpenAI).
_STOPS = (17, 16, 5, 4, 3, 2)


def _stops(count: int, before: int | None) -> ProbeRequest:
    edit = with_members(stop=[f"~{number}~" for number in range(count)])
    when = was_refused(str(before)) if before else None
    return edited(str(count), f"{count} stop texts", edit, tokens=32, when=when)


@BASICS.probe_many(
    "stop_max",
    "How many stop sequences are allowed?",
    *(_stops(count, before) for count, before in zip(_STOPS, (None, *_STOPS), strict=False)),
    apis=("chat",),
    needs="stop",
)
def _stop_max(answers: Answers) -> Conclusion:
    first = answers[str(_STOPS[0])]
    if first.fine:
        return Conclusion("ok", f"{_STOPS[0]} stop sequences are accepted")
    if not first.refused:
        return unclear("the response broke off")
    most = next((count for count in _STOPS if (seen := answers.get(str(count))) and seen.fine), 1)
    does = f"streamfold applies the other stop sequences itself: stop_max = {most}"
    return set_quirk(refusal(first), does, "stop_max", most)


@BASICS.probe_many(
    "length",
    "Is a truncated response reported as truncated?",
    ProbeRequest("count", COUNT, options=capped(_CUT), special=f"at most {_CUT} tokens"),
    ProbeRequest(
        "whole",
        COUNT,
        options=capped(1024),
        special="without a small limit",
        when=lambda so_far: so_far["count"].fine and so_far["count"].reply.finish_reason != "length",
    ),
    whim=True,
)
def _length(answers: Answers) -> Conclusion:
    seen, whole = answers["count"], answers.get("whole")
    if seen.refused:
        return Conclusion("no", refusal(seen))
    if seen.reply.finish_reason == "length":
        if foreign := _words_behind_numbers(seen):
            return doubtful(f"the text continues after the limit: {shown(foreign, 60)}")
        return Conclusion("ok", "a truncated response is reported as truncated")
    words, usage = prompt_words(seen.text), seen.reply.usage
    if len(words) > 2 * _CUT:  # no tokenizer encodes two words as one token
        return doubtful(f"the response has {len(words)} words, although at most {_CUT} tokens were allowed")
    counted_whole = whole is not None and whole.fine and "100" in prompt_words(whole.text)
    if "100" not in words and (counted_whole or (usage and usage.output_tokens == _CUT)):
        raw = seen.reply.raw_finish_reason
        saw = f"truncated at {_CUT} tokens, but reported as complete ({raw}): {shown(seen.text, 40)}"
        return doubtful(saw, "a truncated response looks complete")
    return unclear(f"the response has {len(seen.text)} characters and the finish reason {seen.reply.finish_reason}")


def _seeded(name: str, edit: Any, when: Callable[[Answers], bool] | None = None) -> ProbeRequest:
    options = {"max_output_tokens": 48, "temperature": 1.0}
    prompt = "Write one sentence about anything that you like."
    return ProbeRequest(name, prompt, options=options, special=f"{name}: 7, temperature: 1", edit=edit, when=when)


@BASICS.probe_many(
    "seed",
    "Which field sets the seed?",
    _seeded("seed", without_members("random_seed", seed=7)),
    _seeded("random_seed", without_members("seed", random_seed=7), was_refused("seed")),
    _seeded("again", without_members("random_seed", seed=7), accepted("seed")),
    apis=("chat",),
)
def _seed(answers: Answers) -> Conclusion:
    if answers["seed"].fine:
        again = answers.get("again")
        if again and again.fine and again.text != answers["seed"].text:
            return Conclusion("no", "a seed is accepted, but the same seed gives different responses")
        return Conclusion("ok", "the same seed gives the same response")
    other = answers.get("random_seed")
    why = refusal(answers["seed"])
    if other and other.fine:
        does = 'the seed is sent as random_seed: seed_field = "random_seed"'
        return set_quirk(why, does, "seed_field", "random_seed")
    return Conclusion("no", why, "requests with a seed fail")


@BASICS.probe_many(
    "cancel",
    "Does a request work after a cancelled request?",
    ProbeRequest("left", [user(COUNT)], options=capped(128), special="cancelled after its first bytes", leave=True),
    ProbeRequest("after", LINE, options=capped(32)),
)
def _cancel(answers: Answers) -> Conclusion:
    left, after = answers.get("left"), answers.get("after")
    if left is None or after is None:
        return Conclusion("unclear", "the budget ended before both requests were sent")
    if after.fine:
        return Conclusion("ok", f"the next response began after {after.headers_after or 0:.1f} s")
    return Conclusion("fault", f"the request after a cancelled request failed: {after.said}")
