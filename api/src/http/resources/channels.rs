//! `/v1/channels`: through what people are told, and what became of it.

use crate::{
    auth::{Caller, Verb},
    http::{
        extract::{
            Asked, Sent,
            page::{Listed, Page, Paging, documents},
        },
        problem::{Problem, code::Code},
        route::{Access, Route},
        route_doc::told,
    },
    notify,
    state::{App, Shared},
    types::channels::{Channel, Delivery},
};
use axum::{
    Extension, Json,
    extract::{Path, State},
};
use engine::{Entity as _, Undecided, View, because};
use program::encoding::hex;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use workflows::policy::duration;

pub(in crate::http) fn routes() -> Vec<Route> {
    let (read, manage) = (Access::Staff(Verb::ReadChannels), Access::Staff(Verb::ManageChannels));
    vec![
        Route::get(
            "/v1/channels",
            read,
            list,
            told("listChannels", "Lists the channels through which people are told.").lists::<Channel>(),
        ),
        Route::get(
            "/v1/channels/{channel}/deliveries",
            read,
            deliveries,
            told("listDeliveries", "Lists what became of what a channel was to tell.").lists::<Delivery>(),
        ),
        Route::post(
            "/v1/channels/{channel}:test",
            manage,
            test,
            told("testChannel", "Sends a notification that says nothing, and answers what came of it.")
                .says::<Delivery>(200),
        ),
        Route::get(
            "/v1/channels/{channel}/deliveries/{delivery}",
            read,
            show,
            told("showDelivery", "A delivery, with its last attempts.").says::<Delivery>(200),
        ),
        Route::post(
            "/v1/channels/{channel}/deliveries/{delivery}:retry",
            manage,
            retry,
            told("retryDelivery", "Sends a delivery that waits now; quiet hours are kept.")
                .says::<Delivery>(200)
                .may(&[Code::Conflict]),
        ),
        Route::post(
            "/v1/channels/{channel}/deliveries/{delivery}:discard",
            manage,
            discard,
            told("discardDelivery", "Gives up a delivery that waits or is dead.")
                .says::<Delivery>(200)
                .may(&[Code::Conflict, Code::ReasonMissing]),
        ),
        Route::post(
            "/v1/channels/{channel}/deliveries/{delivery}:resend",
            manage,
            resend,
            told("resendDelivery", "Sends what is dead or has ended again, as a new delivery; answers that.")
                .says::<Delivery>(200),
        ),
    ]
}

fn find<'a>(app: &'a App, name: &str) -> Result<&'a notify::Channel, Problem> {
    app.outbox.channels().get(name).ok_or_else(|| Problem::not_found("channel", name))
}

async fn list(
    State(app): State<Shared>,
    Asked(paging): Asked<Paging>,
) -> Result<Json<Listed<Channel>>, Problem> {
    let page = paging.page()?;
    let all = app.outbox.channels().iter().collect();
    let Listed { items: part, next } = Listed::part(all, &page, |(name, _)| (*name).clone());
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
            waiting: count(&app, notify::Waiting::COLLECTION, name).await?,
            dead: count(&app, notify::Dead::COLLECTION, name).await?,
        });
    }
    Ok(Json(Listed { items, next }))
}

/// How many documents of `collection` are of the channel.
async fn count(app: &App, collection: &str, channel: &str) -> Result<usize, Problem> {
    let (mut sum, mut after, prefix) = (0, None::<String>, format!("{channel}/"));
    loop {
        let page = app.engine.store().documents(collection, &prefix, after.as_deref(), 1_000).await?;
        sum += page.items.len();
        after = page.next;
        if after.is_none() {
            return Ok(sum);
        }
    }
}

