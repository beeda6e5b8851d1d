"""Creates HTML pages that work without network, server or other files.

A page contains its data as a JSON block, and a script draws it. Text from a server can't become markup: the data block
has no character that HTML could read as markup, and the script never creates HTML from text. The content security
policy allows only the page's own script and style, by their hashes.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
from collections.abc import Iterable, Sequence
from importlib.resources import files
from string import Template
from typing import Any

from streamfold.serving import replace_non_finite

# Inside <script> only `<` matters; the others are escaped in case the JSON is pasted elsewhere.
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
    """Returns the HTML before and after the page's data, which `json_block` creates. Write the page as UTF-8.

    Args:
        body: the HTML of the body.
        command: the command that creates such pages, for the title.
        framed: the styles and scripts of embedded pages (iframes), which the content security policy must also allow.
        connects: true if the page requests more data from its own server.
    """
    styles, scripts = [style, *(style for style, _ in framed)], [script, *(script for _, script in framed)]
    values = {
        "policy": _policy(styles, scripts) + "; connect-src 'self'" * connects,
        "command": command,
        "title": html.escape(_encodable(title)),
        "style": style,
        "body": body,
        "script": script,
    }
    before, _, after = files(__package__).joinpath("assets", "document.html").read_text("utf-8").partition("$data")
    return Template(before).substitute(values), Template(after).substitute(values)


def _policy(styles: Iterable[str], scripts: Iterable[str]) -> str:
    """Returns a content security policy that allows these styles and scripts, by their hashes, and nothing else."""
    return "; ".join(
        (
            "default-src 'none'",
            f"script-src {' '.join(map(_hash, scripts))}",
            f"style-src {' '.join(map(_hash, styles))}",
            "img-src data:",
            "base-uri 'none'",
            "form-action 'none'",
        )
    )


def _hash(text: str) -> str:
    return "'sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() + "'"


def json_block(value: Any) -> str:
    """Returns JSON for a data block of a page: no character in it can be read as markup."""
    text = json.dumps(replace_non_finite(value), ensure_ascii=False, separators=(",", ":"))
    return _encodable(text.translate(_ESCAPES))


def _encodable(text: str) -> str:
    """Escapes unpaired surrogates, which UTF-8 can't encode. In JSON, the escape has the same meaning."""
    return text.encode("utf-8", "backslashreplace").decode()
