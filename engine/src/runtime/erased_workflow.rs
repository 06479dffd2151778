//! A workflow with its type forgotten, between stored bytes and the pure core.

use crate::{
    Authoriser, Child, Diagram, Edge, Effect, Error, Event, Execution, Mark, Notification, Outcome, Parent,
    Phase, Plan, PlanDigest, Review, Ruling, Ticket, Workflow,
    approvals::record::{Asked, Papers, papers},
    authoring::diagram::diagram,
    core::{
        directive::{Directive, directive},
        transition::{Transition, transition},
    },
    model::{
        child::{Descent, Ended},
        execution::state_named,
        input::Given,
    },
    runtime::execution_cache::Decoded,
    search::attributes::attributes,
};
#[cfg(feature = "testing")]
use crate::{Ballot, Step};
use serde::Serialize;
use serde_json::{Value, json};
use std::panic::{AssertUnwindSafe, catch_unwind};
use store::{
    Entry, ExecutionId, Put, Record, Revision, Sequence, Task, TaskId, Timestamp, encrypted::Unopened,
};

/// The collections the engine keeps beside its records.
pub(crate) mod collection {
    pub(crate) const OPEN: &str = "approvals";
    pub(crate) const CLOSED: &str = "approvals-closed";
    pub(crate) const REVIEWS: &str = "approval-reviews";
    pub(crate) const REVIEWED: &str = "approval-reviews-done";
    pub(crate) const NOTIFICATIONS: &str = "notifications";
    pub(crate) const REQUESTS: &str = "requests";
    pub(crate) const CHILDREN: &str = "children";
    pub(crate) const PROPOSALS: &str = "proposals";
}

/// An execution as people see it.
#[derive(Clone, Debug, Serialize)]
pub struct Shown {
    /// The state, phase, trail and all else the engine keeps, and the workflow's data, as stored.
    pub body: Value,
    /// The plan as the data stands.
    pub plan: Plan,
    /// Its digest; empty where the plan is not known, because only another version of the software can read it.
    pub digest: PlanDigest,
    /// What it has started, in the order of its slots.
    pub children: Vec<Child>,
}

impl Shown {
    /// What is stored, of an execution that this engine has no code for.
    pub(crate) fn as_stored(record: &Record, plan: Plan, digest: PlanDigest) -> Result<Self, Error> {
        there(record)?;
        let unreadable = |e: serde_json::Error| Error::Unreadable { id: record.id, why: e.to_string() };
        let body = serde_json::from_slice(&record.body).map_err(unreadable)?;
        Ok(Self { body, plan, digest, children: Vec::new() })
    }
}

/// An execution as one that it starts looks at it.
#[derive(Debug)]
pub(crate) struct Standing {
    pub(crate) plan: Plan,
    pub(crate) digest: PlanDigest,
    pub(crate) authoriser: Option<Authoriser>,
}

