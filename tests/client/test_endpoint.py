"""What requests share is worked out once, and again when a variable changes."""

from __future__ import annotations

import pytest

from streamfold.adapters import find_adapter
from streamfold.adapters.batches import EndpointRequest
from streamfold.client import Endpoint
from streamfold.config import Profile
from streamfold.errors import NotConfiguredError
from streamfold.net import HTTPRequest

SETTINGS = {
    "base_url": "https://${ENDPOINT_HOST}/v1",
    "api_key_env": ["ENDPOINT_KEY"],
    "headers": {"X-Team": "${ENDPOINT_TEAM}"},
}


@pytest.fixture
def endpoint(monkeypatch: pytest.MonkeyPatch) -> Endpoint:
    """An endpoint whose variables are all set."""
    for name, value in {"HOST": "one.example", "KEY": "sk-one-key", "TEAM": "team-one"}.items():
        monkeypatch.setenv(f"ENDPOINT_{name}", value)
    return Endpoint(Profile.model_validate(SETTINGS))


def sent(endpoint: Endpoint, headers: dict[str, str] | None = None) -> HTTPRequest:
    """A request to the endpoint."""
    return endpoint.http_request(find_adapter("chat")(), EndpointRequest.get("/chat"), None, headers)


def test_once(endpoint: Endpoint) -> None:
    """The second request gets what the first one got."""
    assert sent(endpoint).redactor is sent(endpoint).redactor
    urls = endpoint.resolved().urls
    assert endpoint.resolved().urls("/chat") is urls("/chat")
    assert urls("/chat").sent == "https://one.example/v1/chat"
    assert urls("/other").named == "https://${ENDPOINT_HOST}/v1/other"
    assert "one.example" not in repr(urls("/chat")) + urls("/chat").shown


def test_another_value(endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    """A key that is rotated is sent at once, and is the one that is hidden."""
    before = sent(endpoint)
    monkeypatch.setenv("ENDPOINT_KEY", "sk-two-key")
    monkeypatch.setenv("ENDPOINT_HOST", "two.example")
    after = sent(endpoint)
    assert [each.headers["Authorization"] for each in (before, after)] == ["Bearer sk-one-key", "Bearer sk-two-key"]
    assert before.headers["X-Team"] == after.headers["X-Team"] == "team-one"
    assert after.redactor.text("sk-one-key sk-two-key team-one") == "sk-one-key *** ***"
    assert endpoint.resolved().urls("/chat").sent == "https://two.example/v1/chat"
    assert "sk-" not in repr(after)


def test_a_variable_that_is_gone(endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is an error again, also after a request that had it."""
    sent(endpoint)
    monkeypatch.delenv("ENDPOINT_TEAM")
    with pytest.raises(NotConfiguredError, match="ENDPOINT_TEAM is not set"):
        sent(endpoint)


def test_headers_of_one_request(endpoint: Endpoint) -> None:
    """They are in no other one, and hidden in this one."""
    own = sent(endpoint, {"X-User": "user-secret"})
    assert own.headers["X-User"] == "user-secret"
    assert own.redactor.text("user-secret") == "***"
    assert "X-User" not in sent(endpoint).headers


def test_many_paths(endpoint: Endpoint) -> None:
    """Not all of them are kept."""
    for number in range(1000):
        assert endpoint.resolved().urls(f"/files/{number}").sent.endswith(f"/v1/files/{number}")
    assert len(endpoint.resolved()._urls) <= 64
