//! `webhook`: CloudEvents 1.0 by POST, signed according to Standard Webhooks.
//!
//! The header `tenure-signature` is an older signature: it covers only the body, not the time.

use crate::{
    config,
    notify::{
        channel::{Message, Sent, client, send_request, signature::SigningKeys},
        delivery::Delivery,
    },
};
use program::encoding::rfc3339::format_time;
use reqwest::Client;
use serde_json::{Value, json};

pub(in crate::notify) struct Webhook {
    client: Client,
    url: String,
    keys: SigningKeys,
}

impl Webhook {
    pub(in crate::notify) fn of(settings: &config::Channel) -> Result<Self, String> {
        let files =
            [("secret_file", &settings.secret_file), ("earlier_secret_file", &settings.earlier_secret_file)];
        let set = files.into_iter().filter(|(_, file)| !file.is_empty());
        let set = set.map(|(key, file)| (key, file.as_str()));
        Ok(Self { client: client()?, url: settings.url.clone(), keys: SigningKeys::of(set)? })
    }

    pub(in crate::notify) async fn send(&self, message: &Message<'_>) -> Sent {
        let told = message.told;
        let body = event(message).to_string();
        let seconds = message.now.0 / 1_000;
        let mut request = self
            .client
            .post(&self.url)
            .header("content-type", "application/cloudevents+json; charset=utf-8")
            .header("webhook-id", &told.id)
            .header("webhook-timestamp", seconds.to_string());
        if let Some(first) = self.keys.first(&body) {
            request = request
                .header("tenure-signature", first)
                .header("webhook-signature", self.keys.signatures(&told.id, seconds, &body));
        }
        send_request(request.body(body), "").await
    }
}

/// Returns a notification as a CloudEvent 1.0, with the extension `sequence`, and `traceparent` if there is a trace.
pub(in crate::notify) fn event(message: &Message<'_>) -> Value {
    let (told, severity): (_, &str) = (message.told, message.kind.severity.into());
    let mut event = json!({
        "specversion": "1.0",
        "id": told.id,
        "type": format!("tenure.{}", told.kind),
        "source": "/tenure",
        "subject": told.about,
        "time": format_time(told.at),
        "datacontenttype": "application/json",
        "sequence": Delivery::sequence(told),
        "data": {
            "to": told.to,
            "text": told.text,
            "severity": severity,
            "reason": told.reason,
            "tenant": Some(&told.tenant).filter(|tenant| !tenant.is_empty()),
            "matter": message.matter,
        },
    });
    if let (Some(trace), Some(fields)) = (&message.trace, event.as_object_mut()) {
        fields.insert("traceparent".into(), trace.as_str().into());
    }
    event
}
