//! Client of `slurmrestd`: selects the data parser and interprets errors.
//!
//! `slurmrestd` answers HTTP 500 for a wrong token, an unknown job and an unknown account, and HTTP 200 for a body that
//! it cannot parse. Answers are therefore classified by the numbers in their list of errors.

use crate::slurm::{
    TargetError,
    responses::{self, Account, Association, Job, Node, Parser, Reservation},
};
use crate::{http_response, outbound};
use engine::ActionError;
use reqwest::{Method, StatusCode};
use serde_json::Value;
use std::{
    fmt,
    path::{Path, PathBuf},
};
use tokio::sync::Mutex;
use workflows::platform::codes;

/// A job, node, reservation or account does not exist.
const ABSENT: [i64; 4] = [2017, 2018, 2053, 9003];
/// Authentication or authorisation failed.
const DENIED: [i64; 3] = [1007, 2002, 2010];
/// The daemon behind `slurmrestd` was not reached, so no request was sent. 111 is the operating system's "connection
/// refused".
const NOT_REACHED: [i64; 3] = [111, 1800, 7000];
/// The daemon was reached, but the outcome of the call is unknown. `slurmrestd` also returns the operating system's
/// errors (interrupted, try again, broken pipe, connection aborted or reset, not connected, timed out) when the daemon
/// was restarted or is busy.
const NOT_ANSWERED: [i64; 12] = [4, 11, 32, 103, 104, 107, 110, 1801, 1802, 1803, 5004, 5005];
/// Slurm names no cause: the token is wrong or the controller is down.
const NO_CAUSE: i64 = -1;

/// The daemon that a request is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Daemon {
    /// `slurmctld`: jobs, nodes, reservations.
    Control,
    /// `slurmdbd`: accounts, associations, users, QOS.
    Accounting,
}

impl Daemon {
    fn path(self) -> &'static str {
        match self {
            Self::Control => "slurm",
            Self::Accounting => "slurmdb",
        }
    }
}

/// A client of one `slurmrestd`, authenticated as one user.
pub(super) struct RestClient {
    client: reqwest::Client,
    url: String,
    user: String,
    token_file: PathBuf,
    /// The negotiated data parser. Negotiated again after an error that it is not served.
    parser: Mutex<Option<Parser>>,
}

impl fmt::Debug for RestClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rest").field("url", &self.url).field("user", &self.user).finish_non_exhaustive()
    }
}

/// A request without the common prefix of its path.
struct RestRequest<'a> {
    method: Method,
    side: Daemon,
    path: &'a str,
    body: Option<&'a Value>,
}

impl RestRequest<'_> {
    fn changing(&self) -> bool {
        self.method != Method::GET
    }
}

impl RestClient {
    pub(super) fn new(url: &str, user: &str, token_file: &Path) -> Result<Self, TargetError> {
        let client = outbound::client().no_proxy().build();
        let client = client.map_err(|e| TargetError {
            field: "url",
            why: e.to_string(),
            remedy: "see that the machine has certificates of authorities",
        })?;
        Ok(Self {
            client,
            url: url.trim_end_matches('/').to_owned(),
            user: user.to_owned(),
            token_file: token_file.to_owned(),
            parser: Mutex::new(None),
        })
    }

    /// Returns the newest data parser that both sides support.
    pub(super) async fn parser(&self) -> Result<Parser, ActionError> {
        let mut agreed = self.parser.lock().await;
        if let Some(parser) = *agreed {
            return Ok(parser);
        }
        let sent = self.request(Method::GET, "/openapi/v3")?.send().await;
        let about = "asking slurmrestd for what it serves";
        let answer = sent.map_err(|e| http_response::failure(&e, about, false))?;
        let (status, headers) = (answer.status(), answer.headers().clone());
        let text = read(answer).await.map_err(|e| http_response::unread(&e, about, false))?;
        if let Some(refusal) = http_response::refusal(status, &headers, &short(&text), false) {
            return Err(refusal);
        }
        let served: Value = serde_json::from_str(&text)
            .map_err(|e| http_response::unreadable(format!("{}/openapi/v3: {e}", self.url), false))?;
        let parser = Parser::newest(&served).map_err(|served| {
            let why = format!(
                "slurmrestd at {} serves {served}; one of v0.0.38 to v0.0.42 is needed, for slurmctld and slurmdbd",
                self.url
            );
            ActionError::permanent(codes::UNSUPPORTED, why)
        })?;
        *agreed = Some(parser);
        Ok(parser)
    }

    /// Reads a path. Returns `None` if the object does not exist.
    ///
    /// Retries once if a daemon was not reached: `slurmrestd` keeps its connection to `slurmdbd` open and detects a
    /// closed one only on the next request.
    async fn get(&self, side: Daemon, path: &str) -> Result<Option<Value>, ActionError> {
        let ask = RestRequest { method: Method::GET, side, path, body: None };
        match self.call(&ask).await {
            Err(error) if error.code == codes::UNAVAILABLE && error.retry_after.is_none() => {
                self.call(&ask).await
            }
            answer => answer,
        }
    }

