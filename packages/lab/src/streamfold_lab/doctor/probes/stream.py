"""Probes for the stream and the connection. They send no requests, but judge all responses of the test run."""

from __future__ import annotations

from collections.abc import Callable
from statistics import median

from streamfold import WarningCode

from ..damage import Damage, damage, has_gap, repeats, said, wanted
from ..values import Answers, Conclusion, ProbeResponse, Verdict, Way
from .judging import ProbeGroup, numbers_of, shown, unclear

_SLOW_START = 5.0  # seconds until the response headers arrive
_SLOW_PIECES = 0.25  # the median of the seconds between two network reads
_SEVERAL = 4  # the minimum number of pauses, because a single one may happen by chance
_LONG_PAUSE = 5.0  # seconds between two network reads


def _about(found: list[ProbeResponse], answers: Answers, verdict: Verdict, what: str, does: str) -> Conclusion:
    """Returns a conclusion about the responses `found`. The description is their number, followed by `what`."""
    saw = f"{len(found)} of {len(answers)} responses{what}"
    return Conclusion(verdict, saw, does, telling=numbers_of(found))


def _shows(
    test: Callable[[ProbeResponse], object], verdict: Verdict, what: Callable[[ProbeResponse], str], does: str
) -> Callable[[Answers], Conclusion]:
    """Returns a function that judges all responses: the verdict is `verdict` if `test` is true for at least one
    response, otherwise "ok". `what` describes the first such response.
    """

    def judge(answers: Answers) -> Conclusion:
        found = [seen for seen in answers.values() if test(seen)]
        if not found:
            return Conclusion("ok", "none")
        return _about(found, answers, verdict, f" {what(found[0])}", does)

    return judge


def _no_way(way: Way, what: str, does: str) -> Callable[[Answers], Conclusion]:
    return _shows(lambda seen: seen.way == way, "fault", lambda first: f"{what}: {shown(first.said)}", does)


def _statuses(answers: Answers) -> Conclusion:
    found = [seen for seen in answers.values() if seen.way == "status" or _failed_plainly(seen, answers)]
    if not found:
        return Conclusion("ok", "none")
    statuses = ", ".join(map(str, sorted({seen.recording.status for seen in found if seen.recording})))
    what = f" with status {statuses}: {shown(found[0].said)}"
    return _about(found, answers, "fault", what, "retried before the first chunk")


def _failed_plainly(seen: ProbeResponse, answers: Answers) -> bool:
    """Returns whether the server rejected a request although it accepted the same request at another time."""
    if not seen.refused:
        return False
    return any(other.fine and other.sent == seen.sent for other in answers.values()) or seen.probe == "answers"


def _pauses(seen: ProbeResponse) -> list[float]:
    """Returns the seconds between the network reads of a response."""
    return [cut.delay for cut in seen.recording.cuts[1:]] if seen.recording else []


def _stalls(answers: Answers) -> Conclusion:
    late = [seen for seen in answers.values() if seen.way == "stalled"]
    if late:
        does = "APITimeoutError, by timeouts.read or timeouts.first_event"
        return _about(late, answers, "fault", f" never ended: {shown(late[0].said)}", does)
    paused = [seen for seen in answers.values() if max(_pauses(seen), default=0) >= _LONG_PAUSE]
    if paused:
        longest = max(max(_pauses(seen)) for seen in paused)
        what = f" paused, up to {longest:.1f} s"
        return _about(paused, answers, "fault", what, "timeouts.read must be longer than that")
    return Conclusion("ok", "none")


def _pace(answers: Answers) -> Conclusion:
    fine = [seen for seen in answers.values() if seen.inspection]
    starts = sorted(seen.headers_after for seen in fine if seen.headers_after is not None)
    waits = [wait for seen in fine for wait in _pauses(seen)]
    if not starts:
        return Conclusion("unclear", "no complete response")
    saw = (
        f"median times: {_seconds(median(starts))} until the headers, then {_seconds(median(waits or [0.0]))}"
        " between network reads"
    )
    slow = [
        seen
        for seen in fine
        if (seen.headers_after or 0) >= _SLOW_START
        or (len(_pauses(seen)) >= _SEVERAL and median(_pauses(seen)) >= _SLOW_PIECES)
    ]
    if slow:
        return _about(slow, answers, "handled", f" are slow; {saw}", "timeouts may have to be longer")
    return Conclusion("ok", saw)


