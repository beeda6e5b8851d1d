"""`ValkeyStore`: a store in Valkey or Redis, for processes on several machines. Needs the extra `valkey`."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from contextlib import suppress
from hashlib import sha256
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

from ..errors import ConfigError
from .store import Retention, full, split_key
from .threaded import PATIENCE, ThreadedStore

if TYPE_CHECKING:
    import valkey

_logger = logging.getLogger("streamfold.stores")

_UNVERIFIED = ("ssl_cert_reqs", "ssl_check_hostname")

# All keys have a common tag, so that they are on one node of a cluster and a script may use them together. If the
# server is full or has lost its replicas, values can be read although the time of use can't be stored (`pcall`). Times
# come from the server's clock, so that the clocks of the processes don't matter.
# ARGV[1]: the prefix of all keys, [2]: the age in ms, [3]: the name of this opening, or "", [4]: the owner.
_COMMON = """
local P, age, me, owner = ARGV[1], tonumber(ARGV[2]), ARGV[3], ARGV[4]
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
if me ~= '' then redis.pcall('SET', P .. 'open:' .. me, '1', 'PX', 15000) end
local function record(owner, key) return P .. 'record:' .. owner .. ':' .. key end
local function touch(write, owner, key, at)
    write('ZADD', P .. 'used', at, owner .. ':' .. key)
    write('ZADD', P .. 'used:' .. owner, at, key)
    if evicts then write('PEXPIRE', record(owner, key), age + math.max(0, at - now)) end
end
local function used(owner, key)
    local at = tonumber(redis.call('ZSCORE', P .. 'used:' .. owner, key) or '')
    if not at or at < now - age or redis.call('EXISTS', record(owner, key)) == 0 then return false end
    return at
end
local function drop(owner, key)
    local size = tonumber(redis.call('HGET', P .. 'sizes', owner .. ':' .. key) or '')
    redis.call('DEL', record(owner, key))
    if not size then return false end
    redis.call('HDEL', P .. 'sizes', owner .. ':' .. key)
    redis.call('ZREM', P .. 'used', owner .. ':' .. key)
    redis.call('ZREM', P .. 'used:' .. owner, key)
    redis.call('DECRBY', P .. 'size', size)
    redis.call('ZINCRBY', P .. 'owner-sizes', -size, owner)
    if tonumber(redis.call('ZINCRBY', P .. 'owner-entries', -1, owner)) <= 0 then
        redis.call('ZREM', P .. 'owner-entries', owner)
        redis.call('ZREM', P .. 'owner-sizes', owner)
    end
    return true
