//! Commands that need a second person: stored until another person confirms them, and bound to the revision of the
//! execution.

use crate::{
    Attribution, Edge, Engine, Error, Event, Provenance, Refusal,
    model::documents::{collection, parse::parse},
    runtime::commit::ExtraWrites,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use store::{Commit, ExecutionId, Key, Page, Put, Read, Revision, Timestamp};

/// A command that waits for a second person.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Proposal {
    /// The id: the execution, a dot, and its revision. There is one at a time for each.
    pub id: String,
    /// The execution.
    pub execution: ExecutionId,
    /// The execution's revision at the time of the command. If the execution changes, the command is void.
    pub revision: Revision,
    /// The workflow.
    pub workflow: String,
    /// The tenant.
    pub tenant: String,
    /// The subject.
    pub subject: String,
    /// The state.
    pub state: String,
    /// The command.
    pub command: Event,
    /// The person who gave it.
    pub by: String,
    /// The origin of that person's credential; `None` if it was not recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub given_from: Option<Provenance>,
    /// The reason.
    pub reason: String,
    /// When.
    pub at: Timestamp,
}

/// The result of a command.
#[derive(Clone, Debug, PartialEq)]
pub enum CommandResult {
    /// It took effect.
    Done(Revision),
    /// It waits for a second person.
    Proposed(Box<Proposal>),
}

/// The result of a dry run of a command. The changes are discarded.
#[derive(Clone, Debug, Serialize)]
pub struct CommandPreview {
    /// The new state.
    pub state: String,
    /// The new phase.
    pub phase: String,
    /// The edges taken.
    pub edges: Vec<Edge>,
    /// The new data of the workflow.
    pub data: Value,
    /// The new slots.
    pub slots: Value,
    /// True if a second person must confirm it.
    pub needs_second: bool,
    /// The new trail, as it is stored.
    #[serde(skip)]
    pub trail: Value,
    /// The effects that would remain if it finished the execution.
    #[serde(skip)]
    pub left: Value,
    /// True if it would start a compensation.
    #[serde(skip)]
    pub unwinds: bool,
}

/// Returns the name of a command for [`Options::second_person`](crate::Options::second_person), or `None` for other
/// events.
#[must_use]
pub fn command_name(event: &Event) -> Option<&'static str> {
    command(event).map(|(name, _)| name)
}

/// Returns the name of a command with its person and reason, or `None` for other events.
fn command(event: &Event) -> Option<(&'static str, &Attribution)> {
    match event {
        Event::Repaired { repair, order } => Some((repair.name(), order)),
        Event::TerminateRequested(order) => Some(("terminate", order)),
        Event::LeftoversReleased(order) => Some(("release", order)),
        Event::CancelRequested(order) => Some(("cancel", order)),
        Event::RetryRequested(order) => Some(("retry", order)),
        Event::PauseRequested(order) => Some(("pause", order)),
        Event::ResumeRequested(order) => Some(("resume", order)),
        Event::Started
        | Event::Settled { .. }
        | Event::Probed { .. }
        | Event::Held { .. }
        | Event::Voted { .. }
        | Event::VoteWithdrawn(_)
        | Event::Reminded(_)
        | Event::Escalated(_)
        | Event::Extended(_)
        | Event::DeadlinePassed { .. }
        | Event::Overdue
        | Event::CommitRefused { .. }
        | Event::Signalled { .. }
        | Event::Seconded { .. } => None,
    }
}

