"""Counts requests, tokens and costs in Valkey or Redis, for processes on many machines. Needs the extra `valkey`.

A Lua script implements the algorithms of `limit_state.py` and `adaptive_rate.py`. So one atomic call applies a batch.
"""

from __future__ import annotations

from ..errors import ConfigError, LimitStoreError
from ..stores import refuse_eviction, shown_server, valkey_client
from .adaptive_rate import DECREASE, DOUBLING, FAR, FLOOR, INCREASE
from .limit_state import DAY, FARTHEST, LARGEST, MEAN_OF, MOMENTS, MONEY, POLL, QUIET, Batch, BatchAnswer
from .stores import LimitStore

_REFUSALS = ("NOAUTH", "WRONGPASS", "NOPERM")


def _table(values: tuple[object, ...]) -> str:
    return f"{{{', '.join(map(repr, values))}}}"


# KEYS: the state of one limit, a hash. ARGV: a batch as a JSON object, without members that are 0. The time is the
# server's own, so that the clocks of the processes don't matter. Numbers are stored as text with enough digits to be
# read back exactly, money in billionths. The field `b:HOLDER` has the last batch of a holder: number, time, answer.
SCRIPT = (
    f"""
local DAY, FARTHEST, LARGEST, MEAN_OF, POLL, QUIET = {DAY}, {FARTHEST}, {LARGEST:.0f}, {MEAN_OF}, {POLL}, {QUIET}
local DOUBLING, FAR, FLOOR = {DOUBLING}, {FAR}, {FLOOR}
local INCREASE, DECREASE = {_table(INCREASE)}, {_table(DECREASE)}
local MOMENTS, MONEY = {_table(MOMENTS)}, {_table(MONEY)}
"""
    r"""
local key, time = KEYS[1], redis.call('TIME')
local now = tonumber(time[1]) + tonumber(time[2]) / 1e6
local members = {__index = function(_, name) return 0 end}
local batch = setmetatable(cjson.decode(ARGV[1]), members)
local holder = batch.holder

local moments, moneys = {}, {}
for _, name in ipairs(MOMENTS) do moments[name] = true end
for _, name in ipairs(MONEY) do moneys[name] = true end
local function is_lease(name) return name:sub(1, 2) == 'x:' or name:sub(1, 2) == 'w:' end
local function is_money(name) return moneys[name] or name:sub(1, 2) == 'm:' end

local state, changed, gone, batches = {}, {}, {}, {}
local stored = redis.call('HGETALL', key)
for i = 1, #stored, 2 do
    local name, text = stored[i], stored[i + 1]
    if name:sub(1, 2) == 'b:' then
        batches[name] = text
    else
        local value = tonumber(text)
        if value and is_money(name) then
            value = text:match('^-?%d+000$') and tonumber(text:sub(1, -4)) or value / 1000
            if name ~= 'cost' and name ~= 'most' then value = math.ceil(value) end
        end
        if value and math.abs(value) <= LARGEST then state[name] = value end
    end
end
local latest = (state.seen or math.huge) + FARTHEST
for name, value in pairs(state) do
    if (moments[name] or is_lease(name)) and value > latest then state[name] = nil end
end
for name in pairs(state) do
    if name:sub(1, 2) == 'h:' and not state['x:' .. name:sub(3)] then state[name] = nil end
end

local last = batches['b:' .. holder]
if batch.number > 0 and last then
    local number, answer = last:match('^(%d+) %S+ (.*)$')
    if tonumber(number) == batch.number then return answer end
    if tonumber(number) > batch.number then return redis.error_reply('OUTDATED this batch was sent again') end
end

local function get(name) return state[name] or 0 end
local function set(name, value) state[name] = value; changed[name] = value; gone[name] = nil end
local function drop(name)
    if state[name] then state[name] = nil; changed[name] = nil; gone[name] = true end
end
local function learn(name, value)
    local count = math.min(get(name .. '_of') + 1, MEAN_OF)
    set(name .. '_of', count)
    set(name, get(name) + (value - get(name)) / count)
end
local function mean_cost() return math.floor(get('cost') + 0.5) end

-- adaptive_rate.py
local function forget_rate()
    for _, name in ipairs({'rate', 'stated', 'lowered', 'good', 'accepts'}) do drop(name) end
end
local function current_rate(stated, start, accepted)
    if state.rate and get('stated') ~= stated then forget_rate() end
    if not state.rate then
        if stated > 0 or start == 0 then return stated end
        set('rate', start)
    end
    local rate = state.rate
    if accepted > 0 and (not state.lowered or rate < FAR * get('good')) then
        rate = rate + DOUBLING * accepted
    elseif accepted > 0 then
        rate = rate + accepted / rate * math.max(math.min(INCREASE[1] * rate, INCREASE[2]), INCREASE[3] * rate)
    end
    if stated > 0 and rate >= stated then forget_rate(); return stated end
    set('rate', rate)
    if get('accepts') == 0 then set('accepts', accepted) end
    return rate
end
local function lower_rate(refused_rate, stated, rests)
    if get('stated') ~= stated then forget_rate() end
    local rate = state.rate or refused_rate
    if refused_rate > rate * 1.0001 or (not state.rate and refused_rate < 0.9 * stated) then return end
    if get('accepts') > 0 or not state.lowered then
        set('good', rate * (state.lowered and 1 or DECREASE[1])); set('accepts', 0)
    end
    local left = not state.lowered and DECREASE[1] or rests and DECREASE[3] or DECREASE[2]
    set('rate', math.max(FLOOR * state.good, rate * left))
    set('stated', stated); set('lowered', now)
end

-- limit_state.py
local seen, new_day = get('seen'), #stored == 0
local function advance()
    local passed = now - (state.seen or now)
    set('seen', now)
    if passed >= 0 and passed <= QUIET then return end
    for name, value in pairs(state) do
        if passed < 0 and (is_lease(name) or moments[name]) then set(name, value + passed)
        elseif passed > 0 and is_lease(name) then set(name, value + passed - QUIET) end
    end
end

local function begin_day()
    local today = math.floor(now / DAY)
    if state.day or state.spent then
        for _, name in ipairs({'day', 'spent'}) do
            if not state[name] then
                return "the limit's state has no '" .. name .. "': delete the state to reset the limit"
            end
        end
        if state.day > today + 366 then
            return "the limit's state has a future date: delete the state to reset the limit"
        end
        if state.day >= today then return end
    end
    new_day = true
    set('day', today); set('spent', 0)
    for name in pairs(state) do
        if name:sub(1, 2) == 'm:' or name:sub(1, 2) == 'n:' then drop(name) end
    end
end

local function expire_leases()
    for field, ends in pairs(state) do
        if is_lease(field) and ends < now then
            drop(field)
            local other = field:sub(3)
            if field:sub(1, 2) == 'x:' then
                drop('h:' .. other)
                local money = state['m:' .. other]
                if money then
                    local used = math.min(money, get('n:' .. other) * mean_cost())
                    if state.spent then set('spent', math.max(0, state.spent - money + used)) end
                    set('m:' .. other, used)
                end
            end
        end
    end
end

local function renew_lease()
    expire_leases()
    local lease, money = 'x:' .. holder, 'm:' .. holder
    if not state[lease] and batch.born ~= 0 then
        set('h:' .. holder, batch.slots)
        if batch.budgeted and batch.day == state.day then
            if batch.born == state.born then
                set('spent', state.spent + batch.money - get(money))
            else
                set('spent', math.max(state.spent, batch.spent))
            end
            set(money, batch.money); set('n:' .. holder, batch.reserved)
        end
    end
    set(lease, now + batch.lease)
end

local function hold_money(requests, money)
    set('n:' .. holder, math.max(0, get('n:' .. holder) + requests))
    set('m:' .. holder, math.max(0, get('m:' .. holder) + money))
end

local function free_slots(ask)
    local held, total, parties, others = {}, 0, {[holder] = true}, false
    for name, value in pairs(state) do
        local kind, other = name:sub(1, 2), name:sub(3)
        if kind == 'h:' then
            held[other] = value
            total = total + value
            if value > 0 then parties[other] = true end
        elseif kind == 'w:' and other ~= holder then
            others = true
            parties[other] = true
        end
    end
    local free, count = ask.slots - total, 0
    for _ in pairs(parties) do count = count + 1 end
    if others then free = math.min(free, math.ceil(ask.slots / count) - (held[holder] or 0)) end
    return free
end

local function answer(reason, granted, wait, step, rate, tokens, cost)
    local words = {granted, wait, step, rate, tokens, cost, mean_cost()}
    for i, value in ipairs(words) do words[i] = string.format('%.17g', value) end
    return table.concat(words, ' ') .. ' ' .. reason
end

local function reserve(ask)
    local function refused(reason, wait) return answer(reason, 0, wait, 0, 0, 0, 0) end
    local cost, number, mean = 0, rawget(ask, 'requests') or 0, mean_cost()
    if number == 0 then return refused('', 0) end
    if ask.budget > 0 then
        local left, held, wanted = ask.budget - state.spent, 0, ask.money
        for name, value in pairs(state) do
            if name:sub(1, 2) == 'm:' and state['x:' .. name:sub(3)] then held = held + value end
        end
        if wanted == 0 then wanted = state.cost and math.floor(get('most') + 0.5) or left end
        local expected = ask.money > 0 and math.min(mean, ask.money) or mean
        if left <= 0 or expected > left or (held > 0 and wanted > left) then
            if held > 0 then return refused('reserved', POLL) end
            return refused('budget', (state.day + 1) * DAY - now)
        end
        cost = math.min(wanted, left)
        if cost > 0 then number = math.min(number, math.floor(left / cost)) end
    end
    if ask.slots > 0 then
        number = math.min(number, free_slots(ask))
        if number <= 0 then
            set('w:' .. holder, now + 3 * POLL)
            return refused('slots', POLL)
        end
    end
    local rate = current_rate(ask.rate, ask.start, get('requests') > now and ask.accepted or 0)
    local tokens = get('tokens')
    if tokens == 0 then tokens = ask.tokens end
    local rest = get('rest')
    local earliest = math.max(now - ask.burst, rest)
    local requests_from, tokens_from = math.max(get('requests'), earliest), math.max(get('tokens_from'), earliest)
    local moment, step = earliest, 0
    if rate > 0 then moment = math.max(moment, requests_from); step = 1 / rate end
    if ask.token_rate > 0 then
        moment = math.max(moment, tokens_from)
        step = math.max(step, tokens / ask.token_rate)
    end
    if moment - now > ask.max_wait then return refused(moment <= rest and 'rest' or 'rate', moment - now) end
    if step > 0 then number = math.min(number, math.max(1, math.floor(ask.prefetch / step))) end
    if rate > 0 then set('requests', requests_from + number / rate) end
    if ask.token_rate > 0 then set('tokens_from', tokens_from + number * tokens / ask.token_rate) end
    if ask.budget > 0 then
        set('spent', state.spent + number * cost)
        hold_money(number, number * cost)
    end
    if ask.slots > 0 then
        set('h:' .. holder, get('h:' .. holder) + number)
        drop('w:' .. holder)
    end
    return answer('', number, math.max(0, moment - now), step, rate, tokens, cost)
end

local function charge(ask)
    for line, seconds in pairs({requests = ask.request_seconds, tokens_from = ask.token_seconds}) do
        if seconds ~= 0 and state[line] then set(line, state[line] + seconds) end
    end
    if rawget(ask, 'tokens') then learn('tokens', ask.tokens) end
    if rawget(ask, 'cost') then
        learn('cost', ask.cost)
        set('most', math.max(ask.cost, get('most') - (get('most') - ask.cost) / MEAN_OF))
    end
    if batch.budgeted then
        if ask.reserved ~= 0 and ask.day == state.day then hold_money(-ask.requests, -ask.reserved) end
        if ask.money ~= 0 and ask.day >= state.day then
            set('spent', math.min(LARGEST, math.max(0, state.spent + ask.money)))
        end
    end
    if ask.slots > 0 then set('h:' .. holder, math.max(0, get('h:' .. holder) - ask.slots)) end
end

local function pause(ask)
    if ask.rest > 0 then set('rest', math.max(get('rest'), now + math.min(ask.rest, FARTHEST))) end
    if ask.refused_rate > 0 then lower_rate(ask.refused_rate, ask.rate, ask.rest > 0) end
end

advance()
if not state.born then set('born', now) end
batch.budgeted = batch.budgeted == true
if batch.budgeted then
    local damage = begin_day()
    if damage then return redis.error_reply('DAMAGED ' .. damage) end
end
if batch.lease > 0 then renew_lease() end
local operations, lines = {Reserve = reserve, Charge = charge, PauseSending = pause}, {}
for i, operation in ipairs(batch.operations) do
    lines[i] = operations[operation.kind](setmetatable(operation, members)) or ''
end
if batch.leaves == true then drop('h:' .. holder); drop('w:' .. holder); drop('x:' .. holder) end
table.insert(lines, 1, string.format('%.17g %.17g %.17g', state.born, get('day'), get('spent')))
local text = table.concat(lines, '\n')

local flat, deleted = {}, {}
for name, value in pairs(changed) do
    flat[#flat + 1] = name
    if not is_money(name) then flat[#flat + 1] = string.format('%.17g', value)
    elseif value == math.floor(value) and value ~= 0 then flat[#flat + 1] = string.format('%.0f000', value)
    else flat[#flat + 1] = string.format('%.17g', value * 1000) end
end
if batch.number > 0 and not (batch.leaves == true) then
    flat[#flat + 1] = 'b:' .. holder
    flat[#flat + 1] = string.format('%.0f %.17g ', batch.number, now) .. text
end
for name in pairs(gone) do deleted[#deleted + 1] = name end
if batch.leaves == true then deleted[#deleted + 1] = 'b:' .. holder end
if math.floor(now / DAY) ~= math.floor(seen / DAY) then -- once a day
    for name, value in pairs(batches) do
        local at = tonumber(value:match('^%d+ (%S+) '))
        if name ~= 'b:' .. holder and not (at and at > math.min(now, seen) - DAY) then deleted[#deleted + 1] = name end
    end
    new_day = true
end
for i = 1, #deleted, 1000 do redis.call('HDEL', key, unpack(deleted, i, math.min(i + 999, #deleted))) end
for i = 1, #flat, 1000 do redis.call('HSET', key, unpack(flat, i, math.min(i + 999, #flat))) end
if new_day and state.day then redis.call('PERSIST', key) -- a budget must not be lost
elseif new_day then redis.call('EXPIRE', key, FARTHEST + DAY) end
return text
"""
)


