//! Hosts: network namespaces, whose links meet at one bridge.

use std::fs::File;
use std::io::Write as _;
use std::os::fd::AsFd;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// A bridge, to which the links of all hosts are attached.
const BRIDGE: &str = "bridge";

/// The link inside of a host.
const LINK: &str = "eth0";

/// A hardware address that no host has.
const NOBODY: &str = "02:00:00:00:00:01";

/// A network namespace with one link.
pub(crate) struct Host {
    pub(crate) name: String,
    pub(crate) address: String,
}

/// Creates the network of all hosts, in the namespace of this process.
///
/// # Errors
///
/// If this process is in a namespace with links besides the loopback interface, such as that of the machine.
pub(crate) fn network() -> Result<(), String> {
    let links = std::fs::read_to_string("/proc/self/net/dev").map_err(|error| error.to_string())?;
    // Two lines are the head of the table.
    if links.lines().count() != 3 {
        return Err("this needs a network namespace without links: run scripts/histories".to_owned());
    }
    ip(None, &[format!("link add {BRIDGE} type bridge"), format!("link set {BRIDGE} up")]);
    Ok(())
}

impl Host {
    /// Creates a host. Its number determines its address.
    pub(crate) fn new(name: &str, number: usize) -> Self {
        let host = Self { name: name.to_owned(), address: format!("10.77.0.{number}") };
        let port = host.port();
        ip(
            None,
            &[
                format!("netns add {name}"),
                format!("link add {port} type veth peer name {LINK} netns {name}"),
                format!("link set {port} master {BRIDGE} up"),
            ],
        );
        host.ip(&[
            "link set lo up".to_owned(),
            format!("address add {}/24 dev {LINK}", host.address),
            format!("link set {LINK} up"),
        ]);
        host
    }

    /// Calls a function in the namespace of this host. Processes that it starts stay there.
    ///
    /// # Panics
    ///
    /// Panics if the function panics.
    pub(crate) fn within<T: Send>(&self, call: impl FnOnce() -> T + Send) -> T {
        let enter_and_call = || {
            let space = File::open(Path::new("/run/netns").join(&self.name)).expect("the namespace exists");
            move_into_link_name_space(space.as_fd(), Some(LinkNameSpaceType::Network))
                .expect("this process may enter its namespaces");
            call()
        };
        // Only this thread changes its namespace, and ends.
        thread::scope(|scope| scope.spawn(enter_and_call).join()).expect("the call does not panic")
    }

    /// Sets the link up or down, at the side of the bridge.
    pub(crate) fn set_link(&self, is_up: bool) {
        ip(None, &[format!("link set {} {}", self.port(), if is_up { "up" } else { "down" })]);
    }

    /// Loses all packets from here to other hosts: they are sent to a hardware address that no host has.
    pub(crate) fn lose(&self, to: &[&Self]) {
        let commands = to
            .iter()
            .map(|to| format!("neighbor replace {} lladdr {NOBODY} dev {LINK} nud permanent", to.address));
        self.ip(&commands.collect::<Vec<_>>());
    }

    /// Ends [`lose`](Self::lose).
    pub(crate) fn deliver(&self, to: &[&Self]) {
        let commands = to.iter().map(|to| format!("neighbor delete {} dev {LINK}", to.address));
        self.ip(&commands.collect::<Vec<_>>());
    }

    fn port(&self) -> String {
        format!("to-{}", self.name)
    }

    fn ip(&self, commands: &[String]) {
        ip(Some(&self.name), commands);
    }
}

/// Runs commands of `ip` in a namespace.
///
/// # Panics
///
/// Panics if a command fails.
fn ip(space: Option<&str>, commands: &[String]) {
    let mut ip = Command::new("ip");
    if let Some(space) = space {
        ip.args(["-n", space]);
    }
    let mut child = (ip.args(["-batch", "-"]).stdin(Stdio::piped()).stderr(Stdio::piped()).spawn())
        .expect("ip, of the package iproute2, is installed");
    let mut input = child.stdin.take().expect("it is a pipe");
    input.write_all((commands.join("\n") + "\n").as_bytes()).expect("ip reads its commands");
    drop(input);
    let output = child.wait_with_output().expect("ip ends");
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "ip failed: {message}; its commands: {commands:?}");
}
