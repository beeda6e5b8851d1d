"""The batch APIs of providers, which accept many requests at once and return the answers hours later.

Provisional: a minor version may change or remove a name without a deprecation.
"""

from ...public_names import set_public_module
from .base import BatchAPI, BatchListing, BatchResult, BatchSettings, BatchStatus, EndpointRequest, UploadedBatchAPI

__all__ = [
    "BatchAPI",
    "BatchListing",
    "BatchResult",
    "BatchSettings",
    "BatchStatus",
    "EndpointRequest",
    "UploadedBatchAPI",
]

set_public_module(__name__, [globals()[name] for name in __all__])
