"""A user's code checks against the library in mypy's strict mode."""

from __future__ import annotations

from pathlib import Path

from mypy import api


def test_users_code_checks(monkeypatch) -> None:
    """`typing/api.py` is such code."""
    folder = Path(__file__).parents[1] / "typing"
    monkeypatch.delenv("MYPYPATH", raising=False)
    out, err, status = api.run(["--strict", "--no-incremental", "--config-file", "", str(folder / "api.py")])
    assert (status, err) == (0, ""), out
