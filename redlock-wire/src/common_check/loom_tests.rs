//! The common check in every interleaving of a vote that joins it and the vote that sends it.

use futures_util::future::FutureExt;
use loom::thread;

use super::*;

#[test]
fn a_vote_that_joins_a_check_was_sent_before_it() {
    loom::model(|| {
        let (checks, server) = (Arc::new(CommonCheck::default()), Arc::new(Mutex::new(Vec::new())));
        let send = |server: &Arc<Mutex<Vec<&'static str>>>| {
            let server = Arc::clone(server);
            async move {
                locked(&server).push("check");
                Ok(())
            }
        };
        let (check, is_first) = checks.join(|| send(&server));
        assert!(is_first);
        let other = thread::spawn({
            let (checks, server) = (Arc::clone(&checks), Arc::clone(&server));
            move || {
                locked(&server).push("vote");
                checks.join(|| send(&server))
            }
        });
        check.clone().now_or_never().expect("the check was sent").unwrap();
        let (joined, is_first) = other.join().unwrap();
        assert_eq!(is_first, !joined.ptr_eq(&check));
        joined.now_or_never().expect("the check was sent").unwrap();
        let received = locked(&server).clone();
        assert_eq!(Some(&"check"), received.last(), "no check is behind the vote");
        assert_eq!(if is_first { 3 } else { 2 }, received.len(), "{received:?}");
    });
}
