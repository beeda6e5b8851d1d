"""`algorithm.py` again, as the script that Valkey and Redis run: one round trip, and nobody in between.

Names and numbers are those of `algorithm.py`.
"""

from __future__ import annotations

from .algorithm import DAY, FARTHEST, LARGEST, MEAN_OF, MOMENTS, POLL
from .belief import BELIEVED, COUNTED, FIRST_NEED


def _table(names: tuple[str, ...]) -> str:
    return f"{{{', '.join(map(repr, names))}}}"


_SHARED = f"""
local DAY, FARTHEST, LARGEST, MEAN_OF, POLL = {DAY:.0f}, {FARTHEST:.0f}, {LARGEST:.0f}, {MEAN_OF}, {POLL}
local FIRST_NEED, MOMENTS = {FIRST_NEED}, {_table(MOMENTS)}
local BELIEVED, COUNTED = {_table(BELIEVED)}, {_table(COUNTED)}
"""

# KEYS: the state of one limit, a hash. ARGV: what is to be done, and its arguments as a JSON object, without those that
# are 0. The time is the server's own, so that the clocks of the processes do not matter. Numbers are kept as text with
# enough digits to be read back exactly.
SCRIPT = (
    _SHARED
    + """
local key, time = KEYS[1], redis.call('TIME')
local now = tonumber(time[1]) + tonumber(time[2]) / 1e6
local state, changed, gone = {}, {}, {}
local stored = redis.call('HGETALL', key)
local moments = {}
for _, name in ipairs(MOMENTS) do moments[name] = true end
for i = 1, #stored, 2 do
    local name, value = stored[i], tonumber(stored[i + 1])
    local moment = moments[name] or name:sub(1, 2) == 'x:' or name:sub(1, 2) == 'w:'
    if value and math.abs(value) <= LARGEST and not (moment and value > now + FARTHEST) then state[name] = value end
end
for i = 1, #stored, 2 do
    local kind, holder = stored[i]:sub(1, 2), stored[i]:sub(3)
    if (kind == 'h:' or kind == 'm:' or kind == 'n:') and not state['x:' .. holder] then state[stored[i]] = nil end
end

local function get(name) return state[name] or 0 end
local function set(name, value) state[name] = value; changed[name] = value end
local function drop(name) state[name] = nil; changed[name] = nil; gone[#gone + 1] = name end
local function save()
    local flat = {}
    for name, value in pairs(changed) do
        flat[#flat + 1] = name
        flat[#flat + 1] = string.format('%.17g', value)
    end
    if #gone > 0 then redis.call('HDEL', key, unpack(gone)) end
    if #flat > 0 then redis.call('HSET', key, unpack(flat)) end
    if #stored == 0 or changed.day then redis.call('EXPIRE', key, FARTHEST + DAY) end
end
local function change(belief)
    set('epoch', get('epoch') + 1)
    for _, name in ipairs(BELIEVED) do set(name, belief[name] or 0) end
    for _, name in ipairs(COUNTED) do set(name, 0) end
    set('sent', 0); set('began', 0)
end
local function learn(name, value)
    local count = math.min(get(name .. '_of') + 1, MEAN_OF)
    set(name .. '_of', count)
    set(name, get(name) + (value - get(name)) / count)
end

local function forget_dead()
    local names = {}
    for name in pairs(state) do names[#names + 1] = name end
    for _, name in ipairs(names) do
        local kind, holder = name:sub(1, 2), name:sub(3)
        if (kind == 'x:' or kind == 'w:') and state[name] < now then
            drop(name)
            if kind == 'x:' then
                local money, number = get('m:' .. holder), get('n:' .. holder)
                local used = math.min(money, number * math.floor(get('cost') + 0.5))
                if money > 0 then set('spent', math.max(0, get('spent') - money + used)) end
                drop('h:' .. holder); drop('m:' .. holder); drop('n:' .. holder)
            end
        end
    end
end

local function hold(holder, requests, money)
    set('n:' .. holder, math.max(0, get('n:' .. holder) + requests))
    set('m:' .. holder, math.max(0, get('m:' .. holder) + money))
end

local function free_slots(ask)
    local held, total, parties, others = {}, 0, {[ask.holder] = true}, false
    for name, value in pairs(state) do
        local kind, holder = name:sub(1, 2), name:sub(3)
        if kind == 'h:' then
            held[holder] = value
            total = total + value
            if value > 0 then parties[holder] = true end
        elseif kind == 'w:' and holder ~= ask.holder then
            others = true
            parties[holder] = true
        end
    end
    local free, count = ask.slots - total, 0
    for _ in pairs(parties) do count = count + 1 end
    if others then free = math.min(free, math.ceil(ask.slots / count) - (held[ask.holder] or 0)) end
    return free
end

local function take(ask)
    if ask.clean + ask.refused > 0 and get('rate') > 0 and ask.epoch == get('epoch') then
        set('since', get('since') + (get('refused') > 0 and ask.clean or ask.since))
        set('clean', get('clean') + ask.clean)
        set('refused', get('refused') + ask.refused)
    end
    if get('rate') == 0 and ask.start > 0 then change({rate = ask.start, need = FIRST_NEED}) end
    local day = math.floor(now / DAY)
    if state.day ~= day then
        local known = 0
        if state.day == nil and ask.day == day then known = ask.spent end
        set('day', day); set('spent', known)
        local names = {}
        for name in pairs(state) do
            local kind = name:sub(1, 2)
            if kind == 'm:' or kind == 'n:' then names[#names + 1] = name end
        end
        for _, name in ipairs(names) do drop(name) end
    end
    local mean, cost, number = math.floor(get('cost') + 0.5), 0, ask.requests
    if ask.slots > 0 or ask.budget > 0 then forget_dead() end
    local function answer(reason, granted, wait, step, rate, tokens)
        local members = {granted, wait, step, rate, tokens, cost, mean, day, get('spent'), get('epoch')}
        for _, name in ipairs(BELIEVED) do members[#members + 1] = get(name) end
        for _, name in ipairs(COUNTED) do members[#members + 1] = get(name) end
        for i, value in ipairs(members) do members[i] = string.format('%.17g', value) end
        return table.concat(members, ' ') .. ' ' .. reason
    end
    if ask.budget > 0 then
        local left, held, wanted = ask.budget - get('spent'), 0, ask.money
        for name, value in pairs(state) do if name:sub(1, 2) == 'm:' then held = held + value end end
        if wanted == 0 then wanted = state.cost and math.floor(get('most') + 0.5) or left end
        if left <= 0 or mean > left or (held > 0 and wanted > left) then
            if held > 0 then return answer('held', 0, POLL, 0, 0, 0) end
            return answer('budget', 0, (day + 1) * DAY - now, 0, 0, 0)
        end
        cost = math.min(wanted, left)
        if cost > 0 then number = math.min(number, math.floor(left / cost)) end
    end
    if ask.slots > 0 then
        number = math.min(number, free_slots(ask))
        if number <= 0 then
            set('w:' .. ask.holder, now + 3 * POLL)
            return answer('slots', 0, POLL, 0, 0, 0)
        end
    end
    local believed, rate = get('rate'), ask.rate
    if get('filled') > 0 and get('base') > 0 then believed = get('base') end
    if believed > 0 and (rate == 0 or believed < rate) then rate = believed end
    local tokens = get('tokens')
    if tokens == 0 then tokens = ask.tokens end
    local rest = get('rest')
    local floor = math.max(now - ask.burst, rest)
    local requests_from, tokens_from = math.max(get('requests'), floor), math.max(get('tokens_from'), floor)
    local moment, step = floor, 0
    if rate > 0 then moment = math.max(moment, requests_from); step = 1 / rate end
    if ask.token_rate > 0 then
        moment = math.max(moment, tokens_from)
        step = math.max(step, tokens / ask.token_rate)
    end
    if moment - now > ask.horizon then
        return answer(moment <= rest and 'rest' or 'rate', 0, moment - now, 0, 0, 0)
    end
    if step > 0 then number = math.min(number, math.max(1, math.floor(ask.lease / step))) end
    if rate > 0 then set('requests', requests_from + number / rate) end
    if ask.token_rate > 0 then set('tokens_from', tokens_from + number * tokens / ask.token_rate) end
    if ask.budget > 0 then
        set('spent', get('spent') + number * cost)
        hold(ask.holder, number, number * cost)
    end
    if ask.slots > 0 or ask.budget > 0 then set('x:' .. ask.holder, now + math.min(ask.lifetime, FARTHEST)) end
    if ask.slots > 0 then
        set('h:' .. ask.holder, get('h:' .. ask.holder) + number)
        if state['w:' .. ask.holder] then drop('w:' .. ask.holder) end
    end
    if get('rate') > 0 and get('filled') == 0 then
        local first = math.max(moment, now)
        if get('began') == 0 then set('began', first) end
        set('sent', get('sent') + number)
        if get('sent') >= get('need') then
            set('filled', math.max(first + (number - 1) * step - get('began'), 1e-6))
        end
    end
    return answer('', number, math.max(0, moment - now), step, rate, tokens)
end

local function settle(ask)
    for line, seconds in pairs({requests = ask.request_seconds, tokens_from = ask.token_seconds}) do
        if seconds ~= 0 and state[line] then set(line, state[line] + seconds) end
    end
    if rawget(ask, 'tokens') then learn('tokens', ask.tokens) end
    if rawget(ask, 'cost') then
        learn('cost', ask.cost)
        set('most', math.max(ask.cost, get('most') - (get('most') - ask.cost) / MEAN_OF))
    end
    if ask.held > 0 and ask.day == state.day then
        hold(ask.holder, -ask.requests, -ask.held)
    end
    if ask.money ~= 0 and state.day and ask.day >= state.day then
        local before = ask.day == state.day and get('spent') or 0
        set('day', ask.day); set('spent', math.max(0, before + ask.money))
    end
    if ask.slots > 0 then set('h:' .. ask.holder, math.max(0, get('h:' .. ask.holder) - ask.slots)) end
end

local function believe(ask)
    if ask.rest > 0 then set('rest', math.max(get('rest'), now + ask.rest)) end
    if rawget(ask, 'epoch') == get('epoch') then
        change(ask)
    end
end

local function alive(ask)
    if not state['h:' .. ask.holder] then set('h:' .. ask.holder, ask.held) end
    set('x:' .. ask.holder, now + math.min(ask.lifetime, FARTHEST))
end

local commands = {take = take, settle = settle, believe = believe, alive = alive}
local ask = setmetatable(cjson.decode(ARGV[2]), {__index = function(_, name) return name == 'holder' and '' or 0 end})
local result = commands[ARGV[1]](ask) or '1'
save()
return result
"""
)
