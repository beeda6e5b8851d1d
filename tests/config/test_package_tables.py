"""Tables of `streamfold.toml` that other packages validate."""

from __future__ import annotations

import pickle
import sys
from collections.abc import Iterator
from importlib.metadata import EntryPoints
from pathlib import Path

import pytest

from streamfold import ConfigError, Provider
from streamfold.config import PackageTable, config_problems, read_config

MODULE = """
from streamfold.config import PackageTable

class Settings(PackageTable):
    store_keys = ("place",)

    provider: str = ""
    place: str = ""

    def problems(self, unknown):
        if text := unknown(self.provider):
            yield ("provider",), text
"""
PROVIDER = '[providers.main]\nbase_url = "http://127.0.0.1:9/v1"\nmodel = "m"\n'


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A configuration file, in a process in which the package `extra` with the table `[extra]` is installed."""
    metadata = tmp_path / "site" / "extra-1.0.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: extra\nVersion: 1.0\n", "utf-8")
    (metadata / "entry_points.txt").write_text("[streamfold.tables]\nextra = extra_table:Settings\n", "utf-8")
    (metadata.parent / "extra_table.py").write_text(MODULE, "utf-8")
    monkeypatch.syspath_prepend(str(metadata.parent))
    monkeypatch.delitem(sys.modules, "extra_table", raising=False)
    return tmp_path / "streamfold.toml"


class Settings(PackageTable):
    provider: str = ""
    place: str = ""


def problems(file: Path, text: str) -> Iterator[str]:
    file.write_text(text, "utf-8")
    return (line.removeprefix(f"{file}:") for line in config_problems(read_config(file)))


def test_a_table_of_an_installed_package_is_read(file: Path) -> None:
    """Its package gets the values, with overrides that are not None on top."""
    file.write_text('[extra]\nprovider = "main"\nplace = "here"\n' + PROVIDER, "utf-8")
    assert Provider.from_config("main", config=file).name == "main"
    read = read_config(file).package_table("extra", Settings, provider=None, place="there")
    assert read == Settings(provider="main", place="there")


def test_mistakes_in_a_table_of_a_package_have_their_line(file: Path) -> None:
    """What the values are is checked with the file; what only the package knows, by `config check`."""
    assert list(problems(file, '[extra]\nplase = "x"\n')) == [
        "2: extra.plase: unknown key (did you mean 'place'?). Allowed: provider, place"
    ]
    (found,) = problems(file, f'{PROVIDER}[extra]\nprovider = "mian"\n')
    assert found.startswith("5: extra.provider: unknown provider 'mian' (did you mean 'main'?)")


def test_a_table_of_a_package_that_is_not_installed(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error says what to install."""
    monkeypatch.setattr("importlib.metadata.entry_points", lambda **_: EntryPoints())
    text = "1: gateway: this table is for a package that is not installed: pip install streamfold-gateway"
    assert list(problems(file, "[gateway]\nport = 80\n" + PROVIDER)) == [text]
    with pytest.raises(ConfigError) as caught:
        Provider.from_config("main", config=file)
    assert str(caught.value) == f"{file}:{text}"


def test_a_table_that_no_package_has(file: Path) -> None:
    """It is an unknown key, and a name that is nearly right is suggested."""
    text = "1: gatway: unknown key (did you mean 'gateway'?). Allowed: default, families, providers, rate_limits, "
    text += "extra, gateway"
    assert list(problems(file, "[gatway]\n" + PROVIDER)) == [text]


def test_a_table_of_a_broken_package_is_a_config_error(file: Path) -> None:
    """A package that raises when it is imported is named, with its error."""
    (file.parent / "site" / "extra_table.py").write_text("raise RuntimeError('at import')\n", "utf-8")
    file.write_text("[extra]\n" + PROVIDER, "utf-8")
    with pytest.raises(ConfigError, match=r"table \[extra\] \(extra_table:Settings\) .*RuntimeError\('at import'\)"):
        Provider.from_config("main", config=file)


def test_a_configuration_is_pickled_with_its_tables(file: Path) -> None:
    """Workers that are spawned get it from the process that has read and checked it."""
    file.write_text('[extra]\nprovider = "main"\n' + PROVIDER)
    config = read_config(file)
    assert [name for name, _ in config.checked[0].package_tables()] == ["extra"]
    again = pickle.loads(pickle.dumps(config))
    assert again == config
    assert [name for name, _ in again.checked[0].package_tables()] == ["extra"]
