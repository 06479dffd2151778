//! Log lines on standard error, as text or JSON.

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

/// Starts logging. `TENURE_LOG` or `RUST_LOG` override the filter. `coloured` is true if text lines have colours.
///
/// # Errors
/// The filter is not valid.
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

/// Logs a panic as one masked line, so that collectors can read it. The code that caught the panic continues: it rebuilds an index, or
/// fails an action.
fn tell(panic: &PanicHookInfo<'_>) {
    let at = panic.location().map(ToString::to_string);
    let backtrace = Backtrace::capture();
    let backtrace = (backtrace.status() == BacktraceStatus::Captured).then(|| backtrace.to_string());
    tracing::error!(
        thread = thread::current().name(),
        at,
        backtrace,
        "panic: {}",
        panic.payload_as_str().unwrap_or("without a message")
    );
}

/// Builds the subscriber that writes lines in one of the formats.
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

/// Writes complete lines: masks secrets, escapes unsafe characters, and ignores errors. The server continues if standard error is closed
/// or its disk is full; the line is lost.
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

    /// A writer that fails like a closed pipe.
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
    fn a_line_to_a_closed_pipe_is_not_a_failure() {
        let mut lines = MaskingWriter(Broken, LogFormat::Text);
        lines.write_all(b"a line\n").unwrap();
        lines.flush().unwrap();
    }

    /// The written bytes.
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

    /// Returns lines with one secret each: in the text, in fields and in spans.
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
    fn a_panic_is_a_masked_json_line() {
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
    fn no_text_line_has_a_secret() {
        let text = written(LogFormat::Text);
        assert!(!text.contains(SECRET), "{text}");
        for told in
            ["tn_0011223344556677_***", "postgres://tenure:***@db/tenure", "in the text: whsec_***", "stays"]
        {
            assert!(text.contains(told), "{told}: {text}");
        }
    }

    #[test]
    fn json_lines_have_no_secret_and_stay_valid() {
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
