"""What the pytest plugin hands to a test: makers of providers, which know the test that they are for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from ..values import ConfigError
from .faults import Fault
from .recording import Match, Recording, Speed, find_recording, load_source
from .replayed import RecordingProvider, ReplayProvider
from .scripted import ScriptedProvider, Turn
from .spy import ScriptError, SpyProvider

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
        __tracebackhide__ = True  # pytest shows the test, and nothing below
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

    With `--streamfold-record`, a call that names a provider asks that provider, where there is no recording ("once") or
    in any case ("all"), and records it: beside the recording that was there, else in the first of the folders.

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
        test: str = "TEST",
    ) -> None:
        self.folders = list(folders) or [folder / "fixtures" for folder in _up_to(root, beside.parent)]
        self.providers: list[SpyProvider] = []
        self._root = root
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
        match: Match = "order",
        **overrides: Any,
    ) -> SpyProvider:
        """A provider that answers with these recordings. The other arguments are those of `ReplayProvider`.

        While it records, nothing is cut, slowed down or broken.

        Raises:
            ConfigError: there is no such recording; the message says where it was looked for, and how to record it.
        """
        __tracebackhide__ = True
        missing = [name for name in names if self._folder_of(name) is None]
        if provider is not None and (self._record == "all" or (self._record == "once" and missing)):
            made: SpyProvider = self._recording(names, provider, overrides)
        else:
            read = [recording for name in names for recording in self.find(name, provider)]
            every = [*self._faults, *faults]
            made = ReplayProvider(
                *read, provider=provider, cuts=cuts, speed=speed, faults=every, match=match, **overrides
            )
        self.providers.append(made)
        return made

    def find(self, name: str, provider: Any = None) -> list[Recording]:
        """The recording of this name, and what followed it in the same conversation. Raises ConfigError."""
        __tracebackhide__ = True
        folder = self._folder_of(name)
        if folder is not None:
            return load_source(folder / name)
        try:
            return [find_recording(name)]
        except ConfigError:
            looked = ", ".join(str(_inside(self._root, folder)) for folder in self.folders)
            how = "record it with" if provider is not None else 'name its provider (provider="kimi:kimi-k2.6"), and run'
            raise ConfigError(
                f"there is no recording {name!r} in {looked}, nor does one come with streamfold: {how}"
                f" pytest --streamfold-record=once {self._test!r}"
            ) from None

    def keep(self) -> list[str]:
        """Keeps what was recorded. Returns what could not be kept, and why."""
        kept = [provider.keep() for provider in self.providers if isinstance(provider, RecordingProvider)]
        return [problem for problem in kept if problem is not None]

    def _recording(
        self, names: tuple[str, ...], provider: str | Mapping[str, Any], overrides: Mapping[str, Any]
    ) -> RecordingProvider:
        if len(names) != 1:
            raise ConfigError(
                f"a conversation is recorded under one name, its later answers as NAME-2, NAME-3: give one of"
                f" {', '.join(names) or 'none'}, or a provider for each"
            )
        return RecordingProvider(self._folder_of(names[0]) or self.folders[0], names[0], provider, overrides)

    def _folder_of(self, name: str) -> Path | None:
        return next((folder for folder in self.folders if (folder / f"{name}.sse").is_file()), None)


def _up_to(root: Path, folder: Path) -> list[Path]:
    """The folder and those above it, up to the root; the root in any case."""
    if not folder.is_relative_to(root):
        return [folder, root]
    return [folder, *[above for above in folder.parents if above.is_relative_to(root)]]


def _inside(root: Path, folder: Path) -> Path:
    return folder.relative_to(root) if folder.is_relative_to(root) else folder
