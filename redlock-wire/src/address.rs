//! The address and the login of a server, parsed once from a URL.
//!
//! | URL | Meaning |
//! |---|---|
//! | `redis://[[user]:password@]host[:port][/database]` | TCP; the default port is 6379, the default database 0 |
//! | `rediss://…` | the same over TLS |
//! | `valkey://…`, `valkeys://…` | aliases of the two |
//! | `unix:///path[?db=1&user=…&pass=…]` | a Unix socket |
//! | `redis+sentinel://[[user]:password@]host[:port][,host[:port]…]/service[/database][?sentinel_username=…&sentinel_password=…]` | the master that sentinels name; their default port is 26379 |
//! | `redis+cluster://[[user]:password@]host[:port][,host[:port]…]` | the shards of a cluster |
//! | `rediss+…`, `valkey+…`, `valkeys+…` | the same two over TLS, and aliases |
//!
//! User and password are percent-decoded. They never appear in an error, a `Debug` output or a label. The same holds
//! for a part of the URL that may be a password written without percent-encoding.

use std::fmt;
use std::net::Ipv6Addr;
use std::path::{Path, PathBuf};

use percent_encoding::percent_decode_str;
use redlock_core::Error;
use url::Url;

/// The default port of Redis and Valkey.
const PORT: u16 = 6379;

/// The default port of sentinels.
const SENTINEL_PORT: u16 = 26379;

/// The address of a server, with its login and its database.
#[derive(Clone, PartialEq, Eq)]
pub struct Address {
    endpoint: Endpoint,
    user: Option<String>,
    password: Option<String>,
    database: u32,
    /// The user and the password of the sentinels.
    sentinel_login: (Option<String>, Option<String>),
}

/// The network endpoint of a server.
///
/// The variants cover everything that a server listens on, the master that sentinels choose, and a cluster. Its `Display`
/// is the label of a node. The label is normalized, so that a server listed twice is noticed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// A TCP port.
    Tcp {
        /// A name, an IPv4 address, or an IPv6 address without brackets.
        host: String,
        /// The port.
        port: u16,
        /// `true` to use TLS.
        tls: bool,
    },
    /// A Unix socket.
    Unix {
        /// The absolute path of the socket.
        path: PathBuf,
    },
    /// The shards of a cluster as *one* node: a lock depends on a single shard, and is lost if that shard fails over.
    ///
    /// A promoted replica may miss the latest locks. Its votes do not count until these have expired. Until then, nobody
    /// can acquire or extend a lock on this shard. [Resharding] has the cases in which two clients can hold one lock.
    ///
    /// [Resharding]: https://github.com/redlock-rs/redlock/blob/main/docs/operating.md#resharding
    Cluster {
        /// The hosts and ports of some servers, which name the others. Sorted, so that the order in the URL does not
        /// matter.
        servers: Vec<(String, u16)>,
        /// `true` to use TLS.
        tls: bool,
    },
    /// The present master of a service that sentinels monitor.
    Sentinels {
        /// The name of the service, such as `mymaster`.
        service: String,
        /// The hosts and ports of all sentinels. Sorted, so that the order in the URL does not matter.
        sentinels: Vec<(String, u16)>,
        /// `true` to use TLS, for sentinels and servers.
        tls: bool,
    },
}

