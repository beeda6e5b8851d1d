"""Plain answers: does the server talk, where does it stop, and what does it count."""

from __future__ import annotations

from typing import Any

from streamfold.values import user

from ..questions import COUNT, LINE, LINE_WORDS, UNICODE, UNICODE_TEXT, capped, words
from ..values import Answers, Ask, Outcome, Seen
from .judging import Theme, edited, refusal, sets, shown, unclear, was_refused, with_members, without_members

_CHAT = ("chat", "kimi")
_LIMIT = 12  # tokens that the probe about limits allows
_CUT = 24  # tokens after which an answer is cut


def _counted(usage: Any) -> str:
    return f"{usage.input_tokens} tokens in, {usage.output_tokens} out"


def _is_cut(seen: Any) -> bool:
    return seen is not None and seen.fine and seen.reply.finish_reason == "length"


BASICS = Theme("basics")


@BASICS.one(
    "answers",
    "Does it answer a plain question?",
    Ask("hello", LINE, special="nothing but model, message and stream", edit=without_members("stream_options")),
    basic=True,
    refused=("fault", ""),
)
def _answers(seen: Seen) -> Outcome:
    if not seen.text:
        return Outcome("fault", "an answer without text", "an empty answer has the warning empty_answer")
    return Outcome("ok", f"says {shown(seen.text, 50)}")


@BASICS.several(
    "max_tokens",
    "Which member limits the length of an answer?",
    Ask(
        "max_tokens",
        COUNT,
        special=f"max_tokens: {_LIMIT}",
        edit=without_members("max_completion_tokens", "stream_options", max_tokens=_LIMIT),
    ),
    Ask(
        "max_completion_tokens",
        COUNT,
        special=f"max_completion_tokens: {_LIMIT}",
        when=lambda so_far: not _is_cut(so_far.get("max_tokens")),
        edit=without_members("max_tokens", "stream_options", max_completion_tokens=_LIMIT),
    ),
    wires=_CHAT,
    whim=True,
)
def _max_tokens(answers: Answers) -> Outcome:
    old, new = answers.get("max_tokens"), answers.get("max_completion_tokens")
    if old and old.fine and old.reply.finish_reason == "length":
        return Outcome("ok", "max_tokens is respected")
    if new and new.fine and new.reply.finish_reason == "length":
        why = refusal(old) if old and old.refused else "max_tokens is ignored"
        does = 'sent as max_completion_tokens: max_tokens_field = "max_completion_tokens"'
        return sets(why, does, "max_tokens_field", "max_completion_tokens")
    if old and old.refused:
        return Outcome("no", f"{refusal(old)}; max_completion_tokens does not limit the answer either")
    longest = max((len(words(seen.text)) for seen in (old, new) if seen), default=0)
    if longest <= _LIMIT:
        return unclear(f"the answers end before the limit, after {longest} words")
    return Outcome("fault", f"neither name limits the answer: {longest} words, and at most {_LIMIT} tokens were wanted")


@BASICS.several(
    "stream_usage",
    "Does it report usage when it is asked to?",
    Ask(
        "asked",
        LINE,
        options={"max_output_tokens": 64},
        special="stream_options.include_usage",
        edit=with_members(stream_options={"include_usage": True}),
    ),
    Ask(
        "unasked",
        LINE,
        options={"max_output_tokens": 64},
        special="no stream_options",
        when=was_refused("asked"),
        edit=without_members("stream_options"),
    ),
    wires=_CHAT,
)
def _stream_usage(answers: Answers) -> Outcome:
    seen = answers.get("asked")
    if seen is None or seen.refused:
        why = refusal(seen) if seen else "no answer"
        without = answers.get("unasked")
        if without is None or not without.fine:
            return Outcome("fault", why)
        has = "usage comes unasked" if without.reply.usage else "there is no usage"
        return sets(f"stream_options: {why}", has, "stream_usage", False)
    if seen.reply.usage is None:
        return Outcome("no", "no usage, though stream_options asked for it", "reply.usage is None, never an estimate")
    return Outcome("ok", _counted(seen.reply.usage))


@BASICS.one(
    "usage",
    "Does it report usage?",
    Ask("hello", LINE, options={"max_output_tokens": 64}),
    wires=("responses", "anthropic", "gemini"),
)
def _usage(seen: Seen) -> Outcome:
    usage = seen.reply.usage
    if usage is None:
        return Outcome("no", "no usage", "reply.usage is None, never an estimate")
    if usage.input_tokens is None or usage.output_tokens is None:
        return Outcome("handled", f"incomplete: {_counted(usage)}", "missing counts are None")
    return Outcome("ok", _counted(usage))


@BASICS.one(
    "temperature",
    "May a request set the temperature?",
    Ask("zero", LINE, options={"temperature": 0.0, "max_output_tokens": 64}, special="temperature: 0"),
)
def _temperature(seen: Seen) -> Outcome:
    if seen.refused:
        return Outcome("no", refusal(seen), "the requests after this one leave it out", avoid=("temperature",))
    return Outcome("ok", "temperature 0 is accepted")


