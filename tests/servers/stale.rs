//! The story that fencing is for: a holder is stopped past its TTL, another takes over and writes, and the first one goes on
//! and writes too, late.

use super::processes::Holder;
use super::*;

/// What is written goes through this: it refuses a token that is smaller than one it has seen.
const CHECKED: &str = include_str!("../../examples/src/write.lua");

/// What a holder does that has been away for long, to a resource that is written to by a script.
struct Story {
    store: RedisServer,
    first: Holder,
    second: Holder,
    tokens: [u64; 2],
}

/// The first writes, is stopped, the second writes: now the first has its next write before it, and wakes up.
fn story(servers: &[RedisServer], script: &str) -> Story {
    let store = RedisServer::start();
    let port = store.port().to_string();
    let hold = |value| Holder::start(servers, "write", &["report", "500", &port, script, value]);
    let token = |holder: &Holder| holder.says().strip_prefix("held with ").unwrap().parse::<u64>().unwrap();

    let mut first = hold("first");
    let earlier = token(&first);
    first.tell("");
    assert_eq!("written", first.says());
    first.stop();

    let mut second = hold("second");
    let later = token(&second);
    second.tell("");
    assert_eq!("written", second.says());
    assert_eq!("second", store.command(&["HGET", "report", "value"]));

    first.tell("");
    first.go_on();
    Story { store, first, second, tokens: [earlier, later] }
}

#[test]
fn a_holder_that_was_stopped_past_its_ttl_is_refused_by_the_resource() {
    let servers = five();
    let mut story = story(&servers, CHECKED);
    assert_eq!("refused", story.first.says());
    assert_eq!("second", story.store.command(&["HGET", "report", "value"]));
    let [earlier, later] = story.tokens;
    assert!(later > earlier, "{later} after {earlier}");
    assert_eq!(later.to_string(), story.store.command(&["HGET", "report", "fence"]));

    // The one in the right goes on writing, however often the other has tried.
    story.second.tell("");
    assert_eq!("written", story.second.says());
    for holder in [&mut story.first, &mut story.second] {
        holder.nothing_more_to_read();
        holder.ends();
    }
}

/// So the test above shows what the check does, not what luck does.
#[test]
fn without_the_check_it_overwrites_what_the_next_one_wrote() {
    let servers = five();
    let unchecked = "redis.call('HSET', KEYS[1], 'fence', ARGV[1], 'value', ARGV[2]) return 1";
    let story = story(&servers, unchecked);
    assert_eq!("written", story.first.says());
    assert_eq!("first", story.store.command(&["HGET", "report", "value"]), "what is older, for good");
}
