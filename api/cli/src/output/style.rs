//! The style of text output: colours and wide tables. Set once from the command line.

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

/// Sets the style. Only the first call has an effect.
pub(crate) fn settle(colour: ColorMode, wide: bool) {
    let _ = STYLE.set(Style { colour, wide });
}

/// Returns true if tables show more columns and full timestamps.
pub(crate) fn wide() -> bool {
    STYLE.get().is_some_and(|style| style.wide)
}

/// A stream of output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stream {
    /// Standard output.
    Out,
    /// Standard error.
    Err,
}

impl Stream {
    /// Returns true if the stream is a terminal.
    pub(crate) fn is_terminal(self) -> bool {
        match self {
            Self::Out => io::stdout().is_terminal(),
            Self::Err => io::stderr().is_terminal(),
        }
    }

    /// Returns true if text on the stream is coloured.
    pub(crate) fn is_coloured(self) -> bool {
        let colour = STYLE.get().map(|style| style.colour).unwrap_or_default();
        colour.colours(self.is_terminal())
    }
}

/// A colour or weight for text.
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

    /// Returns `text` in this style, or unchanged if the stream is not coloured.
    pub(crate) fn on(self, stream: Stream, text: &str) -> String {
        if !stream.is_coloured() || text.is_empty() {
            return text.to_owned();
        }
        format!("\u{1b}[{}m{text}\u{1b}[0m", self.code())
    }
}
