"""Probes for token counts: whether they fit the length of input and output, and whether the number of cached tokens is
plausible.
"""

from __future__ import annotations

from random import Random

from streamfold import assistant, system, user
from streamfold.limits import text_tokens

from ...damage import said
from ...known_values import GREET, code, filler, prompt_of, with_random_values
from ...questions import capped
from ...values import Answers, Conclusion, ProbeRequest, ProbeResponse
from ..judging import ProbeGroup, doubtful

COUNTS = ProbeGroup("faithfulness")
_GROWTH = 2.5  # the token count of English text may differ by this factor from one token per four bytes
_RULED = 1.4  # a count may differ by this factor from the count that `_ruler` predicts
_OVERHEAD = 500  # tokens that a chat template may add to a short prompt
_DEFAULT = 100  # tokens of the default system prompt that a chat template may add
_KNOWN = 2_400  # the length of the known text in characters
_LIMIT = 100  # the token limit that truncates the repeated text
_SAME = 1.1  # the token counts of one prompt may differ by this factor
_SLACK = 16  # and two counts additionally by this number of tokens


def _short(rng: Random) -> ProbeRequest:
    return ProbeRequest("short", f"Your name is {code(rng)}. {GREET}", options=capped(48))


def _with_system(rng: Random) -> ProbeRequest:
    messages = [system("Be brief."), user(f"Your name is {code(rng)}. {GREET}")]
    return ProbeRequest("with_system", messages, options=capped(48), special="a system message")


def _long(rng: Random) -> ProbeRequest:
    prompt = f"Your name is {code(rng)}. {filler(rng, _KNOWN)} {GREET}"
    return ProbeRequest("long", prompt, options=capped(48), special="a known text more")


def _with_history(rng: Random) -> ProbeRequest:
    messages = [user(f"{filler(rng, _KNOWN)} {GREET}"), assistant("Hello!"), user(f"Your name is {code(rng)}. {GREET}")]
    return ProbeRequest("with_history", messages, options=capped(48), special="an earlier turn")


def _copy(rng: Random) -> ProbeRequest:
    prompt = f"Repeat this line exactly, and write nothing else: {filler(rng, 500)}"
    return ProbeRequest("copy", prompt, options=capped(600), special="a known text is written")


def _cut_copy(rng: Random) -> ProbeRequest:
    prompt = f"Repeat this line exactly, and write nothing else: {filler(rng, 1_500)}"
    special = f"a known text is written, at most {_LIMIT} tokens"
    return ProbeRequest("cut_copy", prompt, options=capped(_LIMIT), special=special)


def _ruler(seen: ProbeResponse | None) -> float | None:
    """Returns the tokens per character of a known text, measured with a response that reached its token limit. Hidden
    reasoning makes the result too high.
    """
    if seen is None or not seen.fine or seen.reply.finish_reason != "length":
        return None
    text = said(seen.text).strip()
    usage = seen.reply.usage
    thought = (usage.reasoning_tokens if usage else None) or 0
    if seen.reply.reasoning or len(text) < 100 or not prompt_of(seen).partition(": ")[2].startswith(text[:-8]):
        return None
    return max(1, _LIMIT - thought) / len(text)


@COUNTS.probe_many(
    "counts",
    "Do token counts match a known text?",
    *(with_random_values(make) for make in (_short, _with_system, _long, _with_history, _copy, _cut_copy)),
    whim=True,
)
def _counts(answers: Answers) -> Conclusion:
    usages = {name: seen.reply.usage for name, seen in answers.items() if seen.fine}
    short, long = usages.get("short"), usages.get("long")
    if not short or not long or not short.input_tokens or not long.input_tokens:
        return Conclusion("no", "no counts", "reply.usage is None, never an estimate")
    known = len(prompt_of(answers["long"])) - len(prompt_of(answers["short"]))
    growth, ruler = long.input_tokens - short.input_tokens, _ruler(answers.get("cut_copy"))
    expected = known * (ruler or 0.25)
    bound = f"tolerance: a factor of {_GROWTH} for a known text, and {_OVERHEAD} tokens for a chat template"
    if ruler is not None:
        bound = f"measured: {1 / ruler:.1f} characters per token; tolerance: a factor of {_RULED}"
    if growth < known / 4 / _GROWTH or growth > expected * (_RULED if ruler else _GROWTH) + _SLACK:
        saw = f"{known:,} more characters are counted as {growth:,} more tokens; about {expected:,.0f} were expected"
        return doubtful(f"{saw} ({bound})")
    earlier = usages.get("with_history")
    if earlier and earlier.input_tokens and earlier.input_tokens - short.input_tokens < growth / _GROWTH:
        saw = f"a prompt is counted as {short.input_tokens:,} tokens, but after an earlier turn of {known:,} characters"
        return doubtful(
            f"{saw} as {earlier.input_tokens:,} ({bound})", "the history isn't counted, or the model doesn't get it"
        )
    base = short.input_tokens - text_tokens(prompt_of(answers["short"]))
    if base > _OVERHEAD:
        saw = f"a prompt of {len(prompt_of(answers['short']))} characters is counted as {short.input_tokens:,} tokens"
        return doubtful(f"{saw} ({bound})", "the prompt was extended, or the token count is too high")
    if (own := usages.get("with_system")) and own.input_tokens and own.input_tokens < short.input_tokens - _DEFAULT:
        saw = f"a prompt is counted as {short.input_tokens:,} tokens, but with a system message as {own.input_tokens:,}"
        return doubtful(
            f"{saw} (tolerance: {_DEFAULT} tokens for a chat template)", "the server adds a hidden system message"
        )
    return _written(answers, ruler or growth / known, bound) or Conclusion(
        "ok", f"{known:,} more characters are counted as {growth:,} more tokens"
    )


