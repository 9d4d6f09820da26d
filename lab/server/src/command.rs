//! The commands of connections. Those that scripts may call, too, are in [`data`].

mod data;

use std::sync::Arc;

use crate::client::{Client, ClientId};
use crate::core::{Core, Script};
use crate::info;
use crate::reply::Reply;

/// The beginning of a command.
pub(crate) enum Outcome {
    Done(Reply),
    Script(ScriptCall),
}

/// A call of a script.
pub(crate) struct ScriptCall {
    pub(crate) script: Arc<Script>,
    pub(crate) keys: Vec<Vec<u8>>,
    pub(crate) args: Vec<Vec<u8>>,
}

/// The commands that a server carries out although it is not available.
const ALWAYS: [&str; 5] = ["hello", "auth", "client", "info", "select"];

pub(crate) fn begin(core: &mut Core, id: ClientId, command: &[Vec<u8>]) -> Outcome {
    let name = name(command);
    let caches = core.clients.get(&id).is_some_and(|client| client.caches);
    let outcome = match rejection(core, id, &name, command) {
        Some(error) => Outcome::Done(error),
        None => match name.as_str() {
            "eval" | "evalsha" => script_call(core, &name, command),
            _ => Outcome::Done(carry_out(core, id, &name, command)),
        },
    };
    // `CLIENT CACHING` applies to the one command that follows.
    if let Some(client) = core.clients.get_mut(&id).filter(|_| name != "client") {
        client.caches = caches && matches!(outcome, Outcome::Script(_));
    }
    outcome
}

/// Returns the name of a command in lower case.
pub(crate) fn name(command: &[Vec<u8>]) -> String {
    command.first().map(|name| String::from_utf8_lossy(name).to_lowercase()).unwrap_or_default()
}

/// Returns the error reply to a command that is not begun, if there is one.
fn rejection(core: &Core, id: ClientId, name: &str, command: &[Vec<u8>]) -> Option<Reply> {
    let known = ["eval", "evalsha", "script", "hello", "auth", "client", "select", "ping", "flushall"];
    if !known.contains(&name) && !data::is_known(core, name) {
        let shown = command[1..].iter().map(|arg| String::from_utf8_lossy(arg));
        let shown = shown.fold(String::new(), |shown, arg| shown + "'" + &arg + "' ");
        let name = String::from_utf8_lossy(&command[0]);
        return Some(Reply::Error(format!(
            "ERR unknown command '{name}', with args beginning with: {shown}"
        )));
    }
    let client = core.clients.get(&id)?;
    if !client.is_authenticated && !["hello", "auth"].contains(&name) {
        return Some(Reply::error("NOAUTH Authentication required."));
    }
    if core.settings.denied.contains(name) {
        let subcommand = command.get(1).filter(|_| ["client", "script"].contains(&name));
        let subcommand = subcommand.map(|subcommand| String::from_utf8_lossy(subcommand).to_lowercase());
        let shown = subcommand.map_or(name.to_owned(), |subcommand| format!("{name}|{subcommand}"));
        return Some(data::no_permission(&shown));
    }
    let unavailable = core.settings.unavailable.as_ref().filter(|_| !ALWAYS.contains(&name));
    unavailable.map(|error| Reply::error(error.as_str()))
}

fn carry_out(core: &mut Core, id: ClientId, name: &str, command: &[Vec<u8>]) -> Reply {
    let text = |position: usize| command.get(position).map(|arg| String::from_utf8_lossy(arg).into_owned());
    match name {
        "ping" => Reply::Status("PONG".into()),
        "select" => Reply::ok(),
        "hello" => hello(core, id, command),
        "auth" => {
            let password = command.last().map(Vec::as_slice);
            login(core, id, password).err().unwrap_or_else(Reply::ok)
        }
        "client" => client(core, id, &text(1).unwrap_or_default().to_lowercase(), command),
        "script" => script(core, &text(1).unwrap_or_default().to_lowercase(), command.get(2)),
        "flushall" => {
            core.flush();
            Reply::ok()
        }
        "info" => Reply::Text(info::text(&core.settings, text(1).as_deref(), core.now)),
        _ => data::call(core, name, command, false),
    }
}

