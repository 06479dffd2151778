//! `/v1/channels`: notification channels and their deliveries.

use crate::{
    auth::{Caller, Verb},
    http::{
        extract::{
            JsonBody, QueryParams,
            page::{ListPage, Page, Paging, documents},
        },
        problem::{Problem, code::ProblemCode},
        route::{Access, Route},
        route_doc::doc,
    },
    notify,
    state::{ServerState, SharedState},
    types::channels::{Channel, Delivery},
};
use axum::{
    Extension, Json,
    extract::{Path, State},
};
use engine::{Entity as _, Undecided, View, with_reason};
use program::encoding::hex;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use store::CompositeKey;
use workflows::policy::duration;

pub(in crate::http) fn routes() -> Vec<Route> {
    let (read, manage) = (Access::Staff(Verb::ReadChannels), Access::Staff(Verb::ManageChannels));
    vec![
        Route::get(
            "/v1/channels",
            read,
            list,
            doc("listChannels", "Lists notification channels.").lists::<Channel>(),
        ),
        Route::get(
            "/v1/channels/{channel}/deliveries",
            read,
            deliveries,
            doc("listDeliveries", "Lists the deliveries of a channel.").lists::<Delivery>(),
        ),
        Route::post(
            "/v1/channels/{channel}:test",
            manage,
            test,
            doc("testChannel", "Sends a test notification and returns its result.").says::<Delivery>(200),
        ),
        Route::get(
            "/v1/channels/{channel}/deliveries/{delivery}",
            read,
            show,
            doc("showDelivery", "Shows a delivery with its last attempts.").says::<Delivery>(200),
        ),
        Route::post(
            "/v1/channels/{channel}/deliveries/{delivery}:retry",
            manage,
            retry,
            doc("retryDelivery", "Sends a waiting delivery now, except in quiet hours.")
                .says::<Delivery>(200)
                .may(&[ProblemCode::Conflict]),
        ),
        Route::post(
            "/v1/channels/{channel}/deliveries/{delivery}:discard",
            manage,
            discard,
            doc("discardDelivery", "Gives up a waiting or dead delivery.")
                .says::<Delivery>(200)
                .may(&[ProblemCode::Conflict, ProblemCode::ReasonMissing]),
        ),
        Route::post(
            "/v1/channels/{channel}/deliveries/{delivery}:resend",
            manage,
            resend,
            doc("resendDelivery", "Sends a dead or settled delivery again, and returns the new delivery.")
                .says::<Delivery>(200),
        ),
    ]
}

fn find<'a>(app: &'a ServerState, name: &str) -> Result<&'a notify::Channel, Problem> {
    app.outbox.channels().get(name).ok_or_else(|| Problem::not_found("channel", name))
}

async fn list(
    State(app): State<SharedState>,
    QueryParams(paging): QueryParams<Paging>,
) -> Result<Json<ListPage<Channel>>, Problem> {
    let page = paging.page()?;
    let all = app.outbox.channels().iter().collect();
    let ListPage { items: part, next } = ListPage::part(all, &page, |(name, _)| (*name).clone());
    let mut items = Vec::new();
    for (name, channel) in part {
        let settings = &channel.settings;
        items.push(Channel {
            id: name.clone(),
            kind: settings.kind.into(),
            quiet: settings.quiet.as_ref().map(|quiet| json!(quiet)),
            urgent: settings.urgent.into(),
            attempts: settings.attempts,
            dedup: duration::show(settings.dedup.0),
            waiting: count(&app, notify::WaitingDelivery::COLLECTION, name).await?,
            dead: count(&app, notify::DeadDelivery::COLLECTION, name).await?,
        });
    }
    Ok(Json(ListPage { items, next }))
}

/// Counts the documents of `collection` that belong to the channel.
async fn count(app: &ServerState, collection: &str, channel: &str) -> Result<usize, Problem> {
    let (mut sum, mut after, prefix) = (0, None::<String>, CompositeKey::of(&[&channel]).prefix());
    loop {
        let page = app.engine.store().documents(collection, &prefix, after.as_deref(), 1_000).await?;
        sum += page.items.len();
        after = page.next;
        if after.is_none() {
            return Ok(sum);
        }
    }
}

