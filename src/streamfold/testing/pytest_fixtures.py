"""The classes of the pytest fixtures `scripted` and `replay`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Unpack

from ..config import ProviderConfig
from ..errors import ConfigError
from ..faults import Fault
from ..recording import Match, Recording, Speed, find_recording, load_source
from .doubles import ProviderDouble, RecordingProvider, ReplayProvider, ScriptError
from .scripted import ScriptedProvider, Turn


class ScriptedFixture:
    """The pytest fixture `scripted`, a function that creates a `ScriptedProvider` and has the same arguments.

    Attributes:
        providers: the models that were created in this test.
    """

    def __init__(self) -> None:
        self.providers: list[ScriptedProvider] = []

    def __call__(
        self,
        *turns: Turn,
        then: Turn | None = None,
        provider: str | Mapping[str, Any] | None = None,
        **overrides: Unpack[ProviderConfig],
    ) -> ScriptedProvider:
        """Creates a `ScriptedProvider` with these turns."""
        made = ScriptedProvider(*turns, then=then, provider=provider, **overrides)
        self.providers.append(made)
        return made

    def assert_done(self) -> None:
        """Raises ScriptError if a model has a turn that no request has used."""
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
    """The pytest fixture `replay`, a function that finds recordings by name and creates a `ReplayProvider`.

    The fixture looks for recordings in the folders of the ini option `streamfold_fixtures`, then among the bundled
    recordings. Without this option, the folders are those named `fixtures` beside the test file and in its parent
    folders, up to pytest's root.

    With `--streamfold-record`, a call with `provider=` sends the request to that provider and records the response.
    With "once", the response is recorded only if there is no recording yet. With "all", it is always recorded. A new
    recording replaces an older recording, or is saved in the first folder.

    Args:
        folders: the folders from the ini option `streamfold_fixtures`.
        beside: the path of the test file.
        root: pytest's root folder.
        faults: the faults from the marker `streamfold_faults`, which are applied before the faults of a call.
        record: the value of the option `--streamfold-record`.
        test: the id of the test, for messages.

    Attributes:
        providers: the models that were created for this test.
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
        self.providers: list[ProviderDouble] = []
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
        **overrides: Unpack[ProviderConfig],
    ) -> ProviderDouble:
        """Returns a model that answers requests with these recordings. For the other arguments, see `ReplayProvider`.
        `cuts`, `speed` and `faults` have no effect while a response is recorded.

        Raises:
            ConfigError: the recording doesn't exist. The message contains the folders, and the command that creates the
                recording.
        """
        __tracebackhide__ = True
        missing = [name for name in names if self._folder_of(name) is None]
        if provider is not None and (self._record == "all" or (self._record == "once" and missing)):
            if len(names) != 1:
                raise ConfigError(
                    "a conversation is recorded under one name, its later responses as NAME-2, NAME-3: pass one of"
                    f" {', '.join(names) or 'none'}, or create a model for each"
                )
            folder = self._folder_of(names[0]) or self.folders[0]
            made: ProviderDouble = RecordingProvider(folder, names[0], provider, overrides)
        else:
            read = [recording for name in names for recording in self._find(name, provider)]
            every = [*self._faults, *faults]
            made = ReplayProvider(
                *read, provider=provider, cuts=cuts, speed=speed, faults=every, match=match, **overrides
            )
        self.providers.append(made)
        return made

    def _find(self, name: str, provider: Any) -> list[Recording]:
        __tracebackhide__ = True
        folder = self._folder_of(name)
        if folder is not None:
            return load_source(folder / name)
        try:
            return [find_recording(name)]
        except ConfigError:
            root = self._root
            looked = ", ".join(
                str(folder.relative_to(root) if folder.is_relative_to(root) else folder) for folder in self.folders
            )
            how = "record it with" if provider is not None else 'name its provider (provider="kimi:kimi-k2.6"), and run'
            raise ConfigError(
                f"no recording {name!r} in {looked}, and none is bundled with streamfold: {how}"
                f" pytest --streamfold-record=once {self._test!r}"
            ) from None

    def keep(self) -> list[str]:
        """Saves the new recordings. Returns a message for each recording that could not be saved."""
        kept = [provider.keep() for provider in self.providers if isinstance(provider, RecordingProvider)]
        return [problem for problem in kept if problem is not None]

    def _folder_of(self, name: str) -> Path | None:
        return next((folder for folder in self.folders if (folder / f"{name}.sse").is_file()), None)


def _up_to(root: Path, folder: Path) -> list[Path]:
    if not folder.is_relative_to(root):
        return [folder, root]
    return [folder, *[above for above in folder.parents if above.is_relative_to(root)]]
