//! `slack`: the JSON of Slack's incoming webhooks, which Mattermost and others accept too. The URL is the secret.

use crate::{
    config,
    notify::channel::{Message, Sent, client, secret, send_request},
};
use reqwest::Client;
use serde_json::json;

pub(in crate::notify) struct Slack {
    client: Client,
    url: String,
}

/// The maximum length of a text, in characters; Slack cuts longer ones.
const MOST: usize = 3_000;

impl Slack {
    pub(in crate::notify) fn of(settings: &config::Channel) -> Result<Self, String> {
        let url = secret("url_file", &settings.url_file)?;
        if reqwest::Url::parse(&url).is_err() {
            return Err(format!("url_file: {}: its content is not a URL", settings.url_file));
        }
        Ok(Self { client: client()?, url })
    }

    pub(in crate::notify) async fn send(&self, message: &Message<'_>) -> Sent {
        let body = json!({ "text": text(&message.words.title, &message.words.body) });
        send_request(self.client.post(&self.url).json(&body), &self.url).await
    }
}

/// Returns the title in bold, with the body below.
fn text(title: &str, body: &str) -> String {
    let title = escaped(title);
    let whole = match escaped(body) {
        body if body.is_empty() => format!("*{title}*"),
        body => format!("*{title}*\n{body}"),
    };
    whole.chars().take(MOST).collect()
}

/// Escapes the three control characters of Slack, so that a text cannot mention users.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_mentions_no_user() {
        assert_eq!(text("a <!channel> & b", ""), "*a &lt;!channel&gt; &amp; b*");
        assert_eq!(text("a", "b"), "*a*\nb");
    }
}
