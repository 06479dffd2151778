//! `/v1/quota-requests` and `/v1/sla-changes`: changes of a tenant's quota and terms.

use crate::{
    auth::{Caller, Verb},
    http::{
        extract::TextBody,
        problem::{Problem, code::ProblemCode},
        resources::workflow_start::{Parameters, StartRequest, by_place, only, start_routes},
        route::{Access, Route},
        route_doc::doc,
    },
    state::ServerState,
    types::{self, problems::Fault},
};
use engine::{Started, Undecided, View};
use serde_json::{Value, json};
use workflows::{
    policy::{in_force, resource_named},
    quota_change::{
        Change, Direction, QuotaRequest,
        decrease::{self, QuotaDecrease},
        increase::{self, QuotaIncrease},
    },
    sla_change::{self, SlaChange, SlaRequest},
    tenancy::{Entitlement, GpuModel, Quota, Resource, Tenant, Workspace, workspace_key},
};

/// The description of `direction`.
const WAY: &str = "`increase` or `decrease`. Default: the direction that leads to `to`; for a change of limits only, a decrease if a limit falls.";

pub(in crate::http) fn routes() -> Vec<Route> {
    let change = Access::Tenant(Verb::ChangeQuota);
    let mut routes = start_routes::<QuotaChangeRequest>(
        (
            "/v1/quota-requests",
            doc("changeQuota", "Requests a quota change for a workspace.")
                .asks("direction", WAY)
                .may(&[ProblemCode::NotFound]),
        ),
        (
            "/v1/quota-requests:plan",
            doc("planQuota", "Previews a quota change. Changes nothing.").asks("direction", WAY),
        ),
        change,
    );
    routes.extend(start_routes::<SlaRequest>(
        ("/v1/sla-changes", doc("changeSla", "Requests a change of a tenant's terms.")),
        ("/v1/sla-changes:plan", doc("planSla", "Previews a change of terms. Changes nothing.")),
        Access::Tenant(Verb::ChangeSla),
    ));
    routes
}

/// Parses a quota request, as YAML or JSON.
pub(in crate::http) fn quota_request(text: &str, is_json: bool) -> Result<QuotaRequest, Problem> {
    by_place(text, is_json, QuotaRequest::from_yaml, QuotaRequest::from_json)
}

/// A quota request and its direction. A request for `to` an amount has the direction that leads to it.
pub(in crate::http) struct QuotaChangeRequest {
    pub(in crate::http) request: QuotaRequest,
    pub(in crate::http) direction: Option<Direction>,
}

/// The reason why a request can never be carried out.
enum Unmet {
    /// An object does not exist, by type and name.
    Unknown(&'static str, String),
    /// The tenant did not buy the model; the model that it bought.
    NotBought(Resource, GpuModel),
    /// The model does not exist, with similar names.
    NoModel(String),
}

impl Unmet {
    fn into_problem(self) -> Problem {
        match self {
            Self::Unknown(kind, name) => Problem::not_found(kind, &name),
            Self::NotBought(resource, bought) => {
                at_resource(format!("the tenant did not buy {resource}; it bought gpu/{bought}"))
            }
            Self::NoModel(message) => at_resource(message),
        }
    }
}

fn at_resource(message: String) -> Problem {
    let fault = Fault { pointer: "/resource".into(), message: message.clone(), line: None, column: None };
    Problem::new(ProblemCode::DocumentInvalid, format!("resource: {message}")).at(vec![fault])
}

impl QuotaChangeRequest {
    /// Returns the unknown object that the request names, so that a typo is rejected before the execution starts.
    fn unmet(&self, view: &mut View) -> Result<Option<Unmet>, Undecided> {
        let request = &self.request;
        if view.get::<Tenant>(request.tenant.as_str())?.is_none() {
            return Ok(Some(Unmet::Unknown("tenant", request.tenant.to_string())));
        }
        let workspace = workspace_key(&request.tenant, &request.workspace);
        if view.get::<Workspace>(&workspace)?.is_none() {
            return Ok(Some(Unmet::Unknown("workspace", workspace)));
        }
        let bought = view.get::<Entitlement>(request.tenant.as_str())?.map(|bought| bought.gpu_model);
        let other = request.resource.gpu().zip(bought).filter(|(kind, bought)| kind.model != *bought);
        let Some((kind, bought)) = other else { return Ok(None) };
        let unknown = in_force(view)?.gpu_models.no_model(&kind.model).map(Unmet::NoModel);
        Ok(unknown.or_else(|| Some(Unmet::NotBought(request.resource.clone(), bought))))
    }

