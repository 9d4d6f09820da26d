//! A stale holder: it is stopped past its TTL. Another client acquires the lock and writes. Then the first one continues
//! and writes too.

use super::processes::Holder;
use super::*;

/// The script of the resource. It rejects a token that is less than an earlier one.
const CHECKED: &str = include_str!("../../../../examples/src/write.lua");

/// A resource behind a script, and two holders in succession.
struct TwoHolders {
    store: RedisServer,
    first: Holder,
    second: Holder,
    tokens: [u64; 2],
}

/// The first holder writes and is stopped, the second one writes, and the first one continues with a write due.
fn two_holders<A: Adapter>(servers: &[RedisServer], script: &str) -> TwoHolders {
    let store = RedisServer::start();
    let port = store.port().to_string();
    let hold = |value| Holder::start::<A>(servers, "write", &["report", "500", &port, script, value]);
    let token =
        |holder: &Holder| holder.next_line().strip_prefix("held with ").unwrap().parse::<u64>().unwrap();

    let mut first = hold("first");
    let earlier = token(&first);
    first.send_line("");
    assert_eq!("written", first.next_line());
    first.stop();

    let mut second = hold("second");
    let later = token(&second);
    second.send_line("");
    assert_eq!("written", second.next_line());
    assert_eq!("second", store.command(&["HGET", "report", "value"]));

    first.send_line("");
    first.go_on();
    TwoHolders { store, first, second, tokens: [earlier, later] }
}

pub(crate) fn the_resource_rejects_a_holder_that_was_stopped_past_its_ttl<A: Adapter>() {
    let servers = five();
    let mut holders = two_holders::<A>(&servers, CHECKED);
    assert_eq!("rejected", holders.first.next_line());
    assert_eq!("second", holders.store.command(&["HGET", "report", "value"]));
    let [earlier, later] = holders.tokens;
    assert!(later > earlier, "{later} after {earlier}");
    assert_eq!(later.to_string(), holders.store.command(&["HGET", "report", "fence"]));

    // The current holder continues to write after the rejected write.
    holders.second.send_line("");
    assert_eq!("written", holders.second.next_line());
    for holder in [&mut holders.first, &mut holders.second] {
        holder.nothing_more_to_read();
        holder.ends();
    }
}

/// The counterpart of the test above: without the check the stale write succeeds.
pub(crate) fn without_the_check_a_stale_holder_overwrites_newer_data<A: Adapter>() {
    let servers = five();
    let unchecked = "redis.call('HSET', KEYS[1], 'fence', ARGV[1], 'value', ARGV[2]) return 1";
    let holders = two_holders::<A>(&servers, unchecked);
    assert_eq!("written", holders.first.next_line());
    assert_eq!("first", holders.store.command(&["HGET", "report", "value"]), "the older value remains");
}
