//! Searches the acknowledged records: by the terms of the index, and in the rows that the index has not applied yet.

pub(crate) mod scan;

use crate::{
    Error, ExecutionId, Found, Query, Record,
    embedded::{
        format::{codec, key},
        search::scan::Scan,
        shared::Shared,
    },
};
use std::ops::Bound;

/// The most waiting records read at once.
const WINDOW: usize = 1_024;

/// A page being filled.
struct PageBuilder<'a> {
    query: &'a Query,
    limit: usize,
    items: Vec<Record>,
    /// The most records that may still be examined.
    left: usize,
}

impl Shared {
    /// Returns up to `limit` records that match `query`, examining at most about `looks`.
    pub(crate) fn search(
        &self,
        query: &Query,
        after: Option<ExecutionId>,
        limit: usize,
        looks: usize,
    ) -> Result<Found, Error> {
        let mut page = PageBuilder { query, limit, items: Vec::new(), left: looks };
        let mut at = match after {
            None => Some(ExecutionId::FIRST),
            Some(after) => after.next(),
        };
        while let Some(from) = at.filter(|_| limit > 0) {
            let (first, to) = (key::record(from), key::all_records().1);
            // First the memtable, then the index: rows leave the first only when the second has them. For the same
            // reason the index is queried again in each window.
            let waiting = self.memtable().keys(Bound::Included(&first), &to, WINDOW);
            let full = waiting.len() == WINDOW;
            let waiting: Vec<ExecutionId> = waiting.iter().filter_map(|key| key::trailing_id(key)).collect();
            let end = waiting.last().copied().filter(|_| full).unwrap_or(ExecutionId::LAST);
            if let Some(found) = self.search_window(&mut page, &waiting, from, end)? {
                return Ok(found);
            }
            at = end.next();
        }
        Ok(Found { items: page.items, next: None, partial: false })
    }

    /// Examines the records from `at` to `end`; returns `Some` when the page ends there.
    fn search_window(
        &self,
        page: &mut PageBuilder<'_>,
        waiting: &[ExecutionId],
        mut at: ExecutionId,
        end: ExecutionId,
    ) -> Result<Option<Found>, Error> {
        let index = self.index();
        let mut scan = Scan::for_query(page.query, &index)?;
        let mut waiting = waiting.iter().copied().peekable();
        loop {
            while waiting.next_if(|id| *id < at).is_some() {}
            let indexed = scan.next(&index, at, &mut page.left)?.filter(|id| *id <= end);
            let Some(id) = [indexed, waiting.peek().copied()].into_iter().flatten().min() else {
                return Ok(None);
            };
            page.left = page.left.saturating_sub(1);
            if let Some(record) = self.load_match(page.query, id)? {
                if page.items.len() == page.limit {
                    let next = page.items.last().map(|record| record.id);
                    return Ok(Some(Found { items: std::mem::take(&mut page.items), next, partial: false }));
                }
                page.items.push(record);
            }
            if page.left == 0 {
                let partial = page.items.len() < page.limit;
                let items = std::mem::take(&mut page.items);
                return Ok(Some(Found { items, next: Some(id), partial }));
            }
            let Some(next) = id.next() else { return Ok(None) };
            at = next;
        }
    }

    /// Returns the record of `id`, if it matches `query`. An unreadable record is reported, and must not hide the
    /// others.
    fn load_match(&self, query: &Query, id: ExecutionId) -> Result<Option<Record>, Error> {
        let key = key::record(id);
        let value = match self.get(&key) {
            Ok(value) => value,
            Err(Error::Corrupt { .. }) => return Ok(None),
            Err(error) => return Err(error),
        };
        let Some(value) = value else { return Ok(None) };
        let Ok((record, body)) = self.decode(id, &key, codec::record_and_body(&key, value.as_ref())) else {
            return Ok(None);
        };
        Ok(query.accepts(&record).then(|| Record { body: body.to_vec(), ..record }))
    }
}
