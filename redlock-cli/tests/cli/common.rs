//! Servers, runs of the command, and checks of both from outside.

use std::ffi::OsStr;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use redlock_testkit::RedisServer;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

/// The time limit of everything that a test waits for, even on a very busy machine.
const WAIT_LIMIT: Duration = Duration::from_secs(60);

/// Servers, and a directory for files.
pub(crate) struct Cluster {
    pub(crate) servers: Vec<RedisServer>,
    folder: TempDir,
}

impl Cluster {
    pub(crate) fn new() -> Self {
        Self::of(RedisServer::start_many(3))
    }

    pub(crate) fn of(servers: Vec<RedisServer>) -> Self {
        Self { servers, folder: TempDir::new().unwrap() }
    }

    /// Returns a path in the directory.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn nodes(&self) -> String {
        self.servers.iter().map(RedisServer::url).collect::<Vec<_>>().join(",")
    }

    pub(crate) fn redlock<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_redlock"));
        self.prepare(&mut command);
        command.args(args);
        command
    }

    /// Another program that starts the command: `$REDLOCK` in a shell.
    pub(crate) fn shell(&self, script: &str) -> Command {
        let mut command = Command::new("bash");
        self.prepare(&mut command);
        command.args(["-c", script]);
        command
    }

    pub(crate) fn prepare(&self, command: &mut Command) {
        for (name, _) in
            std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("REDLOCK_"))
        {
            command.env_remove(name);
        }
        command.env("REDLOCK", env!("CARGO_BIN_EXE_redlock"));
        command.env("REDLOCK_NODES", self.nodes()).env("XDG_CONFIG_HOME", self.folder.path());
        command.current_dir(self.folder.path()).stdin(Stdio::null());
    }

    /// `redlock run` of a script in a separate process group, with a report in the file `NAME.json`.
    pub(crate) fn run(&self, name: &str, options: &[&str], script: &str) -> Run<'_> {
        let report = format!("{name}.json");
        let before = ["run", "--group", "own", "--report", &report];
        let mut command = self.redlock([&before, options, &["job", "bash", "-c", script]].concat());
        // A file is used, because leftover processes would keep a pipe open.
        let stderr = fs::File::create(self.path(&format!("{name}.err"))).unwrap();
        command.stdout(Stdio::null()).stderr(stderr);
        Run { cluster: self, name: name.to_owned(), child: command.spawn().unwrap() }
    }

    /// Waits until a run has written a text to stderr.
    pub(crate) fn says(&self, name: &str, text: &str) {
        let path = self.path(&format!("{name}.err"));
        eventually(text, || fs::read_to_string(&path).ok()?.contains(text).then_some(()));
    }

    /// Writes an executable file.
    ///
    /// Another process writes it. Linux executes no file that a process has open for writing, and each process that a
    /// test starts has the open files of all other tests for a moment.
    pub(crate) fn executable(&self, name: &str, content: &str) {
        let mut install = Command::new("install");
        install.args(["-m", "755", "/dev/stdin"]).arg(self.path(name)).stdin(Stdio::piped());
        let mut install = install.spawn().unwrap();
        install.stdin.take().unwrap().write_all(content.as_bytes()).unwrap();
        assert!(install.wait().unwrap().success());
    }

    /// Returns a copy of the program that every user may execute.
    pub(crate) fn for_all_users(&self) -> String {
        use std::os::unix::fs::PermissionsExt;

        let copy = self.path("redlock-copy");
        let mut install = Command::new("install");
        install.args(["-m", "755", env!("CARGO_BIN_EXE_redlock")]).arg(&copy);
        assert!(install.status().unwrap().success());
        fs::set_permissions(self.folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
        copy.to_str().unwrap().to_owned()
    }

    pub(crate) fn pause_all(&self) {
        self.servers.iter().for_each(RedisServer::pause);
    }

    pub(crate) fn resume_all(&self) {
        self.servers.iter().for_each(RedisServer::resume);
    }

    /// Returns how many servers have the key of the lock.
    pub(crate) fn keys(&self) -> usize {
        self.servers.iter().filter(|server| server.command(&["EXISTS", "job"]) == "1").count()
    }

    /// Waits until a file has a line, and returns its lines.
    pub(crate) fn lines(&self, name: &str) -> Vec<String> {
        let path = self.path(name);
        eventually(&format!("a line in {name}"), || {
            let text = fs::read_to_string(&path).ok()?;
            let complete = text.rsplit_once('\n')?.0;
            Some(complete.lines().map(str::to_owned).collect())
        })
    }

    /// Waits until a file has a number, such as a pid.
    pub(crate) fn number(&self, name: &str) -> i32 {
        self.lines(name)[0].trim().parse().unwrap()
    }

    /// Returns the last complete timestamp in a file: seconds on the boot clock.
    pub(crate) fn last_beat(&self, name: &str) -> f64 {
        self.lines(name).last().unwrap().parse().unwrap()
    }
}

