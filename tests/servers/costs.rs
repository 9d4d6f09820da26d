//! What a lock costs the servers.

use super::*;

/// How often each server has executed a command.
fn executed(servers: &[RedisServer], command: &str) -> Vec<u64> {
    servers.iter().map(|server| server.commandstats(command)).collect()
}

#[tokio::test]
async fn a_cycle_is_one_set_and_one_script_on_each_server() {
    let servers = five();
    let redlock = warm(&servers).await;
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
