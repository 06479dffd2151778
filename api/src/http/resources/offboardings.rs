//! `/v1/offboardings`: offboarding of a tenant with destruction of its data; `/v1/classifications`: the data class of open assets.

use crate::{
    auth::{Caller, Verb},
    http::{
        extract::{JsonBody, TextBody},
        problem::{Problem, code::ProblemCode},
        resources::workflow_start::{Parameters, StartRequest, document, only, start_routes},
        route::{Access, Route},
        route_doc::doc,
    },
    state::{ServerState, SharedState},
    types,
};
use axum::{Extension, Json, extract::State};
use engine::{Started, Undecided, View};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use store::ExecutionId;
use workflows::{
    closed_tenants::{SilentSources, look_at},
    destruction::{
        AssetId, DataClass,
        certificate::{ErasureBasis, LegalBasis},
    },
    offboarding::{
        ASSETS_CLASSIFIED, Classification, Offboarding, classify, preview, preview_remaining, unknown_asset,
    },
    signing::Moment,
    tenancy::{Tenant, TenantId},
};

pub(in crate::http) fn routes() -> Vec<Route> {
    let leave = Access::Tenant(Verb::Offboard);
    let mut routes = start_routes::<OffboardingRequest>(
        (
            "/v1/offboardings",
            doc("offboard", "Starts the offboarding of a tenant, with destruction of its data."),
        ),
        ("/v1/offboardings:plan", doc("planOffboarding", "Previews an offboarding. Changes nothing.")),
        leave,
    );
    routes.push(Route::post(
        "/v1/classifications",
        Access::Staff(Verb::Classify),
        classify_asset,
        doc("classifyAsset", "Classifies the data of an open asset.")
            .says::<types::compliance::Classification>(200),
    ));
    routes
}

/// The tenant to offboard.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "OffboardingRequest")]
pub(in crate::http) struct OffboardingRequest {
    #[schemars(with = "String")]
    tenant: TenantId,
    /// `contract_end`, `tenant_request`, `erasure_request` or `legal_order`.
    #[schemars(with = "String")]
    basis: ErasureBasis,
    /// The reference: a contract line or the number of an order.
    #[serde(default)]
    reference: String,
    #[serde(default)]
    reason: String,
    /// Offboards what remains of a tenant that is closed already: what a look at it finds, and what its certificate excepts. The
    /// certificate supplements the first one.
    #[serde(default)]
    remaining: bool,
}

impl OffboardingRequest {
    fn basis(&self) -> LegalBasis {
        LegalBasis { basis: self.basis, reference: self.reference.clone() }
    }
}

impl StartRequest for OffboardingRequest {
    type Document = Self;
    type Planned = types::stored_documents::OffboardingPlan;

    fn read(body: &TextBody, asked: &Parameters) -> Result<Self, Problem> {
        only(asked, &[])?;
        document(body)
    }

    fn tenant(&self) -> &str {
        self.tenant.as_str()
    }

    async fn start(
        self,
        app: &ServerState,
        caller: &Caller,
        asked: engine::Request,
    ) -> Result<Started, Problem> {
        let (basis, at) = (self.basis(), Moment::from(app.engine.clock().now()));
        let remaining = self.remaining;
        let leaves = Offboarding::new(self.tenant, basis, caller.name.clone(), at, self.reason);
        let leaves = if remaining {
            // While an execution changes the tenant, `start` refuses, or finds the same request again. Nothing is looked at.
            if changing(app, leaves.tenant.as_str()).await?.is_none() {
                look_at(&app.engine, &leaves.tenant, &mut SilentSources::default(), None).await?;
            }
            leaves.of_remaining_assets()
        } else {
            leaves
        };
        Ok(app.engine.start(leaves, asked).await?)
    }

    fn plan(&self, view: &mut View) -> Result<Value, Undecided> {
        if self.remaining {
            return Ok(json!(preview_remaining(view, &self.tenant, self.basis(), &self.reason)?));
        }
        Ok(json!(preview(view, &self.tenant, self.basis(), &self.reason)?))
    }
}

/// Returns the open execution that changes the whole tenant, if any. It gets the signals that it may wait for.
pub(in crate::http) async fn changing(
    app: &ServerState,
    tenant: &str,
) -> Result<Option<ExecutionId>, Problem> {
    Ok(app.engine.store().guard_holder(&format!("tenant/{tenant}")).await?)
}

/// Rejects an asset that the tenant certainly does not have, with similar names.
pub(in crate::http) async fn require_asset(
    app: &ServerState,
    tenant: &TenantId,
    asset: &AssetId,
) -> Result<(), Problem> {
    let Some(unknown) = unknown_asset(&app.engine, tenant, asset).await? else { return Ok(()) };
    let problem = Problem::new(ProblemCode::DocumentInvalid, unknown.to_string());
    Err(problem.with("nearest", json!(unknown.nearest)))
}

/// The classification of an asset.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Said")]
struct ClassifyBody {
    #[schemars(with = "String")]
    tenant: TenantId,
    #[schemars(with = "String")]
    asset: AssetId,
    /// The class, such as `workload`, `model`, `secret`, `backup`, `accounting`.
    #[schemars(with = "String")]
    class: DataClass,
    reason: String,
}

async fn classify_asset(
    State(app): State<SharedState>,
    Extension(caller): Extension<Caller>,
    JsonBody(said): JsonBody<ClassifyBody>,
) -> Result<Json<Value>, Problem> {
    let waits = changing(&app, said.tenant.as_str()).await?;
    require_asset(&app, &said.tenant, &said.asset).await?;
    let kept = app
        .engine
        .transact(true, |view| {
            view.require::<Tenant>(said.tenant.as_str())?;
            let classification = Classification {
                tenant: said.tenant.clone(),
                asset: said.asset.clone(),
                class: said.class,
                by: caller.name.clone(),
                reason: said.reason.clone(),
                at: view.now().into(),
            };
            classify(view, classification.clone())?;
            if let Some(waits) = waits {
                view.signal(waits, ASSETS_CLASSIFIED);
            }
            Ok(classification)
        })
        .await?;
    tracing::info!(tenant = %kept.tenant, asset = %kept.asset.0, by = caller.name, "asset classified");
    Ok(Json(json!(kept)))
}
