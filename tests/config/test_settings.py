"""Single settings: default options, timeouts, limits, URLs, facts about models, fallbacks, and whose file is read."""

from __future__ import annotations

import json
import os
import sys
import time
from dataclasses import fields
from pathlib import Path
from typing import Any, get_type_hints

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamfold import APIError, ConfigError, Limits, Provider, Timeouts
from streamfold.config import (
    Profile,
    ProviderConfig,
    config_problems,
    load_profiles,
    read_config,
    read_profile,
    timeouts_over,
)
from streamfold.requests import Options, TimeoutOptions
from tables import each_row

URL = "http://test/v1"
BASE = {"base_url": URL, "model": "m", "max_retries": 0}


@pytest.fixture(autouse=True)
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory of the test's own, and no file elsewhere."""
    for variable in ("STREAMFOLD_CONFIG", "STREAMFOLD_PROVIDER"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("APPDATA" if sys.platform == "win32" else "XDG_CONFIG_HOME", str(tmp_path / "user"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def body_of(config: Any, messages: str = "Hi", overrides: Any = None, **options: Any) -> dict[str, Any]:
    """The body that would be sent."""
    preview = Provider.from_config(config, **(overrides or {})).preview(messages, **options)
    body: dict[str, Any] = json.loads(preview.body)
    return body


# --- default options -------------------------------------------------------------------------------------------------


def test_one_answer_may_be_requested() -> None:
    """Programs that pass every option of OpenAI's client pass n too, with its default."""
    for value in (None, 1):
        assert Options.read({"n": value, "temperature": 0.5}) == Options(temperature=0.5)


def test_false_is_no_default(alone: Path) -> None:
    """A request can turn off what the default options turn on."""
    tool = {"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {}}}}
    settings = {"api_key": "k", "model": "kimi-k2.6", "options": {"disable_thinking_for_forced_tools": True}}
    sent = []
    for option in (None, True, False):
        given: Any = {"tools": [tool], "tool_choice": "required", "disable_thinking_for_forced_tools": option}
        body = body_of("kimi", overrides=settings, **given)
        sent.append((body.get("thinking"), body.get("tool_choice")))
    assert sent == [({"type": "disabled"}, "required"), ({"type": "disabled"}, "required"), (None, "auto")]


def test_default_options_in_every_place(alone: Path) -> None:
    """`options` and `extra_body` mean the same in the file, in a mapping and as keywords; a request wins."""
    defaults: Any = {"options": {"temperature": 0.2, "seed": 7}, "extra_body": {"top_k": 40}}
    (alone / "streamfold.toml").write_text(
        f'[providers.main]\nbase_url = "{URL}"\nmodel = "m"\noptions = {{ temperature = 0.2, seed = 7 }}\n'
        "extra_body.top_k = 40\n",
        "utf-8",
    )
    bodies = [body_of("main"), body_of({**BASE, **defaults}), body_of(BASE, overrides=defaults)]
    assert bodies == [bodies[0]] * 3
    assert {key: bodies[0][key] for key in ("temperature", "seed", "top_k")} == {
        "temperature": 0.2,
        "seed": 7,
        "top_k": 40,
    }
    asked = body_of("main", temperature=0.9, seed=None, extra_body={"min_p": 0.1})
    assert {key: asked[key] for key in ("temperature", "seed", "top_k", "min_p")} == {
        "temperature": 0.9,
        "seed": 7,
        "top_k": 40,
        "min_p": 0.1,
    }


def test_default_options_are_merged_key_by_key(alone: Path) -> None:
    """Options of a lower layer stay where the one above does not name them; so do the members of `extra_body`."""
    (alone / "streamfold.toml").write_text(
        f'[providers.main]\nbase_url = "{URL}"\nmodel = "m"\noptions = {{ temperature = 0.2, seed = 7 }}\n', "utf-8"
    )
    body = body_of("main", overrides={"options": {"seed": 8, "extra_body": {"a": 1}}, "extra_body": {"a": 0, "b": 2}})
    assert (body["temperature"], body["seed"], body["a"], body["b"]) == (0.2, 8, 1, 2)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"temprature": 1}, "options.temprature: unknown option 'temprature'"),
        ({"temperature": "hot"}, "options.temperature: temperature must be a number"),
        ({"n": 2}, "options.n: n must be 1"),
        ({"model": "x"}, "options.model: unknown option 'model'"),
        (5, "options: must be a table"),
    ],
)
def test_mistakes_in_default_options(options: Any, message: str, alone: Path) -> None:
    """They are found when the provider is made, with the line of the option."""
    with pytest.raises(ConfigError) as caught:
        Provider.from_config({**BASE, "options": options})
    assert str(caught.value).startswith(f"provider 'custom': {message}")
    if isinstance(options, dict):
        ((name, value),) = options.items()
        text = f"[providers.a]\nbase_url = '{URL}'\n[providers.a.options]\n\n{name} = {json.dumps(value)}\n"
        (alone / "streamfold.toml").write_text(text, "utf-8")
        with pytest.raises(ConfigError, match=rf"^streamfold\.toml:5: providers\.a\.options\.{name}: "):
            Provider.from_config("a")


