//! The ways to name a server: a URL, an [`Address`], or a configuration of fred.
//!
//! Each of them becomes a configuration for fred and a label. The label is that of the endpoint, without login and
//! database, so that a server has the same label in every form. `relayed` puts a relay in front of
//! a server.

use fred::types::config::{Config, Server, ServerConfig};
use redlock_core::Error;
use redlock_wire::tls::{check_certificates, has_certificates};
use redlock_wire::{Address, ClusterMembers, Endpoint, Options, Sentinels};

use crate::connection::Connector;
use crate::tls;

/// The address of one server, in any accepted form.
///
/// The forms are a URL as [`Address::parse`] accepts it, an [`Address`], and a [`Config`] of fred. With the feature
/// `relay`, the function `relayed` turns each of them into the address of a node with a relay.
///
/// Of a [`Config`], only the server, user, password, database and TLS are used. This crate determines how to connect
/// and how to handle errors. The other settings, such as the protocol version, have no effect. The certificates of a
/// [`Config`] are in its TLS settings, so it is rejected beside certificates in [`Options`].
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not the address of a server",
    label = "expected a URL, an `Address` or a `Config` of fred"
)]
pub trait IntoConnector {
    /// Parses the address, with the certificates of `options`.
    ///
    /// The only I/O is to load the root certificates of the system for TLS.
    ///
    /// # Errors
    ///
    /// - [`InvalidInput`](redlock_core::ErrorKind::InvalidInput): the address is malformed, or this build does not
    ///   support its TLS or Unix socket. A [`Config`] of a cluster or of sentinels is rejected too, and
    ///   so is a database number above fred's limit of 255. The certificates of `options` are unusable, or the address
    ///   has no TLS for them. The message contains no password and no key.
    fn into_connector(self, options: &Options) -> Result<Connector, Error>;
}

impl IntoConnector for Address {
    fn into_connector(self, options: &Options) -> Result<Connector, Error> {
        let database = u8::try_from(self.database()).map_err(|_| {
            Error::invalid(format!(
                "invalid address {self}: database {}; the maximum of fred is 255",
                self.database()
            ))
        })?;
        check_certificates(self.endpoint(), options)?;
        let server = match self.endpoint() {
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
            Endpoint::Tcp { host, port, .. } => {
                ServerConfig::Centralized { server: Server::new(host.as_str(), *port) }
            }
            #[cfg(unix)]
            Endpoint::Unix { path } => ServerConfig::Unix { path: path.clone() },
            #[cfg(not(unix))]
            Endpoint::Unix { .. } => {
                return Err(Error::invalid(format!(
                    "invalid address {self}: this system has no Unix sockets"
                )));
            }
        };
        let config = Config {
            server,
            username: self.user().map(str::to_owned),
            password: self.password().map(str::to_owned),
            database: Some(database).filter(|database| *database > 0),
            ..Config::default()
        };
        let secure = matches!(self.endpoint(), Endpoint::Tcp { tls: true, .. });
        let config = if secure { tls::secured(config, self.endpoint(), options)? } else { config };
        Ok(Connector::new(config, self.to_string()))
    }
}

impl IntoConnector for Config {
    fn into_connector(self, options: &Options) -> Result<Connector, Error> {
        let endpoint = match &self.server {
            ServerConfig::Centralized { server } => Endpoint::tcp(&server.host, server.port, self.uses_tls()),
            #[cfg(unix)]
            ServerConfig::Unix { path } => Endpoint::unix(path),
            _ => {
                let message = "invalid address: not an independent server; pass a URL such as \
                               redis+cluster://c1:7000,c2:7000 or redis+sentinel://s1,s2,s3/mymaster";
                return Err(Error::invalid(message));
            }
        };
        let label = endpoint.label()?;
        if has_certificates(options) {
            let place = "set certificates in the TLS settings of the `Config`, or pass a URL";
            return Err(Error::invalid(format!("invalid address {endpoint}: {place}")));
        }
        Ok(Connector::new(self, label))
    }
}

/// An address whose node has a relay between fred and the server: see [`relayed`].
#[cfg(feature = "relay")]
#[derive(Clone)]
#[must_use = "an address does nothing until a node is made with it"]
pub struct Relayed<A>(A);

/// Puts a relay between fred and the server at `address`, in the same process.
///
/// The default is no relay: fred connects itself. The relay bounds the size and depth of replies, and owns the socket:
/// see [hostile servers](crate#hostile-servers). It works on Linux and Android.
///
/// ```
/// use redlock_fred::{builder, relayed};
///
/// let servers = ["redis://10.0.0.1", "redis://10.0.0.2", "redis://10.0.0.3"];
/// let redlock = builder(servers.map(relayed))?.build()?;
/// # drop(redlock);
/// # Ok::<(), redlock_fred::Error>(())
/// ```
///
/// # Errors
///
/// Creating a node with the address fails with [`InvalidInput`](redlock_core::ErrorKind::InvalidInput) on other
/// systems, besides the errors of `address`.
#[cfg(feature = "relay")]
pub fn relayed<A: IntoConnector>(address: A) -> Relayed<A> {
    Relayed(address)
}