impl Address {
    /// Parses a URL.
    ///
    /// The forms are `redis://[[user]:password@]host[:port][/database]`, `rediss://` for TLS, and
    /// `unix:///path?db=..&user=..&pass=..`. `valkey` and `valkeys` are aliases of `redis` and `rediss`.
    ///
    /// `redis+sentinel://[[user]:password@]host[:port],.../service[/database]` is the present master of a service that
    /// sentinels monitor. The login is that of the servers. The parameters `sentinel_username` and `sentinel_password`
    /// are the login of the sentinels; without them there is none. `rediss+sentinel://` uses TLS for both. List all
    /// sentinels: a master is used only while a majority of them confirms it.
    ///
    /// `redis+cluster://[[user]:password@]host[:port],...` is a cluster as *one* node: a lock depends on a single shard,
    /// and is lost if that shard fails over. List a few servers; they name the others. `rediss+cluster://` uses TLS.
    ///
    /// ```
    /// # use redlock_wire::Address;
    /// let address = Address::parse("rediss://locks:secret@cache.example:6380/2")?;
    /// assert_eq!("cache.example:6380", address.to_string(), "without the login");
    ///
    /// let error = Address::parse("10.0.0.1:6379").unwrap_err();
    /// assert!(error.to_string().contains("expected a URL such as redis://"));
    ///
    /// let url = "redis+sentinel://:secret@s1,s2,s3/mymaster?sentinel_password=other";
    /// let master = Address::parse(url)?;
    /// assert_eq!("mymaster@s1:26379,s2:26379,s3:26379", master.to_string());
    ///
    /// let cluster = Address::parse("redis+cluster://:secret@c1,c2:7000")?;
    /// assert_eq!("cluster@c1:6379,c2:7000", cluster.to_string());
    /// # Ok::<(), redlock_core::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// - [`InvalidInput`](redlock_core::ErrorKind::InvalidInput): the URL has none of these forms. The message shows at
    ///   most the scheme and the host, never a password.
    pub fn parse(url: &str) -> Result<Self, Error> {
        if let Some((several, tls, rest)) = several_servers(url) {
            let parsed = match several {
                Several::Sentinels => Self::sentinels(rest, tls),
                Several::Cluster => Self::cluster(rest, tls),
            };
            return parsed.and_then(Self::checked).map_err(|reason| invalid(url, None, &reason));
        }
        if let Some(not_one) = not_one_server(url) {
            return Err(invalid(url.trim(), Url::parse(url.trim()).ok().as_ref(), not_one));
        }
        if let Some(common_mistake) = common_mistake(url) {
            return Err(invalid(url.trim(), None, common_mistake));
        }
        let parsed = Url::parse(url).map_err(|reason| invalid(url, None, &reason.to_string()))?;
        let address = match parsed.scheme() {
            "redis" | "valkey" => Self::tcp(&parsed, false),
            "rediss" | "valkeys" => Self::tcp(&parsed, true),
            "unix" => Self::unix(&parsed),
            _ => Err("expected redis://, rediss://, valkey://, valkeys:// or unix://".into()),
        };
        let address = address.and_then(Self::checked);
        address.map_err(|reason| invalid(url, Some(&parsed), &reason))
    }

    /// Returns the endpoint of the server.
    ///
    /// ```
    /// # use redlock_wire::Address;
    /// let address = Address::parse("redis://locks:secret@10.0.0.1/2")?;
    /// let other = Address::parse("valkey://10.0.0.1:6379")?;
    /// assert_eq!(address.endpoint(), other.endpoint(), "the same server");
    /// # Ok::<(), redlock_core::Error>(())
    /// ```
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// Returns the user name; `None` for the default user.
    ///
    /// ```
    /// # use redlock_wire::Address;
    /// let address = Address::parse("redis://locks:secret@10.0.0.1")?;
    /// assert_eq!(Some("locks"), address.user());
    /// assert_eq!(None, Address::parse("redis://:secret@10.0.0.1")?.user());
    /// # Ok::<(), redlock_core::Error>(())
    /// ```
    pub fn user(&self) -> Option<&str> {
        self.user.as_deref()
    }

    /// Returns the password; `None` if there is no login. Keep it out of logs.
    ///
    /// ```
    /// # use redlock_wire::Address;
    /// let address = Address::parse("redis://:p%40ss@10.0.0.1")?;
    /// assert_eq!(Some("p@ss"), address.password(), "percent-decoded");
    /// # Ok::<(), redlock_core::Error>(())
    /// ```
    pub fn password(&self) -> Option<&str> {
        self.password.as_deref()
    }

    /// Returns the database number.
    ///
    /// ```
    /// # use redlock_wire::Address;
    /// assert_eq!(2, Address::parse("redis://10.0.0.1/2")?.database());
    /// assert_eq!(0, Address::parse("redis://10.0.0.1")?.database());
    /// # Ok::<(), redlock_core::Error>(())
    /// ```
    pub fn database(&self) -> u32 {
        self.database
    }

