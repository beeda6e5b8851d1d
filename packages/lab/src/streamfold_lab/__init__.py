"""Tests model servers, checks whether they follow their API's documentation, and explains recorded streams.

doctor       tests a server: probes, findings, a configuration, an HTML report
conformance  checks a server against the documentation of its API
inspection   explains a recorded stream event by event; compares two streams
live         a page that shows the gateway's responses while they stream
commands     the subcommands of `streamfold` that this package adds

The package uses only public names of other streamfold packages, and has the same version number.

Experimental: every release may change or remove names.
"""

from __future__ import annotations

__all__: list[str] = []
