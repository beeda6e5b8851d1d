"""The batch APIs of providers. A batch API accepts many requests at once, and returns their responses hours later.

Provisional: a minor version of streamfold may change or remove a name of this package without a deprecation.
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
