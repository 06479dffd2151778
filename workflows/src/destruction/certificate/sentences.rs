//! The sentences of a certificate, and the source of each.
//!
//! A sentence is one field with its value. Issuing and verifying list them here. Invariant: a field without a [`SentenceKind`] is a problem, and so
//! is an observed field whose record names no observation. `docs/certificate.md` has a row for each kind.

#[cfg(test)]
mod first_version;
mod kind;
pub(super) mod source_counts;

pub use kind::SentenceKind;
pub use source_counts::RecordSources;

use super::{Certificate, CertificateEntry, Problem, RecordedRepair};
use crate::{
    destruction::{
        asset::AssetType,
        sanitisation::{
            observation::{Aspect, ObservationRef},
            parts::Technique,
            record::{SanitisationOutcome, SanitisationRecord},
        },
    },
    signing::canonical::value,
};
use serde_json::Value;
use std::{collections::BTreeMap, fmt};

/// The source of a sentence.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Source {
    /// A constant of the program, independent of this destruction.
    Program,
    /// The request that started the execution.
    Request,
    /// A vote in an approval.
    Vote {
        /// The state that requested the approval.
        gate: String,
        /// The voter.
        by: String,
    },
    /// A repair: the statement of an operator.
    Person {
        /// The repaired state.
        state: String,
        /// The author of the statement.
        by: String,
    },
    /// A decision of the server on its own documents. The value is the action's name in the journal.
    Decision(&'static str),
    /// The result of an action that observed or changed a system.
    Observation(ObservationRef),
    /// No source is recorded, because an earlier version made the record.
    NotRecorded,
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Program => f.write_str("the program"),
            Self::Request => f.write_str("the request"),
            Self::Vote { gate, by } => write!(f, "the vote of {by} in {gate}"),
            Self::Person { state, by } => write!(f, "the statement of {by} in {state}"),
            Self::Decision(action) => write!(f, "the decision {action}"),
            Self::Observation(answer) => write!(f, "the answer of {answer}"),
            Self::NotRecorded => f.write_str("not recorded"),
        }
    }
}

/// One sentence of a certificate. Only [`statements`] creates it, with the sources of its kind and its record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statement {
    field: String,
    text: String,
    kind: SentenceKind,
    from: Vec<Source>,
}

impl Statement {
    /// Returns the field, such as `assets[3].record.result.is`.
    #[must_use]
    pub fn field(&self) -> &str {
        &self.field
    }

    /// Returns the value as text.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the kind of sentence.
    #[must_use]
    pub fn kind(&self) -> SentenceKind {
        self.kind
    }

    /// Returns the sentence without these execution ids, for a comparison with another run.
    #[must_use]
    pub fn without(self, executions: &[String]) -> Self {
        let text = executions.iter().fold(self.text, |text, id| text.replace(id.as_str(), "an execution"));
        Self { text, ..self }
    }

    /// Returns its sources. All of them are necessary for the sentence.
    #[must_use]
    pub fn sources(&self) -> &[Source] {
        &self.from
    }
}

/// Returns every sentence of a certificate with its sources.
///
/// # Errors
/// Returns the fields without a source.
pub fn statements(
    certificate: &Certificate,
    entries: &[CertificateEntry],
) -> Result<Vec<Statement>, Vec<Problem>> {
    let (mut said, mut problems) = (Vec::new(), Vec::new());
    let mut say = |field: &str, leaf: &Value, found: Found| match found {
        Ok((kind, from)) => said.push(Statement { field: field.into(), text: text(leaf), kind, from }),
        Err(why) => problems.push(Problem::new(field, why)),
    };
    walk_cover(certificate, &mut say);
    walk_entries(certificate, 0, entries, &mut say);
    if problems.is_empty() { Ok(said) } else { Err(problems) }
}

/// Returns the fields of the cover without a source.
pub(super) fn cover_without_source(certificate: &Certificate) -> Vec<Problem> {
    let mut problems = Vec::new();
    walk_cover(certificate, &mut |field, _, found| {
        problems.extend(found.err().map(|why| Problem::new(field, why)));
    });
    problems
}

