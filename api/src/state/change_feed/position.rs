//! A place in the history of all executions, as the id of an event: it means the same on every server of one database, and
//! after a restart.

use std::{fmt, str::FromStr};
use store::{Sequence, Timestamp};

/// Up to and with this, everything was told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Position {
    /// The commit.
    pub(crate) sequence: Sequence,
    /// The entry within it; the last that there can be stands for the whole commit.
    pub(crate) place: u32,
    /// When that was, by the clock of who committed or told it: what ended later and was forgotten is missed from here on.
    pub(crate) at: Timestamp,
}

impl Position {
    /// The whole of a commit.
    pub(crate) fn whole(sequence: Sequence, at: Timestamp) -> Self {
        Self { sequence, place: u32::MAX, at }
    }

    /// Where the history goes on.
    pub(crate) fn after(self) -> (Sequence, u32) {
        (self.sequence, self.place)
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.", self.sequence.0)?;
        if self.place != u32::MAX {
            write!(f, "{}.", self.place)?;
        }
        write!(f, "{}", self.at.0)
    }
}

/// A text that no event bears as its id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct InvalidPosition;

impl FromStr for Position {
    type Err = InvalidPosition;

    fn from_str(text: &str) -> Result<Self, InvalidPosition> {
        let number = |text: &str| text.parse::<u64>().map_err(|_| InvalidPosition);
        let parts: Vec<&str> = text.trim().split('.').collect();
        match parts.as_slice() {
            [sequence, at] => Ok(Self::whole(Sequence(number(sequence)?), Timestamp(number(at)?))),
            [sequence, place, at] => Ok(Self {
                sequence: Sequence(number(sequence)?),
                place: place.parse().map_err(|_| InvalidPosition)?,
                at: Timestamp(number(at)?),
            }),
            _ => Err(InvalidPosition),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_read_as_it_was_written_and_nothing_else_is() {
        let entry = Position { sequence: Sequence(71), place: 3, at: Timestamp(1_900_000_000_123) };
        for position in [entry, Position::whole(Sequence(u64::MAX), Timestamp(0))] {
            assert_eq!(position.to_string().parse(), Ok(position));
        }
        for text in ["", "7", "7.", "a.7", "1.2.3.4", "-1.7", "1.99999999999.7"] {
            assert_eq!(text.parse::<Position>(), Err(InvalidPosition), "{text:?}");
        }
    }
}