def _written(answers: Answers, rate: float, bound: str) -> Conclusion | None:
    """Judges whether a response has about `rate` output tokens per character. Returns None for a plausible count."""
    seen = answers.get("copy")
    usage = seen.reply.usage if seen else None
    if seen is None or not usage or not usage.output_tokens or prompt_of(seen).partition(": ")[2] not in seen.text:
        return None
    text = seen.text + seen.reply.reasoning
    wanted = rate * len(text)
    counted = usage.output_tokens - (0 if seen.reply.reasoning else usage.reasoning_tokens or 0)
    most = wanted * (_GROWTH if seen.reply.reasoning else _RULED) + _SLACK
    hidden = not seen.reply.reasoning and not usage.reasoning_tokens and counted > most
    if wanted / _GROWTH - _SLACK <= counted <= (wanted * _GROWTH + 64 if hidden else most):
        return None
    return doubtful(
        f"a response of {len(text)} characters is counted as {counted:,} tokens; about {wanted:,.0f} were"
        f" expected ({bound})"
    )


def _cached_prompt(rng: Random) -> ProbeRequest:
    prompt = f"Your name is {code(rng)}. {filler(rng, 9_000)} {GREET}"
    return ProbeRequest("first", prompt, options=capped(48), modes="streamed", patience=1)


def _again(answers: Answers) -> ProbeRequest | None:
    first = answers.get("first")
    if first is None or not first.fine:
        return None
    return ProbeRequest("again", prompt_of(first), options=capped(48), modes="streamed")


def _other_beginning(answers: Answers) -> ProbeRequest | None:
    """If the server counted the prompt as cached, returns a prompt with a different beginning. The two prompts share no
    prefix that could be cached.
    """
    again = answers.get("again")
    if again is None or not again.fine or not again.reply.usage or not again.reply.usage.cached_tokens:
        return None
    return ProbeRequest("changed", f"Now y{prompt_of(again)[1:]}", options=capped(48), modes="streamed")


@COUNTS.probe_many(
    "cache",
    "Are reported cached tokens plausible?",
    with_random_values(_cached_prompt),
    ProbeRequest("again", GREET, options=capped(48), special="the same prompt again", modes="streamed", follow=_again),
    ProbeRequest(
        "changed", GREET, options=capped(48), special="other first words", modes="streamed", follow=_other_beginning
    ),
    whim=True,
)
def _cache(answers: Answers) -> Conclusion:
    first, again, changed = (
        seen.reply.usage if (seen := answers.get(name)) else None for name in ("first", "again", "changed")
    )
    if first is None:
        return Conclusion("no", "no counts")
    for usage in (first, changed):
        size, cached = (usage.input_tokens or 0, usage.cached_tokens or 0) if usage else (0, 0)
        if cached > max(256, size / 4):
            return doubtful(f"of {size:,} new tokens, {cached:,} are counted as cached")
    if again is None:
        return Conclusion("no", "no token counts for a repeated prompt")
    counts, cached = (first.input_tokens or 0, again.input_tokens or 0), again.cached_tokens or 0
    if cached > counts[1]:
        return Conclusion("unfaithful", f"{cached:,} of {counts[1]:,} tokens are counted as cached")
    without_cached = abs(counts[0] - counts[1] - cached) <= _SLACK  # the input token count excludes cached tokens
    if max(counts) > min(counts) * _SAME + _SLACK and not without_cached:
        saw = (
            f"a prompt is counted as {counts[0]:,} tokens, but as {counts[1]:,} when repeated, {cached:,} of"
            " them cached"
        )
        return doubtful(saw)
    if not cached:
        return Conclusion("no", "a repeated prompt is not counted as cached")
    return Conclusion("ok", f"when the prompt was repeated, {cached:,} of {counts[1]:,} tokens were cached")
