//! `POST /v1/reservations`: GPUs promised to a workspace. Loans of them are reclaimed in time.

use crate::{
    auth::{Caller, Verb},
    http::{
        extract::{JsonBody, if_match::IfMatch},
        problem::{Problem, code::ProblemCode},
        resource_kind::ResourceKind as _,
        resource_routes::find,
        route::{Access, Route},
        route_doc::doc,
    },
    state::SharedState,
    types::{Span, Time, workspaces},
};
use axum::{
    Extension, Json,
    extract::{Path, State},
    http::{StatusCode, header},
    response::{IntoResponse as _, Response},
};
use chrono::DateTime;
use engine::{ActionError, Entity as _, Undecided, View};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use std::time::Duration;
use store::Timestamp;
use workflows::{
    policy::duration,
    scheduling::admission::{Rules, set_promises},
    tenancy::{
        AccountReservation, Cohort, GpuKind, Reservation, Resource, TenantId, WorkspaceName, as_written,
    },
};

pub(in crate::http) fn routes() -> Vec<Route> {
    let reserve = Access::Tenant(Verb::Reserve);
    vec![
        Route::post(
            "/v1/reservations",
            reserve,
            add,
            doc(
                "reserve",
                "Reserves GPUs for a workspace. A repeated request returns the existing reservation (200).",
            )
            .says::<workspaces::Reservation>(201)
            .located()
            .says::<workspaces::Reservation>(200)
            .located()
            .may(&[ProblemCode::BeyondNominal, ProblemCode::ReservationDiffers]),
        ),
        Route::post(
            "/v1/reservations:plan",
            reserve,
            plan,
            doc(
                "planReservation",
                "Previews a reservation, or the reason for its rejection. Changes nothing.",
            )
            .says::<workspaces::Reservation>(200)
            .may(&[ProblemCode::BeyondNominal, ProblemCode::ReservationDiffers]),
        ),
        Route::delete(
            "/v1/reservations/{tenant}/{workspace}/{reservation}",
            reserve,
            remove,
            doc("removeReservation", "Removes a reservation.").nothing().bound(ProblemCode::StaleTag),
        ),
    ]
}

/// A new reservation. Absent terms come from the policy; without a start it begins now.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct NewReservation {
    #[schemars(with = "String")]
    tenant: TenantId,
    #[schemars(with = "String")]
    workspace: WorkspaceName,
    name: String,
    /// A GPU model, or a slice as `MODEL/PROFILE`.
    #[schemars(with = "String")]
    #[serde(deserialize_with = "as_written")]
    kind: GpuKind,
    count: u64,
    #[schemars(with = "Option<Time>")]
    from: Option<String>,
    #[schemars(with = "Option<Time>")]
    to: Option<String>,
    #[schemars(with = "Option<Span>")]
    reclaim_deadline: Option<String>,
    #[schemars(with = "Option<Span>")]
    grace: Option<String>,
}

async fn add(
    State(app): State<SharedState>,
    Extension(caller): Extension<Caller>,
    JsonBody(new): JsonBody<NewReservation>,
) -> Result<Response, Problem> {
    let reserve = new.wished(&caller)?;
    let (reservation, fresh) = app.engine.transact(true, reserve).await?;
    tracing::info!(reservation = reservation.id(), by = caller.name, fresh, "reserved");
    let status = if fresh { StatusCode::CREATED } else { StatusCode::OK };
    let location = [(header::LOCATION, format!("/v1/reservations/{}", reservation.id()))];
    Ok((status, location, Json(reservation.seen(None))).into_response())
}

/// Dry run of a reservation.
async fn plan(
    State(app): State<SharedState>,
    Extension(caller): Extension<Caller>,
    JsonBody(new): JsonBody<NewReservation>,
) -> Result<Json<Value>, Problem> {
    let (reservation, _) = app.engine.transact(false, new.wished(&caller)?).await?;
    Ok(Json(reservation.seen(None)))
}

impl NewReservation {
    /// Returns the reservation to store, and whether it is new.
    fn wished(
        self,
        caller: &Caller,
    ) -> Result<impl FnMut(&mut View) -> Result<(Reservation, bool), Undecided>, Problem> {
        if !caller.sees(self.tenant.as_str()) {
            let detail = format!("{} may not act for tenant {}", caller.name, self.tenant);
            return Err(Problem::new(ProblemCode::ForeignTenant, detail));
        }
        let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        if self.name.is_empty() || self.name.len() > 64 || !self.name.chars().all(allowed) {
            return Err(wrong("name", "use 1 to 64 letters, digits, '-', '_' and '.'"));
        }
        let (from, to) = (time("from", self.from.as_deref())?, time("to", self.to.as_deref())?);
        let deadline = span("reclaim_deadline", self.reclaim_deadline.as_deref())?;
        let grace = span("grace", self.grace.as_deref())?;
        Ok(move |view: &mut View| {
            let rules = Rules::in_force(view)?;
            let reservation = Reservation {
                name: self.name.clone(),
                tenant: self.tenant.clone(),
                workspace: self.workspace.clone(),
                kind: self.kind.clone(),
                count: self.count,
                from: from.unwrap_or(view.now()),
                to,
                reclaim_deadline: deadline.unwrap_or(rules.reclaim_deadline),
                grace: grace.unwrap_or(rules.grace),
            };
            promise(view, reservation, from.is_none())
        })
    }
}

