"""Judges and shows: what a server really does, whether it keeps to its API, and how a stream became an answer.

doctor       asks a server what it does: probes, findings, a profile, a report card
conformance  judges a server by the documentation of its API
inspection   explains a recorded stream, event by event; compares two
live         a page that shows the gateway's answers while they stream
commands     the commands of these, which `streamfold` has when this package is installed

It uses what the packages of streamfold export, and has the same version.

Experimental: it may change with every release.
"""

from __future__ import annotations

__all__: list[str] = []
