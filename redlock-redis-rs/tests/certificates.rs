//! TLS with certificates beside the address.
#![cfg(all(feature = "tokio", any(feature = "tls-rustls", feature = "tls-native-tls")))]
#![allow(clippy::unwrap_used)] // a panic is how a test reports

use redis::{ClientTlsConfig, TlsCertificates};
use redlock_adapter_tests::secure::Secure;
use redlock_redis_rs::IntoConnector;
use redlock_wire::{Command, Connection, Connector, Hub, Reply};

#[tokio::test]
async fn a_client_shows_its_certificate_to_a_server_that_asks_for_it() {
    let secure = Secure::with_client_certificates("yes");
    let certificates = |client_tls| TlsCertificates { client_tls, root_cert: Some(secure.file("ca.pem")) };
    let with =
        ClientTlsConfig { client_cert: secure.file("server.pem"), client_key: secure.file("server.key") };
    let connector = (secure.url(), certificates(Some(with))).into_connector().unwrap();
    let connection = connector.connect(&Hub::default()).await.unwrap();
    let echo = Command::Other { name: "ECHO", args: &[b"a"] };
    assert_eq!(
        Reply::Bytes(b"a".to_vec()),
        connection.call(redlock_redis_rs::Connection::pack(echo)).await.unwrap()
    );

    let without = (secure.url(), certificates(None)).into_connector().unwrap();
    assert!(without.connect(&Hub::default()).await.is_err());
}
