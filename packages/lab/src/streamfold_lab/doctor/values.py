"""The data types of a test run: probes, responses, findings, and the report on an API."""

from __future__ import annotations

from collections import Counter
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
    "handled": "differs from the documentation, and streamfold handles the difference without a setting",
    "set": "differs from the documentation, and the configuration needs a setting",
    "no": "not available at this endpoint",
    "fault": "a bug of the server that no setting can work around",
    "unfaithful": "the response doesn't match the request, or comes from another model",
    "unclear": "the responses don't answer the question",
    "skipped": "not tested",
}

Way: TypeAlias = Literal[
    "fine",  # complete
    "left",  # cancelled on purpose
    "refused",  # the server understood the request and rejected it
    "status",  # another error status
    "unreachable",
    "hung_up",
    "dropped",  # the server had already closed the reused connection
    "cut",
    "reset",
    "stalled",
    "garbled",  # not a response of this API
]
"""How a request ended."""


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting for a provider's configuration, and the reason for the setting.

    Attributes:
        key: the path of the setting in the provider's TOML table, such as `("quirks", "stream_usage")`.
        why: the evidence for the setting, in one line.
    """

    key: tuple[str, ...]
    value: Any
    why: str


@dataclass(frozen=True, slots=True)
class ProbeRequest:
    """One request of a probe.

    Attributes:
        name: the name of the request within its probe; part of the recording's file name.
        special: a description of the request for `--dry-run`.
        edit: changes the request's JSON body before it is sent, for fields that no option sets; may modify the body in
            place.
        when: called with the probe's earlier responses; returns whether this request is still needed.
        patience: maximum number of tries if the response breaks off. A rejected request isn't sent again.
        leave: true: cancel the request after the first bytes of its response.
        modes: the modes in which the request is sent: with streaming, without streaming, or both.
        fresh: creates the request with new random values; called for each repetition.
        follow: creates the request from the probe's earlier responses, or returns None if that isn't possible.
            `--dry-run` has no responses, so it prints the messages of this `ProbeRequest`.
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


@dataclass(frozen=True, slots=True)
class ProbeResponse:
    """The server's response to one request of a probe.

    Attributes:
        number: the number of the response in the test run, from 1.
        probe, ask: the names of the probe and of the request.
        way: how the request ended.
        whole: true if the request was sent without streaming.
        recording: the recording of the response; None if the server sent no response.
        inspection: the response explained event by event; None if the server rejected the request or sent no response.
        error: the error that a caller of streamfold would get; None if the request succeeded.
        sent: the JSON body of the request.
        headers: the response's HTTP headers, with names in lower case.
        headers_after: seconds from sending the request to receiving the response headers.
        reused: true if an earlier request used the same connection; None if unknown.
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
        """The reply that the response contains; for an incomplete response, the partial reply."""
        return self.inspection.reply if self.inspection else Reply()

    @property
    def text(self) -> str:
        """The text that a user would see, without reasoning."""
        return self.reply.text

    @property
    def codes(self) -> set[WarningCode]:
        """The codes of the reply's warnings."""
        return {warning.code for warning in self.inspection.warnings} if self.inspection else set()

    @property
    def said(self) -> str:
        """The error message that the server sent."""
        return self.error.message if self.error else ""


Answers: TypeAlias = Mapping[str, ProbeResponse]


@dataclass(frozen=True, slots=True)
class Conclusion:
    """The conclusion that a probe draws from the responses to its requests.

    Attributes:
        saw: a short description of what the probe observed.
        does: what streamfold does in this case, or what the user should do.
        settings: the settings that the provider's profile needs.
        telling: the numbers of the most relevant responses; if empty, all responses of the probe are relevant.
        certain: true if one response is enough for this conclusion. If false, the verdict "unfaithful" counts only if
            every repetition has the same verdict.
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
    """One question about a server, and the requests that find the answer.

    Attributes:
        name: the probe's name, one word that never changes.
        theme: the group under which reports list the probe.
        question: the question that the probe answers.
        asks: the requests to send. A probe without requests judges all responses of the test run.
        judge: called with a mapping from request names to responses; returns the conclusion.
        apis: the adapters of the APIs that the probe applies to.
        whim: true if the result depends on the model. The runner then sends the probe up to three times.
        basic: true if the test run skips all other probes when this probe gets no complete response.
        needs: the name of another probe. If its verdict is "no", "fault" or "skipped", this probe is skipped.
        repeated: true if one response can't decide the question, so that `--thorough` repeats the probe.
        both_modes: for a probe without requests: true if it also judges the responses that were requested without
            streaming.
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
    """The finding of one probe, for the report.

    Attributes:
        probe, theme, question: the fields of the `Probe`.
        answers: the numbers of the relevant responses, the most relevant one first.
        tally: if the probe was sent several times, the number of times that it had this verdict, such as "2 of 3".
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
    """The report on one API of a server.

    Attributes:
        name: the name of the tested provider.
        base_url: the base URL of the API, without secrets.
        server: the server's name, from its response headers.
        requests: the number of sent requests.
        seconds: the duration of the test run.
        answers: all responses of the test run.
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
        """The settings that the findings contain. Of two settings with the same key, the later one is used."""
        found = {setting.key: setting for finding in self.findings for setting in finding.settings}
        return tuple(found.values())

    @property
    def summary(self) -> str:
        """How many findings have each verdict, such as "59 ok, 2 handled"."""
        counts = Counter(finding.verdict for finding in self.findings)
        return ", ".join(f"{counts[verdict]} {verdict}" for verdict in VERDICTS if counts[verdict])

    def of(self, probe: str) -> Finding | None:
        """Returns the finding of a probe; None if the probe doesn't apply to this API."""
        return next((finding for finding in self.findings if finding.probe == probe), None)

    def with_verdict(self, *verdicts: Verdict) -> list[Finding]:
        """Returns the findings with one of these verdicts."""
        return [finding for finding in self.findings if finding.verdict in verdicts]