    /// Replaces an alias of the policy by its GPU model.
    fn named(&self, view: &mut View) -> Result<Self, Undecided> {
        let resource = resource_named(view, &self.request.tenant, &self.request.resource)?;
        Ok(Self { request: QuotaRequest { resource, ..self.request.clone() }, direction: self.direction })
    }

    fn way(&self, view: &mut View) -> Result<Direction, Undecided> {
        if matches!(self.request.change, Change::By(_)) {
            return Ok(self.direction.unwrap_or(Direction::Increase));
        }
        let quota = view.get::<Quota>(&workspace_key(&self.request.tenant, &self.request.workspace))?;
        let stands = quota.as_ref().and_then(|quota| quota.allowances.get(&self.request.resource));
        let leads = stands.map(|stands| self.request.leads(stands));
        Ok(self.direction.or(leads).unwrap_or(Direction::Increase))
    }
}

impl StartRequest for QuotaChangeRequest {
    type Document = types::stored_documents::QuotaRequest;
    type Planned = types::stored_documents::ChangePlan;

    fn read(body: &TextBody, asked: &Parameters) -> Result<Self, Problem> {
        only(asked, &["direction"])?;
        let direction = match asked.get("direction").map(String::as_str) {
            None => None,
            Some("increase") => Some(Direction::Increase),
            Some("decrease") => Some(Direction::Decrease),
            Some(other) => {
                let detail = format!("direction: {other:?} is neither increase nor decrease");
                return Err(Problem::new(ProblemCode::QueryInvalid, detail));
            }
        };
        Ok(Self { request: quota_request(&body.text, body.is_json())?, direction })
    }

    fn tenant(&self) -> &str {
        self.request.tenant.as_str()
    }

    async fn start(self, app: &ServerState, _: &Caller, asked: engine::Request) -> Result<Started, Problem> {
        let change = app.engine.transact(false, |view| self.named(view)).await?;
        let unmet = app.engine.transact(false, |view| change.unmet(view)).await?;
        if let Some(problem) = unmet {
            return Err(problem.into_problem());
        }
        Ok(match app.engine.transact(false, |view| change.way(view)).await? {
            Direction::Increase => app.engine.start(QuotaIncrease::new(change.request), asked).await?,
            Direction::Decrease => app.engine.start(QuotaDecrease::new(change.request), asked).await?,
        })
    }

    fn plan(&self, view: &mut View) -> Result<Value, Undecided> {
        let (policy, change) = (in_force(view)?, self.named(view)?);
        Ok(match change.way(view)? {
            Direction::Increase => json!(increase::preview(view, &change.request, &policy)?),
            Direction::Decrease => json!(decrease::preview(view, &change.request, &policy)?),
        })
    }
}

impl StartRequest for SlaRequest {
    type Document = types::stored_documents::SlaRequest;
    type Planned = types::stored_documents::ChangePlan;

    fn read(body: &TextBody, asked: &Parameters) -> Result<Self, Problem> {
        only(asked, &[])?;
        by_place(&body.text, body.is_json(), Self::from_yaml, Self::from_json)
    }

    fn tenant(&self) -> &str {
        self.tenant.as_str()
    }

    async fn start(self, app: &ServerState, _: &Caller, asked: engine::Request) -> Result<Started, Problem> {
        Ok(app.engine.start(SlaChange::new(self), asked).await?)
    }

    fn plan(&self, view: &mut View) -> Result<Value, Undecided> {
        let policy = in_force(view)?;
        Ok(json!(sla_change::preview(view, self, &policy)?))
    }
}
