//! `/v1/reclaims`: reclaims of lent GPUs, and `/v1/reclaims-missed`: broken promises.

use crate::{
    auth::{Caller, Verb},
    http::{
        extract::TextBody,
        problem::{Problem, code::ProblemCode},
        resource_kind::ResourceKind,
        resource_routes::list,
        resources::workflow_start::{Parameters, StartRequest, document, only, planned, start_routes},
        route::{Access, Route},
        route_doc::doc,
    },
    state::ServerState,
    types,
};
use engine::{ActionError, Started, Undecided, View, Workflow as _};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use workflows::{
    reclaim::{PlanVerdict, Reclaim, ReclaimCause, preview},
    sweeps::MissedPromise,
    tenancy::{Cohort, Resource, TenantId, Workload, WorkloadState, WorkspaceName, as_written_if_any},
};

pub(in crate::http) fn routes() -> Vec<Route> {
    let mut routes = start_routes::<ReclaimRequest>(
        ("/v1/reclaims", doc("reclaim", "Starts a reclaim of lent GPUs.")),
        ("/v1/reclaims:plan", doc("planReclaim", "Previews a reclaim. Changes nothing.")),
        Access::Tenant(Verb::Reclaim),
    );
    routes.push(Route::get(
        "/v1/reclaims-missed",
        Access::Tenant(Verb::ReadAccounts),
        list::<MissedPromise>,
        doc("listMissedReclaims", "Lists broken promises of GPUs.")
            .lists::<types::workspaces::Missed>()
            .filters::<MissedPromise>(),
    ));
    routes
}

impl ResourceKind for MissedPromise {
    const WORD: &'static str = "missed reclaim";
    const FILTERS: &'static [(&'static str, &'static str)] =
        &[("workspace", "/workspace"), ("resource", "/resource"), ("workload", "/workload")];
    const TIMES: &'static [&'static str] = &["deadline", "noticed_at"];

    fn tenant(&self) -> &str {
        self.tenant.as_str()
    }
}

/// The cause of a reclaim: a queued workload, usage of a workspace above its quota, or overdue loans.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "ReclaimRequest")]
pub(in crate::http) struct ReclaimRequest {
    #[schemars(with = "String")]
    tenant: TenantId,
    /// The resource, such as `gpu/H100`.
    #[schemars(with = "Option<String>")]
    #[serde(default, deserialize_with = "as_written_if_any")]
    resource: Option<Resource>,
    workload: Option<String>,
    #[schemars(with = "Option<String>")]
    workspace: Option<WorkspaceName>,
    amount: Option<u64>,
    #[serde(default)]
    overdue: bool,
}

impl ReclaimRequest {
    /// Resolves the request. For a workload, the missing GPUs are computed.
    fn resolve(&self, view: &mut View) -> Result<Reclaim, Undecided> {
        let cause = match (&self.workload, &self.workspace, self.amount) {
            (Some(name), ..) => {
                let found = view.get::<Workload>(&Workload::key(&self.tenant, name))?;
                let unknown = || {
                    let why = format!("tenant {} has no workload {name}", self.tenant);
                    ActionError::permanent("workload.unknown", why)
                };
                let workload = found.ok_or_else(unknown)?;
                let asked = workload.requests.keys().find(|resource| resource.gpu().is_some()).cloned();
                let cause = ReclaimCause::Demand { workspace: workload.workspace, workload: name.clone() };
                return self.with(view, self.resource.clone().or(asked), cause);
            }
            (None, Some(workspace), Some(amount)) => {
                ReclaimCause::Excess { workspace: workspace.clone(), amount }
            }
            _ => ReclaimCause::Overdue,
        };
        self.with(view, self.resource.clone(), cause)
    }