/// The deliveries to list.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "DeliveryState")]
enum DeliveryFilter {
    /// Deliveries to be sent, in sending order.
    Waiting,
    /// Deliveries that ended within a week, and tests; the latest first.
    #[default]
    Settled,
    /// Deliveries that failed permanently within thirty days.
    Dead,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Wanted")]
struct DeliveryParams {
    #[serde(default)]
    state: DeliveryFilter,
    limit: Option<usize>,
    cursor: Option<String>,
}

async fn deliveries(
    State(app): State<SharedState>,
    Path(name): Path<String>,
    QueryParams(wanted): QueryParams<DeliveryParams>,
) -> Result<Json<ListPage<Delivery>>, Problem> {
    let channel = find(&app, &name)?;
    let page = Page::of(wanted.limit, wanted.cursor.as_deref())?;
    let prefix = CompositeKey::of(&[&name]).prefix();
    let (found, next) = match wanted.state {
        DeliveryFilter::Waiting => {
            let (found, next) = documents::<notify::WaitingDelivery>(&app, &prefix, &page, |_| true).await?;
            (found.into_iter().map(|notify::WaitingDelivery(delivery)| delivery).collect::<Vec<_>>(), next)
        }
        DeliveryFilter::Settled => {
            let (found, next) = documents::<notify::SettledDelivery>(&app, &prefix, &page, |_| true).await?;
            (found.into_iter().map(|notify::SettledDelivery(delivery)| delivery).collect(), next)
        }
        DeliveryFilter::Dead => {
            let (found, next) = documents::<notify::DeadDelivery>(&app, &prefix, &page, |_| true).await?;
            (found.into_iter().map(|notify::DeadDelivery(delivery)| delivery).collect(), next)
        }
    };
    Ok(Json(ListPage::new(found.iter().map(|delivery| Delivery::of(delivery, channel)).collect(), next)))
}

async fn test(
    State(app): State<SharedState>,
    Extension(caller): Extension<Caller>,
    Path(name): Path<String>,
) -> Result<Json<Delivery>, Problem> {
    let channel = find(&app, &name)?;
    let nonce = hex::encode(&app.engine.clock().entropy());
    let tried = app.outbox.test(channel, &caller.name, &nonce).await?;
    tracing::info!(channel = name, by = caller.name, state = <&str>::from(tried.state), "channel tested");
    Ok(Json(Delivery::of(&tried, channel)))
}

async fn show(
    State(app): State<SharedState>,
    Path((name, delivery)): Path<(String, String)>,
) -> Result<Json<Delivery>, Problem> {
    let channel = find(&app, &name)?;
    let missing = || Problem::not_found("delivery", &delivery);
    let place = app.outbox.place(&name, &delivery).await?.ok_or_else(missing)?;
    let found = app.engine.transact(false, |view| place.find(view)).await?.ok_or_else(missing)?;
    Ok(Json(Delivery::of(&found, channel)))
}

/// The reason for a command to a delivery; the audit records it.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "DeliveryOrder")]
struct DeliveryCommandBody {
    #[serde(default)]
    reason: String,
}

/// Runs a command on a delivery, and records the caller and the reason.
async fn order(
    (app, caller): (&ServerState, &Caller),
    (name, delivery): (&str, &str),
    (wanted, asked): (&'static str, DeliveryCommandBody),
    what: impl Fn(
        &notify::DeliveryKeys,
        &mut View,
        notify::DeliveryCommand,
    ) -> Result<notify::CommandOutcome, Undecided>,
) -> Result<Json<Delivery>, Problem> {
    let channel = find(app, name)?;
    let missing = || Problem::not_found(wanted, delivery);
    let place = app.outbox.place(name, delivery).await?.ok_or_else(missing)?;
    let order = notify::DeliveryCommand { by: caller.name.clone(), why: asked.reason.trim().to_owned() };
    let doing = app.engine.transact(true, |view| what(&place, view, order.clone()));
    match with_reason(&order.why, doing).await? {
        notify::CommandOutcome::This(done) => {
            let state: &str = done.state.into();
            tracing::info!(
                channel = name,
                delivery,
                by = caller.name,
                state,
                "an operator handled a delivery"
            );
            Ok(Json(Delivery::of(&done, channel)))
        }
        notify::CommandOutcome::Nothing => Err(missing()),
        notify::CommandOutcome::UnderWay => {
            let detail = format!("delivery {delivery} is being sent; check its result in a minute");
            Err(Problem::new(ProblemCode::Conflict, detail))
        }
    }
}

async fn retry(
    State(app): State<SharedState>,
    Extension(caller): Extension<Caller>,
    Path((name, delivery)): Path<(String, String)>,
    JsonBody(asked): JsonBody<DeliveryCommandBody>,
) -> Result<Json<Delivery>, Problem> {
    let wanted = ("waiting delivery", asked);
    order((&app, &caller), (&name, &delivery), wanted, notify::DeliveryKeys::retry).await
}

async fn discard(
    State(app): State<SharedState>,
    Extension(caller): Extension<Caller>,
    Path((name, delivery)): Path<(String, String)>,
    JsonBody(asked): JsonBody<DeliveryCommandBody>,
) -> Result<Json<Delivery>, Problem> {
    if asked.reason.trim().is_empty() {
        let detail = "reason: give a reason for the audit";
        return Err(Problem::new(ProblemCode::ReasonMissing, detail));
    }
    let wanted = ("waiting or dead delivery", asked);
    order((&app, &caller), (&name, &delivery), wanted, notify::DeliveryKeys::discard).await
}

async fn resend(
    State(app): State<SharedState>,
    Extension(caller): Extension<Caller>,
    Path((name, delivery)): Path<(String, String)>,
    JsonBody(asked): JsonBody<DeliveryCommandBody>,
) -> Result<Json<Delivery>, Problem> {
    let wanted = ("dead or settled delivery", asked);
    order((&app, &caller), (&name, &delivery), wanted, notify::DeliveryKeys::resend).await
}