/// Returns the fields of entries without a source. The first entry has the number `first` in the whole list.
pub(super) fn entries_without_source(
    certificate: &Certificate,
    first: usize,
    entries: &[CertificateEntry],
) -> Vec<Problem> {
    let mut problems = Vec::new();
    walk_entries(certificate, first, entries, &mut |field, _, found| {
        problems.extend(found.err().map(|why| Problem::new(field, why)));
    });
    problems
}

/// The kind of a field and its sources, or the reason why it has none.
type Found = Result<(SentenceKind, Vec<Source>), &'static str>;

/// The kinds of the fields that were seen, by path.
type KnownKinds = BTreeMap<String, Option<SentenceKind>>;

/// Calls `say` with each field of the cover and its value.
fn walk_cover(certificate: &Certificate, say: &mut impl FnMut(&str, &Value, Found)) {
    let mut known = KnownKinds::new();
    each_leaf(&value(certificate), &mut Vec::new(), "", &mut |path, field, leaf| {
        say(field, leaf, found(&mut known, path, field, certificate, None));
    });
}

/// Calls `say` with each field of these entries and its value. The first entry has the number `first` in the whole list.
fn walk_entries(
    certificate: &Certificate,
    first: usize,
    entries: &[CertificateEntry],
    say: &mut impl FnMut(&str, &Value, Found),
) {
    let mut known = KnownKinds::new();
    for (place, entry) in (first..).zip(entries) {
        let at = format!("assets[{place}]");
        each_leaf(&value(entry), &mut vec!["assets"], &at, &mut |path, field, leaf| {
            say(field, leaf, found(&mut known, path, field, certificate, Some(entry)));
        });
    }
}

fn found(
    known: &mut KnownKinds,
    path: &[&str],
    field: &str,
    certificate: &Certificate,
    entry: Option<&CertificateEntry>,
) -> Found {
    let kind = *known.entry(path.join("\n")).or_insert_with(|| SentenceKind::of(path));
    let kind = kind.ok_or("comes from no source that this program knows")?;
    Ok((kind, sources(kind, field, certificate, entry)?))
}

fn text(leaf: &Value) -> String {
    leaf.as_str().map_or_else(|| leaf.to_string(), str::to_owned)
}

/// Calls `say` with the field names on the path to each leaf, the field for display, and the leaf.
fn each_leaf<'a>(
    content: &'a Value,
    path: &mut Vec<&'a str>,
    field: &str,
    say: &mut impl FnMut(&[&'a str], &str, &Value),
) {
    match content {
        Value::Null => {}
        Value::Object(fields) => {
            for (name, inner) in fields {
                path.push(name);
                let field = if field.is_empty() { name.clone() } else { format!("{field}.{name}") };
                each_leaf(inner, path, &field, say);
                path.pop();
            }
        }
        Value::Array(items) => {
            for (place, item) in items.iter().enumerate() {
                each_leaf(item, path, &format!("{field}[{place}]"), say);
            }
        }
        Value::Bool(_) | Value::Number(_) | Value::String(_) => say(path, field, content),
    }
}

/// Returns the index in `list` from a field such as `approvals[1].votes[0].name`.
fn place(field: &str, list: &str) -> usize {
    let after = field.split_once(&format!("{list}[")).map_or("", |(_, after)| after);
    after.split_once(']').and_then(|(number, _)| number.parse().ok()).unwrap_or_default()
}

fn sources(
    kind: SentenceKind,
    field: &str,
    certificate: &Certificate,
    entry: Option<&CertificateEntry>,
) -> Result<Vec<Source>, &'static str> {
    use SentenceKind::*;
    let decision = |action| Ok(vec![Source::Decision(action)]);
    match kind {
        Form | Issuer | NotChecked => Ok(vec![Source::Program]),
        Pivot => decision(kind::BEGIN_DESTROYING),
        Summary | IssuedAt | AuditHead | Caveats => decision(kind::ASSEMBLE),
        Tenant | Policies | Kept => decision(kind::CHECK_LEAVING),
        Request => Ok(vec![Source::Request]),
        Approval | Plan => Ok(votes(certificate, place(field, "approvals"))),
        Vote => {
            let votes = votes(certificate, place(field, "approvals"));
            Ok(votes.into_iter().skip(place(field, "votes")).take(1).collect())
        }
        Repairs => Ok(certificate.repairs.iter().skip(place(field, "repairs")).take(1).map(person).collect()),
        Inventory | AssetFound => decision(kind::TAKE_INVENTORY),
        Judgement | Supplements => decision(kind::ASSEMBLE),
        RecordOf | Doer | Moments | Device | Work | Memory | Firmware | Key | Verification | Validation
        | Result | Destination | Evidence | Stated | Observed => {
            let record = entry.and_then(|entry| entry.record.as_ref());
            let record = record.ok_or("has no record")?;
            of_record(kind, field, record, certificate.sources.is_some())
        }
    }
}

