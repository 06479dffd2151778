//! The payloads of the current schema: a head in bincode, followed by the unchanged body.
//!
//! The structs of a schema that was ever released are never edited; a change of content is a new struct and a new
//! number in the envelope. Identities are in the key and not repeated here.

use super::{
    envelope::{self, Kind},
    key,
};
use crate::{
    Attributes, Document, Entry, Error, ExecutionId, Key, Record, Revision, Sequence, Task, TaskId, Timestamp,
};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

/// The longest head, in bytes. A damaged length never allocates more.
const HEAD_LIMIT: usize = 128 << 10;
type Config = bincode::config::Configuration<
    bincode::config::LittleEndian,
    bincode::config::Varint,
    bincode::config::Limit<HEAD_LIMIT>,
>;
const CONFIG: Config = bincode::config::standard().with_limit::<HEAD_LIMIT>();

/// The columns of a record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct HeadV1 {
    pub(crate) revision: u64,
    workflow: String,
    schema: u32,
    pub(crate) tenant: String,
    subject: String,
    pub(crate) guard: Option<String>,
    state: String,
    phase: String,
    reason: Option<String>,
    pub(crate) open: bool,
    requested_by: String,
    created_at: u64,
    updated_at: u64,
    body_bytes: u32,
}

/// The same columns, borrowed for writing; the order of fields is the format.
#[derive(Serialize)]
struct HeadRefV1<'a> {
    revision: u64,
    workflow: &'a str,
    schema: u32,
    tenant: &'a str,
    subject: &'a str,
    guard: Option<&'a str>,
    state: &'a str,
    phase: &'a str,
    reason: Option<&'a str>,
    open: bool,
    requested_by: &'a str,
    created_at: u64,
    updated_at: u64,
    body_bytes: u32,
}

/// The schema of a record with attributes: the columns as before, followed by the attributes. A record without
/// attributes is written in the first schema.
const WITH_ATTRIBUTES: u16 = 2;

/// The columns of a record and its attributes.
#[derive(Serialize, Deserialize)]
struct HeadV2<H, A> {
    columns: H,
    attributes: A,
}

#[derive(Serialize, Deserialize)]
struct EntryV1<T> {
    at: u64,
    actor: T,
    event: T,
    from: T,
    to: T,
    body_bytes: u32,
}

#[derive(Serialize, Deserialize)]
struct TaskV1 {
    due: u64,
    /// The commit that last scheduled it; deliveries count from there.
    since: u64,
    body_bytes: u32,
}

#[derive(Serialize, Deserialize)]
struct DocumentV1 {
    version: u64,
    body_bytes: u32,
}

#[derive(Serialize, Deserialize)]
struct HolderV1 {
    execution: [u8; 16],
}

fn seal(out: &mut Vec<u8>, key: &[u8], kind: Kind, head: &impl Serialize, body: &[u8]) -> Result<(), Error> {
    seal_as(out, key, kind, envelope::SCHEMA, head, body)
}

fn seal_as(
    out: &mut Vec<u8>,
    key: &[u8],
    kind: Kind,
    schema: u16,
    head: &impl Serialize,
    body: &[u8],
) -> Result<(), Error> {
    envelope::seal_as(out, key, kind, schema, |out| {
        bincode::serde::encode_into_std_write(head, out, CONFIG)
            .map_err(|error| Error::Invalid { what: format!("a {kind:?} cannot be encoded: {error}") })?;
        out.extend_from_slice(body);
        Ok(())
    })
}

/// The head of a payload and the body that follows it, which must be exactly as long as the head says.
fn decode_value<'a, T: DeserializeOwned>(
    key: &[u8],
    kind: Kind,
    value: &'a [u8],
    body_bytes: impl FnOnce(&T) -> u32,
) -> Result<(T, &'a [u8]), String> {
    split(envelope::open(key, kind, value)?, body_bytes)
}

fn split<T: DeserializeOwned>(
    payload: &[u8],
    body_bytes: impl FnOnce(&T) -> u32,
) -> Result<(T, &[u8]), String> {
    let (head, consumed) = bincode::serde::decode_from_slice::<T, Config>(payload, CONFIG)
        .map_err(|error| format!("its head cannot be decoded: {error}"))?;
    let body = payload.get(consumed..).unwrap_or_default();
    let wanted = body_bytes(&head);
    if super::bytes::length(body.len()) != wanted {
        return Err(format!("its body has {} bytes instead of {wanted}", body.len()));
    }
    Ok((head, body))
}

