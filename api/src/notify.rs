//! Tells people what they are to be told: each notification is sent to the address that the settings name, signed, again
//! until it is taken; what nobody takes is forgotten after a week.
//!
//! A notification is written by the commit that it tells of, so none is lost with a crash; a receiver may be told twice, and
//! knows by the `id`. Only the address of the settings is ever called, and no redirect is followed.

use crate::{app::Shared, config::Notify};
use engine::Notification;
use reqwest::{Client, StatusCode, redirect::Policy};
use ring::hmac;
use serde_json::json;
use std::{path::Path, time::Duration};
use store::{Commit, Document, Put, Read};
use tokio::sync::watch;

/// Where the engine leaves them.
pub(crate) const COLLECTION: &str = "notifications";
/// How often it is looked.
const EVERY: Duration = Duration::from_secs(2);
/// How often it is looked where nobody is to be told: for what is old.
const IDLE: Duration = Duration::from_secs(60);
/// How long what nobody takes is kept.
const KEPT: Duration = Duration::from_secs(7 * 86_400);
/// How long an answer is waited for.
const PATIENCE: Duration = Duration::from_secs(10);
/// The longest pause between two tries.
const MOST_PAUSE: Duration = Duration::from_secs(30);
/// Notifications looked at in one go.
const PAGE: usize = 100;

/// Works until `stop` says so.
pub(crate) async fn run(app: Shared, mut stop: watch::Receiver<bool>) {
    let sender = match Sender::of(&app.config.notify) {
        Ok(sender) => sender,
        Err(why) => {
            tracing::error!(why, "nobody can be notified; notifications are kept and listed");
            None
        }
    };
    let clock = app.engine.clock().clone();
    let every = if sender.is_some() { EVERY } else { IDLE };
    let mut pause = every;
    loop {
        if !app.free(&mut stop).await {
            return;
        }
        let worked = tokio::select! {
            _ = stop.wait_for(|stop| *stop) => return,
            worked = round(&app, sender.as_ref()) => worked,
        };
        pause = match worked {
            Ok(()) => every,
            Err(why) => {
                app.requests.notify_failed();
                tracing::warn!(why, "a notification was not taken; trying again");
                (pause * 2).min(MOST_PAUSE)
            }
        };
        tokio::select! {
            _ = stop.wait_for(|stop| *stop) => return,
            () = clock.sleep_until(clock.now().after(pause)) => {}
        }
    }
}

/// Sends what there is, in the order of ids, and forgets what is old. One that is answered and not taken keeps none of the
/// others back; a receiver that cannot be reached ends the round.
async fn round(app: &Shared, sender: Option<&Sender>) -> Result<(), String> {
    let store = app.engine.store();
    let mut after: Option<String> = None;
    let mut waiting = 0;
    let mut refused = None;
    loop {
        let page =
            store.documents(COLLECTION, "", after.as_deref(), PAGE).await.map_err(|e| e.to_string())?;
        for found in &page.items {
            let Ok(told) = serde_json::from_slice::<Notification>(&found.body) else {
                forget(app, found).await;
                continue;
            };
            let old = app.engine.clock().now().since(told.at) > KEPT;
            match sender {
                Some(sender) if !old => {
                    let status = sender.send(&told).await?;
                    if status.is_success() {
                        forget(app, found).await;
                    } else {
                        waiting += 1;
                        refused = Some(format!("{} was answered with {status}", told.id));
                    }
                }
                Some(_) | None if old => forget(app, found).await,
                Some(_) | None => waiting += 1,
            }
        }
        after = page.next;
        if after.is_none() {
            app.requests.notifications(waiting);
            return refused.map_or(Ok(()), Err);
        }
    }
}

/// Removes one, unless it has been written anew.
async fn forget(app: &Shared, found: &Document) {
    let reads = vec![Read { key: found.key.clone(), version: Some(found.version) }];
    let documents = vec![Put { key: found.key.clone(), body: None }];
    if let Err(error) = app.engine.store().commit(Commit { reads, documents, ..Commit::default() }).await {
        tracing::debug!(%error, "a notification stays for another round");
    }
}

struct Sender {
    client: Client,
    url: String,
    key: Option<hmac::Key>,
}

impl Sender {
    /// One for the address that the settings name, if they name one.
    fn of(settings: &Notify) -> Result<Option<Self>, String> {
        if settings.url.is_empty() {
            return Ok(None);
        }
        let client = Client::builder().redirect(Policy::none()).timeout(PATIENCE).build();
        let client = client.map_err(|error| error.to_string())?;
        let key =
            if settings.secret_file.is_empty() { None } else { Some(secret(settings.secret_file.as_ref())?) };
        Ok(Some(Self { client, url: settings.url.clone(), key }))
    }

    /// Sends one as a CloudEvent; taken is what is answered with a status of success.
    async fn send(&self, told: &Notification) -> Result<StatusCode, String> {
        let body = event(told).to_string();
        let mut request =
            self.client.post(&self.url).header("content-type", "application/cloudevents+json; charset=utf-8");
        if let Some(key) = &self.key {
            request = request.header("tenure-signature", signature(key, &body));
        }
        let answer = request.body(body).send().await.map_err(|error| error.without_url().to_string())?;
        Ok(answer.status())
    }
}

fn secret(file: &Path) -> Result<hmac::Key, String> {
    let secret =
        std::fs::read(file).map_err(|error| format!("notify.secret_file: {}: {error}", file.display()))?;
    let secret = secret.trim_ascii();
    if secret.len() < 16 {
        return Err(format!("notify.secret_file: {} has less than 16 bytes", file.display()));
    }
    Ok(hmac::Key::new(hmac::HMAC_SHA256, secret))
}

/// `sha256=` and the HMAC-SHA256 of the body under the shared secret, in hexadecimal.
fn signature(key: &hmac::Key, body: &str) -> String {
    format!("sha256={}", crate::hex::encode(hmac::sign(key, body.as_bytes()).as_ref()))
}

/// A notification as a CloudEvent 1.0.
fn event(told: &Notification) -> serde_json::Value {
    json!({
        "specversion": "1.0",
        "id": told.id,
        "type": format!("tenure.{}", told.kind),
        "source": "/tenure",
        "subject": told.about,
        "time": crate::http::time(told.at),
        "datacontenttype": "application/json",
        "data": { "to": told.to, "text": told.text },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 4231, test case 2.
    #[test]
    fn a_body_is_signed_as_the_standard_says() {
        let key = hmac::Key::new(hmac::HMAC_SHA256, b"Jefe");
        assert_eq!(
            signature(&key, "what do ya want for nothing?"),
            "sha256=5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"
        );
    }
}
