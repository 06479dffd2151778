//! Log lines on standard error: text for people, or JSON for collectors.

mod mask;
mod plain;
mod settings;

pub use settings::{Log, LogFormat};

use std::{
    backtrace::{Backtrace, BacktraceStatus},
    io::{self, Write},
    panic::{self, PanicHookInfo},
    thread,
};
use tracing::Subscriber;
use tracing_subscriber::{EnvFilter, fmt::MakeWriter, util::SubscriberInitExt as _};

/// Begins to write log lines. `TENURE_LOG` or `RUST_LOG`, where set, say which ones; `coloured` is whether those for people stand out
/// by colour, as all that the program says to them does or does not.
///
/// # Errors
/// When the filter cannot be read.
pub fn begin(log: &Log, coloured: bool) -> Result<(), String> {
    let told = ["TENURE_LOG", "RUST_LOG"].into_iter().find_map(|name| std::env::var(name).ok());
    let filter = told.unwrap_or_else(|| log.filter.clone());
    let filter = EnvFilter::try_new(&filter).map_err(|e| format!("log.filter {filter:?}: {e}"))?;
    let format = log.format;
    subscriber(format, filter, coloured, move || MaskingWriter(io::stderr(), format))
        .try_init()
        .map_err(|e| e.to_string())?;
    panic::set_hook(Box::new(tell));
    Ok(())
}

/// A panic is a line of the log like any other, so that a collector can read it, and masked like any other. What goes on after it does so
/// where it was caught: a damaged index is made anew, an action has failed.
fn tell(panic: &PanicHookInfo<'_>) {
    let at = panic.location().map(ToString::to_string);
    let backtrace = Backtrace::capture();
    let backtrace = (backtrace.status() == BacktraceStatus::Captured).then(|| backtrace.to_string());
    tracing::error!(
        thread = thread::current().name(),
        at,
        backtrace,
        "panic: {}",
        panic.payload_as_str().unwrap_or("of something that is no text")
    );
}

/// What writes lines in one of the formats.
fn subscriber<W>(
    format: LogFormat,
    filter: EnvFilter,
    colours: bool,
    to: W,
) -> Box<dyn Subscriber + Send + Sync>
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    let lines = tracing_subscriber::fmt().with_env_filter(filter).with_writer(to).log_internal_errors(false);
    match format {
        LogFormat::Text => Box::new(lines.with_ansi(colours).finish()),
        LogFormat::Json => Box::new(lines.json().with_current_span(true).with_span_list(true).finish()),
    }
}

/// Where lines go, a whole one at a time: without what has the shape of a secret, one line whatever stands in its fields, and where it does
/// not matter whether anyone reads.
/// The reader of standard error may be gone, or its disk full, and the server goes on. A line that fails is lost.
struct MaskingWriter<W>(W, LogFormat);

impl<W: Write> Write for MaskingWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let _ = self.0.write_all(&plain::line(&mask::masked(bytes), self.1));
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
    use serde_json::Value;
    use std::sync::{Arc, Mutex};

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
        let mut lines = MaskingWriter(Broken, LogFormat::Text);
        lines.write_all(b"a line\n").unwrap();
        lines.flush().unwrap();
    }

    /// What was written.
    #[derive(Clone, Default)]
    struct Page(Arc<Mutex<Vec<u8>>>);

    impl Write for Page {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    const SECRET: &str = "c0ffee5ec2e7c0ffee5ec2e7c0ffee5ec2e7c0ffee5ec2e7c0ffee5ec2e7c0ff";

    /// What is written in a format of lines that hold one secret each, in every place where a line has room for one.
    fn written(format: LogFormat) -> String {
        let page = Page::default();
        let to = page.clone();
        let lines =
            subscriber(format, EnvFilter::new("info"), true, move || MaskingWriter(to.clone(), format));
        tracing::subscriber::with_default(lines, || {
            let key = format!("-----BEGIN PRIVATE KEY-----\n{SECRET}\n-----END PRIVATE KEY-----\n");
            let kinds = [
                format!("tn_0011223344556677_{SECRET}"),
                format!("whsec_{SECRET}"),
                format!("Bearer {SECRET}"),
                format!("postgres://tenure:{SECRET}@db/tenure"),
                key.clone(),
                key.replace("-----END", ""),
                format!("eyJhbGciOiJSUzI1NiJ9.eyJzdWIi{SECRET}.{SECRET}"),
            ];
            for kind in &kinds {
                let _in = tracing::info_span!("of a span", kind).entered();
                tracing::warn!("in the text: {kind}");
                tracing::warn!(kind, "in a field");
                tracing::warn!(said = ?Some(kind), shown = %kind, last = "stays", "as people see it, and as programmers do");
            }
        });
        let bytes = page.0.lock().unwrap().clone();
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn a_panic_is_a_line_of_json_like_any_other_and_masked() {
        let page = Page::default();
        let to = page.clone();
        let lines = subscriber(LogFormat::Json, EnvFilter::new("info"), false, move || {
            MaskingWriter(to.clone(), LogFormat::Json)
        });
        let usual = panic::take_hook();
        panic::set_hook(Box::new(tell));
        let ended = tracing::subscriber::with_default(lines, || {
            panic::catch_unwind(|| panic!("in pieces\nby tn_0011223344556677_{SECRET}"))
        });
        panic::set_hook(usual);
        assert!(ended.is_err());
        let text = String::from_utf8(page.0.lock().unwrap().clone()).unwrap();
        let line: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(line["fields"]["message"], "panic: in pieces\nby tn_0011223344556677_***");
        assert!(line["fields"]["at"].as_str().unwrap().contains("logs/mod.rs:"), "{line}");
        assert_eq!(line["level"], "ERROR");
    }

    #[test]
    fn no_line_of_text_says_a_secret_of_any_kind() {
        let text = written(LogFormat::Text);
        assert!(!text.contains(SECRET), "{text}");
        for told in
            ["tn_0011223344556677_***", "postgres://tenure:***@db/tenure", "in the text: whsec_***", "stays"]
        {
            assert!(text.contains(told), "{told}: {text}");
        }
    }

    #[test]
    fn no_line_of_json_says_a_secret_and_each_is_still_json() {
        let text = written(LogFormat::Json);
        assert!(!text.contains(SECRET), "{text}");
        let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(lines.len(), 7 * 3, "a line each");
        for line in lines.iter().filter(|line| !line["fields"]["last"].is_null()) {
            assert_eq!(line["fields"]["last"], "stays", "{line}");
            assert_eq!(line["level"], "WARN");
            assert!(line["span"]["kind"].as_str().unwrap().contains(mask::MASK), "{line}");
        }
    }
}
