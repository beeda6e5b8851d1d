"""Draws `docs/assets/stream.svg`: events of a stream with interleaved calls on the left, our chunks on the right.

`nox -s picture` runs it; `tests/project/test_docs.py` fails when the picture is older than what it is made from. It
plays once, and shows its end at once to people who asked for less motion.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from html import escape
from pathlib import Path
from textwrap import wrap

from streamfold import StreamDecoder
from streamfold.recording import Recording

__all__ = ["picture"]

ROOT = Path(__file__).parents[1]
FILE = ROOT / "docs" / "assets" / "stream.svg"
FIXTURE = ROOT / "fixtures" / "demo" / "parallel_calls.sse"
STEP, LINE, SHOWN, TOP, WRAP = 0.13, 21, 17, 76, 44  # seconds an event, pixels a line, lines, first line, columns
COLOURS = ["#7dd3fc", "#fca5a5", "#86efac"]  # of the calls, by index

_HEAD = """\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 960 440" role="img" aria-labelledby="t d" \
font-family="ui-monospace, SFMono-Regular, Menlo, Consolas, monospace" font-size="14">
<title id="t">A stream, and what streamfold makes of it</title>
<desc id="d">Fragments of three tool calls arrive interleaved; text is handed on at once, \
and the calls once, whole, on the last chunk.</desc>
<style>
text{fill:#e2e8f0;white-space:pre}.h{fill:#94a3b8;font-size:13px}.dim{fill:#94a3b8}
.a{animation:in .2s both}.o{animation:out .2s both}.s{animation:up linear both}
@keyframes in{from{opacity:0}}@keyframes out{to{opacity:0}}@keyframes up{from{transform:none}}
@media (prefers-reduced-motion:reduce){.a,.s{animation:none}.o{display:none}}
</style>
<defs><clipPath id="c"><rect x="0" y="58" width="470" height="364"/></clipPath></defs>
<rect width="960" height="440" rx="12" fill="#0f172a"/>
<rect x="478" y="24" width="2" height="392" fill="#1e293b"/>
<text class="h" x="24" y="40">what the server sends</text><text class="h" x="504" y="40">what you read</text>"""


def picture() -> str:
    """The whole file."""
    lines = list(_api_lines())
    end = len(lines) * STEP
    scrolled = max(0, len(lines) - SHOWN)
    left = [
        f'<text class="a" style="animation-delay:{at * STEP:.2f}s" x="24" y="{TOP + at * LINE}">{line}</text>'
        for at, (line, _) in enumerate(lines)
    ]
    motion = f"animation-duration:{scrolled * STEP:.2f}s;animation-delay:{SHOWN * STEP:.2f}s"
    moved = f'<g class="s" style="{motion};transform:translateY({-scrolled * LINE}px)">'
    parts = [_HEAD, '<g clip-path="url(#c)">', moved, *left, "</g></g>", *_chunks([said for _, said in lines], end)]
    return "\n".join([*parts, "</svg>"]) + "\n"


def _api_lines() -> Iterator[tuple[str, str]]:
    """The events that have text or a piece of a call: the line for each, and the text in it."""
    for line in FIXTURE.read_text("utf-8").splitlines():
        if not line.startswith("data: {"):
            continue
        delta = json.loads(line[6:])["choices"][0]["delta"]
        if said := delta.get("content"):
            yield f'<tspan class="dim">content</tspan> {escape(json.dumps(said, ensure_ascii=False))}', said
        for entry in delta.get("tool_calls") or ():
            function, colour = entry["function"], COLOURS[entry["index"]]
            words = function.get("name") or json.dumps(function.get("arguments", ""), ensure_ascii=False)
            member = "name" if function.get("name") else "arguments"
            where = f'<tspan class="dim">tool_calls[{entry["index"]}] {member}</tspan>'
            yield f'{where} <tspan style="fill:{colour}">{escape(words)}</tspan>', ""


def _chunks(said: list[str], end: float) -> Iterator[str]:
    row, column = 0, 0
    yield f'<text class="dim" x="504" y="{TOP}">chunk.delta</text>'
    for at, words in enumerate(said):
        if words and column + len(words) > WRAP:
            row, column = row + 1, 0
        if words:
            place = f'x="{504 + column * 8.43:.0f}" y="{TOP + 26 + row * LINE}"'
            yield f'<text class="a" style="animation-delay:{at * STEP:.2f}s" {place}>{escape(words)}</text>'
            column += len(words)
    top = TOP + 26 + (row + 2) * LINE
    yield f'<text class="dim" x="504" y="{top}">chunk.tool_calls</text>'
    waiting = f'class="o" style="animation-delay:{end:.2f}s" x="504" y="{top + 26}"'
    yield f"<text {waiting}>None, until the stream has ended</text>"
    later = f'class="a" style="animation-delay:{end + 0.3:.2f}s"'
    decoder = StreamDecoder(Recording.load(FIXTURE).adapter or "chat")
    chunks = [*decoder.feed(FIXTURE.read_bytes()), *decoder.close()]
    y = top + 26
    for call, colour in zip(chunks[-1].tool_calls or (), COLOURS, strict=True):
        yield f'<g {later}><text x="504" y="{y}" style="fill:{colour}">{escape(call.name)}</text>'
        for words in wrap(json.dumps(call.arguments, ensure_ascii=False), WRAP + 6):
            y += LINE
            yield f'<text x="520" y="{y}">{escape(words)}</text>'
        yield "</g>"
        y += LINE + 8
    yield f'<text {later} x="504" y="418">finished, finish_reason {chunks[-1].finish_reason!r}: once, whole</text>'


if __name__ == "__main__":
    FILE.write_text(picture(), "utf-8")
