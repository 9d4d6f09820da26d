//! The servers: from options, the environment, and the configuration file, in this order.
//!
//! Files with secrets are read here, once. The keeper receives their content, so that it needs neither files nor
//! environment.

mod file;
mod login;

use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use redlock_doctor::{Preflight, PreflightSettings, preflight, preflight_of_change};
use redlock_redis_rs::{Address, Endpoint, Error, IntoConnector, Options, Redlock, builder_with, nodes};
use serde::{Deserialize, Serialize};

use self::file::File;
use crate::args::Shared;
use crate::duration;
use crate::exit::Failure;

/// The default limit for one reply.
///
/// It is longer than that of the library, because each run is a new process, and its first request includes the
/// connection.
const NODE_TIMEOUT: Duration = Duration::from_secs(1);

/// The variables of the environment with secrets.
pub(crate) const SECRET_VARIABLES: [&str; 3] =
    ["REDLOCK_NODES", "REDLOCK_PREVIOUS_NODES", "REDLOCK_PASSWORD"];

/// The servers and how to reach them. It contains secrets.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Servers {
    urls: Vec<String>,
    /// The servers that were used before, while the servers are changed.
    #[serde(default)]
    previous: Option<Vec<String>>,
    certificates: Certificates,
    key_prefix: Vec<u8>,
    pub(crate) node_timeout: Duration,
    /// The longest TTL, if restart admission is enabled.
    pub(crate) longest_ttl: Option<Duration>,
    /// That of the library if it is missing.
    #[serde(default)]
    clock_drift_factor: Option<f64>,
    #[serde(default)]
    node_lists_must_agree: bool,
}

#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Certificates {
    ca: Option<Vec<u8>>,
    client: Option<(Vec<u8>, Vec<u8>)>,
}

impl std::fmt::Debug for Servers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let labels: Vec<_> = self.urls.iter().map(|url| label(url)).collect();
        let previous: Vec<_> = self.previous.iter().flatten().map(|url| label(url)).collect();
        let mut debug = f.debug_struct("Servers");
        debug.field("nodes", &labels).field("previous_nodes", &previous).finish_non_exhaustive()
    }
}

fn label(url: &str) -> String {
    Address::parse(url).map_or_else(|error| error.to_string(), |address| address.to_string())
}

/// The servers, and warnings about the settings.
pub(crate) struct Found {
    pub(crate) servers: Servers,
    pub(crate) warnings: Vec<String>,
}

/// Finds the servers.
pub(crate) fn find(args: &Shared) -> Result<Found, Failure> {
    let mut warnings = Vec::new();
    let environment = Environment::read();
    let file = File::find(args.config.as_deref(), &environment, &mut warnings)?;
    let Lists { nodes, previous } = lists(args, &environment, &file, &mut warnings)?;
    let login = login::Login {
        user: args.user.clone().or(environment.text("REDLOCK_USER")?).or(file.user.clone()),
        password: login::password(args, &environment, &file, &mut warnings)?,
    };
    let complete = |urls: Vec<String>, what: &str| {
        let complete = |(index, url): (usize, &String)| {
            let (completed, position, count) = (login.complete(url), index + 1, urls.len());
            completed.map_err(|error| Failure::config(format!("{what} {position} of {count}: {error}")))
        };
        urls.iter().enumerate().map(complete).collect::<Result<Vec<_>, _>>()
    };
    let urls = complete(nodes, "server")?;
    let previous = previous.map(|urls| complete(urls, "previous server")).transpose()?;
    let certificates = certificates(args, &environment, &file)?;
    let key_prefix = args.key_prefix.clone().or(environment.get("REDLOCK_KEY_PREFIX"));
    let key_prefix = key_prefix.or(file.key_prefix.clone().map(Into::into)).unwrap_or_default();
    let timeout = environment.text("REDLOCK_NODE_TIMEOUT")?.or(file.node_timeout.clone());
    let longest_ttl = environment.text("REDLOCK_LONGEST_TTL")?.or(file.longest_ttl.clone());
    let drift = environment.number("REDLOCK_CLOCK_DRIFT_FACTOR")?.or(file.clock_drift_factor);
    let must_agree = environment.truth("REDLOCK_NODE_LISTS_MUST_AGREE")?.or(file.node_lists_must_agree);
    let servers = Servers {
        urls,
        previous,
        certificates,
        key_prefix: key_prefix.into_encoded_bytes(),
        node_timeout: either("node timeout", args.node_timeout, timeout)?.unwrap_or(NODE_TIMEOUT),
        longest_ttl: either("longest TTL", args.longest_ttl, longest_ttl)?,
        clock_drift_factor: args.clock_drift_factor.or(drift),
        node_lists_must_agree: args.node_lists_must_agree || must_agree.unwrap_or(false),
    };
    Ok(Found { servers, warnings })
}