    /// Returns the addresses of the sentinels, with their login; none if no sentinels choose the server.
    ///
    /// ```
    /// # use redlock_wire::Address;
    /// let url = "redis+sentinel://:secret@s1,s2/mymaster?sentinel_password=other";
    /// let sentinels = Address::parse(url)?.of_sentinels();
    /// assert_eq!(Some("other"), sentinels[0].password());
    /// # Ok::<(), redlock_core::Error>(())
    /// ```
    pub fn of_sentinels(&self) -> Vec<Self> {
        let Endpoint::Sentinels { sentinels, tls, .. } = &self.endpoint else { return Vec::new() };
        let (user, password) = &self.sentinel_login;
        let address = |(host, port): &(String, u16)| Self {
            endpoint: Endpoint::Tcp { host: host.clone(), port: *port, tls: *tls },
            user: user.clone(),
            password: password.clone(),
            database: 0,
            sentinel_login: (None, None),
        };
        sentinels.iter().map(address).collect()
    }

    fn cluster(rest: &str, tls: bool) -> Result<Self, String> {
        let (base, servers) = hosts(rest, PORT)?;
        if !matches!(base.path(), "" | "/" | "/0") {
            return Err("a cluster has no other database than 0".into());
        }
        if base.query().is_some() || base.fragment().is_some() {
            return Err("parameters after ? or # are not allowed".into());
        }
        Ok(Self {
            endpoint: Endpoint::Cluster { servers, tls },
            user: Some(decoded("user", base.username())?).filter(|user| !user.is_empty()),
            password: base.password().map(|password| decoded("password", password)).transpose()?,
            database: 0,
            sentinel_login: (None, None),
        })
    }

    fn sentinels(rest: &str, tls: bool) -> Result<Self, String> {
        let (base, sentinels) = hosts(rest, SENTINEL_PORT)?;
        let path = base.path().trim_start_matches('/').trim_end_matches('/');
        let (service, database) = path.split_once('/').unwrap_or((path, "0"));
        let service = decoded("name of the service", service)?;
        if service.is_empty() {
            return Err("expected the name of the service behind the sentinels, such as /mymaster".into());
        }
        if base.fragment().is_some() {
            return Err("no part after # is allowed".into());
        }
        let mut sentinel_login = (None, None);
        for (name, value) in base.query_pairs() {
            match &*name {
                "sentinel_username" => sentinel_login.0 = Some(value.into_owned()),
                "sentinel_password" => sentinel_login.1 = Some(value.into_owned()),
                _ => {
                    return Err(
                        "only the parameters sentinel_username and sentinel_password are allowed".into()
                    );
                }
            }
        }
        if sentinel_login.0.is_some() && sentinel_login.1.is_none() {
            return Err("sentinel_username without sentinel_password".into());
        }
        Ok(Self {
            endpoint: Endpoint::Sentinels { service, sentinels, tls },
            user: Some(decoded("user", base.username())?).filter(|user| !user.is_empty()),
            password: base.password().map(|password| decoded("password", password)).transpose()?,
            database: number(database)?,
            sentinel_login,
        })
    }

    /// Returns the address of a server with this login and database, and with TLS if this address uses it.
    ///
    /// ```
    /// # use redlock_wire::Address;
    /// let master = Address::parse("redis+sentinel://:secret@s1,s2,s3/mymaster/2")?;
    /// let server = master.at("10.0.0.1", 6379);
    /// assert_eq!(Address::parse("redis://:secret@10.0.0.1/2")?, server);
    /// # Ok::<(), redlock_core::Error>(())
    /// ```
    #[must_use]
    pub fn at(&self, host: &str, port: u16) -> Self {
        let tls = self.endpoint.has_tls();
        Self { endpoint: Endpoint::tcp(host, port, tls), sentinel_login: (None, None), ..self.clone() }
    }

