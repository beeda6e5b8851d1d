"""Judges and shows: what a server really does, whether it keeps to its wire, and how a stream became an answer.

doctor       asks a server what it does: probes, findings, a profile, a report card
conformance  judges a server by the documentation of its wire
inspection   explains a recorded stream, event by event; compares two
live         a page that shows the gateway's answers while they stream
commands     the commands of these, which `streamfold` has when this package is installed

Of streamfold it uses what the faces of its rooms hand out, and it has the same version.

Experimental: it may change with every release.
"""

from __future__ import annotations

__all__: list[str] = []
