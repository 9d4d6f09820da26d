//! A row in a database that rejects stale writers: the check and the write are one statement.
//!
//! `cargo run -p redlock-examples --example fenced_row`
#![allow(clippy::print_stdout)] // prints each step

use std::error::Error;
use std::time::Duration;

use redlock_examples::Nodes;
use redlock_redis_rs::FencingToken;
use rusqlite::{Connection, params};

const TTL: Duration = Duration::from_millis(500);

/// An account in a database. A deposit reads, adds and writes.
struct Account(Connection);

impl Account {
    fn open() -> rusqlite::Result<Self> {
        let database = Connection::open_in_memory()?;
        database.execute_batch(
            "CREATE TABLE account (name TEXT PRIMARY KEY, balance INTEGER NOT NULL, fence INTEGER NOT NULL);
             INSERT INTO account VALUES ('till', 100, 0);",
        )?;
        Ok(Self(database))
    }

    /// Writes only the token, which rejects smaller tokens from now on. Returns true if it was written.
    ///
    /// Call this before the first read. Otherwise a stale writer could write between that read and the write that
    /// follows.
    fn enter(&self, token: FencingToken) -> rusqlite::Result<bool> {
        let sql = "UPDATE account SET fence = ?1 WHERE name = 'till' AND fence <= ?1";
        Ok(self.0.execute(sql, [i64::from(token)])? == 1)
    }

    fn balance(&self) -> rusqlite::Result<i64> {
        self.0.query_row("SELECT balance FROM account WHERE name = 'till'", [], |row| row.get(0))
    }

    /// Returns true if the balance was written.
    fn set_balance(&self, token: FencingToken, balance: i64) -> rusqlite::Result<bool> {
        let sql = "UPDATE account SET balance = ?2, fence = ?1 WHERE name = 'till' AND fence <= ?1";
        Ok(self.0.execute(sql, params![i64::from(token), balance])? == 1)
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let (nodes, account) = (Nodes::new(), Account::open()?);
    let (first, second) = (nodes.program()?, nodes.program()?);

    // The first client reads and is paused. It does not run until the comment "continues".
    let earlier = first.lock("till", TTL).fenced().await?;
    assert!(account.enter(earlier.token())?);
    let seen = account.balance()?;

    // Its lock expires, and the second client acquires it.
    let later = second.lock("till", TTL).fenced().await?;
    assert!(later.token() > earlier.token());
    assert!(account.enter(later.token())?);

    // The first client continues as if it still held the lock. It is too late, even though no balance was written
    // since.
    let written = account.set_balance(earlier.token(), seen + 10)?;
    println!("first client, with {}: {}", earlier.token(), if written { "written" } else { "rejected" });
    assert!(!written);

    // Thus the second client reads the balance that it builds upon.
    let seen = account.balance()?;
    let written = account.set_balance(later.token(), seen + 5)?;
    println!("second client, with {}: {}", later.token(), if written { "written" } else { "rejected" });
    assert!(written);
    assert_eq!(105, account.balance()?);
    Ok(())
}

#[test]
fn the_stale_writer_is_rejected() {
    main().expect("the example succeeds");
}
