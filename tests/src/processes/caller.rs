//! Calls to servers that may be away for a while.

use super::Server;
use reqwest::{Client, Method, StatusCode};
use serde_json::{Value, json};
use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

/// Calls a server as one user, and retries until it answers. If several servers share a store, each is called in turn.
#[derive(Clone, Debug)]
pub struct Caller {
    pub(super) urls: Vec<String>,
    pub(super) turn: Arc<AtomicUsize>,
    pub(super) token: String,
    pub(super) client: Client,
}

impl Caller {
    /// Returns the same user at another address.
    #[must_use]
    pub fn at(&self, url: &str) -> Self {
        Self { urls: vec![url.to_owned()], ..self.clone() }
    }

    /// Returns its token.
    #[must_use]
    pub fn token(&self) -> &str {
        &self.token
    }

    /// Returns the same user, who calls any of these servers that answers.
    #[must_use]
    pub fn of_any(self, servers: &[&Server]) -> Self {
        Self { urls: servers.iter().map(|server| server.url()).collect(), ..self }
    }

    /// Makes one call, repeated while the server is away or busy; `key` makes that safe.
    ///
    /// # Panics
    /// If it is away for a minute.
    pub async fn call(
        &self,
        method: Method,
        path: &str,
        key: Option<&str>,
        body: Option<Value>,
    ) -> (StatusCode, Value) {
        let deadline = Instant::now() + Duration::from_secs(60);
        loop {
            let turn = self.turn.fetch_add(1, Ordering::Relaxed);
            let url = &self.urls[turn % self.urls.len()];
            let mut request =
                self.client.request(method.clone(), format!("{url}{path}")).bearer_auth(&self.token);
            if let Some(key) = key {
                request = request.header("Idempotency-Key", key);
            }
            if let Some(body) = &body {
                request = request.json(body);
            }
            if let Ok(answer) = request.send().await {
                let status = answer.status();
                let away = [StatusCode::SERVICE_UNAVAILABLE, StatusCode::BAD_GATEWAY].contains(&status);
                if let (false, Ok(text)) = (away, answer.text().await) {
                    let said = serde_json::from_str(&text).unwrap_or(Value::String(text));
                    // The disconnected request is still being answered.
                    if said["code"] != "idempotency.in_progress" {
                        return (status, said);
                    }
                }
            }
            assert!(Instant::now() < deadline, "{path}: the server is away for too long");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// Returns the resource at `path`.
    pub async fn get(&self, path: &str) -> Value {
        self.call(Method::GET, path, None, None).await.1
    }

    /// Every item of the list at `path`.
    ///
    /// # Panics
    /// If it is no list.
    pub async fn all(&self, path: &str) -> Vec<Value> {
        let (mut items, mut cursor) = (Vec::new(), None::<String>);
        let join = if path.contains('?') { '&' } else { '?' };
        loop {
            let more = cursor.map(|cursor| format!("&cursor={cursor}")).unwrap_or_default();
            let page = self.get(&format!("{path}{join}limit=1000{more}")).await;
            items.extend(page["items"].as_array().unwrap_or_else(|| panic!("{path}: {page}")).clone());
            cursor = page["next"].as_str().map(str::to_owned);
            if cursor.is_none() {
                return items;
            }
        }
    }

    /// Adds a user and returns a caller for them.
    ///
    /// # Panics
    /// If the server refuses.
    pub async fn user(&self, name: &str, role: &str) -> Self {
        let (status, body) =
            self.call(Method::POST, "/v1/users", None, Some(json!({ "name": name, "roles": [role] }))).await;
        assert!(status.is_success(), "{body}");
        let token = body["token"].as_str().expect("a token is shown").to_owned();
        Self { token, ..self.clone() }
    }
}
