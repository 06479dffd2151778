//! Index scans in the order of ids, which return a superset of the matches of a query.
//!
//! The caller checks each record itself. An intersection asks each of its scans for the next id from where the others are, so
//! that the rarest of them sets the pace.

use crate::{
    Error, ExecutionId, Query,
    embedded::{
        format::{index_keys, key},
        index::Index,
    },
};
use std::{collections::VecDeque, ops::Bound};

/// Ids read ahead at once.
const AHEAD: usize = 32;
/// A condition on more values than this is checked in each record instead of by its terms.
const MOST_VALUES: usize = 64;
/// The cost of reading ahead, in examined records.
const COST: usize = 2;

/// A scan, and how far it has been read.
pub(crate) enum Scan {
    /// The rows with this beginning, each ending in an id.
    Prefix(PrefixScan),
    /// The ids of all of these.
    Intersect(Vec<Scan>),
    /// The ids of any of these.
    Union(Vec<Scan>),
    /// Every id from the first one to before the second, with or without a record.
    Range(ExecutionId, ExecutionId),
}

/// The rows with one beginning.
pub(crate) struct PrefixScan {
    prefix: Vec<u8>,
    ahead: VecDeque<ExecutionId>,
    ended: bool,
}

impl PrefixScan {
    fn next(
        &mut self,
        index: &Index,
        at: ExecutionId,
        left: &mut usize,
    ) -> Result<Option<ExecutionId>, Error> {
        while self.ahead.front().is_some_and(|id| *id < at) {
            self.ahead.pop_front();
        }
        if self.ahead.is_empty() && !self.ended {
            *left = left.saturating_sub(COST);
            let (from, to) = (self.key(at), [self.key(ExecutionId::LAST), vec![0]].concat());
            let keys = index.keys(Bound::Included(&from), &to, AHEAD)?;
            self.ended = keys.len() < AHEAD;
            self.ahead =
                keys.iter().filter_map(|key| index_keys::execution_after(&self.prefix, key)).collect();
        }
        Ok(self.ahead.front().copied())
    }

    fn key(&self, id: ExecutionId) -> Vec<u8> {
        [self.prefix.as_slice(), id.as_bytes()].concat()
    }
}

impl Scan {
    /// Returns the scan for `query`.
    pub(crate) fn for_query(query: &Query, index: &Index) -> Result<Self, Error> {
        Ok(narrow(query, index)?.map_or_else(all_records, only_existing))
    }

    fn rows(prefix: Vec<u8>) -> Self {
        Self::Prefix(PrefixScan { prefix, ahead: VecDeque::new(), ended: false })
    }

    /// Returns the first id of the scan that is not before `at`; some id of it or before it once `left` has run out.
    pub(crate) fn next(
        &mut self,
        index: &Index,
        at: ExecutionId,
        left: &mut usize,
    ) -> Result<Option<ExecutionId>, Error> {
        match self {
            Self::Prefix(rows) => rows.next(index, at, left),
            Self::Range(from, until) => Ok(Some(at.max(*from)).filter(|id| id < until)),
            Self::Union(scans) => {
                let mut first: Option<ExecutionId> = None;
                for scan in scans {
                    if let Some(id) = scan.next(index, at, left)? {
                        first = Some(first.map_or(id, |first| first.min(id)));
                    }
                }
                Ok(first)
            }
            Self::Intersect(scans) => {
                let mut at = at;
                loop {
                    let from = at;
                    for scan in scans.iter_mut() {
                        let Some(id) = scan.next(index, at, left)? else { return Ok(None) };
                        at = id;
                    }
                    // All of them are here, or the caller stops here.
                    if at == from || *left == 0 {
                        return Ok(Some(at));
                    }
                }
            }
        }
    }
}

/// Past every record.
fn all_records() -> Scan {
    Scan::rows(key::all_records().0)
}

