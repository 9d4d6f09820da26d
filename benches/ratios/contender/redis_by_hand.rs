//! The redis client, used by hand: one multiplexed connection per node, as in the adapter.

use std::sync::Arc;

use futures_util::future::join_all;
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, Cmd, IntoConnectionInfo, Script, Value};
use tokio::task::unconstrained;

use super::by_hand::{EXTEND, RELEASE, at_quorum, token};
use super::{Contender, TTL};

#[derive(Clone)]
pub(crate) struct RedisByHand(Arc<Inner>);

struct Inner {
    connections: Vec<MultiplexedConnection>,
    release: String,
    extend: String,
}

pub(crate) struct Held {
    key: String,
    token: String,
}

impl RedisByHand {
    pub(crate) async fn connect(urls: &[String]) -> Self {
        let connections = join_all(urls.iter().map(|url| connect(url))).await;
        let (release, extend) = (Script::new(RELEASE), Script::new(EXTEND));
        for connection in &connections {
            for script in [&release, &extend] {
                script.load_async(&mut connection.clone()).await.expect("the server accepts scripts");
            }
        }
        let (release, extend) = (release.get_hash().to_owned(), extend.get_hash().to_owned());
        Self(Arc::new(Inner { connections, release, extend }))
    }

    async fn everywhere(&self, command: Cmd, yes: fn(&Value) -> bool) {
        let command = Arc::new(command);
        let call = |connection: &MultiplexedConnection| {
            let (mut connection, command) = (connection.clone(), Arc::clone(&command));
            // Without this, a task that has used up tokio's budget would send a release behind its next acquire.
            unconstrained(async move {
                connection.send_packed_command(&command).await.is_ok_and(|value| yes(&value))
            })
        };
        at_quorum(self.0.connections.iter().map(call)).await;
    }
}

/// Connects with the settings of the adapter, and without a timeout of the client.
pub(crate) async fn connect(url: &str) -> MultiplexedConnection {
    let info = url.into_connection_info().expect("the address is valid");
    let tcp = info.tcp_settings().clone().set_nodelay(true);
    let login = info.redis_settings().clone().set_protocol(redis::ProtocolVersion::RESP3);
    // With 1,024 tasks, a full buffer would delay a release behind the next acquire of its task.
    let config = AsyncConnectionConfig::new().set_response_timeout(None).set_pipeline_buffer_size(4096);
    let client = Client::open(info.set_tcp_settings(tcp).set_redis_settings(login));
    let client = client.expect("the address is valid");
    client.get_multiplexed_async_connection_with_config(&config).await.expect("the server runs")
}

impl Contender for RedisByHand {
    type Held = Held;

    async fn acquire(&self, key: &str) -> Held {
        let held = Held { key: key.to_owned(), token: token() };
        let mut set = Cmd::new();
        set.arg("SET").arg(key).arg(&held.token).arg("NX").arg("PX").arg(TTL.as_millis().to_string());
        self.everywhere(set, |value| *value == Value::Okay).await;
        held
    }

    async fn release(&self, held: Held) {
        let mut call = Cmd::new();
        call.arg("EVALSHA").arg(&self.0.release).arg(1).arg(held.key).arg(held.token);
        self.everywhere(call, |value| *value == Value::Int(1)).await;
    }

    async fn extend(&self, held: &mut Held) {
        let mut call = Cmd::new();
        call.arg("EVALSHA").arg(&self.0.extend).arg(1).arg(&held.key).arg(&held.token);
        call.arg(TTL.as_millis().to_string());
        self.everywhere(call, |value| *value == Value::Int(1)).await;
    }
}
