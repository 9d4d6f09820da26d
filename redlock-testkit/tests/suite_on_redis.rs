//! The conformance suite on a real server, through a minimal backend.
//!
//! It shows that the suite fits the behavior of Redis, not only that of `MemoryNode`.

use std::sync::Arc;
use std::time::Duration;

use redlock_core::Resource;
use redlock_core::node::{
    Begun, Claim, Denial, Exchange, LockNode, NodeError, Reply, Request, ServerId, Token, Ttl,
};
use redlock_testkit::RedisServer;
use redlock_testkit::conformance::Backend;

/// Each call has a separate connection, so there is no order. The server lives as long as its clients.
#[derive(Clone)]
struct Blocking {
    label: String,
    server: Arc<RedisServer>,
    id: Option<ServerId>,
}

const ACQUIRE: &str = "
    for _, key in ipairs(KEYS) do
        local there = redis.call('GET', key)
        if there and there ~= ARGV[1] then return {there, redis.call('PTTL', key)} end
    end
    for _, key in ipairs(KEYS) do redis.call('SET', key, ARGV[1], 'NX', 'PX', ARGV[2]) end
    return 1";

const EXTEND: &str = "
    for _, key in ipairs(KEYS) do
        if redis.call('GET', key) ~= ARGV[1] then return 0 end
    end
    for _, key in ipairs(KEYS) do
        if redis.call('PTTL', key) < tonumber(ARGV[2]) then redis.call('PEXPIRE', key, ARGV[2]) end
    end
    return 1";

const RELEASE: &str = "
    local deleted = 0
    for _, key in ipairs(KEYS) do
        if redis.call('TYPE', key).ok == 'string' and redis.call('GET', key) == ARGV[1] then
            deleted = deleted + redis.call('DEL', key)
        end
    end
    return deleted";

impl LockNode for Blocking {
    fn label(&self) -> &str {
        &self.label
    }

    fn begin(&self, request: &Request) -> Begun {
        let (node, request) = (self.clone(), request.clone());
        Begun::Sent(Exchange {
            connection: None,
            server: self.id,
            reply: Box::pin(async move { node.reply_to(&request) }),
        })
    }
}

impl Blocking {
    fn reply_to(&self, request: &Request) -> Result<Reply, NodeError> {
        match request {
            Request::Acquire(claim, ttl) => self.eval(ACQUIRE, claim, Some(*ttl)),
            Request::Extend(claim, ttl) => self.eval(EXTEND, claim, Some(*ttl)),
            Request::Release(claim) => Ok(Reply::Deleted(self.eval(RELEASE, claim, None)?.is_grant())),
            other => Err(NodeError::unsupported(other)),
        }
    }

    fn eval(&self, script: &str, claim: &Claim, ttl: Option<Ttl>) -> Result<Reply, NodeError> {
        let count = claim.resources().len().to_string();
        let millis = ttl.map_or(0, Ttl::as_millis).to_string();
        let mut words = vec![b"EVAL".as_slice(), script.as_bytes(), count.as_bytes()];
        words.extend(claim.resources().iter().map(Resource::as_bytes));
        words.extend([claim.token().as_bytes(), millis.as_bytes()]);
        match self.server.reply(&words) {
            redlock_testkit::Reply::Int(0) => Ok(Reply::Denied(Denial::default())),
            redlock_testkit::Reply::Int(_) => Ok(Reply::Granted),
            redlock_testkit::Reply::Array(holder) => match holder.as_slice() {
                [redlock_testkit::Reply::Bytes(token), redlock_testkit::Reply::Int(millis)] => {
                    let left = Duration::from_millis(u64::try_from(*millis).unwrap_or(0));
                    Ok(Reply::Denied(Denial::by(Token::from_bytes(token)).expiring_in(left)))
                }
                other => Err(NodeError::rejected(format!("unexpected reply: {other:?}"))),
            },
            redlock_testkit::Reply::Error(error) if error.starts_with("WRONGTYPE") => {
                Err(NodeError::wrong_type(claim.resources().last().expect("a claim has resources")))
            }
            other => Err(NodeError::rejected(format!("{other:?}"))),
        }
    }
}

struct Redis(Arc<RedisServer>);

impl Redis {
    fn start() -> Self {
        Self(Arc::new(RedisServer::start()))
    }
}

impl Backend for Redis {
    async fn node(&self) -> Arc<dyn LockNode> {
        let info = self.0.command(&["INFO", "server"]);
        Arc::new(Blocking {
            label: format!("127.0.0.1:{}", self.0.port()),
            server: self.0.clone(),
            id: info.lines().find_map(|line| line.strip_prefix("run_id:")).map(ServerId::new),
        })
    }

    async fn no_lock(&self) -> Option<Resource> {
        // The error of this backend names the last resource of a claim, and the suite puts the non-lock value last.
        self.0.command(&["RPUSH", "zzzz-jobs", "one"]);
        Resource::new("zzzz-jobs").ok()
    }
}

redlock_testkit::conformance!(Redis::start(), without: [inspect, watch, keep, places, fencing, shared, admission]);
