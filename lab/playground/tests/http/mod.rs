//! An HTTP client for tests, with one connection for each request.

use std::net::SocketAddr;

use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

/// Sends a request with this `Host` header.
pub(crate) async fn send(
    server: SocketAddr,
    host: &str,
    method: Method,
    path: &str,
    body: &str,
) -> Response<Incoming> {
    let stream = TcpStream::connect(server).await.expect("the server listens");
    let (mut sender, connection) =
        http1::handshake(TokioIo::new(stream)).await.expect("the server speaks HTTP");
    tokio::spawn(connection);
    let request = Request::builder().method(method).uri(path).header("host", host);
    let request =
        request.header("content-type", "application/json").body(Full::<Bytes>::from(body.to_owned()));
    sender.send_request(request.expect("a valid request")).await.expect("the server replies")
}

/// Returns the status of a response and its body as text.
pub(crate) async fn text(response: Response<Incoming>) -> (StatusCode, String) {
    let status = response.status();
    let body: Bytes = response.into_body().collect().await.expect("the response is complete").to_bytes();
    (status, String::from_utf8(body.to_vec()).expect("the response is text"))
}
