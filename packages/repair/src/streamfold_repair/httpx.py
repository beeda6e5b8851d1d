"""Repairs the answers of models that an httpx client receives.

client = AsyncOpenAI(http_client=httpx.AsyncClient(transport=RepairTransport()))
"""

from __future__ import annotations

import httpx

from .stream_repair import Repaired
from .transport import BaseRepairTransport

__all__ = ["RepairTransport", "Repaired"]


class RepairTransport(BaseRepairTransport, httpx.AsyncBaseTransport, httpx.BaseTransport):
    """An httpx transport that repairs the answers of models. The arguments are those of `BaseRepairTransport`."""
