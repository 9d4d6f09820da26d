//! The number of commands of a lock.

use super::*;
use crate::native::releases;

pub(crate) async fn a_cycle_is_two_commands_on_each_server<A: Adapter>() {
    let (servers, redlock) = warm_five::<A>().await;
    let executed = |command| servers.iter().map(|server| server.commandstats(command)).collect::<Vec<_>>();
    let counts = || [executed("set"), servers.iter().map(releases).collect(), executed("eval")];
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
