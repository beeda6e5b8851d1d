"""Hides texts of some form in answers, also where they are cut by chunks."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, cast

from streamfold import APIError, ChatModel, ConfigError, Reply, StreamChunk, StreamError
from streamfold.middleware import Middleware
from streamfold.types import ChunkDetails, Request

__all__ = ["Mask"]

# What RFC 5321 allows without quotes, from a letter or digit on, with the letters of European alphabets. A wider class
# would hold back more of the text: Chinese has no blanks.
_LETTERS = "A-Za-z0-9\u00c0-\u024f"
_LABEL = rf"[{_LETTERS}](?:[{_LETTERS}-]*[{_LETTERS}])?"
_EMAIL_CHARACTERS = rf"[{_LETTERS}.!#$%&'*+/=?^_`{{|}}~@-]"
_EMAIL = rf"[{_LETTERS}][{_LETTERS}.!#$%&'*+/=?^_`{{|}}~-]*@{_LABEL}(?:\.{_LABEL})+"


class Mask(Middleware):
    """Hides everything of a form in text, reasoning and refusals: mail addresses, if nothing else is said.

        model = Mask(Provider.from_config("kimi:kimi-k2.6"))

    A piece of text that may still become a match waits until it is clear that it is none. So no part of a match is ever
    shown, however the answer is cut. Calls are not changed: their arguments are for tools.

    Args:
        model: the model to ask.
        pattern: a regular expression.
        characters: a character class, such as `"[0-9 -]"`: a match consists of nothing else. What waits is the run of
            such characters at the end of the text.
        longest: the length of the longest match. A longer run waits only as far as a match can reach.
        replacement: stands in the place of a match; or a function that returns it.

    Raises:
        ConfigError: a pattern is not a regular expression, or may match nothing.
    """

    def __init__(
        self,
        model: ChatModel,
        pattern: str = _EMAIL,
        *,
        characters: str | None = None,
        longest: int = 320,
        replacement: str | Callable[[re.Match[str]], str] = "***",
    ) -> None:
        super().__init__(model)
        characters = characters or (_EMAIL_CHARACTERS if pattern is _EMAIL else r"\S")
        try:
            self._pattern, self._run = re.compile(pattern), re.compile(f"{characters}+\\Z")
        except re.error as exc:
            raise ConfigError(f"Mask(): not a regular expression: {exc}") from exc
        if self._pattern.match(""):
            raise ConfigError(f"Mask(): {pattern!r} matches the empty text")
        self._longest = longest
        self._replacement = replacement

    def masked(self, text: str) -> str:
        """Returns a text without matches."""
        return self._pattern.sub(self._replace, text)

    async def change_chunks(self, chunks: AsyncIterator[StreamChunk], request: Request) -> AsyncIterator[StreamChunk]:
        """Holds back what may become a match."""
        text, reasoning = (_Held(self._pattern, self._run, self._longest, self._replace) for _ in range(2))
        async for chunk in chunks:
            shown = (text.feed(chunk.delta), reasoning.feed(chunk.reasoning))
            if chunk.finished:
                shown = (shown[0] + text.finish(), shown[1] + reasoning.finish())
            if chunk.finished or any(shown) or not (chunk.delta or chunk.reasoning):
                yield _with_text(chunk, *shown)

    async def change_reply(self, reply: Reply, request: Request) -> Reply:
        """Hides matches in all that the reply says, and leaves out parts for the provider's eyes that have one."""
        return replace(
            reply,
            text=self.masked(reply.text),
            reasoning=self.masked(reply.reasoning),
            refusal=None if reply.refusal is None else self.masked(reply.refusal),
            answer=None if reply.answer is None else self.masked(reply.answer),
            extras={name: values for name, values in reply.extras.items() if not any(map(self._is_in, _texts(values)))},
        )

    async def change_error(self, error: APIError, request: Request) -> APIError:
        """Leaves out of an error what shows the answer as it came."""
        error.body = None
        if isinstance(error, StreamError):
            error.transcript = ()
        error.message = self.masked(error.message)
        error.args = tuple(self.masked(arg) if isinstance(arg, str) else arg for arg in error.args)
        return error

    def _is_in(self, text: str) -> bool:
        return self._pattern.search(text) is not None

    def _replace(self, found: re.Match[str]) -> str:
        return self._replacement(found) if callable(self._replacement) else self._replacement


class _Held:
    """One text that arrives in pieces, of which the end may still become a match."""

    def __init__(
        self, pattern: re.Pattern[str], run: re.Pattern[str], longest: int, replace: Callable[[re.Match[str]], str]
    ) -> None:
        self._pattern, self._run, self._longest, self._replace = pattern, run, longest, replace
        self._shown = ""  # the end of what was shown, for patterns that look behind
        self._held = ""

    def feed(self, piece: str) -> str:
        """Returns what can be shown."""
        if not piece:
            return ""
        self._held += piece
        run = self._run.search(self._held, max(0, len(self._held) - self._longest))
        return self._show(run.start() if run else len(self._held))

    def finish(self) -> str:
        """Returns the rest."""
        return self._show(len(self._held))

    def _show(self, end: int) -> str:
        """Returns the text up to a place without the matches in it; a match that goes beyond it is not begun."""
        whole, start, out = self._shown + self._held, len(self._shown), list[str]()
        end, at = start + end, start
        for found in self._pattern.finditer(whole, start):
            if found.end() > end:
                end = min(end, found.start())
                break
            out += [whole[at : found.start()], self._replace(found)]
            at = found.end()
        out.append(whole[at : max(at, end)])
        self._shown, self._held = whole[max(0, end - self._longest) : end], whole[end:]
        return "".join(out)


def _with_text(chunk: StreamChunk, delta: str, reasoning: str) -> StreamChunk:
    if chunk.silent:
        return chunk
    place = None
    if chunk.details is not None:
        signed = tuple(mark for mark in chunk.marks if mark.name == "signature")  # others may repeat the text
        place = ChunkDetails(chunk.preceding_calls, signed, call_numbers=chunk.details.call_numbers)
    return replace(chunk, delta=delta, reasoning=reasoning, details=place)


def _texts(value: Any) -> Iterator[str]:
    """Returns all strings in a JSON value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for inner in cast("Mapping[str, Any]", value).values():
            yield from _texts(inner)
    elif isinstance(value, list):
        for inner in cast("Iterable[Any]", value):
            yield from _texts(inner)
