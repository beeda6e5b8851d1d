"""Draws `docs/assets/gateway.svg`: clients, the gateway with its APIs and settings, and providers of any API.

`nox -s picture` runs it; `tests/project/test_docs.py` fails when the picture is older than this script.
"""

from __future__ import annotations

from html import escape
from pathlib import Path

__all__ = ["picture"]

FILE = Path(__file__).parents[1] / "docs" / "assets" / "gateway.svg"
CLIENTS = [
    ("OpenAI SDKs, opencode", "/v1/chat/completions"),
    ("Codex, OpenAI's Agents SDK", "/v1/responses"),
    ("Claude Code, Anthropic's SDKs", "/v1/messages"),
    ("Gemini CLI, google-genai", "/v1beta/models/..., /interactions"),
]
INSIDE = ["keys, limits, budgets", "stored responses", "turn cache", "metrics, log"]
PROVIDERS = [
    ("Chat Completions", "kimi, deepseek, vllm, ..."),
    ("Responses", "openai, azure, xai, ..."),
    ("Messages", "anthropic, bedrock, ..."),
    ("Gemini, Interactions", "gemini, vertex, ..."),
]
_HEAD = """\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 1000 300" role="img" aria-labelledby="t d" \
font-family="system-ui, sans-serif" font-size="14">
<title id="t">The gateway between clients and providers</title>
<desc id="d">Clients use one of five APIs; the gateway calls any provider, whichever API it has.</desc>
<style>
text{fill:#e2e8f0}.m{font-family:ui-monospace,Menlo,Consolas,monospace;font-size:12px;fill:#94a3b8}
.h{fill:#94a3b8;font-size:12px;letter-spacing:.05em}.l{stroke:#64748b;stroke-width:1.5;fill:none}
</style>
<rect width="1000" height="300" rx="12" fill="#0f172a"/>
<text class="h" x="30" y="34">CLIENTS</text>
<text class="h" x="400" y="34">GATEWAY</text>
<text class="h" x="690" y="34">PROVIDERS</text>
<rect x="390" y="50" width="220" height="226" rx="10" fill="#1e3a8a"/>
<text x="410" y="84" font-weight="600">streamfold serve</text>
"""


def picture() -> str:
    """Returns the picture as SVG."""
    parts = [_HEAD]
    for row, ((client, path), (api, names)) in enumerate(zip(CLIENTS, PROVIDERS, strict=True)):
        y = 50 + row * 58
        for x, title, detail in ((30, client, path), (690, api, names)):
            parts.append(f'<rect x="{x}" y="{y}" width="280" height="50" rx="8" fill="#1e293b"/>\n')
            parts.append(f'<text x="{x + 14}" y="{y + 21}">{escape(title)}</text>\n')
            parts.append(f'<text class="m" x="{x + 14}" y="{y + 39}">{escape(detail)}</text>\n')
        parts.append(f'<path class="l" d="M310 {y + 25}H390M610 {y + 25}H690"/>\n')
    for row, words in enumerate(INSIDE):
        parts.append(f'<text x="410" y="{124 + row * 30}">{escape(words)}</text>\n')
    return "".join([*parts, "</svg>\n"])


if __name__ == "__main__":
    FILE.write_text(picture(), "utf-8")
    print(f"wrote {FILE}")