/// Writes a reservation and its promise in one commit. The promises never exceed the workspace's nominal quota at any time. A repeated request returns the
/// existing reservation.
fn promise(view: &mut View, new: Reservation, from_now: bool) -> Result<(Reservation, bool), Undecided> {
    if let Some(stands) = view.get::<Reservation>(&new.id())? {
        let from = if from_now { stands.from } else { new.from };
        if stands == (Reservation { from, ..new.clone() }) {
            return Ok((stands, false));
        }
        let why = format!("reservation {} exists with other terms", new.id());
        return Err(ActionError::permanent("reservation.differs", why).into());
    }
    let cohort = view.require::<Cohort>(new.tenant.as_str())?;
    let account = cohort.accounts.get(&new.workspace).ok_or_else(|| {
        let why = format!("tenant {} has no account for workspace {}", new.tenant, new.workspace);
        ActionError::permanent("workspace.unknown", why)
    })?;
    let resource = Resource::Gpu(new.kind.clone());
    let nominal = account.balance(&resource).allowance.nominal;
    // The sum of promises is largest at the start of a reservation.
    let begins = account.promises.values().map(|promise| promise.from).chain([new.from]);
    let during = |at: &Timestamp| new.is_active(*at);
    let most = begins.filter(during).map(|at| account.reserved(&resource, at)).max().unwrap_or(0);
    if most.saturating_add(new.count) > nominal {
        let why = format!(
            "count: {most} of {nominal} {resource} of workspace {} are already promised; {} more exceed the quota",
            new.workspace, new.count
        );
        return Err(ActionError::permanent("reservation.beyond_nominal", why).into());
    }
    let mut promises = account.promises.clone();
    let promised = AccountReservation {
        resource,
        count: new.count,
        from: new.from,
        to: new.to,
        reclaim_deadline: new.reclaim_deadline,
        grace: new.grace,
    };
    promises.insert(new.name.clone(), promised);
    set_promises(view, &new.tenant, &new.workspace, promises)?;
    view.put(&new)?;
    Ok((new, true))
}

async fn remove(
    State(app): State<SharedState>,
    Extension(caller): Extension<Caller>,
    Path((tenant, workspace, name)): Path<(String, String, String)>,
    bound: IfMatch,
) -> Result<StatusCode, Problem> {
    let there = find::<Reservation>(&app, &caller, &[&tenant, &workspace, &name]).await?;
    let id = there.id();
    let remove = app.engine.transact(true, |view| {
        view.get::<Reservation>(&id)?;
        view.delete::<Reservation>(&id)?;
        let cohort = view.get::<Cohort>(there.tenant.as_str())?;
        let account = cohort.as_ref().and_then(|cohort| cohort.accounts.get(&there.workspace));
        let Some(account) = account else { return Ok(()) };
        let mut promises = account.promises.clone();
        promises.remove(&there.name);
        set_promises(view, &there.tenant, &there.workspace, promises)
    });
    bound.bind::<Reservation, _>("the reservation", &id, remove).await?;
    tracing::info!(reservation = there.id(), by = caller.name, "reservation removed");
    Ok(StatusCode::NO_CONTENT)
}

fn wrong(field: &str, why: &str) -> Problem {
    Problem::new(ProblemCode::DocumentInvalid, format!("{field}: {why}"))
}

/// Parses a timestamp.
pub(in crate::http) fn time(field: &str, text: Option<&str>) -> Result<Option<Timestamp>, Problem> {
    let Some(text) = text else { return Ok(None) };
    let read = DateTime::parse_from_rfc3339(text).ok();
    let at = read.and_then(|at| u64::try_from(at.timestamp_millis()).ok()).map(Timestamp);
    at.map(Some).ok_or_else(|| {
        wrong(field, &format!("{text:?} is not a timestamp; write it like `2026-03-01T00:00:00Z`"))
    })
}

fn span(field: &str, text: Option<&str>) -> Result<Option<Duration>, Problem> {
    let Some(text) = text else { return Ok(None) };
    let read = duration::parse(text);
    read.map(Some)
        .ok_or_else(|| wrong(field, &format!("{text:?} is not a duration; write it like `15m` or `1h30m`")))
}