/// What an execution waits for that does not come from the engine.
#[cfg(feature = "testing")]
#[derive(Debug)]
pub(crate) enum Awaits {
    /// Those whom the approval of this visit asks at this stage.
    People {
        visit: u32,
        stage: usize,
    },
    Signal(&'static str),
    Nothing,
}

/// All that a transition asks the store to commit.
#[derive(Debug)]
pub(crate) struct Next {
    pub(crate) record: Record,
    pub(crate) journal: Vec<Entry>,
    pub(crate) schedule: Vec<Task>,
    pub(crate) retire: Vec<TaskId>,
    pub(crate) documents: Vec<Put>,
    pub(crate) edges: Vec<Edge>,
    /// The reason code, if this event parked the execution.
    pub(crate) parked: Option<&'static str>,
    /// Who decided alone by this event, if anybody did.
    pub(crate) broken: Option<Review>,
    /// The outcome, if this event finished it.
    pub(crate) finished: Option<Outcome>,
    /// Whether it is over by when that was promised, if it was and this event finished it.
    pub(crate) kept: Option<bool>,
    /// How an approval ended by this event, if one did.
    pub(crate) ruled: Option<Ruling>,
    /// What started it, if another execution did.
    pub(crate) parent: Option<Parent>,
}

pub(crate) trait Machine<P>: Send + Sync {
    fn diagram(&self) -> Diagram;
    /// The schema that it writes.
    fn schema(&self) -> u32;
    /// An execution of an earlier schema as it is written now; `None` if it is so already.
    fn upgraded(&self, record: &Record, at: Timestamp) -> Result<Option<Record>, Error>;
    fn open(
        &self,
        id: ExecutionId,
        given: Given,
        by: &str,
        at: Timestamp,
        of: Option<Descent>,
    ) -> Result<Next, Error>;
    fn advance(&self, record: &Record, event: Event, at: Timestamp) -> Result<Next, Error>;
    fn directive(&self, record: &Record, ticket: Ticket) -> Result<Directive<P>, Error>;
    fn show(&self, record: &Record) -> Result<Shown, Error>;
    fn standing(&self, record: &Record) -> Result<Standing, Error>;
    /// How a finished execution ended; `None` while it is open.
    fn ended(&self, record: &Record) -> Result<Option<Ended>, Error>;
    #[cfg(feature = "testing")]
    fn awaits(&self, record: &Record) -> Result<Awaits, Error>;
}

pub(crate) struct Of<W: Workflow>(Decoded<W>);

impl<W: Workflow> Of<W> {
    pub(crate) fn new() -> Self {
        Self(Decoded::default())
    }
}

impl<W: Workflow> Machine<W::Platform> for Of<W> {
    fn diagram(&self) -> Diagram {
        diagram::<W>()
    }

    fn schema(&self) -> u32 {
        W::SCHEMA
    }

    fn upgraded(&self, record: &Record, at: Timestamp) -> Result<Option<Record>, Error> {
        if record.schema == W::SCHEMA {
            return Ok(None);
        }
        sheltered(record.id, || upgraded::<W>(record, at).map(Some))
    }

    fn open(
        &self,
        id: ExecutionId,
        given: Given,
        by: &str,
        at: Timestamp,
        of: Option<Descent>,
    ) -> Result<Next, Error> {
        let data = given.read::<W>(id)?;
        let mut execution = Execution::new(data, by, at);
        if W::AUTHORISED_BY_PARENT {
            let Some(descent) = &of else { return Err(Error::NeedsParent { workflow: W::NAME.into() }) };
            execution.authorisation = descent.authorisation(execution.digest());
        }
        execution.parent = of.map(|descent| descent.parent);
        let record = Record {
            id,
            revision: Revision(0),
            workflow: W::NAME.into(),
            schema: W::SCHEMA,
            tenant: String::new(),
            subject: String::new(),
            guard: None,
            state: String::new(),
            phase: String::new(),
            reason: None,
            open: true,
            requested_by: by.into(),
            created_at: at,
            updated_at: at,
            attributes: store::Attributes::new(),
            body: Vec::new(),
        };
        sheltered(id, || step_on(&record, execution, Event::Started, at))
    }

    fn advance(&self, record: &Record, event: Event, at: Timestamp) -> Result<Next, Error> {
        sheltered(record.id, || {
            let before = self.0.take(record).map_or_else(|| decode::<W>(record), Ok)?;
            step_on(record, before, event, at)
        })
    }

    fn directive(&self, record: &Record, ticket: Ticket) -> Result<Directive<W::Platform>, Error> {
        sheltered(record.id, || {
            let execution = decode::<W>(record)?;
            let directive = directive(&execution, ticket);
            if matches!(directive, Directive::Run(_)) {
                self.0.keep(record, execution);
            }
            Ok(directive)
        })
    }

    fn show(&self, record: &Record) -> Result<Shown, Error> {
        let execution = decode::<W>(record)?;
        let unreadable = |e: serde_json::Error| Error::Unreadable { id: record.id, why: e.to_string() };
        let (plan, digest) = (execution.data.plan(), execution.digest());
        let body = serde_json::to_value(&execution).map_err(unreadable)?;
        Ok(Shown { body, plan, digest, children: Vec::new() })
    }