    fn tcp(url: &Url, tls: bool) -> Result<Self, String> {
        let host = match url.host() {
            Some(url::Host::Domain(host)) => decoded("host", host)?.to_ascii_lowercase(),
            Some(url::Host::Ipv4(ip)) => ip.to_string(),
            Some(url::Host::Ipv6(ip)) => ip.to_string(),
            None => String::new(),
        };
        if host.is_empty() {
            return Err("no host".into());
        }
        if url.port() == Some(0) {
            return Err("no server listens on port 0; the range is 1 to 65535".into());
        }
        if url.query().is_some() || url.fragment().is_some() {
            return Err("parameters after ? or # are allowed only in unix://".into());
        }
        let database = url.path().trim_matches('/');
        let user = Some(decoded("user", url.username())?).filter(|user| !user.is_empty());
        Ok(Self {
            endpoint: Endpoint::Tcp { host, port: url.port().unwrap_or(PORT), tls },
            user,
            password: url.password().map(|password| decoded("password", password)).transpose()?,
            database: number(if database.is_empty() { "0" } else { database })?,
            sentinel_login: (None, None),
        })
    }

    fn unix(url: &Url) -> Result<Self, String> {
        if url.host().is_some_and(|host| !host.to_string().is_empty()) || url.path().len() < 2 {
            return Err("expected an absolute path such as unix:///run/redis.sock".into());
        }
        let endpoint = Endpoint::unix(decoded("path", url.path())?);
        let (mut user, mut password, mut database) = (None, None, 0);
        for (name, value) in url.query_pairs() {
            match &*name {
                "db" => database = number(&value)?,
                "user" => user = Some(value.into_owned()),
                "pass" => password = Some(value.into_owned()),
                _ => return Err("unix:// allows only the parameters db, user and pass".into()),
            }
        }
        Ok(Self { endpoint, user, password, database, sentinel_login: (None, None) })
    }

    /// Rejects control characters, and a user without a password.
    ///
    /// Every client would ignore such a user.
    fn checked(self) -> Result<Self, String> {
        if self.to_string().contains(char::is_control) {
            return Err("control character in the host or path".into());
        }
        match (&self.user, &self.password) {
            (Some(_), None) => {
                Err("user without password; if the ACL user is nopass, give any password".into())
            }
            _ => Ok(self),
        }
    }
}

impl Endpoint {
    /// Returns whether connections use TLS.
    pub(crate) fn has_tls(&self) -> bool {
        match self {
            Self::Tcp { tls, .. } | Self::Cluster { tls, .. } | Self::Sentinels { tls, .. } => *tls,
            Self::Unix { .. } => false,
        }
    }

    /// Returns a TCP endpoint. The host may be an IPv6 address with brackets.
    pub fn tcp(host: &str, port: u16, tls: bool) -> Self {
        let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        Self::Tcp { host, port, tls }
    }

    /// Returns the endpoint of a Unix socket.
    ///
    /// Components such as `//` and `/./` in the path make no difference.
    pub fn unix(path: impl AsRef<Path>) -> Self {
        Self::Unix { path: path.as_ref().components().collect() }
    }

    /// Returns the label of a node at this endpoint: its `Display`.
    ///
    /// ```
    /// # use redlock_wire::Address;
    /// let address = Address::parse("redis://:secret@[::1]/2")?;
    /// assert_eq!("[::1]:6379", address.endpoint().label()?);
    /// # Ok::<(), redlock_core::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// - [`InvalidInput`](redlock_core::ErrorKind::InvalidInput): the host or the path contains a control character.
    ///   Labels appear in logs, metrics and terminals.
    pub fn label(&self) -> Result<String, Error> {
        let label = self.to_string();
        if label.contains(char::is_control) {
            return Err(Error::invalid(format!(
                "invalid address {label:?}: control character in the host or path"
            )));
        }
        Ok(label)
    }
}

/// The kinds of URLs with several servers.
enum Several {
    Sentinels,
    Cluster,
}

/// Returns the kind of a URL with several servers, whether it uses TLS, and its part behind the scheme.
fn several_servers(url: &str) -> Option<(Several, bool, &str)> {
    let (scheme, rest) = url.split_once("://")?;
    let scheme = scheme.to_ascii_lowercase();
    let (servers, kind) = scheme.split_once('+')?;
    let tls = match servers {
        "redis" | "valkey" => false,
        "rediss" | "valkeys" => true,
        _ => return None,
    };
    let several = match kind {
        "sentinel" => Several::Sentinels,
        "cluster" => Several::Cluster,
        _ => return None,
    };
    Some((several, tls, rest))
}

