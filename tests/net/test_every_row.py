"""Every row of the catalogue over a socket: with its own authentication, streamed and whole, and with a tool call.

The judges are the makers' own libraries: botocore signs the request again, google-auth and azure-identity fetch tokens.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

import servers
from amazon import ACCESS_KEY, SECRET_KEY, chunk, head_of, signature_problem
from servers import Connection, answer, serving
from streamfold import Provider, tool_result, user
from streamfold.config.catalogue import provider_files
from streamfold.config.file import read_profile
from streamfold.recording import Recording
from streamfold.urls import variable_names
from whole_bodies import whole_body

FIXTURES = Path(__file__).parents[2] / "fixtures"
ROWS = sorted(provider_files())
# The answer of a row, where it has a documented one of its own with a call; else one of its wire format.
OWN = {
    "azure-deployments": "azure/deployment_call",
    "baseten": "baseten/reasoning_and_call",
    "bedrock-mantle": "bedrock/mantle_call",
    "bedrock-openai": "bedrock/reasoning_in_tags",
    "cloudflare": "cloudflare/usage_on_every_chunk",
    "cohere": "cohere/call",
    "databricks": "databricks/thinking_in_parts",
    "deepinfra": "deepinfra/reasoning_and_call",
    "github-copilot": "github-copilot/signed_reasoning",
    "github-copilot-responses": "github-copilot/ids_drawn_anew",
    "meta": "meta/call",
    "nebius": "nebius/call",
    "nvidia": "nvidia/reasoning_and_call",
    "perplexity": "perplexity/signed_call",
    "sambanova": "sambanova/usage_with_timings",
    "vercel": "vercel/signed_details",
    "vertex-openai": "vertex/open_model_call",
    "vertex-openai-global": "vertex/open_model_call",
}
OF_API = {
    "responses": "openai/responses_parallel_calls",
    "anthropic": "anthropic/parallel_calls",
    "gemini": "gemini/native_parallel_calls",
    "interactions": "gemini-interactions/thoughts_and_calls",
}
TOOLS: list[Any] = [
    {"type": "function", "function": {"name": name, "description": "", "parameters": {"type": "object"}}}
    for name in ("get_tide", "get_weather", "get_time")
]
REGION = "eu-central-1"
pytestmark = pytest.mark.one_loop


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Credentials of nobody, and no others."""
    for row in ROWS:
        profile = read_profile(row)
        for name in (*profile.api_key_env, *variable_names(profile.base_url)):
            monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", ACCESS_KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET_KEY)
    monkeypatch.setenv("AWS_DEFAULT_REGION", REGION)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(name, str(tmp_path / "none"))
    for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN", "AZURE_CLIENT_ID", "AZURE_TENANT_ID", "AZURE_CLIENT_SECRET"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("IDENTITY_HEADER", "h")  # of an App Service


@pytest.fixture
def account(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of a service account of Google's; the test writes where its tokens are."""
    path = tmp_path / "account.json"
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(path))
    monkeypatch.setenv("GOOGLE_CLOUD_QUOTA_PROJECT", "billed")
    return path


def service_account(port: int) -> str:
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import rsa

    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    pem = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ).decode()
    values = {"type": "service_account", "client_email": "a@acme.example", "private_key": pem}
    return json.dumps({**values, "token_uri": f"http://127.0.0.1:{port}/token"})


class Cloud:
    """A server with tokens at /token, for Google's library and for Microsoft's, and the answers of a row elsewhere."""

    def __init__(self, row: str) -> None:
        self.profile = read_profile(row)
        self.bedrock = self.profile.quirks.get("platform") == "bedrock"
        self.body = Recording.load(
            FIXTURES / OWN.get(row, OF_API.get(self.profile.adapter, "openai/parallel_calls"))
        ).body
        self.requests: list[bytes] = []
        self.tokens: list[bytes] = []

    async def __call__(self, peer: Connection) -> None:
        content = await peer.request()
        request = peer.server.requests[-1]
        if b"/token" in request.split(b"\r\n", 1)[0]:
            self.tokens.append(request)
            token = {"access_token": "token-CANARY", "expires_in": 3600, "expires_on": "4102444800"}
            reply = json.dumps({**token, "resource": "r", "token_type": "Bearer"}).encode()
            await peer.send(answer("200 OK", reply, "Content-Type: application/json"))
            return
        self.requests.append(request)
        path = request.split(b" ")[1]
        streamed = json.loads(content).get("stream") or b"stream" in path
        if not streamed:
            reply = whole_body(self.profile.adapter, self.body)
        elif self.bedrock:
            lines = [line[6:] for line in self.body.splitlines() if line.startswith(b"data: ")]
            reply = b"".join(chunk(json.loads(line)) for line in lines)
        else:
            reply = self.body
        await peer.send(answer("200 OK", reply))


@pytest.mark.parametrize("way", ["stream", pytest.param("whole", marks=pytest.mark.slow)])
@pytest.mark.parametrize("row", ROWS)
async def test_a_tool_call(row: str, way: str, account: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A call comes back and is answered; each request has the address and the authentication of the row."""
    cloud = Cloud(row)
    profile = cloud.profile
    for variable in variable_names(profile.base_url):
        monkeypatch.setenv(variable, "https://acme.example" if profile.base_url.startswith("${") else "acme")
    if profile.auth == "key":
        for variable in profile.api_key_env[:1]:
            monkeypatch.setenv(variable, "k-CANARY")
    async with serving(cloud) as server:
        account.write_text(service_account(server.port), "utf-8")
        monkeypatch.setenv("IDENTITY_ENDPOINT", f"http://127.0.0.1:{server.port}/token")
        address = urlsplit(profile.resolve().base_url)
        base = f"http://127.0.0.1:{server.port}{address.path}" + (f"?{address.query}" if address.query else "")
        async with Provider.from_config(
            row, base_url=base, model="some-model", transport=servers.transport, max_retries=0
        ) as provider:
            asked: dict[str, Any] = {"stream": way == "stream", "max_output_tokens": 100}
            reply = await provider.chat("How is the tide?", TOOLS, **asked)
            assert reply.finish_reason == "tool_calls"
            results = [tool_result(call, "low") for call in reply.tool_calls]
            again = await provider.chat([user("How is the tide?"), reply.message, *results], TOOLS, **asked)
            assert again.tool_calls == reply.tool_calls
    assert len(cloud.requests) == 2
    for request in cloud.requests:
        method, target, headers, content = head_of(request)
        assert (method, urlsplit(target).path.startswith(address.path)) == ("POST", True)
        assert json.loads(content)
        match profile.auth:
            case "key":
                sent = {name: text for name, text in headers.items() if "CANARY" in text}
                keyed = {
                    profile.key_header.lower(): "Bearer k-CANARY"
                    if profile.key_header == "Authorization"
                    else "k-CANARY"
                }
                assert sent == (keyed if profile.api_key_env else {})
            case "sigv4":
                service = profile.auth_scope or "bedrock"
                assert signature_problem(request, region=REGION, service=service) is None
            case "google" | "entra":
                assert headers["authorization"] == "Bearer token-CANARY"
                assert len(cloud.tokens) == 1
    if profile.auth == "entra":
        scope = (profile.auth_scope or "https://cognitiveservices.azure.com/.default").removesuffix("/.default")
        assert f"resource={scope}".encode() in cloud.tokens[0].replace(b"%3A", b":").replace(b"%2F", b"/")