/// A script that writes the time into a file again and again. `/proc/uptime` is the boot clock.
pub(crate) fn beats(file: &str) -> String {
    format!("while read t _ < /proc/uptime; do echo $t >> {file}; sleep 0.01; done")
}

/// A running `redlock run`. It is killed when the test ends.
pub(crate) struct Run<'a> {
    cluster: &'a Cluster,
    name: String,
    pub(crate) child: Child,
}

impl Run<'_> {
    pub(crate) fn pid(&self) -> i32 {
        i32::try_from(self.child.id()).unwrap()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        send(self.pid(), signal);
    }

    /// Returns the process that holds the lock.
    pub(crate) fn keeper(&self) -> i32 {
        eventually("a keeper", || {
            processes()
                .into_iter()
                .find(|(pid, parent)| *parent == self.pid() && name(*pid) == "redlock-keeper")
        })
        .0
    }

    /// Waits for the end, and returns the report and stderr.
    pub(crate) fn end(mut self) -> End {
        let status = wait(&mut self.child);
        let stderr = fs::read_to_string(self.cluster.path(&format!("{}.err", self.name))).unwrap();
        let report = fs::read_to_string(self.cluster.path(&format!("{}.json", self.name))).ok();
        let report = report.map_or(Value::Null, |text| serde_json::from_str(&text).unwrap());
        End { status, stderr, report }
    }
}

impl Drop for Run<'_> {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The end of a run.
#[derive(Debug)]
pub(crate) struct End {
    pub(crate) status: ExitStatus,
    pub(crate) stderr: String,
    pub(crate) report: Value,
}

impl End {
    pub(crate) fn code(&self) -> Option<i32> {
        self.status.code()
    }

    /// Returns a timestamp of the report.
    pub(crate) fn at(&self, field: &str) -> f64 {
        self.report[field].as_f64().unwrap_or_else(|| panic!("no {field} in {self:?}"))
    }
}

/// Runs a command to its end, within a time limit.
pub(crate) fn output(command: &mut Command) -> Output {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // Threads read the output, so that a full pipe blocks no process.
    let read = |mut pipe: Box<dyn std::io::Read + Send>| {
        thread::spawn(move || {
            let mut bytes = Vec::new();
            let _ = pipe.read_to_end(&mut bytes);
            bytes
        })
    };
    let stdout = read(Box::new(child.stdout.take().unwrap()));
    let stderr = read(Box::new(child.stderr.take().unwrap()));
    let status = wait(&mut child);
    Output { status, stdout: stdout.join().unwrap(), stderr: stderr.join().unwrap() }
}

pub(crate) fn wait(child: &mut Child) -> ExitStatus {
    eventually("the end of a process", || child.try_wait().unwrap())
}

/// Waits until a condition holds.
#[track_caller]
pub(crate) fn eventually<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(start.elapsed() < WAIT_LIMIT, "timed out: {what}");
        thread::sleep(Duration::from_millis(5));
    }
}

pub(crate) fn sleep(seconds: f64) {
    thread::sleep(Duration::from_secs_f64(seconds));
}

pub(crate) fn send(pid: i32, signal: Signal) {
    let _ = kill_process(Pid::from_raw(pid).unwrap(), signal);
}

/// Returns whether a process exists and has not ended.
pub(crate) fn is_alive(pid: i32) -> bool {
    state(pid).is_some_and(|state| !matches!(state, 'Z' | 'X'))
}

/// Returns the state of a process as `ps` shows it.
pub(crate) fn state(pid: i32) -> Option<char> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(") ")?.1.chars().next()
}

pub(crate) fn wait_until_dead(pid: i32) {
    eventually("the death of a process", || (!is_alive(pid)).then_some(()));
}

pub(crate) fn name(pid: i32) -> String {
    fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default().trim_end().to_owned()
}

/// Returns all processes with their parents.
pub(crate) fn processes() -> Vec<(i32, i32)> {
    let pids =
        fs::read_dir("/proc").unwrap().filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let parent = |pid: i32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let parent = stat.rsplit_once(") ")?.1.split(' ').nth(1)?.parse().ok()?;
        Some((pid, parent))
    };
    pids.filter_map(parent).collect()
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Writes a file that only its owner may read.
pub(crate) fn private(path: &Path, content: &str) {
    use std::os::unix::fs::PermissionsExt;

    fs::write(path, content).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
}
