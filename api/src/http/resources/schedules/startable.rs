//! What a schedule may start: requests that are read and begun as if its author had sent them at that moment.

use crate::{
    auth::{Caller, User, Verb, parties, policy::Circumstances},
    http::{
        extract::{Text, page::document},
        problem::{Problem, code::Code},
        resources::{
            incidents::{Report, Shortage},
            offboardings::Leave,
            reclaims::Recall,
            tenant_changes::QuotaWish,
            workflow_start::{Parameters, Wish},
        },
    },
    state::{App, Shared},
};
use engine::{BoxFuture, Request, Started, Starter, Unstarted};
use serde_json::Value;
use workflows::sla_change::SlaRequest;

type Begun<'a> = BoxFuture<'a, Result<Started, Problem>>;

/// A workflow that a schedule may start.
pub(in crate::http) struct Startable {
    /// Its name.
    pub(in crate::http) workflow: &'static str,
    /// The right to ask for it.
    pub(in crate::http) verb: Verb,
    /// What is said beside the request.
    asked: &'static [(&'static str, &'static str)],
    check: fn(&Text, &Parameters) -> Result<(), Problem>,
    begin: for<'a> fn(&'a App, &'a Caller, (Text, Parameters), Request) -> Begun<'a>,
}

/// Every workflow that a schedule may start. Onboarding is none of them: it shows a secret to whoever asks for it.
const ALL: &[Startable] = &[
    startable::<Recall>("reclaim", Verb::Reclaim, &[]),
    startable::<Leave>("offboarding", Verb::Offboard, &[]),
    startable::<QuotaWish>("quota_increase", Verb::ChangeQuota, &[("direction", "increase")]),
    startable::<QuotaWish>("quota_decrease", Verb::ChangeQuota, &[("direction", "decrease")]),
    startable::<SlaRequest>("sla_change", Verb::ChangeSla, &[]),
    startable::<Shortage>("capacity_exhaustion", Verb::ManageCapacity, &[]),
    startable::<Report>("incident_response", Verb::ReportIncident, &[]),
];

const fn startable<W: Wish>(
    workflow: &'static str,
    verb: Verb,
    asked: &'static [(&'static str, &'static str)],
) -> Startable {
    Startable { workflow, verb, asked, check: check::<W>, begin: begin::<W> }
}

fn check<W: Wish>(text: &Text, asked: &Parameters) -> Result<(), Problem> {
    W::read(text, asked).map(|_| ())
}

fn begin<'a, W: Wish>(
    app: &'a App,
    caller: &'a Caller,
    (text, asked): (Text, Parameters),
    request: Request,
) -> Begun<'a> {
    Box::pin(async move { W::read(&text, &asked)?.prepare(app).await?.start(app, caller, request).await })
}

impl Startable {
    /// The one that starts `workflow`.
    pub(in crate::http) fn named(workflow: &str) -> Result<&'static Self, Problem> {
        ALL.iter().find(|one| one.workflow == workflow).ok_or_else(|| {
            let known: Vec<_> = ALL.iter().map(|one| one.workflow).collect();
            let detail = format!(
                "start.workflow: no schedule starts {workflow:?}; it may start: {}",
                known.join(", ")
            );
            Problem::new(Code::DocumentInvalid, detail)
        })
    }

    /// Refuses a request that is none, or that `caller` may not make.
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
            format!("{} may not start {}, and so no schedule may in their name", caller.name, self.workflow);
        Err(Problem::new(Code::Forbidden, detail))
    }

    fn request(&self, data: &Value) -> (Text, Parameters) {
        let text = Text { text: data.to_string(), media: "application/json".into(), labels: Vec::new() };
        (text, self.asked.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect())
    }
}

/// Starts what schedules are for in the name of whoever set them, with the rights that they have by then.
pub(crate) struct InName(pub(crate) Shared);

impl InName {
    async fn begun(
        &self,
        workflow: &str,
        data: &Value,
        by: &str,
        request: Request,
    ) -> Result<Started, Problem> {
        let what = Startable::named(workflow)?;
        let gone = || {
            let detail =
                format!("{by}, who set the schedule, is no user any more: somebody else has to set it");
            Problem::new(Code::Forbidden, detail)
        };
        let user = document::<User>(&self.0, by).await?.ok_or_else(gone)?;
        let how = Circumstances { at: self.0.engine.clock().now(), ..Circumstances::default() };
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

impl Starter for InName {
    fn start<'a>(
        &'a self,
        workflow: &'a str,
        data: &'a Value,
        by: &'a str,
        request: Request,
    ) -> BoxFuture<'a, Result<Started, Unstarted>> {
        Box::pin(async move {
            self.begun(workflow, data, by, request).await.map_err(|problem| unstarted(&problem))
        })
    }
}

fn unstarted(problem: &Problem) -> Unstarted {
    let why = problem.detail().to_owned();
    if problem.code() == Code::Busy {
        return Unstarted::Busy(why);
    }
    if problem.code() == Code::Conflict {
        return Unstarted::Changed;
    }
    // Only the schedule itself can be refused: an occurrence waits for a server or a store that fails.
    if problem.code() == Code::NoWorker || problem.status().is_server_error() {
        return Unstarted::Later(why);
    }
    Unstarted::Refused(why)
}
