"""The files of `examples/replicas` fit together: what one of them names is there, and served."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from gateways import client_of
from streamfold.cli.app import app as cli
from streamfold.config import read_config
from streamfold_gateway import create_app
from streamfold_gateway.config import GatewaySettings

EXAMPLE = Path(__file__).parents[3] / "examples" / "replicas"
CONFIG = EXAMPLE / "streamfold.toml"
SECRETS = ("MOONSHOT_API_KEY", "RESEARCH_KEY", "WEBSITE_KEY")

if not EXAMPLE.is_dir():
    pytest.skip("the examples are not there", allow_module_level=True)


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in SECRETS:
        monkeypatch.setenv(name, f"value of {name}")
    monkeypatch.setenv("VALKEY", "127.0.0.1:6379")


def documents(name: str) -> list[Any]:
    yaml = pytest.importorskip("yaml")
    return list(yaml.safe_load_all((EXAMPLE / name).read_text("utf-8")))


def seconds(text: str) -> int:
    return int(text.removesuffix("s"))


@pytest.fixture
def settings() -> GatewaySettings:
    return read_config(CONFIG).package_table("gateway", GatewaySettings)


def time_to_stop(settings: GatewaySettings) -> float:
    return settings.drain + settings.shutdown


def test_the_configuration_is_right() -> None:
    """`streamfold config check` finds nothing wrong, and the gateway can be made."""
    pytest.importorskip("valkey")
    said = CliRunner().invoke(cli, ["config", "check", "-c", str(CONFIG)])
    assert said.exit_code == 0, said.output
    assert create_app(CONFIG).models.names == ["main"]


async def test_what_is_asked_for_health_is_served() -> None:
    """By the proxy and by Kubernetes, without a key."""
    pytest.importorskip("valkey")
    paths = set(
        re.findall(
            r"path: (/\w+)\}|path: (/\w+),|uri (/\w+)",
            "\n".join((EXAMPLE / name).read_text("utf-8") for name in ("kubernetes.yaml", "haproxy.cfg")),
        )
    )
    found = {path for group in paths for path in group if path}
    assert found == {"/livez", "/readyz"}
    async with client_of(create_app(CONFIG)) as client:
        assert {(await client.get(path)).status_code for path in found} == {200}


def test_compose(settings: GatewaySettings) -> None:
    """Each gateway has its secrets and its file, listens where the proxies look, and has time to stop."""
    (compose,) = documents("compose.yaml")
    gateways = {name: service for name, service in compose["services"].items() if name.startswith("gateway")}
    assert len(gateways) == 2
    for name, service in gateways.items():
        assert service["command"] == ["streamfold", "serve"]
        assert set(service["environment"]) == {*SECRETS, "VALKEY"}
        assert seconds(service["stop_grace_period"]) > time_to_stop(settings)
        for proxy in ("haproxy.cfg", "nginx.conf"):
            assert f"{name}:{settings.port}" in (EXAMPLE / proxy).read_text("utf-8")
    for service in compose["services"].values():
        mounts = [volume.split(":")[0] for volume in service["volumes"] if volume.startswith("./")]
        assert [mount for mount in mounts if not (EXAMPLE / mount).is_file()] == []
    limits = read_config(CONFIG).rate_limits()
    assert limits is not None
    assert limits.replicas == len(gateways) * settings.workers


def test_kubernetes(settings: GatewaySettings) -> None:
    """The objects refer to each other by names that exist, and a pod has time to stop."""
    objects = {(each["kind"], each["metadata"]["name"]): each for each in documents("kubernetes.yaml")}
    pod = objects["Deployment", "streamfold"]["spec"]["template"]
    (container,) = pod["spec"]["containers"]
    assert container["command"] == ["streamfold", "serve"]
    assert container["ports"] == [{"name": "http", "containerPort": settings.port}]
    ports = [container[probe]["httpGet"]["port"] for probe in ("readinessProbe", "livenessProbe", "startupProbe")]
    assert ports == ["http"] * 3
    pause = int(container["lifecycle"]["preStop"]["exec"]["command"][1])
    assert pod["spec"]["terminationGracePeriodSeconds"] > pause + time_to_stop(settings)
    service = objects["Service", "streamfold"]["spec"]
    assert service["selector"].items() <= pod["metadata"]["labels"].items()
    assert service["ports"][0]["targetPort"] == "http"
    target = objects["HorizontalPodAutoscaler", "streamfold"]["spec"]["scaleTargetRef"]
    assert (target["kind"], target["name"]) in objects
    host, _, port = container["env"][0]["value"].partition(":")
    assert objects["Service", host]["spec"]["ports"] == [{"port": int(port)}]


def test_the_image(settings: GatewaySettings) -> None:
    """It has what the configuration needs, and looks for it where the others put it."""
    image = (EXAMPLE / "Dockerfile").read_text("utf-8")
    extras = {name: set(found.split(",")) for name, found in re.findall(r'"([\w-]+)\[(.*?)\]"', image)}
    assert extras["streamfold-gateway"] == {"metrics"}
    assert "valkey" in extras["streamfold"]
    assert "STREAMFOLD_CONFIG=/etc/streamfold/streamfold.toml" in image
    assert f"EXPOSE {settings.port}" in image
    for name in ("compose.yaml", "kubernetes.yaml"):
        assert "/etc/streamfold" in (EXAMPLE / name).read_text("utf-8")


def test_the_health_of_a_gateway_that_stops_is_seen_in_time(settings: GatewaySettings) -> None:
    """Before it refuses connections, the proxy must have asked as often as it needs to."""
    found = re.search(r"check inter (\d+)s fall (\d+)", (EXAMPLE / "haproxy.cfg").read_text("utf-8"))
    assert found is not None
    assert settings.drain > int(found[1]) * int(found[2])
