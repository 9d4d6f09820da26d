//! `-vv`: the log of the library, sent to the supervisor.

use std::io;

use tracing::Level;
use tracing_subscriber::fmt::MakeWriter;

use super::line::LineWriter;
use crate::run::wire::FromKeeper;

/// Sends the log from now on.
pub(super) fn start(writer: LineWriter) {
    let log = tracing_subscriber::fmt().with_max_level(Level::DEBUG).with_ansi(false).with_target(false);
    // There is no other subscriber in this process.
    let _ = tracing::subscriber::set_global_default(
        log.without_time().with_writer(ToSupervisor(writer)).finish(),
    );
}

struct ToSupervisor(LineWriter);

impl<'a> MakeWriter<'a> for ToSupervisor {
    type Writer = Entry<'a>;

    fn make_writer(&'a self) -> Entry<'a> {
        Entry { writer: &self.0, text: Vec::new() }
    }
}

/// One entry, sent when it is dropped.
struct Entry<'a> {
    writer: &'a LineWriter,
    text: Vec<u8>,
}

impl io::Write for Entry<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.text.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Entry<'_> {
    fn drop(&mut self) {
        let text = String::from_utf8_lossy(&self.text);
        self.writer.send(&FromKeeper::Log(text.trim_end().to_owned()));
    }
}
