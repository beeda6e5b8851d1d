"""OpenAI's Responses API: an answer is a list of items, each of them streamed in parts and repeated whole.

https://platform.openai.com/docs/api-reference/responses is the format. `encode.py` writes requests, `decode.py` reads
answers. Deviations that are read here, always, each have a comment with the server they come from; deviations in what
may be *sent* are `ResponsesQuirks`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from ...requests import HistoryRules, Request, Rules, does_without, prepare
from ...values import ProtocolWarning
from .decode import EventReader
from .encode import RequestWriter, ResponsesQuirks
from .unsent import losses_of_responses

__all__ = ["ResponsesAdapter", "ResponsesQuirks"]


class ResponsesAdapter(RequestWriter, EventReader):
    """Requests and events of the Responses API."""

    name = "responses"
    path = "/responses"
    Quirks = ResponsesQuirks

    def __init__(self, quirks: ResponsesQuirks | None = None) -> None:
        self.quirks = quirks or ResponsesQuirks()

    def history_rules(self, request: Request) -> HistoryRules:
        """What this API demands of a conversation: a flat list, in which ids alone say what belongs together."""
        # "Duplicate function_call_output for call_id" (NousResearch/hermes-agent#111443)
        kept = [request.options.extra_body.get(name) for name in ("previous_response_id", "conversation")]
        kept += [item.get("type") == "item_reference" for item in request.messages if isinstance(item, Mapping)]
        return HistoryRules(
            HistoryRules().roles - {"function"},
            results_follow=False,
            unique_ids="conversation",
            empty_turn="left_out",
            knows_more=any(kept),
        )

    def does_without(self, request: Request) -> Collection[str]:
        """The capabilities that `prepare` makes up for."""
        return does_without(request, self._rules())

    def prepare(self, request: Request) -> tuple[Request, list[ProtocolWarning]]:
        """The request as this wire takes it, and what was changed. Raises ConfigError for what it would refuse."""
        lost = losses_of_responses(request, stored=self.stores(request)).warnings()
        request, changes = prepare(request, self._rules())
        return request, lost + changes

    def _rules(self) -> Rules:
        return Rules(strict_tools=True, strict_output=self.quirks.strict_output)
