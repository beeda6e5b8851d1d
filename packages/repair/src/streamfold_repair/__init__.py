"""Repairs the responses of LLM APIs for existing SDKs, with a transport for httpx or httpx2.

Provisional: a minor version may change or remove a name without a deprecation.
"""
