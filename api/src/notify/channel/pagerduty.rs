//! `pagerduty`: Events API v2. A matter is an incident: its opening event triggers, taking it up acknowledges, and its closing event resolves it. The key of
//! the matter is the deduplication key.

use crate::{
    config,
    notify::channel::{Message, Sent, client, secret, send_request},
};
use program::encoding::rfc3339::format_time;
use reqwest::Client;
use serde_json::{Value, json};
use workflows::notices::MatterChange;

pub(in crate::notify) struct Pagerduty {
    client: Client,
    url: String,
    key: String,
}

/// The maximum length of a summary, in characters.
const SUMMARY: usize = 1_024;
/// The maximum length of a deduplication key, in characters.
const NAME: usize = 255;

impl Pagerduty {
    pub(in crate::notify) fn of(settings: &config::Channel) -> Result<Self, String> {
        let url = match settings.url.as_str() {
            "" => config::Channel::PAGERDUTY.into(),
            url => url.to_owned(),
        };
        Ok(Self { client: client()?, url, key: secret("key_file", &settings.key_file)? })
    }

    pub(in crate::notify) async fn send(&self, message: &Message<'_>) -> Sent {
        let sent = self.tell(event(message)).await;
        if message.told.kind == "channel.test" && matches!(sent, Sent::Taken(_)) {
            // A test resolves its incident at once, so that it causes no alert.
            return self.tell(json!({ "event_action": "resolve", "dedup_key": name(message) })).await;
        }
        sent
    }

    async fn tell(&self, mut event: Value) -> Sent {
        if let Some(fields) = event.as_object_mut() {
            fields.insert("routing_key".into(), json!(self.key));
        }
        send_request(self.client.post(&self.url).json(&event), &self.key).await
    }
}

/// Returns the deduplication key.
fn name(message: &Message<'_>) -> String {
    message.matter.chars().take(NAME).collect()
}

/// Returns the event, without the integration key.
fn event(message: &Message<'_>) -> Value {
    let action = match message.kind.act {
        MatterChange::Opens | MatterChange::Tells => "trigger",
        MatterChange::TakesUp => "acknowledge",
        MatterChange::Closes => "resolve",
    };
    let mut event = json!({ "event_action": action, "dedup_key": name(message) });
    if action == "trigger" {
        let told = message.told;
        let severity: &str = message.kind.severity.into();
        let payload = json!({
            "summary": message.words.title.chars().take(SUMMARY).collect::<String>(),
            "source": "tenure",
            "severity": severity,
            "timestamp": format_time(told.at),
            "component": told.about,
            "group": told.tenant,
            "class": told.kind,
            "custom_details": {
                "id": told.id,
                "text": message.words.body,
                "to": told.to,
                "reason": told.reason,
            },
        });
        if let Some(fields) = event.as_object_mut() {
            fields.insert("payload".into(), payload);
        }
    }
    event
}
