"""Requests without a key: signed for AWS, or with a token of Google's, both from credentials of the environment."""

from __future__ import annotations

import io
import json
import logging
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import anyio
import pytest

import servers
from amazon import ACCESS_KEY, BODY, SECRET_KEY, TOKEN, head_of, signature_problem
from servers import STREAM, Connection, answer, framed, sends, serving
from streamfold import (
    APIConnectionError,
    APIError,
    AuthenticationError,
    ConfigError,
    Fallback,
    NotConfiguredError,
    PermissionDeniedError,
    Provider,
    ServerError,
)
from streamfold.net import make_signer
from tables import each_row

REGION = "eu-central-1"
MODEL = "eu.anthropic.claude-sonnet-4-5-20250929-v1:0"
GEMINI = b'data: {"candidates": [{"content": {"parts": [{"text": "Hi"}]}, "finishReason": "STOP"}]}\r\n\r\n'


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Credentials of this test alone."""
    for name in ("AWS_PROFILE", "AWS_REGION", "AWS_BEARER_TOKEN_BEDROCK", "GOOGLE_ACCESS_TOKEN", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(name, str(tmp_path / "none"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_DEFAULT_REGION", REGION)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", ACCESS_KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET_KEY)


@pytest.fixture
def logs() -> Iterator[io.StringIO]:
    """All that any logger says at DEBUG, but httpcore and hpack, which log headers as they are."""
    out = io.StringIO()
    handler = logging.StreamHandler(out)
    handler.addFilter(lambda record: not record.name.startswith("httpcore"))
    root, level = logging.getLogger(), logging.getLogger().level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    yield out
    root.setLevel(level)
    root.removeHandler(handler)


def bedrock(port: int, **config: Any) -> Provider:
    base = {"base_url": f"http://127.0.0.1:{port}", "model": MODEL, "transport": servers.transport}
    return Provider.from_config("bedrock", **{**base, **config})


async def bedrock_answers(peer: Connection) -> None:
    await peer.request()
    await peer.send(answer("200 OK", BODY, "Content-Type: application/vnd.amazon.eventstream"))


# --- Amazon ----------------------------------------------------------------------------------------------------------


@pytest.mark.transports
@pytest.mark.parametrize("token", [None, TOKEN])
@pytest.mark.parametrize(
    "model",
    [MODEL, "arn:aws:bedrock:eu-central-1:123456789012:inference-profile/eu.anthropic.claude-x:0", "a b~c*d+e(f)"],
)
async def test_a_signed_request(model: str, token: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """What botocore signs with the same key and time is what the server gets, whatever stands in the path."""
    if token:
        monkeypatch.setenv("AWS_SESSION_TOKEN", token)
    async with serving(bedrock_answers) as server, bedrock(server.port, model=model) as provider:
        reply = await provider.chat("Grüße!", extra_headers={"X-Amzn-Bedrock-GuardrailIdentifier": "g"})
        assert signature_problem(server.requests[0], region=REGION, token=token) is None
    assert reply.text == "Grüße"


async def test_the_check_of_the_test_finds_mistakes() -> None:
    """A body, a path, a region or a token other than the signed one is refused."""
    async with serving(bedrock_answers) as server, bedrock(server.port) as provider:
        await provider.chat("Hello")
        [request] = server.requests
    assert "does not match" in str(signature_problem(request + b" ", region=REGION))
    assert "does not match" in str(signature_problem(request.replace(b"/model/eu", b"/model/us"), region=REGION))
    assert "scope" in str(signature_problem(request, region="us-east-1"))
    assert "token" in str(signature_problem(request, region=REGION, token=TOKEN))


@pytest.mark.slow
async def test_every_attempt_is_signed_again() -> None:
    """A retry has a date and a signature of its own."""

    async def busy(peer: Connection) -> None:
        await peer.request()
        if len(peer.server.requests) < 3:
            await peer.send(answer("503 Busy", b'{"message": "busy"}', "retry-after: 0.6"))
        else:
            await peer.send(answer("200 OK", BODY))

    async with serving(busy) as server, bedrock(server.port) as provider:
        assert (await provider.chat("Hello")).text == "Grüße"
        assert [signature_problem(request, region=REGION) for request in server.requests] == [None] * 3
        times = [head_of(request)[2]["x-amz-date"] for request in server.requests]
    assert times[0] < times[2]


async def test_an_api_key_of_bedrock_wins(monkeypatch: pytest.MonkeyPatch) -> None:
    """It goes out as a bearer token, and nothing is signed."""
    monkeypatch.setenv("AWS_BEARER_TOKEN_BEDROCK", "bearer-1")
    async with serving(bedrock_answers) as server, bedrock(server.port) as provider:
        await provider.chat("Hello")
        headers = head_of(server.requests[0])[2]
    assert headers["authorization"] == "Bearer bearer-1"
    assert "x-amz-date" not in headers


async def test_the_region_of_the_address() -> None:
    """The address decides: requests to another region than that of the environment are signed for theirs."""
    sign = make_signer("sigv4", "bedrock").sign
    for host, region in {
        "bedrock-runtime.us-west-2.amazonaws.com": "us-west-2",
        "bedrock-runtime-fips.us-gov-west-1.amazonaws.com": "us-gov-west-1",
        "bedrock-mantle.eu-west-1.api.aws": "eu-west-1",
        "vpce-1.bedrock-runtime.ap-southeast-2.vpce.amazonaws.com": "ap-southeast-2",
        "bedrock.proxy.example": REGION,
    }.items():
        signed = await sign("POST", f"https://{host}/model/m/invoke", {}, b"")
        assert f"/{region}/bedrock/aws4_request" in signed.headers["Authorization"]


async def test_no_region(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is an error that says which variable to set."""
    monkeypatch.delenv("AWS_DEFAULT_REGION")
    async with bedrock(9) as provider:
        with pytest.raises(NotConfiguredError, match=r'no credentials for "bedrock": set AWS_DEFAULT_REGION'):
            await provider.chat("Hello")


