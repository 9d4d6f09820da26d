//! Work that runs only while its lock is held.
//!
//! The work is polled here, in its caller's task, and not at all once the lock is lost: the clock is read before each of
//! its polls. Work that has finished is returned whatever has become of the lock meanwhile. The guard is the last to go,
//! so the work has been dropped by the time the lock is released, also when it panicked.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;

use crate::decide::hold::Loss;
use crate::error::{Error, ErrorKind};
use crate::guard::Guard;
use crate::lease::Lease;
use crate::observe;

pub(crate) async fn run<F, W>(guard: Guard, work: F) -> Result<W::Output, Error>
where
    F: FnOnce(Lease) -> W,
    W: Future,
{
    let lease = guard.lease();
    let finished = while_held(&lease, work(lease.clone())).await;
    match finished {
        Ok(output) => {
            if let Err(error) = guard.release().await {
                observe::release_failed(&lease, &error);
            }
            Ok(output)
        }
        Err(loss) => Err(lease.error(ErrorKind::Lost, &format!("was lost, and its work stopped: {loss}"))),
    }
}

async fn while_held<W: Future>(lease: &Lease, work: W) -> Result<W::Output, Loss> {
    let (mut work, mut end) = (pin!(work), pin!(lease.lost()));
    poll_fn(|cx| match end.as_mut().poll(cx) {
        Poll::Ready(loss) => Poll::Ready(Err(loss)),
        Poll::Pending => work.as_mut().poll(cx).map(Ok),
    })
    .await
}
