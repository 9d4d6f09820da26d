//! The look: the commands that read the stamp of a server, and the meaning of the replies.

use std::time::Duration;

use redlock_core::node::QuarantineReason;

use crate::commands::CACHING;
use crate::connection::Connection;
use crate::gate::rule::{Finding, Stamp, is_forgotten};
use crate::message::{Command, Failure, Reply};
use crate::script::{Script, script};
use crate::stamp::StampKey;
use crate::text::{field, sanitize};

pub(crate) static LOOK: Script = script!("../scripts/admission.lua");

/// One look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Look {
    pub(crate) stamp: StampKey,
    /// The longest TTL of this program in milliseconds.
    pub(crate) longest: u64,
    /// True if an operator vouches for the data.
    pub(crate) vouch: bool,
    /// The time at which a jump of the clock was noticed, if the stamp may be older. It is in milliseconds since the Unix
    /// epoch, by the clock of the server.
    pub(crate) jumped: Option<u64>,
    /// True if the server is to report the next change of the stamp.
    pub(crate) tracked: bool,
}

impl Look {
    /// Returns the commands of the look.
    ///
    /// A plain read arms the tracking, because servers differ in the keys of a script that they track. Nothing comes in
    /// between in a pipeline of this connection. Comparing the two stamps reveals a change by another client.
    pub(crate) fn commands<C: Connection>(self) -> Vec<C::Packed> {
        let mut commands = vec![self.full::<C>()];
        if self.tracked {
            let read = C::pack(Command::Other { name: "GET", args: &[&self.stamp.name()] });
            commands.extend([C::pack(CACHING), read]);
        }
        commands
    }

    /// Returns the look as a single command, with the text of its script.
    pub(crate) fn full<C: Connection>(self) -> C::Packed {
        self.script::<C>("EVAL", LOOK.text)
    }

    /// Returns the look as a single command, by the SHA-1 of its script.
    pub(crate) fn short<C: Connection>(self) -> C::Packed {
        self.script::<C>("EVALSHA", &LOOK.sha)
    }

    fn script<C: Connection>(self, name: &'static str, script: &str) -> C::Packed {
        let words = self.words(script);
        let args: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
        C::pack(Command::Other { name, args: &args })
    }

    /// Returns the arguments of `EVAL` or `EVALSHA`.
    pub(crate) fn words(self, script: &str) -> [Vec<u8>; 6] {
        let (longest, vouch): (_, &[u8]) = (self.longest.to_string(), if self.vouch { b"1" } else { b"0" });
        let jumped = self.jumped.unwrap_or(0).to_string();
        let stamp = self.stamp.name();
        let words = [script.as_bytes(), b"1", &*stamp, longest.as_bytes(), vouch, jumped.as_bytes()];
        words.map(<[u8]>::to_vec)
    }
}

/// Returns the result of a look from the replies to its commands. If the look is not permitted, reads `INFO` instead.
pub(crate) async fn found<C: Connection>(connection: &C, replies: &[Reply]) -> Result<Finding, Failure> {
    match read(replies) {
        Some(finding) => Ok(finding),
        None => {
            let info = |section| C::pack(Command::Other { name: "INFO", args: &[section] });
            let sections = [b"server".as_slice(), b"replication"].map(info);
            Ok(without_stamp(&connection.pipeline(sections.into()).await?))
        }
    }
}

/// Reads the replies to the commands of a look; `None` if the look is not permitted.
pub(crate) fn read(replies: &[Reply]) -> Option<Finding> {
    let finding = match replies.first() {
        Some(Reply::Array(parts)) => parts_of(parts),
        Some(Reply::Error(message)) if is_denied(message) => return None,
        Some(Reply::Error(message)) => Finding::Failed(sanitize(message)),
        _ => unexpected(),
    };
    match (&finding, replies.get(2)) {
        (Finding::Stamp(stamp), Some(Reply::Bytes(text))) if **text != *stamp.text => {
            Some(Finding::Failed("the stamp changed during the check".into()))
        }
        (Finding::Stamp(_), Some(Reply::Nil)) => {
            Some(Finding::Failed("the stamp was deleted during the check".into()))
        }
        _ => Some(finding),
    }
}

fn parts_of(parts: &[Reply]) -> Finding {
    match parts {
        [Reply::Int(-1)] => Finding::Replica,
        [Reply::Int(-2)] => Finding::LaterVersion,
        [Reply::Int(cause), Reply::Int(age), Reply::Int(longest), Reply::Bytes(text)] => {
            let renewed = match cause {
                0 => None,
                1 => Some(QuarantineReason::DataLost),
                2 => Some(QuarantineReason::Restarted),
                3 => Some(QuarantineReason::Promoted),
                5 => Some(QuarantineReason::ClockJumped),
                _ => Some(QuarantineReason::Recent),
            };
            let millis = |number: i64| Duration::from_millis(u64::try_from(number).unwrap_or(0));
            let text = text.as_slice().into();
            Finding::Stamp(Stamp { renewed, age: millis(*age), longest: millis(*longest), text })
        }
        _ => unexpected(),
    }
}