/// Returns the duration of the option, or else that of the environment or file.
fn either(what: &str, option: Option<Duration>, text: Option<String>) -> Result<Option<Duration>, Failure> {
    let parse =
        |text: String| duration::parse(&text).map_err(|error| Failure::config(format!("{what}: {error}")));
    let parsed = text.map(parse).transpose()?;
    Ok(option.or(parsed))
}

/// The lists of servers. Both come from one place: the options, the environment or the file.
struct Lists {
    nodes: Vec<String>,
    previous: Option<Vec<String>>,
}

fn lists(
    args: &Shared,
    environment: &Environment,
    file: &File,
    warnings: &mut Vec<String>,
) -> Result<Lists, Failure> {
    if !args.nodes.is_empty() {
        let has_password = |url: &String| {
            let of_any = |address: &Address| {
                let sentinels = address.of_sentinels();
                sentinels.iter().chain([address]).any(|address| address.password().is_some())
            };
            Address::parse(url).is_ok_and(|address| of_any(&address))
        };
        if args.nodes.iter().chain(&args.previous_nodes).any(has_password) {
            warnings.push(
                "a password in --node is visible to all users of this machine; use --password-file".into(),
            );
        }
        let previous = (!args.previous_nodes.is_empty()).then(|| args.previous_nodes.clone());
        return Ok(Lists { nodes: args.nodes.clone(), previous });
    }
    if !args.previous_nodes.is_empty() {
        return Err(Failure::config("--previous-node needs --node for the servers of the new list"));
    }
    if let Some(nodes) = environment.text("REDLOCK_NODES")? {
        let previous = environment.text("REDLOCK_PREVIOUS_NODES")?.map(|nodes| split(&nodes));
        if previous.is_none() && file.previous_nodes.is_some() {
            return Err(other_place(
                "REDLOCK_NODES is set, and only the configuration file has `previous_nodes`",
            ));
        }
        return Ok(Lists { nodes: split(&nodes), previous });
    }
    if environment.text("REDLOCK_PREVIOUS_NODES")?.is_some() {
        return Err(other_place("REDLOCK_PREVIOUS_NODES is set without REDLOCK_NODES"));
    }
    if file.nodes.is_empty() {
        let places = "use --node, REDLOCK_NODES, or `nodes` in a configuration file";
        return Err(Failure::config(format!("no servers: {places}")));
    }
    Ok(Lists { nodes: file.nodes.clone(), previous: file.previous_nodes.clone() })
}

/// A program that ignored one of two lists would take part in another step of a change of the servers.
fn other_place(what: &str) -> Failure {
    Failure::config(format!("{what}: set both lists of servers in the same place"))
}

/// Splits a list of URLs at commas and blanks, except at the commas between sentinels, and between servers of a cluster.
fn split(nodes: &str) -> Vec<String> {
    let mut urls: Vec<String> = Vec::new();
    for word in nodes.split([' ', '\n']) {
        let mut last = None;
        for part in word.split(',').filter(|part| !part.is_empty()) {
            match last.and_then(|index: usize| urls.get_mut(index)) {
                Some(url) if !part.contains("://") => *url = format!("{url},{part}"),
                _ => {
                    let has_several = part.contains("+sentinel://") || part.contains("+cluster://");
                    last = has_several.then_some(urls.len());
                    urls.push(part.to_owned());
                }
            }
        }
    }
    urls
}