    /// Returns the reclaim of a resource of the tenant, from one of its workspaces.
    fn with(
        &self,
        view: &mut View,
        asked: Option<Resource>,
        cause: ReclaimCause,
    ) -> Result<Reclaim, Undecided> {
        let invalid = |why: String| ActionError::permanent("document.invalid", why);
        let tenant = &self.tenant;
        let Some(cohort) = view.get::<Cohort>(tenant.as_str())? else {
            return Err(invalid(format!("tenant: {tenant} has no GPU account")).into());
        };
        let balances = cohort.accounts.values().flat_map(|account| account.balances.keys());
        let kinds: BTreeSet<&Resource> =
            cohort.stock.keys().chain(balances).filter(|kind| kind.gpu().is_some()).collect();
        let there = || kinds.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        let Some(resource) = asked else {
            return Err(invalid(format!("resource: required; {tenant} has {}", there())).into());
        };
        if !kinds.contains(&resource) {
            return Err(invalid(format!("resource: {tenant} has no {resource}, only {}", there())).into());
        }
        if let ReclaimCause::Excess { workspace, .. } = &cause
            && !cohort.accounts.contains_key(workspace)
        {
            let why = format!("workspace: {tenant} has no workspace {workspace}");
            return Err(ActionError::permanent("workspace.unknown", why).into());
        }
        Ok(Reclaim::new(tenant.clone(), resource, cause))
    }
}

impl ReclaimRequest {
    /// Returns the reason why nothing must be freed, because an empty plan would look like a mistake.
    fn why_nothing(&self, view: &mut View) -> Result<String, Undecided> {
        let Some(name) = &self.workload else {
            return Ok("no queued workload waits for owed GPUs".into());
        };
        let Some(workload) = view.get::<Workload>(&Workload::key(&self.tenant, name))? else {
            return Ok(format!("there is no workload {name}"));
        };
        let state: &str = (&workload.state).into();
        Ok(match workload.state {
            WorkloadState::Waiting => format!(
                "workload {name} is queued, but no more GPUs must be freed: it fits, or a reclaim already frees them; `tenure executions list --filter \
                 'workflow = reclaim'` lists reclaims"
            ),
            WorkloadState::Admitted
            | WorkloadState::Reclaimed { .. }
            | WorkloadState::Finished
            | WorkloadState::Rejected => format!("workload {name} is {state}: it is not queued"),
        })
    }
}

impl StartRequest for ReclaimRequest {
    type Document = Self;
    type Planned = types::stored_documents::ReclaimPlan;

    fn read(body: &TextBody, asked: &Parameters) -> Result<Self, Problem> {
        only(asked, &[])?;
        let recall: Self = document(body)?;
        let excess = recall.workspace.is_some() && recall.amount.is_some();
        match (recall.workload.is_some(), excess, recall.overdue) {
            (true, false, false) | (false, true, false) | (false, false, true) => Ok(recall),
            _ => {
                let detail =
                    "send one cause: `workload`, or `workspace` with `amount`, or `overdue: true`".to_owned();
                Err(Problem::new(ProblemCode::DocumentInvalid, detail))
            }
        }
    }

    fn tenant(&self) -> &str {
        self.tenant.as_str()
    }

    async fn start(self, app: &ServerState, _: &Caller, asked: engine::Request) -> Result<Started, Problem> {
        let reclaim = app.engine.transact(false, |view| self.resolve(view)).await?;
        Ok(app.engine.start(reclaim, asked).await?)
    }

    fn plan(&self, view: &mut View) -> Result<Value, Undecided> {
        let asked = self.resolve(view)?;
        let tried = preview(view, &asked)?;
        let mut shown = planned::<Reclaim>(&tried.plan());
        if let (Some(fields), Some(found)) = (shown.as_object_mut(), &tried.planned) {
            fields.insert("verdict".into(), json!(found.verdict));
            let why = match (&found.why, found.verdict) {
                (None, PlanVerdict::Satisfied) => Some(self.why_nothing(view)?),
                (why, _) => why.clone(),
            };
            fields.insert("why".into(), json!(why));
        }
        Ok(shown)
    }
}
