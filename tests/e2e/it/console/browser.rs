//! A browser, driven over `WebDriver`, which every browser supports.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use reqwest::{Client, Method};
use serde_json::{Value, json};
use std::{
    io::{BufRead as _, BufReader, Write as _},
    net::TcpStream,
    path::Path,
    process::Command,
    time::{Duration, Instant},
};
use tests::processes::Process;

/// The key of an element in answers.
const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";

/// How long to wait for an element.
const PATIENCE: Duration = Duration::from_secs(20);

/// A browser with its own profile, which ends with its owner.
#[derive(Debug)]
pub struct Browser {
    http: Client,
    port: u16,
    session: String,
    _driver: Process,
}

impl Drop for Browser {
    fn drop(&mut self) {
        // The driver ends the browser; if it were killed first, the browser would keep running.
        if let Ok(mut stream) = TcpStream::connect(("127.0.0.1", self.port)) {
            let request = format!(
                "DELETE /session/{} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n",
                self.session
            );
            let _ = stream.write_all(request.as_bytes());
            // It answers once the browser has ended, and keeps the connection.
            let _ = stream.set_read_timeout(Some(PATIENCE));
            let _ = BufReader::new(stream).read_line(&mut String::new());
        }
    }
}

impl Browser {
    /// Starts a headless browser; returns `None` if no driver is installed.
    pub async fn start(profile: &Path) -> Option<Self> {
        let installed = Command::new("chromedriver").arg("--version").output().is_ok();
        if !installed {
            return None;
        }
        program::install_tls();
        let mut command = Command::new("chromedriver");
        let (driver, line) = Process::start(command.arg("--port=0"), "started successfully on port");
        let port = line.trim_end_matches('.').rsplit(' ').next().and_then(|port| port.parse().ok());
        let port = port.unwrap_or_else(|| panic!("no port in {line:?}"));
        let arguments = [
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-quic",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--disable-dev-shm-usage",
            "--window-size=1280,900",
        ];
        let mut arguments: Vec<String> = arguments.map(ToOwned::to_owned).into();
        arguments.push(format!("--user-data-dir={}", profile.display()));
        let wanted = json!({ "capabilities": { "alwaysMatch": {
            "goog:chromeOptions": { "args": arguments }, "goog:loggingPrefs": { "browser": "ALL" },
        } } });
        let mut browser = Self { http: Client::new(), port, session: String::new(), _driver: driver };
        let begun = browser.ask(Method::POST, "/session", wanted).await;
        begun["sessionId"].as_str().unwrap_or_else(|| panic!("{begun}")).clone_into(&mut browser.session);
        Some(browser)
    }

    async fn ask(&self, method: Method, path: &str, body: Value) -> Value {
        let request = self.http.request(method, format!("http://127.0.0.1:{}{path}", self.port));
        let request = if body.is_null() { request } else { request.body(body.to_string()) };
        let answer = request.header("content-type", "application/json").send().await.unwrap();
        let text = answer.text().await.unwrap();
        let answer: Value = serde_json::from_str(&text).unwrap_or_else(|e| panic!("{e}: {text}"));
        answer["value"].clone()
    }

    async fn post(&self, path: &str, body: Value) -> Value {
        self.ask(Method::POST, &format!("/session/{}{path}", self.session), body).await
    }

    /// Opens an address.
    pub async fn open(&self, url: &str) {
        self.post("/url", json!({ "url": url })).await;
    }

