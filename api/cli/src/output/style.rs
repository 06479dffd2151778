//! How text for people looks: whether it has colours, and whether tables are wide. Said once, on the command line.

use program::colour::ColorMode;
use std::{
    io::{self, IsTerminal as _},
    sync::OnceLock,
};

#[derive(Clone, Copy, Debug, Default)]
struct Style {
    colour: ColorMode,
    wide: bool,
}

static STYLE: OnceLock<Style> = OnceLock::new();

/// Settles how text looks; the first to say so is heeded.
pub(crate) fn settle(colour: ColorMode, wide: bool) {
    let _ = STYLE.set(Style { colour, wide });
}

/// Whether tables have more columns, and moments in full.
pub(crate) fn wide() -> bool {
    STYLE.get().is_some_and(|style| style.wide)
}

/// Where text goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stream {
    /// Standard output.
    Out,
    /// Standard error.
    Err,
}

impl Stream {
    /// Whether a person looks at it.
    pub(crate) fn is_terminal(self) -> bool {
        match self {
            Self::Out => io::stdout().is_terminal(),
            Self::Err => io::stderr().is_terminal(),
        }
    }

    /// Whether what goes there is coloured.
    pub(crate) fn is_coloured(self) -> bool {
        let colour = STYLE.get().map(|style| style.colour).unwrap_or_default();
        colour.colours(self.is_terminal())
    }
}

/// What text stands out by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Paint {
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
    pub(crate) fn on(self, stream: Stream, text: &str) -> String {
        if !stream.is_coloured() || text.is_empty() {
            return text.to_owned();
        }
        format!("\u{1b}[{}m{text}\u{1b}[0m", self.code())
    }
}
