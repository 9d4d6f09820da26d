//! Runs with a controlling terminal: a real one, made by the kernel.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus};
use std::thread;

use rustix::fs::{Mode, OFlags, open};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

use crate::common::{Cluster, eventually, is_alive, output, sleep, state, wait};

/// A terminal with a program that leads its session.
struct Terminal {
    keyboard: Option<File>,
    child: Child,
}

impl Terminal {
    fn start(cluster: &Cluster, words: &[&str]) -> Self {
        let keyboard = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&keyboard).unwrap();
        unlockpt(&keyboard).unwrap();
        let path = ptsname(&keyboard, Vec::new()).unwrap();
        let screen = open(&*path, OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC, Mode::empty()).unwrap();
        let mut command = Command::new("setsid");
        cluster.prepare(&mut command);
        let copy = |fd: &OwnedFd| fd.try_clone().unwrap();
        command.arg("-c").args(words).stdin(copy(&screen)).stdout(copy(&screen)).stderr(screen);
        let child = command.env("PS1", "$ ").env("HISTFILE", "/dev/null").spawn().unwrap();
        let keyboard = File::from(keyboard);
        // A screen that nobody reads would fill up.
        let mut output = keyboard.try_clone().unwrap();
        thread::spawn(move || {
            let mut bytes = [0; 4096];
            while output.read(&mut bytes).is_ok_and(|count| count > 0) {}
        });
        Self { keyboard: Some(keyboard), child }
    }

    fn shell(cluster: &Cluster) -> Self {
        Self::start(cluster, &["bash", "--norc", "--noprofile", "-i"])
    }

    fn type_in(&mut self, text: &str) {
        self.keyboard.as_mut().unwrap().write_all(text.as_bytes()).unwrap();
    }

    fn end(mut self) -> ExitStatus {
        wait(&mut self.child)
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

const CTRL_C: &str = "\x03";
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
fn a_closed_terminal_ends_command_and_lock() {
    let cluster = Cluster::new();
    let mut terminal = Terminal::start(
        &cluster,
        &[redlock(), "run", "job", "bash", "-c", "echo $$ > running; exec sleep 1000"],
    );
    let pid = cluster.number("running");
    assert_eq!(3, cluster.keys());
    // The reader of the screen has a copy, so the session is told as the kernel does it when the last copy is closed.
    terminal.keyboard = None;
    crate::common::send(i32::try_from(terminal.child.id()).unwrap(), rustix::process::Signal::HUP);
    crate::common::send(pid, rustix::process::Signal::HUP);
    assert_eq!(Some(1), terminal.end().signal());
    eventually("no keys", || (cluster.keys() == 0).then_some(()));
}
