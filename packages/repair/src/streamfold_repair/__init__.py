"""Repairs the answers of LLM APIs below the SDKs of others: a transport for httpx and httpx2.

Provisional: a minor version may change or remove a name without a deprecation.
"""