/// Splits the part of a URL behind the scheme. Returns it as a URL of a single host, and its hosts and ports, sorted.
///
/// The parser of URLs knows a single host, so it reads the other parts with each host in turn.
fn hosts(rest: &str, default_port: u16) -> Result<(Url, Vec<(String, u16)>), String> {
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, behind) = rest.split_at(end);
    let (login, hosts) = authority.rsplit_once('@').map_or(("", authority), |(login, hosts)| (login, hosts));
    let separator = if login.is_empty() { "" } else { "@" };
    let base = Url::parse(&format!("redis://{login}{separator}servers{behind}"))
        .map_err(|reason| reason.to_string())?;
    if behind.contains('@') {
        return Err("`@` behind the hosts; percent-encode it".into());
    }
    let mut servers = Vec::new();
    for host in hosts.split(',') {
        let url = Url::parse(&format!("redis://{host}")).map_err(|reason| reason.to_string())?;
        match Address::tcp(&url, false)?.endpoint {
            Endpoint::Tcp { host, .. } => servers.push((host, url.port().unwrap_or(default_port))),
            _ => unreachable!("a TCP endpoint"),
        }
    }
    servers.sort_unstable();
    servers.dedup();
    Ok((base, servers))
}

/// Returns the reason if the scheme is that of several servers, such as `redis-sentinel` or `redis+cluster`.
fn not_one_server(url: &str) -> Option<&'static str> {
    let (scheme, _) = url.split_once("://")?;
    let scheme = scheme.to_ascii_lowercase();
    if scheme.contains("sentinel") {
        return Some(
            "expected redis+sentinel://10.0.0.1,10.0.0.2,10.0.0.3/mymaster for the master that sentinels name",
        );
    }
    scheme
        .contains("cluster")
        .then_some("expected redis+cluster://10.0.0.1:7000,10.0.0.2:7000 for the shards of a cluster")
}

/// Returns the reason for a common mistake, for which the parser has no clear message.
fn common_mistake(url: &str) -> Option<&'static str> {
    if url.trim() != url {
        return Some("blank before or after the URL");
    }
    let (_, rest) = url.split_once("://")?;
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (login_and_host, path) = rest.split_at(end);
    let host = login_and_host.rsplit('@').next().unwrap_or_default();
    // An `@` behind the host means that an unencoded `/` has split a password, which may contain a comma.
    let is_next_scheme = host.ends_with(':') && path.starts_with("//");
    let is_list = host.contains(',') && (is_next_scheme || !path.contains('@'));
    is_list.then_some("several addresses, separated by commas; pass one URL for each node")
}

fn decoded(what: &str, text: &str) -> Result<String, String> {
    let bytes = percent_decode_str(text).decode_utf8();
    bytes.map(Into::into).map_err(|_| format!("the {what} is not UTF-8 after percent-decoding"))
}

fn number(database: &str) -> Result<u32, String> {
    database.parse().map_err(|_| "the database is not a number from 0 to 4294967295".into())
}

/// Returns an error that shows only the parts of `url` that are not secret.
fn invalid(url: &str, parsed: Option<&Url>, reason: &str) -> Error {
    let scheme = match url.split_once("://") {
        Some((scheme, _))
            if scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-".contains(&byte)) =>
        {
            scheme
        }
        _ => return Error::invalid("invalid address: expected a URL such as redis://10.0.0.1:6379"),
    };
    // An `@` behind the host means that an unencoded `/` has split a password; the host may then be a part of it.
    let host = parsed.filter(|url| !url[url::Position::AfterPort..].contains('@')).and_then(Url::host_str);
    Error::invalid(format!("invalid address {scheme}://{}: {reason}", host.unwrap_or("...")))
}

/// Formats as `10.0.0.1:6379`, `[::1]:6379`, `unix:/run/redis.sock`, `mymaster@10.0.0.1:26379,10.0.0.2:26379` or
/// `cluster@10.0.0.1:7000,10.0.0.2:7000`.
///
/// Database, user and password are left out.
impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.endpoint.fmt(f)
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Address")
            .field("endpoint", &self.endpoint)
            .field("user", &self.user)
            .field("password", &self.password.as_ref().map(|_| "..."))
            .field("database", &self.database)
            .field("sentinel_login", &self.sentinel_login.1.as_ref().map(|_| "..."))
            .finish()
    }
}