end
"""
# ARGV[5...]: name and part of each key.
_GET = """
local found, seen = {}, {}
for i = 5, #ARGV, 2 do
    local key = ARGV[i]
    if seen[key] == nil then
        seen[key] = used(owner, key)
        if seen[key] and seen[key] < now then touch(redis.pcall, owner, key, now) end
    end
    found[#found + 1] = seen[key] and redis.call('HGET', record(owner, key), ARGV[i + 1])
end
return found
"""
# ARGV[5]: entries, [6]: bytes, [7]: "1" for new values alone, [8]: ahead in ms, [9...]: name, part and value of each.
_PUT = """
local entries, bytes, at = tonumber(ARGV[5]), tonumber(ARGV[6]), now + tonumber(ARGV[8])
-- A server that is full refuses the first write of a script, but none behind one that frees memory.
local written = redis.pcall('INCRBY', P .. 'size', 0)
for i = 9, #ARGV, 3 do
    if ARGV[7] == '1' and used(owner, ARGV[i])
        and redis.call('HEXISTS', record(owner, ARGV[i]), ARGV[i + 1]) == 1 then return 0 end
end
for _, id in ipairs(redis.call('ZRANGEBYSCORE', P .. 'used', '-inf', '(' .. (now - age))) do
    local owner, key = string.match(id, '^([^:]*):(.*)$')
    drop(owner, key)
end
if type(written) == 'table' then return written end
if not evicts then
    local number, size, seen = redis.call('ZCARD', P .. 'used'), tonumber(redis.call('GET', P .. 'size') or 0), {}
    for i = 9, #ARGV, 3 do
        local key, part, value = ARGV[i], ARGV[i + 1], ARGV[i + 2]
        if not seen[key] and redis.call('HEXISTS', P .. 'sizes', owner .. ':' .. key) == 0 then
            number, size = number + 1, size + #key
        end
        seen[key] = true
        size = size + #value - redis.call('HSTRLEN', record(owner, key), part)
        if redis.call('HEXISTS', record(owner, key), part) == 0 then size = size + #part end
    end
    if number > entries or size > bytes then return -1 end
end
for i = 9, #ARGV, 3 do
    local key, part, value = ARGV[i], ARGV[i + 1], ARGV[i + 2]
    local id, grown = owner .. ':' .. key, 0
    if redis.call('EXISTS', record(owner, key)) == 0 then drop(owner, key) end
    if redis.call('HEXISTS', P .. 'sizes', id) == 0 then
        grown = #key
        redis.call('ZINCRBY', P .. 'owner-entries', 1, owner)
    end
    if redis.call('HEXISTS', record(owner, key), part) == 1 then
        grown = grown + #value - redis.call('HSTRLEN', record(owner, key), part)
    else
        grown = grown + #part + #value
    end
    redis.call('HSET', record(owner, key), part, value)
    redis.call('HINCRBY', P .. 'sizes', id, grown)
    redis.call('ZINCRBY', P .. 'owner-sizes', grown, owner)
    redis.call('INCRBY', P .. 'size', grown)
    touch(redis.call, owner, key, at)
end
while true do
    local much = redis.call('ZCARD', P .. 'used') > entries and 'owner-entries'
        or tonumber(redis.call('GET', P .. 'size') or 0) > bytes and 'owner-sizes'
    if not much then break end
    local most = redis.call('ZREVRANGE', P .. much, 0, 0, 'WITHSCORES')[2]
    local oldest, whose, which
    for _, tied in ipairs(redis.call('ZRANGEBYSCORE', P .. much, most, most, 'LIMIT', 0, 50)) do
        local first = redis.call('ZRANGE', P .. 'used:' .. tied, 0, 0, 'WITHSCORES')
        if not oldest or tonumber(first[2]) < oldest then oldest, whose, which = tonumber(first[2]), tied, first[1] end
    end
    drop(whose, which)
end
for i = 9, #ARGV, 3 do
    if redis.call('EXISTS', record(owner, ARGV[i])) == 0 then return 0 end
end
return 1
"""
# ARGV[5]: the name of the record, [6]: the name of the part after which the list begins.
_PARTS = """
if not used(owner, ARGV[5]) then return {} end
if used(owner, ARGV[5]) < now then touch(redis.pcall, owner, ARGV[5], now) end
local found, names = {}, redis.call('HKEYS', record(owner, ARGV[5]))
for _, part in ipairs(names) do
    if part > ARGV[6] then
        found[#found + 1] = part
        found[#found + 1] = redis.call('HGET', record(owner, ARGV[5]), part)
    end
end
return found
"""
_DELETE = "local known = used(owner, ARGV[5]); drop(owner, ARGV[5]); return known and 1 or 0"
_RUNS = "return redis.call('EXISTS', P .. 'open:' .. ARGV[5])"


class ValkeyStore(ThreadedStore):
    """A `Store` on a Valkey or Redis server. The first use opens the connections.

    Args:
        url: the server's URL, `valkey://` or `redis://`, or with TLS `valkeys://` or `rediss://`. Error messages don't
            contain the URL, because it may contain a password.
        retention: the limits for the records of all processes that use the same database.
        table: a prefix for the keys on the server. Stores with different prefixes share no records.
        present: True if other processes can find out with `runs` whether this process is still running. `runs` returns
            True until 15 seconds after the process's last call to the store.

    Raises:
        ConfigError: the extra isn't installed, or the URL is invalid.
    """

    threads = 8

    def __init__(
        self, url: str, retention: Retention | None = None, *, table: str = "kept", present: bool = False
    ) -> None:
        super().__init__(retention)
        self._server = shown_server(url)
        self._client = valkey_client(url, "a store", timeout=PATIENCE)
        self._common = [
            f"{{streamfold}}:{table}:",
            max(1, round(self._retention.age * 1000)),
            (present and self.name) or "",
        ]
        script, evicts = self._client.register_script, self._retention.evicts
        common = f"local evicts = {str(evicts).lower()}\n{_COMMON}"
        self._get, self._put, self._parts, self._delete, self._runs = [
            script(common + code) for code in (_GET, _PUT, _PARTS, _DELETE, _RUNS)
        ]
        self._checked = evicts  # whether the server's policy is known to leave the records alone

    def failures(self) -> tuple[type[Exception], ...]:
        import valkey

        return (valkey.ValkeyError, OSError)

    def get_now(self, owner: str, keys: list[str]) -> Mapping[str, bytes]:
        values = self._get([], self._arguments(owner, *[name for key in keys for name in split_key(key)]))
        return {key: value for key, value in zip(keys, values, strict=False) if value is not None}

    def put_now(self, owner: str, values: dict[str, bytes], new: bool, ahead: float) -> bool:
        if not self._checked:
            refuse_eviction(self._client, self._server)
            self._checked = True
        given = [word for key, value in values.items() for word in (*split_key(key), value)]
        bounds = (self._retention.entries, self._retention.size, int(new), round(ahead * 1000))
        kept = int(self._put([], self._arguments(owner, *bounds, *given)))
        if kept < 0:
            raise full(self)
        return kept > 0

    def parts_now(self, owner: str, key: str, after: str) -> Mapping[str, bytes]:
        words = self._parts([], self._arguments(owner, key, after))
        return dict(sorted(zip((name.decode() for name in words[::2]), words[1::2], strict=True)))

    def delete_now(self, owner: str, key: str) -> bool:
        return bool(self._delete([], self._arguments(owner, key)))

    def runs_now(self, name: str) -> bool:
        return bool(self._runs([], self._arguments("", name)))

    def close_now(self) -> None:
        self._client.close()  # type: ignore[no-untyped-call]

    def __repr__(self) -> str:
        return f"<ValkeyStore {self._server}>"

    def _arguments(self, owner: str, *more: Any) -> list[Any]:
        return [*self._common, sha256(owner.encode("utf-8", "surrogatepass")).hexdigest()[:32], *more]


def valkey_client(url: str, what: str, *, timeout: float) -> valkey.Valkey:
    """Returns a client for a Valkey or Redis server. The first use opens the connection. If the connection breaks, the
    next use opens it again.

    Args:
        url: the server's URL, `valkey://` or `redis://`, or with TLS `valkeys://` or `rediss://`. Error messages don't
            contain the URL, because it may contain a password.
        what: a name for the stored data, for error messages.
        timeout: the maximum time to wait for a connection or a response, in seconds.

    Raises:
        ConfigError: the extra isn't installed, or the URL is invalid.
    """
    try:
        import valkey
        from valkey.backoff import NoBackoff
        from valkey.retry import Retry
    except ImportError as exc:
        raise ConfigError(f"{what} in Valkey needs its extra: pip install 'streamfold[valkey]'") from exc
    secure: dict[str, Any] = {"ssl_check_hostname": True} if urlsplit(url).scheme in ("valkeys", "rediss") else {}
    if any(name in parse_qs(urlsplit(url).query) for name in _UNVERIFIED):
        raise ConfigError(f"the URL of {what} can't have {' or '.join(_UNVERIFIED)}: certificates are verified")
    try:
        client: valkey.Valkey = valkey.Valkey.from_url(
            url,
            socket_timeout=timeout,
            socket_connect_timeout=timeout,
            retry=Retry(NoBackoff(), 1),  # a connection from before the server was started again is broken
            retry_on_error=[valkey.ConnectionError],
            **secure,
        )
    except ValueError:
        raise ConfigError(f"the URL of {what} in Valkey must be valkey://HOST:PORT or valkeys://HOST:PORT") from None
    return client


def refuse_eviction(client: valkey.Valkey, server: str) -> None:
    """Raises ConfigError if the server is configured to evict keys without an expiry time. Logs a warning if the server
    doesn't report this setting.

    Args:
        server: the name of the server, for messages.
    """
    import valkey

    try:
        memory: Any = client.info("memory")
    except valkey.ResponseError as error:  # forbidden to this user, also NoPermissionError
        _logger.warning(
            "%s doesn't say whether it evicts keys (INFO memory: %s). If it does, entries can be lost", server, error
        )
        return
    policy = str(memory.get("maxmemory_policy", ""))
    if int(memory.get("maxmemory") or 0) > 0 and policy.startswith("allkeys"):
        raise ConfigError(
            f"{server} evicts keys when its memory is full (maxmemory-policy {policy}), so that journals and budgets"
            f' would be lost: set maxmemory-policy to "noeviction" or one of "volatile-...", or use another server'
        )


def shown_server(url: str) -> str:
    """Returns a server's URL reduced to its scheme, host and port, without the password."""
    with suppress(ValueError):
        parts = urlsplit(url)
        return f"{parts.scheme}://{parts.hostname or ''}{f':{parts.port}' if parts.port else ''}"
    return "valkey://"
