//! The socket in every interleaving of the client and the node.

use std::future::poll_fn;
use std::io;
use std::sync::Arc;
use std::task::Poll;

use loom::future::block_on;
use loom::sync::atomic::{AtomicBool, Ordering};
use loom::thread;

use super::SocketHandle;

#[test]
fn nothing_uses_a_socket_after_its_end() {
    loom::model(|| {
        let (socket, sent) = (SocketHandle::default(), Arc::new(AtomicBool::new(false)));
        let client = {
            let (socket, sent) = (socket.clone(), Arc::clone(&sent));
            thread::spawn(move || {
                let _ = socket.write(|| {
                    sent.store(true, Ordering::Relaxed);
                    Poll::Ready(Ok(()))
                });
            })
        };
        drop(socket.close());
        let sent_before = sent.load(Ordering::Relaxed);
        client.join().unwrap();
        assert_eq!(sent_before, sent.load(Ordering::Relaxed));
    });
}

#[test]
fn a_client_that_waits_for_bytes_notices_the_end() {
    loom::model(|| {
        let socket = SocketHandle::default();
        let client = {
            let socket = socket.clone();
            thread::spawn(move || {
                block_on(poll_fn(|cx| socket.read(cx, |_| Poll::<io::Result<()>>::Pending)))
            })
        };
        if let Some(reader) = socket.close() {
            reader.wake();
        }
        assert_eq!(io::ErrorKind::BrokenPipe, client.join().unwrap().unwrap_err().kind());
    });
}