    fn standing(&self, record: &Record) -> Result<Standing, Error> {
        let execution = decode::<W>(record)?;
        let (plan, digest) = (execution.data.plan(), execution.digest());
        Ok(Standing { plan, digest, authoriser: execution.authorisation.map(|given| given.by) })
    }

    fn ended(&self, record: &Record) -> Result<Option<Ended>, Error> {
        let execution = decode::<W>(record)?;
        let Phase::Finished { outcome, cause, leaks } = execution.phase else { return Ok(None) };
        let stands = outcome == Outcome::Completed || execution.pivot.is_some() || !leaks.is_empty();
        let data = serde_json::to_value(&execution.data)
            .map_err(|e| Error::Unreadable { id: record.id, why: e.to_string() })?;
        Ok(Some(Ended { outcome, cause, stands, data }))
    }

    #[cfg(feature = "testing")]
    fn awaits(&self, record: &Record) -> Result<Awaits, Error> {
        let execution = decode::<W>(record)?;
        if !matches!(execution.phase, Phase::Forward) {
            return Ok(Awaits::Nothing);
        }
        Ok(match execution.data.step(execution.state) {
            Step::Approval(_) => Awaits::People {
                visit: execution.visit,
                stage: execution.ballot.as_ref().map_or(0, Ballot::stage),
            },
            Step::Wait(wait) => wait.signal.map_or(Awaits::Nothing, Awaits::Signal),
            Step::Act(_) | Step::Choose(_) | Step::End(_) => Awaits::Nothing,
        })
    }
}

/// A panic in a workflow's own code makes that execution unreadable, and no other.
fn sheltered<T>(id: ExecutionId, work: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
        let said =
            panic.downcast_ref::<String>().map(String::as_str).or(panic.downcast_ref::<&str>().copied());
        Err(Error::Unreadable {
            id,
            why: format!("a bug in the workflow: {}", said.unwrap_or("it panicked")),
        })
    })
}

fn decode<W: Workflow>(record: &Record) -> Result<Execution<W>, Error> {
    let unreadable = |why: String| Error::Unreadable { id: record.id, why };
    there(record)?;
    if record.schema == W::SCHEMA {
        return serde_json::from_slice(&record.body).map_err(|e| unreadable(e.to_string()));
    }
    if record.schema > W::SCHEMA {
        return Err(Error::NoWorker { workflow: record.workflow.clone(), schema: record.schema });
    }
    let mut body: Value = serde_json::from_slice(&record.body).map_err(|e| unreadable(e.to_string()))?;
    let data = body.get_mut("data").map(Value::take).unwrap_or_default();
    let data = W::upgrade(record.schema, data).map_err(|e| unreadable(e.to_string()))?;
    if let Some(fields) = body.as_object_mut() {
        fields.insert("data".into(), data);
        fields.entry("plan_schema").or_insert(record.schema.into());
    }
    serde_json::from_value(body).map_err(|e| unreadable(e.to_string()))
}

/// Fails when a body is sealed and cannot be opened.
fn there(record: &Record) -> Result<(), Error> {
    let id = record.id;
    match Unopened::of(&record.body) {
        None => Ok(()),
        Some(said) if said.destroyed_at.is_some() => Err(Error::Destroyed { id, what: said.to_string() }),
        Some(said) => Err(Error::Unreadable { id, why: said.to_string() }),
    }
}

