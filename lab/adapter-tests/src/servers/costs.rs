//! The number of commands of a lock.

use super::*;

/// Returns the number of executions of a command on each server.
fn executed(servers: &[RedisServer], command: &str) -> Vec<u64> {
    servers.iter().map(|server| server.commandstats(command)).collect()
}

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn a_cycle_is_one_set_and_one_script_on_each_server<A: Adapter>() {
    let servers = five();
    let redlock = warm::<A>(&servers).await;
    let counts = || ["set", "evalsha", "eval"].map(|command| executed(&servers, command));
    let before = counts();
    for _ in 0..10 {
        redlock.lock("a", TTL).await.unwrap().release().await.unwrap();
    }
    nothing_left(&redlock, &servers).await;
    let after = counts();
    let grown = [0, 1, 2].map(|command: usize| -> Vec<u64> {
        after[command].iter().zip(&before[command]).map(|(after, before)| after - before).collect()
    });
    assert_eq!([vec![10; 5], vec![10; 5], vec![0; 5]], grown);
}
