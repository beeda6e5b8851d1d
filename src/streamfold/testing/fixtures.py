"""What the pytest plugin hands to a test: makers of providers, which know the test that they are for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .scripted import ScriptedProvider, ScriptError, Turn

__all__ = ["ScriptedFixture"]


class ScriptedFixture:
    """The fixture `scripted`: makes a `ScriptedProvider`. See there for the arguments.

    Attributes:
        providers: those that were made for this test.
    """

    def __init__(self) -> None:
        self.providers: list[ScriptedProvider] = []

    def __call__(
        self,
        *turns: Turn,
        then: Turn | None = None,
        provider: str | Mapping[str, Any] | None = None,
        **overrides: Any,
    ) -> ScriptedProvider:
        """A provider that answers with these turns."""
        made = ScriptedProvider(*turns, then=then, provider=provider, **overrides)
        self.providers.append(made)
        return made

    def assert_done(self) -> None:
        """Raises ScriptError if a turn of any of them was not asked for."""
        problems = []
        for provider in self.providers:
            try:
                provider.assert_done()
            except ScriptError as error:
                problems.append(str(error))
        if problems:
            raise ScriptError("\n".join(problems))
