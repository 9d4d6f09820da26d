//! A node in a database, with the SQL of the chapter *Custom backends*. The tests are the conformance suite.
//!
//! `cargo test -p redlock-examples --example sql_backend`
//!
//! It runs on `SQLite`, which has no `now()` and no `greatest()`; they are defined here. One database is one node.
#![allow(clippy::print_stdout)] // prints each step

use std::error::Error;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use redlock_redis_rs::node::{Backend, Claim, Denial, NodeError, Reply, Request, Ttl, async_trait};
use redlock_redis_rs::runtime::suspend_aware_now;
use redlock_redis_rs::{Redlock, Resource, TokioRuntime};
use rusqlite::functions::FunctionFlags;
use rusqlite::{Connection, Transaction, named_params};

/// The chapter with the SQL.
const CHAPTER: &str = include_str!("../../docs/custom-backends.md");

/// A database that is one node.
struct Database(Mutex<Connection>);

impl Database {
    fn open() -> rusqlite::Result<Self> {
        let database = Connection::open_in_memory()?;
        database.execute_batch("CREATE TABLE locks (name BLOB PRIMARY KEY, token BLOB, until INTEGER)")?;
        database.create_scalar_function("now", 0, FunctionFlags::SQLITE_UTF8, |_| Ok(now()))?;
        let greatest = FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_DETERMINISTIC;
        database.create_scalar_function("greatest", 2, greatest, |arguments| {
            Ok(arguments.get::<i64>(0)?.max(arguments.get(1)?))
        })?;
        Ok(Self(Mutex::new(database)))
    }

    /// Runs steps in one transaction, which is committed if they return true.
    fn transaction(
        &self,
        steps: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<bool>,
    ) -> Result<bool, NodeError> {
        let mut database = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let outcome = (|| {
            let transaction = database.transaction()?;
            let outcome = steps(&transaction)?;
            if outcome {
                transaction.commit()?;
            } else {
                transaction.rollback()?;
            }
            Ok(outcome)
        })();
        // A transaction that failed has changed nothing.
        outcome.map_err(|error: rusqlite::Error| NodeError::rejected(error.to_string()))
    }
}

/// Returns the time in microseconds.
fn now() -> i64 {
    let micros = suspend_aware_now().elapsed_since_origin().as_micros();
    i64::try_from(micros).expect("a time within the range of SQL")
}

/// Returns the statement of an operation, from the table of the chapter.
fn sql(operation: &str) -> &'static str {
    let start = format!("| {operation} | `");
    let row = CHAPTER.lines().find_map(|line| line.strip_prefix(&start)).expect("the chapter has a row");
    row.split('`').next().expect("the statement ends")
}

fn reply(is_granted: bool) -> Reply {
    if is_granted { Reply::Granted } else { Reply::Denied(Denial::default()) }
}

/// Returns whether the row of a resource contains the token of the claim.
fn is_held(transaction: &Transaction<'_>, name: &Resource, claim: &Claim) -> rusqlite::Result<bool> {
    let read = "SELECT token = :token FROM locks WHERE name = :name";
    let token = claim.token().as_bytes();
    transaction.query_row(read, named_params! { ":name": name.as_bytes(), ":token": token }, |row| row.get(0))
}

#[async_trait]
impl Backend for Database {
    fn label(&self) -> &'static str {
        "database"
    }

    async fn reply_to(&self, request: &Request) -> Result<Reply, NodeError> {
        match request {
            Request::Acquire(claim, ttl) => self.acquire(claim, *ttl).map(reply),
            Request::Extend(claim, ttl) => self.extend(claim, *ttl).map(reply),
            Request::Release(claim) => self.release(claim).map(Reply::Deleted),
            other => Err(NodeError::unsupported(other)),
        }
    }
}

impl Database {
    fn acquire(&self, claim: &Claim, ttl: Ttl) -> Result<bool, NodeError> {
        let (token, ttl) = (claim.token().as_bytes(), 1000 * i64::from(ttl));
        self.transaction(|transaction| {
            for name in claim.resources() {
                let parameters = named_params! { ":name": name.as_bytes(), ":token": token, ":ttl": ttl };
                let changed = transaction.execute(sql("acquire"), parameters)?;
                if changed == 0 && !is_held(transaction, name, claim)? {
                    return Ok(false);
                }
            }
            Ok(true)
        })
    }

    fn extend(&self, claim: &Claim, ttl: Ttl) -> Result<bool, NodeError> {
        let (token, ttl) = (claim.token().as_bytes(), 1000 * i64::from(ttl));
        self.transaction(|transaction| {
            for name in claim.resources() {
                let parameters = named_params! { ":name": name.as_bytes(), ":token": token, ":ttl": ttl };
                if transaction.execute(sql("extend"), parameters)? == 0 {
                    return Ok(false);
                }
            }
            Ok(true)
        })
    }

    fn release(&self, claim: &Claim) -> Result<bool, NodeError> {
        self.transaction(|transaction| {
            let mut deleted = 0;
            for name in claim.resources() {
                let parameters =
                    named_params! { ":name": name.as_bytes(), ":token": claim.token().as_bytes() };
                deleted += transaction.execute(sql("release"), parameters)?;
            }
            Ok(deleted > 0)
        })
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let database = Arc::new(Database::open()?);
    let client = || Redlock::builder(TokioRuntime::new()).node(database.clone()).build();
    let (first, second) = (client()?, client()?);
    let guard = first.lock("invoice:42", Duration::from_secs(10)).await?;
    assert!(second.lock("invoice:42", Duration::from_secs(10)).try_now().await?.is_none());
    println!("locked in the database: {:?}", guard.release().await?);
    Ok(())
}

#[cfg(test)]
mod tests {
    use redlock_redis_rs::node::LockNode;

    use super::*;

    struct Server(Arc<Database>);

    impl redlock_testkit::conformance::Backend for Server {
        async fn node(&self) -> Arc<dyn LockNode> {
            Arc::new(self.0.clone())
        }
    }

    redlock_testkit::conformance!(
        Server(Arc::new(Database::open().expect("SQLite opens a database in memory"))),
        without: [inspect, watch, keep, places, fencing, shared, admission, non_lock_values]
    );

    #[test]
    fn a_lock_in_the_database_excludes() {
        main().expect("the example succeeds");
    }
}