    /// Sends a change. Returns `None` if the object does not exist.
    pub(super) async fn post(
        &self,
        side: Daemon,
        path: &str,
        body: &Value,
    ) -> Result<Option<Value>, ActionError> {
        self.call(&RestRequest { method: Method::POST, side, path, body: Some(body) }).await
    }

    /// Cancels a job. An absent job is success.
    pub(super) async fn cancel(&self, job: u64) -> Result<(), ActionError> {
        let path = format!("job/{job}");
        let ask = RestRequest { method: Method::DELETE, side: Daemon::Control, path: &path, body: None };
        self.call(&ask).await.map(drop)
    }

    /// Returns the account with this name, over all clusters of the accounting database.
    pub(super) async fn account(&self, name: &str) -> Result<Option<Account>, ActionError> {
        let answer = self.get(Daemon::Accounting, &format!("account/{name}")).await?;
        Ok(answer
            .and_then(|answer| responses::accounts(&answer).into_iter().find(|found| found.name == name)))
    }

    /// Returns all associations, over all clusters of the accounting database.
    pub(super) async fn associations(&self) -> Result<Vec<Association>, ActionError> {
        let answer = self.get(Daemon::Accounting, "associations/").await?;
        Ok(answer.map(|answer| responses::associations(&answer)).unwrap_or_default())
    }

    /// Returns names and ids of all QOS.
    pub(super) async fn qos(&self) -> Result<Vec<(String, String)>, ActionError> {
        let answer = self.get(Daemon::Accounting, "qos/").await?;
        Ok(answer.map(|answer| responses::qos(&answer)).unwrap_or_default())
    }

    /// Returns all jobs that the controller remembers.
    pub(super) async fn jobs(&self) -> Result<Vec<Job>, ActionError> {
        let answer = self.get(Daemon::Control, "jobs/").await?;
        Ok(answer.map(|answer| responses::jobs(&answer)).unwrap_or_default())
    }

    /// Returns the node with this name.
    pub(super) async fn node(&self, name: &str) -> Result<Option<Node>, ActionError> {
        let answer = self.get(Daemon::Control, &format!("node/{name}")).await?;
        Ok(answer.and_then(|answer| responses::nodes(&answer).into_iter().find(|node| node.name == name)))
    }

    /// Returns all reservations.
    pub(super) async fn reservations(&self) -> Result<Vec<Reservation>, ActionError> {
        let answer = self.get(Daemon::Control, "reservations/").await?;
        Ok(answer.map(|answer| responses::reservations(&answer)).unwrap_or_default())
    }

    fn request(&self, method: Method, path: &str) -> Result<reqwest::RequestBuilder, ActionError> {
        let token = std::fs::read_to_string(&self.token_file).map_err(|e| {
            let why =
                format!("token_file {}: {e}; put {}'s token there", self.token_file.display(), self.user);
            ActionError::permanent(codes::DENIED, why)
        })?;
        let request = self.client.request(method, format!("{}{path}", self.url));
        Ok(request.header("X-SLURM-USER-NAME", &self.user).header("X-SLURM-USER-TOKEN", token.trim()))
    }

    async fn call(&self, ask: &RestRequest<'_>) -> Result<Option<Value>, ActionError> {
        let parser = self.parser().await?;
        let path = format!("/{}/{parser}/{}", ask.side.path(), ask.path);
        let about = format!("{} {path}", ask.method);
        let mut request = self.request(ask.method.clone(), &path)?;
        if let Some(body) = ask.body {
            request = request.json(body);
        }
        let answer = request.send().await.map_err(|e| http_response::failure(&e, &about, ask.changing()))?;
        let (status, headers) = (answer.status(), answer.headers().clone());
        let text = read(answer).await.map_err(|e| http_response::unread(&e, &about, ask.changing()))?;
        if status == StatusCode::NOT_FOUND && text.contains("/openapi/v3") {
            *self.parser.lock().await = None;
        }
        let Ok(body) = serde_json::from_str::<Value>(&text) else {
            let refusal = http_response::refusal(
                status,
                &headers,
                &format!("{about}: {}", short(&text)),
                ask.changing(),
            );
            return Err(refusal.unwrap_or_else(|| {
                http_response::unreadable(format!("{about}: {}", short(&text)), ask.changing())
            }));
        };
        match ApiError::of(&body) {
            Some(complaint) => self.meant(ask, &about, &complaint).await,
            None => match http_response::refusal(status, &headers, &about, ask.changing()) {
                Some(refusal) => Err(refusal),
                None if body.get("errors").is_none() => Err(http_response::unreadable(
                    format!("{about}: an answer without a list of errors"),
                    ask.changing(),
                )),
                None => Ok(Some(body)),
            },
        }
    }

