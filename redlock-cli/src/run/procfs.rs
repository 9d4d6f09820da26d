//! The processes of the machine, according to `/proc`.

use std::collections::HashMap;
use std::fs;

/// One line of `/proc/PID/stat`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Process {
    pub(crate) pid: i32,
    pub(crate) parent: i32,
    pub(crate) group: i32,
    pub(crate) state: char,
    /// The start in clock ticks since the boot. Together with the pid, it identifies a process.
    pub(crate) started: u64,
}

impl Process {
    /// Returns a process, if it exists.
    pub(crate) fn get(pid: i32) -> Option<Self> {
        Self::parse(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
    }

    /// Returns whether the process has not ended.
    pub(crate) fn is_alive(&self) -> bool {
        !matches!(self.state, 'Z' | 'X' | 'x')
    }

    fn parse(stat: &str) -> Option<Self> {
        // The name may contain anything, even parentheses.
        let (pid, rest) = stat.split_once(" (")?;
        let (_, rest) = rest.rsplit_once(") ")?;
        let fields: Vec<_> = rest.split_ascii_whitespace().collect();
        Some(Self {
            pid: pid.parse().ok()?,
            state: fields.first()?.chars().next()?,
            parent: fields.get(1)?.parse().ok()?,
            group: fields.get(2)?.parse().ok()?,
            started: fields.get(19)?.parse().ok()?,
        })
    }
}

/// Returns all processes; none where there is no `/proc`.
pub(crate) fn all() -> Vec<Process> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let pids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    pids.filter_map(Process::get).collect()
}

/// Returns the numbers of the children of this process, including those that have ended.
///
/// The list is complete: nothing but this process removes children from it.
pub(crate) fn children() -> Vec<i32> {
    listed_children().unwrap_or_else(|| {
        let own = rustix::process::getpid().as_raw_nonzero().get();
        all().into_iter().filter(|process| process.parent == own).map(|process| process.pid).collect()
    })
}

/// Returns the lists of the kernel, one for each thread; `None` if the kernel has none.
///
/// [`all`] reads a file for each process of the machine, which takes longer than the rest of a short run.
fn listed_children() -> Option<Vec<i32>> {
    let mut found = Vec::new();
    for thread in fs::read_dir("/proc/self/task").ok()? {
        let list = fs::read_to_string(thread.ok()?.path().join("children")).ok()?;
        found.extend(list.split_ascii_whitespace().filter_map(|pid| pid.parse::<i32>().ok()));
    }
    Some(found)
}

/// Returns the descendants of a process, without those below a process that `is_foreign` accepts.
pub(crate) fn descendants(all: &[Process], root: i32, is_foreign: impl Fn(&Process) -> bool) -> Vec<Process> {
    let mut children: HashMap<i32, Vec<&Process>> = HashMap::new();
    for process in all {
        children.entry(process.parent).or_default().push(process);
    }
    let (mut found, mut parents) = (Vec::new(), vec![root]);
    while let Some(parent) = parents.pop() {
        // The entry is removed, so that pids that were reused between two reads cannot form a cycle.
        for child in children.remove(&parent).unwrap_or_default() {
            if !is_foreign(child) {
                found.push(*child);
                parents.push(child.pid);
            }
        }
    }
    found
}

/// Returns whether the variable `name` of a process has `value` among its words.
///
/// The environment is the one with which the process was started.
pub(crate) fn environment_has(pid: i32, name: &str, value: &str) -> bool {
    let Ok(environment) = fs::read(format!("/proc/{pid}/environ")) else { return false };
    let prefix = format!("{name}=");
    let mut values =
        environment.split(|byte| *byte == 0).filter_map(|entry| entry.strip_prefix(prefix.as_bytes()));
    values.any(|words| words.split(|byte| *byte == b' ').any(|word| word == value.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_may_contain_anything() {
        let stat = "42 (a) S 9 (x) Z 7 6 5 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 12345 1 2";
        let process = Process { pid: 42, parent: 7, group: 6, state: 'Z', started: 12345 };
        assert_eq!(Some(process), Process::parse(stat));
        assert!(!process.is_alive());
        assert_eq!(None, Process::parse("42 (a) S"));
    }

    #[test]
    fn descendants_stop_at_foreign_processes() {
        let process = |pid, parent| Process { pid, parent, group: 1, state: 'S', started: 0 };
        let all = [(2, 1), (3, 2), (4, 3), (5, 2), (6, 5), (7, 1), (8, 9), (9, 8)]
            .map(|(pid, parent)| process(pid, parent));
        let mut found: Vec<_> =
            descendants(&all, 2, |process| process.pid == 5).into_iter().map(|process| process.pid).collect();
        found.sort_unstable();
        assert_eq!([3, 4], *found);
        assert_eq!(2, descendants(&all, 8, |_| false).len(), "a cycle ends");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_child_is_listed_until_it_is_reaped() {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let pid = i32::try_from(child.id()).unwrap();
        assert!(children().contains(&pid));
        assert!(listed_children().is_none_or(|children| children.contains(&pid)));
        child.wait().unwrap();
        assert!(!children().contains(&pid));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn this_process_is_listed() {
        let pid = i32::try_from(std::process::id()).unwrap();
        assert!(all().iter().any(|process| process.pid == pid && process.is_alive()));
        assert!(!environment_has(pid, "REDLOCK_HOLDERS", "none"));
    }
}
