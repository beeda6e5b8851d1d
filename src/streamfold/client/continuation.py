"""Continues an answer that broke off: the text so far is sent as the beginning of the model's message."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from dataclasses import replace

from ..answers import ChatParams, ChunkSource, WrappedAnswer
from ..errors import APIError, StreamfoldError
from ..types import Message, Reply, StreamChunk


def continued_params(params: ChatParams, error: APIError) -> ChatParams:
    """Returns the request that continues an answer. Raises StreamfoldError if that can't be done."""
    partial = error.partial or Reply()
    writing = getattr(error, "partial_tool_calls", ())
    if writing:
        names = ", ".join(call.name for call in writing)
        raise StreamfoldError(
            f"resume(): a tool call had begun ({names}), which can't be continued: send the request again"
        )
    if partial.refusal or not partial.text:
        what = "the model refused" if partial.refusal else "no text had arrived"
        raise StreamfoldError(f"resume(): {what}: send the request again")
    reasoning = partial.reasoning if partial.reasoned else None
    begun = Message("assistant", partial.text, reasoning=reasoning, partial=True)
    earlier = params.request.messages
    if earlier[-1].partial:  # it was a continuation itself
        begun = replace(begun, content=f"{earlier[-1].content or ''}{partial.text}")
        earlier = earlier[:-1]
    request = replace(params.request, messages=(*earlier, begun))
    return replace(params, request=request, fail_fast=False)  # no other provider takes it over


class ContinuedAnswer(WrappedAnswer):
    """The rest of an answer. Its reply is the whole.

    Args:
        source: brings the rest.
        partial: what had arrived before.
        echo: whether the rest may begin with the text that was there.
        again: continues this answer, if it breaks off too.
    """

    def __init__(self, source: ChunkSource, partial: Reply, *, echo: bool, again: Callable[[APIError], object]) -> None:
        super().__init__(source)
        self._partial = partial
        self._again = again
        self._expected = partial.text if echo else ""  # what an echo has still to say
        self._held: list[StreamChunk] = []  # what may be an echo
        self._echoed = ""

    async def batches(self) -> AsyncGenerator[list[StreamChunk], None]:
        """Yields the chunks of the rest."""
        try:
            async with self._opened() as batches:
                async for batch in batches:
                    shown = [chunk for each in batch for chunk in self._without_echo(each)]
                    if (reply := self._source.reply) is not None:
                        self.reply = self._whole(reply)
                    if shown:
                        yield shown
        except APIError as error:
            if error.partial is not None:
                error.partial = self._whole(error.partial)
            error.continuation = self._again
            raise

    def _without_echo(self, chunk: StreamChunk) -> list[StreamChunk]:
        if not self._expected or not (chunk.delta or chunk.finished):  # reasoning is no echo of the text
            return [chunk]
        if self._expected.startswith(chunk.delta) and not chunk.finished:
            self._expected = self._expected[len(chunk.delta) :]
            self._echoed += chunk.delta
            self._held.append(chunk)
            if not self._expected:
                self._held = []
            return []
        if chunk.delta.startswith(self._expected):
            chunk = _with_text(chunk, chunk.delta[len(self._expected) :])
            self._echoed += self._expected
            self._expected, self._held = "", []
            return [chunk]
        held, self._held = self._held, []  # it was no echo
        self._expected = self._echoed = ""
        return [*held, chunk]

    def _whole(self, rest: Reply) -> Reply:
        before = self._partial
        return replace(
            rest,
            text=before.text + rest.text.removeprefix(self._echoed),
            reasoning=before.reasoning + rest.reasoning,
            reasoned=before.reasoned or rest.reasoned,
        )


def _with_text(chunk: StreamChunk, text: str) -> StreamChunk:
    chunk.delta = text
    return chunk