fn certificates(args: &Shared, environment: &Environment, file: &File) -> Result<Certificates, Failure> {
    let path = |arg: &Option<PathBuf>, name, in_file: &Option<PathBuf>| {
        arg.clone().or(environment.get(name).map(Into::into)).or(in_file.clone())
    };
    let ca = path(&args.cacert, "REDLOCK_CACERT", &file.ca_file);
    let cert = path(&args.cert, "REDLOCK_CERT", &file.cert_file);
    let key = path(&args.key, "REDLOCK_KEY", &file.key_file);
    let client = match (cert, key) {
        (Some(cert), Some(key)) => Some((read(&cert)?, read(&key)?)),
        (None, None) => None,
        _ => return Err(Failure::config("a client certificate needs both --cert and --key")),
    };
    Ok(Certificates { ca: ca.as_deref().map(read).transpose()?, client })
}

fn read(path: &Path) -> Result<Vec<u8>, Failure> {
    fs::read(path).map_err(|error| Failure::config(format!("cannot read {}: {error}", path.display())))
}

/// The variables of the environment. An empty one is the same as none.
pub(crate) struct Environment;

impl Environment {
    pub(crate) fn read() -> Self {
        Self
    }

    #[allow(clippy::unused_self)] // a place for a fake
    fn get(&self, name: &str) -> Option<OsString> {
        env::var_os(name).filter(|value| !value.is_empty())
    }

    pub(crate) fn text(&self, name: &str) -> Result<Option<String>, Failure> {
        let text = self.get(name).map(OsString::into_string).transpose();
        text.map_err(|_| Failure::config(format!("{name} is not UTF-8")))
    }

    fn number(&self, name: &str) -> Result<Option<f64>, Failure> {
        let parse = |text: String| {
            let wrong = |_| Failure::config(format!("{name} must be a number such as 0.01, not {text:?}"));
            text.parse().map_err(wrong)
        };
        self.text(name)?.map(parse).transpose()
    }

    fn truth(&self, name: &str) -> Result<Option<bool>, Failure> {
        let parse = |text: String| {
            text.parse().map_err(|_| Failure::config(format!("{name} must be true or false, not {text:?}")))
        };
        self.text(name)?.map(parse).transpose()
    }
}

impl Servers {
    /// Creates the lock client, in a tokio runtime. This does no I/O, except for the root certificates of the system.
    pub(crate) fn redlock(&self) -> Result<Redlock, Error> {
        let options = self.options();
        let builder = builder_with(&self.urls, &options)?.node_timeout(self.node_timeout);
        // The label of its announcements. Requests have that of the command line.
        let builder = builder.node_lists_must_agree(self.node_lists_must_agree).owner(owner(None));
        let builder = match self.clock_drift_factor {
            Some(factor) => builder.clock_drift_factor(factor),
            None => builder,
        };
        match &self.previous {
            Some(previous) => builder.previous_nodes(nodes(previous, &options)?).build(),
            None => builder.build(),
        }
    }

    /// Returns whether restart admission is enabled for a server.
    pub(crate) fn have_quarantines(&self) -> bool {
        let can_be_promoted = |url: &String| {
            let endpoint = Address::parse(url).map(|address| address.endpoint().clone());
            matches!(endpoint, Ok(Endpoint::Sentinels { .. } | Endpoint::Cluster { .. }))
        };
        self.longest_ttl.is_some() || self.all().any(can_be_promoted)
    }

    /// Checks the servers, with the drift factor of these settings.
    pub(crate) async fn preflight(&self, settings: PreflightSettings) -> Result<Preflight, Error> {
        let options = self.options();
        let settings = match self.clock_drift_factor {
            Some(factor) => settings.clock_drift_factor(factor),
            None => settings,
        };
        let connectors =
            |urls: &[String]| urls.iter().map(|url| url.into_connector(&options)).collect::<Vec<_>>();
        match &self.previous {
            None => preflight(connectors(&self.urls), &options, settings).await,
            Some(previous) => {
                preflight_of_change(connectors(&self.urls), connectors(previous), &options, settings).await
            }
        }
    }