/// Which deliveries are listed.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "DeliveryState")]
enum Which {
    /// Those to be sent, in the order of sending.
    Waiting,
    /// Those that came to their end within a week, and tests; the latest first.
    #[default]
    Settled,
    /// Those that nobody took, within thirty days.
    Dead,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Wanted {
    #[serde(default)]
    state: Which,
    limit: Option<usize>,
    cursor: Option<String>,
}

async fn deliveries(
    State(app): State<Shared>,
    Path(name): Path<String>,
    Asked(wanted): Asked<Wanted>,
) -> Result<Json<Listed<Delivery>>, Problem> {
    let channel = find(&app, &name)?;
    let page = Page::of(wanted.limit, wanted.cursor.as_deref())?;
    let prefix = format!("{name}/");
    let (found, next) = match wanted.state {
        Which::Waiting => {
            let (found, next) = documents::<notify::Waiting>(&app, &prefix, &page, |_| true).await?;
            (found.into_iter().map(|notify::Waiting(delivery)| delivery).collect::<Vec<_>>(), next)
        }
        Which::Settled => {
            let (found, next) = documents::<notify::Settled>(&app, &prefix, &page, |_| true).await?;
            (found.into_iter().map(|notify::Settled(delivery)| delivery).collect(), next)
        }
        Which::Dead => {
            let (found, next) = documents::<notify::Dead>(&app, &prefix, &page, |_| true).await?;
            (found.into_iter().map(|notify::Dead(delivery)| delivery).collect(), next)
        }
    };
    Ok(Json(Listed::new(found.iter().map(|delivery| Delivery::of(delivery, channel)).collect(), next)))
}

async fn test(
    State(app): State<Shared>,
    Extension(caller): Extension<Caller>,
    Path(name): Path<String>,
) -> Result<Json<Delivery>, Problem> {
    let channel = find(&app, &name)?;
    let nonce = hex::encode(&app.engine.clock().entropy());
    let tried = app.outbox.test(channel, &caller.name, &nonce).await?;
    tracing::info!(channel = name, by = caller.name, state = <&str>::from(tried.state), "channel tried");
    Ok(Json(Delivery::of(&tried, channel)))
}

async fn show(
    State(app): State<Shared>,
    Path((name, delivery)): Path<(String, String)>,
) -> Result<Json<Delivery>, Problem> {
    let channel = find(&app, &name)?;
    let missing = || Problem::not_found("delivery", &delivery);
    let place = app.outbox.place(&name, &delivery).await?.ok_or_else(missing)?;
    let found = app.engine.ledger(false, |view| place.find(view)).await?.ok_or_else(missing)?;
    Ok(Json(Delivery::of(&found, channel)))
}

/// Why something is done about a delivery; it is in the audit.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct DeliveryOrder {
    #[serde(default)]
    reason: String,
}

/// Does something about a delivery, on record with who wants it and why.
async fn order(
    (app, caller): (&App, &Caller),
    (name, delivery): (&str, &str),
    (wanted, asked): (&'static str, DeliveryOrder),
    what: impl Fn(&notify::Place, &mut View, notify::Order) -> Result<notify::Did, Undecided>,
) -> Result<Json<Delivery>, Problem> {
    let channel = find(app, name)?;
    let missing = || Problem::not_found(wanted, delivery);
    let place = app.outbox.place(name, delivery).await?.ok_or_else(missing)?;
    let order = notify::Order { by: caller.name.clone(), why: asked.reason.trim().to_owned() };
    let doing = app.engine.ledger(true, |view| what(&place, view, order.clone()));
    match because(&order.why, doing).await? {
        notify::Did::This(done) => {
            let state: &str = done.state.into();
            tracing::info!(channel = name, delivery, by = caller.name, state, "somebody saw to a delivery");
            Ok(Json(Delivery::of(&done, channel)))
        }
        notify::Did::Nothing => Err(missing()),
        notify::Did::UnderWay => {
            let detail = format!("delivery {delivery} is being sent; look again in a minute what came of it");
            Err(Problem::new(Code::Conflict, detail))
        }
    }
}

async fn retry(
    State(app): State<Shared>,
    Extension(caller): Extension<Caller>,
    Path((name, delivery)): Path<(String, String)>,
    Sent(asked): Sent<DeliveryOrder>,
) -> Result<Json<Delivery>, Problem> {
    let wanted = ("waiting delivery", asked);
    order((&app, &caller), (&name, &delivery), wanted, notify::Place::retry).await
}

async fn discard(
    State(app): State<Shared>,
    Extension(caller): Extension<Caller>,
    Path((name, delivery)): Path<(String, String)>,
    Sent(asked): Sent<DeliveryOrder>,
) -> Result<Json<Delivery>, Problem> {
    if asked.reason.trim().is_empty() {
        let detail = "reason: say why nobody has to be told any more, for the audit";
        return Err(Problem::new(Code::ReasonMissing, detail));
    }
    let wanted = ("waiting or dead delivery", asked);
    order((&app, &caller), (&name, &delivery), wanted, notify::Place::discard).await
}

async fn resend(
    State(app): State<Shared>,
    Extension(caller): Extension<Caller>,
    Path((name, delivery)): Path<(String, String)>,
    Sent(asked): Sent<DeliveryOrder>,
) -> Result<Json<Delivery>, Problem> {
    let wanted = ("dead or settled delivery", asked);
    order((&app, &caller), (&name, &delivery), wanted, notify::Place::resend).await
}