def _seconds(value: float) -> str:
    return f"{value:.2f} s" if value >= 0.01 else "less than 0.01 s"


def _damaged(kind: Damage, verdict: Verdict, what: str, does: str) -> Callable[[Answers], Conclusion]:
    return _shows(lambda seen: kind in _damage_of(seen), verdict, lambda _: what, does)


def _damage_of(seen: ProbeResponse) -> set[Damage]:
    return damage(seen.recording.body) if seen.recording and seen.inspection and seen.way != "left" else set()


def _has_repeats(seen: ProbeResponse) -> bool:
    if "repeated" in _damage_of(seen) or "repeated_event" in seen.codes:
        return True
    return seen.inspection is not None and repeats(seen)


def _has_hole(seen: ProbeResponse) -> bool:
    if seen.inspection is None or "missing_event" in seen.codes:
        return seen.inspection is not None
    if line := wanted(seen):
        return has_gap(said(seen.text), line)
    raws = [call.raw_arguments for call in seen.reply.tool_calls if call.error and call.name == "get_weather"]
    wholes = ['{"city": "Paris"}', '{"city":"Paris"}', '{"city": "London"}', '{"city":"London"}']
    return any(has_gap(raw, whole) for raw in raws for whole in wholes)


def _content_type(answers: Answers) -> Conclusion:
    fine = [seen for seen in answers.values() if seen.inspection]
    if not fine:
        return Conclusion("unclear", "no complete response")
    kinds = {seen.headers.get("content-type", "none") for seen in fine}
    other = [seen for seen in fine if not seen.headers.get("content-type", "").startswith("text/event-stream")]
    if other:
        what = f" are not text/event-stream: {', '.join(sorted(kinds))}"
        return _about(other, answers, "handled", what, "the first bytes decide how a response is read")
    return Conclusion("ok", ", ".join(sorted(kinds)))


def _warned(codes: tuple[WarningCode, ...], verdict: Verdict, does: str) -> Callable[[Answers], Conclusion]:
    """Returns a function that judges all responses: `verdict` if one has a warning in `codes`, otherwise "ok"."""

    def judge(answers: Answers) -> Conclusion:
        found = [seen for seen in answers.values() if seen.fine and seen.codes & set(codes)]
        if not found:
            return Conclusion("ok", "none")
        warnings = [w for seen in found if seen.inspection for w in seen.inspection.warnings if w.code in codes]
        seen_codes = ", ".join(sorted({w.code for w in warnings}))
        return _about(found, answers, verdict, f": {shown(warnings[0].detail)}", f"{does} ({seen_codes})")

    return judge


def _done(answers: Answers) -> Conclusion:
    fine = [seen for seen in answers.values() if seen.fine and seen.recording and seen.inspection and seen.text]
    without = [seen for seen in fine if seen.recording and b"[DONE]" not in seen.recording.body]
    if not fine:
        return unclear("no complete response")
    if without:
        return _about(without, answers, "handled", " have no [DONE]", "[DONE] isn't needed after a finish reason")
    return Conclusion("ok", "every response ends with [DONE]")


def _kept_open(answers: Answers) -> Conclusion:
    known = [seen for seen in answers.values() if seen.reused is not None]
    if not known:
        return Conclusion("unclear", "the reuse of connections is unknown")
    fresh = [seen for seen in known if not seen.reused or seen.way == "dropped"]
    if len(fresh) * 2 <= len(known):
        return Conclusion("ok", "connections are reused")
    heads = [seen.headers for seen in known]
    if not any("keep-alive" in head or "keep-alive" in head.get("connection", "").lower() for head in heads):
        return Conclusion("ok", "each response has its own connection")
    saw = "most responses need a new connection, although the server announces keep-alive"
    does = "streamfold replaces closed connections; clients without retries sometimes fail"
    return Conclusion("handled", saw, does, telling=numbers_of(fresh[:3]))


