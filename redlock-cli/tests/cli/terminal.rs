//! Runs with a controlling terminal: a real one, made by the kernel.

use std::ffi::{CStr, CString};
use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags, open};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Action, tcflow};

use crate::common::{Cluster, eventually, is_alive, output, sleep, state, wait};

/// A terminal with a program that leads its session.
struct Terminal {
    /// The controlling side of the terminal, which a person would use.
    keyboard: Option<File>,
    screen: Option<Screen>,
    path: CString,
    child: Child,
}

/// The text on a terminal, which a task reads all the time. Otherwise the terminal would fill up.
struct Screen {
    text: Arc<Mutex<Vec<u8>>>,
    closed: Arc<AtomicBool>,
    reader: JoinHandle<()>,
}

impl Screen {
    fn of(keyboard: &File) -> Self {
        let (text, closed) = (Arc::<Mutex<Vec<u8>>>::default(), Arc::<AtomicBool>::default());
        let mut output = keyboard.try_clone().unwrap();
        let (shown, is_closed) = (Arc::clone(&text), Arc::clone(&closed));
        let reader = thread::spawn(move || {
            let mut bytes = [0; 4096];
            let limit = Timespec { tv_sec: 0, tv_nsec: 10_000_000 };
            while !is_closed.load(Ordering::Relaxed) {
                let mut ready = [PollFd::new(&output, PollFlags::IN)];
                if poll(&mut ready, Some(&limit)).is_ok_and(|count| count == 0) {
                    continue;
                }
                let Some(count) = output.read(&mut bytes).ok().filter(|count| *count > 0) else { break };
                shown.lock().unwrap().extend_from_slice(&bytes[..count]);
            }
        });
        Self { text, closed, reader }
    }
}

impl Terminal {
    fn start(cluster: &Cluster, words: &[&str]) -> Self {
        let keyboard = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&keyboard).unwrap();
        unlockpt(&keyboard).unwrap();
        let path = ptsname(&keyboard, Vec::new()).unwrap();
        let end = device(&path);
        let mut command = Command::new("setsid");
        cluster.prepare(&mut command);
        let copy = |fd: &OwnedFd| fd.try_clone().unwrap();
        command.arg("-c").args(words).stdin(copy(&end)).stdout(copy(&end)).stderr(end);
        let child = command.env("PS1", "$ ").env("HISTFILE", "/dev/null").spawn().unwrap();
        let keyboard = File::from(keyboard);
        let screen = Some(Screen::of(&keyboard));
        Self { keyboard: Some(keyboard), screen, path, child }
    }

    fn shell(cluster: &Cluster) -> Self {
        Self::start(cluster, &["bash", "--norc", "--noprofile", "-i"])
    }

    fn type_in(&mut self, text: &str) {
        self.keyboard.as_mut().unwrap().write_all(text.as_bytes()).unwrap();
    }

    /// Stops the output, as Ctrl-S does.
    fn hold(&self) {
        tcflow(device(&self.path), Action::OOff).unwrap();
    }

    /// Continues the output, as Ctrl-Q does.
    fn resume(&self) {
        tcflow(device(&self.path), Action::OOn).unwrap();
    }

    /// Returns everything that programs have written to the terminal until now.
    fn all_shown(&self) -> String {
        File::from(device(&self.path)).write_all(b"the last line").unwrap();
        eventually("the last line", || Some(self.shown()).filter(|text| text.contains("the last line")))
    }

    /// Returns what was shown.
    fn shown(&self) -> String {
        crate::common::text(&self.screen.as_ref().unwrap().text.lock().unwrap())
    }

    /// Closes the terminal, as a closed connection does.
    fn close(&mut self) {
        self.keyboard = None;
        if let Some(Screen { closed, reader, .. }) = self.screen.take() {
            closed.store(true, Ordering::Relaxed);
            reader.join().unwrap();
        }
    }

    fn end(mut self) -> ExitStatus {
        wait(&mut self.child)
    }
}

/// Opens the side of a terminal that programs use.
fn device(path: &CStr) -> OwnedFd {
    open(path, OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC, Mode::empty()).unwrap()
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

const CTRL_C: &str = "\x03";
const CTRL_BACKSLASH: &str = "\x1c";
const CTRL_Z: &str = "\x1a";

fn redlock() -> &'static str {
    env!("CARGO_BIN_EXE_redlock")
}

#[test]
fn ctrl_c_reaches_the_command_once() {
    let cluster = Cluster::new();
    let script = "trap 'echo int >> got' INT; echo > running; until [ -e go ]; do sleep 0.01; done; exit 7";
    let mut terminal = Terminal::start(&cluster, &[redlock(), "run", "job", "bash", "-c", script]);
    cluster.lines("running");
    terminal.type_in(CTRL_C);
    cluster.lines("got");
    fs::write(cluster.path("go"), "").unwrap();
    assert_eq!(Some(7), terminal.end().code());
    assert_eq!(["int"], *cluster.lines("got"));
}

#[test]
fn ctrl_backslash_ends_the_command_and_the_run() {
    let cluster = Cluster::new();
    let script = "ulimit -c 0; echo > running; exec sleep 1000";
    let mut terminal = Terminal::start(&cluster, &[redlock(), "run", "job", "bash", "-c", script]);
    cluster.lines("running");
    terminal.type_in(CTRL_BACKSLASH);
    assert_eq!(Some(3), terminal.end().signal());
    eventually("no keys", || (cluster.keys() == 0).then_some(()));
}

