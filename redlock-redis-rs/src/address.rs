//! The ways to name a server: a URL, an [`Address`], or a configuration of the redis client.
//!
//! Each of them becomes a configuration for the client and a label. The label is that of the endpoint, without login
//! and database, so that a server has the same label in every form.

use redis::{Client, ConnectionAddr, ConnectionInfo, IntoConnectionInfo, RedisConnectionInfo};
use redlock_core::Error;
use redlock_wire::tls::check_certificates;
use redlock_wire::{Address, ClusterMembers, Endpoint, Options, Sentinels};

use crate::connection::Connector;
use crate::tls::Tls;

/// The address of one server, in any accepted form.
///
/// The forms are a URL as [`Address::parse`] accepts it, an [`Address`], and a [`ConnectionInfo`] or a [`Client`] of
/// the redis client.
///
/// Of a [`ConnectionInfo`], only the server, login, database, TCP keep-alive and `TCP_USER_TIMEOUT` are used. This
/// crate sets the protocol version, Nagle's algorithm and lingering. A [`ConnectionInfo`] that contains certificates,
/// or that disables the check of the server's certificate, is rejected. The client does not return these settings, so
/// the node could not use them. Set [`Options::root_certificates`] and [`Options::client_identity`] instead.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not the address of a server",
    label = "expected a URL, an `Address`, a `ConnectionInfo` or a `Client`"
)]
pub trait IntoConnector {
    /// Parses the address, with the certificates of `options`.
    ///
    /// The only I/O is to load the root certificates of the system for TLS.
    ///
    /// # Errors
    ///
    /// - [`InvalidInput`](redlock_core::ErrorKind::InvalidInput): the address is malformed, or this build does not
    ///   support its TLS or Unix socket. The certificates of `options` are unusable, or the address has no TLS for them.
    ///   The message contains no password and no key.
    fn into_connector(self, options: &Options) -> Result<Connector, Error>;
}

impl IntoConnector for Address {
    fn into_connector(self, options: &Options) -> Result<Connector, Error> {
        check_certificates(self.endpoint(), options)?;
        let place = match self.endpoint() {
            Endpoint::Tcp { host, port, tls: false } => ConnectionAddr::Tcp(host.clone(), *port),
            Endpoint::Tcp { host, port, tls: true } => {
                ConnectionAddr::TcpTls { host: host.clone(), port: *port, insecure: false, tls_params: None }
            }
            Endpoint::Unix { path } => ConnectionAddr::Unix(path.clone()),
            Endpoint::Cluster { servers, tls } => {
                // Errors name the first server. Connections are opened to the servers that `found` returns.
                let (host, port) = &servers[0];
                let server = self.at(host, *port).into_connector(options)?;
                let found = server.clone();
                let members =
                    ClusterMembers::new(servers.clone(), *tls, move |host, port| found.at(host, port));
                return Ok(server.of_cluster(members, self.endpoint().label()?));
            }
            Endpoint::Sentinels { service, .. } => {
                let members = self.of_sentinels().into_iter().map(|address| address.into_connector(options));
                let members = members.collect::<Result<Vec<_>, _>>()?;
                // The host and the port are replaced by those that the sentinels name.
                let server = self.at("sentinels", 0).into_connector(options)?;
                let found = server.clone();
                let sentinels = Sentinels::new(service, members, move |host, port| found.at(host, port));
                return Ok(server.chosen_by(sentinels, self.endpoint().label()?));
            }
        };
        let mut login = RedisConnectionInfo::default().set_db(self.database().into());
        if let Some(user) = self.user() {
            login = login.set_username(user);
        }
        if let Some(password) = self.password() {
            login = login.set_password(password);
        }
        let info = place
            .into_connection_info()
            .map_err(|error| Error::invalid(format!("invalid address {self}: {error}")))?;
        info.set_redis_settings(login).into_connector(options)
    }
}

impl IntoConnector for ConnectionInfo {
    fn into_connector(self, options: &Options) -> Result<Connector, Error> {
        let endpoint = match self.addr() {
            ConnectionAddr::Tcp(host, port) => Endpoint::tcp(host, *port, false),
            ConnectionAddr::TcpTls { host, port, tls_params: None, insecure: false } => {
                Endpoint::tcp(host, *port, true)
            }
            // The client does not return the certificates, and would connect without the bounds on the server's
            // replies.
            ConnectionAddr::TcpTls { .. } => {
                let certificates =
                    "set certificates in `Options`; the certificate of the server is always checked";
                return Err(Error::invalid(format!("invalid address {}: {certificates}", self.addr())));
            }
            ConnectionAddr::Unix(path) => Endpoint::unix(path),
            other => {
                return Err(Error::invalid(format!(
                    "invalid address {other}: neither TCP nor a Unix socket"
                )));
            }
        };
        let label = endpoint.label()?;
        check_certificates(&endpoint, options)?;
        let tls = match endpoint {
            Endpoint::Tcp { tls: true, .. } => Some(Tls::new(&endpoint, options)?),
            Endpoint::Unix { .. } if !cfg!(unix) => {
                return Err(Error::invalid(format!(
                    "invalid address {endpoint}: this system has no Unix sockets"
                )));
            }
            _ => None,
        };
        Ok(Connector::new(self, tls, label))
    }
}

impl IntoConnector for Client {
    fn into_connector(self, options: &Options) -> Result<Connector, Error> {
        self.get_connection_info().clone().into_connector(options)
    }
}

