//! A builder whose nodes are servers of one adapter.

use std::sync::Arc;

use redlock_core::node::LockNode;
use redlock_core::{Builder, Error, ErrorKind};

use crate::connection::Connector;
use crate::node::Node;
use crate::options::Options;

/// Starts a [`Redlock`](redlock_core::Redlock) on the runtime of `options`, with a node for each connector.
///
/// It [compares node lists](Builder::compare_node_lists), because servers are shared by programs.
///
/// # Errors
///
/// - The first error among the connectors. The message of an
///   [`InvalidInput`](redlock_core::ErrorKind::InvalidInput) begins with the position of the address, such as
///   `server 2 of 3: `.
pub fn builder<C: Connector>(
    connectors: impl IntoIterator<Item = Result<C, Error>>,
    options: &Options,
) -> Result<Builder, Error> {
    let nodes = nodes(connectors, options)?;
    Ok(Builder::new(options.runtime()).nodes(nodes).compare_node_lists(true))
}

/// Creates a node for each connector.
///
/// # Errors
///
/// - Same as [`builder`].
pub fn nodes<C: Connector>(
    connectors: impl IntoIterator<Item = Result<C, Error>>,
    options: &Options,
) -> Result<Vec<Arc<dyn LockNode>>, Error> {
    let node = |connector| Arc::new(Node::new(connector, options)) as Arc<dyn LockNode>;
    Ok(valid_connectors(connectors)?.into_iter().map(node).collect())
}

/// Returns all connectors, or the first error with the position of its address.
///
/// # Errors
///
/// - Same as [`builder`].
pub fn valid_connectors<C>(connectors: impl IntoIterator<Item = Result<C, Error>>) -> Result<Vec<C>, Error> {
    let mut connectors = connectors.into_iter();
    let mut valid = Vec::new();
    while let Some(connector) = connectors.next() {
        match connector {
            Ok(connector) => valid.push(connector),
            Err(error) => {
                let position = valid.len() + 1;
                return Err(at(error, position, position + connectors.count()));
            }
        }
    }
    Ok(valid)
}

/// Adds the position of the address, from 1, to an error about the address.
fn at(error: Error, position: usize, count: usize) -> Error {
    match error.kind() {
        ErrorKind::InvalidInput => Error::invalid(format!("server {position} of {count}: {error}")),
        _ => error,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use redlock_core::TokioRuntime;

    use super::*;
    use crate::Address;
    use crate::fake::Fake;

    fn message(urls: &[&str]) -> String {
        let error = valid_connectors(urls.iter().map(|url| Address::parse(url))).unwrap_err();
        assert_eq!(ErrorKind::InvalidInput, error.kind());
        error.to_string()
    }

    #[test]
    fn node_lists_are_compared_by_default() {
        let redlock = builder([Ok(Fake::default())], &Options::new(Arc::new(TokioRuntime::new()))).unwrap();
        let shown = format!("{:?}", redlock.build().unwrap());
        assert!(shown.contains("compare_node_lists: true"), "{shown}");
    }

    #[test]
    fn an_error_names_the_position_of_the_first_invalid_address() {
        let (valid, invalid) = ("redis://10.0.0.1", "redis://me:hunter2@a/x");
        let shown = message(&[valid, invalid, valid, invalid]);
        assert!(shown.starts_with("server 2 of 4: invalid address redis://a: the database"), "{shown}");
        assert!(message(&[invalid]).starts_with("server 1 of 1: "));
        assert!(message(&[valid, valid, "10.0.0.3"]).starts_with("server 3 of 3: invalid address: expected"));
        for urls in [&[invalid][..], &[valid, "redis://me:hunter2@a,redis://me:hunter2@b"]] {
            assert!(!message(urls).contains("hunter2"));
        }
    }

    #[tokio::test]
    async fn an_error_of_another_kind_is_unchanged() {
        let options = Options::new(Arc::new(TokioRuntime::new()));
        let redlock = builder([Ok(Fake::default())], &options).unwrap().build().unwrap();
        redlock.close().await;
        let error = redlock.lock("a", Duration::from_secs(1)).try_now().await.unwrap_err();
        let shown = error.to_string();
        let same = valid_connectors::<Address>([Err(error)]).unwrap_err();
        assert_eq!((ErrorKind::Closed, shown), (same.kind(), same.to_string()));
    }

    #[test]
    fn valid_addresses_keep_their_order() {
        let valid = valid_connectors(["redis://b", "redis://a"].map(Address::parse)).unwrap();
        assert_eq!(["b:6379", "a:6379"], *valid.iter().map(ToString::to_string).collect::<Vec<_>>());
    }
}
