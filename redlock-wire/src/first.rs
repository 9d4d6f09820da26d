//! Races two futures.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;

pub(crate) enum First<A, B> {
    Left(A),
    Right(B),
}

/// Completes with the output of the faster future, and drops the other.
pub(crate) async fn first<A, B>(
    left: impl Future<Output = A>,
    right: impl Future<Output = B>,
) -> First<A, B> {
    let (mut left, mut right) = (pin!(left), pin!(right));
    poll_fn(|cx| match left.as_mut().poll(cx) {
        Poll::Ready(value) => Poll::Ready(First::Left(value)),
        Poll::Pending => right.as_mut().poll(cx).map(First::Right),
    })
    .await
}
