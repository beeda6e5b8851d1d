"""Three providers on loopback that answer from recordings, and write down what they were asked.

The recordings of a provider are the turns of one conversation. Which of them a request gets is told by what it brings:
the first has no results of tools, the second two, the third three.
"""

from __future__ import annotations

import argparse
import json
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from streamfold.recording import Recording

RECORDINGS = Path(__file__).resolve().parent / "recordings"
TURNS = {0: "1_two_calls", 2: "2_one_call", 3: "3_answer"}  # by the number of results


class Handler(BaseHTTPRequestHandler):
    """Answers `POST /PROVIDER/v1/...`."""

    protocol_version = "HTTP/1.1"
    written: Path | None = None

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if self.written is not None:
            with self.written.open("a", encoding="utf-8") as file:
                file.write(json.dumps({"path": self.path, "body": body}) + "\n")
        folder, turn = RECORDINGS / self.path.split("/")[1], TURNS.get(results(body))
        if turn is None or not folder.is_dir():
            self.send_error(404, f"no recording of {self.path} with {results(body)} results")
            return
        recording = Recording.load(folder / turn)
        self.send_response(recording.status)
        self.send_header("content-type", "text/event-stream")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        for line in recording.body.splitlines(keepends=True):
            self.wfile.write(b"%x\r\n%b\r\n" % (len(line), line))
        self.wfile.write(b"0\r\n\r\n")

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name is the parent's
        print(f"{self.path}: {format % args}", flush=True)


def results(body: dict[str, Any]) -> int:
    """Returns how many results of tools are in a request, on either API."""
    items: list[dict[str, Any]] = body.get("messages") or body.get("input") or []
    return sum(item.get("role") == "tool" or item.get("type") == "function_call_output" for item in items)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=8765, help="0 chooses a free port")
    parser.add_argument("--write", type=Path, help="a file for the requests, one line of JSON for each")
    given = parser.parse_args()
    Handler.written = given.write
    with ThreadingHTTPServer(("127.0.0.1", given.port), Handler) as server:
        print(f"serving on http://127.0.0.1:{server.server_port}", flush=True)
        with suppress(KeyboardInterrupt):
            server.serve_forever()


if __name__ == "__main__":
    main()
