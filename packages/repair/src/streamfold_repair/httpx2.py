"""Repairs the answers of models below an httpx2 client, as openai 3 and anthropic 2 have it.

client = AsyncOpenAI(http_client=httpx2.AsyncClient(transport=RepairTransport()))
"""

from __future__ import annotations

import httpx2

from .stream_repair import Repaired
from .transport import BaseRepairTransport

__all__ = ["RepairTransport", "Repaired"]


class RepairTransport(BaseRepairTransport, httpx2.AsyncBaseTransport, httpx2.BaseTransport):
    """A transport for httpx2 that repairs the answers of models. The arguments are those of `BaseRepairTransport`."""
