"""Turns in Valkey or Redis, for several gateways that answer the same clients. Needs the extra `valkey`."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import anyio.to_thread

from ..stores import close_in_thread, shown_server, valkey_client
from .store import Retention

__all__ = ["ValkeyTurnStore"]

# The names of all keys have a common tag, so that they are on one node of a cluster and a script may use them together.
_PREFIX = "{streamfold}:"

# Times are the server's own, so that the clocks of the gateways do not matter. ARGV: age in ms, prefix, keys.
_GET = """
local now = redis.call('TIME')
local found = {}
for i = 3, #ARGV do
    local value = redis.call('GET', ARGV[2] .. ARGV[i])
    if value then
        redis.call('PEXPIRE', ARGV[2] .. ARGV[i], ARGV[1])
        redis.call('ZADD', KEYS[1], 'XX', now[1] * 1000 + math.floor(now[2] / 1000), ARGV[i])
    end
    found[i - 2] = value
end
return found
"""
# ARGV: age in ms, prefix, entries, bytes, and then keys and values by turns.
_PUT = """
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local function drop(key)
    redis.call('DECRBY', KEYS[3], redis.call('HGET', KEYS[2], key) or 0)
    redis.call('HDEL', KEYS[2], key)
    redis.call('ZREM', KEYS[1], key)
    redis.call('DEL', ARGV[2] .. key)
end
for i = 5, #ARGV, 2 do
    drop(ARGV[i])
    redis.call('SET', ARGV[2] .. ARGV[i], ARGV[i + 1], 'PX', ARGV[1])
    redis.call('ZADD', KEYS[1], now, ARGV[i])
    redis.call('HSET', KEYS[2], ARGV[i], #ARGV[i] + #ARGV[i + 1])
    redis.call('INCRBY', KEYS[3], #ARGV[i] + #ARGV[i + 1])
end
for _, key in ipairs(redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', now - ARGV[1])) do drop(key) end
while redis.call('ZCARD', KEYS[1]) > tonumber(ARGV[3])
    or tonumber(redis.call('GET', KEYS[3]) or 0) > tonumber(ARGV[4]) do
    local oldest = redis.call('ZRANGE', KEYS[1], 0, 0)[1]
    if not oldest then break end
    drop(oldest)
end
"""


class ValkeyTurnStore:
    """Keeps turns on a Valkey or Redis server. Connections are opened when they are first needed, and used in threads.

    Args:
        url: `valkey://` or `redis://`, with TLS `valkeys://` or `rediss://`. Never shown: it may have a password.
        retention: how much is kept, by all that use the same database together.
        timeout: seconds for a connection or an answer. Without either, the model answers without the cache.
        name: what is kept. Stores with other names have other entries and sizes.

    Raises:
        ConfigError: the extra is missing, or the URL can't be used.
    """

    def __init__(
        self, url: str, retention: Retention | None = None, *, timeout: float = 2.0, name: str = "turns"
    ) -> None:
        self._retention = retention or Retention()
        self._server = shown_server(url)
        self._client = valkey_client(url, "the store of turns", timeout=timeout)
        self._get_script = self._client.register_script(_GET)
        self._put_script = self._client.register_script(_PUT)
        self._age = max(1, round(self._retention.age * 1000))
        self._prefix = f"{_PREFIX}{name}:"
        self._keys = [self._prefix + key for key in ("by-use", "sizes", "size")]

    async def get(self, keys: Collection[str]) -> Mapping[str, bytes]:
        """Returns the values of those keys that are known. Raises valkey.ValkeyError."""
        asked = list(keys)
        arguments: list[Any] = [self._age, self._prefix, *asked]
        values = await anyio.to_thread.run_sync(lambda: self._get_script(self._keys[:1], arguments))
        return {key: value for key, value in zip(asked, values, strict=False) if value is not None}

    async def put(self, entries: Mapping[str, bytes]) -> None:
        """Keeps entries. A key that is known gets the new value. Raises valkey.ValkeyError."""
        pairs = [part for pair in entries.items() for part in pair]
        bounds: list[Any] = [self._age, self._prefix, 2 * self._retention.entries, self._retention.size]
        await anyio.to_thread.run_sync(lambda: self._put_script(self._keys, [*bounds, *pairs]))

    async def aclose(self) -> None:
        """Closes the connections."""
        await close_in_thread(self._client.close)

    def __repr__(self) -> str:
        return f"<ValkeyTurnStore {self._server}>"
