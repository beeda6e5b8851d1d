"""What a served gateway says of itself to programs: who left, and that it is going to stop."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest

from folding import text
from gateways import CHAT, asking, serve_command, served_before
from servers import STREAM, Connection, framed

pytestmark = pytest.mark.one_loop  # uvicorn's


async def test_a_client_that_leaves_is_counted(caplog: pytest.LogCaptureFixture) -> None:
    """It is neither a success nor a failure."""
    caplog.set_level(logging.INFO, "streamfold.gateway.requests")

    async def script(connection: Connection) -> None:
        await connection.request()
        await connection.send(STREAM, framed(text("Hello")))
        await connection.gone()

    async with served_before(script, json_log=True) as (client, upstream, _):
        async with client.stream("POST", CHAT, json=asking(CHAT, stream=True)) as response:
            async for _ in response.aiter_bytes():
                break
        await upstream.all_closed()
        with anyio.fail_after(5):
            while not [record for record in caplog.records if record.name.endswith("requests")]:
                await anyio.sleep(0.01)
    outcome = json.loads(next(record.getMessage() for record in caplog.records if record.name.endswith("requests")))
    assert (outcome["outcome"], outcome["status"]) == ("disconnected", 499)


@pytest.mark.slow
async def test_the_command_drains(tmp_path: Path) -> None:
    """Told to stop, it goes on for a while and says that it is not ready; its log for programs is bare JSON."""
    file = tmp_path / "streamfold.toml"
    file.write_text(
        '[providers.main]\nbase_url = "http://127.0.0.1:9/v1"\nmodel = "m"\nmax_retries = 0\n'
        "[gateway]\ndrain = 2\njson_log = true\n"
    )
    async with serve_command(file) as (address, said, stop), httpx.AsyncClient(base_url=address) as client:
        assert (await client.get("/readyz")).status_code == 200
        assert (await client.post(CHAT, json=asking(CHAT))).status_code == 502
        stop()
        with anyio.fail_after(5):
            while (await client.get("/readyz")).status_code != 503:
                await anyio.sleep(0.02)
        assert (await client.get("/livez")).status_code == 200
        stop()  # the second time it does not wait
    lines: list[Any] = [json.loads(line) for line in said.decode().splitlines() if line.startswith("{")]
    assert [(line["outcome"], line["error"]) for line in lines] == [("failed", "APIConnectionError")]
