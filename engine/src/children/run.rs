//! Slots that start a child, or cancel it, and wait for its end.
//!
//! The worker calls this with a freshly leased task. Every check of a child ends in one commit that is conditional on
//! the link as it was read, so an end of the child between the check and the wait is never missed.

use crate::{
    ActionError, Attribution, Call, Child, Engine, ErasedAction, Error, Event, HOUR, InjectedFault, Parent,
    Person, Stopwatch, TaskRef,
    model::{
        definition::{
            child::{ErasedChild, FinishedChild, ParentLink, cancel_result, is_kept_after_cancel},
            erased_action::ErasedActionKind,
        },
        documents::{collection, parse::parse},
        erased_workflow::{ErasedWorkflow, ParentAuthority},
        execution::{directive::Directive, message::Message},
        input::VersionedInput,
    },
    runtime::{
        clock::caused_at,
        commit::{ExtraWrites, MAX_TRIES},
        deliver::ExecutionTurn,
    },
};
use serde_json::{Value, json};
use std::{sync::Arc, time::Duration};
use store::{Entry, ExecutionId, Key, Lease, Put, Read, Record, Sequence, Settle, Task, TaskId, Timestamp};

/// How often a parent checks a child that has not woken it. Normally the child's end wakes it; this is the fallback.
const CHECK_INTERVAL: Duration = HOUR;
/// How often the start of a child is retried while another execution holds its guard.
const GUARD_RETRY: Duration = Duration::from_secs(30);

/// The most children of one slot that are read. Only repeated retries by an operator exceed it.
const MAX_CHILDREN_OF_A_SLOT: usize = 10_000;

/// The result of a check.
enum ChildCheck {
    /// The child was started, in a committed write.
    Started,
    /// The slot's attempt ends with this result, if the link is unchanged.
    Settled(Result<Value, ActionError>, Box<ExtraWrites>),
}

