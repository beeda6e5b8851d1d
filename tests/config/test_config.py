"""`streamfold.toml`: where it is found, what counts before what, and what is said of mistakes in it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import traceback
from pathlib import Path

import pytest
import respx

import streamfold
from scale import some
from streamfold import APIStatusError, ConfigError, Provider
from streamfold.config.catalogue import provider_files
from streamfold.config.file import read_config
from streamfold.config.inspection import config_problems, effective_values
from streamfold.config.profile import Profile
from streamfold.config.search_path import search_locations
from streamfold.config.toml_positions import key_lines, line_of, toml_path
from tables import each_row

CANARY = "sk-canary-4711"
MAIN = """\
default = "main"
[providers.main]
profile = "kimi"
model = "kimi-k2.6"
api_key_env = "MY_KEY"
[providers.local]
adapter = "chat"
dialect = "hermes"
base_url = "http://127.0.0.1:8000/v1"
model = "qwen3"
fallback = ["main"]
"""
NAMES = ", ".join(provider_files())


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory and a user's directory of the test's own, and an environment that says nothing."""
    for variable in ("STREAMFOLD_CONFIG", "STREAMFOLD_PROVIDER", "MY_KEY", "MOONSHOT_API_KEY", "UNSET"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("APPDATA" if sys.platform == "win32" else "XDG_CONFIG_HOME", str(tmp_path / "user"))
    (tmp_path / "user" / "streamfold").mkdir(parents=True)
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    return tmp_path


def write(text: str, path: str | Path = "streamfold.toml") -> Path:
    file = Path(path)
    file.write_text(text, "utf-8")
    return file


def model_of(spec: str | None = None, **overrides: object) -> str | None:
    return Provider.from_config(spec, **overrides).profile.model  # type: ignore[arg-type]


# --- where the file is -----------------------------------------------------------------------------------------------


def test_first_file_that_is_there_counts(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The user's directory, the working directory, STREAMFOLD_CONFIG, a path: each counts before those it follows."""

    def table(model: str) -> str:
        return f'[providers.main]\nprofile = "kimi"\nmodel = "{model}"\n'

    with pytest.raises(ConfigError, match="unknown provider 'main'"):
        model_of("main")
    write(table("user"), here / "user" / "streamfold" / "streamfold.toml")
    assert model_of("main") == "user"
    write(table("work"))
    assert model_of("main") == "work"
    monkeypatch.setenv("STREAMFOLD_CONFIG", str(write(table("variable"), here / "variable.toml")))
    assert model_of("main") == "variable"
    assert model_of("main", config=write(table("path"), here / "path.toml")) == "path"


def test_files_are_not_merged(here: Path) -> None:
    """Only one file is read; the next one does not fill it up."""
    write('[providers.other]\nprofile = "kimi"\n', here / "user" / "streamfold" / "streamfold.toml")
    write(MAIN)
    with pytest.raises(ConfigError, match="unknown provider 'other'"):
        Provider.from_config("other")


@pytest.mark.skipif(sys.platform == "win32", reason="the XDG directories")
def test_user_directory_by_its_rules(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """XDG_CONFIG_HOME if it is an absolute path, else ~/.config."""
    monkeypatch.setenv("HOME", str(here))
    assert search_locations()[-1].path == here / "user" / "streamfold" / "streamfold.toml"
    for value in ("", "relative"):
        monkeypatch.setenv("XDG_CONFIG_HOME", value)
        assert search_locations()[-1].path == here / ".config" / "streamfold" / "streamfold.toml"


def test_user_directory_on_windows(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.setenv("APPDATA", str(here / "Roaming"))
    assert search_locations()[-1].path == here / "Roaming" / "streamfold" / "streamfold.toml"


def test_named_file_has_to_be_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that somebody named is never replaced by another one."""
    write(MAIN)
    with pytest.raises(ConfigError, match=r"^config file not found: nope\.toml \(from the path that was passed\)$"):
        Provider.from_config("main", config="nope.toml")
    monkeypatch.setenv("STREAMFOLD_CONFIG", "nope.toml")
    with pytest.raises(ConfigError, match=r"^config file not found: nope\.toml \(from STREAMFOLD_CONFIG\)$"):
        Provider.from_config("kimi")


def test_mapping_is_never_looked_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """A mapping is taken as it is: no file is opened, not even a broken one."""
    write("not TOML")
    monkeypatch.setenv("STREAMFOLD_CONFIG", "nope.toml")
    monkeypatch.setenv("STREAMFOLD_PROVIDER", "nope")
    assert Provider.from_config({"profile": "kimi", "fallback": ["deepseek"]}).profile.fallback == ("deepseek",)
    with pytest.raises(ConfigError, match=r"^config= is only for named providers"):
        Provider.from_config({"profile": "kimi"}, config="streamfold.toml")


# --- which provider, and what counts ---------------------------------------------------------------------------------


def test_names_of_the_file_come_before_the_catalogue() -> None:
    write('[providers.kimi]\nprofile = "openai"\nmodel = "own"\n')
    assert model_of("kimi") == "own"
    assert model_of("kimi:other") == "other"
    assert Provider.from_config("kimi").name == "kimi"
    assert Provider.from_config("deepseek").profile.base_url == "https://api.deepseek.com/v1"


def test_default(monkeypatch: pytest.MonkeyPatch) -> None:
    """STREAMFOLD_PROVIDER counts before the file's default, with a model too; a name that is passed before both."""
    write(MAIN)
    assert Provider.from_config().name == "main"
    monkeypatch.setenv("STREAMFOLD_PROVIDER", "local:other")
    assert (Provider.from_config().name, model_of()) == ("local", "other")
    monkeypatch.setenv("STREAMFOLD_PROVIDER", "openai:gpt-5-mini")
    assert (Provider.from_config().name, model_of()) == ("openai", "gpt-5-mini")
    assert model_of("main") == "kimi-k2.6"
    monkeypatch.setenv("STREAMFOLD_PROVIDER", "  ")
    assert model_of(model="over") == "over"
    write('default = "kimi:a"')
    assert (Provider.from_config().name, model_of()) == ("kimi", "a")


def test_no_default_says_what_to_write(here: Path) -> None:
    user = here / "user" / "streamfold" / "streamfold.toml"
    with pytest.raises(ConfigError) as caught:
        Provider.from_config()
    assert str(caught.value) == (
        f'no provider was named: pass one (commands: -p kimi:kimi-k2.6), write default = "kimi:kimi-k2.6" into'
        f" streamfold.toml or {user}, "
        "or set STREAMFOLD_PROVIDER=kimi:kimi-k2.6"
    )
    write('[providers.main]\nprofile = "kimi"\n')
    with pytest.raises(ConfigError) as caught:
        Provider.from_config()
    assert str(caught.value) == (
        'no provider was named: pass one (commands: -p main), write default = "main" into streamfold.toml, or'
        " set STREAMFOLD_PROVIDER=main"
    )


def test_layers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Overrides count before the file, the file before the catalogue; tables are joined key by key."""
    write("""
        [providers.main]
        profile = "openai"
        model = "file"
        max_retries = 5
        quirks.stream_usage = false
        timeouts = { read = 5, stall = 6 }
        headers.X-One = "1"
        """)
    profile = Provider.from_config("main", max_retries=7, timeouts={"read": 1}, headers={"X-Two": "2"}).profile
    assert profile.quirks == {
        "max_tokens_field": "max_completion_tokens",
        "refusals": True,
        "strict_output": True,
        "allowed_tools": True,
        "stop_max": 4,
        "says_json": True,
        "refused_members": ["top_k"],
        "stream_usage": False,
    }
    assert (profile.max_retries, profile.model, profile.base_url) == (7, "file", "https://api.openai.com/v1")
    assert (profile.timeouts.read, profile.timeouts.stall, profile.timeouts.connect) == (1, 6, 10)
    assert profile.headers == {"X-One": "1", "X-Two": "2"}
    monkeypatch.setenv("MY_KEY", "variable")
    write('[providers.main]\nprofile = "kimi"\napi_key = "file"\n')
    assert Provider.from_config("main").profile.resolve().key == "file"
    assert Provider.from_config("main", api_key_env="MY_KEY").profile.resolve().key == "variable"


def test_another_adapter_leaves_the_quirks_of_the_catalogue() -> None:
    write('[providers.main]\nprofile = "openai"\nadapter = "responses"\n')
    assert Provider.from_config("main").profile.quirks == {}


def test_fallback_is_kept_and_nothing_more() -> None:
    """The names are kept for later; until then the provider works as if it were alone."""
    write(MAIN)
    assert Provider.from_config("local").profile.fallback == ("main",)
    assert Provider.from_config("main", fallback=["openai:x", "kimi"]).profile.fallback == ("openai:x", "kimi")


def test_mistake_elsewhere_stops_nobody() -> None:
    write(MAIN + "[providers.broken]\nbase_urll = 1\n")
    assert Provider.from_config("main").name == "main"
    with pytest.raises(
        ConfigError, match=r"^streamfold\.toml:13: providers\.broken\.base_urll: unknown key \(did you mean 'base_url'"
    ):
        Provider.from_config("broken")


def test_overrides_may_mend_a_table() -> None:
    """What an override replaces need not be right below it; what is wrong with an override is said of the override."""
    write('[providers.main]\nadapter = "chatt"\nmodel = "m"\n')
    overrides = {"adapter": "chat", "base_url": "http://test/v1"}
    assert Provider.from_config("main", **overrides).profile.base_url == "http://test/v1"
    with pytest.raises(ConfigError, match=r"^provider 'main': modell: unknown key \(did you mean 'model'\?\)$"):
        Provider.from_config("main", **overrides, modell="x")
    with pytest.raises(ConfigError, match=r"^provider 'main': fallback\[0\]: unknown provider 'x'"):
        Provider.from_config("main", **overrides, fallback=["x"])
    with pytest.raises(ConfigError, match=r"^provider 'main': base_url: "):
        Provider.from_config("main", adapter="chat", base_url="ftp://x")


# --- references to the environment -----------------------------------------------------------------------------------


@pytest.mark.asyncio
@respx.mock
async def test_references_are_looked_up_when_a_request_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """The file needs no variable to be set; the request does. `$${X}` is a plain `${X}`."""
    write("""
        [providers.main]
        base_url = "${GATEWAY}/v1"
        api_key = "${MY_KEY}"
        model = "${MODEL}-turbo"
        headers = { X-Team = "team ${TEAM}", X-Plain = "$${TEAM}" }
        """)
    provider = Provider.from_config("main", config="streamfold.toml")
    variables = {"MODEL": "m", "GATEWAY": "http://test/", "MY_KEY": "sk-1\n", "TEAM": "red"}
    messages = [
        'provider "main": model: MODEL is not set',
        'provider "main": base_url: GATEWAY is not set',
        'provider "main": api_key: MY_KEY is not set',
        'provider "main": headers.X-Team: TEAM is not set',
    ]
    for message, (variable, value) in zip(messages, variables.items(), strict=True):
        with pytest.raises(ConfigError) as caught:
            provider.chat_stream("Hello")
        assert str(caught.value) == message
        monkeypatch.setenv(variable, value)
    route = respx.post("http://test/v1/chat/completions").respond(
        json={"choices": [{"message": {"content": "Hi"}, "finish_reason": "stop"}]}
    )
    async with provider:
        await provider.chat("Hello")
    sent = route.calls.last.request
    assert (sent.headers["x-team"], sent.headers["x-plain"]) == ("team red", "${TEAM}")
    assert sent.headers["authorization"] == "Bearer sk-1"
    assert json.loads(sent.content)["model"] == "m-turbo"


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"base_url": "${UNFIT}"}, "base_url: with the value of UNFIT, it must begin with http:// or https://"),
        (
            {"base_url": "http://x/v1", "headers": {"X": "${UNFIT}"}},
            "headers.X: contains a character that isn't allowed in a header",
        ),
        (
            {"base_url": "http://x/v1", "api_key_env": "UNFIT"},
            "UNFIT: contains a character that isn't allowed in a header",
        ),
        (
            {"base_url": "http://x/v1", "api_key": "${UNFIT}"},
            "api_key: contains a character that isn't allowed in a header",
        ),
    ],
)
def test_value_that_can_not_be_sent(values: dict[str, object], message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names the variable and never the value; the HTTP library would quote it."""
    monkeypatch.setenv("UNFIT", f"{CANARY}\nx")
    with pytest.raises(ConfigError) as caught:
        Provider.from_config({**values, "model": "m"}).chat_stream("Hello")
    assert str(caught.value) == f'provider "custom": {message}'


# --- mistakes --------------------------------------------------------------------------------------------------------

PROVIDER = "[providers.a]\n"
URL = 'base_url = "http://x/v1"\n'


@each_row(
    ("text", "message"),
    [
        ("a = = 1", ":1: not TOML: Invalid value in column 5"),
        ('\n[providers.a]\nmodel = "x\n', ":3: not TOML: Illegal character"),
        ("zzz = 1", ":1: zzz: unknown key. Allowed: default, families, providers, rate_limits, gateway"),
        (
            '\n[provider.a]\nprofile = "kimi"',
            (
                ":2: provider: unknown key (did you mean 'providers'?). Allowed: default, families, providers,"
                " rate_limits, gateway"
            ),
        ),
        (
            '[a]\nprofile = "kimi"',
            (
                ":1: a: unknown key. Allowed: default, families, providers, rate_limits, gateway."
                " A provider is written as [providers.a]"
            ),
        ),
        ("default = 1", ":1: default: must be a string"),
        ("providers = 1", ":1: providers: must be a table"),
        ('[providers]\na = "kimi"', ":2: providers.a: must be a table"),
        (
            '[providers."a:b"]\nprofile = "kimi"',
            (
                ':1: providers."a:b": the name of a provider must not contain spaces or colons: a colon separates'
                " the name from a model"
            ),
        ),
        (
            PROVIDER + URL + 'modell = "x"',
            ":3: providers.a.modell: unknown key (did you mean 'model'?)",
        ),
        (
            PROVIDER + 'profile = "kimmi"',
            ":2: providers.a.profile: unknown profile 'kimmi' (did you mean 'kimi'?)",
        ),
        (
            PROVIDER + 'model = "m"',
            ":1: providers.a.base_url: " + Profile.required["base_url"],
        ),
        (PROVIDER + 'base_url = "x/v1"', ":2: providers.a.base_url: must begin with http:// or https://"),
        (
            PROVIDER + 'base_url = "http://${HOST/v1"',
            ':2: providers.a.base_url: a reference is written "${NAME}", with letters, digits and _',
        ),
        (PROVIDER + URL + "model = 5", ":3: providers.a.model: must be a string"),
        (PROVIDER + URL + 'max_retries = "2"', ":3: providers.a.max_retries: must be a whole number"),
        (PROVIDER + URL + "max_retries = 2.5", ":3: providers.a.max_retries: must be a whole number"),
        (PROVIDER + URL + "max_retries = -1", ":3: providers.a.max_retries: must not be less than 0"),
        (
            PROVIDER + URL + 'transport = "httpxx"',
            (
                ":3: providers.a.transport: can't be 'httpxx' (did you mean 'httpx'?). Allowed: httpx, aiohttp, httpx2,"
                " websocket"
            ),
        ),
        (
            PROVIDER + URL + 'adapter = "chatt"',
            (
                ":3: providers.a.adapter: unknown adapter 'chatt' (did you mean 'chat'?)."
                " Allowed: anthropic, chat, gemini, interactions, kimi, responses"
            ),
        ),
        (
            PROVIDER + URL + 'dialect = "hermess"',
            ":3: providers.a.dialect: unknown dialect 'hermess' (did you mean 'hermes'?). Allowed: cohere, deepseek,",
        ),
        (
            PROVIDER + URL + "[providers.a.timeouts]\n# why\nraed = 5",
            (
                ":5: providers.a.timeouts.raed: unknown key (did you mean 'read'?). Allowed: connect, first_event, "
                "read, stall, total"
            ),
        ),
        (PROVIDER + URL + 'timeouts.read = "5"', ":3: providers.a.timeouts.read: must be a number"),
        (PROVIDER + URL + "timeouts = 5", ":3: providers.a.timeouts: must be a table"),
        (
            PROVIDER + URL + "limits = { event_bytes = 1, events = 2 }",
            ":3: providers.a.limits.events: unknown key (did you mean 'event_bytes'?)",
        ),
        (
            PROVIDER + URL + "quirks.max_token_field = 1",
            ":3: providers.a.quirks.max_token_field: unknown key (did you mean 'max_tokens_field'?)",
        ),
        (PROVIDER + URL + 'quirks = { stream_usage = "x" }', ":3: providers.a.quirks.stream_usage: must be true or "),
        (
            PROVIDER + URL + "[providers.a.headers]\nX-One = 1",
            ":4: providers.a.headers.X-One: must be a string",
        ),
        (PROVIDER + URL + "api_key_env = [\n  1,\n]", ":4: providers.a.api_key_env[0]: must be a string"),
        (
            PROVIDER + URL + 'api_key_env = "gsk_abcdefghijkl0123456789"',
            ":3: providers.a.api_key_env: must be the name of an environment variable, not the key itself",
        ),
        (
            PROVIDER + URL + 'fallback = [\n  "kimi",\n  "kimmi",\n]',
            (":5: providers.a.fallback[1]: unknown provider 'kimmi' (did you mean 'kimi'?)"),
        ),
        (PROVIDER + URL + 'fallback = ["a:m"]', ":3: providers.a.fallback[0]: the fallbacks form a cycle: a -> a"),
        (
            PROVIDER + URL + 'fallback = ["b"]\n[providers.b]\nfallback = ["c"]\n[providers.c]\nfallback = ["b"]',
            ":7: providers.c.fallback[0]: the fallbacks form a cycle: a -> b -> c -> b",
        ),
    ],
)
def test_mistakes_name_line_and_key(text: str, message: str) -> None:
    """File, line, key, what is allowed, and what was probably meant."""
    write(text)
    with pytest.raises(ConfigError) as caught:
        Provider.from_config("a")
    assert str(caught.value).startswith(f"streamfold.toml{message}")
    assert message.endswith((" ", ",", "character")) or str(caught.value) == f"streamfold.toml{message}"


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b'default = "\xff"', "streamfold.toml: not TOML: the text is not UTF-8"),
        (b"a = " + b"[" * 50_000, "streamfold.toml: not TOML: nested too deeply"),
    ],
)
def test_bytes_that_are_no_toml(data: bytes, message: str) -> None:
    Path("streamfold.toml").write_bytes(data)
    with pytest.raises(ConfigError) as caught:
        Provider.from_config("main")
    assert str(caught.value) == message


def test_file_of_an_editor_on_windows() -> None:
    """A byte-order mark and CRLF are read, and lines are counted rightly."""
    Path("streamfold.toml").write_bytes(b"\xef\xbb\xbf" + MAIN.replace("\n", "\r\n").encode() + b'x = "y"\r\n')
    assert Provider.from_config("main").name == "main"
    with pytest.raises(ConfigError, match=r"^streamfold\.toml:12: providers\.local\.x: unknown key"):
        Provider.from_config("local")


ANYTHING = ["5", "1.5", "true", '"x"', "[[1]]", "[]", '"${UNSET}"', "{ a = { b = 1 } }", "1979-05-27"]


@each_row("value", some(ANYTHING, 2))
def test_any_value_anywhere_is_a_plain_mistake(value: str) -> None:
    """Whatever stands where, it is a ConfigError with a line, or it fits."""
    for key in read_keys():
        for text in (f"[providers.a]\n{URL}{key} = {value}", f"[providers.a]\n{key}.x = {value}", f"{key} = {value}"):
            write(text.replace(URL, "") if key == "base_url" else text)
            config_problems(read_config())
            said = "streamfold.toml:"
            try:
                effective_values(read_config(), "a")
            except ConfigError as error:
                said = str(error)
            assert said.startswith(("streamfold.toml:", "unknown provider 'a'"))


def read_keys() -> list[str]:
    """What a provider of the file may have, and the keys of the file."""
    write(PROVIDER + URL + "zzz = 1")
    with pytest.raises(ConfigError) as caught:
        Provider.from_config("a")
    return [*str(caught.value).partition("Allowed: ")[2].split(", "), "default", "providers"]


def test_unknown_names_say_who_wrote_them(monkeypatch: pytest.MonkeyPatch) -> None:
    write(MAIN.replace('"main"', '"mian"', 1))
    known = "unknown provider 'mian' (did you mean 'main'?)"
    for message in (known, f"streamfold.toml:1: default: {known}", f"STREAMFOLD_PROVIDER: {known}"):
        with pytest.raises(ConfigError) as caught:
            Provider.from_config("mian" if message == known else None)
        assert str(caught.value) == message
        if message != known:
            monkeypatch.setenv("STREAMFOLD_PROVIDER", "mian")


def test_all_problems_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """`problems` finds everything, also what is not set, in the order of the file."""
    write("""\
default = "mian"
[providers.main]
profile = "kimi"
api_key_env = ["MY_KEY", "UNSET"]
headers.X-Team = "${UNSET}"
[providers.local]
base_url = "${UNSET}/v1"
[providers.other]
adapter = "chatt"
max_retries = "2"
base_urll = "x"
fallback = ["none"]
""")
    monkeypatch.setenv("STREAMFOLD_PROVIDER", "nobody")
    found = config_problems(read_config())
    assert [line[: line.index(": ", line.index(": ") + 2)] for line in found[:-1]] == [
        "streamfold.toml:1: default",
        "streamfold.toml:4: providers.main.api_key_env",
        "streamfold.toml:5: providers.main.headers.X-Team",
        "streamfold.toml:7: providers.local.base_url",
        "streamfold.toml:9: providers.other.adapter",
        "streamfold.toml:10: providers.other.max_retries",
        "streamfold.toml:11: providers.other.base_urll",
        "streamfold.toml:12: providers.other.fallback[0]",
    ]
    assert found[1].endswith("no API key: set MY_KEY or UNSET")
    assert found[2].endswith("UNSET is not set")
    assert found[-1].startswith("STREAMFOLD_PROVIDER: unknown provider 'nobody'")
    write(MAIN)
    monkeypatch.setenv("MY_KEY", "x")
    monkeypatch.delenv("STREAMFOLD_PROVIDER")
    assert config_problems(read_config()) == []


# --- lines -----------------------------------------------------------------------------------------------------------


def test_lines_of_keys() -> None:
    """Tables, dotted and quoted keys, inline tables, lists, and texts that look like something else."""
    text = '''\
# [no.table]
title = "a # b [c]"
text = """
[not.a.table] \\"""
key = 1 """"
raw = \'\'\'
'x' = 1\'\'\'

[a."b.c".'d']   # comment
e.f = { g = 1, "h\\u0041" = [ { i = 2 },
  { i = 3 }, 1979-05-27 07:32:00,
] }
[[many]]
x = 1
[[many]]
[many.in]
y = 1
[[many.in.list]]
z = 1
[a]
last = true'''
    lines = key_lines(text)
    deep = ("a", "b.c", "d", "e", "f")
    expected = {
        ("title",): 2,
        ("text",): 3,
        ("raw",): 6,
        ("a", "b.c", "d"): 9,
        (*deep, "g"): 10,
        (*deep, "hA", 0, "i"): 10,
        (*deep, "hA", 1, "i"): 11,
        (*deep, "hA", 2): 11,
        ("many", 0): 13,
        ("many", 0, "x"): 14,
        ("many", 1): 15,
        ("many", 1, "in", "y"): 17,
        ("many", 1, "in", "list", 0, "z"): 19,
        ("a",): 20,
        ("a", "last"): 21,
    }
    assert {path: lines.get(path) for path in expected} == expected
    assert not [path for path in lines if "no" in path or "not" in path or "x" in path[:1]]
    assert line_of(lines, ("a", "missing", 0)) == 20
    assert line_of(lines, ("nowhere",)) is None
    assert toml_path((*deep, "hA", 0)) == 'a."b.c".d.e.f.hA[0]'


def test_lines_of_the_catalogue() -> None:
    """Every key of every file has a line."""
    for path in provider_files().values():
        lines = key_lines(path.read_text("utf-8"))
        assert ("base_url",) in lines, path


# --- sources and secrets ---------------------------------------------------------------------------------------------


def test_every_value_has_its_source(monkeypatch: pytest.MonkeyPatch) -> None:
    write(MAIN.replace('model = "kimi-k2.6"', 'timeouts.read = 5\nbase_url = "${GATEWAY}/v1"'))
    monkeypatch.setenv("GATEWAY", "http://canary")
    monkeypatch.setenv("MY_KEY", CANARY)
    found = {value.key: (value.shown, value.source) for value in effective_values(read_config(), "main:other")}
    assert found["adapter"] == ('"kimi"', "catalogue kimi.toml:2")
    assert found["base_url"] == ('"${GATEWAY}/v1", set (GATEWAY)', "streamfold.toml:5")
    assert found["api_key"] == ("set (MY_KEY)", "streamfold.toml:6")
    assert found["model"] == ('"other"', "the requested name")
    assert found["timeouts.read"] == ("5.0", "streamfold.toml:4")
    assert found["timeouts.stall"] == ("300.0", "default of streamfold")
    assert "untrusted_file" not in found, "no setting"
    monkeypatch.delenv("GATEWAY")
    monkeypatch.delenv("MY_KEY")
    found = {value.key: (value.shown, value.source) for value in effective_values(read_config(), "main")}
    assert found["base_url"][0] == '"${GATEWAY}/v1", not set (GATEWAY)'
    assert found["api_key"][0] == "not set (MY_KEY)"
    found = {value.key: (value.shown, value.source) for value in effective_values(read_config(), "openai")}
    assert found["quirks.max_tokens_field"] == ('"max_completion_tokens"', "catalogue openai.toml:13")


SECRETS = f"""\
[providers.main]
base_url = "http://user:{CANARY}@test/v1?key={CANARY}"
api_key = "{CANARY}"
model = "m"
headers = {{ X-Own = "{CANARY}", Authorization = "Bearer ${{MY_KEY}}" }}
"""


@pytest.mark.parametrize(
    "mistake",
    [
        "",
        "modell = 1",
        'adapter = "chatt"',
        "model",
        "max_retries = -1",
        'quirks.stream_usage = "x"',
        f'timeouts.read = "{CANARY}"',
        f'headers.X = "${{{CANARY}"',
        f'api_key_env = "{CANARY}"',
        f'api_key_env = ["{CANARY}"]',
        f'max_retries = "{CANARY}"',
        f'quirks.stream_usage = "{CANARY}"',
        f'base_url2 = "{CANARY}',
        f'fallback = [["{CANARY}"]]',
    ],
)
def test_secrets_are_nowhere(mistake: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A secret is in no error, repr, traceback or list of values, whatever else is wrong with the file."""
    monkeypatch.setenv("MY_KEY", CANARY)
    write(SECRETS + mistake)
    said = []
    try:
        config = read_config()
        said += [repr(config), *config_problems(config)]
        said += map(repr, effective_values(config, "main"))
        provider = Provider.from_config("main")
        said += [repr(provider), repr(provider.profile), str(provider.profile), repr(provider.chat_stream("Hello"))]
    except ConfigError as error:
        said += [str(error), repr(error), "".join(traceback.format_exception(error))]
    assert said
    assert not [text for text in said if CANARY in text]


@pytest.mark.asyncio
@respx.mock
async def test_echoed_values_are_taken_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """What came from a variable, or stands in a header for secrets, is a secret also when the server sends it back."""
    monkeypatch.setenv("TEAM", "canary-team")
    monkeypatch.setenv("GATEWAY", "http://canary-host")
    write("""\
[providers.main]
base_url = "${GATEWAY}/v1"
model = "m"
headers = { X-Team = "${TEAM}", X-Api-Key = "Bearer canary-key" }
""")
    echo = {"error": {"message": "no canary-team with canary-key at http://canary-host"}}
    respx.post("http://canary-host/v1/chat/completions").respond(400, json=echo)
    async with Provider.from_config("main", config="streamfold.toml") as provider:
        with pytest.raises(APIStatusError) as caught:
            await provider.chat("Hello")
    assert "canary" not in str(caught.value)
    assert "canary" not in repr(caught.value.body)
    assert "no *** with *** at ***" in str(caught.value)


@pytest.mark.slow
def test_import_opens_no_file() -> None:
    """The file is read when a provider is made; it may be broken before that."""
    write("not TOML")
    code = "import streamfold.client.provider, streamfold.config.file, streamfold.cli.app"
    path = str(Path(streamfold.__file__).parents[1])
    subprocess.run([sys.executable, "-c", code], check=True, env={**os.environ, "PYTHONPATH": path})


def test_http2_in_a_file(tmp_path: Path) -> None:
    """`http2 = true` reaches the client."""
    path = tmp_path / "streamfold.toml"
    path.write_text('[providers.a]\nbase_url = "https://a.test/v1"\nmodel = "m"\nhttp2 = true\n', "utf-8")
    assert Provider.from_config("a", config=path).profile.http2
    path.write_text('[providers.a]\nbase_url = "https://a.test/v1"\nmodel = "m"\nhttp2 = "yes"\n', "utf-8")
    with pytest.raises(ConfigError, match=r":4: providers\.a\.http2: must be true or false"):
        Provider.from_config("a", config=path)
