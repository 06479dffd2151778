//! Reads a stream of server-sent events.

use backends::outbound::LineStream;
use std::{collections::VecDeque, time::Duration};

/// The longest event that is read, in bytes: 16 MiB.
const LONGEST: usize = backends::outbound::PAGE;

/// The longest silence before the stream is closed. The server sends a comment at least every 15 s.
const SILENCE: Duration = Duration::from_secs(45);

/// An event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Event {
    /// The name of the event.
    pub(crate) name: String,
    /// The data of the event.
    pub(crate) data: String,
}

/// An open stream.
pub(crate) struct Stream {
    lines: LineStream,
    read: Read,
}

impl Stream {
    pub(crate) fn of(answer: reqwest::Response) -> Self {
        Self { lines: LineStream::new(answer, LONGEST), read: Read::default() }
    }

    /// Returns the id of the last event. Another stream can continue after it.
    pub(crate) fn last(&self) -> Option<&str> {
        self.read.id.as_deref()
    }

    /// Returns the next event, or `None` after the end of the stream.
    pub(crate) async fn next(&mut self) -> Option<Event> {
        loop {
            if let Some(told) = self.read.told.pop_front() {
                return Some(told);
            }
            let line = self.lines.next(SILENCE).await?;
            if self.read.next.data.len() + line.len() > LONGEST {
                return None;
            }
            self.read.line(&line);
        }
    }
}

/// The parser's state.
#[derive(Debug, Default)]
struct Read {
    told: VecDeque<Event>,
    next: Event,
    id: Option<String>,
}

impl Read {
    fn line(&mut self, line: &str) {
        if line.is_empty() {
            let told = std::mem::take(&mut self.next);
            if !told.data.is_empty() {
                self.told.push_back(told);
            }
            return;
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "event" => value.clone_into(&mut self.next.name),
            "id" => self.id = Some(value.to_owned()),
            "data" => {
                if !self.next.data.is_empty() {
                    self.next.data.push('\n');
                }
                self.next.data.push_str(value);
            }
            // Comments, and fields that only browsers use.
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use backends::outbound::Lines;

    /// The network may split the stream at any byte.
    #[test]
    fn events_are_parsed_from_chunks_of_any_size() {
        let text = "retry: 2000\n\n: there\nid: 7.1\n\nevent: changed\ndata: {\"a\":\ndata: 1}\nid: 8.2\r\n\r\nevent: end\ndata: {}\n\n";
        for size in 1..text.len() {
            let (mut read, mut lines) = (Read::default(), Lines::new(LONGEST));
            for chunk in text.as_bytes().chunks(size) {
                lines.take(chunk).unwrap().iter().for_each(|line| read.line(line));
            }
            let told = |name: &str, data: &str| Event { name: name.into(), data: data.into() };
            assert_eq!(read.told, [told("changed", "{\"a\":\n1}"), told("end", "{}")], "{size}");
            assert_eq!(read.id.as_deref(), Some("8.2"));
        }
    }
}
