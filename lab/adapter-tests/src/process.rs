//! A process that locks, for the tests of several processes.
#![allow(clippy::print_stdout)] // the report goes to stdout

mod busy;
mod contend;
mod grants;
mod hold;

use std::error::Error;
use std::sync::Arc;

use redlock_core::node::LockNode;
use redlock_core::{Redlock, TokioRuntime};
use redlock_wire::{Connector, Node, Options};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use crate::servers::{NODE_TIMEOUT, TTL};

type Outcome<T> = Result<T, Box<dyn Error>>;

/// The `main` of the example `process_*` of an adapter.
///
/// The arguments are the program, the URLs of the nodes separated by commas, and those of the program:
///
/// - `busy NODES`
/// - `contend NODES CYCLES FILE`
/// - `grants NODES GRANTS FILE`
/// - `hold NODES ...`
///
/// # Errors
///
/// - The error of a lock, or of a wrong argument.
pub fn process<C: Connector>(
    node: impl Fn(&str, &Options) -> Result<Node<C>, redlock_core::Error>,
) -> Outcome<()> {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
    let [program, nodes, arguments @ ..] = &arguments[..] else {
        return Err("missing arguments: the program and the nodes".into());
    };
    let options = Options::tokio();
    let options = if *program == "busy" { options.longest_ttl(TTL) } else { options };
    let nodes = nodes.split(',').map(|url| node(url, &options)).collect::<Result<Vec<_>, _>>()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    match (*program, arguments) {
        ("busy", []) => runtime.block_on(busy::main(&redlock(nodes)?)),
        ("contend", [cycles, file]) => {
            runtime.block_on(contend::main(&redlock(nodes)?, cycles.parse()?, file))
        }
        ("grants", [grants, file]) => runtime.block_on(grants::main(nodes, grants.parse()?, file)),
        ("hold", [how, lock @ ..]) => runtime.block_on(hold::main(&redlock(nodes)?, how, lock)),
        _ => Err("unknown program or wrong arguments".into()),
    }
}

/// Returns the lines of standard input.
fn input() -> UnboundedReceiver<String> {
    let (sender, lines) = unbounded_channel();
    std::thread::spawn(move || {
        for line in std::io::stdin().lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    lines
}

fn redlock(nodes: Vec<impl LockNode + 'static>) -> Outcome<Redlock> {
    let nodes = nodes.into_iter().map(|node| Arc::new(node) as Arc<dyn LockNode>);
    Ok(Redlock::builder(TokioRuntime::new()).nodes(nodes).node_timeout(NODE_TIMEOUT).build()?)
}