fn votes(certificate: &Certificate, approval: usize) -> Vec<Source> {
    let approval = certificate.approvals.get(approval);
    let vote = |approval: &super::RecordedApproval, by: &str| Source::Vote {
        gate: approval.gate.clone(),
        by: by.to_owned(),
    };
    approval.map_or_else(Vec::new, |approval| {
        approval.votes.iter().map(|cast| vote(approval, &cast.name)).collect()
    })
}

fn person(repair: &RecordedRepair) -> Source {
    Source::Person { state: repair.state.clone(), by: repair.by.clone() }
}

/// Returns the sources of a record's field. A record without observations is accepted only if its certificate does not state the sources.
fn of_record(
    kind: SentenceKind,
    field: &str,
    record: &SanitisationRecord,
    certificate_names_sources: bool,
) -> Result<Vec<Source>, &'static str> {
    use SentenceKind::*;
    let filed = if record.kind.is_medium() { kind::FILE_NODE } else { kind::FILE_RECORDS };
    let filed = Source::Decision(filed);
    let seen = |aspect: Aspect| record.observed.get(&aspect).cloned().map(Source::Observation);
    if let Some(repair) = &record.stated {
        if record.observed.keys().any(|aspect| *aspect != Aspect::Looked) {
            return Err("rests on a person's statement, but its record names observations of the work");
        }
        let looked = seen(Aspect::Looked).filter(|_| matches!(kind, Result | Observed));
        return Ok([person(repair), filed].into_iter().chain(looked).collect());
    }
    let old = record.observed.is_empty() && !certificate_names_sources;
    let needed: Vec<Aspect> = match kind {
        RecordOf | Doer | Moments | Stated | Destination => return Ok(vec![filed]),
        Observed => record.observed.keys().copied().collect(),
        Device if record.kind == AssetType::Gpu || field.contains(".reported.") => {
            vec![Aspect::Device, Aspect::Done]
        }
        Device => vec![Aspect::Device],
        Work if record.technique == Technique::Nothing => Vec::new(),
        Work if record.kind == AssetType::Node => vec![Aspect::Done, Aspect::Installed],
        Memory => vec![Aspect::Device, Aspect::Done],
        Evidence if field.ends_with(".diagnosis") => vec![Aspect::Diagnosed],
        Evidence if field.ends_with(".samples") => vec![Aspect::Looked],
        Work | Firmware | Key | Evidence => vec![Aspect::Done],
        Verification | Validation => vec![Aspect::Looked],
        Result => match &record.result {
            SanitisationOutcome::SanitisedVerified => vec![Aspect::Done, Aspect::Looked],
            SanitisationOutcome::SanitisedUnverified => vec![Aspect::Done],
            SanitisationOutcome::NotApplicable { .. } if record.observed.contains_key(&Aspect::Kept) => {
                vec![Aspect::Kept]
            }
            SanitisationOutcome::NotApplicable { rule, .. } if rule == "backup_beyond_use" => {
                vec![Aspect::Done, Aspect::Key]
            }
            SanitisationOutcome::NotApplicable { .. }
            | SanitisationOutcome::Failed { .. }
            | SanitisationOutcome::Skipped { .. }
            | SanitisationOutcome::PhysicallyDestroyed { .. }
            | SanitisationOutcome::Unknown => record.observed.keys().copied().collect(),
        },
        Form | Issuer | NotChecked | Kept | Pivot | Summary | IssuedAt | AuditHead | Caveats | Tenant
        | Policies | Request | Approval | Plan | Vote | Repairs | Supplements | Inventory | AssetFound
        | Judgement => Vec::new(),
    };
    let mut from = vec![filed];
    for aspect in needed {
        match seen(aspect) {
            Some(answer) => from.push(answer),
            None if old => from.push(Source::NotRecorded),
            None => return Err("is presented as observed, but its record names no observation of it"),
        }
    }
    Ok(from)
}