macro_rules! urls {
    ($($url:ty),*) => {$(
        impl IntoConnector for $url {
            fn into_connector(self, options: &Options) -> Result<Connector, Error> {
                Address::parse(self.as_ref())?.into_connector(options)
            }
        }
    )*};
}
urls!(&str, &String, String);

#[cfg(test)]
mod tests {
    use redlock_wire::Connector as _;

    use super::*;

    fn options() -> Options {
        Options::tokio()
    }

    fn of(address: impl IntoConnector) -> (ConnectionInfo, String) {
        let connector = address.into_connector(&options()).unwrap();
        (connector.info().clone(), connector.label().to_owned())
    }

    fn message(address: impl IntoConnector) -> String {
        message_with(address, &options())
    }

    fn message_with(address: impl IntoConnector, options: &Options) -> String {
        address.into_connector(options).err().unwrap().to_string()
    }

    #[test]
    fn every_part_of_a_url_is_used() {
        let (info, label) = of("redis://ann:s%20cret@10.0.0.1:7000/3");
        assert_eq!("10.0.0.1:7000", label);
        assert_eq!(&ConnectionAddr::Tcp("10.0.0.1".into(), 7000), info.addr());
        let login = info.redis_settings();
        assert_eq!((Some("ann"), Some("s cret"), 3), (login.username(), login.password(), login.db()));
        let (info, _) = of("redis://a");
        assert_eq!((None, None, 0), {
            let login = info.redis_settings();
            (login.username(), login.password(), login.db())
        });
    }

    #[test]
    fn a_server_has_the_same_label_in_every_form() {
        for (url, same) in [
            ("redis://redis.example/5", "redis://:pw@Redis.Example:6379"),
            ("redis://[::1]:7000", "redis://[0:0::1]:7000/1"),
            ("unix:///run//redis.sock", "unix:///run/redis.sock?db=3"),
        ] {
            let client = Client::open(same).unwrap();
            assert_eq!(of(url).1, of(client.get_connection_info().clone()).1);
            assert_eq!(of(url).1, of(client).1);
            assert_eq!(of(url).1, of(Address::parse(same).unwrap()).1);
            assert_eq!(of(url).1, of(same.to_owned()).1);
        }
    }

    #[test]
    fn control_characters_are_rejected() {
        assert!(message("redis://a%0d%0aINFO").contains("control character"));
        let info = ConnectionAddr::Tcp("a\r\nINFO\x1b[31m".into(), 6379).into_connection_info().unwrap();
        let text = message(info);
        assert!(text.contains("control character") && !text.contains(char::is_control), "{text:?}");
    }

    #[test]
    fn an_ipv6_address_has_brackets_only_in_the_label() {
        let (info, label) = of("redis://[::1]:7000");
        assert_eq!("[::1]:7000", label);
        assert_eq!(&ConnectionAddr::Tcp("::1".into(), 7000), info.addr());
    }

    #[cfg(not(any(feature = "tls-rustls", feature = "tls-native-tls")))]
    #[test]
    fn tls_without_its_feature_names_the_feature() {
        let message = message("rediss://:hunter2@a");
        assert!(message.contains("tls-rustls") && !message.contains("hunter2"), "{message}");
    }

    #[cfg(any(feature = "tls-rustls", feature = "tls-native-tls"))]
    #[test]
    fn tls_is_on_only_for_rediss() {
        let secure = |url| matches!(of(url).0.addr(), ConnectionAddr::TcpTls { insecure: false, .. });
        assert!(secure("rediss://a") && secure("rediss://[::1]") && !secure("redis://a"));
    }

    #[test]
    fn certificates_are_rejected_without_tls() {
        for options in [options().root_certificates("x"), options().client_identity("x", "hunter2")] {
            for url in ["redis://:hunter2@a", "unix:///a?pass=hunter2"] {
                let shown = message_with(url, &options);
                assert!(shown.contains("certificates require rediss://"), "{shown}");
                assert!(!shown.contains("hunter2"), "{shown}");
            }
        }
    }

    #[cfg(any(feature = "tls-rustls", feature = "tls-native-tls"))]
    #[test]
    fn unusable_certificates_are_rejected_without_their_content() {
        for options in [options().root_certificates("hunter2"), options().client_identity("x", "hunter2")] {
            for url in ["rediss://a:1", "rediss+cluster://a:1,b", "rediss+sentinel://a:1,b/m"] {
                let shown = message_with(url, &options);
                assert!(shown.contains("a:1: TLS unavailable") && !shown.contains("hunter2"), "{shown}");
            }
        }
    }

    #[cfg(any(feature = "tls-rustls", feature = "tls-native-tls"))]
    #[test]
    fn certificates_of_the_client_crate_are_rejected() {
        let none = redis::TlsCertificates { client_tls: None, root_cert: None };
        let own = Client::build_with_tls("rediss://:hunter2@a", none).unwrap();
        let unchecked = Client::open("rediss://a/#insecure");
        for client in [Some(own), unchecked.ok()].into_iter().flatten() {
            let shown = message(client);
            assert!(shown.contains("in `Options`") && !shown.contains("hunter2"), "{shown}");
        }
    }

    #[test]
    fn errors_state_the_unsupported_part_without_the_password() {
        let shown = message("redis://me:hunter2@a/x");
        assert!(shown.contains("database") && !shown.contains("hunter2"), "{shown}");
    }
}