/// The record as this version writes it: nothing but its shape is changed.
fn upgraded<W: Workflow>(record: &Record, at: Timestamp) -> Result<Record, Error> {
    let unreadable = |why: String| Error::Unreadable { id: record.id, why };
    there(record)?;
    // Asked for before the whole is read, so that what is in the way is named.
    let body: Value = serde_json::from_slice(&record.body).map_err(|e| unreadable(e.to_string()))?;
    let has = |name: &str| state_named::<W::State>(name).is_some();
    let lacks = |name: &str| format!("{name}, which schema {} does not have", W::SCHEMA);
    let state = body.get("state").and_then(Value::as_str).unwrap_or_default();
    if record.schema < W::SCHEMA && !has(state) {
        let why = lacks(state);
        return Err(unreadable(format!(
            "it stands in {why}: let it leave that state on a version that has it"
        )));
    }
    let execution = decode::<W>(record)?;
    if let Some(mark) = execution.trail.iter().find(|mark| mark.stands() && !has(&mark.state)) {
        let why = lacks(&mark.state);
        return Err(unreadable(format!(
            "its way back leads through {why}: let it end on a version that has it"
        )));
    }
    let subject = execution.data.subject();
    Ok(Record {
        schema: W::SCHEMA,
        tenant: subject.tenant,
        subject: subject.name,
        guard: subject.guard,
        updated_at: at,
        body: serde_json::to_vec(&execution).map_err(|e| unreadable(e.to_string()))?,
        ..record.clone()
    })
}

/// Takes one event, and turns what follows into what is to be committed.
fn step_on<W: Workflow>(
    record: &Record,
    before: Execution<W>,
    event: Event,
    at: Timestamp,
) -> Result<Next, Error> {
    let (from, from_phase) = (before.state_name(), before.phase_name());
    let promised = before.promised;
    let (visit, slots, was_finished) = (before.visit, before.slots.len(), is_finished(&before.phase));
    let was_parked = matches!(before.phase, Phase::Parked { .. });
    let was_broken = before.broken;
    let actor =
        if matches!(event, Event::Started) { record.requested_by.clone() } else { event.actor().to_owned() };
    let told = (event.name(), actor, told_of(&before, &event));
    let mended = mends(&event).then(|| stand(&before));
    let asked = Asked::of(&before);
    let Transition { execution, effects, edges, closed } = transition(before, event, at)?;

    let subject = execution.data.subject();
    let mut next = Record {
        schema: W::SCHEMA,
        tenant: subject.tenant,
        subject: subject.name,
        guard: subject.guard,
        state: execution.state_name().into(),
        phase: execution.phase_name().into(),
        reason: execution.reason_name().map(Into::into),
        open: !is_finished(&execution.phase),
        updated_at: at,
        attributes: attributes(&record.attributes, &execution, closed.as_ref().map(|(_, ballot)| ballot)),
        ..record.clone()
    };
    next.body = serde_json::to_vec(&execution)
        .map_err(|e| Error::Unreadable { id: record.id, why: e.to_string() })?;

    let turned = (from_phase != next.phase).then(|| format!("{from_phase} -> {}", next.phase));
    let left = left_behind(&execution);
    let mended = mended.map(|before| json!({ "before": before, "after": stand(&execution) }));
    let journal = history(&next, at, told, from, &edges, (turned.as_deref(), left, mended));
    let schedule = schedule(&next, &execution, effects, at);
    let mut retire = if visit == execution.visit { Vec::new() } else { tickets_of(record.id, visit, slots) };
    if promised.is_some() && execution.promised.is_none() {
        retire.push(alarm_of(record.id));
    }
    let ruled = closed.as_ref().and_then(|(_, ballot)| ballot.ruling);
    let finished = outcome(&execution.phase).filter(|_| !was_finished);
    let Papers { mut documents, broken } = papers(&next, &execution, (closed, from), (asked, &edges), at);
    let told = Notification::alarms(&next, &execution, (was_parked, was_broken, was_finished));
    documents.extend(told.iter().map(Notification::put));
    Ok(Next {
        broken,
        ruled,
        finished,
        kept: promised.filter(|_| finished.is_some()).map(|by| at < by && !was_broken),
        parked: execution
            .reason_name()
            .filter(|_| !was_parked && matches!(execution.phase, Phase::Parked { .. })),
        parent: execution.parent,
        record: next,
        journal,
        schedule,
        retire,
        documents,
        edges,
    })
}

/// The event as the journal keeps it; that of a child's start names its parent.
fn told_of<W: Workflow>(before: &Execution<W>, event: &Event) -> Value {
    match (event, &before.parent) {
        (Event::Started, Some(parent)) => json!({ "started": { "parent": parent } }),
        _ => serde_json::to_value(event).unwrap_or(Value::Null),
    }
}

