//! Lines on stderr that can neither block nor fail.
//!
//! A supervisor that waits for a full pipe would miss its times. Thus a thread writes, and lines that it cannot take are
//! counted and dropped. If no thread can be started, the lines are written when the program ends.

use std::cell::RefCell;
use std::io::{self, Write};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, channel, sync_channel};
use std::thread;
use std::time::Duration;

/// The maximum number of lines that may wait.
const QUEUE: usize = 256;

/// The time limit for the last lines at the end of the program.
const LAST_LINES: Duration = Duration::from_millis(500);

/// The verbosity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Level {
    Quiet,
    Normal,
    Verbose,
}

/// Writes lines to stderr.
pub(crate) struct Messages {
    level: Level,
    writer: RefCell<Option<Writer>>,
}

struct Writer {
    thread: Option<Thread>,
    /// The lines for the end of the program, if there is no thread.
    late: Vec<String>,
    dropped: usize,
}

struct Thread {
    lines: SyncSender<String>,
    done: Receiver<()>,
}

impl Messages {
    pub(crate) fn new(quiet: bool, verbose: u8) -> Self {
        let level = if quiet {
            Level::Quiet
        } else if verbose > 0 {
            Level::Verbose
        } else {
            Level::Normal
        };
        Self { level, writer: RefCell::default() }
    }

    /// Writes a line, unless `-q`.
    pub(crate) fn warn(&self, text: &str) {
        self.line(Level::Normal, text);
    }

    /// Writes a line with `-v`.
    pub(crate) fn note(&self, text: &str) {
        self.line(Level::Verbose, text);
    }

    fn line(&self, level: Level, text: &str) {
        if level > self.level {
            return;
        }
        // The thread starts with the first line, which most runs never write.
        let mut writer = self.writer.borrow_mut();
        let writer = writer.get_or_insert_with(Writer::start);
        let mut line = String::from("redlock: ");
        line.extend(text.chars().map(|c| if c.is_control() { ' ' } else { c }));
        line.push('\n');
        writer.take(line);
    }

    /// Waits a moment for the last lines.
    pub(crate) fn flush(&self) {
        let Some(mut writer) = self.writer.take() else { return };
        if writer.dropped > 0 {
            let dropped = writer.dropped;
            writer.take(format!("redlock: {dropped} lines dropped\n"));
        }
        for line in &writer.late {
            write(line);
        }
        if let Some(Thread { lines, done }) = writer.thread {
            drop(lines);
            let _ = done.recv_timeout(LAST_LINES);
        }
    }
}

impl Writer {
    fn start() -> Self {
        Self { thread: Thread::start(), late: Vec::new(), dropped: 0 }
    }

    /// Takes a line, unless too many are waiting.
    fn take(&mut self, line: String) {
        match &self.thread {
            Some(thread) => {
                let is_full = matches!(thread.lines.try_send(line), Err(TrySendError::Full(_)));
                self.dropped += usize::from(is_full);
            }
            None if self.late.len() < QUEUE => self.late.push(line),
            None => self.dropped += 1,
        }
    }
}

impl Thread {
    /// Starts the thread, unless the system has none left.
    fn start() -> Option<Self> {
        let (lines, queue) = sync_channel::<String>(QUEUE);
        let (finished, done) = channel();
        let work = move || {
            for line in queue {
                write(&line);
            }
            let _ = finished.send(());
        };
        thread::Builder::new().name("stderr".into()).spawn(work).ok()?;
        Some(Self { lines, done })
    }
}

/// Writes a line to stderr. If that fails, there is no place to report it.
fn write(line: &str) {
    let _ = io::stderr().write_all(line.as_bytes());
}
