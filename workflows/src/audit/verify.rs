//! Verifies an export with only the public key. Accepts any bytes, never panics, and names the damaged record.

use crate::{
    audit::{
        chain::{ChainHead, chain_of},
        checkpoint::{CHECKPOINT_TYPE, Checkpoint, fits},
        entry::Entry,
        export_line::{Content, END_TYPE, End, FORMAT, Header, OLDEST, Read, VERSION, read},
    },
    signing::{Digest, PublicKey, dsse::Signature},
};
use serde::Serialize;
use sha2::{Digest as _, Sha256};

/// The maximum number of reported problems. Later ones are mostly consequences of the first.
const MOST_PROBLEMS: usize = 20;

/// A problem of an export.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// The line of the file, from 1.
    pub line: u64,
    /// The record at or missing from that line, such as `entry 12`.
    pub record: String,
    /// The description of the problem.
    pub problem: String,
}

/// Result of a verification.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Verification {
    /// All problems. An export without problems is valid.
    pub problems: Vec<Problem>,
    /// The header, if it can be parsed.
    pub header: Option<Header>,
    /// The number of parsed entries.
    pub entries: u64,
    /// The number of the last parsed entry.
    pub last: u64,
    /// The number and digest of each checkpoint, for a comparison with copies that are kept elsewhere.
    pub checkpoints: Vec<(u64, Digest)>,
    /// The id of the key that signed the end.
    pub signed_by: Option<String>,
}

impl Verification {
    /// Returns true if every byte is as exported, and all entries are as sealed.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        self.problems.is_empty()
    }
}

/// Verifies an exported file with the trusted keys.
#[must_use]
pub fn verify(file: &[u8], keys: &[PublicKey]) -> Verification {
    let mut walk = FileCheck { keys, line: 0, ..FileCheck::default() };
    if file.split(|byte| *byte == b'\n').next().is_some_and(|first| first.ends_with(b"\r")) {
        let why = "its line endings were changed from LF to CRLF, for example by a transfer in text mode: fetch it again in binary mode";
        walk.report_at(1, "the whole file".into(), why.into());
        return walk.found;
    }
    let whole = file.ends_with(b"\n");
    let body = file.strip_suffix(b"\n").unwrap_or(file);
    for line in body.split(|byte| *byte == b'\n') {
        walk.check_line(line);
    }
    if !whole {
        walk.problem("the file ends within this line: its tail was cut off");
    } else if walk.ended.is_none() {
        walk.line = walk.line.saturating_add(1);
        let why =
            format!("the file ends here without its last line, after {}: its tail was cut off", walk.after());
        walk.report_at(walk.line, "the end".into(), why);
    }
    walk.found
}

/// The state of the check of a file.
#[derive(Default)]
struct FileCheck<'a> {
    keys: &'a [PublicKey],
    /// The current line number.
    line: u64,
    found: Verification,
    /// The line, number and digest of the last entry. `None` if unknown.
    last: Option<(u64, u64, Digest)>,
    /// True after a line that could not be parsed. Later lines cannot be compared with earlier ones.
    torn: bool,
    /// True if a checkpoint covers the last entry.
    covered: bool,
    checkpoint: Option<(u64, Digest)>,
    ended: Option<u64>,
    bytes: Sha256,
}