/// Whether the event is a repair, whose history says how things stood before and after.
fn mends(event: &Event) -> bool {
    match event {
        Event::Seconded { event, .. } => mends(event),
        event => matches!(event, Event::Repaired { .. }),
    }
}

/// Where an execution stands, as the history of a repair keeps it.
fn stand<W: Workflow>(execution: &Execution<W>) -> Value {
    json!({
        "state": execution.state_name(),
        "phase": execution.phase,
        "slots": execution.slots,
        "data": execution.data,
    })
}

fn is_finished(phase: &Phase) -> bool {
    outcome(phase).is_some()
}

fn outcome(phase: &Phase) -> Option<Outcome> {
    match phase {
        Phase::Finished { outcome, .. } => Some(*outcome),
        Phase::Forward | Phase::Compensating(_) | Phase::Parked { .. } => None,
    }
}

/// What an execution that has finished could not take back.
fn left_behind<W: Workflow>(execution: &Execution<W>) -> Option<Value> {
    let Phase::Finished { leaks, .. } = &execution.phase else { return None };
    let leak = |mark: &Mark| json!({ "state": mark.state, "slot": mark.slot, "action": mark.action, "arguments": mark.arguments, "output": mark.output });
    (!leaks.is_empty()).then(|| leaks.iter().map(leak).collect())
}

/// One entry a way taken, so that every change of state is a line; the first tells the event.
fn history(
    next: &Record,
    at: Timestamp,
    (event, actor, told): (&str, String, Value),
    from: &str,
    edges: &[Edge],
    (turned, left, mended): (Option<&str>, Option<Value>, Option<Value>),
) -> Vec<Entry> {
    let entry = |event: &str, from: &str, to: &str, detail: Value| Entry {
        sequence: Sequence(0),
        execution: next.id,
        at,
        actor: actor.clone(),
        event: event.into(),
        from: from.into(),
        to: to.into(),
        detail: serde_json::to_vec(&detail).unwrap_or_default(),
    };
    let detail = |by: Option<&str>| {
        let mut detail = json!({ "event": told, "phase": turned });
        if let Some(fields) = detail.as_object_mut() {
            fields.extend(by.map(|by| ("by".into(), by.into())));
            fields.extend(left.map(|left| ("left_behind".into(), left)));
            fields.extend(mended.map(|mended| ("mended".into(), mended)));
        }
        detail
    };
    let Some((first, rest)) = edges.split_first() else {
        return vec![entry(event, from, &next.state, detail(None))];
    };
    let first = entry(event, &first.from, &first.to, detail(Some(&first.label)));
    let rest = rest.iter().map(|edge| entry("passed", &edge.from, &edge.to, json!({ "by": edge.label })));
    std::iter::once(first).chain(rest).collect()
}

fn schedule<W: Workflow>(
    next: &Record,
    execution: &Execution<W>,
    effects: Vec<Effect>,
    at: Timestamp,
) -> Vec<Task> {
    let task = |slot, after| Task {
        id: TaskId { execution: next.id, visit: execution.visit, slot },
        due: at.after(after),
        body: Vec::new(),
    };
    let tasks = effects.into_iter().map(|effect| match effect {
        Effect::Perform { slot, after } => task(slot, after),
        Effect::Wake { after } => task(Ticket::TIMER, after),
        Effect::Alarm { at } => Task { id: alarm_of(next.id), due: at, body: Vec::new() },
    });
    tasks.collect()
}

fn alarm_of(execution: ExecutionId) -> TaskId {
    TaskId { execution, visit: Ticket::ALARM.visit, slot: Ticket::ALARM.slot }
}

fn tickets_of(execution: ExecutionId, visit: u32, slots: usize) -> Vec<TaskId> {
    let slots = (0u32..).take(slots).chain([Ticket::TIMER]);
    slots.map(|slot| TaskId { execution, visit, slot }).collect()
}
