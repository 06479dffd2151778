//! Log lines on standard error: text for people, or JSON for collectors.

use crate::config::{Log, LogFormat};
use std::io::{self, Write};
use tracing_subscriber::EnvFilter;

/// Begins to write log lines. `TENURE_LOG` or `RUST_LOG`, where set, say which ones; `coloured` is whether those for people stand out
/// by colour, as all that the program says to them does or does not.
///
/// # Errors
/// When the filter cannot be read.
pub(crate) fn begin(log: &Log, coloured: bool) -> Result<(), String> {
    let told = ["TENURE_LOG", "RUST_LOG"].into_iter().find_map(|name| std::env::var(name).ok());
    let filter = told.unwrap_or_else(|| log.filter.clone());
    let filter = EnvFilter::try_new(&filter).map_err(|e| format!("log.filter {filter:?}: {e}"))?;
    let lines = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(|| Unheard(io::stderr()))
        .log_internal_errors(false);
    let begun = match log.format {
        LogFormat::Text => lines.with_ansi(coloured).try_init(),
        LogFormat::Json => lines.json().with_current_span(true).with_span_list(true).try_init(),
    };
    begun.map_err(|e| e.to_string())
}

/// Standard error, where it does not matter whether anyone reads: its reader may be gone, or its disk full, and the server
/// goes on. A line that fails is lost.
struct Unheard<W>(W);

impl<W: Write> Write for Unheard<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let _ = self.0.write_all(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        let _ = self.0.flush();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What fails like a pipe that nobody reads.
    struct Broken;

    impl Write for Broken {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::BrokenPipe.into())
        }

        fn flush(&mut self) -> io::Result<()> {
            Err(io::ErrorKind::BrokenPipe.into())
        }
    }

    #[test]
    fn a_line_that_nobody_reads_is_no_failure() {
        let mut lines = Unheard(Broken);
        lines.write_all(b"a line\n").unwrap();
        lines.flush().unwrap();
    }
}
