"""Batch APIs of providers: many requests handed over at once, and their answers fetched hours later."""

from .base import BatchAPI, BatchListing, BatchResult, BatchSettings, BatchStatus, EndpointRequest, UploadedBatchAPI
