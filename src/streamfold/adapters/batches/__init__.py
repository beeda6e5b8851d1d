"""Batch APIs of providers: many requests handed over at once, and their answers fetched hours later."""

from .protocol import BatchAPI, BatchCall, BatchListing, BatchResult, BatchSettings, BatchStatus, UploadedBatchAPI