    /// Returns whether the servers are changed, so that there are two lists.
    pub(crate) fn are_changed(&self) -> bool {
        self.previous.is_some()
    }

    /// Returns the URLs of both lists.
    fn all(&self) -> impl Iterator<Item = &String> {
        self.urls.iter().chain(self.previous.iter().flatten())
    }

    fn options(&self) -> Options {
        // Shorter than the node timeout, so that the error states why there is no connection.
        let connect_timeout = self.node_timeout.saturating_sub(self.node_timeout / 16);
        let mut options = Options::tokio().key_prefix(&self.key_prefix).connect_timeout(connect_timeout);
        if let Some(ca) = &self.certificates.ca {
            options = options.root_certificates(&**ca);
        }
        if let Some((certificate, key)) = &self.certificates.client {
            options = options.client_identity(&**certificate, &**key);
        }
        match self.longest_ttl {
            Some(longest) => options.longest_ttl(longest),
            None => options,
        }
    }
}

/// Returns the bytes of a name from the command line.
pub(crate) fn bytes(name: &OsString) -> Vec<u8> {
    name.as_encoded_bytes().to_vec()
}

/// Returns the default label: host and process.
pub(crate) fn owner(label: Option<&str>) -> String {
    label.map_or_else(|| host_and_pid(&host()), str::to_owned)
}

fn host_and_pid(host: &str) -> String {
    let pid = std::process::id();
    let allowed = |c: &char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_');
    let host: String = host.chars().filter(allowed).take(50).collect();
    format!("{host}:{pid}")
}

#[cfg(unix)]
fn host() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

#[cfg(not(unix))]
fn host() -> String {
    env::var("COMPUTERNAME").unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_has_only_accepted_characters() {
        let label = host_and_pid("we b#1\"\u{e9}.example");
        assert_eq!(format!("web1.example:{}", std::process::id()), label);
        assert!(host_and_pid(&"x".repeat(300)).len() <= 64);
    }

    #[test]
    fn a_list_is_split_between_urls() {
        let list =
            "redis://a,redis://b redis+sentinel://:p@s1,s2:5000,s3/m,redis://c,rediss+sentinel://s4/m d,e";
        let urls = ["redis://a", "redis://b", "redis+sentinel://:p@s1,s2:5000,s3/m", "redis://c"];
        let urls = urls.into_iter().chain(["rediss+sentinel://s4/m", "d", "e"]);
        assert_eq!(urls.collect::<Vec<_>>(), split(list));
        let list = "redis+cluster://:p@c1,c2:7000,redis://a";
        assert_eq!(["redis+cluster://:p@c1,c2:7000", "redis://a"], split(list)[..]);
        assert_eq!(["redis://a", "b"], split(" redis://a,\n,b")[..], "an error names the second one");
    }

    #[test]
    fn an_option_has_precedence_and_invalid_text_is_an_error() {
        let seconds = |seconds| Some(Duration::from_secs(seconds));
        assert_eq!(seconds(1), either("x", seconds(1), Some("2s".into())).unwrap());
        assert_eq!(seconds(2), either("x", None, Some("2s".into())).unwrap());
        assert_eq!(None, either("x", None, None).unwrap());
        let error = either("longest TTL", None, Some("soon".into())).unwrap_err();
        assert!(error.message.starts_with("longest TTL: expected a duration"), "{}", error.message);
    }

    #[test]
    fn servers_never_print_a_password() {
        let servers = Servers {
            urls: vec!["redis://:hunter2@a".into(), "redis://me:hunter2@b:x".into()],
            previous: Some(vec!["redis://:hunter2@c".into()]),
            certificates: Certificates::default(),
            key_prefix: Vec::new(),
            node_timeout: NODE_TIMEOUT,
            longest_ttl: None,
            clock_drift_factor: None,
            node_lists_must_agree: false,
        };
        let shown = format!("{servers:?} {servers:#?}");
        assert!(shown.contains("a:6379") && !shown.contains("hunter2"), "{shown}");
    }
}
