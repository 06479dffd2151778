//! A position in the global order, used as event id. It is valid on every server of one database, and after a restart.

use std::{fmt, str::FromStr};
use store::{Sequence, Timestamp};

/// The position up to which all changes were sent, inclusive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Position {
    /// The commit.
    pub(crate) sequence: Sequence,
    /// The index of the entry in the commit; the maximum means the whole commit.
    pub(crate) place: u32,
    /// The time, by the clock of the server that committed or sent it. Executions that ended later and were removed are missed after this position.
    pub(crate) at: Timestamp,
}

impl Position {
    /// Returns the position after a whole commit.
    pub(crate) fn whole(sequence: Sequence, at: Timestamp) -> Self {
        Self { sequence, place: u32::MAX, at }
    }

    /// Returns the next position to read.
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

/// A text that is not an event id.
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
    fn only_a_written_event_id_is_parsed() {
        let entry = Position { sequence: Sequence(71), place: 3, at: Timestamp(1_900_000_000_123) };
        for position in [entry, Position::whole(Sequence(u64::MAX), Timestamp(0))] {
            assert_eq!(position.to_string().parse(), Ok(position));
        }
        for text in ["", "7", "7.", "a.7", "1.2.3.4", "-1.7", "1.99999999999.7"] {
            assert_eq!(text.parse::<Position>(), Err(InvalidPosition), "{text:?}");
        }
    }
}