# --- timeouts and limits ---------------------------------------------------------------------------------------------


@each_row("value", [0, 0.0, -1, -0.5, float("nan"), float("-inf"), True, "5"])
@each_row("name", [field.name for field in fields(Timeouts)])
def test_timeouts_are_positive_numbers(name: str, value: Any) -> None:
    """A timeout that could never be kept is refused, in the configuration and for one request."""
    with pytest.raises(ConfigError, match=rf"timeouts\.{name}: must be "):
        Provider.from_config({**BASE, "timeouts": {name: value}})
    with pytest.raises(ConfigError, match=rf"^timeouts\.{name}: must be "):
        timeouts_over(Timeouts(), {name: value})
    with pytest.raises(ConfigError, match=rf"timeouts\.{name}: must be "):
        Provider.from_config({**BASE, "timeouts": Timeouts(**{name: value})})


def test_inf_switches_a_timeout_off(alone: Path) -> None:
    """TOML has no null: `inf` is no limit, as None is in Python."""
    (alone / "streamfold.toml").write_text("[providers.a]\nbase_url = 'http://x/v1'\ntimeouts.stall = inf\n", "utf-8")
    assert load_profiles("a")[0].timeouts == Timeouts(stall=None)
    assert timeouts_over(Timeouts(), {"read": None}) == Timeouts(read=None)


@each_row("value", [0, -1, 1.5, float("nan"), "5", True])
@each_row("name", [field.name for field in fields(Limits)])
def test_limits_are_positive_whole_numbers(name: str, value: Any) -> None:
    with pytest.raises(ConfigError, match=rf"limits\.{name}: must be "):
        Provider.from_config({**BASE, "limits": {name: value}})


@given(st.dictionaries(st.sampled_from([*Profile.model_fields, "zzz"]), st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=5), inner, max_size=2), max_leaves=4,
), max_size=4))  # fmt: skip
def test_any_mapping_is_a_profile_or_a_config_error(mapping: dict[str, Any]) -> None:
    """Whatever is passed, nothing but ConfigError comes out."""
    try:
        profile = read_profile({"base_url": URL, **mapping})
    except ConfigError:
        return
    assert profile.make_adapter("m")


