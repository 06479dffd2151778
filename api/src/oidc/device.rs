//! The device flow (RFC 8628): somebody signs in on any browser for a command line that has none.

use super::{Provider, SignInError};
use serde::Deserialize;
use std::time::Duration;
use store::Timestamp;

/// How much longer is waited between two questions when the provider asks for it (RFC 8628, 3.5).
const SLOWER: Duration = Duration::from_secs(5);

/// What somebody has to do, and what is asked with meanwhile.
#[derive(Clone, Debug, Deserialize)]
pub struct DeviceAuthorization {
    device_code: String,
    /// What is typed in there.
    pub user_code: String,
    /// Where.
    pub verification_uri: String,
    /// The two in one, if the provider has such.
    pub verification_uri_complete: Option<String>,
    /// How long it holds, in seconds.
    pub expires_in: u64,
    #[serde(default = "five")]
    interval: u64,
}

fn five() -> u64 {
    5
}

/// What the provider says when it is asked whether somebody has consented.
#[derive(Deserialize)]
#[serde(untagged)]
enum DevicePoll {
    Token { id_token: String },
    Not { error: String },
}

impl Provider {
    /// Asks for somebody's consent.
    ///
    /// # Errors
    /// [`SignInError::Off`] where the provider has no device flow, or [`SignInError::Unavailable`].
    pub async fn ask_consent(&self, now: Timestamp) -> Result<DeviceAuthorization, SignInError> {
        let metadata = self.metadata(now).await?;
        let Some(endpoint) = &metadata.device_authorization_endpoint else {
            let why = "the provider offers no sign-in for devices; sign in with the console, or with --id-token-file";
            return Err(SignInError::Off(why.into()));
        };
        let settings = self.settings();
        let form = [("client_id", settings.device_client()), ("scope", settings.scopes.as_str())];
        self.post(endpoint, "device_authorization_endpoint", &form).await
    }

    /// The ID token, once somebody has consented.
    ///
    /// # Errors
    /// [`SignInError::Refused`] when they did not, or not in time; or [`SignInError::Unavailable`].
    pub async fn await_consent(
        &self,
        consent: &DeviceAuthorization,
        now: Timestamp,
    ) -> Result<String, SignInError> {
        let token_endpoint = self.metadata(now).await?.token_endpoint;
        let form = [
            ("grant_type", "urn:ietf:params:oauth:grant-type:device_code"),
            ("device_code", consent.device_code.as_str()),
            ("client_id", self.settings().device_client()),
        ];
        let mut pause = Duration::from_secs(consent.interval.max(1));
        let mut waited = Duration::ZERO;
        while waited < Duration::from_secs(consent.expires_in) {
            tokio::time::sleep(pause).await;
            waited += pause;
            match self.post_asking(&token_endpoint, &form).await? {
                DevicePoll::Token { id_token } => return Ok(id_token),
                DevicePoll::Not { error } => match error.as_str() {
                    "authorization_pending" => {}
                    "slow_down" => pause += SLOWER,
                    "access_denied" => {
                        return Err(SignInError::Refused("the sign-in was refused there".into()));
                    }
                    "expired_token" => break,
                    other => return Err(SignInError::Refused(format!("the provider refused: {other}"))),
                },
            }
        }
        Err(SignInError::Refused(format!("nobody signed in within {} s; start again", consent.expires_in)))
    }

    async fn post_asking(&self, url: &str, form: &[(&str, &str)]) -> Result<DevicePoll, SignInError> {
        // Whoever waits is told by an error that it is not yet.
        self.post_read(url, "token_endpoint", form, |status| status == 200 || status == 400).await
    }
}
