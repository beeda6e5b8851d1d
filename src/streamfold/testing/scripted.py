"""A model that follows a script: for the unit tests of applications."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NoReturn, TypeAlias, Unpack

import anyio
import httpx

from ..client import Hooks
from ..config import ProviderConfig
from ..recording import Cut, Recording, ReplayTransport
from ..requests import Request
from ..values import ConfigError
from .answers import ScriptSerializer, failed_body
from .doubles import ProviderDouble, ScriptError, SentRequest, replaced_profile
from .failures import Fail
from .script import Answer, Pause, ScriptedTurn, Step, ToolCallStep, read_answer

Turn: TypeAlias = Answer | Callable[[SentRequest], Answer]


class ScriptedProvider(ProviderDouble):
    """A model that answers each request with the next turn of a script.

        model = ScriptedProvider(call("get_weather", city="Paris"), "It is 18 degrees.")
        assert await ask(model, "What is the weather in Paris?") == "It is 18 degrees."
        assert [tool.name for tool in model.requests[0].tools] == ["get_weather"]
        model.assert_done()

    Args:
        turns: one for each request, in order: a text, a step (`say`, `think`, `call`, `refuse`, `usage`, `finish`,
            `pause`, `fail`), a list of texts and steps, or a function from the `SentRequest` to any of these.
        then: the turn for every further request. Default: a further request is an error.
        provider: the provider to take the place of, as for `Provider.from_config`: its wire format, quirks and dialect
            are used, its key and address are not. Default: plain Chat Completions.
        hooks, overrides: as for `Provider.from_config`. `max_retries` is 0 by default, so that the application sees
            each failure; with retries, each attempt takes a turn.

    Attributes:
        provider: the `Provider` that reads the answers.
        requests: the requests that were sent.

    Raises:
        ConfigError: a turn can't be read, or the configuration can't be used.
    """

    def __init__(
        self,
        *turns: Turn,
        then: Turn | None = None,
        provider: str | Mapping[str, Any] | None = None,
        hooks: Hooks | Iterable[Hooks] = (),
        **overrides: Unpack[ProviderConfig],
    ) -> None:
        super().__init__(replaced_profile(provider, overrides, name="scripted"), hooks=hooks)
        self._turns = [_checked_turn(turn, f"turn {number}") for number, turn in enumerate(turns, 1)]
        self._then = None if then is None else _checked_turn(then, "then")
        self._problems: list[str] = []
        self._calls = 0
        # An adapter without an emitter is an error now, not with the first request.
        ScriptSerializer(self.profile.adapter_of(self.profile.model))

    def assert_done(self) -> None:
        """Raises ScriptError if a turn was not used, or if a request had no turn or failed to play."""
        problems, used = list(self._problems), len(self.requests)
        for number, turn in enumerate(self._turns[used:], used + 1):
            problems.append(f"turn {number} was not asked for: {_shown(turn)}")
        if problems:
            raise ScriptError("; ".join(problems))

    async def _respond(self, sent: SentRequest, asked: Request, request: httpx.Request) -> httpx.Response:
        number = len(self.requests)
        turn = self._turns[number - 1] if number <= len(self._turns) else self._then
        if turn is None:
            self._reject(number, sent)
        try:
            steps = self._for_schema(read_answer(turn(sent) if callable(turn) else turn), asked)
            played = self._played(steps, sent.model, number)
        except ConfigError as exc:  # an application might handle a StreamfoldError as a failure of its provider
            self._problems.append(f"turn {number} can't be played: {exc}")
            raise ScriptError(self._problems[-1]) from exc
        except Exception as exc:
            self._problems.append(f"turn {number}, {_shown(turn)}, failed: {type(exc).__name__}: {exc}")
            raise
        if isinstance(played, httpx.TransportError):
            await _waits(steps)
            raise played
        transport = ReplayTransport(played, speed="recorded" if played.cuts else "instant")
        return await transport.handle_async_request(request)

    def _played(self, steps: Sequence[Step], model: str, number: int) -> Recording | httpx.TransportError:
        """Returns the answer that the steps make, or the error that the connection fails with."""
        last = steps[-1] if steps and isinstance(steps[-1], Fail) else None
        if last and (last.only_first or (last.how == "broken" and not _speaks(steps))):
            return _no_answer(last, number, steps, self.profile.adapter_of(model))
        writer = ScriptSerializer(self.profile.adapter_of(model), model, number, self._next_id)
        events = list(writer.events(steps))
        return Recording(
            f"turn {number}",
            b"".join(event for _, event in events),
            headers={"x-request-id": f"scripted-{number}"},
            cuts=tuple(Cut(len(event), delay) for delay, event in events),
            broken=last is not None and last.how == "broken",
        )

    def _for_schema(self, steps: list[Step], asked: Request) -> list[Step]:
        """Says data as this provider's models do: some endpoints take a `response_format` as a tool to be called."""
        if asked.options.response_format is None:
            return steps
        tool = self.profile.make_adapter(asked.model).prepare(asked, repair_history=True).request.answer_tool
        if tool is None:
            return steps
        return [
            ToolCallStep(tool, step.text) if isinstance(step, ScriptedTurn) and step.is_data else step for step in steps
        ]

    def _reject(self, number: int, sent: SentRequest) -> NoReturn:
        turns = f"{len(self._turns)} turn{'' if len(self._turns) == 1 else 's'}"
        problem = (
            f"request {number} has no turn: the script has {turns}, and the application sent another request after"
            f" {sent.text!r:.200} (each argument is a turn; a list is one turn of several steps)"
        )
        self._problems.append(problem)
        raise ScriptError(problem)

    def _next_id(self, name: str) -> str:
        number, self._calls = self._calls, self._calls + 1
        return f"functions.{name}:{number}" if self.profile.adapter == "kimi" else f"call_{number + 1}"


def _checked_turn(turn: Turn, where: str) -> Turn:
    """Returns the turn. Raises ConfigError that names it if it can't be read."""
    if callable(turn):
        return turn
    try:
        read_answer(turn)
    except ConfigError as exc:
        raise ConfigError(f"{where}: {exc}") from None
    return turn


def _speaks(steps: Sequence[Step]) -> bool:
    return any(not isinstance(step, Pause | Fail) for step in steps)


def _pauses(steps: Sequence[Step]) -> float:
    return sum(step.seconds for step in steps if isinstance(step, Pause))


async def _waits(steps: Sequence[Step]) -> None:
    seconds = _pauses(steps)
    await (anyio.sleep_forever() if seconds == math.inf else anyio.sleep(seconds))


def _no_answer(step: Fail, number: int, steps: Sequence[Step], adapter: str) -> Recording | httpx.TransportError:
    """Returns a failure that takes the place of the whole answer."""
    if step.how == "timeout":
        error = httpx.ConnectTimeout(step.message)
        error.__cause__ = TimeoutError(step.message)
        return error
    if step.how == "broken":
        return httpx.ConnectError(step.message)
    if step.status is None:
        return Recording("nothing", b"")
    headers = {"content-type": "application/json", "x-request-id": f"scripted-{number}"}
    if step.retry_after is not None:
        headers["retry-after-ms"] = f"{step.retry_after * 1000:g}"
    body = failed_body(step, adapter)
    return Recording("an error", body, status=step.status, headers=headers, cuts=(Cut(len(body), _pauses(steps)),))


def _shown(turn: Turn) -> str:
    return getattr(turn, "__name__", repr(turn)) if callable(turn) else repr(turn)[:200]
