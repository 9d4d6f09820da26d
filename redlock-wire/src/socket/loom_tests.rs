//! The socket in every interleaving of the client and the node.

use std::future::poll_fn;
use std::io;
use std::sync::Arc;
use std::task::Poll;

use loom::cell::Cell;
use loom::future::block_on;
use loom::thread;

use super::SocketHandle;

#[test]
fn nothing_uses_a_socket_after_its_end() {
    loom::model(|| {
        let (socket, bytes) = (SocketHandle::default(), Arc::new(Cell::new(0)));
        let client = {
            let (socket, bytes) = (socket.clone(), Arc::clone(&bytes));
            // Loom reports an access to the cell that is concurrent with another one.
            thread::spawn(move || socket.write(|| Poll::Ready(Ok(bytes.set(1)))))
        };
        drop(socket.close());
        let sent = bytes.get();
        let outcome = client.join().unwrap();
        assert_eq!(sent == 1, matches!(outcome, Poll::Ready(Ok(()))), "{outcome:?}");
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
