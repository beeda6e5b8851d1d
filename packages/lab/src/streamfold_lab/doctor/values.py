"""The data types of a test run: probes, responses, findings, and the report."""

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
    "fault": "a bug of the server that no setting can work around",
    "unfaithful": "the response doesn't match the request, or comes from another model",
    "unclear": "the responses don't decide the question",
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
        name: the name within its probe; part of the recording's name.
        special: a description for `--dry-run`.
        edit: changes the JSON body before it is sent, for fields without an option.
        when: returns whether this request is needed after the earlier requests of the probe.
        patience: how often the request is sent if its response breaks off. An error response isn't repeated.
        leave: cancel the request after the first bytes of its response.
        modes: whether the request is sent with streaming, without streaming, or both.
        fresh: returns the request with other random values, for each round.
        follow: returns this request, based on earlier responses of the probe; None: not possible. The dry run shows the
            messages of this object.
        exact: keep the temperature in repetitions.
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
        number: the number of the response in the test run, from 1.
        probe, ask: the names of the probe and of the request.
        way: how the request ended.
        whole: true if the request was sent without streaming.
        recording: the recording of the response; None if there was no response.
        inspection: the explained response; None if the request was rejected or there was no response.
        error: the error that a caller would get.
        sent: the JSON body of the request.
        headers: the response headers, with names in lower case.
        headers_after: seconds from the request to the response headers.
        reused: true if the connection was used before; None if unknown.
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
        """True if the response is complete."""
        return self.way == "fine"

    @property
    def refused(self) -> bool:
        """True if the server understood the request and rejected it."""
        return self.way == "refused"

    @property
    def reply(self) -> Reply:
        """The reply, or the partial reply."""
        return self.inspection.reply if self.inspection else Reply()

    @property
    def text(self) -> str:
        """The visible text."""
        return self.reply.text

    @property
    def codes(self) -> set[WarningCode]:
        """The codes of the reply's warnings."""
        return {warning.code for warning in self.inspection.warnings} if self.inspection else set()

    @property
    def said(self) -> str:
        """The server's error message."""
        return self.error.message if self.error else ""


Answers: TypeAlias = Mapping[str, ProbeResponse]


@dataclass(frozen=True, slots=True)
class Conclusion:
    """The conclusion of a probe.

    Attributes:
        saw: a short description of the observation.
        does: streamfold's reaction, or a recommendation.
        settings: settings for the profile.
        telling: the numbers of the most relevant responses; empty: all responses of the probe.
        certain: true if one response is enough. Otherwise "unfaithful" needs the same result in each repetition.
        avoid: options that the server rejects, and that later requests leave out.
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
        name: a permanent name of one word.
        theme: the group in which the probe is listed.
        question: the question.
        asks: its requests. A probe without requests judges all responses.
        judge: returns the conclusion from the responses, by the names of the requests.
        apis: the adapters that the probe applies to.
        whim: true if the response depends on the model, so that the probe is sent up to three times.
        basic: true if all other probes are skipped when this one has no complete response.
        needs: the probe that must not have the verdict "no" or "fault", and must not be skipped.
        repeated: true if one response can't decide the question, so that `--thorough` repeats the probe.
        both_modes: for a probe without requests: true if it also gets the responses without streaming.
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
        probe, theme, question: the fields of the `Probe`.
        answers: the numbers of the relevant responses, the most relevant one first.
        tally: "2 of 3" if the request was sent several times.
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
    """The report about one API of a server.

    Attributes:
        name: the name of the provider.
        base_url: the base URL, without secrets.
        server: the server's name in its headers.
        requests: the number of sent requests.
        seconds: the duration of the test run.
        answers: all responses.
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
        """All settings of the findings; for a repeated key the later one counts."""
        found = {setting.key: setting for finding in self.findings for setting in finding.settings}
        return tuple(found.values())

    def of(self, probe: str) -> Finding | None:
        """Returns the finding of a probe; None if the probe doesn't apply to this API."""
        return next((finding for finding in self.findings if finding.probe == probe), None)

    def with_verdict(self, *verdicts: Verdict) -> list[Finding]:
        """Returns the findings with one of these verdicts."""
        return [finding for finding in self.findings if finding.verdict in verdicts]
