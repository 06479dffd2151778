//! Checks channels for `tenure doctor`: creates them as the server does at its start, and sends nothing.

use super::{
    channel::{Channel, secret},
    text::Templates,
};
use crate::config;

/// The destination of a channel, without secrets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Destination {
    /// An HTTP service: its URL without the path.
    Http(String),
    /// A mail server: host and port.
    Smtp(String),
    /// A file on this machine.
    File,
}

/// Returns each channel with its destination, or the error that would stop the server.
pub fn check(settings: &config::Notify) -> Vec<(String, Result<Destination, String>)> {
    let made = settings.all().into_iter().map(|(name, set)| {
        let found = Channel::of(&name, &set).and_then(|_| destination(&set));
        (name, found)
    });
    let texts = Templates::of(&settings.templates).err().map(|why| ("templates".to_owned(), Err(why)));
    made.chain(texts).collect()
}

fn destination(set: &config::Channel) -> Result<Destination, String> {
    let url = match set.kind {
        config::ChannelKind::File => return Ok(Destination::File),
        config::ChannelKind::Email => return Ok(Destination::Smtp(set.server.clone())),
        config::ChannelKind::Slack => secret("url_file", &set.url_file)?,
        config::ChannelKind::Pagerduty if set.url.is_empty() => config::Channel::PAGERDUTY.into(),
        config::ChannelKind::Pagerduty | config::ChannelKind::Webhook => set.url.clone(),
    };
    // The part after the host may be a secret.
    let origin = reqwest::Url::parse(&url).map_err(|error| format!("url: {error}"))?.origin();
    Ok(Destination::Http(format!("{}/", origin.ascii_serialization())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_in_an_address_are_not_shown() {
        // Another test may have installed it.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("slack");
        std::fs::write(&file, "https://hooks.example.com:8443/services/T0/B0/secret\n").unwrap();
        let set = serde_json::json!({ "kind": "slack", "url_file": file });
        let set = serde_json::from_value(set).unwrap();
        let settings =
            config::Notify { channels: [("team".into(), set)].into(), ..config::Notify::default() };
        let wanted = Destination::Http("https://hooks.example.com:8443/".into());
        assert_eq!(check(&settings), [("team".to_owned(), Ok::<_, String>(wanted))]);
        std::fs::write(&file, "").unwrap();
        let found = check(&settings);
        let [(_, Err(why))] = &found[..] else { panic!("an empty secret is invalid") };
        assert!(why.contains("notify.channels.team.url_file"), "{why}");
    }
}
