//! Queries: executions, their history, and their approvals.

use crate::{
    ApprovalRecord, Child, Engine, Error, ExecutionView, Plan, PlanDigest, Review,
    model::documents::{collection, parse::parse},
};
use store::{CompositeKey, Document, Entry, ExecutionId, Filter, Found, Key, Page, Query, Record, Sequence};

impl<P: Send + Sync + 'static> Engine<P> {
    /// Returns the full execution. If only another version can read it, returns the stored data with the plan of its
    /// last approval, if there was one.
    ///
    /// # Errors
    /// Same as [`Engine::record`]; an error if it cannot be decoded.
    pub async fn execution(&self, id: ExecutionId) -> Result<(Record, ExecutionView), Error> {
        let record = self.record(id).await?;
        let machine = self.machine(&record.workflow, record.schema);
        let shown = match machine.and_then(|machine| machine.show(&record)) {
            Err(Error::NoWorker { .. }) => {
                let (plan, digest) = match self.approval_records(id).await?.pop() {
                    Some(case) => (case.plan, case.digest),
                    None => (Plan::default(), PlanDigest(String::new())),
                };
                ExecutionView::as_stored(&record, plan, digest)?
            }
            shown => shown?,
        };
        let children = self.children(id).await?;
        Ok((record, ExecutionView { children, ..shown }))
    }

    /// Returns the children of an execution, open or finished, in the order of its states and slots.
    ///
    /// # Errors
    /// Returns the store's error.
    pub async fn children(&self, id: ExecutionId) -> Result<Vec<Child>, Error> {
        let (mut children, mut after): (Vec<Child>, Option<String>) = (Vec::new(), None);
        let prefix = CompositeKey::of(&[&id]).prefix();
        loop {
            let page =
                self.inner.store.documents(collection::CHILDREN, &prefix, after.as_deref(), 1_000).await?;
            for found in &page.items {
                children.push(parse(found)?);
            }
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        children.sort_by_key(|child| (child.parent.states_entered, child.parent.slot));
        Ok(children)
    }

    /// Returns the children that have not ended.
    ///
    /// # Errors
    /// Returns the store's error.
    pub async fn open_children(&self, id: ExecutionId) -> Result<Vec<Child>, Error> {
        let mut children = self.children(id).await?;
        children.retain(|child| child.outcome.is_none());
        Ok(children)
    }

    /// Returns the full history of an execution.
    ///
    /// # Errors
    /// Returns the store's error.
    pub async fn journal(&self, id: ExecutionId) -> Result<Vec<Entry>, Error> {
        let (mut entries, mut after) = (Vec::new(), None);
        loop {
            let page = self.inner.store.journal(id, after, 1_000).await?;
            entries.extend(page.items);
            after = page.next;
            if after.is_none() {
                return Ok(entries);
            }
        }
    }

    /// Returns the latest progress of an attempt, if one is running in this process and has reported any.
    #[must_use]
    pub fn progress_note(&self, id: ExecutionId) -> Option<String> {
        self.inner.limits.progress_note(id)
    }

    /// Returns executions that match `filter`, oldest first.
    ///
    /// # Errors
    /// Returns the store's error.
    pub async fn list(
        &self,
        filter: &Filter,
        after: Option<ExecutionId>,
        limit: usize,
    ) -> Result<Page<Record, ExecutionId>, Error> {
        Ok(self.inner.store.list(filter, after, limit).await?)
    }

    /// Returns executions that match `query`, oldest first. A page may be incomplete and then has `partial` set.
    ///
    /// # Errors
    /// Returns the store's error.
    pub async fn search(
        &self,
        query: &Query,
        after: Option<ExecutionId>,
        limit: usize,
    ) -> Result<Found, Error> {
        Ok(self.inner.store.search(query, after, limit).await?)
    }

    /// Returns the open approvals, oldest execution first.
    ///
    /// # Errors
    /// Returns the store's error.
    pub async fn approvals(
        &self,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Page<ApprovalRecord, String>, Error> {
        let page = self.inner.store.documents(collection::OPEN, "", after, limit).await?;
        let items = page.items.iter().map(parse_case).collect::<Result<_, _>>()?;
        Ok(Page { items, next: page.next })
    }

    /// Returns one approval by its id, open or closed.
    ///
    /// # Errors
    /// Returns the store's error.
    pub async fn approval_record(&self, id: &str) -> Result<Option<ApprovalRecord>, Error> {
        for place in [collection::OPEN, collection::CLOSED] {
            if let Some(found) = self.inner.store.document(&Key::new(place, id)).await? {
                return parse_case(&found).map(Some);
            }
        }
        Ok(None)
    }

    /// Returns the break-glass decisions that wait for a review, oldest execution first.
    ///
    /// # Errors
    /// Returns the store's error.
    pub async fn reviews(&self, after: Option<&str>, limit: usize) -> Result<Page<Review, String>, Error> {
        let page = self.inner.store.documents(collection::REVIEWS, "", after, limit).await?;
        let items = page.items.iter().map(parse).collect::<Result<_, _>>()?;
        Ok(Page { items, next: page.next })
    }

    /// Returns all approvals of an execution, earliest first.
    ///
    /// # Errors
    /// Returns the store's error.
    pub async fn approval_records(&self, id: ExecutionId) -> Result<Vec<ApprovalRecord>, Error> {
        Ok(self.approval_versions(id).await?.into_iter().map(|(_, case)| case).collect())
    }

    /// Returns all approvals of an execution, each with the sequence of its last write.
    ///
    /// # Errors
    /// Returns the store's error.
    pub async fn approval_versions(&self, id: ExecutionId) -> Result<Vec<(Sequence, ApprovalRecord)>, Error> {
        let mut cases: Vec<(Sequence, ApprovalRecord)> = Vec::new();
        for place in [collection::CLOSED, collection::OPEN] {
            let mut after: Option<String> = None;
            loop {
                let prefix = format!("{id}.");
                let page = self.inner.store.documents(place, &prefix, after.as_deref(), 100).await?;
                for found in &page.items {
                    cases.push((found.version, parse_case(found)?));
                }
                after = page.next;
                if after.is_none() {
                    break;
                }
            }
        }
        cases.sort_by_key(|(_, case)| case.opened_at);
        Ok(cases)
    }

    /// Returns the approval that an execution waits for.
    ///
    /// # Errors
    /// Returns the store's error.
    pub async fn approval(&self, id: ExecutionId) -> Result<Option<ApprovalRecord>, Error> {
        let page = self.inner.store.documents(collection::OPEN, &format!("{id}."), None, 1).await?;
        page.items.first().map(parse_case).transpose()
    }
}

fn parse_case(found: &Document) -> Result<ApprovalRecord, Error> {
    parse(found)
}
