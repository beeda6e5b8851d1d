"""Renders an inspection as one HTML page."""

from __future__ import annotations

from importlib.resources import files
from typing import Any

from .document import document, json_block
from .export import seconds
from .sentences import called, stream_words, usage_words
from .steps import EventLine, steps
from .values import Event, Inspection

_SCRIPTS = ("state.js", "timeline.js", "rows.js", "detail.js", "main.js")


def render_page(inspection: Inspection) -> str:
    """Returns the HTML page of an inspection. Write the page to a file as UTF-8."""
    before, after = page_frame(inspection.name or "a stream")
    return before + json_block(page_data(inspection)) + after


def page_frame(title: str) -> tuple[str, str]:
    """Returns the page in two strings. The data of any inspection can be inserted between them, as a `json_block`."""
    style, script = page_assets()
    return document(_asset("page.html"), command="inspect", title=title, style=style, script=script)


def page_assets() -> tuple[str, str]:
    """Returns the inspection page's style and script. A page that shows inspections in an iframe must allow this style
    and script in its content security policy.
    """
    return _asset("page.css"), '"use strict";\n(() => {\n' + "\n".join(map(_asset, _SCRIPTS)) + "})();\n"


def _asset(name: str) -> str:
    return files(__package__).joinpath("assets", name).read_text("utf-8")


# --- The data of the page --------------------------------------------------------------------------------------------


def page_data(made: Inspection) -> dict[str, Any]:
    """Returns the data of an inspection that the page displays, for `json_block`."""
    explained = steps(made)
    lanes = _lanes(made, explained)
    numbers = {lane["key"]: number for number, lane in enumerate(lanes)}
    words = {"": 0}  # the data contains each string once, and refers to it by its position
    events = [_event(event, lines, numbers, words) for event, lines in zip(made.events, explained, strict=True)]
    return {
        "name": made.name,
        "facts": [*stream_words(made), *([made.reply.model] if made.reply.model else [])],
        "outcome": _outcome(made),
        "lanes": lanes,
        "events": events,
        "words": list(words),
        "timed": len({seconds(event.time) for event in made.events} - {None}) > 1,
        "answer": _answer(made),
        "about": [[name, text] for name, text in made.about.items()],
    }


def _event(event: Event, lines: tuple[EventLine, ...], lanes: dict[str, int], words: dict[str, int]) -> list[Any]:
    """Returns the fields of an event as a list, which is smaller than an object. For a text that may repeat, the list
    contains its position in `words`.
    """

    def word(text: str) -> int:
        return words.setdefault(text, len(words))

    opening = {placement.call for placement in event.placements if placement.opens}
    drawn = [
        [
            lanes[step.lane if step.call is None else f"call {step.call}"],
            word(step.what),
            step.piece,
            word(step.why),
            int(step.call in opening),
        ]
        for step in lines
    ]
    time, gap = seconds(event.time), seconds(event.gap)
    return [event.number, word(event.kind), time, gap, event.piece, event.start, event.end, event.raw, drawn]


def _lanes(made: Inspection, explained: list[tuple[EventLine, ...]]) -> list[dict[str, str]]:
    """Returns the timeline's lanes (rows), from top to bottom. The page draws the last two, warnings and errors, as
    marks above the other lanes.
    """
    there = {step.lane for lines in explained for step in lines}
    kinds: tuple[str, ...] = ("reasoning", "text", "refusal")
    texts = [(kind, kind, kind) for kind in kinds if kind in there]
    calls = [(f"call {call.number}", "call", call.name or "no name") for call in made.calls]
    rest = [(kind, kind, kind) for kind in ("stream", "warning", "error")]
    return [{"key": key, "kind": kind, "label": label} for key, kind, label in (*texts, *calls, *rest)]


def _outcome(made: Inspection) -> dict[str, Any]:
    if made.failed is None:
        reason = made.reply.finish_reason
        how = "ok" if reason in ("stop", "tool_calls") else "cut"
        return {"how": how, "label": f"finished: {reason}", "message": ""}
    retry = " The same request may succeed later." if made.failed.retryable else ""
    return {"how": "failed", "label": made.failed.error, "message": f"{made.failed.message}.{retry}"}


def _answer(made: Inspection) -> dict[str, Any]:
    reply = made.reply
    numbers = {call.id: call.number for call in made.calls if call.id}
    return {
        "reasoning": reply.reasoning,
        "text": reply.text,
        "refusal": reply.refusal or "",
        "calls": [
            {
                "name": call.name,
                "id": call.id,
                "arguments": call.raw_arguments,
                "error": call.error,
                "number": numbers.get(call.id),
            }
            for call in reply.tool_calls
        ],
        "kept": [
            {"name": called(call.number, call.name), "arguments": call.arguments, "number": call.number}
            for call in (() if reply.tool_calls else made.calls)
        ],
        "usage": usage_words(reply.usage) if reply.usage else "",
        "warnings": [{"code": one.code, "detail": one.detail, "event": one.event} for one in made.warnings],
    }