    /// Classifies an error of `slurmrestd`.
    async fn meant(
        &self,
        ask: &RestRequest<'_>,
        about: &str,
        complaint: &ApiError,
    ) -> Result<Option<Value>, ActionError> {
        let why = format!("{about}: {}", complaint.said);
        let lost = |why| {
            if ask.changing() {
                ActionError::unknown(codes::NO_ANSWER, why)
            } else {
                ActionError::transient(codes::UNAVAILABLE, why)
            }
        };
        // Newer versions report an absent node as "no error", and a wrong token as an unavailable database.
        let no_node = complaint.number == Some(0) && ask.path.starts_with("node/");
        let no_token = complaint.said.to_ascii_lowercase().contains("authentication error");
        Err(match complaint.number {
            Some(number) if ABSENT.contains(&number) || no_node => return Ok(None),
            Some(_) | None if no_token => ActionError::permanent(codes::DENIED, why),
            Some(number) if DENIED.contains(&number) => ActionError::permanent(codes::DENIED, why),
            Some(number) if NOT_REACHED.contains(&number) => ActionError::transient(codes::UNAVAILABLE, why),
            Some(number) if NOT_ANSWERED.contains(&number) => lost(why),
            Some(NO_CAUSE) if self.token_is_refused().await => {
                let why = format!("{why}: slurmdbd does not accept the token of {} either", self.user);
                ActionError::permanent(codes::DENIED, why)
            }
            Some(NO_CAUSE) if ask.side == Daemon::Control => lost(why),
            Some(_) | None => ActionError::permanent(codes::REFUSED, why),
        })
    }

    /// Returns true if `slurmdbd` rejects the token. `slurmctld` fails for a wrong token without naming the cause.
    async fn token_is_refused(&self) -> bool {
        let Some(parser) = *self.parser.lock().await else { return false };
        let path = format!("/{}/{parser}/clusters/", Daemon::Accounting.path());
        let Ok(request) = self.request(Method::GET, &path) else { return true };
        let Ok(answer) = request.send().await else { return false };
        let Ok(text) = read(answer).await else { return false };
        let Ok(body) = serde_json::from_str::<Value>(&text) else { return false };
        let complaint = ApiError::of(&body);
        complaint.and_then(|complaint| complaint.number).is_some_and(|number| DENIED.contains(&number))
    }
}

/// Reads the body. Lists have no pages, so they are read completely or not at all. Errors come with any status.
async fn read(answer: reqwest::Response) -> Result<String, outbound::Unread> {
    if answer.status().is_success() {
        return outbound::text(answer, outbound::LIST).await;
    }
    let said = outbound::start(answer, outbound::MESSAGE).await;
    Ok(String::from_utf8_lossy(&said).into_owned())
}

/// An error of `slurmrestd`.
#[derive(Debug, PartialEq, Eq)]
struct ApiError {
    number: Option<i64>,
    said: String,
}

impl ApiError {
    /// Reads the error. The number is in `error_number`, `errno` or `error_code` of any entry of the list.
    fn of(body: &Value) -> Option<Self> {
        let errors = body.get("errors").and_then(Value::as_array).filter(|errors| !errors.is_empty())?;
        let number = |error: &Value| {
            ["error_number", "errno", "error_code"].iter().find_map(|key| error.get(key)?.as_i64())
        };
        let text = |error: &Value, key: &str| error.get(key).and_then(Value::as_str).map(str::to_owned);
        let said: Vec<String> = errors
            .iter()
            .map(|error| {
                let parts = [text(error, "error"), text(error, "description")];
                parts.into_iter().flatten().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(": ")
            })
            .collect();
        Some(Self { number: errors.iter().find_map(number), said: short(&said.join("; ")) })
    }
}

fn short(text: &str) -> String {
    text.chars().filter(|sign| !sign.is_control()).take(300).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_error_is_recognised_by_its_number_whatever_the_name_of_its_field() {
        let number = |body: Value| ApiError::of(&body).and_then(|complaint| complaint.number);
        assert_eq!(number(json!({ "errors": [] })), None);
        assert_eq!(
            number(json!({ "errors": [{ "error_number": 2017, "error": "Invalid job id" }] })),
            Some(2017)
        );
        assert_eq!(
            number(json!({ "errors": [{ "errno": 2018, "error": "Invalid node name" }] })),
            Some(2018)
        );
        let parsing = json!({ "errors": [
            { "description": "Unknown key \"job\"", "source": "hsearch_r" },
            { "error_code": 9001, "error": "Failure during parsing" },
        ] });
        assert_eq!(number(parsing.clone()), Some(9001));
        let said = ApiError::of(&parsing).unwrap().said;
        assert_eq!(said, "Unknown key \"job\"; Failure during parsing");
    }
}
