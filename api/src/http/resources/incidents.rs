//! `/v1/incidents` and `/v1/capacity-exhaustions`: incidents and shortages of GPUs.

use crate::{
    auth::{Caller, Verb},
    http::{
        extract::{TextBody, page::scope::unscoped_all},
        problem::Problem,
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
use workflows::{
    capacity::{self, CapacityExhaustion},
    incident::{IncidentCause, IncidentResponse},
    tenancy::{
        ClusterId, ClusterKey, FreePool, GpuModel, Gpus, Node, NodeAllocation, NodeId, NodeUse, Region,
        RegionId, Tenant, TenantId, as_written,
    },
};

pub(in crate::http) fn routes() -> Vec<Route> {
    let (report, capacity) = (Access::Staff(Verb::ReportIncident), Access::Staff(Verb::ManageCapacity));
    let mut routes = start_routes::<IncidentReport>(
        ("/v1/incidents", doc("reportIncident", "Starts the response to an incident.")),
        ("/v1/incidents:plan", doc("planIncident", "Previews the response to an incident. Changes nothing.")),
        report,
    );
    routes.extend(start_routes::<ExhaustionReport>(
        (
            "/v1/capacity-exhaustions",
            doc("reportExhaustion", "Starts the response to a shortage of a GPU model."),
        ),
        (
            "/v1/capacity-exhaustions:plan",
            doc("planExhaustion", "Previews the response to a shortage. Changes nothing."),
        ),
        capacity,
    ));
    routes
}

/// A reported incident. The affected tenants follow from its cause.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "IncidentReport")]
pub(in crate::http) struct IncidentReport {
    kind: IncidentKind,
    /// The node, for `gpu_fault`.
    #[schemars(with = "Option<String>")]
    node: Option<NodeId>,
    /// The cluster, for `key_leak`.
    #[schemars(with = "Option<String>")]
    cluster: Option<ClusterId>,
    /// The affected tenants, for other types.
    #[serde(default)]
    #[schemars(with = "Vec<String>")]
    tenants: Vec<TenantId>,
    /// A description of the incident type, for `other`.
    what: Option<String>,
    /// The detector of the incident; the caller if absent.
    detector: Option<String>,
    /// The evidence.
    #[serde(default)]
    evidence: String,
}

#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "IncidentKind")]
enum IncidentKind {
    GpuFault,
    KeyLeak,
    IsolationBreach,
    Other,
}

impl IncidentReport {
    /// Returns the cause with facts from the ledger. `next_hash` is the hash of the key that replaces a leaked one.
    fn happening(&self, view: &mut View, next_hash: Option<String>) -> Result<IncidentCause, Undecided> {
        let missing = |field: &str| {
            ActionError::permanent("document.invalid", format!("{field}: required for this type of incident"))
        };
        match self.kind {
            IncidentKind::GpuFault => {
                let id = self.node.as_ref().ok_or_else(|| missing("node"))?;
                let node = view.require::<Node>(id.as_str())?;
                let free = || {
                    let why = format!(
                        "node: {id} has no owner, so no tenant is affected; repair the node without an incident"
                    );
                    ActionError::permanent("document.invalid", why)
                };
                let tenant = node.owner.ok_or_else(free)?;
                Ok(IncidentCause::GpuFault { tenant, cluster: node.cluster, node: node.id })
            }
            IncidentKind::KeyLeak => {
                let cluster = self.cluster.as_ref().ok_or_else(|| missing("cluster"))?;
                let key = view.require::<ClusterKey>(cluster.as_str())?;
                let shared = || {
                    let why = format!(
                        "cluster: {cluster} is shared: rotate its key with `tenure cluster key rotate {cluster} --overlap 0`"
                    );
                    ActionError::permanent("document.invalid", why)
                };
                let tenant = key.tenant.ok_or_else(shared)?;
                Ok(IncidentCause::KeyLeak { tenant, cluster: key.cluster, next_hash })
            }
            IncidentKind::IsolationBreach => Ok(IncidentCause::IsolationBreach {
                tenants: self.concerned(view)?.ok_or_else(|| missing("tenants"))?,
            }),
            IncidentKind::Other => Ok(IncidentCause::Other {
                tenants: self.concerned(view)?.unwrap_or_default(),
                what: self.what.clone().ok_or_else(|| missing("what"))?,
            }),
        }
    }

    /// Returns the affected tenants, or an error if one does not exist.
    fn concerned(&self, view: &mut View) -> Result<Option<Vec<TenantId>>, Undecided> {
        view.prefetch::<Tenant>(self.tenants.iter().map(ToString::to_string))?;
        for tenant in &self.tenants {
            view.require::<Tenant>(tenant.as_str())?;
        }
        Ok((!self.tenants.is_empty()).then(|| self.tenants.clone()))
    }

    fn response(&self, happening: IncidentCause, by: &str) -> IncidentResponse {
        let detector = self.detector.clone().unwrap_or_else(|| by.to_owned());
        IncidentResponse::new(happening, detector, self.evidence.clone()).reported_by(by)
    }
}

impl StartRequest for IncidentReport {
    type Document = Self;
    type Planned = types::stored_documents::IncidentPlan;

    fn read(body: &TextBody, asked: &Parameters) -> Result<Self, Problem> {
        only(asked, &[])?;
        document(body)
    }

    /// An incident may affect many tenants, so it belongs to the platform.
    fn tenant(&self) -> &str {
        ""
    }

    async fn start(
        self,
        app: &ServerState,
        caller: &Caller,
        asked: engine::Request,
    ) -> Result<Started, Problem> {
        let happening = app.engine.transact(false, |view| self.happening(view, None)).await?;
        Ok(app.engine.start(self.response(happening, &caller.name), asked).await?)
    }

    fn plan(&self, view: &mut View) -> Result<Value, Undecided> {
        let happening = self.happening(view, None)?;
        let node = match &happening {
            IncidentCause::GpuFault { node, .. } => view.get::<NodeUse>(node.as_str())?,
            IncidentCause::KeyLeak { .. }
            | IncidentCause::IsolationBreach { .. }
            | IncidentCause::Other { .. } => None,
        };
        let running =
            node.map(|node| node.workloads().into_iter().map(ToOwned::to_owned).collect::<Vec<_>>());
        let mut shown = planned::<IncidentResponse>(&self.response(happening, "").triaged(view)?.plan());
        if let Some(fields) = shown.as_object_mut() {
            fields.insert("running_there".into(), json!(running));
        }
        Ok(shown)
    }
}

/// A GPU model that runs short in a region.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "ExhaustionReport")]
pub(in crate::http) struct ExhaustionReport {
    #[schemars(with = "String")]
    region: RegionId,
    #[schemars(with = "String")]
    #[serde(deserialize_with = "as_written")]
    model: GpuModel,
    /// GPUs of waiting requests that are not on a waitlist.
    #[serde(default)]
    wanted: u32,
    /// The source of the report.
    #[serde(default)]
    reason: String,
    /// The tenants whose loans are considered; all of the region if absent.
    #[schemars(with = "Option<Vec<String>>")]
    tenants: Option<Vec<TenantId>>,
}

impl ExhaustionReport {
    /// Rejects an unknown region, or one without GPUs of the model.
    fn known(&self, view: &mut View) -> Result<(), Undecided> {
        let region = view.require::<Region>(self.region.as_str())?;
        let key = |cluster: &ClusterId| FreePool::key(cluster, &self.model);
        view.prefetch::<FreePool>(region.clusters.iter().map(key))?;
        let mut pools = Vec::new();
        for cluster in &region.clusters {
            pools.extend(view.get::<FreePool>(&key(cluster))?);
        }
        if pools.is_empty() {
            let why = format!("model: region {} has no nodes with {}", region.id, self.model);
            return Err(ActionError::permanent("document.invalid", why).into());
        }
        Ok(())
    }

    fn exhaustion(&self) -> CapacityExhaustion {
        CapacityExhaustion::new(
            self.region.clone(),
            self.model.clone(),
            Gpus(self.wanted),
            self.reason.clone(),
            self.tenants.clone().unwrap_or_default(),
        )
    }
}

impl StartRequest for ExhaustionReport {
    type Document = Self;
    type Planned = types::stored_documents::PlanOnly;

    fn read(body: &TextBody, asked: &Parameters) -> Result<Self, Problem> {
        only(asked, &[])?;
        document(body)
    }

    fn tenant(&self) -> &str {
        ""
    }

    async fn prepare(mut self, app: &ServerState) -> Result<Self, Problem> {
        app.engine.transact(false, |view| self.known(view)).await?;
        if self.tenants.is_none() {
            let here = |held: &NodeAllocation| held.region == self.region && held.model == self.model;
            let found = unscoped_all::<NodeAllocation>(app, here).await?;
            self.tenants = Some(found.into_iter().map(|held| held.tenant).collect());
        }
        Ok(self)
    }

    async fn start(self, app: &ServerState, _: &Caller, asked: engine::Request) -> Result<Started, Problem> {
        Ok(app.engine.start(self.exhaustion(), asked).await?)
    }

    fn plan(&self, view: &mut View) -> Result<Value, Undecided> {
        self.known(view)?;
        let tried = capacity::preview(view, &self.exhaustion())?;
        Ok(planned::<CapacityExhaustion>(&tried.plan()))
    }
}
