//! The commands about keys, which connections and scripts call.

use std::collections::BTreeMap;

use crate::core::Core;
use crate::keyspace::{Entry, Value};
use crate::reply::Reply;
use crate::settings::Release;

/// The commands that only read.
const READS: [&str; 10] =
    ["get", "pttl", "type", "exists", "zscore", "zcard", "zrevrank", "zrevrange", "time", "info"];

/// The commands that write without new memory.
const WRITES: [&str; 8] =
    ["del", "pexpire", "pexpireat", "zrem", "zremrangebyscore", "delifeq", "delex", "flushall"];

/// The commands that a server without memory denies.
const GROWS: [&str; 3] = ["set", "zadd", "rpush"];

/// Returns whether this release knows the command.
pub(super) fn is_known(core: &Core, name: &str) -> bool {
    match name {
        "delifeq" => core.settings.release == Release::Valkey9,
        "delex" => core.settings.release == Release::Redis8,
        _ => READS.contains(&name) || WRITES.contains(&name) || GROWS.contains(&name),
    }
}

pub(super) fn no_permission(name: &str) -> Reply {
    Reply::Error(format!("NOPERM this user has no permissions to run the '{name}' command"))
}

/// Carries out a command.
pub(super) fn call(core: &mut Core, name: &str, command: &[Vec<u8>], in_script: bool) -> Reply {
    let writes = !READS.contains(&name);
    if writes && core.settings.is_replica {
        return Reply::error("READONLY You can't write against a read only replica.");
    }
    // A script that has written goes on.
    if core.settings.out_of_memory && GROWS.contains(&name) && !(in_script && core.is_dirty) {
        return Reply::error("OOM command not allowed when used memory > 'maxmemory'.");
    }
    let reply = match (name, &command[1..]) {
        ("time", []) => time(core.now),
        ("get", [key]) => match read(core, key) {
            None => Reply::Nil,
            Some(Entry { value: Value::String(text), .. }) => Reply::bulk(text.as_slice()),
            Some(_) => wrong_type(),
        },
        ("exists", [key]) => Reply::Int(i64::from(read(core, key).is_some())),
        ("type", [key]) => Reply::Status(
            match read(core, key).map(|entry| &entry.value) {
                None => "none",
                Some(Value::String(_)) => "string",
                Some(Value::Sorted(_)) => "zset",
                Some(Value::List(_)) => "list",
            }
            .into(),
        ),
        ("pttl", [key]) => {
            let now = millis(core);
            Reply::Int(match read(core, key) {
                None => -2,
                Some(Entry { expires: None, .. }) => -1,
                Some(Entry { expires: Some(expires), .. }) => signed(expires.saturating_sub(now)),
            })
        }
        ("set", [key, value, options @ ..]) => set(core, key, value, options),
        ("del", keys) => {
            let deleted = keys.iter().filter(|key| remove(core, key)).count();
            Reply::Int(count(deleted))
        }
        ("delifeq", [key, value]) => delete_if(core, key, value),
        ("delex", [key, condition, value]) if condition.eq_ignore_ascii_case(b"IFEQ") => {
            delete_if(core, key, value)
        }
        ("pexpire", [key, time, option @ ..]) => match number(time) {
            Ok(time) => expire_at(core, key, signed(millis(core)).saturating_add(time), option),
            Err(error) => error,
        },
        ("pexpireat", [key, time]) => {
            number(time).map_or_else(|error| error, |time| expire_at(core, key, time, &[]))
        }
        ("rpush", [key, item]) => match core.keys.get_mut(key, core.now).map(|entry| &mut entry.value) {
            Some(Value::List(items)) => {
                items.push(item.clone());
                let length = items.len();
                changed(core, key, Reply::Int(count(length)))
            }
            Some(_) => wrong_type(),
            None => {
                core.keys.set(key, Value::List(vec![item.clone()]), None);
                changed(core, key, Reply::Int(1))
            }
        },
        ("zadd", [key, pairs @ ..]) => add(core, key, pairs),
        ("zscore", [key, member]) => match sorted(core, key) {
            Ok(members) => members.get(member).map_or(Reply::Nil, |score| Reply::bulk(shown(*score))),
            Err(error) => error,
        },
        ("zcard", [key]) => match sorted(core, key) {
            Ok(members) => Reply::Int(count(members.len())),
            Err(error) => error,
        },
        ("zrevrank", [key, member]) => match ordered(core, key) {
            Ok(ordered) => {
                let rank = ordered.iter().position(|(_, other)| other == member);
                rank.map_or(Reply::Nil, |rank| Reply::Int(count(rank)))
            }
            Err(error) => error,
        },
        ("zrem", [key, gone @ ..]) if !gone.is_empty() => {
            remove_where(core, key, |member, _| gone.contains(member))
        }
        ("zrevrange", [key, from, to, options @ ..]) => reversed(core, key, from, to, !options.is_empty()),
        ("zremrangebyscore", [key, _, to]) => remove_below(core, key, to),
        (
            "time" | "get" | "exists" | "type" | "pttl" | "set" | "zscore" | "zcard" | "zrevrank" | "pexpire",
            _,
        ) => Reply::Error(format!("ERR wrong number of arguments for '{name}' command")),
        _ => Reply::error("ERR syntax error"),
    };
    core.is_dirty |= writes && !matches!(reply, Reply::Error(_));
    reply
}

