"""curl, whose output is read line by line."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable, Iterator
from typing import Any

from answering import Heard, answer_all
from plain import PATHS, Refused, body, read

STATUS = "streamfold-status "


def ask(command: dict[str, Any], heard: Heard) -> None:
    words = ["curl", "--silent", "--show-error", "--no-buffer", "--noproxy", "*", "--max-time", "60"]
    words += ["--write-out", f"\n{STATUS}%{{http_code}} %{{content_type}}\n", "--json", json.dumps(body(command))]
    words += ["--header", f"Authorization: Bearer {command['key']}", command["base_url"] + PATHS[command["api"]]]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout
        read(command["api"], data(process.stdout), heard)
        assert process.wait() == 0


def data(lines: Iterable[str]) -> Iterator[str]:
    """What the lines of an event stream say; an answer that is none is an error."""
    others = []
    for line in lines:
        if line.startswith(STATUS) and not line.split()[1].startswith("2"):
            raise Refused(json.loads("".join(others))["error"]["message"], int(line.split()[1]))
        if line.startswith("data: "):
            yield line[6:].rstrip("\n")
        elif not line.startswith((":", "event:")):
            others.append(line)


said = subprocess.run(["curl", "--version"], capture_output=True, text=True, check=True).stdout
answer_all(ask, {"curl": said.split()[1]})
