"""A provider whose model follows a script: for the unit tests of applications.

Nothing of the library is replaced. Requests are read, checked and encoded, the script's turns become the bytes of a
server, and adapter, decoder and fold read them. What is missing is the network.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, NoReturn, TypeAlias

from ..client import Hooks
from ..requests import Request
from ..values import ConfigError
from .failures import Fail
from .inprocess import NoConnection, client_answered_by
from .noted import NotedProvider, ScriptError
from .recording import Cut, Recording
from .requests import SentRequest
from .script import Answer, Pause, Step, read_answer
from .standin import stand_in
from .wires import error_body, write_events, writer_for

__all__ = ["ScriptedProvider", "Turn"]


Turn: TypeAlias = Answer | Callable[[SentRequest], Answer]


class ScriptedProvider(NotedProvider):
    """A provider that answers each request with the next turn of a script.

        provider = ScriptedProvider(call("get_weather", city="Paris"), "It is 18 degrees.")
        assert await ask(provider, "What is the weather in Paris?") == "It is 18 degrees."
        assert [tool.name for tool in provider.requests[0].tools] == ["get_weather"]
        provider.assert_done()

    Args:
        turns: one for each request, in this order: a text, a step (`say`, `think`, `call`, `refuse`, `usage`, `finish`,
            `pause`, `fail`), a list of both, or a function from the request to any of these.
        then: the turn for every request after them; None: such a request is an error.
        provider: the configuration to take the place of, as `Provider.from_config` takes it: its wire format, quirks
            and dialect hold, its key and address are not used. Else it is plain Chat Completions.
        hooks, overrides: as for `Provider.from_config`. Unless `max_retries` is among them, nothing is sent again, so
            that a failure in the script is what the application sees; with retries, each takes a turn.

    Attributes:
        requests: those that came.

    Raises:
        ConfigError: a turn is none, or the configuration can't be used.
    """

    def __init__(
        self,
        *turns: Turn,
        then: Turn | None = None,
        provider: str | Mapping[str, Any] | None = None,
        hooks: Iterable[Hooks] = (),
        **overrides: Any,
    ) -> None:
        super().__init__(stand_in(provider, overrides, name="scripted"), hooks=hooks)
        self._turns = [_checked_turn(turn, f"turn {number}") for number, turn in enumerate(turns, 1)]
        self._then = None if then is None else _checked_turn(then, "then")
        self._problems: list[str] = []
        self._calls = 0
        writer_for(self.profile.adapter, "", 0, self._next_id)  # a wire that nobody can write is told of at once

    def assert_done(self) -> None:
        """Raises ScriptError if a turn was not asked for, or if there was a request that no turn was left for."""
        problems, used = list(self._problems), len(self.requests)
        for number, turn in enumerate(self._turns[used:], used + 1):
            problems.append(f"turn {number} was not asked for: {_shown(turn)}")
        if problems:
            raise ScriptError("; ".join(problems))

    def _client_for(self, request: Request) -> Any:
        return client_answered_by(partial(self._turn_for, request))

    def _turn_for(self, asked: Request, body: bytes) -> Recording | NoConnection:
        request = self._note(asked, body)
        number = len(self.requests)
        turn = self._turns[number - 1] if number <= len(self._turns) else self._then
        if turn is None:
            self._refuse(number, request)
        try:
            return self._played(read_answer(turn(request) if callable(turn) else turn), asked.model, number)
        except ConfigError as exc:  # as a StreamfoldError an application might take it for a failure of its provider
            self._problems.append(f"turn {number} can't be played: {exc}")
            raise ScriptError(self._problems[-1]) from exc
        except Exception as exc:
            self._problems.append(f"turn {number}, {_shown(turn)}, failed: {type(exc).__name__}: {exc}")
            raise

    def _played(self, steps: Sequence[Step], model: str, number: int) -> Recording | NoConnection:
        writer = writer_for(self.profile.adapter, model, number, self._next_id)
        last = steps[-1] if steps and isinstance(steps[-1], Fail) else None
        if last and (last.only_first or (last.how == "broken" and not _speaks(steps))):
            return _no_answer(last, number, sum(step.seconds for step in steps if isinstance(step, Pause)))
        events = write_events(steps, writer)
        return Recording(
            f"turn {number}",
            b"".join(event for _, event in events),
            headers={"x-request-id": f"scripted-{number}"},
            cuts=tuple(Cut(len(event), delay) for delay, event in events),
            broken=last is not None and last.how == "broken",
        )

    def _refuse(self, number: int, request: SentRequest) -> NoReturn:
        turns = f"{len(self._turns)} turn{'' if len(self._turns) == 1 else 's'}"
        problem = (
            f"request {number} has no turn: the script has {turns}, and the application asked once more, after"
            f" {request.text!r:.200} (each argument is a turn; a list is one turn of several steps)"
        )
        self._problems.append(problem)
        raise ScriptError(problem)

    def _next_id(self, name: str) -> str:
        number, self._calls = self._calls, self._calls + 1
        return f"functions.{name}:{number}" if self.profile.adapter == "kimi" else f"call_{number + 1}"


def _checked_turn(turn: Turn, where: str) -> Turn:
    """The turn. Raises ConfigError that says which one can't be played."""
    if callable(turn):
        return turn
    try:
        read_answer(turn)
    except ConfigError as exc:
        raise ConfigError(f"{where}: {exc}") from None
    return turn


def _speaks(steps: Sequence[Step]) -> bool:
    return any(not isinstance(step, Pause | Fail) for step in steps)


def _no_answer(step: Fail, number: int, delay: float) -> Recording | NoConnection:
    if step.how in ("broken", "timeout"):
        return NoConnection(step.message, timed_out=step.how == "timeout", delay=delay)
    if step.status is None:
        return Recording("nothing", b"")
    headers = {"content-type": "application/json", "x-request-id": f"scripted-{number}"}
    if step.retry_after is not None:
        headers["retry-after-ms"] = f"{step.retry_after * 1000:g}"
    body = error_body(step)
    return Recording("an error", body, status=step.status, headers=headers, cuts=(Cut(len(body), delay),))


def _shown(turn: Turn) -> str:
    return getattr(turn, "__name__", repr(turn)) if callable(turn) else repr(turn)[:200]
