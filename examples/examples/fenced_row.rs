//! A row in a database that refuses a writer who comes too late: the check and the write are one statement.
//!
//! `cargo run -p redlock-examples --example fenced_row`
#![allow(clippy::print_stdout)] // it tells the story

use std::error::Error;
use std::time::Duration;

use redlock_examples::Nodes;
use redlock_redis_rs::{FencingToken, Guard};
use rusqlite::{Connection, params};

const TTL: Duration = Duration::from_millis(500);

/// An account in a database, on which deposits are booked: read, add, write.
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

    /// Writes the token alone: from now on whoever has a smaller one is refused. Whether it was written.
    ///
    /// Before the first read: otherwise a late writer could still write between that read and our write.
    fn enter(&self, token: FencingToken) -> rusqlite::Result<bool> {
        let sql = "UPDATE account SET fence = ?1 WHERE name = 'till' AND fence <= ?1";
        Ok(self.0.execute(sql, [i64::from(token)])? == 1)
    }

    fn balance(&self) -> rusqlite::Result<i64> {
        self.0.query_row("SELECT balance FROM account WHERE name = 'till'", [], |row| row.get(0))
    }

    /// Whether it was written.
    fn set_balance(&self, token: FencingToken, balance: i64) -> rusqlite::Result<bool> {
        let sql = "UPDATE account SET balance = ?2, fence = ?1 WHERE name = 'till' AND fence <= ?1";
        Ok(self.0.execute(sql, params![i64::from(token), balance])? == 1)
    }
}

fn token(guard: &Guard) -> FencingToken {
    guard.fencing_token().expect("a fenced lock has a token")
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let (nodes, account) = (Nodes::new(), Account::open()?);
    let (first, second) = (nodes.program()?, nodes.program()?);

    // The first one reads, and is paused: nothing of it runs until the next comment that names it.
    let earlier = first.lock("till", TTL).fenced().await?;
    assert!(account.enter(token(&earlier))?);
    let seen = account.balance()?;

    // Its lock expires, and the second one gets it.
    let later = second.lock("till", TTL).fenced().await?;
    assert!(token(&later) > token(&earlier));
    assert!(account.enter(token(&later))?);

    // The first one goes on as if it still had the lock. Too late, though nobody has written a balance since.
    let written = account.set_balance(token(&earlier), seen + 10)?;
    println!("the first one, with {}: {}", token(&earlier), if written { "written" } else { "refused" });
    assert!(!written);

    // So the second one reads what it will write upon.
    let seen = account.balance()?;
    let written = account.set_balance(token(&later), seen + 5)?;
    println!("the second one, with {}: {}", token(&later), if written { "written" } else { "refused" });
    assert!(written);
    assert_eq!(105, account.balance()?);
    Ok(())
}

#[test]
fn the_stale_writer_is_refused() {
    main().expect("every step is as it is told");
}