#[test]
fn ctrl_c_ends_a_script_too() {
    let cluster = Cluster::new();
    let script = "$REDLOCK run job bash -c 'echo > running; exec sleep 1000'; echo > after";
    let mut terminal = Terminal::start(&cluster, &["bash", "-c", script]);
    cluster.lines("running");
    terminal.type_in(CTRL_C);
    assert_eq!(Some(2), terminal.end().signal());
    assert!(!cluster.path("after").exists());
    eventually("no keys", || (cluster.keys() == 0).then_some(()));
}

#[test]
fn ctrl_z_for_longer_than_the_ttl_and_fg() {
    let cluster = Cluster::new();
    let mut terminal = Terminal::shell(&cluster);
    terminal.type_in("$REDLOCK run --ttl 1 job bash -c 'echo $PPID > supervisor; echo $$ > running; until [ -e go ]; do sleep 0.01; done; exit 6'\n");
    let pids = [cluster.number("running"), cluster.number("supervisor")];
    terminal.type_in(CTRL_Z);
    for pid in pids {
        eventually("a stop", || (state(pid) == Some('T')).then_some(()));
    }
    sleep(3.0);
    assert_eq!(Some(75), output(&mut cluster.redlock(["run", "-n", "job", "true"])).status.code());
    terminal.type_in("fg; echo $? > code\n");
    fs::write(cluster.path("go"), "").unwrap();
    assert_eq!(["6"], *cluster.lines("code"));
    terminal.type_in("exit\n");
}

#[test]
fn ctrl_z_and_a_loss_leave_nothing_to_continue() {
    let cluster = Cluster::new();
    let mut terminal = Terminal::shell(&cluster);
    terminal.type_in("$REDLOCK run --ttl 2 job bash -c 'echo $$ > running; while :; do sleep 0.01; done'\n");
    let pid = cluster.number("running");
    terminal.type_in(CTRL_Z);
    eventually("a stop", || (state(pid) == Some('T')).then_some(()));
    cluster.pause_all();
    eventually("the end", || (!is_alive(pid)).then_some(()));
    terminal.type_in("fg; echo $? > code\n");
    assert_eq!(["79"], *cluster.lines("code"));
    cluster.resume_all();
    terminal.type_in("exit\n");
}

#[test]
fn the_command_can_read_the_terminal() {
    let cluster = Cluster::new();
    let mut terminal = Terminal::shell(&cluster);
    terminal.type_in("$REDLOCK run job bash -c 'echo > running; read x < /dev/tty; echo $x > got' | cat\n");
    cluster.lines("running");
    terminal.type_in("hello\n");
    assert_eq!(["hello"], *cluster.lines("got"));
    terminal.type_in("exit\n");
}

#[test]
fn a_background_job_that_reads_waits_for_fg() {
    let cluster = Cluster::new();
    let mut terminal = Terminal::shell(&cluster);
    terminal.type_in(
        "$REDLOCK run --ttl 1 job bash -c 'echo $$ > running; read x < /dev/tty; echo $x > got' &\n",
    );
    let pid = cluster.number("running");
    eventually("a stop", || (state(pid) == Some('T')).then_some(()));
    sleep(1.5);
    terminal.type_in("fg\n");
    eventually("a continuation", || (state(pid) != Some('T')).then_some(()));
    terminal.type_in("hello\n");
    assert_eq!(["hello"], *cluster.lines("got"));
    terminal.type_in("exit\n");
}

#[test]
fn a_blocked_terminal_blocks_no_run() {
    for is_blocked in [false, true] {
        let cluster = Cluster::new();
        // The shell keeps the terminal open after the run.
        let mut terminal = Terminal::shell(&cluster);
        let script = "echo > running; until [ -e go ]; do sleep 0.01; done; exit 5";
        terminal.type_in(&format!("$REDLOCK run -v job bash -c '{script}'; echo $? > code\n"));
        cluster.lines("running");
        if is_blocked {
            terminal.hold();
        }
        fs::write(cluster.path("go"), "").unwrap();
        assert_eq!(["5"], *cluster.lines("code"));
        terminal.resume();
        // The run ends without this line if the terminal does not accept it.
        let shown = terminal.all_shown();
        assert_eq!(!is_blocked, shown.contains("released"), "{shown}");
    }
}

/// The leader of the session is the supervisor, a script, or an interactive shell.
#[test]
fn a_closed_terminal_ends_command_and_lock() {
    const SCRIPT: &str = "$REDLOCK run job bash -c 'echo > running; exec sleep 1000'; echo > after";

    for leader in [
        &[redlock(), "run", "job", "bash", "-c", "echo > running; exec sleep 1000"][..],
        &["bash", "-c", SCRIPT],
        &[],
    ] {
        let cluster = Cluster::new();
        let mut terminal =
            if leader.is_empty() { Terminal::shell(&cluster) } else { Terminal::start(&cluster, leader) };
        if leader.is_empty() {
            terminal.type_in(&format!("{SCRIPT}\n"));
        }
        cluster.lines("running");
        eventually("all keys", || (cluster.keys() == 3).then_some(()));
        terminal.close();
        assert_eq!(Some(1), terminal.end().signal(), "{leader:?}");
        eventually("no keys", || (cluster.keys() == 0).then_some(()));
        assert!(!cluster.path("after").exists(), "{leader:?}");
    }
}

#[test]
fn a_command_that_survives_its_terminal_keeps_its_lock() {
    let cluster = Cluster::new();
    let script = "trap 'echo > closed' HUP; echo > running; until [ -e go ]; do sleep 0.01; done; exit 7";
    let mut terminal = Terminal::start(&cluster, &[redlock(), "run", "job", "bash", "-c", script]);
    cluster.lines("running");
    terminal.close();
    cluster.lines("closed");
    assert_eq!(Some(75), output(&mut cluster.redlock(["run", "-n", "job", "true"])).status.code());
    fs::write(cluster.path("go"), "").unwrap();
    assert_eq!(Some(7), terminal.end().code());
}
