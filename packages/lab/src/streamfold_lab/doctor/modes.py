"""Compares the replies to one request with and without streaming."""

from __future__ import annotations

import re
from collections.abc import Iterator

from streamfold import Reply

from .damage import said
from .values import Answers, ProbeResponse

_WORDS_MORE = 3  # fewer may be the end of a text that the limit cuts a little later
COUNT_BOUND = 1.2  # factor by which the token counts of one prompt may differ between the modes
_COUNT_SLACK = 16  # tokens that they may differ in any case


def differences(streamed: Answers, whole: Answers) -> set[str]:
    """Returns the differences between replies as sentences. The wording of a text may differ."""
    pairs = [(streamed[name], whole[name]) for name in streamed if name in whole]
    pairs = [pair for pair in pairs if all(seen.fine for seen in pair)]
    ended = [pair for pair in pairs if all(seen.reply.finish_reason != "length" for seen in pair)]
    found = {difference for pair in ended for difference in _differences(*pair)}
    return found | {difference for pair in pairs for difference in _more_text(*pair)}


def _differences(streamed: ProbeResponse, whole: ProbeResponse) -> Iterator[str]:
    first, second = streamed.reply, whole.reply
    names, others = _names(first), _names(second)
    if bool(names) != bool(others):
        with_calls, without = ("in one piece", "streamed") if others else ("streamed", "in one piece")
        yield f"{streamed.ask}: calls come {with_calls}, none {without}"
    elif len(names) != len(others):
        yield f"{streamed.ask}: {len(names)} tool calls arrive when streamed, {len(others)} in one piece"
    elif sorted(names) != sorted(others):
        yield f"{streamed.ask}: the names of tool calls differ between modes"
    elif names and _empty_calls(first) != _empty_calls(second):
        yield f"{streamed.ask}: arguments arrive in only one mode"
    if _counts_differ(first, second) and _same_prompt(streamed, whole):
        yield f"{streamed.ask}: token counts of the same prompt differ between modes"
    if bool(first.text.strip()) != bool(second.text.strip()) and names == others:
        yield f"{streamed.ask}: text arrives in only one mode"


def _more_text(streamed: ProbeResponse, whole: ProbeResponse) -> Iterator[str]:
    """Returns words at the beginning or end of a text that are missing in the other mode.

    A model may word a text differently, but it doesn't add the same words every time in one mode.
    """
    texts = {"streamed": said(streamed.text).strip(), "in one piece": said(whole.text).strip()}
    (short_mode, short), (long_mode, long) = sorted(texts.items(), key=lambda each: len(each[1]))
    if not short or not (long.startswith(short) or long.endswith(short)):
        return
    more = long.removeprefix(short) if long.startswith(short) else long.removesuffix(short)
    if len(re.findall(r"[^\W\d_]{2,}", more)) >= _WORDS_MORE:
        yield f"{streamed.ask}: when {long_mode}, the text has more than {short_mode}: {' '.join(more.split())!r}"


def _names(reply: Reply) -> list[str]:
    return [call.name for call in reply.tool_calls]


def _empty_calls(reply: Reply) -> int:
    return sum(not call.arguments for call in reply.tool_calls)


def _same_prompt(streamed: ProbeResponse, whole: ProbeResponse) -> bool:
    prompt = ("messages", "input", "contents", "system", "systemInstruction", "instructions", "tools")
    return all(streamed.sent.get(name) == whole.sent.get(name) for name in prompt)


def _counts_differ(first: Reply, second: Reply) -> bool:
    counts = [reply.usage.input_tokens for reply in (first, second) if reply.usage and reply.usage.input_tokens]
    if len(counts) < 2:
        return False
    return max(counts) > COUNT_BOUND * min(counts) + _COUNT_SLACK
