"""Functions that several groups of probes use to build and judge requests."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, TypeAlias, TypeVar

from streamfold import Reply, ToolCall
from streamfold.engine import DIALECTS
from streamfold.types import Messages, ToolLike

from ..damage import reread
from ..known_values import told_codes
from ..questions import LINE, capped
from ..values import Answers, Conclusion, Probe, ProbeRequest, ProbeResponse, Setting, Verdict

T = TypeVar("T")
Judge: TypeAlias = Callable[[T], Conclusion]


class ProbeGroup:
    """A group of probes. Each probe consists of a question, requests to the server, and a function that judges the
    responses.

    Attributes:
        probes: the probes of the group, in the order in which they are sent.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.probes: list[Probe] = []

    def probe_many(
        self, name: str, question: str, *asks: ProbeRequest, **rest: Any
    ) -> Callable[[Judge[Answers]], Judge[Answers]]:
        """Returns a decorator for the function that judges a probe's responses. The function is called with the
        responses to `asks`. Without `asks`, the function is called with all responses of the test run.

        Args:
            rest: additional fields of `Probe`.
        """

        def decorate(judge: Judge[Answers]) -> Judge[Answers]:
            self.probes.append(Probe(name, self.name, question, judge, asks, **rest))
            return judge

        return decorate

    def probe(
        self, name: str, question: str, ask: ProbeRequest, *, refused: tuple[Verdict, str] | None = None, **rest: Any
    ) -> Callable[[Judge[ProbeResponse]], Judge[ProbeResponse]]:
        """Returns a decorator for the function that judges a probe with one request.

        Args:
            refused: the verdict if the server rejects the request, and what streamfold does then; None: the function
                judges that case too.
        """

        def decorate(judge: Judge[ProbeResponse]) -> Judge[ProbeResponse]:
            def judged(answers: Answers) -> Conclusion:
                (seen,) = answers.values()
                return Conclusion(refused[0], refusal(seen), refused[1]) if refused and seen.refused else judge(seen)

            self.probes.append(Probe(name, self.name, question, judged, (ask,), **rest))
            return judge

        return decorate


def edited(
    name: str,
    special: str,
    edit: Callable[[dict[str, Any]], dict[str, Any]],
    messages: Messages = LINE,
    tools: Sequence[ToolLike] = (),
    *,
    tokens: int = 48,
    when: Callable[[Answers], bool] | None = None,
) -> ProbeRequest:
    """Returns a request whose body is edited before it is sent: see `ProbeRequest.edit`."""
    return ProbeRequest(name, messages, tools, options=capped(tokens), special=special, edit=edit, when=when)


def if_refused(ok: str, name: str, value: Any, does: str) -> Judge[ProbeResponse]:
    """Returns a function that judges whether a server accepts a feature. For a rejected feature, the conclusion has the
    setting that removes the feature from requests.
    """
    return lambda seen: set_quirk(refusal(seen), does, name, value) if seen.refused else Conclusion("ok", ok)


def shown(text: str, longest: int = 90) -> str:
    """Returns a text in quotes, truncated and on one line."""
    line = " ".join(text.split())
    return f'"{line if len(line) <= longest else line[: longest - 3] + "..."}"'


def refusal(seen: ProbeResponse) -> str:
    """Returns the error message with which the server rejected a request."""
    status = seen.recording.status if seen.recording else None
    how = f"status {status}" if status and status != 200 else "an error in the stream"
    return f"refused with {how}: {shown(seen.said)}"


def set_quirk(why: str, does: str, name: str, value: Any, *more: Setting) -> Conclusion:
    """Returns the conclusion that the provider's configuration needs a quirk: a setting for what the server does
    differently.
    """
    return Conclusion("set", why, does, (Setting(("quirks", name), value, why), *more))


def capability(name: str, value: str, why: str) -> Setting:
    """Returns a setting in the table of the provider's capabilities."""
    return Setting(("capabilities", name), value, why)