class ValkeyLimitStore(LimitStore):
    """Counts requests, tokens and costs on a Valkey or Redis server. Times come from the server's clock. The first use
    opens the connections.

    Args:
        url: the server's URL, `valkey://` or `redis://`, or with TLS `valkeys://` or `rediss://`. Error messages don't
            contain the URL, because it may contain a password.
        timeout: the maximum time to wait for a connection or a response, in seconds.

    Raises:
        ConfigError: the extra isn't installed, or the URL is invalid.
    """

    prefetch_seconds = 0.02
    lease_seconds = 15.0
    threads = 8

    def __init__(self, url: str, *, timeout: float = 0.25, script: str = SCRIPT) -> None:
        self._server = shown_server(url)
        self.client = valkey_client(url, "a store of limits", timeout=timeout)
        self._script = self.client.register_script(script)
        self._checked = False  # whether the server's policy is known to leave budgets alone

    def apply(self, name: str, batch: Batch) -> BatchAnswer:
        # The name in braces puts everything of one limit on one node of a cluster.
        key = f"streamfold:limits:{{{name}}}".encode("utf-8", "surrogatepass")
        try:
            if batch.budgeted and not self._checked:
                refuse_eviction(self.client, self._server)
                self._checked = True
            text = self._script(keys=[key], args=[batch.to_json()])
        except Exception as exc:
            raise self._failure(exc) from exc
        return BatchAnswer.from_text(text.decode(), batch)

    def close_idle(self) -> None:
        self.client.connection_pool.disconnect(inuse_connections=False)

    def close(self) -> None:
        self.client.close()  # type: ignore[no-untyped-call]

    def __repr__(self) -> str:
        return f"<ValkeyLimitStore {self._server}>"

    def _failure(self, error: Exception) -> Exception:
        import valkey

        if isinstance(error, valkey.AuthenticationError):
            return ConfigError(f"limits: {self._server} refuses the user name or the password of the URL")
        if isinstance(error, valkey.ResponseError):
            if str(error).startswith(_REFUSALS) or isinstance(error, valkey.exceptions.NoPermissionError):
                return ConfigError(f"limits: {self._server} refuses: {error}")
            return LimitStoreError(f"the limits in {self._server} can't be used: {error}", retryable=True)
        if isinstance(error, valkey.ValkeyError | OSError):
            return LimitStoreError(f"the limits in {self._server} can't be reached: {error}", retryable=True)
        return error
