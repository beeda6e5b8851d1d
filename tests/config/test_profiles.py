"""The catalogue, and what a caller puts on top of it."""

from __future__ import annotations

import httpx
import pytest

from streamfold import AuthenticationError, ConfigError, Provider
from streamfold.config.file import read_profile
from streamfold.config.inspection import describe_key
from tables import each_row

KEYS = ("MOONSHOT_API_KEY", "MOONSHOTAI_API_KEY", "KIMI_API_KEY", "OPENAI_API_KEY", "AZURE_OPENAI_API_KEY")


@pytest.fixture(autouse=True)
def no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in KEYS:
        monkeypatch.delenv(variable, raising=False)


def test_spec_with_model() -> None:
    """Only the first colon divides: model names have colons too."""
    assert read_profile("ollama:qwen3:8b").model == "qwen3:8b"
    assert read_profile("kimi").model is None


def test_mapping_on_top_of_the_catalogue() -> None:
    """A mapping may start from a profile; overrides win over both."""
    profile = read_profile({"profile": "kimi", "model": "a", "timeouts": {"read": 5}}, {"model": "b", "base_url": None})
    assert (profile.name, profile.model, profile.base_url) == ("kimi", "b", "https://api.moonshot.ai/v1")
    assert (profile.timeouts.read, profile.timeouts.connect) == (5, 10)


def test_missing_key_names_the_variables() -> None:
    """Without a key the error says which variables to set, when a request is made and not before."""
    provider = Provider.from_config("kimi:kimi-k2.6")
    with pytest.raises(ConfigError, match='no API key for "kimi": set MOONSHOT_API_KEY or MOONSHOTAI_API_KEY or KIMI'):
        provider.chat_stream("Hello")


def test_missing_model_says_how_to_name_one() -> None:
    with pytest.raises(ConfigError, match='no model for "kimi": write "kimi:MODEL"'):
        Provider.from_config("kimi", api_key="x").chat_stream("Hello")


def test_keys_are_read_late_and_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first variable that is set counts; an explicit key counts before them; blanks are stripped."""
    profile = read_profile("kimi")
    monkeypatch.setenv("KIMI_API_KEY", "third")
    assert profile.resolve().key == "third"
    monkeypatch.setenv("MOONSHOT_API_KEY", " first\n")
    assert profile.resolve().key == "first"
    assert profile.resolve().keys_set == {"MOONSHOT_API_KEY": True, "MOONSHOTAI_API_KEY": False, "KIMI_API_KEY": True}
    assert read_profile("kimi", {"api_key": "own"}).resolve().key == "own"


def test_key_is_not_in_reprs_or_validation_errors() -> None:
    """A key is a secret also where something else about the configuration is wrong."""
    assert "canary" not in repr(read_profile("kimi", {"api_key": "sk-canary"}))
    with pytest.raises(ConfigError) as caught:
        read_profile("kimi", {"api_key": ["sk-canary"], "base_url": "ftp://canary"})
    assert "canary" not in str(caught.value)
    assert caught.value.__cause__ is None


@pytest.mark.one_loop
@pytest.mark.parametrize(
    ("header", "sent"),
    [
        (None, {"authorization": "Bearer sk-canary-1"}),
        ("authorization", {"authorization": "Bearer sk-canary-1"}),
        ("api-key", {"api-key": "sk-canary-1"}),
    ],
)
async def test_the_header_of_the_key(header: str | None, sent: dict[str, str]) -> None:
    """The key goes into the header that is named, alone unless it is Authorization, and an echo of it is redacted."""
    requests: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        requests.append(request)
        return httpx.Response(401, json={"error": {"message": "Access denied for sk-canary-1"}})

    async with httpx.AsyncClient(transport=httpx.MockTransport(answer)) as client:
        config = {"base_url": "http://test/v1", "model": "m", "api_key": "sk-canary-1", "max_retries": 0}
        if header:
            config["key_header"] = header
        provider = Provider.from_config(config, http_client=client)
        with pytest.raises(AuthenticationError) as caught:
            await provider.chat("x")
    headers = requests[0].headers
    assert {name: headers[name] for name in ("authorization", "api-key") if name in headers} == sent
    assert "canary" not in f"{caught.value!r} {caught.value.body} {provider!r} {provider.profile!r}"


@each_row("name", ["", "api key", "api-key:", "api\nkey", "ключ"])
def test_a_header_that_is_none(name: str) -> None:
    with pytest.raises(ConfigError, match=r"key_header: .*must be the name of a header"):
        read_profile({"base_url": "http://x/v1", "key_header": name})


def test_no_key_no_header() -> None:
    """Where no key is needed nothing is sent; a missing one is told even so."""
    assert read_profile({"base_url": "http://x/v1", "key_header": "api-key"}).resolve().key_headers == {}
    with pytest.raises(ConfigError, match='no API key for "gemini": set GEMINI_API_KEY or GOOGLE_API_KEY'):
        read_profile("gemini").resolve().headers()


def test_credentials_stand_in_for_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where requests are signed, no key is missing; one that is set is used."""
    for name, variable, words in [
        ("bedrock", "AWS_BEARER_TOKEN_BEDROCK", "AWS credentials (or AWS_BEARER_TOKEN_BEDROCK)"),
        ("vertex", "GOOGLE_ACCESS_TOKEN", "Google credentials (or GOOGLE_ACCESS_TOKEN)"),
        ("vertex-openai", "GOOGLE_ACCESS_TOKEN", "Google credentials (or GOOGLE_ACCESS_TOKEN)"),
        ("bedrock-openai", "AWS_BEARER_TOKEN_BEDROCK", "AWS credentials (or AWS_BEARER_TOKEN_BEDROCK)"),
    ]:
        monkeypatch.delenv(variable, raising=False)
        profile = read_profile(name)
        assert (describe_key(profile), profile.resolve().key, profile.resolve().key_headers) == (words, None, {})
        monkeypatch.setenv(variable, "t-1")
        assert describe_key(profile) == f"set ({variable})"
        assert profile.resolve().key_headers == {"Authorization": "Bearer t-1"}
    with pytest.raises(ConfigError, match=r"auth: can't be 'sigv5' \(did you mean 'sigv4'"):
        read_profile("bedrock", {"auth": "sigv5"})
    assert describe_key(read_profile({"base_url": "http://127.0.0.1/v1", "auth": "sigv4"})) == "AWS credentials"
