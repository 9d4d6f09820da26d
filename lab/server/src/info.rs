//! The text of `INFO`.

use crate::settings::Settings;

/// Returns the sections `server` and `replication`, or one of them.
pub(crate) fn text(settings: &Settings, section: Option<&str>, now: u64) -> String {
    let sections = [("server", server(settings, now)), ("replication", replication(settings))];
    let wanted = sections.into_iter().filter(|(name, _)| section.is_none_or(|section| section == *name));
    wanted.map(|(_, text)| text).collect::<Vec<_>>().join("\r\n")
}

fn server(Settings { release, run_id, started, .. }: &Settings, now: u64) -> String {
    let (uptime, version) = (now.saturating_sub(*started) / 1_000_000, release.redis_version());
    let mode = if release.is_valkey() {
        let (name, version) = release.version();
        format!("server_name:{name}\r\nvalkey_version:{version}\r\nserver_mode:standalone")
    } else {
        "redis_mode:standalone".to_owned()
    };
    format!(
        "# Server\r\nredis_version:{version}\r\n{mode}\r\nrun_id:{run_id}\r\nserver_time_usec:{now}\r\n\
         uptime_in_seconds:{uptime}\r\n"
    )
}

fn replication(Settings { is_replica, replid2, .. }: &Settings) -> String {
    let role = if *is_replica { "slave" } else { "master" };
    format!("# Replication\r\nrole:{role}\r\nmaster_replid2:{replid2}\r\n")
}
