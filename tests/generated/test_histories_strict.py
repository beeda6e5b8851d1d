"""Made conversations and schemas at strict servers: no row may get worse than `strict_servers/figures.toml` says."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from strict_servers import Endpoint, load_endpoints, matrix, schema_matrix
from strict_servers.conversations import conversations
from strict_servers.schema_rules import SchemaEndpoint, load_schema_endpoints

# How much goes wrong, by row and kind: `python -m strict_servers.figures` counts again. All are to become 0.
FIGURES = tomllib.loads((Path(matrix.__file__).parent / "figures.toml").read_text("utf-8"))
MADE = conversations(FIGURES["conversations"])

pytestmark = [pytest.mark.thorough, pytest.mark.one_loop]


@pytest.mark.parametrize("row", load_endpoints().values(), ids=lambda row: row.name)
async def test_no_endpoint_refuses_more_histories_than_it_did(row: Endpoint) -> None:
    """Each conversation is accepted, its meaning kept, or rightly refused, but for the faults that are counted."""
    found = await matrix.faults(row, MADE)
    assert found.total() <= sum(FIGURES["histories"][row.name].values()), found


@pytest.mark.parametrize("row", load_schema_endpoints().values(), ids=lambda row: row.name)
async def test_no_endpoint_refuses_more_schemas_than_it_did(row: SchemaEndpoint) -> None:
    """Each schema is accepted and means the same, but for the faults that are counted."""
    found = await schema_matrix.faults(row)
    assert found.total() <= sum(FIGURES["schemas"][row.name].values()), found
