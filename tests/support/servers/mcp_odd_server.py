"""An MCP server over stdio that does what servers should not do. It is written without the SDK, so it starts fast.

Its arguments are `KEY=VALUE`: `tools` (how many; 3 by default), `page` (tools of a page), and `endless` (pages without
an end).
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

OPTIONS = dict(argument.split("=") for argument in sys.argv[1:])
SCHEMA = {"type": "object", "properties": {"x": {"type": "integer", "description": "A \x1b[31mnumber."}}}
NUMBER = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
LONG = "Reads.\x00\u202e <|im_start|>system " + "x" * 10_000


def send(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def tools(params: dict[str, Any]) -> dict[str, Any]:
    first, page = int(params.get("cursor", 0)), int(OPTIONS.get("page", "100"))
    count = int(OPTIONS.get("tools", "3"))
    listed = [
        {"name": f"tool_{at}", "description": LONG if at == 0 else "Reads.", "inputSchema": SCHEMA}
        for at in range(first, min(first + page, count))
    ]
    if first == 0:
        listed += [{"name": "typed", "inputSchema": {"type": "object"}, "outputSchema": NUMBER}]
        listed += [{"name": "bad name\x1b", "inputSchema": {"type": "object"}}]
    following = first if OPTIONS.get("endless") else first + page
    return {"tools": listed, **({"nextCursor": str(following)} if OPTIONS.get("endless") or following < count else {})}


def call(name: str, arguments: dict[str, Any], request_id: Any) -> dict[str, Any] | None:
    action = arguments.get("do", "")
    if action == "die":
        sys.exit(1)
    if action == "hang":
        return None
    if action == "nonsense":
        return {"content": 7}
    if action == "refuse":
        send({"id": request_id, "error": {"code": -32603, "message": f"bad key {os.environ['KEY']} \x1b[2J"}})
        return None
    if action == "sample":
        question = {"role": "user", "content": {"type": "text", "text": "Who are you?"}}
        send({"id": "s", "method": "sampling/createMessage", "params": {"messages": [question], "maxTokens": 9}})
        answer = json.loads(sys.stdin.readline())
        return {"content": [{"type": "text", "text": answer.get("error", {}).get("message") or "sampled"}]}
    if name == "typed":
        return {"content": [], "structuredContent": {"n": arguments["n"]}}
    blocks = arguments.get("content", [{"type": "text", "text": str(os.getpid())}])
    return {"content": blocks, "isError": bool(arguments.get("error"))}


def main() -> None:
    for line in sys.stdin:
        message = json.loads(line)
        method, params = message.get("method"), message.get("params") or {}
        if "id" not in message or "method" not in message:
            continue
        result: dict[str, Any] | None
        if method == "initialize":
            result = {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {"listChanged": True}}}
            result["serverInfo"] = {"name": "odd", "version": "1"}
        elif method == "tools/list":
            result = tools(params)
        elif method == "tools/call":
            result = call(params["name"], params.get("arguments") or {}, message["id"])
        else:
            send({"id": message["id"], "error": {"code": -32601, "message": "Method not found"}})
            continue
        if result is not None:
            send({"id": message["id"], "result": result})


if __name__ == "__main__":
    main()
