"""The answer to a conversation whose earlier turns get back what they have lost."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import replace

from ..answers import Arguments, ChunkSource, WrappedAnswer
from ..values import APIError, ProtocolWarning, StreamChunk
from .cache import TurnCache

# About parts that the client did not send: whether the provider takes them is not the client's concern.
_OF_RECALLED_PARTS = ("reasoning_dropped", "extras_dropped")


class RememberedAnswer(WrappedAnswer):
    """Recalls the earlier turns, gets the answer, and remembers it before its end is handed out.

    The request is prepared at once, so that its mistakes are raised where it is made; and once more if the cache gave
    something back.

    Args:
        open_source: prepares the answer to a request, without sending it.
    """

    def __init__(self, cache: TurnCache, arguments: Arguments, open_source: Callable[[Arguments], ChunkSource]) -> None:
        super().__init__(open_source(arguments))
        self._cache = cache
        self._arguments = arguments
        self._open = open_source
        self._own = self._source.warnings
        self._recalled = False
        self._failures: list[ProtocolWarning] = []

    @property
    def warnings(self) -> tuple[ProtocolWarning, ...]:
        """The warnings so far."""
        return tuple(self._shown_warnings(self._source.warnings))

    async def batches(self) -> AsyncGenerator[list[StreamChunk], None]:
        """Yields the chunks of the answer."""
        messages = self._arguments.request.messages
        recalled = await self._cache.recall(messages)
        self._failures += recalled.warnings
        if self._closed:
            return
        if recalled.changed:
            request = replace(self._arguments.request, messages=recalled.messages)
            self._source = self._open(replace(self._arguments, request=request))
            self._recalled = True
        try:
            async with self._opened() as batches:
                async for batch in batches:
                    if self.reply is None and (reply := self._source.reply) is not None:
                        failed = await self._cache.remember(messages, reply)
                        self._failures += [failed] if failed else []
                        shown = self._shown_warnings(reply.warnings)
                        self.reply = reply if shown == reply.warnings else replace(reply, warnings=shown)
                    yield batch
        except APIError as error:
            error.warnings = self._shown_warnings(error.warnings)
            raise

    def _shown_warnings(self, warnings: Sequence[ProtocolWarning]) -> list[ProtocolWarning]:
        if not self._recalled:
            return [*self._failures, *warnings]
        own = [warning for warning in self._own if warning.code in _OF_RECALLED_PARTS]
        others = [warning for warning in warnings if warning.code not in _OF_RECALLED_PARTS]
        return [*self._failures, *own, *others]
