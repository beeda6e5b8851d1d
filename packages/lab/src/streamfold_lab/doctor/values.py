"""The values of an examination: questions, what was seen, findings, and the card with all of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, Literal, TypeAlias

from streamfold import APIError, Reply, WarningCode
from streamfold.recording import Recording
from streamfold.types import Messages, ToolLike

from ..inspection import Inspection

APIS = ("chat", "kimi", "responses", "anthropic", "gemini")

Verdict: TypeAlias = Literal["ok", "handled", "set", "no", "fault", "unfaithful", "unclear", "skipped"]
VERDICTS: Mapping[Verdict, str] = {
    "ok": "as documented",
    "handled": "differs, and streamfold handles it without a setting",
    "set": "differs, and the profile has a setting for it",
    "no": "not available here",
    "fault": "a fault of the server, which no setting repairs",
    "unfaithful": "what came back is not what the model was asked for, or not from that model",
    "unclear": "the answers do not decide it",
    "skipped": "not asked",
}

Way: TypeAlias = Literal[
    "fine",  # whole
    "left",  # cancelled on purpose
    "refused",  # the server understood the request and would not have it
    "status",  # another error status
    "unreachable",
    "hung_up",
    "dropped",  # the connection was kept open, and the server had closed it
    "cut",
    "reset",
    "stalled",
    "garbled",  # not in this wire format
]
"""How an answer went."""


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting of a provider, and the reason for it.

    Attributes:
        key: the path below the provider's table: `("quirks", "stream_usage")`.
        why: the evidence, in one line.
    """

    key: tuple[str, ...]
    value: Any
    why: str


@dataclass(frozen=True, slots=True)
class ProbeRequest:
    """One request of a probe.

    Attributes:
        name: of the request within its probe; part of the name of its recording.
        special: what is special about the request, for `--dry-run`.
        edit: changes the JSON body before it is sent, for members that no option writes.
        when: given what earlier requests of the probe showed, whether this one is needed.
        patience: how often the request is sent if the answer breaks off. A refusal is an answer.
        leave: cancel the request after the first bytes of its answer.
        modes: how it is sent: as a stream, and in one piece where the server can do that.
        fresh: returns the request with other values in its prompt, for each round.
        follow: given what earlier requests of the probe brought, returns this request; None: it can't be made. The
            messages of the value itself stand in the plan.
        exact: keep the temperature when it is sent again.
    """

    name: str
    messages: Messages
    tools: Sequence[ToolLike] = ()
    tool_choice: Any = "auto"
    options: Mapping[str, Any] = field(default_factory=dict)
    special: str = ""
    edit: Callable[[dict[str, Any]], dict[str, Any]] | None = None
    when: Callable[[Answers], bool] | None = None
    patience: int = 3
    leave: bool = False
    modes: Literal["both", "streamed"] = "both"
    fresh: Callable[[Random], ProbeRequest] | None = None
    follow: Callable[[Answers], ProbeRequest | None] | None = None
    exact: bool = False


@dataclass(frozen=True, slots=True)
class ProbeResponse:
    """The response to one request.

    Attributes:
        number: of the answer in the examination, from 1.
        probe, ask: the names of the probe and of its request.
        way: how it went.
        whole: the answer was requested in one piece, not as a stream.
        recording: the answer as it is recorded; None if there was no response.
        inspection: the answer, explained; None if it was refused, or there was none.
        error: the error that a caller would get.
        sent: the JSON body of the request.
        headers: of the response, with names in lower case.
        headers_after: seconds from the request to the head of the response.
        reused: whether the connection had been used for an earlier answer; None if unknown.
    """

    number: int
    probe: str
    ask: str
    way: Way
    whole: bool = False
    sent: Mapping[str, Any] = field(default_factory=dict, repr=False)
    recording: Recording | None = field(default=None, repr=False)
    inspection: Inspection | None = field(default=None, repr=False)
    error: APIError | None = None
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    headers_after: float | None = None
    reused: bool | None = None

    @property
    def fine(self) -> bool:
        """True if the answer is whole."""
        return self.way == "fine"

    @property
    def refused(self) -> bool:
        """True if the server understood the request and would not have it."""
        return self.way == "refused"

    @property
    def reply(self) -> Reply:
        """The answer, or what there was of it."""
        return self.inspection.reply if self.inspection else Reply()

    @property
    def text(self) -> str:
        """The visible text."""
        return self.reply.text

    @property
    def codes(self) -> set[WarningCode]:
        """The codes of its warnings."""
        return {warning.code for warning in self.inspection.warnings} if self.inspection else set()

    @property
    def said(self) -> str:
        """The server's words about a failure."""
        return self.error.message if self.error else ""