def was_refused(name: str) -> Callable[[Answers], bool]:
    """Returns a condition that is true if the server rejected the request with this name."""
    return lambda answers: name in answers and answers[name].refused


def accepted(name: str) -> Callable[[Answers], bool]:
    """Returns a condition that is true if the server accepted the request with this name."""
    return lambda answers: name in answers and answers[name].fine


def with_members(**members: Any) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """Returns a function that sets fields of a request body."""
    return lambda body: {**body, **members}


def without_members(*names: str, **members: Any) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """Returns a function that removes fields from a request body and sets other fields."""
    return lambda body: {name: value for name, value in body.items() if name not in names} | members


def call_to(reply: Reply, name: str) -> ToolCall | None:
    """Returns the first valid tool call of the tool `name` in a reply."""
    return next((call for call in reply.tool_calls if call.name == name and not call.error), None)


def read_again(seen: ProbeResponse, dialect: str, adapter: str) -> Reply:
    """Decodes a response again with another dialect and adapter. Returns an empty reply for an invalid response."""
    if seen.recording is None:
        return Reply()
    return reread(replace(seen.recording, dialect=dialect, adapter=adapter))


def dialect_of(seen: ProbeResponse, tool: str) -> str | None:
    """Returns the dialect (a format for tool calls in text) that finds a valid call of `tool` in a response; None if no
    dialect does.

    Several dialects share their special tokens, so the function tries every dialect on the recorded response. The right
    dialect finds the tool call and leaves none of its markup in the text. A response with a structured tool call needs
    no dialect.
    """
    if not seen.text.strip() or call_to(seen.reply, tool):
        return None
    adapter = seen.inspection.adapter if seen.inspection else "chat"
    found = {name: read_again(seen, name, adapter) for name in DIALECTS}
    readers = [name for name, reply in found.items() if call_to(reply, tool)]
    return min(readers, key=lambda name: len(found[name].text), default=None)


def force_a_call(body: dict[str, Any]) -> dict[str, Any]:
    """Sets the tool choice "required" in a request body, even if the profile removes it."""
    match body:
        case {"tools": [{"input_schema": _}, *_]}:
            return {**body, "tool_choice": {"type": "any"}}
        case {"tools": [{"type": "function"}, *_]}:
            return {**body, "tool_choice": "required"}
    return body


def edit_messages(edit: Callable[[list[dict[str, Any]]], list[dict[str, Any]]]) -> Callable[[dict[str, Any]], Any]:
    """Returns a function that changes the list of messages in a request body."""
    return lambda body: {**body, "messages": edit(body["messages"])}


def unclear(saw: str) -> Conclusion:
    """Returns the conclusion that the model's response doesn't answer the probe's question."""
    return Conclusion("unclear", saw)


def doubtful(saw: str, does: str = "") -> Conclusion:
    """Returns the verdict "unfaithful", which counts only if all repetitions have the same verdict."""
    return Conclusion("unfaithful", saw, does, certain=False)


def numbers_of(responses: Iterable[ProbeResponse]) -> tuple[int, ...]:
    """Returns the numbers of the responses, for `Conclusion.telling`."""
    return tuple(seen.number for seen in responses)


def judge_codes(seen: ProbeResponse, told: str, what: str) -> Conclusion:
    """Judges whether the response contains the codes of the text `told`. The verdict is "unfaithful" only if some of
    the codes are missing, but not all.
    """
    expected = told_codes(told)
    lost = [name for name, value in expected.items() if value not in seen.text]
    if not lost:
        return Conclusion("ok", f"{what}: all codes were read")
    if seen.reply.finish_reason == "length":
        return unclear(f"{what}: the response was truncated")
    if len(lost) < len(expected):
        names = " and ".join(lost)
        return doubtful(f"{what}: the {names} code is missing; the text is {shown(seen.text, 50)}")
    return unclear(f"{what}: no code was read; the text is {shown(seen.text, 60)}")