impl<P: Send + Sync + 'static> Engine<P> {
    /// Runs the task of a child's slot: starts the child, checks whether it has ended, or cancels it.
    pub(crate) async fn settle_child(&self, lease: &Lease, call: &Call) -> Result<(), Error> {
        let id = lease.task.id.execution;
        let ticket = TaskRef { visit: lease.task.id.visit, slot: lease.task.id.slot };
        let settle = Settle { task: lease.task.id, epoch: lease.epoch };
        let mut until = lease.until;
        let mut turn = ExecutionTurn::default();
        for _ in 0..MAX_TRIES {
            self.keep_lease(lease, &mut until).await?;
            let record = self.record(id).await?;
            if self.wait_for_turn(&record, &mut turn).await {
                continue;
            }
            let machine = self.machine(&record.workflow, record.schema)?;
            // As with ledger actions: use the current record, which may have changed since the lease.
            let Directive::Run(work) = machine.directive(&record, ticket)? else {
                return Err(Error::Contended(id));
            };
            let watch = Stopwatch::start();
            let (result, also, settle) = match self.injected_fault(&work.action, call) {
                InjectedFault::Before(error) => (Err(error), ExtraWrites::default(), Some(settle)),
                bend => match self.check_children(&work.action, &record, call, settle).await {
                    Err(Error::Store(store::Error::Conflict { .. })) => {
                        self.inner.metrics.conflict();
                        continue;
                    }
                    Err(error) => return Err(error),
                    Ok(looked) => match (looked, bend) {
                        (ChildCheck::Started, InjectedFault::After(error)) => {
                            (Err(error), ExtraWrites::default(), None)
                        }
                        (ChildCheck::Settled(_, also), InjectedFault::After(error)) => {
                            (Err(error), *also, Some(settle))
                        }
                        (ChildCheck::Started, _) => {
                            self.count(
                                id,
                                (work.action.name, work.action.cluster()),
                                &Ok(Value::Null),
                                watch.elapsed(),
                            );
                            return Ok(());
                        }
                        (ChildCheck::Settled(result, also), _) => (result, *also, Some(settle)),
                    },
                },
            };
            self.count(id, (work.action.name, work.action.cluster()), &result, watch.elapsed());
            let next = machine.advance(
                &record,
                Event::Settled { ticket, result, tried: None },
                self.inner.clock.now(),
            )?;
            match self.commit(Some(record.revision), next, settle, also).await {
                Err(Error::Store(store::Error::Conflict { .. })) => self.inner.metrics.conflict(),
                other => return other.map(|_| ()),
            }
        }
        Err(Error::Contended(id))
    }

    async fn check_children(
        &self,
        deed: &ErasedAction<P>,
        record: &Record,
        call: &Call,
        settle: Settle,
    ) -> Result<ChildCheck, Error> {
        let links = self.links(call).await?;
        match &deed.kind {
            ErasedActionKind::Child(child) => match links.into_iter().next_back() {
                None => self.start_child(&**child, record, &Parent::for_slot(call, 1), settle).await,
                Some((link, _)) if link.failed => {
                    let attempt = link.parent.attempt.saturating_add(1);
                    self.start_child(&**child, record, &Parent::for_slot(call, attempt), settle).await
                }
                Some((link, read)) => self.check_child(&**child, link, read, settle.task).await,
            },
            ErasedActionKind::CancelChild => self.cancel_children(links, record.id, settle.task).await,
            ErasedActionKind::Actuator(_) | ErasedActionKind::Ledger(_) => Err(Error::Contended(record.id)),
        }
    }

    /// Returns the children that the slot of `call` has started, latest last.
    async fn links(&self, call: &Call) -> Result<Vec<(Child, Read)>, Error> {
        let prefix = Parent::prefix(call);
        let page =
            self.inner.store.documents(collection::CHILDREN, &prefix, None, MAX_CHILDREN_OF_A_SLOT).await?;
        let mut links = Vec::new();
        for found in &page.items {
            let read = Read { key: found.key.clone(), version: Some(found.version) };
            links.push((parse::<Child>(found)?, read));
        }
        links.sort_by_key(|(link, _)| link.parent.attempt);
        Ok(links)
    }

    async fn link(&self, key: &Key) -> Result<(Option<Child>, Read), Error> {
        let found = self.inner.store.document(key).await?;
        let read = Read { key: key.clone(), version: found.as_ref().map(|document| document.version) };
        Ok((found.as_ref().map(parse).transpose()?, read))
    }

    /// Starts the child in one commit with its link and with the parent's task, which becomes due again. The next
    /// commit then waits, conditional on the current parent.
    async fn start_child(
        &self,
        child: &dyn ErasedChild,
        record: &Record,
        parent: &Parent,
        settle: Settle,
    ) -> Result<ChildCheck, Error> {
        let now = caused_at(self.inner.clock.now(), record.updated_at);
        let standing = self.machine(&record.workflow, record.schema)?.parent_authority(record)?;
        let requester = standing.requester.clone().map(Box::new);
        let by = Person::new(&*record.requested_by, [""; 0]).with_provenance(requester);
        let descent = match parent_link(child, parent, standing) {
            Ok(descent) => descent,
            Err(error) => return Ok(ChildCheck::Settled(Err(error), Box::default())),
        };
        let id = ExecutionId::new(now, self.inner.clock.entropy());
        let machine = self.machine(child.workflow(), child.schema())?;
        let given = VersionedInput { schema: child.schema(), data: child.data() };
        let next = match machine.open(id, given, &by, now, Some(descent)) {
            Ok(next) => next,
            Err(error) => {
                let error = ActionError::permanent("child.unreadable", error);
                return Ok(ChildCheck::Settled(Err(error), Box::default()));
            }
        };
        let link = Child {
            execution: id,
            workflow: child.workflow().into(),
            subject: next.record.subject.clone(),
            parent: parent.clone(),
            started_at: now,
            outcome: next.finished,
            waiter: Some(settle.task),
            failed: false,
        };
        let entry = started_entry(record, &link, now);
        let head = Put { key: Parent::head(record.id), body: Some(b"{}".to_vec()) };
        let also = ExtraWrites {
            reads: vec![Read { key: parent.key(), version: None }],
            documents: vec![link.to_put(), head],
            journal: vec![entry],
            tasks: vec![Task { id: settle.task, due: now, body: Vec::new() }],
        };
        match self.commit(None, next, Some(settle), also).await {
            Ok(_) => {
                self.inner.metrics.started(child.workflow());
                tracing::info!(execution = %id, trace_id = %id.trace_id(), workflow = child.workflow(), parent = %record.id, "started");
                Ok(ChildCheck::Started)
            }
            Err(Error::Store(store::Error::Busy { guard, holder })) => {
                let why = format!("execution {holder} holds {guard:?}");
                Ok(ChildCheck::Settled(Err(pending("child.guard_taken", GUARD_RETRY, why)), Box::default()))
            }
            Err(error) => Err(error),
        }
    }

    /// Returns how the child has ended, or that it is still open.
    async fn check_child(
        &self,
        child: &dyn ErasedChild,
        link: Child,
        read: Read,
        waiter: TaskId,
    ) -> Result<ChildCheck, Error> {
        let (record, ended) = self.child(&link).await?;
        Ok(match ended {
            Some(ended) => {
                let result = child.slot_result(link.execution, &record.state, ended);
                let failed = result.is_err().then(|| Child { failed: true, ..link }.to_put());
                let also = ExtraWrites {
                    reads: vec![read],
                    documents: failed.into_iter().collect(),
                    ..ExtraWrites::default()
                };
                ChildCheck::Settled(result, Box::new(also))
            }
            None => {
                pending_child(link, read, waiter, if record.phase == "parked" { PARKED } else { RUNNING })
            }
        })
    }

    /// Cancels the child and waits for its end. A child that was never started needs no cancel: its start is fenced.
    async fn cancel_children(
        &self,
        links: Vec<(Child, Read)>,
        parent: ExecutionId,
        waiter: TaskId,
    ) -> Result<ChildCheck, Error> {
        let mut answer = json!({ "child": null });
        for (link, read) in links {
            if link.outcome.is_none() {
                let order = Attribution {
                    by: format!("execution {parent}"),
                    reason: "its parent is being undone".into(),
                };
                match self.deliver(link.execution, Event::CancelRequested(order)).await {
                    Ok(_) | Err(Error::Refused(_)) => {}
                    Err(error) => return Err(error),
                }
            }
            // If the cancel has already ended it, `read` is out of date, and the check runs again.
            let (record, ended) = self.child(&link).await?;
            match ended {
                Some(ended) if !is_kept_after_cancel(&answer) => answer = cancel_result(&link, &ended),
                Some(_) => {}
                None if record.phase == "parked" => return Ok(pending_child(link, read, waiter, PARKED)),
                None if record.phase == "compensating" => {
                    return Ok(pending_child(link, read, waiter, CANCELLING));
                }
                None => return Ok(pending_child(link, read, waiter, GOING_FORWARD)),
            }
        }
        Ok(ChildCheck::Settled(Ok(answer), Box::default()))
    }

    async fn child(&self, link: &Child) -> Result<(Record, Option<FinishedChild>), Error> {
        let record = self.record(link.execution).await?;
        let machine: &Arc<dyn ErasedWorkflow<P>> = self.machine(&record.workflow, record.schema)?;
        let ended = if record.open { None } else { machine.finished_child(&record)? };
        Ok((record, ended))
    }

    /// Returns the messages of an execution that ends, for the same commit: it notifies and wakes its parent, and
    /// after a termination it asks open children to cancel.
    pub(crate) async fn settle_relatives(
        &self,
        next: &crate::model::erased_workflow::TransitionCommit,
        also: &mut ExtraWrites,
    ) -> Result<(), Error> {
        let Some(outcome) = next.finished else { return Ok(()) };
        if let Some(parent) = next.parent.as_ref().filter(|parent| !also.writes(&parent.key())) {
            let (link, read) = self.link(&parent.key()).await?;
            if let Some(link) = link {
                let now = self.inner.clock.now();
                let woken = link.waiter.map(|id| Task { id, due: now, body: Vec::new() });
                also.documents.push(Child { outcome: Some(outcome), waiter: None, ..link }.to_put());
                also.reads.push(read);
                also.tasks.extend(woken);
            }
        }
        if outcome == crate::Outcome::Terminated {
            let key = Parent::head(next.record.id);
            let head = self.inner.store.document(&key).await?;
            let Some(head) = head else {
                also.reads.push(Read { key, version: None });
                return Ok(());
            };
            also.reads.push(Read { key, version: Some(head.version) });
            let order = Attribution {
                by: format!("execution {}", next.record.id),
                reason: "its parent was terminated".into(),
            };
            let children = self.open_children(next.record.id).await?;
            let (ask, now) = (Message::Cancel(order), self.inner.clock.now());
            also.tasks.extend(children.iter().map(|child| ask.task(child.execution, now)));
        }
        Ok(())
    }
}

