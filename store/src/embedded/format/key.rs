//! The ordered key space: one byte of kind, then fixed-width big-endian parts, so that bytes sort as the parts do.
//!
//! A text that is followed by more ends in a NUL, which no name contains.

use super::envelope::Kind;
use crate::{ExecutionId, Key, Sequence, TaskId};

/// Rows that only the index has: pieces of long values, and its statistics.
pub(crate) const CHUNK: u8 = 0xF0;
/// A row for each value of a field of each record, used by [`Store::search`](crate::Store::search).
pub(crate) const INDEX_KEY: u8 = 0xF1;
/// The key of the index's statistics; it sorts last. Earlier versions, without blocks, used `[0xFF]`. Neither version
/// finds the key of the other, so each rebuilds the index.
pub(crate) const META: &[u8] = &[0xFF, 2];

fn key(kind: Kind, room: usize) -> Vec<u8> {
    let mut key = Vec::with_capacity(1 + room);
    key.push(kind as u8);
    key
}

fn of_execution(kind: Kind, id: ExecutionId, room: usize) -> Vec<u8> {
    let mut key = key(kind, 16 + room);
    key.extend_from_slice(id.as_bytes());
    key
}

pub(crate) fn record(id: ExecutionId) -> Vec<u8> {
    of_execution(Kind::Record, id, 0)
}

/// Returns the bounds of the records.
pub(crate) fn all_records() -> (Vec<u8>, Vec<u8>) {
    (vec![Kind::Record as u8], vec![Kind::Record as u8 + 1])
}

pub(crate) fn open(id: ExecutionId) -> Vec<u8> {
    of_execution(Kind::Open, id, 0)
}

/// Returns the common prefix of all open marks.
pub(crate) fn open_start() -> Vec<u8> {
    vec![Kind::Open as u8]
}

pub(crate) fn entry(id: ExecutionId, sequence: Sequence, place: u32) -> Vec<u8> {
    let mut key = of_execution(Kind::Entry, id, 12);
    key.extend_from_slice(&sequence.0.to_be_bytes());
    key.extend_from_slice(&place.to_be_bytes());
    key
}

/// The position of an entry in the history of all executions.
pub(crate) fn order(sequence: Sequence, place: u32, id: ExecutionId) -> Vec<u8> {
    let mut key = key(Kind::Order, 28);
    key.extend_from_slice(&sequence.0.to_be_bytes());
    key.extend_from_slice(&place.to_be_bytes());
    key.extend_from_slice(id.as_bytes());
    key
}

/// Where the history of all executions begins, or goes on after an entry.
pub(crate) fn order_after(after: Option<(Sequence, u32)>) -> Vec<u8> {
    let mut key = key(Kind::Order, 29);
    if let Some((sequence, place)) = after {
        key.extend_from_slice(&sequence.0.to_be_bytes());
        key.extend_from_slice(&place.to_be_bytes());
        // Longer than any execution's id, so it sorts after each of them.
        key.extend_from_slice(&[0xFF; 17]);
    }
    key
}

/// Where the history of all executions ends.
pub(crate) fn order_end() -> Vec<u8> {
    vec![Kind::Order as u8 + 1]
}

/// The bounds of one execution's history.
pub(crate) fn entries(id: ExecutionId) -> (Vec<u8>, Vec<u8>) {
    let mut end = entry(id, Sequence(u64::MAX), u32::MAX);
    end.push(0);
    (entry(id, Sequence(0), 0), end)
}

pub(crate) fn task(id: TaskId) -> Vec<u8> {
    let mut key = of_execution(Kind::Task, id.execution, 8);
    key.extend_from_slice(&id.visit.to_be_bytes());
    key.extend_from_slice(&id.slot.to_be_bytes());
    key
}

pub(crate) fn all_tasks() -> (Vec<u8>, Vec<u8>) {
    (vec![Kind::Task as u8], vec![Kind::Task as u8 + 1])
}

pub(crate) fn document(collection: &str, id: &str) -> Vec<u8> {
    let mut key = key(Kind::Document, collection.len() + id.len() + 1);
    key.extend_from_slice(collection.as_bytes());
    key.push(0);
    key.extend_from_slice(id.as_bytes());
    key
}

