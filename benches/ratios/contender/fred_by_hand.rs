//! fred, used by hand: one client per node, with the options of the adapter.

use std::sync::Arc;
use std::time::Duration;

use fred::clients::Client;
use fred::interfaces::{ClientLike, KeysInterface, LuaInterface};
use fred::types::config::{Config, ConnectionConfig, TcpConfig};
use fred::types::{Expiration, RespVersion, SetOptions};
use futures_util::future::join_all;

use super::by_hand::{EXTEND, RELEASE, at_quorum, token};
use super::{Contender, TTL};

#[derive(Clone)]
pub(crate) struct FredByHand(Arc<Inner>);

struct Inner {
    clients: Vec<Client>,
    release: String,
    extend: String,
}

#[derive(Clone)]
pub(crate) struct Held {
    key: String,
    token: String,
}

impl FredByHand {
    pub(crate) async fn connect(urls: &[String]) -> Self {
        let clients = join_all(urls.iter().map(|url| connect(url))).await;
        let mut hashes = Vec::new();
        for script in [RELEASE, EXTEND] {
            for client in &clients {
                hashes
                    .push(client.script_load::<String, _>(script).await.expect("the server accepts scripts"));
            }
        }
        let (release, extend) = (hashes[0].clone(), hashes[clients.len()].clone());
        Self(Arc::new(Inner { clients, release, extend }))
    }

    async fn run(&self, script: &str, held: &Held, args: &[String]) {
        let call = |client: &Client| {
            let (client, script, Held { key, token }) = (client.clone(), script.to_owned(), held.clone());
            let args: Vec<String> = [token].into_iter().chain(args.iter().cloned()).collect();
            async move { client.evalsha::<i64, _, _, _>(script, vec![key], args).await.is_ok_and(|n| n == 1) }
        };
        at_quorum(self.0.clients.iter().map(call)).await;
    }
}

pub(crate) async fn connect(url: &str) -> Client {
    let mut config = Config::from_url(url).expect("the address is valid");
    config.version = RespVersion::RESP3;
    config.fail_fast = true;
    let connection = ConnectionConfig {
        internal_command_timeout: Duration::ZERO,
        max_command_attempts: 1,
        tcp: TcpConfig { nodelay: Some(true), ..TcpConfig::default() },
        ..ConnectionConfig::default()
    };
    let client = Client::new(config, None, Some(connection), None);
    client.init().await.expect("the server runs");
    client
}

impl Contender for FredByHand {
    type Held = Held;

    async fn acquire(&self, key: &str) -> Held {
        let held = Held { key: key.to_owned(), token: token() };
        let call = |client: &Client| {
            let (client, Held { key, token }) = (client.clone(), held.clone());
            let expiry = Expiration::PX(i64::try_from(TTL.as_millis()).expect("the TTL is a few seconds"));
            async move {
                let old =
                    client.set::<Option<String>, _, _>(key, token, Some(expiry), Some(SetOptions::NX), false);
                old.await.is_ok_and(|ok| ok.is_some())
            }
        };
        at_quorum(self.0.clients.iter().map(call)).await;
        held
    }

    async fn release(&self, held: Held) {
        self.run(&self.0.release, &held, &[]).await;
    }

    async fn extend(&self, held: &mut Held) {
        self.run(&self.0.extend, held, &[TTL.as_millis().to_string()]).await;
    }
}
