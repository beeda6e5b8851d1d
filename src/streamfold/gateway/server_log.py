"""What a served gateway logs, on one line each: uvicorn's records with ours beside them."""

from __future__ import annotations

import logging
from copy import deepcopy
from typing import Any

from .logs import one_line


def log_config() -> dict[str, Any]:
    """Returns uvicorn's configuration of logging with ours beside it, every record on one line."""
    from uvicorn.config import LOGGING_CONFIG

    made: dict[str, Any] = deepcopy(LOGGING_CONFIG)
    made["filters"] = {"one_line": {"()": OneLine}}
    made["filters"]["without_query"] = {"()": WithoutQuery}
    for handler in made["handlers"].values():
        handler["filters"] = ["one_line"]
    made["handlers"]["access"]["filters"].append("without_query")
    # Retries and warnings of the client library are in the gateway's own lines too, with the request's id.
    made["loggers"]["streamfold"] = {"handlers": ["default"], "level": "ERROR", "propagate": False}
    made["loggers"]["streamfold.gateway"] = {"level": "INFO"}
    # For programs: each line is a JSON object, and nothing else.
    made["formatters"]["bare"] = {"format": "%(message)s"}
    made["handlers"]["bare"] = {"class": "logging.StreamHandler", "stream": "ext://sys.stdout", "formatter": "bare"}
    made["loggers"]["streamfold.gateway.requests"] = {"handlers": ["bare"], "level": "INFO", "propagate": False}
    return made


class OneLine(logging.Filter):
    """Escapes line ends and control characters in the messages of other modules, which quote providers."""

    def filter(self, record: logging.LogRecord) -> bool:
        if record.name.startswith("streamfold"):
            record.msg, record.args = one_line(record.getMessage()), ()
        return True


class WithoutQuery(logging.Filter):
    """Leaves the query out of uvicorn's lines about requests: Google's clients may send their key in it."""

    def filter(self, record: logging.LogRecord) -> bool:
        if isinstance(record.args, tuple):
            record.args = tuple(arg.partition("?")[0] if isinstance(arg, str) else arg for arg in record.args)
        return True
