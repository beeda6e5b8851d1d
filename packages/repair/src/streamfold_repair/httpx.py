"""Repairs the model responses that an httpx client receives.

client = AsyncOpenAI(http_client=httpx.AsyncClient(transport=RepairTransport()))
"""

from __future__ import annotations

import httpx

from .stream_repair import Repaired
from .transport import BaseRepairTransport

__all__ = ["RepairTransport", "Repaired"]


class RepairTransport(BaseRepairTransport, httpx.AsyncBaseTransport, httpx.BaseTransport):
    """An httpx transport that repairs model responses. The arguments are those of `BaseRepairTransport`."""