fn set(core: &mut Core, key: &[u8], value: &[u8], options: &[Vec<u8>]) -> Reply {
    let (mut only_absent, mut gets, mut expires) = (false, false, None);
    let mut options = options.iter();
    while let Some(option) = options.next() {
        match option.to_ascii_uppercase().as_slice() {
            b"NX" => only_absent = true,
            b"GET" => gets = true,
            b"PX" => match options.next().map(|time| number(time)) {
                Some(Ok(time)) if time > 0 => {
                    expires = Some(unsigned(signed(millis(core)).saturating_add(time)));
                }
                Some(Ok(_)) => return Reply::error("ERR invalid expire time in 'set' command"),
                Some(Err(error)) => return error,
                None => return Reply::error("ERR syntax error"),
            },
            _ => return Reply::error("ERR syntax error"),
        }
    }
    if only_absent && gets && !core.settings.release.has_7() {
        return Reply::error("ERR syntax error");
    }
    let before = match core.keys.get(key, core.now).map(|entry| &entry.value) {
        Some(Value::String(text)) => Some(Reply::bulk(text.as_slice())),
        Some(_) if gets => return wrong_type(),
        Some(_) => Some(Reply::Nil),
        None => None,
    };
    if only_absent && before.is_some() {
        return before.filter(|_| gets).unwrap_or(Reply::Nil);
    }
    core.keys.set(key, Value::String(value.to_vec()), expires);
    changed(core, key, if gets { before.unwrap_or(Reply::Nil) } else { Reply::ok() })
}

fn delete_if(core: &mut Core, key: &[u8], value: &[u8]) -> Reply {
    match core.keys.get(key, core.now).map(|entry| &entry.value) {
        Some(Value::String(text)) if text == value => Reply::Int(i64::from(remove(core, key))),
        None | Some(Value::String(_)) => Reply::Int(0),
        Some(_) => wrong_type(),
    }
}

fn expire_at(core: &mut Core, key: &[u8], time: i64, options: &[Vec<u8>]) -> Reply {
    let only_later = match options {
        [] => false,
        [option] if option.eq_ignore_ascii_case(b"GT") && core.settings.release.has_7() => true,
        _ => return Reply::error("ERR Unsupported option"),
    };
    let now = millis(core);
    let Some(entry) = core.keys.get_mut(key, core.now) else { return Reply::Int(0) };
    // A key without an expiry expires after all others.
    if only_later && entry.expires.is_none_or(|expires| time <= signed(expires)) {
        return Reply::Int(0);
    }
    if time <= signed(now) {
        remove(core, key);
        return Reply::Int(1);
    }
    entry.expires = Some(unsigned(time));
    changed(core, key, Reply::Int(1))
}

fn add(core: &mut Core, key: &[u8], pairs: &[Vec<u8>]) -> Reply {
    let before = match sorted(core, key) {
        Ok(members) => members.clone(),
        Err(error) => return error,
    };
    let mut after = before.clone();
    for pair in pairs.chunks(2) {
        let [score, member] = pair else { return Reply::error("ERR syntax error") };
        match score_of(score) {
            Some(score) => drop(after.insert(member.clone(), score)),
            None => return Reply::error("ERR value is not a valid float"),
        }
    }
    let added = after.len() - before.len();
    if after != before {
        with_sorted(core, key, |members| *members = after);
    }
    Reply::Int(count(added))
}

fn reversed(core: &mut Core, key: &[u8], from: &[u8], to: &[u8], with_scores: bool) -> Reply {
    let (Ok(from), Ok(to)) = (number(from), number(to)) else {
        return Reply::error("ERR value is not an integer or out of range");
    };
    let ordered = match ordered(core, key) {
        Ok(ordered) => ordered,
        Err(error) => return error,
    };
    // A negative index counts from the end.
    let index = |number: i64| if number < 0 { number + count(ordered.len()) } else { number };
    let (from, end) =
        (usize::try_from(index(from)).unwrap_or(0), usize::try_from(index(to) + 1).unwrap_or(0));
    let chosen = ordered.into_iter().take(end).skip(from);
    let replies = chosen.flat_map(|(score, member)| {
        [Some(Reply::Bulk(member)), with_scores.then(|| Reply::bulk(shown(score)))].into_iter().flatten()
    });
    Reply::Array(replies.collect())
}

