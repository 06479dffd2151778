//! The subject of a stream, and the changes that the caller may see, by the same scope and conditions as the lists.

use crate::{
    auth::Caller,
    http::{
        problem::Problem,
        resources::{approvals::WatchParams, search},
    },
    state::{
        ServerState,
        change_feed::{
            Topic,
            change::{Change, ChangeKind, Forgotten},
            quota::WatcherIdentity,
        },
    },
};
use std::collections::HashMap;
use store::{ExecutionId, Query, Record};

/// The maximum number of executions whose match a stream remembers.
const REMEMBERED: usize = 10_000;

/// The subject of a stream.
#[derive(Debug)]
pub(super) enum Subject {
    /// One execution.
    One {
        /// The id of the execution.
        id: ExecutionId,
        /// True if it had already ended.
        over: bool,
    },
    /// The results of a search.
    Found(Box<Conditions>),
    /// Approvals.
    Approvals(WatchParams),
}

/// The search conditions of a stream.
#[derive(Debug)]
pub(super) struct Conditions {
    /// The requested conditions.
    pub(super) wanted: search::SearchParams,
    /// The scope of the caller.
    scope: Query,
    said: Query,
    /// For each changed execution: true if the client counts it as a match.
    known: HashMap<ExecutionId, bool>,
    /// True if the client knows no execution outside of `known`.
    complete: bool,
}

/// An event: its name, and its data as JSON.
pub(super) type StreamEvent<'a> = (&'static str, std::borrow::Cow<'a, str>);

impl Subject {
    pub(super) fn one(record: &Record) -> Self {
        Self::One { id: record.id, over: !record.open }
    }

    pub(super) fn found(
        app: &ServerState,
        caller: &Caller,
        wanted: search::SearchParams,
    ) -> Result<Self, Problem> {
        wanted.begins()?;
        let (scope, said) = (search::scope(caller), search::said(app, &wanted)?);
        let conditions = Conditions { wanted, scope, said, known: HashMap::new(), complete: false };
        Ok(Self::Found(Box::new(conditions)))
    }

    pub(super) fn topic(&self) -> Topic {
        match self {
            Self::One { id, .. } => Topic::One(*id),
            Self::Found(_) => Topic::All,
            Self::Approvals(_) => Topic::Approvals,
        }
    }

    /// Returns the event of a change, if the stream sends it.
    pub(super) fn tells<'a>(
        &mut self,
        app: &ServerState,
        standing: &WatcherIdentity,
        change: &'a Change,
    ) -> Vec<StreamEvent<'a>> {
        match (self, &change.what) {
            (Self::One { id, .. }, _) if *id != change.execution => Vec::new(),
            (Self::One { .. }, ChangeKind::Went(went)) => vec![("changed", went.text.as_str().into())],
            (Self::One { .. }, ChangeKind::Forgotten(gone)) => vec![forgotten(gone)],
            (Self::Found(conditions), ChangeKind::Went(went)) => {
                let name = conditions.of(app, &went.record);
                name.map(|name| (name, went.text.as_str().into())).into_iter().collect()
            }
            (Self::Found(conditions), ChangeKind::Forgotten(gone)) => {
                let was = standing.caller.sees(&gone.tenant) && conditions.leaves(gone.execution);
                if was { vec![forgotten(gone)] } else { Vec::new() }
            }
            (Self::Approvals(watched), ChangeKind::Went(went)) => {
                let WatcherIdentity { caller, person } = standing;
                let cases = went.cases.iter().filter(|asked| watched.takes(caller, person, &asked.case));
                cases.map(|asked| (asked.name, asked.text.as_str().into())).collect()
            }
            (Self::Approvals(_), ChangeKind::Forgotten(_)) => Vec::new(),
        }
    }
}

fn forgotten(gone: &Forgotten) -> StreamEvent<'static> {
    let data = serde_json::json!({ "execution": gone.execution.to_string() });
    ("forgotten", data.to_string().into())
}

impl Conditions {
    /// Returns the query at this time.
    pub(super) fn query(&self) -> Query {
        self.scope.clone().and(self.said.clone())
    }

    /// Records that the present list was sent: these rows, and `complete` if there are no others.
    pub(super) fn begins(&mut self, shown: &[Record], complete: bool) {
        self.known = shown.iter().map(|record| (record.id, true)).collect();
        self.complete = complete;
    }

    /// Records that the client's present state is unknown.
    pub(super) fn goes_on(&mut self) {
        self.known.clear();
        self.complete = false;
    }

    /// Returns the event of a changed execution; `None` if it is not relevant.
    fn of(&mut self, app: &ServerState, record: &Record) -> Option<&'static str> {
        if !self.scope.accepts(record) {
            return None;
        }
        if mentions_time(&self.said)
            && let Ok(said) = search::said(app, &self.wanted)
        {
            self.said = said;
        }
        if self.said.accepts(record) {
            self.remember(record.id, true);
            return Some("changed");
        }
        self.leaves(record.id).then_some("left")
    }

    /// Returns true if the client may count the execution as a match that no longer matches. Records that it does not.
    fn leaves(&mut self, id: ExecutionId) -> bool {
        let was = self.known.get(&id).copied().unwrap_or(!self.complete);
        if was {
            self.remember(id, false);
        }
        was
    }

    fn remember(&mut self, id: ExecutionId, matches: bool) {
        if self.known.len() >= REMEMBERED && !self.known.contains_key(&id) {
            self.goes_on();
        }
        self.known.insert(id, matches);
    }
}

/// Returns true if the result of the query changes with time.
fn mentions_time(query: &Query) -> bool {
    match query {
        Query::CreatedBetween { .. } | Query::UpdatedBetween { .. } => true,
        Query::And(all) | Query::Or(all) => all.iter().any(mentions_time),
        Query::Not(query) => mentions_time(query),
        Query::All | Query::Is { .. } | Query::StartsWith { .. } | Query::Has { .. } => false,
    }
}