impl FileCheck<'_> {
    fn report_at(&mut self, line: u64, record: String, problem: String) {
        if self.found.problems.len() < MOST_PROBLEMS {
            self.found.problems.push(Problem { line, record, problem });
        }
    }

    /// Returns the name of the record that is expected on the current line.
    fn expected(&self) -> String {
        match (&self.found.header, self.ended) {
            (None, _) if self.line == 1 => "the header".into(),
            (_, Some(_)) => "the line after the end".into(),
            (Some(_) | None, None) => format!("the line after {}", self.after()),
        }
    }

    fn after(&self) -> String {
        match &self.last {
            Some((_, number, _)) => format!("entry {number}"),
            None if self.found.entries > 0 => format!("entry {}", self.found.last),
            None => "the header".into(),
        }
    }

    fn problem(&mut self, problem: &str) {
        self.report_at(self.line, self.expected(), problem.to_owned());
    }

    fn check_line(&mut self, line: &[u8]) {
        self.line = self.line.saturating_add(1);
        if self.ended.is_some() {
            return self.problem("the end must be the last line");
        }
        let before = self.bytes.clone();
        self.bytes.update(line);
        self.bytes.update(b"\n");
        let Read { content, by, line: number } = match read(line) {
            Ok(read) => read,
            Err(why) => {
                let record = named_in(line).unwrap_or_else(|| self.expected());
                self.report_at(self.line, record, why);
                (self.torn, self.last) = (true, None);
                return;
            }
        };
        if number != self.line {
            let what = name_of(&content);
            let why = match number.checked_sub(self.line) {
                Some(_) => format!("it is line {number}: lines before it are missing"),
                None => format!("it is line {number}, but at another place, or repeated"),
            };
            self.report_at(self.line, what, why);
            (self.torn, self.last) = (true, None);
            // Numbering continues from here, so that one missing line is one problem.
            self.line = number;
        }
        match (content, by) {
            (Content::Header(header), None) => self.header(header),
            (Content::Entry(entry), None) => self.entry(*entry),
            (Content::Checkpoint(checkpoint), Some(by)) => self.checkpoint(&checkpoint, &by),
            (Content::End(end), Some(by)) => self.end(&end, &by, before),
            (Content::Header(_) | Content::Entry(_), Some(_)) => {
                self.problem("it is signed, but must not be")
            }
            (Content::Checkpoint(_) | Content::End(_), None) => self.problem("it is not signed, but must be"),
        }
        if self.found.header.is_none() && !self.torn {
            self.problem("an export begins with its header");
            self.torn = true;
        }
    }

    fn header(&mut self, header: Header) {
        if self.found.header.is_some() {
            return self.problem("the file has a second header");
        }
        if header.format != FORMAT || !(OLDEST..=VERSION).contains(&header.version) {
            let (format, version) = (&header.format, header.version);
            self.problem(&format!(
                "{format} {version} is not {FORMAT} {OLDEST} to {VERSION}: verify it with the version of Tenure that wrote it"
            ));
        }
        self.found.header = Some(header);
    }

    fn entry(&mut self, entry: Entry) {
        let name = format!("entry {}", entry.number);
        let wanted = match (&self.last, &self.found.header) {
            (Some((_, number, digest)), _) => Some((number.saturating_add(1), Some(digest.clone()))),
            (None, Some(header)) if !self.torn => Some((header.first, header.previous.clone())),
            (None, _) => None,
        };
        if let Some((number, previous)) = wanted {
            if entry.number != number {
                self.report_at(self.line, name.clone(), format!("it is at the place of entry {number}"));
            } else if entry.previous != previous {
                let (line, record) = match &self.last {
                    Some((line, number, _)) => (*line, format!("entry {number}")),
                    None => (self.line, name.clone()),
                };
                self.report_at(
                    line,
                    record,
                    format!("{name} was sealed after another entry: one of the two was changed"),
                );
            }
        }
        if self.found.header.as_ref().is_some_and(|header| header.tenant != entry.tenant) {
            self.report_at(self.line, name, "it belongs to another tenant than the header".into());
        }
        self.covered = false;
        self.found.entries = self.found.entries.saturating_add(1);
        self.found.last = entry.number;
        self.last = Some((self.line, entry.number, entry.digest()));
    }

    fn checkpoint(&mut self, checkpoint: &Checkpoint, by: &Signature) {
        let name = format!("checkpoint {}", checkpoint.number);
        if !self.keys.iter().any(|key| fits(CHECKPOINT_TYPE, checkpoint, by, key)) {
            self.report_at(self.line, name.clone(), untrusted(by, self.keys));
        }
        match &self.checkpoint {
            Some((number, _)) if checkpoint.number <= *number => {
                self.report_at(
                    self.line,
                    name.clone(),
                    format!("it is after checkpoint {number}, although its number is not higher"),
                );
            }
            Some((number, digest))
                if checkpoint.number == number.saturating_add(1)
                    && checkpoint.previous.as_ref() != Some(digest) =>
            {
                let why = format!("it does not follow checkpoint {number} of this file");
                self.report_at(self.line, name.clone(), why);
            }
            Some(_) | None => {}
        }
        if let Some((line, number, digest)) = self.last.clone() {
            let tenant = self.found.header.as_ref().map_or("", |header| &header.tenant);
            let head = ChainHead { chain: chain_of(tenant).into(), number, digest };
            if !checkpoint.heads.contains(&head.commitment()) {
                let why = format!(
                    "{name} names another entry as the last: this one, or one before it, was changed"
                );
                self.report_at(line, format!("entry {number}"), why);
            }
        }
        self.covered = true;
        self.checkpoint = Some((checkpoint.number, checkpoint.digest()));
        self.found.checkpoints.extend(self.checkpoint.clone());
    }

    fn end(&mut self, end: &End, by: &Signature, before: Sha256) {
        self.ended = Some(self.line);
        let signed = self.keys.iter().find(|key| fits(END_TYPE, end, by, key));
        self.found.signed_by = signed.map(PublicKey::id);
        if signed.is_none() {
            self.report_at(self.line, "the end".into(), untrusted(by, self.keys));
        }
        if !self.found.problems.is_empty() {
            return;
        }
        let digest = format!("sha256:{}", store::hex::encode(&before.finalize()));
        let lines = self.line.saturating_sub(1);
        let checkpoints = u64::try_from(self.found.checkpoints.len()).unwrap_or(u64::MAX);
        let says = (end.lines, end.entries, end.checkpoints);
        if says != (lines, self.found.entries, checkpoints) || end.digest.0 != digest {
            let why =
                "the end was signed over other lines: lines were changed, removed or added, and renumbered";
            self.report_at(self.line, "the end".into(), why.into());
        } else if self.found.entries > 0 && !self.covered {
            let why = "no checkpoint after it covers it, so it is not proven to be the sealed entry";
            self.report_at(self.line, self.after(), why.into());
        }
    }
}

fn untrusted(by: &Signature, keys: &[PublicKey]) -> String {
    if keys.iter().any(|key| key.id() == by.keyid) {
        return "its signature does not match: the record or the signature was changed".into();
    }
    format!("it is signed with key {}, which is not trusted", by.keyid)
}

fn name_of(content: &Content) -> String {
    match content {
        Content::Header(_) => "the header".into(),
        Content::Entry(entry) => format!("entry {}", entry.number),
        Content::Checkpoint(checkpoint) => format!("checkpoint {}", checkpoint.number),
        Content::End(_) => "the end".into(),
    }
}

/// Returns the name of a damaged line's record, if it can be parsed.
fn named_in(line: &[u8]) -> Option<String> {
    let found: serde_json::Value = serde_json::from_slice(line).ok()?;
    let number =
        |kind: &str| found.get(kind)?.get("number")?.as_u64().map(|number| format!("{kind} {number}"));
    let plain = |kind: &str, name: &str| found.get(kind).map(|_| name.to_owned());
    number("entry")
        .or_else(|| number("checkpoint"))
        .or_else(|| plain("header", "the header"))
        .or_else(|| plain("end", "the end"))
}
