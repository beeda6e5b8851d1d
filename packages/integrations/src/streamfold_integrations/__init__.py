"""Adapters with which other frameworks use streamfold. Import the module for your framework.

    langchain      a chat model for LangChain
    pydantic_ai    a model for pydantic-ai
    aisdk, agui    the UI message stream of the AI SDK, and AG-UI, for your own endpoint
    otel           spans and metrics of OpenTelemetry

Provisional: a minor version may change or remove a name without a deprecation.
"""
