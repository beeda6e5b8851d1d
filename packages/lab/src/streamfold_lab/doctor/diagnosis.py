"""Tests a server: finds a model and the APIs that the server supports, and creates a report for each API."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Iterable
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from secrets import randbelow
from typing import Any
from urllib.parse import urlsplit

import anyio
import httpx

from streamfold import APIError, APIStatusError, AuthenticationError, ConfigError, StreamError, Timeouts, __version__
from streamfold.config import read_config, read_profile, shown_url
from streamfold.types import Profile

from .budget import DEFAULT_BUDGET, Budget, WrittenRequest, prices_of
from .examine import ProbeRunner, with_fresh_values
from .listing import read_models
from .probes import PROBES
from .questions import HELLO
from .reference import compare_with_reference
from .sending import ExaminedEndpoint, prepare
from .values import Finding, Probe, ProbeRequest, ReportCard

AUTO = "auto"
APIS = ("chat", "responses", "anthropic")
_ABSENT = (404, 405, 501)
TIMEOUTS = Timeouts(connect=10.0, first_event=60.0, read=30.0, stall=60.0, total=180.0)


@dataclass(slots=True)
class Doctor:
    """Tests servers. The attributes are the settings of each test.

    Attributes:
        budget: the limits for testing one API.
        repeats: the number of times that the doctor sends a probe for occasional errors. With 0, it doesn't repeat it.
            Sixty requests find an error that affects 5 percent of all requests, with a confidence of 95 percent.
        seed: the seed for random values in prompts. By default, each test run has a different seed, because a server
            may have cached the prompts or responses of an earlier run.
        reference: an endpoint of the company that made the model. The doctor sends it the same requests and compares
            the responses. None: no comparison.
        folder: the folder in which the responses are recorded; None: a temporary folder.
        timeouts: the timeouts of each request.
        report: called with each finding as soon as it is made.
        http_client: the HTTP client for all requests. The caller closes it.
    """

    budget: Budget = DEFAULT_BUDGET
    repeats: int = 0
    seed: int = field(default_factory=lambda: randbelow(10**9))
    reference: Profile | None = None
    folder: Path | None = None
    timeouts: Timeouts = TIMEOUTS
    probes: Iterable[Probe] = PROBES
    report: Callable[[Finding], None] = field(default=lambda finding: None)
    http_client: httpx.AsyncClient | None = None

    async def run(self, profile: Profile) -> tuple[ReportCard, Profile]:
        """Tests one API of a server. Returns the report, and the profile with all settings that the test found.

        Raises:
            ConfigError: the profile is invalid.
        """
        began = anyio.current_time()
        async with AsyncExitStack() as stack:
            folder = self.folder or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="streamfold-")))
            answers = folder / profile.adapter
            keep = self.folder is not None
            endpoint = ExaminedEndpoint(profile, answers, self.timeouts, self.http_client, self.budget, keep=keep)
            await stack.enter_async_context(endpoint)
            examination = ProbeRunner(endpoint, tuple(self.probes), self.report, self.repeats, self.seed)
            findings, answered = await examination.run(), examination.seen
            if self.reference is not None and not examination.hopeless:
                place = folder / "reference"
                other = ExaminedEndpoint(self.reference, place, self.timeouts, self.http_client, self.budget)
                await stack.enter_async_context(other)
                compared, more = await compare_with_reference(endpoint, other, self.seed)
                findings, answered = [*findings, *compared], [*answered, *more]
        card = ReportCard(
            name=profile.name,
            base_url=shown_url(profile.base_url),
            adapter=profile.adapter,
            model=profile.resolve().model or "",
            server=next((seen.headers["server"] for seen in answered if "server" in seen.headers), ""),
            date=datetime.now(UTC).date().isoformat(),
            version=__version__,
            requests=endpoint.spent.requests,
            seconds=round(anyio.current_time() - began, 3),
            findings=tuple(findings),
            answers=tuple(answered),
        )
        return card, endpoint.profile


def read_target(target: str, file: Path | None = None, **overrides: Any) -> Profile:
    """Returns the profile of a provider. `target` is a URL, `NAME` or `NAME:MODEL`.

    Raises:
        ConfigError: the configuration has no provider of this name, or the URL is invalid.
    """
    if target.startswith(("http://", "https://")):
        return read_profile({"name": _name_of(target), "base_url": target, "max_retries": 0}, overrides)
    return read_config(file).profile(target, overrides)


def _name_of(url: str) -> str:
    """Derives a provider's name from the host of a URL."""
    host = urlsplit(url).hostname or "server"
    if host in ("localhost", "::1") or host.startswith("127."):
        return "local"
    return re.sub(r"[^a-z0-9]+", "-", host.removeprefix("api.").lower()).strip("-") or "server"