pub(crate) fn put_record(
    out: &mut Vec<u8>,
    key: &[u8],
    record: &Record,
    revision: Revision,
) -> Result<(), Error> {
    let head = HeadRefV1 {
        revision: revision.0,
        workflow: &record.workflow,
        schema: record.schema,
        tenant: &record.tenant,
        subject: &record.subject,
        guard: record.guard.as_deref(),
        state: &record.state,
        phase: &record.phase,
        reason: record.reason.as_deref(),
        open: record.open,
        requested_by: &record.requested_by,
        created_at: record.created_at.0,
        updated_at: record.updated_at.0,
        body_bytes: super::bytes::length(record.body.len()),
    };
    if record.attributes.is_empty() {
        return seal(out, key, Kind::Record, &head, &record.body);
    }
    let head = HeadV2 { columns: head, attributes: &record.attributes };
    seal_as(out, key, Kind::Record, WITH_ATTRIBUTES, &head, &record.body)
}

/// The head of a stored record, and its body.
fn unseal_record<'a>(key: &[u8], value: &'a [u8]) -> Result<(HeadV1, Attributes, &'a [u8]), String> {
    let (schema, payload) = envelope::open_upto(key, Kind::Record, WITH_ATTRIBUTES, value)?;
    if schema == WITH_ATTRIBUTES {
        let (head, body) = split(payload, |head: &HeadV2<HeadV1, Attributes>| head.columns.body_bytes)?;
        return Ok((head.columns, head.attributes, body));
    }
    let (head, body) = split(payload, |head: &HeadV1| head.body_bytes)?;
    Ok((head, Attributes::new(), body))
}

/// The columns of a stored record, without a copy of its body.
pub(crate) fn record_head(key: &[u8], value: &[u8]) -> Result<HeadV1, String> {
    unseal_record(key, value).map(|(head, ..)| head)
}

/// Returns the tenant of a stored record, without a copy of the rest.
pub(crate) fn record_tenant(key: &[u8], value: &[u8]) -> Result<String, String> {
    let (_, payload) = envelope::open_upto(key, Kind::Record, WITH_ATTRIBUTES, value)?;
    // Both schemas begin with these columns.
    type Beginning<'a> = (u64, &'a str, u32, &'a str);
    bincode::serde::borrow_decode_from_slice::<Beginning<'_>, Config>(payload, CONFIG)
        .map(|((_, _, _, tenant), _)| tenant.to_owned())
        .map_err(|error| format!("its head cannot be decoded: {error}"))
}

/// Returns a stored record without its body, and the position of the body.
pub(crate) fn record_and_body<'a>(key: &[u8], value: &'a [u8]) -> Result<(Record, &'a [u8]), String> {
    let (head, attributes, body) = unseal_record(key, value)?;
    let record = Record {
        id: key::trailing_id(key).ok_or("its key is too short")?,
        revision: Revision(head.revision),
        workflow: head.workflow,
        schema: head.schema,
        tenant: head.tenant,
        subject: head.subject,
        guard: head.guard,
        state: head.state,
        phase: head.phase,
        reason: head.reason,
        open: head.open,
        requested_by: head.requested_by,
        created_at: Timestamp(head.created_at),
        updated_at: Timestamp(head.updated_at),
        attributes,
        body: Vec::new(),
    };
    Ok((record, body))
}

pub(crate) fn record(key: &[u8], value: &[u8]) -> Result<Record, String> {
    let (record, body) = record_and_body(key, value)?;
    Ok(Record { body: body.to_vec(), ..record })
}

pub(crate) fn put_entry(out: &mut Vec<u8>, key: &[u8], entry: &Entry) -> Result<(), Error> {
    let head = EntryV1 {
        at: entry.at.0,
        actor: &entry.actor,
        event: &entry.event,
        from: &entry.from,
        to: &entry.to,
        body_bytes: super::bytes::length(entry.detail.len()),
    };
    seal(out, key, Kind::Entry, &head, &entry.detail)
}

pub(crate) fn entry(key: &[u8], value: &[u8]) -> Result<(Entry, u32), String> {
    let Some(key::Name::Entry(execution, sequence, place)) = key::parse(key) else {
        return Err("its key does not belong to a history entry".into());
    };
    let (head, body) = decode_value(key, Kind::Entry, value, |head: &EntryV1<String>| head.body_bytes)?;
    let EntryV1 { at, actor, event, from, to, .. } = head;
    Ok((
        Entry { sequence, execution, at: Timestamp(at), actor, event, from, to, detail: body.to_vec() },
        place,
    ))
}

pub(crate) fn put_task(out: &mut Vec<u8>, key: &[u8], task: &Task, since: Sequence) -> Result<(), Error> {
    let head = TaskV1 { due: task.due.0, since: since.0, body_bytes: super::bytes::length(task.body.len()) };
    seal(out, key, Kind::Task, &head, &task.body)
}

