"""Where turns are kept: checked when it is read, filled in when it is used, shown without secrets."""

from __future__ import annotations

from pathlib import Path

import pytest

from streamfold import ConfigError, NotConfiguredError, Provider
from streamfold.config import effective_values, read_config
from tables import each_row

URL = 'base_url = "http://x/v1"\nmodel = "m"\n'


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "streamfold.toml"


def test_a_file_and_a_variable(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The value of a variable is read when the provider is made, and never shown."""
    file.write_text(f'[providers.main]\n{URL}turn_cache = "sqlite:///${{FOLDER}}/turns.db"\n')
    with pytest.raises(NotConfiguredError, match="memory: FOLDER is not set"):
        Provider.from_config("main", config=file)
    monkeypatch.setenv("FOLDER", str(tmp_path))
    provider = Provider.from_config("main", config=file)
    assert provider.turn_cache is not None
    assert repr(provider.turn_cache) == f"<TurnCache <SQLiteStore '{tmp_path}/turns.db'>>"
    assert str(tmp_path) not in repr(provider.profile)


def test_a_password_is_not_shown(file: Path) -> None:
    """Neither in the profile nor by `config show`."""
    where = "valkey://me:geheim@127.0.0.1:6379/0"
    file.write_text(f'[providers.main]\n{URL}turn_cache = "{where}"\n')
    pytest.importorskip("valkey")
    provider = Provider.from_config("main", config=file)
    shown = [value.shown for value in effective_values(read_config(file), "main") if value.key == "turn_cache"]
    assert shown == ['"valkey://***@127.0.0.1:6379/0"']
    assert "geheim" not in f"{provider!r} {provider.profile!r} {provider.turn_cache!r}"


@each_row(
    ("written", "message"),
    [
        ('"sqllite:///x"', "must be memory, sqlite:///PATH or valkey://HOST:PORT (did you mean 'sqlite'?)"),
        ("3", "must be true, false or a store"),
        ('"valkey://"', "must name a server"),
        ('"sqlite:///${"', 'a reference is written "${NAME}"'),
    ],
)
def test_mistakes(file: Path, written: str, message: str) -> None:
    """They name the file, the line and what is allowed."""
    file.write_text(f"[providers.main]\n{URL}turn_cache = {written}\n")
    with pytest.raises(ConfigError) as caught:
        Provider.from_config("main", config=file)
    assert ":4: providers.main.turn_cache: " in str(caught.value)
    assert message in str(caught.value)
