"""What the pytest plugin hands to a test: makers of providers, which know the test that they are for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from ..errors import ConfigError
from ..faults import Fault
from ..recording import Recording, Speed, find_recording
from .replayed import ReplayProvider
from .scripted import ScriptedProvider, ScriptError, Turn

__all__ = ["ReplayFixture", "ScriptedFixture"]


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


class ReplayFixture:
    """The fixture `replay`: makes a `ReplayProvider` of recordings that it finds by their names.

    They are looked for in the folders of the ini option `streamfold_fixtures`, else in `fixtures` beside the test file
    and in every folder above it up to pytest's root; then among those that come with streamfold.

    Args:
        folders: those of the ini option.
        beside: the test file.
        root: pytest's root.
        faults: those of the marker `streamfold_faults`; they come before those of the call.
        record: the option `--streamfold-record`.
        test: the name of the test, by which it can be run.

    Attributes:
        providers: those that were made for this test.
    """

    def __init__(
        self,
        *,
        folders: Sequence[Path],
        beside: Path,
        root: Path,
        faults: Sequence[Fault] = (),
        record: Literal["none", "once", "all"] = "none",
        test: str = "",
    ) -> None:
        self.folders = list(folders) or [folder / "fixtures" for folder in _up_to(root, beside.parent)]
        self.providers: list[ReplayProvider] = []
        self._faults = list(faults)
        self._record = record
        self._test = test

    def __call__(
        self,
        *names: str,
        provider: str | Mapping[str, Any] | None = None,
        cuts: str = "recorded",
        speed: Speed = "instant",
        faults: Iterable[Fault] = (),
        **overrides: Any,
    ) -> ReplayProvider:
        """A provider that answers with these recordings, one for each request.

        Raises:
            ConfigError: there is no such recording; the message says where it was looked for, and how to record it.
        """
        made = ReplayProvider(
            *[self.find(name) for name in names],
            provider=provider,
            cuts=cuts,
            speed=speed,
            faults=[*self._faults, *faults],
            **overrides,
        )
        self.providers.append(made)
        return made

    def find(self, name: str) -> Recording:
        """The recording of this name. Raises ConfigError."""
        for folder in self.folders:
            if (folder / f"{name}.sse").is_file():
                return Recording.load(folder / name)
        try:
            return find_recording(name)
        except ConfigError:
            looked = ", ".join(map(str, self.folders))
            raise ConfigError(
                f"there is no recording {name!r} in {looked}, nor does one come with streamfold"
            ) from None


def _up_to(root: Path, folder: Path) -> list[Path]:
    """The folder and those above it, up to the root; the root in any case."""
    if not folder.is_relative_to(root):
        return [folder, root]
    return [folder, *[above for above in folder.parents if above.is_relative_to(root)]]
