// A process that takes one fenced lock again and again, and while it holds it appends its fencing token to a file that
// others append to as well: a line each, in the order of the grants. A line is sure to be in its place if the lock was
// still held behind it; otherwise the process says so, with a line `late` and the token.
//
// `grants --nodes URL,URL,... --grants N --file PATH`

use std::fs::OpenOptions;
use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use adapter::{Builder, ErrorKind, Guard, LockNode, Node, Options, Redlock};
use redlock_testkit::{Faulty, Operation};

/// Short enough that a node is now and then stopped for longer, and that a key left behind does not stop everybody.
const TTL: Duration = Duration::from_secs(2);

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let option = |name: &str| {
        let value = std::env::args().skip_while(|argument| argument != name).nth(1);
        value.ok_or(format!("{name} is missing"))
    };
    let (nodes, grants): (_, u32) = (option("--nodes")?, option("--grants")?.parse()?);
    let mut file = OpenOptions::new().append(true).create(true).open(option("--file")?)?;
    let options = Options::tokio();
    let nodes = counting(nodes.split(','), &options)?;
    let clones = nodes.iter().map(|node| Arc::new(node.clone()) as Arc<dyn LockNode>);
    let redlock = Builder::new(options.runtime()).nodes(clones).build()?;
    let (mut one_round, mut late, mut failed) = (0, 0, 0);
    for _ in 0..grants {
        let (guard, rounds) = loop {
            let confirmed = confirmations(&nodes);
            match lock(&redlock).await {
                Ok(guard) => break (guard, confirmations(&nodes) - confirmed + 1),
                Err(error) if error.is_retryable() => failed += 1,
                Err(error) => return Err(error.into()),
            }
        };
        one_round += u32::from(rounds == 1);
        let token = guard.fencing_token().ok_or("a fenced lock without a token")?;
        file.write_all(format!("{token}\n").as_bytes())?;
        if !guard.is_held() {
            late += 1;
            file.write_all(format!("late {token}\n").as_bytes())?;
        }
        // Undone in the background, if too few nodes answer.
        if let Err(error) = guard.release().await {
            assert_eq!(ErrorKind::NoQuorum, error.kind());
        }
    }
    redlock.close().await;
    println!("{grants} grants, {one_round} in one round, {late} late, {failed} failed requests");
    Ok(())
}

async fn lock(redlock: &Redlock) -> Result<Guard, adapter::Error> {
    redlock.lock("numbered", TTL).fenced().wait_unbounded().await
}

/// Nodes that count what they are asked.
fn counting<'a>(
    urls: impl Iterator<Item = &'a str>,
    options: &Options,
) -> Result<Vec<Faulty<Node>>, adapter::Error> {
    let wrap = |node| Faulty::wrap(node, options.runtime()).ordered().watching();
    urls.map(|url| adapter::node(url, options).map(wrap)).collect()
}

/// How often any node was asked to confirm a token: nobody is, in an acquisition of one round.
fn confirmations(nodes: &[Faulty<Node>]) -> u64 {
    nodes.iter().map(|node| node.request_count(Operation::Confirm)).sum()
}
