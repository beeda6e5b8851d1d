"""Cells of a real Jupyter kernel: `await` in a cell, the synchronous provider beside the running loop, an interrupt."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("ipykernel")
manager = pytest.importorskip("jupyter_client.manager")

SETUP = """
import warnings
warnings.simplefilter("error", ResourceWarning)
import streamfold, streamfold.sync
from streamfold.testing import ScriptedProvider, call, pause
"""


@pytest.fixture
def run() -> Iterator[Any]:
    """Runs a cell in a kernel of its own. Returns what it printed, its value, and the name of the error it raised."""
    kernel, client = manager.start_new_kernel(startup_timeout=120)

    def execute(code: str, *, interrupt_after: str | None = None) -> tuple[str, str, str]:
        shown, interrupted = {"text": "", "value": "", "error": ""}, False

        def listen(message: Any) -> None:
            nonlocal interrupted
            content = message["content"]
            match message["msg_type"]:
                case "stream":
                    shown["text"] += content["text"]
                    if interrupt_after and interrupt_after in shown["text"] and not interrupted:
                        interrupted = True
                        kernel.interrupt_kernel()
                case "execute_result":
                    shown["value"] = content["data"]["text/plain"]
                case "error":
                    shown["error"] = content["ename"]

        client.execute_interactive(code, timeout=120, output_hook=listen)
        return shown["text"], shown["value"], shown["error"]

    try:
        yield execute
    finally:
        client.stop_channels()
        kernel.shutdown_kernel(now=True)


@pytest.mark.filterwarnings("ignore::ResourceWarning:jupyter_client", "ignore::DeprecationWarning")
def test_cells(run: Any) -> None:
    """Both ways of asking work in one notebook, and an interrupted cell leaves the provider usable."""
    assert run(SETUP) == ("", "", "")
    assert run("provider = ScriptedProvider(then='Hello from a cell.')\n(await provider.chat('Hi')).text") == (
        "", "'Hello from a cell.'", ""
    )  # fmt: skip
    streaming = "async for chunk in provider.chat_stream('Hi'):\n    print(chunk.delta, end='')"
    assert run(streaming)[0] == "Hello from a cell."
    model = "turns = iter([['one ', pause(3600), 'two'], ['again']])\n"
    model += "plain = streamfold.sync.Provider(ScriptedProvider(then=lambda _: next(turns)))\n"
    cut = "for chunk in plain.chat_stream('Hi'):\n    print(chunk.delta, end='', flush=True)"
    assert run(model + cut, interrupt_after="one ")[::2] == ("one ", "KeyboardInterrupt")
    assert run("plain.chat('Hi').text")[1:] == ("'again'", "")
    assert run("plain.close()") == ("", "", "")
