//! `webhook`: CloudEvents 1.0 by POST, signed as Standard Webhooks says.
//!
//! The header `tenure-signature` says the same in the older way: over the body alone, which does not bind the moment.

use super::channel::{Message, Sent, ask, client, secret};
use crate::config;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use engine::Notification;
use reqwest::Client;
use ring::hmac;
use serde_json::{Value, json};
use workflows::notices::Kind;

pub(super) struct Webhook {
    client: Client,
    url: String,
    /// The secret, and the one before it: each signs.
    keys: Vec<hmac::Key>,
}

impl Webhook {
    pub(super) fn of(settings: &config::Channel) -> Result<Self, String> {
        let files =
            [("secret_file", &settings.secret_file), ("earlier_secret_file", &settings.earlier_secret_file)];
        let set = files.into_iter().filter(|(_, file)| !file.is_empty());
        let keys = set.map(|(key, file)| key_of(key, file)).collect::<Result<_, _>>()?;
        Ok(Self { client: client()?, url: settings.url.clone(), keys })
    }

    pub(super) async fn send(&self, message: &Message<'_>) -> Sent {
        let told = message.told;
        let body = event(told, message.kind, &message.matter).to_string();
        let seconds = message.now.0 / 1_000;
        let mut request = self
            .client
            .post(&self.url)
            .header("content-type", "application/cloudevents+json; charset=utf-8")
            .header("webhook-id", &told.id)
            .header("webhook-timestamp", seconds.to_string());
        if let Some(key) = self.keys.first() {
            request = request
                .header("tenure-signature", signature(key, &body))
                .header("webhook-signature", signatures(&self.keys, &told.id, seconds, &body));
        }
        ask(request.body(body), "").await
    }
}

/// The key in a file: what follows `whsec_` in base64, or its bytes as they are.
fn key_of(key: &str, file: &str) -> Result<hmac::Key, String> {
    let text = secret(key, file)?;
    let bytes = match text.strip_prefix("whsec_") {
        Some(encoded) => {
            let wrong = |_| format!("{key}: {file}: what follows `whsec_` is no base64");
            STANDARD.decode(encoded).map_err(wrong)?
        }
        None => text.into_bytes(),
    };
    if bytes.len() < 16 {
        return Err(format!("{key}: {file} has less than 16 bytes"));
    }
    Ok(hmac::Key::new(hmac::HMAC_SHA256, &bytes))
}

/// Of each key `v1,` and the HMAC-SHA256 of id, moment and body in base64, with spaces between.
fn signatures(keys: &[hmac::Key], id: &str, seconds: u64, body: &str) -> String {
    let signed = format!("{id}.{seconds}.{body}");
    let one = |key| format!("v1,{}", STANDARD.encode(hmac::sign(key, signed.as_bytes())));
    keys.iter().map(one).collect::<Vec<_>>().join(" ")
}

/// `sha256=` and the HMAC-SHA256 of the body under the shared secret, in hexadecimal.
fn signature(key: &hmac::Key, body: &str) -> String {
    format!("sha256={}", crate::hex::encode(hmac::sign(key, body.as_bytes()).as_ref()))
}

/// A notification as a CloudEvent 1.0.
fn event(told: &Notification, kind: Kind, matter: &str) -> Value {
    let severity: &str = kind.severity.into();
    json!({
        "specversion": "1.0",
        "id": told.id,
        "type": format!("tenure.{}", told.kind),
        "source": "/tenure",
        "subject": told.about,
        "time": crate::http::time(told.at),
        "datacontenttype": "application/json",
        "data": {
            "to": told.to,
            "text": told.text,
            "severity": severity,
            "reason": told.reason,
            "tenant": Some(&told.tenant).filter(|tenant| !tenant.is_empty()),
            "matter": matter,
        },
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

    /// The example of the specification of Standard Webhooks.
    #[test]
    fn a_message_is_signed_as_standard_webhooks_says() {
        let secret = STANDARD.decode("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap();
        let key = hmac::Key::new(hmac::HMAC_SHA256, &secret);
        let signed =
            signatures(&[key], "msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, "{\"test\": 2432232314}");
        assert_eq!(signed, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    }
}