fn unexpected() -> Finding {
    Finding::Failed("unexpected reply to the check".into())
}

/// Reads the replies to `INFO server` and `INFO replication`.
fn without_stamp(replies: &[Reply]) -> Finding {
    let [Reply::Bytes(server), Reply::Bytes(replication)] = replies else { return Finding::Nothing };
    let (server, replication) = (String::from_utf8_lossy(server), String::from_utf8_lossy(replication));
    let uptime = field(&server, "uptime_in_seconds").and_then(|seconds| seconds.parse().ok());
    let past = field(&replication, "master_replid2");
    match (uptime, past, field(&replication, "role")) {
        (_, _, Some("slave")) => Finding::Replica,
        (Some(seconds), Some(past), Some(_)) => {
            let uptime = Duration::from_secs(seconds);
            Finding::Uptime { uptime, promoted: !is_forgotten(past.as_bytes()) }
        }
        _ => Finding::Nothing,
    }
}

/// Returns whether access rules deny the look: the key, the script, or a command in it.
fn is_denied(message: &str) -> bool {
    ["NOPERM", "ERR unknown command", "ACL failure", "can't run this command"]
        .iter()
        .any(|sign| message.contains(sign))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(text: &str) -> Reply {
        Reply::Bytes(text.into())
    }

    fn stamp(cause: i64) -> Reply {
        Reply::Array(vec![Reply::Int(cause), Reply::Int(1500), Reply::Int(30_000), bytes("1 a 0 5 30000")])
    }

    #[test]
    fn a_stamp_is_read_with_the_reason_of_its_renewal() {
        let renewed = |cause| match read(&[stamp(cause)]) {
            Some(Finding::Stamp(stamp)) => stamp.renewed,
            other => panic!("{other:?}"),
        };
        let [lost, restarted, promoted] =
            [QuarantineReason::DataLost, QuarantineReason::Restarted, QuarantineReason::Promoted];
        assert_eq!([None, Some(lost), Some(restarted), Some(promoted)], [0, 1, 2, 3].map(renewed));
        let Some(Finding::Stamp(found)) = read(&[stamp(0)]) else { panic!() };
        assert_eq!((1500, 30), (found.age.as_millis(), found.longest.as_secs()));
        assert_eq!(Some(Finding::Replica), read(&[Reply::Array(vec![Reply::Int(-1)])]));
        assert_eq!(Some(Finding::LaterVersion), read(&[Reply::Array(vec![Reply::Int(-2)])]));
    }

    #[test]
    fn a_stamp_that_changes_between_look_and_tracking_is_none() {
        let tracked = |get| matches!(read(&[stamp(0), bytes("OK"), get]), Some(Finding::Stamp(_)));
        assert!(tracked(bytes("1 a 0 5 30000")));
        assert!(!tracked(bytes("1 a 0 6 30000")) && !tracked(Reply::Nil));
    }

    #[test]
    fn a_look_that_is_denied_or_fails_admits_nothing() {
        for denied in [
            "NOPERM No permissions to access a key",
            "ERR unknown command 'EVAL'",
            "ERR ACL failure in script: User a has no permissions to run the 'info' command",
            "ERR The user executing the script can't run this command or subcommand script: 00",
        ] {
            assert_eq!(None, read(&[Reply::Error(denied.into())]));
        }
        for failed in [Reply::Error("LOADING".into()), Reply::Nil, Reply::Array(vec![]), bytes("QUEUED")] {
            assert!(matches!(read(&[failed]), Some(Finding::Failed(_))));
        }
        assert!(matches!(read(&[]), Some(Finding::Failed(_))));
    }

    #[test]
    fn a_denied_look_is_replaced_by_info() {
        let of = |server: &str, replication: &str| without_stamp(&[bytes(server), bytes(replication)]);
        let (server, zeros) =
            ("# Server\r\nuptime_in_seconds:7\r\n", "role:master\r\nmaster_replid2:000\r\n");
        let uptime = Duration::from_secs(7);
        assert_eq!(Finding::Uptime { uptime, promoted: false }, of(server, zeros));
        let past = "role:master\r\nmaster_replid2:0a0\r\n";
        assert_eq!(Finding::Uptime { uptime, promoted: true }, of(server, past));
        assert_eq!(Finding::Replica, of(server, "role:slave\r\nmaster_replid2:000\r\n"));
        assert_eq!(Finding::Nothing, of("", zeros));
        let denied = || Reply::Error("NOPERM".into());
        assert_eq!(Finding::Nothing, without_stamp(&[denied(), denied()]));
    }
}
