//! `redlock wait`: waiting until names are free, without locking them.

use std::time::Duration;

use redlock_redis_rs::{Redlock, Resource};

use super::{is_read, lockable, only_looking};
use crate::args::{Shared, Wait};
use crate::exit::{Code, Failure};
use crate::request::{self, Kind};

/// The interval between two inspections.
const INTERVAL: Duration = Duration::from_millis(200);

/// Waits until all names are free, or one of the slots, or a name is free for readers.
pub(crate) fn wait(args: &Wait, shared: &Shared) -> Result<u8, Failure> {
    let names = lockable(&args.names)?;
    only_looking(shared, async |redlock, _| {
        let until = args.wait.map(|wait| redlock.now() + wait);
        loop {
            let busy = match Kind::new(args.names.sharing) {
                Kind::Plain | Kind::Writer => busy_name(&redlock, &names).await?,
                Kind::Slot(count) => busy_slots(&redlock, &names[0], count).await?,
                Kind::Reader => busy_for_reader(&redlock, &names[0]).await?,
            };
            let Some(busy) = busy else { return Ok(0) };
            if until.is_some_and(|until| redlock.now() >= until) {
                return Err(Failure::new(Code::Conflict, busy));
            }
            tokio::time::sleep(INTERVAL).await;
        }
    })
}

/// Returns a description of the first name that is not free.
async fn busy_name(redlock: &Redlock, names: &[Resource]) -> Result<Option<String>, Failure> {
    for name in names {
        let found = redlock.inspect(name).await.map_err(|error| request::failure(&error))?;
        if !found.is_free() {
            return Ok(Some(found.to_string()));
        }
    }
    Ok(None)
}

/// Returns a description of a writer that holds the name or waits for it.
async fn busy_for_reader(redlock: &Redlock, name: &Resource) -> Result<Option<String>, Failure> {
    let failure = |error| request::failure(&error);
    let found = redlock.inspect(name).await.map_err(failure)?;
    if found.is_free() || is_read(&found) {
        let lock = redlock.rw_lock(name).map_err(failure)?;
        return busy_name(redlock, std::slice::from_ref(lock.gate())).await;
    }
    Ok(Some(found.to_string()))
}

/// Returns a message if no slot is free.
async fn busy_slots(redlock: &Redlock, name: &Resource, count: u16) -> Result<Option<String>, Failure> {
    let slots = redlock.slots(name, usize::from(count)).map_err(|error| request::failure(&error))?;
    for slot in slots.resources() {
        if busy_name(redlock, std::slice::from_ref(slot)).await?.is_none() {
            return Ok(None);
        }
    }
    Ok(Some(format!("none of the {count} slots of {name:?} is free")))
}
