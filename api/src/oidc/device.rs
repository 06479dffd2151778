//! The device flow (RFC 8628): the user signs in with any browser for a command line.

use super::{Provider, SignInError};
use serde::Deserialize;
use std::time::Duration;
use store::Timestamp;

/// The additional interval after `slow_down` (RFC 8628, 3.5).
const SLOWER: Duration = Duration::from_secs(5);

/// The device authorization: the code and URL for the user.
#[derive(Clone, Debug, Deserialize)]
pub struct DeviceAuthorization {
    device_code: String,
    /// The code that the user types.
    pub user_code: String,
    /// The URL.
    pub verification_uri: String,
    /// The URL with the code, if the provider has one.
    pub verification_uri_complete: Option<String>,
    /// The validity, in seconds.
    pub expires_in: u64,
    #[serde(default = "five")]
    interval: u64,
}

fn five() -> u64 {
    5
}

/// The answer of the provider to a poll.
#[derive(Deserialize)]
#[serde(untagged)]
enum DevicePoll {
    Token { id_token: String },
    Not { error: String },
}

impl Provider {
    /// Requests a device authorization.
    ///
    /// # Errors
    /// [`SignInError::Off`] if the provider has no device flow, or [`SignInError::Unavailable`].
    pub async fn ask_consent(&self, now: Timestamp) -> Result<DeviceAuthorization, SignInError> {
        let metadata = self.metadata(now).await?;
        let Some(endpoint) = &metadata.device_authorization_endpoint else {
            let why = "the provider has no device flow; sign in with the console, or with --id-token-file";
            return Err(SignInError::Off(why.into()));
        };
        let settings = self.settings();
        let form = [("client_id", settings.device_client()), ("scope", settings.scopes.as_str())];
        self.post(endpoint, "device_authorization_endpoint", &form).await
    }

    /// Polls until the user has consented, and returns the ID token.
    ///
    /// # Errors
    /// [`SignInError::Refused`] if the user refused or did not answer in time; or [`SignInError::Unavailable`].
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
                        return Err(SignInError::Refused("the user refused the sign-in".into()));
                    }
                    "expired_token" => break,
                    other => return Err(SignInError::Refused(format!("the provider refused: {other}"))),
                },
            }
        }
        Err(SignInError::Refused(format!("no sign-in within {} s; start again", consent.expires_in)))
    }

    async fn post_asking(&self, url: &str, form: &[(&str, &str)]) -> Result<DevicePoll, SignInError> {
        // Until the user has consented, the provider answers with an error.
        self.post_read(url, "token_endpoint", form, |status| status == 200 || status == 400).await
    }
}