async def test_credentials_of_a_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Whatever the AWS tools would find is used, as a named profile here."""
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    monkeypatch.setenv("AWS_PROFILE", "work")
    path = tmp_path / "credentials"
    path.write_text(f"[work]\naws_access_key_id = {ACCESS_KEY}\naws_secret_access_key = {SECRET_KEY}\n", "utf-8")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(path))
    async with serving(bedrock_answers) as server, bedrock(server.port) as provider:
        await provider.chat("Hello")
        assert signature_problem(server.requests[0], region=REGION) is None


@pytest.mark.parametrize("profile", [None, "nobody"])
async def test_no_aws_credentials(profile: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is sent; the error says what to set. In a fallback the next model is asked."""
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    if profile:
        monkeypatch.setenv("AWS_PROFILE", profile)
    async with serving(bedrock_answers) as server:
        provider = bedrock(server.port)
        with pytest.raises(NotConfiguredError, match=r'no credentials for "bedrock": .*(AWS_ACCESS_KEY_ID|nobody)'):
            await provider.chat("Hello")
        assert not server.requests
        async with Fallback(provider, bedrock(server.port, name="second", api_key="k")) as both:
            reply = await both.chat("Hello")
        async with Fallback(bedrock(server.port), bedrock(server.port, name="second")) as neither:
            with pytest.raises(NotConfiguredError, match=r'"bedrock".*; no credentials for "second"'):
                await neither.chat("Hello")
    assert reply.provider == "second"
    assert [(attempt.provider, attempt.error) for attempt in reply.attempts] == [("bedrock", None)]


async def test_secrets_of_a_signature(logs: io.StringIO, monkeypatch: pytest.MonkeyPatch) -> None:
    """AWS answers a wrong signature with all that was signed, the token included: none of it is shown."""
    monkeypatch.setenv("AWS_SESSION_TOKEN", TOKEN)

    async def refuses(peer: Connection) -> None:
        await peer.request()
        headers = head_of(peer.server.requests[-1])[2]
        said = f"x-amz-security-token:{headers['x-amz-security-token']} {headers['authorization']}"
        await peer.send(answer("403 No", json.dumps({"message": said}).encode(), "x-amzn-RequestId: aws-1"))

    async with serving(refuses) as server, bedrock(server.port) as provider:
        shown = repr(provider.preview("Hello")) + str(provider.preview("Hello").headers)
        with pytest.raises(PermissionDeniedError) as caught:
            await provider.chat("Hello")
        error = caught.value
        assert error.request_id == "aws-1"
        tail = error.with_traceback(error.__traceback__ and error.__traceback__.tb_next)
        shown += "".join(traceback.TracebackException.from_exception(tail, capture_locals=True).format())
        shown += f"{error!r} {error} {vars(error)}"
        signature = head_of(server.requests[0])[2]["authorization"].rpartition("=")[2]
        shown += repr(provider) + repr(provider.profile)
    assert "security-token:***" in shown
    for secret in (ACCESS_KEY, SECRET_KEY, TOKEN, signature):
        assert secret not in shown + logs.getvalue()


