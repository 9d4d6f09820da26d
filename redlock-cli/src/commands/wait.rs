//! `redlock wait`: until names are free, without locking them.

use std::time::Duration;

use redlock_redis_rs::{Redlock, Resource};

use super::{resources, with_redlock};
use crate::args::{Shared, Wait};
use crate::exit::{Code, Failure};
use crate::request;

/// The interval between two looks.
const INTERVAL: Duration = Duration::from_millis(200);

/// Waits until all names are free.
pub(crate) fn wait(args: &Wait, shared: &Shared) -> Result<u8, Failure> {
    let names = resources(&args.resources)?;
    with_redlock(shared, async |redlock| {
        let until = args.wait.map(|wait| redlock.now() + wait);
        loop {
            let Some(busy) = busy(&redlock, &names).await? else { return Ok(0) };
            if until.is_some_and(|until| redlock.now() >= until) {
                return Err(Failure::new(Code::Conflict, busy));
            }
            tokio::time::sleep(INTERVAL).await;
        }
    })
}

/// Returns a description of the first name that is not free.
async fn busy(redlock: &Redlock, names: &[Resource]) -> Result<Option<String>, Failure> {
    for name in names {
        match redlock.inspect(name).await {
            Ok(found) if found.is_free() => {}
            Ok(found) => return Ok(Some(found.to_string())),
            Err(error) => return Err(request::failure(&error)),
        }
    }
    Ok(None)
}
