//! Ways through the index in the order of ids: past every record that a query can want, and past as few others as may be.
//!
//! A way may lead to a record that is not wanted, never past one that is; whoever walks looks at each record itself. Of
//! conditions that hold together, those with terms are followed side by side: each is asked for its next id from where the
//! others are, so that the rarest of them sets the pace.

use crate::embedded::{
    format::{index_keys, key},
    index::Index,
};
use crate::{Error, ExecutionId, Query};
use std::{collections::VecDeque, ops::Bound};

/// Ids read ahead at once.
const AHEAD: usize = 32;
/// A condition on more values than this is not followed by its terms, but looked up in each record.
const MOST_VALUES: usize = 64;
/// What reading ahead counts for among the records looked at.
const COST: usize = 2;

/// A way, and how far along it has been read.
pub(crate) enum Walk {
    /// The rows with this beginning, each ending in an id.
    Rows(Rows),
    /// Past all of these at once.
    Each(Vec<Walk>),
    /// Past any of these.
    Any(Vec<Walk>),
    /// Every id from the first one and before the second, whether or not there is such a record.
    Between(ExecutionId, ExecutionId),
}

/// The rows with one beginning.
pub(crate) struct Rows {
    prefix: Vec<u8>,
    ahead: VecDeque<ExecutionId>,
    ended: bool,
}

impl Rows {
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
            self.ahead = keys.iter().filter_map(|key| index_keys::id_behind(&self.prefix, key)).collect();
        }
        Ok(self.ahead.front().copied())
    }

    fn key(&self, id: ExecutionId) -> Vec<u8> {
        [self.prefix.as_slice(), id.as_bytes()].concat()
    }
}

impl Walk {
    /// The way to what `query` wants.
    pub(crate) fn of(query: &Query, index: &Index) -> Result<Self, Error> {
        Ok(narrowed(query, index)?.map_or_else(every, grounded))
    }

    fn rows(prefix: Vec<u8>) -> Self {
        Self::Rows(Rows { prefix, ahead: VecDeque::new(), ended: false })
    }

    /// The first id on the way that is not before `at`; some id on it or before it once `left` has run out.
    pub(crate) fn next(
        &mut self,
        index: &Index,
        at: ExecutionId,
        left: &mut usize,
    ) -> Result<Option<ExecutionId>, Error> {
        match self {
            Self::Rows(rows) => rows.next(index, at, left),
            Self::Between(from, until) => Ok(Some(at.max(*from)).filter(|id| id < until)),
            Self::Any(ways) => {
                let mut first: Option<ExecutionId> = None;
                for way in ways {
                    if let Some(id) = way.next(index, at, left)? {
                        first = Some(first.map_or(id, |first| first.min(id)));
                    }
                }
                Ok(first)
            }
            Self::Each(ways) => {
                let mut at = at;
                loop {
                    let from = at;
                    for way in ways.iter_mut() {
                        let Some(id) = way.next(index, at, left)? else { return Ok(None) };
                        at = id;
                    }
                    // All of them are here, or whoever walks has to rest here.
                    if at == from || *left == 0 {
                        return Ok(Some(at));
                    }
                }
            }
        }
    }
}

/// Past every record.
fn every() -> Walk {
    Walk::rows(key::all_records().0)
}

/// A way that leads to records alone.
fn grounded(walk: Walk) -> Walk {
    match walk {
        Walk::Between(..) => Walk::Each(vec![walk, every()]),
        Walk::Rows(_) | Walk::Each(_) | Walk::Any(_) => walk,
    }
}

/// The way to what `query` wants, if its terms narrow it down.
fn narrowed(query: &Query, index: &Index) -> Result<Option<Walk>, Error> {
    Ok(match query {
        Query::All | Query::Not(_) => None,
        Query::And(all) => {
            let mut ways = Vec::new();
            for query in all {
                ways.extend(narrowed(query, index)?);
            }
            if ways.iter().all(|way| matches!(way, Walk::Between(..))) && !ways.is_empty() {
                ways.push(every());
            }
            if ways.len() > 1 { Some(Walk::Each(ways)) } else { ways.pop() }
        }
        Query::Or(any) => {
            let mut ways = Vec::new();
            for query in any {
                let Some(way) = narrowed(query, index)? else { return Ok(None) };
                ways.push(grounded(way));
            }
            Some(Walk::Any(ways))
        }
        // Most of all there is has finished, and those that have are found by their phase.
        Query::Is { field, value } if field == "open" && value != "true" => None,
        Query::Is { field, value } => Some(match (field.as_str(), value.as_str()) {
            ("open", _) => Walk::rows(key::open_start()),
            ("tenant", tenant) if tenant.contains('\0') => Walk::Any(Vec::new()),
            ("tenant", tenant) => Walk::rows(key::tenant_start(tenant)),
            (field, value) => Walk::rows(index_keys::of_value(field, value)),
        }),
        Query::Begins { field, with } => begins(field, with, index)?,
        Query::Has { field } => begins(field, "", index)?,
        Query::Made { from, until } => {
            Some(Walk::Between(ExecutionId::first_at(*from), ExecutionId::first_at(*until)))
        }
        Query::Updated { from, until } => {
            let (first, last) = (index_keys::hour(*from), index_keys::hour(*until));
            any_of(index, index_keys::of_field(index_keys::UPDATED), first.as_bytes(), |hour| {
                hour <= last.as_bytes()
            })?
        }
    })
}

fn begins(field: &str, with: &str, index: &Index) -> Result<Option<Walk>, Error> {
    let of_field = match field {
        // Of the open ones there are marks of another form; they are most of all there is, or soon found.
        "open" => return Ok(None),
        "tenant" => key::tenants_start(),
        field => index_keys::of_field(field),
    };
    let with = index_keys::beginning(with);
    any_of(index, of_field, &with, |value| value.starts_with(&with))
}

/// Past the rows of every value from `first` on for as long as `wanted` says; `None` if there are too many values.
fn any_of(
    index: &Index,
    of_field: Vec<u8>,
    first: &[u8],
    wanted: impl Fn(&[u8]) -> bool,
) -> Result<Option<Walk>, Error> {
    let mut to = of_field.clone();
    // The field ends in NUL, or is the kind alone: in both cases nothing of it sorts behind.
    match to.last_mut() {
        Some(last) => *last = last.saturating_add(1),
        None => return Ok(None),
    }
    let (mut ways, mut from) = (Vec::new(), [of_field.as_slice(), first].concat());
    loop {
        let found = index.keys(Bound::Included(&from), &to, 1)?;
        let key = found.first().and_then(|key| key.strip_prefix(of_field.as_slice()));
        let value = key.and_then(|rest| rest.get(..rest.len().checked_sub(17)?));
        let Some(value) = value.filter(|value| wanted(value)) else { return Ok(Some(Walk::Any(ways))) };
        if ways.len() == MOST_VALUES {
            return Ok(None);
        }
        ways.push(Walk::rows([of_field.as_slice(), value, &[0]].concat()));
        from = [of_field.as_slice(), value, &[1]].concat();
    }
}
