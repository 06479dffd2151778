//! The approval documents and notifications of one event.
//!
//! Called when an event becomes a commit. Invariant: the ids are derived from the event, so each document is written
//! once.

use crate::{
    ApprovalRecord, Ballot, Edge, Execution, Notification, Review, Ruling, Workflow,
    model::{definition::step::PLAN_CHANGED, documents::collection},
};
use serde::Serialize;
use store::{Key, Put, Record, Timestamp};

/// The approval before an event.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BallotBefore {
    /// [`Execution::states_entered`] at its time.
    states_entered: u32,
    /// The number of history entries that are already written.
    history_written: usize,
    /// True if break-glass was used and its notification is written.
    break_glass: bool,
    /// True if the opening and its notification are written.
    open: bool,
    /// The number of votes whose notifications are written.
    votes: usize,
}

impl BallotBefore {
    /// Returns the written state of the approval of `execution`.
    pub(crate) fn from_execution<W: Workflow>(execution: &Execution<W>) -> Self {
        let ballot = execution.ballot.as_ref();
        Self {
            states_entered: execution.states_entered,
            history_written: ballot.map_or(0, |ballot| ballot.history.len()),
            break_glass: ballot.is_some_and(|ballot| ballot.break_glass_vote().is_some()),
            open: ballot.is_some(),
            votes: ballot.map_or(0, |ballot| ballot.votes.len()),
        }
    }

    /// Returns the written state if the approval has this number, otherwise an empty state.
    fn for_number(self, states_entered: u32) -> Self {
        if states_entered == self.states_entered {
            self
        } else {
            Self { states_entered, history_written: 0, break_glass: false, open: false, votes: 0 }
        }
    }
}

/// The approval documents of an event.
#[derive(Debug, Default)]
pub(crate) struct ApprovalWrites {
    pub(crate) documents: Vec<Put>,
    /// The use of break-glass, if this event was one.
    pub(crate) break_glass: Option<Review>,
}

/// Returns all approval documents to write after an event. `closed` is a ballot that the event closed in state
/// `asked_in`.
pub(crate) fn approval_writes<W: Workflow>(
    record: &Record,
    execution: &Execution<W>,
    (closed, asked_in): (Option<(u32, Ballot)>, &str),
    (asked, edges): (BallotBefore, &[Edge]),
    at: Timestamp,
) -> ApprovalWrites {
    let mut papers = ApprovalWrites::default();
    if let Some((states_entered, ballot)) = closed {
        let ruling = ballot.ruling.map_or("withdrawn", Ruling::name).to_owned();
        let case = approval_record(record, execution, states_entered, ballot, asked_in);
        let case = ApprovalRecord { ruling: Some(ruling.clone()), closed_at: Some(at), ..case };
        let asked = asked.for_number(states_entered);
        papers.add_notifications(&case, asked);
        if asked.open {
            papers.notify(Notification::closed(&case, &ruling, at));
        }
        papers.put(collection::OPEN, &case.id, None::<&ApprovalRecord>);
        papers.put(collection::CLOSED, &case.id, Some(&case));
    }
    if let Some(ballot) = &execution.ballot {
        let case =
            approval_record(record, execution, execution.states_entered, ballot.clone(), &record.state);
        let asked = asked.for_number(execution.states_entered);
        papers.add_notifications(&case, asked);
        if edges.iter().any(|edge| edge.label == PLAN_CHANGED) {
            papers.notify(Notification::asked_again(&case, at));
        } else if !asked.open {
            papers.notify(Notification::opened(&case));
        }
        if let Some(vote) = case.votes.last().filter(|_| case.votes.len() > asked.votes) {
            papers.notify(Notification::voted(&case, vote));
        }
        papers.put(collection::OPEN, &case.id, Some(&case));
    }
    papers
}

fn approval_record<W: Workflow>(
    record: &Record,
    execution: &Execution<W>,
    states_entered: u32,
    ballot: Ballot,
    state: &str,
) -> ApprovalRecord {
    ApprovalRecord {
        id: format!("{}.{states_entered}", record.id),
        execution: record.id,
        workflow: record.workflow.clone(),
        tenant: record.tenant.clone(),
        subject: record.subject.clone(),
        state: state.to_owned(),
        plan: execution.data.plan(),
        digest: ballot.digest,
        seats: ballot.seats,
        votes: ballot.votes,
        requested_by: record.requested_by.clone(),
        opened_at: ballot.opened_at,
        deadline: ballot.deadline,
        ruling: ballot.ruling.map(|ruling| ruling.name().to_owned()),
        closed_at: None,
        procedure: ballot.procedure,
        history: ballot.history,
    }
}

impl ApprovalWrites {
    fn put<T: Serialize>(&mut self, collection: &str, id: &str, body: Option<&T>) {
        let body = body.map(|body| serde_json::to_vec(body).unwrap_or_default());
        self.documents.push(Put { key: Key::new(collection, id), body });
    }

    fn notify(&mut self, notification: Notification) {
        self.put(collection::NOTIFICATIONS, &notification.id, Some(&notification));
    }

    /// Adds notifications for new history entries and for break-glass.
    fn add_notifications(&mut self, case: &ApprovalRecord, asked: BallotBefore) {
        for (number, happened) in case.history.iter().enumerate().skip(asked.history_written) {
            if let Some(notification) = Notification::for_history_entry(case, number, happened) {
                self.notify(notification);
            }
        }
        let Some(vote) = case.break_glass_vote().filter(|_| !asked.break_glass) else { return };
        let review = Review::from_vote(case, vote);
        self.notify(Notification::break_glass_used(case, vote));
        self.put(collection::REVIEWS, &case.id, Some(&review));
        self.break_glass = Some(review);
    }
}