/// Formats as `10.0.0.1:6379`, `[::1]:6379`, `unix:/run/redis.sock`, `mymaster@10.0.0.1:26379,10.0.0.2:26379` or
/// `cluster@10.0.0.1:7000,10.0.0.2:7000`.
///
/// The format is the same with and without TLS.
impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp { host, port, .. } => write_server(f, host, *port),
            Self::Sentinels { service, sentinels, .. } => write_servers(f, service, sentinels),
            Self::Cluster { servers, .. } => write_servers(f, "cluster", servers),
            Self::Unix { path } => write!(f, "unix:{}", path.display()),
        }
    }
}

fn write_servers(f: &mut fmt::Formatter<'_>, name: &str, servers: &[(String, u16)]) -> fmt::Result {
    f.write_str(name)?;
    for (position, (host, port)) in servers.iter().enumerate() {
        f.write_str(if position == 0 { "@" } else { "," })?;
        write_server(f, host, *port)?;
    }
    Ok(())
}

/// Formats as `10.0.0.1:6379` or `[::1]:6379`.
pub(crate) fn write_server(f: &mut fmt::Formatter<'_>, host: &str, port: u16) -> fmt::Result {
    match host.parse::<Ipv6Addr>() {
        Ok(ip) => write!(f, "[{ip}]:{port}"),
        Err(_) => write!(f, "{}:{port}", host.to_ascii_lowercase()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(url: &str) -> Address {
        Address::parse(url).unwrap()
    }

    fn message(url: &str) -> String {
        Address::parse(url).unwrap_err().to_string()
    }

    #[test]
    fn every_part_of_a_url_counts() {
        let address = parsed("rediss://me:p%40ss%2fw%C3%B6rd@Redis.Example:7000/3");
        let host = "redis.example".to_owned();
        assert_eq!(&Endpoint::Tcp { host, port: 7000, tls: true }, address.endpoint());
        assert_eq!((Some("me"), Some("p@ss/wörd")), (address.user(), address.password()));
        assert_eq!(3, address.database());

        let address = parsed("valkey://:secret@[::1]");
        assert_eq!(&Endpoint::Tcp { host: "::1".into(), port: 6379, tls: false }, address.endpoint());
        assert_eq!((None, Some("secret"), 0), (address.user(), address.password(), address.database()));

        let address = parsed("unix:///run/my%20redis.sock?db=2&user=me&pass=p%26w");
        assert_eq!(&Endpoint::Unix { path: "/run/my redis.sock".into() }, address.endpoint());
        assert_eq!((Some("me"), Some("p&w"), 2), (address.user(), address.password(), address.database()));
    }

    #[test]
    fn the_label_of_a_server_does_not_depend_on_login_and_database() {
        for same in ["redis://10.0.0.1", "rediss://10.0.0.1:6379/", "valkey://a:b@10.0.0.1/5"] {
            assert_eq!("10.0.0.1:6379", parsed(same).to_string());
        }
        for same in ["redis://[::1]", "redis://[0:0::1]:6379/1"] {
            assert_eq!("[::1]:6379", parsed(same).to_string());
        }
        for same in ["redis://REDIS.example", "redis://redis.Example"] {
            assert_eq!("redis.example:6379", parsed(same).to_string());
        }
        for same in ["unix:///run/redis.sock", "unix:///run//redis.sock?db=1", "unix:///run/./redis.sock"] {
            assert_eq!("unix:/run/redis.sock", parsed(same).to_string());
        }
    }

    #[test]
    fn errors_state_the_invalid_part() {
        assert!(message("10.0.0.1:6379").contains("expected a URL such as redis://10.0.0.1:6379"));
        assert!(message("localhost:6379").contains("expected a URL such as redis://10.0.0.1:6379"));
        assert!(message("http://a").contains("invalid address http://a: expected redis://"));
        assert!(message("redis://").contains("no host"));
        assert!(message("redis:///1").contains("no host"));
        assert!(message("redis://a/x").contains("invalid address redis://a: the database is not a number"));
        assert!(message("redis://a/-1").contains("database"));
        assert!(message("redis://a:65536").contains("port"));
        assert!(message("redis://a?db=1").contains("parameters after ? or #"));
        assert!(message("rediss://a#insecure").contains("parameters after ? or #"));
        assert!(message("redis://me@a").contains("user without password"));
        assert!(message("unix://run/redis.sock").contains("absolute path"));
        assert!(message("unix:///").contains("absolute path"));
        assert!(message("unix:///a?password=x").contains("db, user and pass"));
        assert!(message("redis://:%ff@a").contains("password is not UTF-8"));
        assert!(message("redis://a:0").contains("redis://a: no server listens on port 0"));
        for blank in [" redis://a", "redis://a\n"] {
            assert!(message(blank).contains("redis://...: blank before or after the URL"), "{blank:?}");
        }
        for list in
            ["redis://a,redis://b", "redis://:p@a:1,redis://:p@b:2/3", "redis://a:1,b:2", "redis://a, b"]
        {
            assert!(message(list).contains("one URL for each node"), "{list}: {}", message(list));
        }
        assert_eq!(Some("p,w"), parsed("redis://:p,w@a").password());
    }

    #[test]
    fn other_urls_of_sentinels_and_clusters_are_corrected() {
        for url in ["redis-sentinel://me:hunter2@10.0.0.1:26379/mymaster", "sentinel://:hunter2@a,b/mymaster"]
        {
            assert!(message(url).contains(": expected redis+sentinel://"), "{}", message(url));
            assert!(!message(url).contains("unter2"), "{}", message(url));
        }
        for url in ["redis-cluster://10.0.0.1:7000", "rediscluster://10.0.0.1:7000?node=10.0.0.2:7000"] {
            assert!(message(url).contains("10.0.0.1: expected redis+cluster://"), "{}", message(url));
        }
    }

    #[test]
    fn every_part_of_a_sentinel_url_counts() {
        let address = parsed(
            "rediss+sentinel://me:p%40ss@S2.Example:5000,[::1],10.0.0.1/my%20master/3\
             ?sentinel_username=ann&sentinel_password=p%26w",
        );
        assert_eq!("my master@10.0.0.1:26379,[::1]:26379,s2.example:5000", address.to_string());
        assert_eq!((Some("me"), Some("p@ss"), 3), (address.user(), address.password(), address.database()));
        let sentinels = address.of_sentinels();
        assert_eq!(3, sentinels.len());
        assert_eq!(&Endpoint::tcp("10.0.0.1", 26379, true), sentinels[0].endpoint());
        assert_eq!((Some("ann"), Some("p&w")), (sentinels[0].user(), sentinels[0].password()));
        let server = address.at("10.0.0.9", 6379);
        assert_eq!(&Endpoint::tcp("10.0.0.9", 6379, true), server.endpoint());
        assert_eq!((Some("me"), Some("p@ss"), 3), (server.user(), server.password(), server.database()));
        assert!(parsed("redis://10.0.0.1").of_sentinels().is_empty());
        let plain = parsed("valkey+sentinel://s1,s1:26379/mymaster/");
        assert_eq!("mymaster@s1:26379", plain.to_string(), "a sentinel that is listed twice is one");
        assert_eq!((None, None, 0), (plain.user(), plain.of_sentinels()[0].password(), plain.database()));
    }

    #[test]
    fn every_part_of_a_cluster_url_counts() {
        let address = parsed("rediss+cluster://me:p%40ss@C2.Example:7000,[::1],10.0.0.1/");
        assert_eq!("cluster@10.0.0.1:6379,[::1]:6379,c2.example:7000", address.to_string());
        assert_eq!((Some("me"), Some("p@ss"), 0), (address.user(), address.password(), address.database()));
        let server = address.at("10.0.0.9", 7001);
        assert_eq!(&Endpoint::tcp("10.0.0.9", 7001, true), server.endpoint());
        assert_eq!((Some("me"), Some("p@ss")), (server.user(), server.password()));
        assert_eq!("cluster@a:6379", parsed("valkey+cluster://a,a:6379/0").to_string());
    }

    #[test]
    fn errors_state_the_invalid_part_of_a_cluster_url() {
        for (url, reason) in [
            ("redis+cluster://a,,b", "host"),
            ("redis+cluster://", "host"),
            ("redis+cluster://a:0", "port 0"),
            ("redis+cluster://a/1", "no other database than 0"),
            ("redis+cluster://a/hunter2", "no other database than 0"),
            ("redis+cluster://a?password=hunter2", "parameters after ? or #"),
            ("redis+cluster://hunter2@a", "user without password"),
            ("redis+cluster://:hun/hunter2@a", "percent-encode"),
        ] {
            let message = message(url);
            assert!(message.starts_with("invalid address redis+cluster://...: "), "{url}: {message}");
            assert!(message.contains(reason) && !message.contains("hunter2"), "{url}: {message}");
        }
    }

    #[test]
    fn errors_state_the_invalid_part_of_a_sentinel_url() {
        for (url, reason) in [
            ("redis+sentinel://s1,s2", "expected the name of the service"),
            ("redis+sentinel://s1,s2/", "expected the name of the service"),
            ("redis+sentinel:///mymaster", "host"),
            ("redis+sentinel://s1,,s2/mymaster", "host"),
            ("redis+sentinel://s1:0/mymaster", "port 0"),
            ("redis+sentinel://s1:99999/mymaster", "port"),
            ("redis+sentinel://s1/mymaster/x", "the database is not a number"),
            ("redis+sentinel://s1/mymaster?password=hunter2", "only the parameters sentinel_username"),
            ("redis+sentinel://s1/mymaster?sentinel_username=hunter2", "without sentinel_password"),
            ("redis+sentinel://me@s1/mymaster", "user without password"),
            ("redis+sentinel://s1/mymaster#x", "after #"),
            ("redis+sentinel://s1/a%0ab", "control character"),
            ("redis+sentinel://:hun/hunter2@s1/mymaster", "percent-encode"),
        ] {
            let message = message(url);
            assert!(message.starts_with("invalid address redis+sentinel://...: "), "{url}: {message}");
            assert!(message.contains(reason) && !message.contains("hunter2"), "{url}: {message}");
        }
        let shown = format!("{:?}", parsed("redis+sentinel://:hunter2@s/m?sentinel_password=hunter3"));
        assert!(!shown.contains("hunter"), "{shown}");
    }

    #[test]
    fn control_characters_are_rejected_except_in_a_password() {
        for bad in
            ["redis://a%0d%0aINFO%1b31m", "unix:///tmp/a%0ab%1b[31mc", "redis://a%00", "unix:///a%C2%85"]
        {
            let message = message(bad);
            assert!(
                message.contains("control character") && !message.contains(char::is_control),
                "{message:?}"
            );
        }
        assert_eq!(Some("a\r\nb"), parsed("redis://:a%0D%0Ab@a").password());
        let path = Endpoint::Unix { path: "/tmp/a\x1b[31m".into() };
        let error = path.label().unwrap_err();
        assert!(!error.to_string().contains(char::is_control), "{error:?}");
        assert_eq!("10.0.0.1:6379", parsed("redis://10.0.0.1").endpoint().label().unwrap());
    }

    #[test]
    fn passwords_are_never_shown() {
        for bad in [
            "redis://me:hunter2@a/x",
            "redis://me:hunter2@a:99999",
            "redis://me:hunter2/@a",
            "redis://me:hunter2,/@a",
            " redis://me:hunter2@a",
            "redis://me:hunter2@a,redis://me:hunter2@b",
            "redis://me:12/hunter2@a",
            "redis://hunter2/7@a",
            "redis://me:hunter2?@a",
            "redis://me:1#hunter2@a",
            "redis://:hunter2@",
            "me:hunter2@a",
            "me:hunter2@redis://a",
            "unix:///a?user=u&pass=hunter2&x=1",
            "unix://hunter2@a/b",
        ] {
            let shown = format!("{0} {0:?}", Address::parse(bad).unwrap_err());
            assert!(!shown.contains("unter2"), "{bad}: {shown}");
        }
        let shown = format!("{0} {0:?} {0:#?}", parsed("redis://me:hunter2@a"));
        assert!(!shown.contains("hunter2"), "{shown}");
    }
}