async def find_apis(
    profile: Profile,
    adapter: str = AUTO,
    *,
    timeouts: Timeouts = TIMEOUTS,
    http_client: httpx.AsyncClient | None = None,
) -> list[Profile]:
    """Returns a profile for each API that the server supports, Chat Completions first.

    For a URL without a path, the function tries the path `/v1` first. If the profile has no model, the function uses
    the first model in the server's list.

    Args:
        adapter: the API to test; "auto": all supported APIs.

    Raises:
        ConfigError: the profile has no model and the server lists none, or the server responds to none of the APIs.
        APIError: the server is unreachable, or rejects the API key.
    """
    problems: list[str] = []
    refused: APIError | None = None
    url = profile.base_url
    for base in [url] if urlsplit(url).path.strip("/") else [f"{url.rstrip('/')}/v1", url]:
        tried = profile.model_copy(update={"base_url": base})
        found: list[Profile] = []
        with tempfile.TemporaryDirectory(prefix="streamfold-") as folder:
            for api in APIS if adapter == AUTO else (adapter,):
                candidate = _as_api(tried, api, first=not found)
                async with ExaminedEndpoint(candidate, Path(folder), timeouts, http_client) as endpoint:
                    endpoint.use(await _with_model(endpoint))
                    try:
                        problem = await _problem(endpoint)
                    except AuthenticationError as error:  # another API may expect the key in another header
                        refused, problem = refused or error, error.message
                if problem is None:
                    found.append(endpoint.profile)
                else:
                    problems.append(f"{api} at {shown_url(base)}: {problem}")
        if found:
            return found
    if refused is not None:
        raise refused
    raise ConfigError(f"the server supports none of the tested APIs: {'; '.join(problems)}")


def _as_api(profile: Profile, api: str, *, first: bool) -> Profile:
    if profile.adapter == api:
        return profile
    kept = {name: getattr(profile, name) for name in profile.model_fields_set if name not in ("adapter", "quirks")}
    name = profile.name if first else f"{profile.name}-{api}"
    return type(profile).model_validate({**kept, "adapter": api, "name": name})


async def _with_model(endpoint: ExaminedEndpoint) -> Profile:
    """Returns the endpoint's profile. A profile without a model gets the first model in the server's list."""
    profile = endpoint.profile
    if profile.model:
        return profile
    names: list[str] = []
    try:
        names = [model.name for model in read_models(await endpoint.get("/models"))]
    except APIStatusError as error:
        if error.status_code not in _ABSENT:
            raise
    except StreamError:  # the server has no list of models
        pass
    return profile.model_copy(update={"model": names[0]}) if names else profile


async def _problem(endpoint: ExaminedEndpoint) -> str | None:
    """Returns why the server doesn't respond to an API; None if it responds. Raises ConfigError if there is no model,
    and APIError if the server is unreachable or rejects the API key.
    """
    if not endpoint.profile.model:
        raise ConfigError("the server lists no models: name one with --model")
    seen = await endpoint.ask("api", ProbeRequest("hello", HELLO, patience=1))
    if isinstance(seen.error, AuthenticationError) or (seen.way == "unreachable" and isinstance(seen.error, APIError)):
        raise seen.error
    if isinstance(seen.error, APIStatusError) and seen.error.status_code in _ABSENT:
        return seen.said
    return seen.said if seen.way == "garbled" and "html" in seen.said.lower() else None


@dataclass(frozen=True, slots=True)
class PlannedRequest:
    """A request that a test run would send.

    Attributes:
        whole: true if the request asks for a response without streaming.
        written: the request's JSON body, with estimates of its tokens and its cost.
    """

    probe: Probe
    ask: ProbeRequest
    whole: bool
    written: WrittenRequest


def plan(profile: Profile, probes: Iterable[Probe] = PROBES, seed: int = 0) -> list[PlannedRequest]:
    """Returns the requests that a test run would send, without sending them. Leaves out requests that can't be built
    for this profile.
    """
    adapter, price = profile.make_adapter(profile.model), prices_of(profile)
    planned = []
    for probe in probes:
        for ask in probe.asks if profile.adapter in probe.apis else ():
            chosen = with_fresh_values(probe, ask, seed, 0)
            for whole in (False, True) if ask.modes == "both" else (False,):
                with suppress(ConfigError):
                    body = prepare(profile, adapter, chosen, whole=whole)[1]
                    planned.append(PlannedRequest(probe, chosen, whole, WrittenRequest.of(body, price)))
    return planned
