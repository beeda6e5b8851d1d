"""How many tokens a request has, for clients that only want to know whether it will fit."""

from __future__ import annotations

from streamfold import APIError, BadRequestError, ConfigError
from streamfold.limits import estimated_tokens

from .api import ClientAPI, ClientRequest, ImmediateAnswer
from .http_errors import from_provider_error
from .members import with_operator_members
from .models import ModelRoute

_SECONDS = 10.0  # that a client waits for a count; it asks often


async def counted_tokens(wire: ClientAPI, member: str, asked: ClientRequest, served: ModelRoute) -> ImmediateAnswer:
    """Returns the provider's count as an answer with this member, or an estimate if the provider does not count.

    Raises:
        Refused: the provider refused the request itself.
    """
    sent, _ = with_operator_members(wire.for_provider(asked, served.adapters)[0], served.endpoints)
    request = sent.request
    why = "no provider was asked, because its API can't count tokens"
    try:
        if (number := await served.count(request, {"total": _SECONDS})) is not None:
            return ImmediateAnswer({member: number}, "counted by the provider")
    except BadRequestError as error:
        raise from_provider_error(error) from error
    except (APIError, ConfigError) as error:
        why = f"the provider could not count ({type(error).__name__})"
    return ImmediateAnswer({member: estimated_tokens(asked.request)}, f"estimated: {why}", exact=False)
