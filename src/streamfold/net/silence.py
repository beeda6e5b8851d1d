"""Is a connection silent? Only then is it used again: whatever it still says would be the answer to the next request.

A server, or a proxy before it, may send more than it was asked for: a second response, a late one, a 408 for a
connection that it wants to close, a chunk too many. RFC 9112, 9.2, forbids to take that for a response. Those bytes may
lie in four places: in the parser of the connection's last response, in what its reader has buffered, in TLS, and in the
socket. The last two are the same for all transports.

- aiohttp: `over_aiohttp` gives the parser only what belongs to a response (`framing`). It closes a connection that has
  more to say when that arrives, and looks here before one is used again.
- httpx and httpx2: `end_unless_silent` looks here before a response is closed; httpcore itself looks at the
  socket before a connection is used again. It finds httpcore's connection below the response, so it works as well for a
  client that was passed in, if that sends with httpx's own transport.
"""

from __future__ import annotations

import select
import ssl
from typing import Any

import httpx

from .deadlines import event_loop, shut_down


def is_readable(socket: Any) -> bool:
    """Whether there is something to read from a socket, its end included. True if it is closed, or there is none."""
    if socket is None or (descriptor := socket.fileno()) < 0:
        return True
    if not hasattr(select, "poll"):
        return bool(select.select([descriptor], [], [], 0)[0])
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(0))


def has_decrypted(tls: ssl.SSLObject) -> bool:
    """Whether there is something to read in TLS that is in the socket no more. Takes it away."""
    try:
        tls.read(1)
    except ssl.SSLWantReadError:
        return False
    except ssl.SSLError:
        pass  # the end, or nothing that could be read
    return True


def end_unless_silent(response: httpx.Response) -> None:
    """Ends the connection of a response whose end was read, unless it is certain that nothing came behind that.

    Must be called before the response is closed: its pool then finds the connection readable and closes it, in the step
    in which another request could have got it.

    There is nothing to do for a response without a connection (in-memory transports), for one of aiohttp, which is
    guarded by `over_aiohttp`, and over HTTP/2, which numbers its responses. Where httpcore's connection isn't found, or
    doesn't have what is looked at, nothing is certain.
    """
    network = response.extensions.get("network_stream")
    if network is None or not response.http_version.startswith("HTTP/1"):
        return
    connection = _http11_connection(response.stream)
    if connection is None or not _is_silent(connection):
        shut_down(network.get_extra_info("socket"))


def _http11_connection(stream: Any) -> Any:
    """Returns httpcore's connection below the stream of a response; None if it isn't found.

    httpx, httpcore and our own transports put one stream around the other.
    """
    while stream is not None and not hasattr(stream, "_h11_state"):
        inside = next((name for name in ("_httpcore_stream", "_stream", "_connection") if hasattr(stream, name)), None)
        stream = None if inside is None else getattr(stream, inside)
    return stream


def _is_silent(connection: Any) -> bool:
    """Whether there is nothing in h11, in TLS, in anyio's stream, and in the socket. Not if that can't be found out."""
    try:
        network = connection._network_stream
        rest, _ = connection._h11_state.trailing_data
        stream = network._stream
        while hasattr(stream, "transport_stream"):  # TLS, perhaps inside of TLS: to an HTTPS proxy
            if has_decrypted(stream._ssl_object):
                return False
            stream = stream.transport_stream
        if event_loop() is not None and stream._protocol.read_queue:  # trio reads no more than it is asked for
            return False
        return not rest and not is_readable(network.get_extra_info("socket"))
    except AttributeError:
        return False