# --- URLs ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("http://x/v1#f", "must not have a fragment (#...), which is never sent"),
        ("http://x:99999/v1", "must have a port between 0 and 65535"),
        ("http://x:port/v1", "must have a port between 0 and 65535"),
        ("http://xn--zzzzzz99999/v1", "must have a valid host"),
        (f"http://{'a' * 64}.example/v1", "must have a valid host"),
        ("http:///v1", "must have a valid host"),
        ("http://[::1/v1", "must have a valid host"),
        ("http://a b/v1", "must not contain spaces or control characters"),
        ("ftp://x/v1", "must begin with http:// or https://"),
    ],
)
def test_base_urls_that_can_not_be_asked(url: str, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are refused when the provider is made; with a variable in them, when a request is made."""
    with pytest.raises(ConfigError) as caught:
        Provider.from_config({**BASE, "base_url": url})
    assert str(caught.value) == f"provider 'custom': base_url: {message}"
    monkeypatch.setenv("SOMEWHERE", url)
    with pytest.raises(ConfigError) as caught:
        read_profile({**BASE, "base_url": "${SOMEWHERE}"}).resolve().urls()
    assert str(caught.value) == f'provider "custom": base_url: with the value of SOMEWHERE, it {message}'


WAYS = ["keyword", "file", "variable", "variable in a file"]


def provider_at(url: str, way: str, folder: Path, monkeypatch: pytest.MonkeyPatch, **keys: str) -> Provider:
    """A provider for a base URL that is given in one of these ways."""
    monkeypatch.setenv("SOMEWHERE", url)
    given = "${SOMEWHERE}" if "variable" in way else url
    if "file" not in way:
        return Provider.from_config({"model": "m"}, base_url=given, **keys)
    table = {"base_url": given, "model": "m", **keys}
    lines = ["[providers.custom]", *(f"{key} = {json.dumps(value)}" for key, value in table.items())]
    (folder / "streamfold.toml").write_text("\n".join(lines))
    return Provider.from_config("custom", config=folder / "streamfold.toml")


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("url", ["HTTP://x/v1", " http://x/v1", "Http://x/v1/ ", "\thttp://x/v1\n"])
def test_base_urls_as_people_type_them(url: str, way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Blanks around a URL and capitals in its scheme don't matter, wherever it comes from."""
    provider = provider_at(url, way, tmp_path, monkeypatch)
    assert provider.profile.resolve().urls("/chat/completions").sent == "http://x/v1/chat/completions"


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("url", ["https://user:canary-word@x/v1", "HTTPS://canary-word@x/v1"])
async def test_a_user_name_beside_a_key(url: str, way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One of them would replace the other. Without a key it may be there."""
    with pytest.raises(ConfigError) as caught:
        await provider_at(url, way, tmp_path, monkeypatch, api_key="key-1").chat("Hello")
    assert "base_url contains a user name, which would replace the API key: remove the user name or the API key" in str(
        caught.value
    )
    assert "canary-word" not in f"{caught.value} {caught.value!r}"
    assert provider_at(url, way, tmp_path, monkeypatch).profile.resolve().key_headers == {}


@pytest.mark.parametrize("url", ["http://bücher.example/v1", "http://[::1]:8000/v1", "https://x/v1?api-version=1"])
def test_base_urls_that_can(url: str) -> None:
    assert read_profile({"base_url": url}).resolve().base_url == url


# --- facts about models ----------------------------------------------------------------------------------------------


def test_quirks_by_model() -> None:
    """A table of `models` has quirks for the models that it fits; the adapter of a request has those of its model."""
    config = {**BASE, "models": [{"pattern": "new*", "quirks": {"max_tokens_field": "max_completion_tokens"}}]}
    assert body_of(config, max_output_tokens=5)["max_tokens"] == 5
    assert body_of(config, model="new-1", max_output_tokens=5)["max_completion_tokens"] == 5


def test_quirks_of_a_table_win_over_those_of_models_below() -> None:
    """Whoever writes a quirk beside the model knows which model is used."""
    gemini = read_profile({"profile": "gemini", "quirks": {"signatures": "required"}})
    assert gemini.quirks_of("gemini-2.5-pro")["signatures"] == "required"
    assert read_profile("gemini").quirks_of("gemini-2.5-pro")["signatures"] == "optional"


@each_row("spec", ["kimi", "kimi-cn", "kimi-vllm", {"adapter": "chat", "base_url": URL}])
def test_facts_of_a_family_hold_at_every_endpoint(spec: Any) -> None:
    """What is known of Kimi's models is known whoever serves them, also at an endpoint that the catalogue lacks."""
    profile = read_profile(spec)
    assert profile.family_of("moonshotai/Kimi-K2-Instruct").thinking == "never"
    assert profile.family_of("kimi-k3").efforts == ("low", "high", "max")
    assert profile.family_of("kimi-latest").thinking == "default"


def test_limits_of_models() -> None:
    """The most tokens of an answer and of a context are facts about a model; later tables win, key by key."""
    tables = [
        {"pattern": "*", "context_tokens": 100, "max_output_tokens": 10},
        {"pattern": "b*", "context_tokens": 200},
    ]
    facts = read_profile({**BASE, "models": tables}).family_of("big")
    assert (facts.context_tokens, facts.max_output_tokens) == (200, 10)


def test_mistakes_in_quirks_of_models(alone: Path) -> None:
    """They have their line, and no quirk of another adapter is one."""
    text = (
        f"[providers.a]\nbase_url = '{URL}'\n[[providers.a.models]]\npattern = 'x'\nquirks = {{ thinkin = 'never' }}\n"
    )
    (alone / "streamfold.toml").write_text(text, "utf-8")
    with pytest.raises(ConfigError, match=r"^streamfold\.toml:5: providers\.a\.models\[0\]\.quirks\.thinkin: unknown"):
        Provider.from_config("a")
    assert read_profile({"profile": "gemini", "adapter": "chat"}).quirks_of("gemini-2.5-pro") == {}


# --- types -----------------------------------------------------------------------------------------------------------


def test_types_of_settings_have_every_key() -> None:
    """A type checker knows the keys that validation knows."""

    def keys(kind: Any) -> set[str]:
        return set(kind.__annotations__)

    assert keys(ProviderConfig) == set(Profile.model_fields) - {
        "profile",
        "docs",
        "checked",
        "evidence",
        "other_api",
        "turn_cache",  # an argument
        "untrusted_file",
    }
    assert keys(TimeoutOptions) == {field.name for field in fields(Timeouts)}
    assert get_type_hints(Options)


# --- fallbacks -------------------------------------------------------------------------------------------------------


def web(layers: int) -> str:
    """Providers in layers of two, each of which falls back on both of the next layer."""
    text = ""
    for layer in range(layers):
        for name in "pq":
            text += f"[providers.{name}{layer}]\nbase_url = '{URL}'\nmodel = 'm'\nmax_retries = 0\n"
            if layer < layers - 1:
                text += f"fallback = ['p{layer + 1}', 'q{layer + 1}']\n"
    return text


async def test_a_web_of_fallbacks_asks_each_provider_once(alone: Path) -> None:
    """Fallbacks that share fallbacks are not multiplied: thirteen providers, thirteen requests."""
    (alone / "streamfold.toml").write_text(web(7), "utf-8")
    asked = []

    def refuse(request: httpx.Request) -> httpx.Response:
        asked.append(request.url)
        return httpx.Response(503)

    async with httpx.AsyncClient(transport=httpx.MockTransport(refuse)) as client:
        provider = Provider.from_config("p0", http_client=client)
        with pytest.raises(APIError):
            await provider.chat("Hello")
    assert len(asked) == 13
    assert [profile.name for profile in load_profiles("p5")] == ["p5", "p6", "q6"]


def test_fallbacks_of_fallbacks_are_asked_depth_first(alone: Path) -> None:
    """A provider that is reached twice keeps its first place."""
    tables = {"a": ["b", "d"], "b": ["c"], "c": ["d"], "d": []}
    text = "".join(f"[providers.{name}]\nbase_url = '{URL}'\nfallback = {rest}\n" for name, rest in tables.items())
    (alone / "streamfold.toml").write_text(text, "utf-8")
    assert [profile.name for profile in load_profiles("a")] == ["a", "b", "c", "d"]


def test_cost_grows_with_the_file_and_not_faster(alone: Path) -> None:
    """Four times as many providers, in one chain, take at most about four times as long to read and to check."""

    def seconds(count: int) -> float:
        text = "".join(f"[providers.p{i}]\nbase_url='{URL}'\nfallback=['p{i + 1}']\n" for i in range(count))
        (alone / "streamfold.toml").write_text(f"{text}[providers.p{count}]\nbase_url='{URL}'\n", "utf-8")
        began = time.process_time()
        config = read_config()
        assert config_problems(config) == []
        assert len(config.profiles("p0")) == count + 1
        return time.process_time() - began

    once = min(seconds(250) for _ in range(3))
    assert seconds(1000) < 12 * once


# --- whose file it is ------------------------------------------------------------------------------------------------

FILE = f"[providers.main]\nbase_url = '{URL}'\nmodel = 'm'\n"
posix = pytest.mark.skipif(sys.platform == "win32", reason="owners and modes of files are those of POSIX")


@posix
@pytest.mark.parametrize("mode", [0o666, 0o664, 0o646, 0o622])
def test_a_file_that_others_may_write_is_not_used(alone: Path, mode: int) -> None:
    """In the working directory it is an error that says how to mend it, or how to name the file."""
    path = alone / "streamfold.toml"
    path.write_text(FILE, "utf-8")
    path.chmod(mode)
    with pytest.raises(ConfigError) as caught:
        Provider.from_config("main")
    assert str(caught.value) == (
        f"streamfold.toml in the working directory is not used: other users may write it (mode {mode:o};"
        f" `chmod go-w streamfold.toml` forbids it). If you trust this file, set STREAMFOLD_CONFIG={path}"
    )
    path.chmod(0o644)
    assert Provider.from_config("main").name == "main"


@posix
def test_a_stranger_s_file_is_not_used(alone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file of another user would decide where keys are sent; the user's own and root's are used."""
    path = alone / "streamfold.toml"
    path.write_text(FILE, "utf-8")
    owner = path.stat().st_uid
    for user, used in ((owner, True), (owner + 1, owner == 0)):
        monkeypatch.setattr(os, "getuid", lambda user=user: user)
        if used:
            assert Provider.from_config("main").name == "main"
        else:
            with pytest.raises(ConfigError, match=rf"not used: the file belongs to another user \(uid {owner}\)"):
                Provider.from_config("main")


@posix
def test_a_stranger_s_file_is_not_used_by_root(alone: Path) -> None:
    """Not even for root, who could be told to run something in /tmp."""
    path = alone / "streamfold.toml"
    path.write_text(FILE, "utf-8")
    try:
        os.chown(path, 65534, 65534)
    except PermissionError:
        pytest.skip("only root can give a file away")
    with pytest.raises(ConfigError, match=r"not used: the file belongs to another user \(uid 65534\)"):
        Provider.from_config("kimi")


@posix
def test_a_file_that_is_named_is_used_whoever_owns_it(alone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Naming a file, as an argument or by STREAMFOLD_CONFIG, says that it is trusted."""
    path = alone / "streamfold.toml"
    path.write_text(FILE, "utf-8")
    path.chmod(0o666)
    assert Provider.from_config("main", config="streamfold.toml").name == "main"
    monkeypatch.setenv("STREAMFOLD_CONFIG", "streamfold.toml")
    assert Provider.from_config("main").name == "main"


# --- other packages --------------------------------------------------------------------------------------------------


@pytest.fixture
def broken_package(alone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An installed package whose adapter and dialect raise when they are imported."""
    metadata = alone / "broken-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 1.0\n", "utf-8")
    entries = "[streamfold.adapters]\nbroken = brokenmod:A\n[streamfold.dialects]\nbroken = brokenmod:D\n"
    (metadata / "entry_points.txt").write_text(entries, "utf-8")
    (alone / "brokenmod.py").write_text("raise RuntimeError('at import')\n", "utf-8")
    monkeypatch.syspath_prepend(str(alone))


@pytest.mark.usefixtures("broken_package")
@pytest.mark.parametrize("key", ["adapter", "dialect"])
def test_a_broken_package_is_a_config_error(key: str) -> None:
    """An adapter or a dialect that raises when it is imported is named, with its error."""
    with pytest.raises(ConfigError, match=rf"^provider 'custom': {key}: {key} 'broken' .*RuntimeError\('at import'\)"):
        Provider.from_config({**BASE, key: "broken"})


def test_a_number_of_thousands_of_digits(alone: Path) -> None:
    """Python refuses to read it; that is a mistake in the file, not an exception from inside."""
    (alone / "streamfold.toml").write_text(f"{FILE}max_retries = {'9' * 5000}\n", "utf-8")
    with pytest.raises(ConfigError, match=r"^streamfold\.toml: not TOML: "):
        Provider.from_config("main")