    /// Goes to a page of the console, and waits until it has loaded.
    pub async fn go(&self, page: &str) {
        self.run(&format!("location.hash = {}", json!(format!("#/{page}")))).await;
        let deadline = Instant::now() + PATIENCE;
        let shown = "const main = document.querySelector('main'); \
                     return Boolean(main?.querySelector('h1')) && !main.querySelector('.loading')";
        while self.run(shown).await != json!(true) {
            assert!(Instant::now() < deadline, "{page} shows nothing: {}", self.text("body").await);
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        // Requests of the page end, or fail, soon afterwards.
        tokio::time::sleep(Duration::from_millis(250)).await;
    }

    /// Runs a script in the page and returns its result.
    pub async fn run(&self, script: &str) -> Value {
        self.post("/execute/sync", json!({ "script": script, "args": [] })).await
    }

    /// Returns the current number of elements.
    pub async fn count(&self, css: &str) -> u64 {
        self.run(&format!("return document.querySelectorAll({}).length", json!(css)))
            .await
            .as_u64()
            .unwrap_or(0)
    }

    /// Returns the first element, once it exists.
    async fn element(&self, css: &str) -> String {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let found = self.post("/element", json!({ "using": "css selector", "value": css })).await;
            if let Some(id) = found[ELEMENT].as_str() {
                return id.to_owned();
            }
            let page = self.run("return document.body.innerText").await;
            assert!(Instant::now() < deadline, "there is no {css} in {page}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Returns the text of the first element, once it exists and is not empty.
    pub async fn text(&self, css: &str) -> String {
        let deadline = Instant::now() + PATIENCE;
        loop {
            self.element(css).await;
            let text = self.run(&format!("return document.querySelector({})?.innerText", json!(css))).await;
            match text.as_str() {
                Some(text) if !text.trim().is_empty() => return text.to_owned(),
                _ => assert!(Instant::now() < deadline, "{css} says nothing"),
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Clicks the first element with the mouse.
    pub async fn click(&self, css: &str) {
        self.clicked(css).await;
    }

    /// Returns the clicked element. If the page has redrawn it since it was found, the click goes to its replacement.
    async fn clicked(&self, css: &str) -> String {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let element = self.element(css).await;
            let answer = self.post(&format!("/element/{element}/click"), json!({})).await;
            if answer.is_null() {
                return element;
            }
            let said = answer.to_string();
            let gone = ["stale element reference", "does not belong to the document"];
            let gone = gone.iter().any(|gone| said.contains(gone));
            assert!(gone && Instant::now() < deadline, "{css}: {said}");
        }
    }

    /// Submits a form of a page without scripts, and waits for the next page: the next click must not hit the old button.
    pub async fn send(&self, css: &str) {
        let element = self.clicked(css).await;
        let deadline = Instant::now() + PATIENCE;
        let path = format!("/session/{}/element/{element}/name", self.session);
        while !self.ask(Method::GET, &path, Value::Null).await["error"].is_string() {
            assert!(Instant::now() < deadline, "the page with {css} stays");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Replaces the text of the first element.
    pub async fn write(&self, css: &str, text: &str) {
        let element = self.element(css).await;
        self.post(&format!("/element/{element}/clear"), json!({})).await;
        let answer = self.post(&format!("/element/{element}/value"), json!({ "text": text })).await;
        assert!(answer.is_null(), "{css}: {answer}");
    }

    /// Presses keys, one after the other, at the focus.
    pub async fn press(&self, keys: &str) {
        let press = |key: char| {
            [json!({ "type": "keyDown", "value": key }), json!({ "type": "keyUp", "value": key })]
        };
        let actions: Vec<Value> = keys.chars().flat_map(press).collect();
        self.post(
            "/actions",
            json!({ "actions": [{ "type": "key", "id": "keyboard", "actions": actions }] }),
        )
        .await;
    }

    async fn devtools(&self, command: &str, parameters: Value) -> Value {
        self.post("/goog/cdp/execute", json!({ "cmd": command, "params": parameters })).await
    }

    /// Sets the width and the preferred colour scheme.
    pub async fn wear(&self, width: u32, scheme: &str) {
        let screen = json!({ "width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500 });
        self.devtools("Emulation.setDeviceMetricsOverride", screen).await;
        let media = json!({ "features": [{ "name": "prefers-color-scheme", "value": scheme }] });
        self.devtools("Emulation.setEmulatedMedia", media).await;
    }

    /// Saves a screenshot of the visible page.
    pub async fn picture(&self, file: &Path) {
        let shot = self.devtools("Page.captureScreenshot", json!({ "format": "png" })).await;
        let bytes = STANDARD.decode(shot["data"].as_str().unwrap_or_default()).unwrap();
        std::fs::write(file, bytes).unwrap();
    }

    /// Returns the console errors of the page, without those that match an entry of `expected`.
    pub async fn complaints(&self, expected: &[&str]) -> Vec<String> {
        let log = self.post("/se/log", json!({ "type": "browser" })).await;
        let entries = log.as_array().cloned().unwrap_or_else(|| panic!("{log}"));
        let bad =
            entries.iter().filter(|entry| matches!(entry["level"].as_str(), Some("SEVERE" | "WARNING")));
        let told = bad.map(|entry| entry["message"].as_str().unwrap_or_default().to_owned());
        told.filter(|told| !expected.iter().any(|expected| told.contains(expected))).collect()
    }
}
