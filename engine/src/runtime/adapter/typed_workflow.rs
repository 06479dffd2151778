//! Implements the erased workflow for every [`Workflow`].

use super::{
    advance::take_event,
    decode::{decode, upgraded},
    execution_cache::{ExecutionCache, Known},
};
#[cfg(feature = "testing")]
use crate::model::erased_workflow::AwaitedInput;
use crate::{
    Diagram, Error, Event, Execution, ExecutionView, Outcome, Person, Phase, Step, TaskRef, Workflow,
    core::{directive::directive, known_step::KnownStep},
    diagram,
    model::{
        definition::child::{FinishedChild, ParentLink},
        erased_workflow::{ErasedWorkflow, ParentAuthority, TransitionCommit},
        execution::directive::Directive,
        input::VersionedInput,
    },
    runtime::clock::caused_at,
};
use std::panic::{AssertUnwindSafe, catch_unwind};
use store::{ExecutionId, Record, Revision, Timestamp};

#[cfg(feature = "testing")]
use crate::Ballot;
pub(crate) struct TypedWorkflow<W: Workflow>(ExecutionCache<W>);

impl<W: Workflow> TypedWorkflow<W> {
    pub(crate) fn new() -> Self {
        Self(ExecutionCache::default())
    }

    /// Returns the execution of `record`, and removes it from the cache.
    fn decoded(&self, record: &Record) -> Result<Known<W>, Error> {
        let decode = || decode::<W>(record).map(|execution| (execution, KnownStep::default()));
        self.0.take(record).map_or_else(decode, Ok)
    }
}

impl<W: Workflow> ErasedWorkflow<W::Platform> for TypedWorkflow<W> {
    fn diagram(&self) -> Diagram {
        diagram::<W>()
    }

    fn schema(&self) -> u32 {
        W::SCHEMA
    }

    fn upgrade(&self, record: &Record, at: Timestamp) -> Result<Option<Record>, Error> {
        if record.schema == W::SCHEMA {
            return Ok(None);
        }
        catch_panics(record.id, || upgraded::<W>(record, at).map(Some))
    }

    fn open(
        &self,
        id: ExecutionId,
        given: VersionedInput,
        by: &Person,
        at: Timestamp,
        of: Option<ParentLink>,
    ) -> Result<TransitionCommit, Error> {
        let data = given.read::<W>(id)?;
        let mut execution = Execution::new(data, &*by.name, at);
        execution.requester = by.provenance.as_deref().cloned();
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
            requested_by: by.name.clone(),
            created_at: at,
            updated_at: at,
            attributes: store::Attributes::new(),
            body: Vec::new(),
        };
        let known = (execution, KnownStep::default());
        catch_panics(id, || take_event(&record, known, Event::Started, at).map(|(commit, _)| commit))
    }

    fn advance(&self, record: &Record, event: Event, at: Timestamp) -> Result<TransitionCommit, Error> {
        // Another server may have written what this follows on, with a clock that is ahead.
        let at = caused_at(at, record.updated_at);
        catch_panics(record.id, || {
            let before = self.decoded(record)?;
            let (commit, after) = take_event(record, before, event, at)?;
            if let Some(after) = after {
                self.0.insert_written(&commit.record, after);
            }
            Ok(commit)
        })
    }

    fn directive(&self, record: &Record, ticket: TaskRef) -> Result<Directive<W::Platform>, Error> {
        catch_panics(record.id, || {
            let (execution, mut known) = self.decoded(record)?;
            let directive = directive(&execution, ticket, &mut known);
            if matches!(directive, Directive::Run(_)) {
                self.0.insert(record, (execution, known));
            }
            Ok(directive)
        })
    }

    fn show(&self, record: &Record) -> Result<ExecutionView, Error> {
        let execution = decode::<W>(record)?;
        let unreadable = |e: serde_json::Error| Error::Unreadable { id: record.id, why: e.to_string() };
        let (plan, digest) = (execution.data.plan(), execution.digest());
        let body = serde_json::to_value(&execution).map_err(unreadable)?;
        Ok(ExecutionView { body, plan, digest, children: Vec::new() })
    }

    fn parent_authority(&self, record: &Record) -> Result<ParentAuthority, Error> {
        let (execution, mut known) = self.decoded(record)?;
        let plan = known.plan(&execution);
        let authoriser = execution.authorisation.as_ref().map(|given| given.by.clone());
        let requester = execution.requester.clone();
        // The event of the child's start is decided on the same record.
        self.0.insert(record, (execution, known));
        Ok(ParentAuthority { plan, authoriser, requester })
    }

    fn finished_child(&self, record: &Record) -> Result<Option<FinishedChild>, Error> {
        let execution = decode::<W>(record)?;
        let Phase::Finished { outcome, cause, leaks } = execution.phase else { return Ok(None) };
        let stands = outcome == Outcome::Completed || execution.pivot.is_some() || !leaks.is_empty();
        let data = serde_json::to_value(&execution.data)
            .map_err(|e| Error::Unreadable { id: record.id, why: e.to_string() })?;
        Ok(Some(FinishedChild { outcome, cause, leaves_effects: stands, data }))
    }

    fn awaited_signal(&self, record: &Record) -> Result<Option<&'static str>, Error> {
        let execution = decode::<W>(record)?;
        if !matches!(execution.phase, Phase::Forward) {
            return Ok(None);
        }
        Ok(match execution.data.step(execution.state) {
            Step::Wait(wait) => wait.signal,
            Step::Approval(_) | Step::Act(_) | Step::Choose(_) | Step::End(_) => None,
        })
    }

    #[cfg(feature = "testing")]
    fn awaited_input(&self, record: &Record) -> Result<AwaitedInput, Error> {
        let execution = decode::<W>(record)?;
        if !matches!(execution.phase, Phase::Forward) {
            return Ok(AwaitedInput::Nothing);
        }
        Ok(match execution.data.step(execution.state) {
            Step::Approval(_) => AwaitedInput::People {
                visit: execution.visit,
                stage: execution.ballot.as_ref().map_or(0, Ballot::stage),
            },
            Step::Wait(wait) => wait.signal.map_or(AwaitedInput::Nothing, AwaitedInput::Signal),
            Step::Act(_) | Step::Choose(_) | Step::End(_) => AwaitedInput::Nothing,
        })
    }
}

/// Turns a panic in a workflow's code into an unreadable execution.
fn catch_panics<T>(id: ExecutionId, work: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
        let said =
            panic.downcast_ref::<String>().map(String::as_str).or(panic.downcast_ref::<&str>().copied());
        Err(Error::Unreadable {
            id,
            why: format!("a bug in the workflow: {}", said.unwrap_or("it panicked")),
        })
    })
}