def _caching(answers: Answers) -> Conclusion:
    cached = [seen for seen in answers.values() if seen.reply.usage and seen.reply.usage.cached_tokens]
    if cached:
        most = max(seen.reply.usage.cached_tokens or 0 for seen in cached if seen.reply.usage)
        return _about(cached, answers, "ok", f" report cached tokens, up to {most}", "")
    return Conclusion("no", "no response reports cached tokens")


STREAM = ProbeGroup("stream")
STREAM.probe_many("hang_ups", "Does the server close connections without a response?")(
    _no_way("hung_up", "never began", "APIConnectionError, and retried")
)
STREAM.probe_many("unreachable", "Can the server always be reached?")(
    _no_way("unreachable", "found no server", "APIConnectionError, and retried")
)
STREAM.probe_many("cuts", "Do responses break off?")(
    _no_way("cut", "broke off", "IncompleteStreamError with the partial reply, and no tool calls")
)
STREAM.probe_many("resets", "Is a connection reset?")(
    _no_way("reset", "ended in a reset", "IncompleteStreamError with the partial reply, and no tool calls")
)
STREAM.probe_many("stalls", "Do responses stall?")(_stalls)
STREAM.probe_many("statuses", "Does the server fail occasionally?")(_statuses)
STREAM.probe_many("pace", "How fast are responses?")(_pace)
STREAM.probe_many("comments", "Does the server send comments to keep a connection open?")(
    _damaged("comment", "handled", "have comments", "comments are ignored, and don't extend timeouts.stall")
)
STREAM.probe_many("garbage", "Do streams contain text that isn't SSE?")(
    _damaged(
        "garbage",
        "fault",
        "contain text that is not SSE",
        "the text is skipped with a warning, or raises ProtocolError",
    )
)
STREAM.probe_many("utf8", "Is all text UTF-8?")(
    _damaged("utf8", "fault", "have bytes that are not UTF-8", "invalid bytes become U+FFFD, with a warning")
)
STREAM.probe_many("halves", "Are characters split between events?")(
    _damaged("half", "handled", "contain split characters", "the halves are joined")
)
STREAM.probe_many("truncated", "Are all events complete?")(
    _damaged("truncated", "fault", "contain an incomplete event", "ProtocolError")
)
STREAM.probe_many("repeated", "Are events repeated?")(
    _shows(
        _has_repeats,
        "fault",
        lambda _: "contain a repeated event",
        "if events are numbered, each is read once; without numbers, a repetition can't be detected",
    )
)
STREAM.probe_many("lost", "Are events lost?")(
    _shows(
        _has_hole,
        "fault",
        lambda first: f"have a gap: {shown(first.text or first.said)}",
        "if events are numbered, a tool call with a gap has an error; without numbers, a gap can't be detected",
    )
)
STREAM.probe_many("content_type", "Do streams have the right content type?")(_content_type)
STREAM.probe_many("done", "Does a stream end with [DONE]?", apis=("chat", "kimi"))(_done)
STREAM.probe_many("finish", "Does every response have a finish reason?")(
    _warned(("missing_finish_reason", "late_content", "missing_tool_calls"), "handled", "handled")
)
STREAM.probe_many("ids", "Does every tool call have its own id?")(
    _warned(("missing_id", "duplicate_id", "changed_id"), "handled", "missing ids are generated")
)
STREAM.probe_many("wholes", "Does the complete text match the deltas?")(
    _warned(("arguments_mismatch", "text_mismatch"), "handled", "complete arguments are used if they are valid JSON")
)
STREAM.probe_many("repairs", "Do arguments need repair?")(
    _warned(("repaired_arguments",), "handled", "repaired, with a warning")
)
STREAM.probe_many("framing", "Are events separated by blank lines?")(
    _warned(("unseparated_events", "truncated_event", "extra_choice"), "handled", "read anyway")
)
STREAM.probe_many("kept_open", "Are connections reused?")(_kept_open)
STREAM.probe_many("caching", "Is prompt caching reported?")(_caching)