fn hello(core: &mut Core, id: ClientId, command: &[Vec<u8>]) -> Reply {
    if command.get(2).is_some_and(|word| word.eq_ignore_ascii_case(b"AUTH")) {
        if let Err(error) = login(core, id, command.get(4).map(Vec::as_slice)) {
            return error;
        }
    }
    let ((name, version), is_replica) = (core.settings.release.version(), core.settings.is_replica);
    let Some(client) = core.clients.get_mut(&id) else { return Reply::Nil };
    if !client.is_authenticated {
        return Reply::error(
            "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> AUTH \
             <user> <pass> option can be used to authenticate the client and select the RESP protocol version at the \
             same time",
        );
    }
    client.resp3 = command.get(1).is_some_and(|version| version == b"3");
    let text = |text: &str| Reply::bulk(text);
    let number = |number: u64| Reply::Int(i64::try_from(number).unwrap_or(i64::MAX));
    Reply::Map(vec![
        (text("server"), text(name)),
        (text("version"), text(version)),
        (text("proto"), number(if client.resp3 { 3 } else { 2 })),
        (text("id"), number(id.0)),
        (text("mode"), text("standalone")),
        (text("role"), text(if is_replica { "replica" } else { "master" })),
        (text("modules"), Reply::Array(Vec::new())),
    ])
}

fn login(core: &mut Core, id: ClientId, password: Option<&[u8]>) -> Result<(), Reply> {
    let Some(expected) = core.settings.password.clone() else {
        return Err(Reply::error(
            "ERR AUTH <password> called without any password configured for the default user. Are you sure your \
             configuration is correct?",
        ));
    };
    if password != Some(expected.as_bytes()) {
        return Err(Reply::error("WRONGPASS invalid username-password pair or user is disabled."));
    }
    core.clients.entry(id).and_modify(|client| client.is_authenticated = true);
    Ok(())
}

fn client(core: &mut Core, id: ClientId, subcommand: &str, command: &[Vec<u8>]) -> Reply {
    let Some(client) = core.clients.get_mut(&id) else { return Reply::Nil };
    let Client { tracks, caches, .. } = client;
    match subcommand {
        "tracking" => {
            *tracks = command.get(2).is_some_and(|word| word.eq_ignore_ascii_case(b"ON"));
            Reply::ok()
        }
        "caching" if !*tracks => Reply::error(
            "ERR CLIENT CACHING can be called only when the client is in tracking mode with OPTIN or OPTOUT mode enabled",
        ),
        "caching" => {
            *caches = true;
            Reply::ok()
        }
        "setinfo" if core.settings.release.has_7_2() => Reply::ok(),
        _ => {
            let shown = command.get(1).map(|name| String::from_utf8_lossy(name)).unwrap_or_default();
            Reply::Error(format!("ERR unknown subcommand '{shown}'. Try CLIENT HELP."))
        }
    }
}

fn script(core: &mut Core, subcommand: &str, text: Option<&Vec<u8>>) -> Reply {
    match (subcommand, text) {
        ("load", Some(text)) => Reply::bulk(core.load(text).sha.clone()),
        ("flush", _) => {
            core.forget_scripts();
            Reply::ok()
        }
        (other, _) => Reply::Error(format!("ERR unknown subcommand '{other}'. Try SCRIPT HELP.")),
    }
}

fn script_call(core: &mut Core, name: &str, command: &[Vec<u8>]) -> Outcome {
    let [_, script, count, rest @ ..] = command else {
        return Outcome::Done(Reply::Error(format!("ERR wrong number of arguments for '{name}' command")));
    };
    let script = match name {
        "eval" => core.load(script),
        _ => match core.scripts.get(&String::from_utf8_lossy(script).to_lowercase()) {
            Some(script) => Arc::clone(script),
            None => return Outcome::Done(Reply::error("NOSCRIPT No matching script. Please use EVAL.")),
        },
    };
    let count = std::str::from_utf8(count).ok().and_then(|count| count.parse().ok()).unwrap_or(0);
    if count > rest.len() {
        return Outcome::Done(Reply::error("ERR Number of keys can't be greater than number of args"));
    }
    let (keys, args) = rest.split_at(count);
    Outcome::Script(ScriptCall { script, keys: keys.to_vec(), args: args.to_vec() })
}

/// Carries out a command of a script.
pub(crate) fn call_of_script(core: &mut Core, command: &[Vec<u8>]) -> Reply {
    let name = name(command);
    if name == "info" && !core.settings.denied.contains("info") {
        let section = command.get(1).map(|section| String::from_utf8_lossy(section).into_owned());
        return Reply::Text(info::text(&core.settings, section.as_deref(), core.now));
    }
    if !data::is_known(core, &name) {
        return Reply::error("ERR Unknown Redis command called from script");
    }
    if core.settings.denied.contains(name.as_str()) {
        return if core.settings.release.has_7_2() {
            let user = "User default has no permissions";
            Reply::Error(format!("ERR ACL failure in script: {user} to run the '{name}' command"))
        } else {
            Reply::error("ERR The user executing the script can't run this command or subcommand")
        };
    }
    data::call(core, &name, command, true)
}