async def test_the_extra_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error says what to install; with a key it is not needed."""
    monkeypatch.setattr("streamfold.net.cloud_auth.find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"pip install 'streamfold\[bedrock\]'"):
        bedrock(9).chat_stream("Hello")
    monkeypatch.setenv("AWS_BEARER_TOKEN_BEDROCK", "k")
    bedrock(9).chat_stream("Hello")
    monkeypatch.delenv("AZURE_OPENAI_API_KEY", raising=False)
    with pytest.raises(ConfigError, match=r"set AZURE_OPENAI_API_KEY, or install .* 'streamfold\[azure\]'"):
        azure_openai(9).chat_stream("Hello")
    vertex = {"base_url": "http://127.0.0.1:9", "adapter": "gemini", "auth": "google", "model": "m"}
    with pytest.raises(ConfigError, match=r"pip install 'streamfold\[vertex\]'"):
        Provider.from_config(vertex).chat_stream("Hello")


@pytest.mark.slow
def test_importing_brings_no_cloud() -> None:
    """The libraries of the clouds are imported when the first request is signed."""
    import subprocess

    words = "import sys, streamfold; streamfold.Provider.from_config('bedrock', model='m'); print(sorted(sys.modules))"
    found = subprocess.run([sys.executable, "-c", words], capture_output=True, text=True, check=True).stdout
    assert "'botocore" not in found
    assert "'google.auth" not in found


# --- Google ----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def private_key() -> str:
    """The key of a service account, made for this test."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import rsa

    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    form = serialization.PrivateFormat.PKCS8
    return key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption()).decode()


@pytest.fixture
def login(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, private_key: str) -> Callable[[int], None]:
    """Writes the file of a service account whose tokens are at a port of loopback."""
    path = tmp_path / "account.json"
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(path))
    monkeypatch.setenv("GOOGLE_CLOUD_QUOTA_PROJECT", "billed")
    monkeypatch.setenv("GOOGLE_CLOUD_PROJECT", "acme")
    monkeypatch.setenv("GOOGLE_CLOUD_LOCATION", "europe-west4")

    def write(port: int) -> None:
        values = {"type": "service_account", "client_email": "a@acme.example", "private_key": private_key}
        values |= {"token_uri": f"http://127.0.0.1:{port}/token"}
        path.write_text(json.dumps(values), "utf-8")

    return write


class Google:
    """A server that gives tokens at /token, each valid for `seconds`, and answers as Gemini everywhere else."""

    def __init__(self, seconds: int = 3600, refusal: bytes | None = None) -> None:
        self.seconds = seconds
        self.refusal = refusal
        self.given = 0
        self.asked: list[dict[str, list[str]]] = []

    async def __call__(self, peer: Connection, failure: bytes = b"") -> None:
        body = await peer.request()
        if peer.server.requests[-1].startswith(b"POST /token "):
            self.asked.append(parse_qs(body.decode()))
            if self.refusal:
                await peer.send(self.refusal)
                return
            self.given += 1
            token = {"access_token": f"ya29.CANARY-{self.given}", "expires_in": self.seconds, "token_type": "Bearer"}
            await peer.send(answer("200 OK", json.dumps(token).encode(), "Content-Type: application/json"))
        elif failure:
            await peer.send(answer("500 No", failure))
        else:
            await peer.send(STREAM, framed(GEMINI), servers.END)


def vertex(port: int, name: str = "vertex", **config: Any) -> Provider:
    base = {"base_url": f"http://127.0.0.1:{port}/v1", "model": "gemini-3-flash", "transport": servers.transport}
    return Provider.from_config(name, **{**base, "max_retries": 0, **config})


def requests_of_the_model(server: servers.Server) -> list[dict[str, str]]:
    return [head_of(request)[2] for request in server.requests if b"/token" not in request[:20]]


