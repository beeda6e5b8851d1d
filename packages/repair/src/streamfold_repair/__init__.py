"""Repairs the responses of LLM APIs for existing SDKs: a transport for httpx and httpx2.

Provisional: a minor version may change or remove a name without a deprecation.
"""
