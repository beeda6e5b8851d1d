"""What a served gateway logs, on one line each: uvicorn's records with ours beside them."""

from __future__ import annotations

import logging
import sys
from copy import deepcopy
from http import HTTPStatus
from typing import Any

from .logs import one_line

_OF_ACCESS = 5  # what uvicorn says of a request
_PHRASES: dict[object, str] = {status.value: status.phrase for status in HTTPStatus}


def log_config() -> dict[str, Any]:
    """Returns uvicorn's configuration of logging with ours beside it, every record on one line."""
    from uvicorn.config import LOGGING_CONFIG

    made: dict[str, Any] = deepcopy(LOGGING_CONFIG)
    if not sys.stderr.isatty() and not sys.stdout.isatty():  # there are no colours
        made["formatters"] = {"default": {"()": PlainLine}, "access": {"()": PlainLine}}
    made["filters"] = {"one_line": {"()": OneLine}}
    made["filters"]["without_query"] = {"()": WithoutQuery}
    for handler in made["handlers"].values():
        handler["filters"] = ["one_line"]
    made["handlers"]["access"]["filters"].append("without_query")
    # Retries and warnings of the client library are in the gateway's own lines too, with the request's id.
    made["loggers"]["streamfold"] = {"handlers": ["default"], "level": "ERROR", "propagate": False}
    made["loggers"]["streamfold.gateway"] = {"level": "INFO"}
    for name in ("stores", "limits"):  # one that can't be used, and one that is back, belong to no request
        made["loggers"][f"streamfold.{name}"] = {"level": "WARNING"}
    # For programs: each line is a JSON object, and nothing else.
    made["formatters"]["bare"] = {"format": "%(message)s"}
    made["handlers"]["bare"] = {"class": "logging.StreamHandler", "stream": "ext://sys.stdout", "formatter": "bare"}
    made["loggers"]["streamfold.gateway.requests"] = {"handlers": ["bare"], "level": "INFO", "propagate": False}
    return made


def log_quickly() -> None:
    """Has records be made without what no line here shows: where they come from, the thread, the process.

    For processes that have nothing else to do than to serve: it holds for all loggers
    (https://docs.python.org/3/howto/logging.html#optimization).
    """
    for name in ("logThreads", "logProcesses", "logMultiprocessing", "logAsyncioTasks"):
        setattr(logging, name, False)
    logging._srcfile = None


class PlainLine(logging.Formatter):
    """The lines of uvicorn's formatters without colours, which copy each record twice to make one."""

    def format(self, record: logging.LogRecord) -> str:
        """Returns the line, and the traceback behind it if there is one."""
        if record.name == "uvicorn.access" and isinstance(record.args, tuple) and len(record.args) == _OF_ACCESS:
            client, method, path, version, status = record.args
            said = f'{client} - "{method} {path} HTTP/{version}" {status} {_PHRASES.get(status, "")}'
        elif record.exc_info or record.stack_info:
            said = super().format(record)
        else:
            said = record.getMessage()
        return f"{record.levelname + ':':<9} {said}"


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