async def test_a_token_of_google(login: Callable[[int], None]) -> None:
    """It is fetched once with the login of the environment, sent as a bearer token, and used until it expires."""
    google = Google()
    async with serving(google) as server, vertex(server.port) as provider:
        login(server.port)
        async with anyio.create_task_group() as tasks:
            for _ in range(4):
                tasks.start_soon(provider.chat, "Hello")
        assert (await provider.chat("Hello")).text == "Hi"
        sent = requests_of_the_model(server)
    assert google.given == 1
    assert google.asked[0]["grant_type"] == ["urn:ietf:params:oauth:grant-type:jwt-bearer"]
    assert {headers["authorization"] for headers in sent} == {"Bearer ya29.CANARY-1"}
    assert {headers["x-goog-user-project"] for headers in sent} == {"billed"}


async def test_a_token_that_expires(login: Callable[[int], None]) -> None:
    """The next request, or the next attempt, has a new one."""
    google = Google(seconds=1)
    async with serving(google) as server, vertex(server.port) as provider:
        login(server.port)
        await provider.chat("Hello")
        await provider.chat("Hello")
        sent = [headers["authorization"] for headers in requests_of_the_model(server)]
    assert sent == ["Bearer ya29.CANARY-1", "Bearer ya29.CANARY-2"]


async def test_a_token_of_the_environment_wins(login: Callable[[int], None], monkeypatch: pytest.MonkeyPatch) -> None:
    """`gcloud auth print-access-token` prints one; no file is read then."""
    monkeypatch.setenv("GOOGLE_ACCESS_TOKEN", "ya29.own")
    async with serving(Google()) as server, vertex(server.port) as provider:
        await provider.chat("Hello")
        assert requests_of_the_model(server)[0]["authorization"] == "Bearer ya29.own"


async def test_no_google_credentials(login: Callable[[int], None]) -> None:
    """The error says so before anything is sent."""
    async with serving(Google()) as server, vertex(server.port) as provider:
        with pytest.raises(NotConfiguredError, match=r'no credentials for "vertex": .*account\.json'):
            await provider.chat("Hello")
        assert not server.requests


