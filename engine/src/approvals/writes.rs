//! The documents and notifications that one event writes about approvals.
//!
//! Called when an event is turned into a commit. Invariant: the ids follow from the event, so each is written once.

use crate::{
    ApprovalCase, Ballot, Edge, Execution, Notification, Review, Ruling, Workflow,
    model::{definition::step::ASKED_AGAIN, documents::collection},
};
use serde::Serialize;
use store::{Key, Put, Record, Timestamp};

/// The approval that stood before an event.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked {
    /// [`Execution::entered`] at its time.
    entered: u32,
    /// How much of its history is on paper.
    told: usize,
    /// Somebody has decided alone, and everybody was told.
    broken: bool,
    /// People were asked, and told so.
    open: bool,
    /// How many votes they were told of.
    votes: usize,
}

impl Asked {
    /// What of the approval of `execution` is on paper.
    pub(crate) fn of<W: Workflow>(execution: &Execution<W>) -> Self {
        let ballot = execution.ballot.as_ref();
        Self {
            entered: execution.entered,
            told: ballot.map_or(0, |ballot| ballot.history.len()),
            broken: ballot.is_some_and(|ballot| ballot.broken_by().is_some()),
            open: ballot.is_some(),
            votes: ballot.map_or(0, |ballot| ballot.votes.len()),
        }
    }

    /// The same for the approval of this number: nothing, if it is another one.
    fn for_number(self, entered: u32) -> Self {
        if entered == self.entered {
            self
        } else {
            Self { entered, told: 0, broken: false, open: false, votes: 0 }
        }
    }
}

/// What an event put on paper about approvals.
#[derive(Debug, Default)]
pub(crate) struct Papers {
    pub(crate) documents: Vec<Put>,
    /// Who decided alone, if anybody did.
    pub(crate) broken: Option<Review>,
}

/// All that is to be written about approvals after an event: `closed` was asked for in the state `asked_in`.
pub(crate) fn papers<W: Workflow>(
    record: &Record,
    execution: &Execution<W>,
    (closed, asked_in): (Option<(u32, Ballot)>, &str),
    (asked, edges): (Asked, &[Edge]),
    at: Timestamp,
) -> Papers {
    let mut papers = Papers::default();
    if let Some((entered, ballot)) = closed {
        let ruling = ballot.ruling.map_or("withdrawn", Ruling::name).to_owned();
        let case = case(record, execution, entered, ballot, asked_in);
        let case = ApprovalCase { ruling: Some(ruling.clone()), closed_at: Some(at), ..case };
        let asked = asked.for_number(entered);
        papers.tell(&case, asked);
        if asked.open {
            papers.notify(Notification::closed(&case, &ruling, at));
        }
        papers.put(collection::OPEN, &case.id, None::<&ApprovalCase>);
        papers.put(collection::CLOSED, &case.id, Some(&case));
    }
    if let Some(ballot) = &execution.ballot {
        let case = case(record, execution, execution.entered, ballot.clone(), &record.state);
        let asked = asked.for_number(execution.entered);
        papers.tell(&case, asked);
        if edges.iter().any(|edge| edge.label == ASKED_AGAIN) {
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

fn case<W: Workflow>(
    record: &Record,
    execution: &Execution<W>,
    entered: u32,
    ballot: Ballot,
    state: &str,
) -> ApprovalCase {
    ApprovalCase {
        id: format!("{}.{entered}", record.id),
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

impl Papers {
    fn put<T: Serialize>(&mut self, collection: &str, id: &str, body: Option<&T>) {
        let body = body.map(|body| serde_json::to_vec(body).unwrap_or_default());
        self.documents.push(Put { key: Key::new(collection, id), body });
    }

    fn notify(&mut self, notification: Notification) {
        self.put(collection::NOTIFICATIONS, &notification.id, Some(&notification));
    }

    /// Tells people what of the history is not on paper yet, and of a vote that decided alone.
    fn tell(&mut self, case: &ApprovalCase, asked: Asked) {
        for (number, happened) in case.history.iter().enumerate().skip(asked.told) {
            if let Some(notification) = Notification::of(case, number, happened) {
                self.notify(notification);
            }
        }
        let Some(vote) = case.broken_by().filter(|_| !asked.broken) else { return };
        let review = Review::of(case, vote);
        self.notify(Notification::glass_broken(case, vote));
        self.put(collection::REVIEWS, &case.id, Some(&review));
        self.broken = Some(review);
    }
}
