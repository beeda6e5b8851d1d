"""The HTTP client of a provider: made when it is first needed, on the event loop that needs it."""

from __future__ import annotations

import httpx
from anyio.lowlevel import current_token

from ..config import Profile
from ..net import make_client
from ..values import StreamfoldError

__all__ = ["Connections"]


class Connections:
    """Gives out the client to send with.

    Args:
        given: the caller's own client. It is used as it is and never closed.

    Attributes:
        owned: whether the client is made here.
    """

    def __init__(self, profile: Profile, given: httpx.AsyncClient | None) -> None:
        self._profile = profile
        self._client = given
        self.owned = given is None
        self._loop: object = None  # the event loop that the connections belong to

    def client(self) -> httpx.AsyncClient:
        """Returns the client. Raises StreamfoldError if it can't be used here."""
        if self._client is not None and not self.owned:
            if self._client.is_closed:
                raise StreamfoldError(f'provider "{self._profile.name}": the http_client that it was given is closed')
            return self._client  # the caller decides on which event loops it is used
        here = current_token()
        if self._loop is not None and self._loop != here:
            raise StreamfoldError(
                f'provider "{self._profile.name}" was first used on another event loop, and its connections can\'t'
                " change loops. Make one provider for each loop, or call aclose() before"
            )
        self._loop = here
        if self._client is None:
            self._client = make_client(self._profile.transport, http2=self._profile.http2)
        return self._client

    async def aclose(self) -> None:
        """Closes the client if it was made here."""
        loop, self._loop = self._loop, None
        if self.owned and self._client is not None:
            client, self._client = self._client, None
            try:
                await client.aclose()
            except RuntimeError:
                if loop == current_token():
                    raise
                # The event loop of its connections is closed: nothing is left that could close them in order.
