//! How text for people looks: whether it has colours, and whether tables are wide. Said once, on the command line.

use crate::cli::common::When;
use std::{
    io::{self, IsTerminal as _},
    sync::OnceLock,
};

#[derive(Clone, Copy, Debug, Default)]
struct Style {
    colour: When,
    wide: bool,
}

static STYLE: OnceLock<Style> = OnceLock::new();

/// Settles how text looks; the first to say so is heeded.
pub(in crate::cli) fn settle(colour: When, wide: bool) {
    let _ = STYLE.set(Style { colour, wide });
}

/// Whether tables have more columns, and moments in full.
pub(in crate::cli) fn wide() -> bool {
    STYLE.get().is_some_and(|style| style.wide)
}

/// Where text goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::cli) enum Stream {
    /// Standard output.
    Out,
    /// Standard error.
    Err,
}

impl Stream {
    /// Whether a person looks at it.
    pub(in crate::cli) fn is_terminal(self) -> bool {
        match self {
            Self::Out => io::stdout().is_terminal(),
            Self::Err => io::stderr().is_terminal(),
        }
    }

    /// Whether what goes there is coloured.
    pub(in crate::cli) fn is_coloured(self) -> bool {
        let colour = STYLE.get().map(|style| style.colour).unwrap_or_default();
        coloured(colour, self.is_terminal(), |name| std::env::var(name).ok())
    }
}

fn coloured(when: When, terminal: bool, environment: impl Fn(&str) -> Option<String>) -> bool {
    let set = |name: &str| environment(name).is_some_and(|value| !value.is_empty());
    match when {
        When::Always => true,
        When::Never => false,
        When::Auto if set("NO_COLOR") => false,
        When::Auto
            if environment("CLICOLOR_FORCE").is_some_and(|value| !value.is_empty() && value != "0") =>
        {
            true
        }
        When::Auto => terminal && environment("TERM").is_none_or(|term| term != "dumb"),
    }
}

/// What text stands out by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::cli) enum Paint {
    Bold,
    Dim,
    Red,
    Green,
    Yellow,
}

impl Paint {
    fn code(self) -> u8 {
        match self {
            Self::Bold => 1,
            Self::Dim => 2,
            Self::Red => 31,
            Self::Green => 32,
            Self::Yellow => 33,
        }
    }

    /// `text`, standing out where the stream is coloured.
    pub(in crate::cli) fn on(self, stream: Stream, text: &str) -> String {
        if !stream.is_coloured() || text.is_empty() {
            return text.to_owned();
        }
        format!("\u{1b}[{}m{text}\u{1b}[0m", self.code())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_are_for_terminals_and_for_those_who_want_them() {
        let none = |_: &str| None;
        let with = |name: &'static str, value: &'static str| {
            move |asked: &str| (asked == name).then(|| value.to_owned())
        };
        assert!(coloured(When::Auto, true, none) && !coloured(When::Auto, false, none));
        assert!(!coloured(When::Auto, true, with("NO_COLOR", "1")));
        assert!(coloured(When::Auto, true, with("NO_COLOR", "")), "an empty one says nothing");
        assert!(!coloured(When::Auto, true, with("TERM", "dumb")));
        assert!(coloured(When::Auto, false, with("CLICOLOR_FORCE", "1")));
        assert!(coloured(When::Always, false, with("NO_COLOR", "1")), "a flag goes over the environment");
        assert!(!coloured(When::Never, true, with("CLICOLOR_FORCE", "1")));
    }
}
