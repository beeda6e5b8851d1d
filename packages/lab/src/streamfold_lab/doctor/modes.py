"""Compares the replies to the same request with and without streaming."""

from __future__ import annotations

import re
from collections.abc import Iterator

from streamfold import Reply

from .damage import said
from .values import Answers, ProbeResponse

_WORDS_MORE = 3  # fewer additional words may result from a slightly later cutoff at the token limit
COUNT_BOUND = 1.2  # token counts with and without streaming may differ by this factor
_COUNT_SLACK = 16  # and additionally by this number of tokens


def differences(streamed: Answers, whole: Answers) -> set[str]:
    """Returns the differences between replies, each as a sentence. Different wording of a text doesn't count."""
    pairs = [(streamed[name], whole[name]) for name in streamed if name in whole]
    pairs = [pair for pair in pairs if all(seen.fine for seen in pair)]
    ended = [pair for pair in pairs if all(seen.reply.finish_reason != "length" for seen in pair)]
    found = {difference for pair in ended for difference in _differences(*pair)}
    return found | {difference for pair in pairs for difference in _more_text(*pair)}


def _differences(streamed: ProbeResponse, whole: ProbeResponse) -> Iterator[str]:
    first, second = streamed.reply, whole.reply
    names, others = _names(first), _names(second)
    if names and not others:
        yield f"{streamed.ask}: tool calls arrive with streaming, but not without streaming"
    elif others and not names:
        yield f"{streamed.ask}: tool calls arrive without streaming, but not with streaming"
    elif len(names) != len(others):
        yield f"{streamed.ask}: {len(names)} tool calls arrive with streaming, {len(others)} without"
    elif sorted(names) != sorted(others):
        yield f"{streamed.ask}: the names of tool calls differ with and without streaming"
    elif names and _empty_calls(first) != _empty_calls(second):
        yield f"{streamed.ask}: tool call arguments are missing either with or without streaming"
    prompt = ("messages", "input", "contents", "system", "systemInstruction", "instructions", "tools")
    counts = [reply.usage.input_tokens for reply in (first, second) if reply.usage and reply.usage.input_tokens]
    same_prompt = all(streamed.sent.get(name) == whole.sent.get(name) for name in prompt)
    if same_prompt and len(counts) == 2 and max(counts) > COUNT_BOUND * min(counts) + _COUNT_SLACK:
        yield f"{streamed.ask}: the same prompt has different token counts with and without streaming"
    if bool(first.text.strip()) != bool(second.text.strip()) and names == others:
        yield f"{streamed.ask}: text is missing either with or without streaming"


def _more_text(streamed: ProbeResponse, whole: ProbeResponse) -> Iterator[str]:
    """Yields a difference if one of the two texts has additional words at its beginning or end.

    A model may phrase a text differently each time. But if one mode only adds words to the text of the other mode, the
    words come from the server.
    """
    texts = {"with streaming": said(streamed.text).strip(), "without streaming": said(whole.text).strip()}
    (short_mode, short), (long_mode, long) = sorted(texts.items(), key=lambda each: len(each[1]))
    if not short or not (long.startswith(short) or long.endswith(short)):
        return
    more = long.removeprefix(short) if long.startswith(short) else long.removesuffix(short)
    if len(re.findall(r"[^\W\d_]{2,}", more)) >= _WORDS_MORE:
        yield f"{streamed.ask}: {long_mode}, the text has more words than {short_mode}: {' '.join(more.split())!r}"


def _names(reply: Reply) -> list[str]:
    return [call.name for call in reply.tool_calls]


def _empty_calls(reply: Reply) -> int:
    return sum(not call.arguments for call in reply.tool_calls)