/// Returns the parent's journal entry about the child that `link` names.
fn started_entry(record: &Record, link: &Child, at: Timestamp) -> Entry {
    let detail = json!({
        "child": link.execution, "workflow": link.workflow, "subject": link.subject, "slot": link.parent.slot,
    });
    Entry {
        sequence: Sequence(0),
        execution: record.id,
        at,
        actor: "engine".into(),
        event: "child_started".into(),
        from: record.state.clone(),
        to: record.state.clone(),
        detail: serde_json::to_vec(&detail).unwrap_or_default(),
    }
}

const RUNNING: (&str, &str) = ("child.running", "has not ended");
const PARKED: (&str, &str) = ("child.parked", "is parked and needs an operator");
const CANCELLING: (&str, &str) = ("child.cancelling", "is being undone");
const GOING_FORWARD: (&str, &str) =
    ("child.goes_on", "is letting running attempts end, or is past its point of no return");

fn pending_child(link: Child, read: Read, waiter: TaskId, (code, doing): (&str, &str)) -> ChildCheck {
    let why = format!("{} {} about {} {doing}", link.workflow, link.execution, link.subject);
    let mut also = ExtraWrites { reads: vec![read], ..ExtraWrites::default() };
    if link.waiter != Some(waiter) {
        also.documents.push(Child { waiter: Some(waiter), ..link }.to_put());
    }
    ChildCheck::Settled(Err(pending(code, CHECK_INTERVAL, why)), Box::new(also))
}

fn pending(code: &str, after: Duration, message: String) -> ActionError {
    ActionError { message, ..ActionError::pending(code, after) }
}

/// Returns the parent's authority, for a child that uses it.
fn parent_link(
    child: &dyn ErasedChild,
    parent: &Parent,
    standing: ParentAuthority,
) -> Result<ParentLink, ActionError> {
    let parent = parent.clone();
    if !child.uses_parent_authority() {
        return Ok(ParentLink { parent, authority: None });
    }
    let Some(authoriser) = standing.authoriser else {
        return Err(ActionError::permanent("child.unauthorised", "nothing has authorised the parent's plan"));
    };
    let plan = child.plan();
    let (parent_plan, digest) = &*standing.plan;
    if !parent_plan.covers(&plan) {
        let why = format!("the parent's plan {digest} does not cover {:?}", plan.title);
        return Err(ActionError::permanent("child.not_in_plan", why));
    }
    Ok(ParentLink { parent, authority: Some((digest.clone(), authoriser)) })
}