/// Returns the members of a sorted set, the greatest score first.
fn ordered(core: &mut Core, key: &[u8]) -> Result<Vec<(f64, Vec<u8>)>, Reply> {
    let members = sorted(core, key)?;
    let mut ordered: Vec<_> = members.iter().map(|(member, score)| (*score, member.clone())).collect();
    ordered.sort_by(|left, right| right.partial_cmp(left).expect("scores are numbers"));
    Ok(ordered)
}

/// Removes the members with a score from `-inf` up to `to`, which is exclusive behind a parenthesis.
fn remove_below(core: &mut Core, key: &[u8], to: &[u8]) -> Reply {
    let is_exclusive = to.first() == Some(&b'(');
    let Some(to) = score_of(to.strip_prefix(b"(").unwrap_or(to)) else {
        return Reply::error("ERR min or max is not a float");
    };
    remove_where(core, key, |_, score| if is_exclusive { score < to } else { score <= to })
}

fn remove_where(core: &mut Core, key: &[u8], is_gone: impl Fn(&Vec<u8>, f64) -> bool) -> Reply {
    let removed = match sorted(core, key) {
        Ok(members) => members.iter().filter(|(member, score)| is_gone(member, **score)).count(),
        Err(error) => return error,
    };
    if removed > 0 {
        with_sorted(core, key, |members| members.retain(|member, score| !is_gone(member, *score)));
    }
    Reply::Int(count(removed))
}

/// Reads a key, and remembers the reader if it wants to learn of changes.
fn read<'a>(core: &'a mut Core, key: &[u8]) -> Option<&'a Entry> {
    if let Some(reader) = core.executing {
        core.remember(reader, key);
    }
    core.keys.get(key, core.now)
}

/// Returns the members of a sorted set; none if there is no key.
fn sorted<'a>(core: &'a mut Core, key: &[u8]) -> Result<&'a BTreeMap<Vec<u8>, f64>, Reply> {
    static NONE: BTreeMap<Vec<u8>, f64> = BTreeMap::new();
    match read(core, key).map(|entry| &entry.value) {
        None => Ok(&NONE),
        Some(Value::Sorted(members)) => Ok(members),
        Some(_) => Err(wrong_type()),
    }
}

/// Changes a sorted set, which is created if it is missing, and deleted if it is empty.
fn with_sorted(core: &mut Core, key: &[u8], change: impl FnOnce(&mut BTreeMap<Vec<u8>, f64>)) {
    if core.keys.get(key, core.now).is_none() {
        core.keys.set(key, Value::Sorted(BTreeMap::new()), None);
    }
    let mut is_empty = false;
    if let Some(Entry { value: Value::Sorted(members), .. }) = core.keys.get_mut(key, core.now) {
        change(members);
        is_empty = members.is_empty();
    }
    if is_empty {
        core.keys.remove(key);
    }
    core.touched(key);
}

fn remove(core: &mut Core, key: &[u8]) -> bool {
    let exists = core.keys.remove(key);
    if exists {
        core.touched(key);
    }
    exists
}

fn changed(core: &mut Core, key: &[u8], reply: Reply) -> Reply {
    core.touched(key);
    reply
}

fn time(now: u64) -> Reply {
    let part = |number: u64| Reply::bulk(number.to_string());
    Reply::Array(vec![part(now / 1_000_000), part(now % 1_000_000)])
}

fn wrong_type() -> Reply {
    Reply::error("WRONGTYPE Operation against a key holding the wrong kind of value")
}

fn number(text: &[u8]) -> Result<i64, Reply> {
    let number = std::str::from_utf8(text).ok().and_then(|text| text.parse().ok());
    number.ok_or_else(|| Reply::error("ERR value is not an integer or out of range"))
}

fn score_of(text: &[u8]) -> Option<f64> {
    std::str::from_utf8(text).ok()?.parse().ok().filter(|score: &f64| !score.is_nan())
}

/// Returns a score as a server shows it.
fn shown(score: f64) -> String {
    if score.is_infinite() {
        (if score > 0.0 { "inf" } else { "-inf" }).to_owned()
    } else {
        score.to_string()
    }
}

fn millis(core: &Core) -> u64 {
    core.now / 1000
}

fn count(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn unsigned(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}
