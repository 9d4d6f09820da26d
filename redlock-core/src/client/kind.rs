//! The kinds of locks: what a request asks for, and what its guard knows.

#![allow(private_interfaces)] // nobody else can name `sealed`

use std::fmt;
use std::future::Future;

use crate::client::attempts::CheckedRequest;
use crate::client::held::Held;
use crate::decide::backoff::RetryPolicy;
use crate::lease::mode::Mode;
use crate::types::error::{Error, ErrorKind};
use crate::types::fencing_token::FencingToken;
use crate::types::instant::Instant;
use crate::types::resource::{Resource, Resources};

/// A kind of lock. Only this crate implements it.
pub trait Kind: sealed::Kind {}

/// A kind that can have [fencing tokens](crate::LockRequest::fenced): all except that of readers, and those that have
/// them already.
pub trait Fenceable: Kind + sealed::Fenceable {}

/// A kind whose locks have one holder: all except that of readers.
///
/// Its guards can be [kept](crate::Guard::keep_for) and [detached](crate::Guard::detach).
pub trait Owned: Kind {}

/// A kind with one holder in all: that of a plain lock or a writer, also fenced.
///
/// It can run a job [once a period](crate::LockRequest::once_per).
pub trait Sole: Owned {}

/// A kind whose guards have an [index](crate::Guard::index): that of slots, also fenced.
pub trait Indexed: Kind + sealed::Kind<Extra = usize> {}

/// The lock of [`Redlock::lock`](crate::Redlock::lock): all of its resources, for one client at a time.
///
/// It is also the kind of guards whose kind is [not known](crate::Guard::into_any) any more.
#[derive(Clone, Debug)]
pub struct Exclusive(pub(crate) Resources);

/// A lock of the kind `K` with a [fencing token](crate::Guard::token).
#[derive(Clone, Debug)]
pub struct Fenced<K = Exclusive>(pub(crate) K);

pub(crate) mod sealed {
    use super::{
        CheckedRequest, Error, ErrorKind, FencingToken, Future, Held, Instant, Mode, Resource, Resources,
        RetryPolicy, fmt,
    };

    /// What a kind decides. A new kind of lock is one implementation.
    pub trait Kind: Clone + fmt::Debug + Send + Sync + 'static {
        /// What a guard knows beyond its lease.
        type Extra: Copy + fmt::Debug + Send + Sync + 'static;

        /// The name of the kind in metrics.
        const NAME: &'static str;

        /// Returns the names that a request is about.
        fn resources(&self) -> Result<Resources, Error>;

        /// Returns a resource that every holder of this lock holds.
        fn common_resource(&self) -> Result<Resource, Error> {
            self.resources().map(|resources| resources[0].clone())
        }

        /// Returns whether all of its names are locked with one request.
        fn is_one_claim(&self) -> bool {
            true
        }

        fn mode(&self) -> Mode {
            Mode::Exclusive
        }

        /// Makes attempts within the limits of the request.
        fn acquire(
            &self,
            request: &CheckedRequest,
            start: Instant,
            policy: RetryPolicy,
        ) -> impl Future<Output = Result<(Held, Self::Extra), Error>> + Send;

        /// Attempts once, and repeats the attempt only while the votes are split. Returns `None` if the lock is held.
        fn try_acquire(
            &self,
            request: &CheckedRequest,
            start: Instant,
            policy: RetryPolicy,
        ) -> impl Future<Output = Result<Option<(Held, Self::Extra)>, Error>> + Send {
            async move {
                match request.recorded(start, self.acquire(request, start, policy).await) {
                    Err(error) if error.kind() == ErrorKind::Contended => Ok(None),
                    acquired => acquired.map(Some),
                }
            }
        }
    }

    /// A kind whose holders a fencing token orders.
    pub trait Fenceable {
        type Token: Clone + fmt::Debug + Send + Sync;

        fn token(resource: &Resource, number: FencingToken) -> Self::Token;
    }
}

impl Kind for Exclusive {}
impl Owned for Exclusive {}
impl Sole for Exclusive {}

impl sealed::Kind for Exclusive {
    type Extra = ();

    const NAME: &'static str = "exclusive";

    fn resources(&self) -> Result<Resources, Error> {
        Ok(self.0.clone())
    }

    async fn acquire(
        &self,
        request: &CheckedRequest,
        start: Instant,
        policy: RetryPolicy,
    ) -> Result<(Held, ()), Error> {
        Ok((request.attempt_until_acquired(start, &policy).await?, ()))
    }

    async fn try_acquire(
        &self,
        request: &CheckedRequest,
        start: Instant,
        _policy: RetryPolicy,
    ) -> Result<Option<(Held, ())>, Error> {
        Ok(request.try_lock(start).await?.map(|held| (held, ())))
    }
}

impl Fenceable for Exclusive {}

impl sealed::Fenceable for Exclusive {
    type Token = FencingToken;

    fn token(_: &Resource, number: FencingToken) -> FencingToken {
        number
    }
}

impl<K: Fenceable> Kind for Fenced<K> {}
impl<K: Fenceable> Owned for Fenced<K> {}
impl<K: Fenceable + Sole> Sole for Fenced<K> {}

impl<K: Fenceable> sealed::Kind for Fenced<K> {
    type Extra = K::Extra;

    const NAME: &'static str = K::NAME;

    fn resources(&self) -> Result<Resources, Error> {
        self.0.resources()
    }

    fn is_one_claim(&self) -> bool {
        self.0.is_one_claim()
    }

    fn common_resource(&self) -> Result<Resource, Error> {
        self.0.common_resource()
    }

    fn mode(&self) -> Mode {
        Mode::Fenced
    }

    async fn acquire(
        &self,
        request: &CheckedRequest,
        start: Instant,
        policy: RetryPolicy,
    ) -> Result<(Held, K::Extra), Error> {
        self.0.acquire(request, start, policy).await
    }

    async fn try_acquire(
        &self,
        request: &CheckedRequest,
        start: Instant,
        policy: RetryPolicy,
    ) -> Result<Option<(Held, K::Extra)>, Error> {
        self.0.try_acquire(request, start, policy).await
    }
}