/// Where the documents of `collection` end.
pub(crate) fn documents_end(collection: &str) -> Vec<u8> {
    let mut key = key(Kind::Document, collection.len() + 1);
    key.extend_from_slice(collection.as_bytes());
    key.push(1);
    key
}

pub(crate) fn guard(guard: &str) -> Vec<u8> {
    let mut key = key(Kind::Guard, guard.len());
    key.extend_from_slice(guard.as_bytes());
    key
}

pub(crate) fn tenant(tenant: &str, id: ExecutionId) -> Vec<u8> {
    let mut key = tenant_start(tenant);
    key.extend_from_slice(id.as_bytes());
    key
}

/// Returns the common prefix of all tenants' marks.
pub(crate) fn tenants_start() -> Vec<u8> {
    vec![Kind::Tenant as u8]
}

pub(crate) fn tenant_start(tenant: &str) -> Vec<u8> {
    let mut key = key(Kind::Tenant, tenant.len() + 17);
    key.extend_from_slice(tenant.as_bytes());
    key.push(0);
    key
}

/// The `n`th piece of the long value of `key`.
pub(crate) fn chunk(key: &[u8], n: u16) -> Vec<u8> {
    let mut chunk = Vec::with_capacity(key.len() + 3);
    chunk.push(CHUNK);
    chunk.extend_from_slice(key);
    chunk.extend_from_slice(&n.to_be_bytes());
    chunk
}

/// The execution that ends a record, open or tenant key.
pub(crate) fn trailing_id(key: &[u8]) -> Option<ExecutionId> {
    key.last_chunk::<16>().map(|id| ExecutionId::from_bytes(*id))
}

/// The object that a key names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Name {
    Record(ExecutionId),
    Entry(ExecutionId, Sequence, u32),
    Task(TaskId),
    Document(Key),
    Guard(String),
    Open(ExecutionId),
    Tenant(String, ExecutionId),
    Order(Sequence, u32, ExecutionId),
}

fn number(bytes: &[u8]) -> Option<u32> {
    bytes.try_into().ok().map(u32::from_be_bytes)
}

/// Parses a key. Returns `None` if it is unknown.
pub(crate) fn parse(key: &[u8]) -> Option<Name> {
    let (kind, rest) = key.split_first()?;
    let id = |bytes: &[u8]| bytes.try_into().ok().map(ExecutionId::from_bytes);
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).ok();
    let split = |bytes: &[u8]| {
        let nul = bytes.iter().position(|byte| *byte == 0)?;
        Some((text(bytes.get(..nul)?)?, bytes.get(nul.checked_add(1)?..)?.to_vec()))
    };
    Some(match kind {
        1 => Name::Record(id(rest)?),
        2 => {
            let (execution, rest) = rest.split_at_checked(16)?;
            let (sequence, place) = rest.split_at_checked(8)?;
            let sequence = u64::from_be_bytes(sequence.try_into().ok()?);
            Name::Entry(id(execution)?, Sequence(sequence), number(place)?)
        }
        3 => {
            let (execution, rest) = rest.split_at_checked(16)?;
            let (visit, slot) = rest.split_at_checked(4)?;
            Name::Task(TaskId { execution: id(execution)?, visit: number(visit)?, slot: number(slot)? })
        }
        4 => {
            split(rest).and_then(|(collection, id)| Some(Name::Document(Key::new(collection, text(&id)?))))?
        }
        5 => Name::Guard(text(rest)?),
        6 => Name::Open(id(rest)?),
        7 => split(rest).and_then(|(tenant, rest)| Some(Name::Tenant(tenant, id(&rest)?)))?,
        9 => {
            let (sequence, rest) = rest.split_at_checked(8)?;
            let (place, execution) = rest.split_at_checked(4)?;
            let sequence = u64::from_be_bytes(sequence.try_into().ok()?);
            Name::Order(Sequence(sequence), number(place)?, id(execution)?)
        }
        _ => return None,
    })
}
