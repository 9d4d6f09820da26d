//! Lines on stderr that can neither block nor fail.
//!
//! A supervisor that waits for a full pipe would miss its times. Thus a thread writes, and lines that it cannot take are
//! counted and dropped.

use std::cell::RefCell;
use std::io::{self, Write};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, channel, sync_channel};
use std::thread;
use std::time::Duration;

/// How many lines may wait.
const QUEUE: usize = 256;

/// How long the end of the program waits for the last lines.
const LAST_LINES: Duration = Duration::from_millis(500);

/// How much is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Level {
    Quiet,
    Normal,
    Verbose,
}

/// Writes lines to stderr.
pub(crate) struct Say {
    level: Level,
    writer: RefCell<Option<Writer>>,
}

struct Writer {
    lines: SyncSender<String>,
    done: Receiver<()>,
    dropped: usize,
}

impl Say {
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
        // Started with the first line, which most runs never have.
        let mut writer = self.writer.borrow_mut();
        let writer = writer.get_or_insert_with(Writer::start);
        let mut line = String::from("redlock: ");
        line.extend(text.chars().map(|c| if c.is_control() { ' ' } else { c }));
        line.push('\n');
        if let Err(TrySendError::Full(_)) = writer.lines.try_send(line) {
            writer.dropped += 1;
        }
    }

    /// Waits a moment for the last lines.
    pub(crate) fn flush(&self) {
        if let Some(Writer { lines, done, dropped }) = self.writer.take() {
            if dropped > 0 {
                let _ = lines.try_send(format!("redlock: {dropped} lines dropped\n"));
            }
            drop(lines);
            let _ = done.recv_timeout(LAST_LINES);
        }
    }
}

impl Writer {
    fn start() -> Self {
        let (lines, queue) = sync_channel::<String>(QUEUE);
        let (finished, done) = channel();
        let write = move || {
            for line in queue {
                // Nobody is left to be told of a failure.
                let _ = io::stderr().write_all(line.as_bytes());
            }
            let _ = finished.send(());
        };
        // Without a thread the lines are lost.
        let _ = thread::Builder::new().name("stderr".into()).spawn(write);
        Self { lines, done, dropped: 0 }
    }
}