@pytest.mark.parametrize(
    ("refusal", "error", "words"),
    [
        (
            answer("400 No", b'{"error": "invalid_grant", "error_description": "revoked: secret-CANARY-1"}'),
            AuthenticationError,
            r"no valid Google credentials: .*invalid_grant: revoked: \*\*\*",
        ),
        (answer("503 Busy", b'{"error": "unavailable"}'), APIConnectionError, "could not be refreshed"),
        (b"", APIConnectionError, "could not be refreshed: RemoteProtocolError at 127.0.0.1"),
    ],
)
async def test_a_refresh_that_fails(
    refusal: bytes, error: type[APIError], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A login that is not valid any more is an error of authentication; a server that is away may be back later."""
    import google.auth
    from google.oauth2.credentials import Credentials

    monkeypatch.setattr("time.sleep", lambda seconds: None)  # google-auth waits between its own tries
    monkeypatch.setenv("GOOGLE_CLOUD_PROJECT", "acme")
    monkeypatch.setenv("GOOGLE_CLOUD_LOCATION", "europe-west4")

    async with serving(sends(refusal)) as server, vertex(server.port) as provider:
        secrets = {"client_id": "c", "client_secret": "secret-CANARY-1", "refresh_token": "refresh-CANARY-2"}
        uri = f"http://127.0.0.1:{server.port}/token"
        own = Credentials(token=None, token_uri=uri, **secrets)  # type: ignore[no-untyped-call]
        monkeypatch.setattr(google.auth, "default", lambda **options: (own, "acme"))
        with pytest.raises(error, match=words) as caught:
            await provider.chat("Hello")
    assert "CANARY" not in f"{caught.value!r} {caught.value} {vars(caught.value)}"
    assert caught.value.retryable is (error is APIConnectionError)


async def test_refreshing_blocks_nobody(login: Callable[[int], None]) -> None:
    """A token server that does not answer holds up neither the event loop nor the one who gives up."""

    async def silent(peer: Connection) -> None:
        await peer.request()
        await peer.gone()

    before = threading.active_count()
    async with serving(silent) as server, vertex(server.port, timeouts={"first_event": 0.2}) as provider:
        login(server.port)
        with pytest.raises(APIConnectionError, match="first_event"):
            await provider.chat("Hello")
        assert threading.active_count() < before + 20


async def test_credentials_that_the_library_made(login: Callable[[int], None], monkeypatch: pytest.MonkeyPatch) -> None:
    """Any kind of credentials will do: a service account, a metadata server, one of a test."""
    import google.auth
    from google.auth.credentials import AnonymousCredentials

    class Own(AnonymousCredentials):
        def before_request(self, request: Any, method: str, url: str, headers: Any) -> None:
            headers["authorization"] = f"Bearer for-{url.rpartition('/')[2]}"

    monkeypatch.setattr(google.auth, "default", lambda **options: (Own(), "acme"))  # type: ignore[no-untyped-call]
    async with serving(Google()) as server, vertex(server.port) as provider:
        await provider.chat("Hello")
        [headers] = requests_of_the_model(server)
    assert headers["authorization"].startswith("Bearer for-gemini-3-flash:streamGenerateContent")


ADDRESSES = {
    "vertex": "https://europe-west4-aiplatform.googleapis.com/v1/projects/acme/locations/europe-west4/publishers/google",
    "vertex-global": "https://aiplatform.googleapis.com/v1/projects/acme/locations/global/publishers/google",
    "vertex-express": "https://aiplatform.googleapis.com/v1/publishers/google",
    "anthropic-vertex": (
        "https://europe-west4-aiplatform.googleapis.com/v1/projects/acme/locations/europe-west4/publishers/anthropic"
    ),
    "anthropic-vertex-global": "https://aiplatform.googleapis.com/v1/projects/acme/locations/global/publishers/anthropic",
}


@each_row("name", ADDRESSES)
def test_addresses_of_vertex(name: str, login: Callable[[int], None]) -> None:
    """Region, global endpoint and express mode, for Gemini and for Claude."""
    profile = Provider.from_config(name, model="m").profile
    assert profile.resolve().base_url == ADDRESSES[name]
    assert profile.key_header == ("x-goog-api-key" if name == "vertex-express" else "Authorization")
    assert profile.auth == ("key" if name == "vertex-express" else "google")


async def test_an_answer_that_quotes_the_token(login: Callable[[int], None]) -> None:
    """The token is in no error."""
    google = Google()

    async def script(peer: Connection) -> None:
        await google(peer, b'{"error": {"message": "bad token ya29.CANARY-1"}}')

    async with serving(script) as server, vertex(server.port) as provider:
        login(server.port)
        with pytest.raises(ServerError, match=r"bad token \*\*\*") as caught:
            await provider.chat("Hello")
    assert "CANARY" not in f"{caught.value!r} {caught.value} {vars(caught.value)}"


# --- Microsoft -------------------------------------------------------------------------------------------------------


@pytest.fixture
def app_service(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Makes this machine an App Service, whose tokens are at a port of loopback."""
    for name in ("AZURE_OPENAI_API_KEY", "AZURE_CLIENT_ID", "AZURE_TENANT_ID", "AZURE_CLIENT_SECRET"):
        monkeypatch.delenv(name, raising=False)

    def write(port: int) -> None:
        monkeypatch.setenv("IDENTITY_ENDPOINT", f"http://127.0.0.1:{port}/token")
        monkeypatch.setenv("IDENTITY_HEADER", "header-CANARY")

    return write


class Expiring:
    """A server with tokens, and with answers for those who have a valid one.

    Args:
        seconds: how long a token says that it is valid.
        good: how many requests the first token is good for.
        body: the answer.
    """

    def __init__(self, body: bytes, *, seconds: int = 3600, good: int = 10**6) -> None:
        self.body, self.seconds, self.good = body, seconds, good
        self.given = self.answered = self.refused = 0

    async def __call__(self, peer: Connection) -> None:
        await peer.request()
        request = peer.server.requests[-1]
        if b"/token" in request.split(b"\r\n", 1)[0]:
            self.given += 1
            token: dict[str, Any] = {"access_token": f"ya29.CANARY-{self.given}", "token_type": "Bearer"}
            token |= {"expires_in": self.seconds, "expires_on": str(int(time.time()) + self.seconds), "resource": "r"}
            await peer.send(answer("200 OK", json.dumps(token).encode(), "Content-Type: application/json"))
        elif b"CANARY-1" in request and self.answered >= self.good:
            self.refused += 1
            await peer.send(
                answer("401 No", b'{"error": {"code": 401, "message": "Request had invalid credentials."}}')
            )
        else:
            self.answered += 1
            await peer.send(answer("200 OK", self.body))


CHAT = b'data: {"choices": [{"index": 0, "delta": {"content": "Hi"}, "finish_reason": "stop"}]}\n\ndata: [DONE]\n\n'


def azure_openai(port: int, **config: Any) -> Provider:
    base = {"base_url": f"http://127.0.0.1:{port}/openai/v1", "model": "m", "transport": servers.transport}
    return Provider.from_config("azure", **{**base, "max_retries": 0, **config})


async def job(provider: Provider, rows: int = 24) -> list[str]:
    """Many answers, four at once."""
    texts: list[str] = []
    limiter = anyio.CapacityLimiter(4)

    async def ask() -> None:
        async with limiter:
            texts.append((await provider.chat("Hello")).text)

    async with anyio.create_task_group() as tasks:
        for _ in range(rows):
            tasks.start_soon(ask)
    return texts


@pytest.mark.parametrize("cloud", ["azure", "vertex"])
async def test_a_token_that_ends_in_a_job(
    cloud: str, login: Callable[[int], None], app_service: Callable[[int], None]
) -> None:
    """It is looked up anew once, however many requests were refused, and no row is lost."""
    server_side = Expiring(CHAT if cloud == "azure" else GEMINI, good=9)
    async with serving(server_side) as server:
        login(server.port)
        app_service(server.port)
        async with azure_openai(server.port) if cloud == "azure" else vertex(server.port) as provider:
            assert await job(provider) == ["Hi"] * 24
    assert (server_side.given, server_side.answered) == (2, 24)
    assert 1 <= server_side.refused <= 4


async def test_aws_credentials_that_end_in_a_job(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """AWS refuses a session that has ended with 403: the program that makes sessions runs once more."""
    script, count = tmp_path / "session.py", tmp_path / "count"
    script.write_text(
        "import json, pathlib\n"
        f"file = pathlib.Path({str(count)!r})\n"
        "number = int(file.read_text()) + 1 if file.exists() else 1\n"
        "file.write_text(str(number))\n"
        f"keys = dict(AccessKeyId={ACCESS_KEY!r}, SecretAccessKey={SECRET_KEY!r}, SessionToken=f'session-{{number}}')\n"
        "print(json.dumps({**keys, 'Version': 1, 'Expiration': '2099-01-01T00:00:00Z'}))\n",
        "utf-8",
    )
    config = tmp_path / "config"
    config.write_text(f"[profile job]\ncredential_process = {sys.executable} {script}\n", "utf-8")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(config))
    monkeypatch.setenv("AWS_PROFILE", "job")
    answered = 0

    async def ends(peer: Connection) -> None:
        nonlocal answered
        await peer.request()
        token = head_of(peer.server.requests[-1])[2]["x-amz-security-token"]
        if token == "session-1" and answered >= 7:
            said = b'{"message": "The security token included in the request is expired"}'
            await peer.send(answer("403 No", said, "x-amzn-errortype: ExpiredTokenException"))
        else:
            answered += 1
            await peer.send(answer("200 OK", BODY))

    async with serving(ends) as server, bedrock(server.port, max_retries=0) as provider:
        assert await job(provider, 16) == ["Grüße"] * 16
        assert {
            signature_problem(request, region=REGION, token=f"session-{number}")
            for request, number in (
                (request, head_of(request)[2]["x-amz-security-token"][-1]) for request in server.requests
            )
        } == {None}
    assert (count.read_text(), answered) == ("2", 16)


async def test_credentials_that_stay_refused(login: Callable[[int], None]) -> None:
    """After one look for others, the refusal is an error."""
    google = Google()

    async def refuses(peer: Connection) -> None:
        await peer.request()
        if peer.server.requests[-1].startswith(b"POST /token "):
            google.given += 1
            token = {"access_token": f"ya29.CANARY-{google.given}", "expires_in": 3600}
            await peer.send(answer("200 OK", json.dumps(token).encode(), "Content-Type: application/json"))
        else:
            await peer.send(answer("401 No", b'{"error": {"message": "no"}}'))

    async with serving(refuses) as server, vertex(server.port) as provider:
        login(server.port)
        with pytest.raises(AuthenticationError) as caught:
            await provider.chat("Hello")
        assert len(requests_of_the_model(server)) == 2
    assert (google.given, len(caught.value.attempts)) == (2, 1)


@pytest.mark.parametrize(("seconds", "later", "given"), [(3600, 3200, 1), (3600, 3350, 2), (60, 40, 1), (60, 50, 2)])
async def test_a_token_of_microsoft_is_replaced_before_it_ends(
    seconds: int, later: int, given: int, app_service: Callable[[int], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Five minutes before, and a short-lived one in the last fifth of its life; until then it is used again."""
    import azure.identity
    from azure.core.credentials import AccessToken

    times = [1000]
    tokens: list[str] = []

    class Own:
        def get_token(self, scope: str) -> AccessToken:
            tokens.append(scope)
            return AccessToken(f"token-{len(tokens)}", times[-1] + seconds)

    monkeypatch.setattr(azure.identity, "DefaultAzureCredential", Own)
    monkeypatch.setattr("streamfold.net.cloud_auth.time", lambda: times[-1])
    async with serving(Expiring(CHAT)) as server, azure_openai(server.port) as provider:
        await provider.chat("Hello")
        times.append(1000 + later)
        await provider.chat("Hello")
        sent = [head_of(request)[2] for request in server.requests]
    assert [headers["authorization"] for headers in sent] == ["Bearer token-1", f"Bearer token-{given}"]
    assert tokens == ["https://cognitiveservices.azure.com/.default"] * given
    assert not {"api-key"} & sent[0].keys()


async def test_a_key_of_azure_wins(app_service: Callable[[int], None], monkeypatch: pytest.MonkeyPatch) -> None:
    """It goes out in its header, and no token is fetched."""
    monkeypatch.setenv("AZURE_OPENAI_API_KEY", "k-1")
    server_side = Expiring(CHAT)
    async with serving(server_side) as server, azure_openai(server.port) as provider:
        app_service(server.port)
        await provider.chat("Hello")
        headers = head_of(server.requests[0])[2]
    assert (headers["api-key"], "authorization" in headers, server_side.given) == ("k-1", False, 0)


async def test_no_identity_of_microsoft(app_service: Callable[[int], None], monkeypatch: pytest.MonkeyPatch) -> None:
    """The error says which command to run, and which variables to set instead."""
    import azure.identity

    monkeypatch.setattr(azure.identity, "DefaultAzureCredential", azure.identity.EnvironmentCredential)
    async with serving(Expiring(CHAT)) as server, azure_openai(server.port) as provider:
        with pytest.raises(NotConfiguredError) as caught:
            await provider.chat("Hello")
        assert not server.requests
    for word in ('no credentials for "azure"', "az login", "AZURE_CLIENT_SECRET", "or set AZURE_OPENAI_API_KEY"):
        assert word in str(caught.value)


async def test_secrets_of_microsoft(logs: io.StringIO, app_service: Callable[[int], None]) -> None:
    """Neither the token nor what it was fetched with is in an error or a log."""
    server_side = Expiring(CHAT)

    async def fails(peer: Connection) -> None:
        server_side.body = b""
        if server_side.given:
            await peer.request()
            await peer.send(answer("500 No", b'{"error": {"message": "bad token ya29.CANARY-1"}}'))
        else:
            await server_side(peer)

    async with serving(fails) as server, azure_openai(server.port) as provider:
        app_service(server.port)
        with pytest.raises(ServerError, match=r"bad token \*\*\*") as caught:
            await provider.chat("Hello")
    shown = f"{caught.value!r} {caught.value} {vars(caught.value)} {provider!r} {provider.preview('x')!r}"
    assert "CANARY" not in shown + logs.getvalue()


async def test_no_login_of_google(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The error says which command to run, and which variables to set instead."""
    import google.auth
    from google.auth.exceptions import DefaultCredentialsError

    def default(**options: Any) -> None:
        raise DefaultCredentialsError("Your default credentials were not found.")  # type: ignore[no-untyped-call]

    monkeypatch.setattr(google.auth, "default", default)
    async with vertex(9) as provider:
        with pytest.raises(NotConfiguredError) as caught:
            await provider.chat("Hello")
    for word in ("gcloud auth application-default login", "or set GOOGLE_ACCESS_TOKEN"):
        assert word in str(caught.value)