/// A stored task and the commit that last scheduled it.
pub(crate) fn task(id: TaskId, key: &[u8], value: &[u8]) -> Result<(Task, Sequence), String> {
    let (head, body) = decode_value(key, Kind::Task, value, |head: &TaskV1| head.body_bytes)?;
    Ok((Task { id, due: Timestamp(head.due), body: body.to_vec() }, Sequence(head.since)))
}

pub(crate) fn put_document(
    out: &mut Vec<u8>,
    key: &[u8],
    version: Sequence,
    body: &[u8],
) -> Result<(), Error> {
    let head = DocumentV1 { version: version.0, body_bytes: super::bytes::length(body.len()) };
    seal(out, key, Kind::Document, &head, body)
}

pub(crate) fn document(key: &[u8], value: &[u8]) -> Result<Document, String> {
    let Some(key::Name::Document(name)) = key::parse(key) else {
        return Err("its key does not belong to a document".into());
    };
    let (head, body) = decode_value(key, Kind::Document, value, |head: &DocumentV1| head.body_bytes)?;
    Ok(Document { key: name, version: Sequence(head.version), body: body.to_vec() })
}

/// The version of a stored document, without a copy of its body.
pub(crate) fn document_version(key: &[u8], value: &[u8]) -> Result<Sequence, String> {
    decode_value(key, Kind::Document, value, |head: &DocumentV1| head.body_bytes)
        .map(|(head, _)| Sequence(head.version))
}

pub(crate) fn put_guard(out: &mut Vec<u8>, key: &[u8], holder: ExecutionId) -> Result<(), Error> {
    seal(out, key, Kind::Guard, &HolderV1 { execution: *holder.as_bytes() }, &[])
}

pub(crate) fn guard(key: &[u8], value: &[u8]) -> Result<ExecutionId, String> {
    let (head, _) = decode_value(key, Kind::Guard, value, |_: &HolderV1| 0)?;
    Ok(ExecutionId::from_bytes(head.execution))
}

/// A row whose key contains all its information.
pub(crate) fn put_mark(out: &mut Vec<u8>, key: &[u8], kind: Kind) -> Result<(), Error> {
    envelope::seal(out, key, kind, |_| Ok(()))
}

/// Describes the object that `key` names, for people.
pub(crate) fn describe(key: &[u8]) -> String {
    use crate::embedded::format::key::Name;
    match key::parse(key) {
        Some(Name::Record(id)) => format!("the record of execution {id}"),
        Some(Name::Entry(id, sequence, place)) => {
            format!("entry {place} of commit {} of execution {id}", sequence.0)
        }
        Some(Name::Task(id)) => format!("task {id}"),
        Some(Name::Document(Key { collection, id })) => format!("document {collection}/{id}"),
        Some(Name::Guard(guard)) => format!("guard {guard}"),
        Some(Name::Open(id)) => format!("the mark that execution {id} is open"),
        Some(Name::Tenant(tenant, id)) => format!("the mark that execution {id} is of tenant {tenant}"),
        Some(Name::Order(sequence, place, id)) => {
            format!("the mark that entry {place} of commit {} is of execution {id}", sequence.0)
        }
        None => "a row with an unknown key".into(),
    }
}

/// Returns the error for the value of `key`, which cannot be read because of `why`.
pub(crate) fn corrupt(key: &[u8], why: String) -> Error {
    Error::Corrupt { what: describe(key), why }
}

/// Turns a value that cannot be read into the error that names it.
pub(crate) fn decoded<T>(key: &[u8], result: Result<T, String>) -> Result<T, Error> {
    result.map_err(|why| corrupt(key, why))
}

/// Checks that `value` is complete and of the kind that its `key` requires.
pub(crate) fn check(key: &[u8], value: &[u8]) -> Result<(), String> {
    use crate::embedded::format::key::Name;
    match key::parse(key).ok_or("its key is unknown")? {
        Name::Record(_) => record_head(key, value).map(|_| ()),
        Name::Entry(..) => {
            decode_value(key, Kind::Entry, value, |head: &EntryV1<String>| head.body_bytes).map(|_| ())
        }
        Name::Task(_) => decode_value(key, Kind::Task, value, |head: &TaskV1| head.body_bytes).map(|_| ()),
        Name::Document(_) => document_version(key, value).map(|_| ()),
        Name::Guard(_) => guard(key, value).map(|_| ()),
        Name::Open(_) => envelope::open(key, Kind::Open, value).map(|_| ()),
        Name::Tenant(..) => envelope::open(key, Kind::Tenant, value).map(|_| ()),
        Name::Order(..) => envelope::open(key, Kind::Order, value).map(|_| ()),
    }
}
