"""How many tokens a request has, for clients that only want to know whether it will fit."""

from __future__ import annotations

from ..requests import Request
from ..values import APIError, BadRequestError, ConfigError
from .failures import of_error
from .models import Served

_SECONDS = 10.0  # that a client waits for a count; it asks often


async def count_tokens(request: Request, served: Served) -> tuple[int | None, str]:
    """Returns the provider's count, and a note for the log; None and the reason if there is no count.

    Raises:
        Refused: the provider refused the request itself.
    """
    try:
        number = await served.count(request, {"total": _SECONDS})
    except BadRequestError as error:
        raise of_error(error) from error
    except (APIError, ConfigError) as error:
        return None, f"the provider could not count ({type(error).__name__})"
    if number is None:
        return None, "no provider was asked, because its API can't count tokens"
    return number, "counted by the provider"