Answers: TypeAlias = Mapping[str, ProbeResponse]


@dataclass(frozen=True, slots=True)
class Conclusion:
    """The conclusion of a probe.

    Attributes:
        saw: what was seen, in a few words.
        does: what streamfold does about it, or what to do.
        settings: what belongs into the profile.
        telling: the numbers of the answers that show it best; empty: all answers of the probe.
        certain: whether one answer shows it. Else a verdict "unfaithful" is given only if each repetition agrees.
        avoid: options that the server refuses, and that later requests leave out.
    """

    verdict: Verdict
    saw: str
    does: str = ""
    settings: tuple[Setting, ...] = ()
    telling: tuple[int, ...] = ()
    avoid: tuple[str, ...] = ()
    certain: bool = True


@dataclass(frozen=True, slots=True)
class Probe:
    """One question to a server.

    Attributes:
        name: one word, stable over versions.
        theme: the group that it is listed in.
        question: what it answers.
        asks: its requests. A probe without any judges all answers.
        judge: given its answers by the names of the requests, what they mean. Of a probe without requests: given all.
        apis: the adapters that it is for.
        whim: the answer depends on the model: asked up to three times until it is as hoped.
        basic: if no answer to it is whole, the others have no meaning, and are skipped.
        needs: the probe without which this one has no meaning: if it found "no" or "fault", or was skipped.
        repeated: one answer can't decide it: an examination that is thorough repeats it.
        both_modes: a probe without requests is given the answers in one piece too, not only the streams.
    """

    name: str
    theme: str
    question: str
    judge: Callable[[Answers], Conclusion]
    asks: tuple[ProbeRequest, ...] = ()
    apis: tuple[str, ...] = APIS
    whim: bool = False
    basic: bool = False
    needs: str = ""
    repeated: bool = False
    both_modes: bool = False


@dataclass(frozen=True, slots=True)
class Finding:
    """The finding of one probe.

    Attributes:
        probe, theme, question: of the `Probe`.
        answers: the numbers of the answers that it is judged by, the most telling one first.
        tally: "2 of 3", where the request was sent several times.
    """

    probe: str
    theme: str
    question: str
    verdict: Verdict
    saw: str
    does: str = ""
    settings: tuple[Setting, ...] = ()
    answers: tuple[int, ...] = ()
    tally: str = ""


@dataclass(frozen=True, slots=True)
class ReportCard:
    """Everything that an examination of one API of one server found.

    Attributes:
        name: of the provider.
        base_url: without secrets.
        server: the name that the server gives itself in its headers.
        requests: how many were sent.
        seconds: how long it took.
        answers: all answers, for those who want to look at them.
    """

    name: str
    base_url: str
    adapter: str
    model: str
    server: str = ""
    date: str = ""
    version: str = ""
    requests: int = 0
    seconds: float = 0.0
    findings: tuple[Finding, ...] = ()
    answers: tuple[ProbeResponse, ...] = field(default=(), repr=False)

    @property
    def settings(self) -> tuple[Setting, ...]:
        """All settings that were found, each key once: of two findings the later one counts."""
        found = {setting.key: setting for finding in self.findings for setting in finding.settings}
        return tuple(found.values())

    def of(self, probe: str) -> Finding | None:
        """Returns the finding of a probe; None if it does not belong to this API."""
        return next((finding for finding in self.findings if finding.probe == probe), None)

    def with_verdict(self, *verdicts: Verdict) -> list[Finding]:
        """Returns the findings with one of these verdicts."""
        return [finding for finding in self.findings if finding.verdict in verdicts]
