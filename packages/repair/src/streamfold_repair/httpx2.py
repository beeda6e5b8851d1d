"""Repairs the model responses that an httpx2 client receives. The packages openai 3 and anthropic 2 use such clients.

client = AsyncOpenAI(http_client=httpx2.AsyncClient(transport=RepairTransport()))
"""

from __future__ import annotations

import httpx2

from .stream_repair import Repaired
from .transport import BaseRepairTransport

__all__ = ["RepairTransport", "Repaired"]


class RepairTransport(BaseRepairTransport, httpx2.AsyncBaseTransport, httpx2.BaseTransport):
    """An httpx2 transport that repairs model responses. The arguments are those of `BaseRepairTransport`."""
