"""Creates HTML pages that work without a network, a server or other files.

A page contains a JSON block with its data, and a script that displays the data. Text from a server can't become HTML
markup: the JSON block escapes all characters that have a meaning in HTML, and the script never creates HTML from text.
The page's content security policy allows only the page's own script and style, by their hashes.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
from collections.abc import Sequence
from importlib.resources import files
from string import Template
from typing import Any

from streamfold.serving import replace_non_finite

# Only `<` must be escaped inside <script>. The others are escaped in case the JSON is pasted elsewhere.
_ESCAPES = {ord(char): f"\\u{ord(char):04x}" for char in "<>&\u2028\u2029"}


def document(
    body: str,
    *,
    command: str,
    title: str,
    style: str,
    script: str,
    framed: Sequence[tuple[str, str]] = (),
    connects: bool = False,
) -> tuple[str, str]:
    """Returns the HTML of a page in two strings. Write them to a file as UTF-8, with a `json_block` between them.

    Args:
        body: the HTML of the page's `<body>`.
        command: the subcommand of `streamfold` that creates the page; the page's title contains it.
        framed: the style and script of each page in an iframe, which the content security policy must allow.
        connects: true if the page requests more data from its own server.
    """
    styles, scripts = [style, *(style for style, _ in framed)], [script, *(script for _, script in framed)]
    sources = f"script-src {' '.join(map(_hash, scripts))}; style-src {' '.join(map(_hash, styles))}"
    policy = f"default-src 'none'; {sources}; img-src data:; base-uri 'none'; form-action 'none'"
    values = {
        "policy": policy + "; connect-src 'self'" * connects,
        "command": command,
        "title": html.escape(_encodable(title)),
        "style": style,
        "body": body,
        "script": script,
    }
    before, _, after = files(__package__).joinpath("assets", "document.html").read_text("utf-8").partition("$data")
    return Template(before).substitute(values), Template(after).substitute(values)


def _hash(text: str) -> str:
    return "'sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() + "'"


def json_block(value: Any) -> str:
    """Returns a value as JSON for a data block of an HTML page, without characters that have a meaning in HTML."""
    text = json.dumps(replace_non_finite(value), ensure_ascii=False, separators=(",", ":"))
    return _encodable(text.translate(_ESCAPES))


def _encodable(text: str) -> str:
    """Escapes unpaired surrogates, which UTF-8 can't encode. JSON parsers read the escape as the same character."""
    return text.encode("utf-8", "backslashreplace").decode()
