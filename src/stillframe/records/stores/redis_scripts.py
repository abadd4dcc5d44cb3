"""What Redis runs alone, in Lua. `KEYS[1]` is the view's book; a script that writes is given its epoch first.

A script that is refused answers with a text that says why, and has done nothing. Numbers stay text: Lua's are
doubles, and versions have more digits than those keep.
"""

from __future__ import annotations

NOT_MADE, FENCED = b"NOT_MADE", b"FENCED "

# Epochs have no leading zeros: of two, the longer is the greater.
_GUARD = """
local book = redis.call('HMGET', KEYS[1], 'epoch', 'dropping')
if not book[1] or book[2] then return 'NOT_MADE' end
"""
_EPOCH = """
if #book[1] > #ARGV[1] or (#book[1] == #ARGV[1] and book[1] > ARGV[1]) then return 'FENCED ' .. book[1] end
"""

MAKE = """
if redis.call('EXISTS', KEYS[1]) == 0 then redis.call('HSET', KEYS[1], 'shape', ARGV[1], 'epoch', '0') end
return redis.call('HGET', KEYS[1], 'shape')
"""

# From here on nothing is written; a drop that did not end is recognised, and ended by who comes next.
DROPPING = """
if redis.call('EXISTS', KEYS[1]) == 0 then return 0 end
redis.call('HSET', KEYS[1], 'dropping', '1')
return 1
"""

FENCE = f"""{_GUARD}{_EPOCH}
redis.call('HSET', KEYS[1], 'epoch', ARGV[1])
return 1
"""

# KEYS: two of each record, what is kept and what is shown. ARGV: the fields of a row.
READ = f"""{_GUARD}
local found = {{}}
for k = 2, #KEYS, 2 do
  local state = redis.call('HMGET', KEYS[k], 'version', 'kept', 'shown')
  local row = state[3] and redis.call('HMGET', KEYS[k + 1], unpack(ARGV))
  found[k / 2] = state[1] and {{state[1], state[2], row}}
end
return found
"""

# KEYS: one of each record, what is kept.
KEPT = f"""{_GUARD}
local found = {{}}
for k = 2, #KEYS do
  local state = redis.call('HMGET', KEYS[k], 'version', 'kept')
  found[2 * k - 3], found[2 * k - 2] = state[1] or '0', state[2] or ''
end
return found
"""

# KEYS as in READ. ARGV: the epoch, how keys of tags begin, and of each record its name, the version that is
# expected, the new one (none: it is removed), what is kept, '=' and the tag or nothing, how many fields are
# shown (0: it is not), and these.
WRITE = f"""{_GUARD}{_EPOCH}
local done, at = {{}}, 3
for k = 2, #KEYS, 2 do
  local id, expected, version, kept, tag, fields = unpack(ARGV, at, at + 5)
  at = at + 6
  local state = redis.call('HMGET', KEYS[k], 'version', 'tag')
  if (state[1] or '0') ~= expected then
    done[k / 2] = 0
  else
    done[k / 2] = 1
    if state[2] then redis.call('SREM', ARGV[2] .. state[2], id) end
    redis.call('DEL', KEYS[k], KEYS[k + 1])
    if version ~= '' then
      redis.call('HSET', KEYS[k], 'version', version, 'kept', kept)
      if fields ~= '0' then
        redis.call('HSET', KEYS[k], 'shown', '1')
        redis.call('HSET', KEYS[k + 1], unpack(ARGV, at, at + 2 * fields - 1))
      end
      if tag ~= '' then
        redis.call('HSET', KEYS[k], 'tag', string.sub(tag, 2))
        redis.call('SADD', ARGV[2] .. string.sub(tag, 2), id)
      end
    end
  end
  at = at + 2 * fields
end
return done
"""
