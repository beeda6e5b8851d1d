"""What commands share: output that is exact on a pipe and harmless on a terminal, options, and how failures end.

Provisional: a minor version may change or remove a name without a deprecation.
"""

from __future__ import annotations

from .errors import print_error, reported_errors
from .options import AdapterName, DialectNames, File, read_json
from .output import console, escape_control_characters, prepare_streams, print_json, print_rows, print_status

__all__ = [
    "AdapterName",
    "DialectNames",
    "File",
    "console",
    "escape_control_characters",
    "prepare_streams",
    "print_error",
    "print_json",
    "print_rows",
    "print_status",
    "read_json",
    "reported_errors",
]
