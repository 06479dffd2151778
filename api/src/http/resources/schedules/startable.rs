//! The workflows that a schedule may start. Their requests are handled as if the author of the schedule had sent them at that time.

use crate::{
    auth::{Caller, User, Verb, parties, policy::RequestContext},
    http::{
        extract::{TextBody, page::document},
        problem::{Problem, code::ProblemCode},
        resources::{
            incidents::{ExhaustionReport, IncidentReport},
            offboardings::OffboardingRequest,
            reclaims::ReclaimRequest,
            tenant_changes::QuotaChangeRequest,
            workflow_start::{Parameters, StartRequest},
        },
    },
    state::{ServerState, SharedState},
};
use engine::{BoxFuture, Request, StartFailure, Started, Starter};
use serde_json::Value;
use workflows::sla_change::SlaRequest;

type Begun<'a> = BoxFuture<'a, Result<Started, Problem>>;

/// A workflow that a schedule may start.
pub(in crate::http) struct Startable {
    /// The name of the workflow.
    pub(in crate::http) workflow: &'static str,
    /// The permission that the request needs.
    pub(in crate::http) verb: Verb,
    /// Parameters that are sent with the request.
    asked: &'static [(&'static str, &'static str)],
    check: fn(&TextBody, &Parameters) -> Result<(), Problem>,
    begin: for<'a> fn(&'a ServerState, &'a Caller, (TextBody, Parameters), Request) -> Begun<'a>,
}

/// All workflows that a schedule may start. Onboarding is excluded, because its answer contains a secret.
const ALL: &[Startable] = &[
    startable::<ReclaimRequest>("reclaim", Verb::Reclaim, &[]),
    startable::<OffboardingRequest>("offboarding", Verb::Offboard, &[]),
    startable::<QuotaChangeRequest>("quota_increase", Verb::ChangeQuota, &[("direction", "increase")]),
    startable::<QuotaChangeRequest>("quota_decrease", Verb::ChangeQuota, &[("direction", "decrease")]),
    startable::<SlaRequest>("sla_change", Verb::ChangeSla, &[]),
    startable::<ExhaustionReport>("capacity_exhaustion", Verb::ManageCapacity, &[]),
    startable::<IncidentReport>("incident_response", Verb::ReportIncident, &[]),
];

const fn startable<W: StartRequest>(
    workflow: &'static str,
    verb: Verb,
    asked: &'static [(&'static str, &'static str)],
) -> Startable {
    Startable { workflow, verb, asked, check: check::<W>, begin: begin::<W> }
}

fn check<W: StartRequest>(text: &TextBody, asked: &Parameters) -> Result<(), Problem> {
    W::read(text, asked).map(|_| ())
}

fn begin<'a, W: StartRequest>(
    app: &'a ServerState,
    caller: &'a Caller,
    (text, asked): (TextBody, Parameters),
    request: Request,
) -> Begun<'a> {
    Box::pin(async move { W::read(&text, &asked)?.prepare(app).await?.start(app, caller, request).await })
}

impl Startable {
    /// Returns the entry of `workflow`.
    pub(in crate::http) fn named(workflow: &str) -> Result<&'static Self, Problem> {
        ALL.iter().find(|one| one.workflow == workflow).ok_or_else(|| {
            let known: Vec<_> = ALL.iter().map(|one| one.workflow).collect();
            let detail = format!(
                "start.workflow: a schedule cannot start {workflow:?}; use one of: {}",
                known.join(", ")
            );
            Problem::new(ProblemCode::DocumentInvalid, detail)
        })
    }

    /// Rejects an invalid request, or one that `caller` may not make.
    pub(in crate::http) fn check(&self, data: &Value, caller: &Caller) -> Result<(), Problem> {
        self.allow(caller)?;
        let (text, asked) = self.request(data);
        (self.check)(&text, &asked)
    }

    fn allow(&self, caller: &Caller) -> Result<(), Problem> {
        if caller.tenant.is_none() && caller.may(self.verb) {
            return Ok(());
        }
        let detail =
            format!("{} may not start {}, so their schedules may not either", caller.name, self.workflow);
        Err(Problem::new(ProblemCode::Forbidden, detail))
    }

    fn request(&self, data: &Value) -> (TextBody, Parameters) {
        let text = TextBody { text: data.to_string(), media: "application/json".into(), labels: Vec::new() };
        (text, self.asked.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect())
    }
}

/// Starts requests of schedules as the user who set the schedule, with the user's present permissions.
pub(crate) struct ScheduleStarter(pub(crate) SharedState);

impl ScheduleStarter {
    async fn begun(
        &self,
        workflow: &str,
        data: &Value,
        by: &str,
        request: Request,
    ) -> Result<Started, Problem> {
        let what = Startable::named(workflow)?;
        let gone = || {
            let detail = format!("{by}, who set the schedule, is no longer a user: another user must set it");
            Problem::new(ProblemCode::Forbidden, detail)
        };
        let user = document::<User>(&self.0, by).await?.ok_or_else(gone)?;
        let how = RequestContext { at: self.0.engine.clock().now(), ..RequestContext::default() };
        let known = parties(&**self.0.engine.store(), &[by.to_owned()].into()).await?;
        let request = match known.into_values().next() {
            Some(provenance) => request.with_provenance(provenance),
            None => request,
        };
        let caller = Caller::of(user, self.0.access.law()).asking(how);
        what.allow(&caller)?;
        (what.begin)(&self.0, &caller, what.request(data), request).await
    }
}

impl Starter for ScheduleStarter {
    fn start<'a>(
        &'a self,
        workflow: &'a str,
        data: &'a Value,
        by: &'a str,
        request: Request,
    ) -> BoxFuture<'a, Result<Started, StartFailure>> {
        Box::pin(async move {
            self.begun(workflow, data, by, request).await.map_err(|problem| cannot_start(&problem))
        })
    }
}

fn cannot_start(problem: &Problem) -> StartFailure {
    let why = problem.detail().to_owned();
    if problem.code() == ProblemCode::Busy {
        return StartFailure::Busy(why);
    }
    if problem.code() == ProblemCode::Conflict {
        return StartFailure::Changed;
    }
    // Only faults of the request reject the occurrence. After an error of a server or the store, the occurrence waits.
    if problem.code() == ProblemCode::NoWorker || problem.status().is_server_error() {
        return StartFailure::Later(why);
    }
    StartFailure::Refused(why)
}