impl<P: Send + Sync + 'static> Engine<P> {
    /// Returns true if policy requires a second person for `event`.
    #[must_use]
    pub fn needs_second_person(&self, event: &Event) -> bool {
        command_name(event).is_some_and(|name| self.inner.options.second_person.contains(name))
    }

    pub(crate) fn check_second(&self, event: &Event) -> Result<(), Error> {
        match command_name(event) {
            Some(command) if self.needs_second_person(event) => Err(Error::NeedsSecond { command }),
            Some(_) | None => Ok(()),
        }
    }

    /// Applies a command at once, or stores a proposal if policy requires a second person.
    ///
    /// # Errors
    /// Same as [`Engine::deliver`] and [`Engine::deliver_at`]. A command that would be refused is not proposed.
    pub async fn command(
        &self,
        id: ExecutionId,
        event: Event,
        revision: Option<Revision>,
    ) -> Result<CommandResult, Error> {
        self.command_from(id, event, revision, None).await
    }

    /// Applies a command, and records the origin of the credential. The second person must be separate from it.
    ///
    /// # Errors
    /// Same as [`Engine::command`].
    pub async fn command_from(
        &self,
        id: ExecutionId,
        event: Event,
        revision: Option<Revision>,
        given_from: Option<Provenance>,
    ) -> Result<CommandResult, Error> {
        if !self.needs_second_person(&event) {
            let taken = match revision {
                Some(revision) => self.deliver_at(id, event, revision).await,
                None => self.deliver(id, event).await,
            };
            return taken.map(CommandResult::Done);
        }
        let record = self.record(id).await?;
        if let Some(revision) = revision.filter(|revision| *revision != record.revision) {
            let what =
                format!("execution {id} is at revision {}, and revision {revision} of it", record.revision);
            return Err(store::Error::Conflict { what }.into());
        }
        let now = self.inner.clock.now();
        self.machine(&record.workflow, record.schema)?.advance(&record, event.clone(), now)?;
        let order = command(&event)
            .map(|(_, order)| order.clone())
            .unwrap_or_else(|| Attribution { by: String::new(), reason: String::new() });
        let proposal = Proposal {
            id: format!("{id}.{}", record.revision),
            execution: id,
            revision: record.revision,
            workflow: record.workflow,
            tenant: record.tenant,
            subject: record.subject,
            state: record.state,
            command: event,
            by: order.by,
            given_from,
            reason: order.reason,
            at: now,
        };
        let key = Key::new(collection::PROPOSALS, &proposal.id);
        let body = serde_json::to_vec(&proposal).map_err(|e| Error::Unreadable { id, why: e.to_string() })?;
        let commit = Commit {
            reads: vec![Read { key: key.clone(), version: None }],
            documents: vec![Put { key, body: Some(body) }],
            ..Commit::default()
        };
        match self.inner.store.commit(commit).await {
            Ok(_) => Ok(CommandResult::Proposed(Box::new(proposal))),
            Err(store::Error::Conflict { .. }) => Err(Refusal::Already("waiting for a second person").into()),
            Err(error) => Err(error.into()),
        }
    }

    /// Confirms a proposal as the second person, and applies it in the same commit.
    ///
    /// # Errors
    /// Returns [`Error::NoProposal`]; [`Refusal::SamePerson`]; [`store::Error::Conflict`] if the execution has
    /// changed, which makes the proposal void.
    pub async fn approve_proposal(&self, proposal: &str, by: &str) -> Result<Revision, Error> {
        self.approve_proposal_as_read(self.proposal(proposal).await?, by).await
    }

    /// Confirms a proposal as it was read, and no later one with the same id.
    ///
    /// # Errors
    /// Same as [`Engine::approve_proposal`]; [`store::Error::Conflict`] if the proposal has changed.
    pub async fn approve_proposal_as_read(
        &self,
        (proposal, read): (Proposal, Read),
        by: &str,
    ) -> Result<Revision, Error> {
        let record = self.record(proposal.execution).await?;
        if record.revision != proposal.revision {
            let what = format!("execution {} has changed, so the proposal is void; it", proposal.execution);
            return Err(store::Error::Conflict { what }.into());
        }
        let event = Event::Seconded { event: Box::new(proposal.command), by: by.to_owned() };
        let machine = self.machine(&record.workflow, record.schema)?;
        let next = machine.advance(&record, event, self.inner.clock.now())?;
        let gone = Put { key: read.key.clone(), body: None };
        let also = ExtraWrites { reads: vec![read], documents: vec![gone], ..ExtraWrites::default() };
        self.commit(Some(proposal.revision), next, None, also).await
    }

    /// Withdraws a proposal as it was read. Anyone who may give the command may withdraw it.
    ///
    /// # Errors
    /// Returns [`store::Error::Conflict`] if it is gone or has changed, or the store's error.
    pub async fn drop_proposal(&self, (_, read): (Proposal, Read)) -> Result<(), Error> {
        let gone = Put { key: read.key.clone(), body: None };
        let commit = Commit { reads: vec![read], documents: vec![gone], ..Commit::default() };
        self.inner.store.commit(commit).await?;
        Ok(())
    }

    /// Returns a proposal by its id.
    ///
    /// # Errors
    /// Returns [`Error::NoProposal`] or the store's error.
    pub async fn proposal(&self, id: &str) -> Result<(Proposal, Read), Error> {
        let key = Key::new(collection::PROPOSALS, id);
        let found = self.inner.store.document(&key).await?;
        let found = found.ok_or_else(|| Error::NoProposal { id: id.to_owned() })?;
        Ok((parse(&found)?, Read { key, version: Some(found.version) }))
    }

    /// Returns proposals, oldest execution first.
    ///
    /// # Errors
    /// Returns the store's error.
    pub async fn proposals(
        &self,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Page<Proposal, String>, Error> {
        let page = self.inner.store.documents(collection::PROPOSALS, "", after, limit).await?;
        let items = page.items.iter().map(parse).collect::<Result<_, _>>()?;
        Ok(Page { items, next: page.next })
    }

    /// Dry run of a command. The changes are discarded.
    ///
    /// # Errors
    /// Same as [`Engine::deliver`].
    pub async fn preview(&self, id: ExecutionId, event: Event) -> Result<CommandPreview, Error> {
        let record = self.record(id).await?;
        let needs_second = self.needs_second_person(&event);
        let next =
            self.machine(&record.workflow, record.schema)?.advance(&record, event, self.inner.clock.now())?;
        let mut body: Value = serde_json::from_slice(&next.record.body)
            .map_err(|e| Error::Unreadable { id, why: e.to_string() })?;
        let parked_unwinding = body.pointer("/phase/parked/unwinding").is_some_and(|way| !way.is_null());
        let unwinds = parked_unwinding || body.pointer("/phase/compensating").is_some();
        let left = body.pointer_mut("/phase/finished/leaks").map(Value::take).unwrap_or_default();
        let mut field = |name: &str| body.get_mut(name).map(Value::take).unwrap_or_default();
        Ok(CommandPreview {
            data: field("data"),
            slots: field("slots"),
            trail: field("trail"),
            left,
            unwinds,
            state: next.record.state,
            phase: next.record.phase,
            edges: next.edges,
            needs_second,
        })
    }
}
