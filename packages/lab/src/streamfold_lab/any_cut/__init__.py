"""Tests tool call parsers: wherever a model's text is split, a parser must return the same tool calls."""

from __future__ import annotations

from .check import Failure, check_parser, cuts_of
from .parsers import ParsedCall, ParsedText, PieceParser, as_piece_parser, find_parser
from .report import as_markdown
from .vectors import Vector, dialects, load_vectors