/// Returns true if the scan yields only ids of records.
fn only_existing(scan: Scan) -> Scan {
    match scan {
        Scan::Range(..) => Scan::Intersect(vec![scan, all_records()]),
        Scan::Prefix(_) | Scan::Intersect(_) | Scan::Union(_) => scan,
    }
}

/// Returns the scan for `query`, if its terms narrow it down.
fn narrow(query: &Query, index: &Index) -> Result<Option<Scan>, Error> {
    Ok(match query {
        Query::All | Query::Not(_) => None,
        Query::And(all) => {
            let mut scans = Vec::new();
            for query in all {
                scans.extend(narrow(query, index)?);
            }
            if scans.iter().all(|scan| matches!(scan, Scan::Range(..))) && !scans.is_empty() {
                scans.push(all_records());
            }
            if scans.len() > 1 { Some(Scan::Intersect(scans)) } else { scans.pop() }
        }
        Query::Or(any) => {
            let mut scans = Vec::new();
            for query in any {
                let Some(scan) = narrow(query, index)? else { return Ok(None) };
                scans.push(only_existing(scan));
            }
            Some(Scan::Union(scans))
        }
        // Most records have finished, and finished ones are found by their phase.
        Query::Is { field, value } if field == "open" && value != "true" => None,
        Query::Is { field, value } => Some(match (field.as_str(), value.as_str()) {
            ("open", _) => Scan::rows(key::open_start()),
            ("tenant", tenant) if tenant.contains('\0') => Scan::Union(Vec::new()),
            ("tenant", tenant) => Scan::rows(key::tenant_start(tenant)),
            (field, value) => Scan::rows(index_keys::for_value(field, value)),
        }),
        Query::StartsWith { field, with } => starts_with_any(field, with, index)?,
        Query::Has { field } => starts_with_any(field, "", index)?,
        Query::CreatedBetween { from, until } => {
            Some(Scan::Range(ExecutionId::first_at(*from), ExecutionId::first_at(*until)))
        }
        Query::UpdatedBetween { from, until } => {
            let (first, last) = (index_keys::hour(*from), index_keys::hour(*until));
            union_of_values(index, index_keys::for_field(index_keys::UPDATED), first.as_bytes(), |hour| {
                hour <= last.as_bytes()
            })?
        }
    })
}

fn starts_with_any(field: &str, with: &str, index: &Index) -> Result<Option<Scan>, Error> {
    let of_field = match field {
        // Open records have marks of another form; they are most of the records, or found quickly.
        "open" => return Ok(None),
        "tenant" => key::tenants_start(),
        field => index_keys::for_field(field),
    };
    let with = index_keys::bounded_prefix(with);
    union_of_values(index, of_field, &with, |value| value.starts_with(&with))
}

/// Returns the scans of every value from `first` on while `wanted` is true, or `None` if there are too many.
fn union_of_values(
    index: &Index,
    of_field: Vec<u8>,
    first: &[u8],
    wanted: impl Fn(&[u8]) -> bool,
) -> Result<Option<Scan>, Error> {
    let mut to = of_field.clone();
    // The field ends in NUL, or is only the kind: in both cases no other row of it sorts later.
    match to.last_mut() {
        Some(last) => *last = last.saturating_add(1),
        None => return Ok(None),
    }
    let (mut scans, mut from) = (Vec::new(), [of_field.as_slice(), first].concat());
    loop {
        let found = index.keys(Bound::Included(&from), &to, 1)?;
        let key = found.first().and_then(|key| key.strip_prefix(of_field.as_slice()));
        let value = key.and_then(|rest| rest.get(..rest.len().checked_sub(17)?));
        let Some(value) = value.filter(|value| wanted(value)) else { return Ok(Some(Scan::Union(scans))) };
        if scans.len() == MOST_VALUES {
            return Ok(None);
        }
        scans.push(Scan::rows([of_field.as_slice(), value, &[0]].concat()));
        from = [of_field.as_slice(), value, &[1]].concat();
    }
}