@BASICS.one(
    "text",
    "Does a text arrive as the model writes it?",
    Ask("line", LINE, options=capped(96)),
    whim=True,
    refused=("fault", ""),
)
def _text(seen: Seen) -> Outcome:
    said, wanted = words(seen.text), words(LINE_WORDS)
    if said == wanted:
        return Outcome("ok", f"the line came back in {seen.inspection.count if seen.inspection else 0} events")
    return unclear(f"the line came back as {shown(seen.text)}")


@BASICS.one(
    "unicode",
    "Do all characters arrive whole?",
    Ask("line", UNICODE, options=capped(96)),
    whim=True,
    refused=("fault", ""),
)
def _unicode(seen: Seen) -> Outcome:
    if UNICODE_TEXT in seen.text:
        return Outcome("ok", "accents, Chinese and an emoji came back whole")
    if "\ufffd" in seen.text:
        return Outcome("fault", f"characters are broken: {shown(seen.text)}", "broken bytes become U+FFFD")
    return unclear(f"the line came back as {shown(seen.text)}")


@BASICS.one(
    "stop",
    "Does it stop at a stop text?",
    Ask("count", COUNT, options=capped(64, stop=["5"]), special='stop: ["5"]'),
    wires=("chat", "anthropic", "gemini"),
    whim=True,
    refused=("no", ""),
)
def _stop(seen: Seen) -> Outcome:
    if "6" in words(seen.text) or "7" in words(seen.text):
        return Outcome("fault", f"wrote on past the stop text: {shown(seen.text, 50)}")
    if not {"3", "4"} & set(words(seen.text)):
        return unclear(f"did not count: {shown(seen.text, 50)}")
    kept = "5" in words(seen.text)
    reason = seen.reply.finish_reason
    saw = f"stopped{' and kept the stop text' if kept else ''}, finish reason {reason}"
    return Outcome("handled" if kept or reason != "stop" else "ok", saw)


# The limits that are documented somewhere, from "as many as anybody sends" down: 16 (DeepSeek), 5 (Gemini), 4 (OpenAI).
_STOPS = (17, 16, 5, 4, 3, 2)


def _stops(count: int, before: int | None) -> Ask:
    texts = [f"~{number}~" for number in range(count)]
    when = was_refused(str(before)) if before else None
    return edited(str(count), f"{count} stop texts", with_members(stop=texts), tokens=32, when=when)


@BASICS.several(
    "stop_max",
    "How many stop texts may there be?",
    *(_stops(count, before) for count, before in zip(_STOPS, (None, *_STOPS), strict=False)),
    wires=("chat",),
    needs="stop",
)
def _stop_max(answers: Answers) -> Outcome:
    first = answers[str(_STOPS[0])]
    if first.fine:
        return Outcome("ok", f"{_STOPS[0]} are accepted")
    if not first.refused:
        return unclear("the answer broke off")
    most = next((count for count in _STOPS if (seen := answers.get(str(count))) and seen.fine), 1)
    return sets(refusal(first), f"the others are found by the reader: stop_max = {most}", "stop_max", most)


@BASICS.one(
    "length",
    "Does a cut answer say that it is cut?",
    Ask("count", COUNT, options=capped(_CUT), special=f"at most {_CUT} tokens"),
    whim=True,
    refused=("fault", ""),
)
def _length(seen: Seen) -> Outcome:
    if seen.reply.finish_reason == "length":
        return Outcome("ok", "a cut answer says so")
    usage = seen.reply.usage
    if usage and usage.output_tokens == _CUT and "100" not in words(seen.text):
        raw = seen.reply.raw_finish_reason
        saw = f"cut at {_CUT} tokens, and reported as finished ({raw})"
        return Outcome("fault", saw, "nobody can tell it from a whole answer")
    return unclear(f"wrote {len(seen.text)} characters, finish reason {seen.reply.finish_reason}")


@BASICS.several(
    "seed",
    "Under which name does it take a seed?",
    edited("seed", "seed: 7", without_members("random_seed", seed=7), tokens=32),
    edited(
        "random_seed", "random_seed: 7", without_members("seed", random_seed=7), tokens=32, when=was_refused("seed")
    ),
    wires=("chat",),
)
def _seed(answers: Answers) -> Outcome:
    if answers["seed"].fine:
        return Outcome("ok", "seed is accepted")
    other = answers.get("random_seed")
    why = refusal(answers["seed"])
    if other and other.fine:
        return sets(why, 'sent as random_seed: seed_field = "random_seed"', "seed_field", "random_seed")
    return Outcome("no", why, "requests with a seed fail")


@BASICS.several(
    "cancel",
    "Can the next request follow one that was cancelled?",
    Ask("left", [user(COUNT)], options=capped(128), special="cancelled after its first bytes", leave=True),
    Ask("after", LINE, options=capped(32)),
)
def _cancel(answers: Answers) -> Outcome:
    left, after = answers.get("left"), answers.get("after")
    if left is None or after is None:
        return Outcome("unclear", "not both requests were sent")
    if after.fine:
        return Outcome("ok", f"the next answer began after {after.headers_after or 0:.1f} s")
    return Outcome("fault", f"after a cancelled request the next one failed: {after.said}")