#[cfg(feature = "relay")]
impl<A: IntoConnector> IntoConnector for Relayed<A> {
    fn into_connector(self, options: &Options) -> Result<Connector, Error> {
        let connector = self.0.into_connector(options)?;
        if cfg!(any(target_os = "linux", target_os = "android")) {
            return Ok(connector.relayed());
        }
        let label = redlock_wire::Connector::label(&connector);
        Err(Error::invalid(format!("invalid address {label}: a relay needs Linux or Android")))
    }
}

/// Shows no address: it may contain a password.
#[cfg(feature = "relay")]
impl<A> std::fmt::Debug for Relayed<A> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Relayed").finish_non_exhaustive()
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

    fn of(address: impl IntoConnector) -> (Config, String) {
        let connector = address.into_connector(&options()).unwrap();
        (connector.config().clone(), connector.label().to_owned())
    }

    fn message(address: impl IntoConnector) -> String {
        message_with(address, &options())
    }

    fn message_with(address: impl IntoConnector, options: &Options) -> String {
        address.into_connector(options).err().unwrap().to_string()
    }

    #[test]
    fn every_part_of_a_url_is_used() {
        let (config, label) = of("redis://ann:s%20cret@10.0.0.1:7000/3");
        assert_eq!("10.0.0.1:7000", label);
        assert_eq!(ServerConfig::new_centralized("10.0.0.1", 7000), config.server);
        assert_eq!((Some("ann"), Some("s cret")), (config.username.as_deref(), config.password.as_deref()));
        assert_eq!(Some(3), config.database);
        assert_eq!(None, of("redis://a").0.database);
    }

    #[test]
    fn an_ipv6_address_has_brackets_only_in_the_label() {
        let (config, label) = of("redis://[::1]:7000");
        assert_eq!("[::1]:7000", label);
        assert_eq!(ServerConfig::new_centralized("::1", 7000), config.server);
        for host in ["::1", "[::1]", "0:0::1"] {
            let server = ServerConfig::new_centralized(host, 7000);
            assert_eq!(label, of(Config { server, ..Config::default() }).1);
        }
    }

    #[test]
    fn a_server_has_the_same_label_in_every_form() {
        let config = Config {
            server: ServerConfig::new_centralized("Redis.Example", 6379),
            password: Some("secret".into()),
            ..Config::default()
        };
        assert_eq!(of("redis://redis.example/5").1, of(config).1);
    }

    #[cfg(unix)]
    #[test]
    fn a_unix_socket_has_the_same_label_in_every_form() {
        let (config, label) = of("unix:///run//redis.sock");
        assert_eq!("unix:/run/redis.sock", label);
        let server = ServerConfig::Unix { path: "/run/./redis.sock".into() };
        assert_eq!(label, of(Config { server, ..config }).1);
    }

    #[test]
    fn a_connector_shows_only_its_label() {
        let connector = "redis://ann:hunter2@a".into_connector(&options()).unwrap();
        assert_eq!("Connector(\"a:6379\")", format!("{connector:?}"));
    }

    #[cfg(all(feature = "relay", any(target_os = "linux", target_os = "android")))]
    #[test]
    fn a_relayed_address_has_the_same_label_and_errors_and_shows_no_password() {
        for url in ["redis://ann:hunter2@10.0.0.1:7000/3", "redis://ann:hunter2@a/x"] {
            let label = |connector: Connector| connector.label().to_owned();
            let plain = url.into_connector(&options()).map(label).map_err(|error| error.to_string());
            let relayed = relayed(url);
            assert!(!format!("{relayed:?}").contains("hunter2"));
            let relayed = relayed.into_connector(&options()).map(label).map_err(|error| error.to_string());
            assert_eq!(plain, relayed);
        }
    }

    #[test]
    fn control_characters_are_rejected() {
        assert!(message("redis://a%0d%0aINFO").contains("control character"));
        let server = ServerConfig::new_centralized("a\r\nINFO\x1b[31m", 6379);
        let text = message(Config { server, ..Config::default() });
        assert!(text.contains("control character") && !text.contains(char::is_control), "{text:?}");
    }

    #[test]
    fn errors_state_the_unsupported_part() {
        assert!(message("redis://a/256").contains("database 256; the maximum of fred is 255"));
        assert!(message("http://a").contains("redis://"));
        let cluster = ServerConfig::new_clustered(vec![("a", 1)]);
        assert!(message(Config { server: cluster, ..Config::default() }).contains("cluster"));
    }

    #[cfg(not(any(feature = "tls-rustls", feature = "tls-native-tls")))]
    #[test]
    fn tls_without_its_feature_names_the_feature() {
        let message = message("rediss://:hunter2@a");
        assert!(message.contains("tls-rustls") && !message.contains("hunter2"), "{message}");
    }

    #[test]
    fn certificates_are_rejected_without_tls_and_beside_a_config() {
        for options in [options().root_certificates("x"), options().client_identity("x", "hunter2")] {
            let shown = message_with("redis://:hunter2@a", &options);
            assert!(
                shown.contains("certificates require rediss://") && !shown.contains("hunter2"),
                "{shown}"
            );
            let shown = message_with(Config::default(), &options);
            assert!(shown.contains("TLS settings of the `Config`"), "{shown}");
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
    fn tls_is_on_only_for_rediss() {
        assert!(of("rediss://a").0.uses_tls());
        assert!(!of("redis://a").0.uses_tls());
    }
}
