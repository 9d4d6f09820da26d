//! Programs that list different servers notice it.

use super::*;
use crate::Adapter;

const DIFFER: &str = "node lists differ between programs";

/// The lists of two programs, and the number of servers in both.
const LISTS: [(&[usize], &[usize], usize); 4] = [
    (&[0, 1, 2], &[2, 3, 4], 1),
    (&[0, 1, 2], &[0, 1, 2, 3, 4], 3),
    (&[0, 1, 2], &[0, 1, 3], 2),
    (&[0], &[0, 1, 2], 1),
];

fn program<A: Adapter>(servers: &[RedisServer], numbers: &[usize]) -> Redlock {
    let urls = numbers.iter().map(|number| servers[*number].url());
    let builder = A::builder(urls).unwrap().node_timeout(NODE_TIMEOUT);
    builder.compare_node_lists(true).build().unwrap()
}

async fn lock(redlock: &Redlock) {
    all_up(redlock).await;
    redlock.lock("a", TTL).await.unwrap().release().await.unwrap();
}

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn both_programs_notice_that_their_lists_differ<A: Adapter>() {
    for (one, two, common) in LISTS {
        let servers = five();
        let warnings = Warnings::default();
        let _subscribed = warnings.subscribe();
        let first = program::<A>(&servers, one);
        lock(&first).await;
        // By now the first program watches for other lists. It would look for them after ten seconds, otherwise.
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(0, warnings.about(DIFFER));
        let second = program::<A>(&servers, two);
        lock(&second).await;
        eventually("both programs warn", PATIENCE, async || warnings.about(DIFFER) == 2).await;
        for (program, own, other) in [(&first, one, two), (&second, two, one)] {
            let health = program.health().await;
            let difference = health.node_list_difference().expect("a fresh comparison");
            let numbers = (difference.own_nodes(), difference.other_nodes(), difference.common_nodes());
            assert_eq!((own.len(), other.len(), common), numbers);
        }
        first.close().await;
        second.close().await;
        assert_eq!(Vec::<String>::new(), keys(&servers));
    }
}

/// A server that restarts is another one. Programs with the same list, in another order, agree all the time.
#[tokio::main(flavor = "current_thread")]
pub(crate) async fn programs_with_the_same_servers_agree_across_restarts<A: Adapter>() {
    let servers = five();
    let warnings = Warnings::default();
    let _subscribed = warnings.subscribe();
    let programs = [&[0, 1, 2, 3, 4], &[4, 3, 2, 1, 0]].map(|numbers| program::<A>(&servers, numbers));
    for server in &servers[..3] {
        for program in &programs {
            lock(program).await;
        }
        server.kill();
        tokio::time::sleep(Duration::from_secs(1)).await;
        server.restart();
        tokio::time::sleep(Duration::from_secs(2)).await;
    }
    assert_eq!(0, warnings.about(DIFFER));
    let announced =
        || servers.iter().map(|server| server.command(&["GET", "redlock:nodes"])).collect::<Vec<_>>();
    eventually("all servers have the same announcement", PATIENCE, async || {
        let announced = announced();
        announced.iter().all(|list| *list == announced[0] && list.starts_with("nodes 5 "))
    })
    .await;
    for program in &programs {
        assert_eq!(None, program.health().await.node_list_difference());
    }
}
