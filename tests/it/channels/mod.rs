//! Notifications arrive through the configured channels, each in its own format and once, and contain no secret.

mod receivers;
mod seen_to;

use crate::served::{NODES, Ran, Served, files_with, generated, large, tenure};
use axum::http::StatusCode;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use receivers::{Letter, Mailbox, Receiver};
use ring::hmac;
use rustix::process::Signal;
use serde_json::{Value, json};
use std::fs;
use tempfile::TempDir;

const PAGER_KEY: &str = "R0uteKeyOfTheHouse0123456789abcdef";
const PASSWORD: &str = "a-pass-word-nobody-should-see";
const SIGNS: &str = "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwLaLa";

/// A folder with settings and files with secrets.
struct Settings(TempDir);

impl Settings {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    /// Writes a file and returns its path.
    fn file(&self, name: &str, text: &str) -> String {
        let file = self.0.path().join(name);
        fs::write(&file, text).unwrap();
        file.to_str().unwrap().to_owned()
    }

    fn serve(&self, text: &str) -> Served {
        let file = self.file("tenure.toml", text);
        Served::start_logged(&[("TENURE_CONFIG", &file)])
    }

    /// Returns the output of `tenure serve` with invalid settings.
    fn refused(&self, text: &str) -> Ran {
        let file = self.file("tenure.toml", text);
        let data = self.0.path().join("data");
        fs::create_dir_all(&data).unwrap();
        Ran::of(tenure(&data).args(["serve", "--listen", "127.0.0.1:0"]).env("TENURE_CONFIG", file))
    }
}

/// Channels of every kind, with receivers in the test.
struct House {
    _settings: Settings,
    receiver: Receiver,
    mailbox: Mailbox,
    served: Served,
}

impl House {
    async fn new() -> Self {
        let (settings, receiver, mailbox) = (Settings::new(), Receiver::default(), Mailbox::default());
        let (url, post) = (receiver.open().await, mailbox.open().await);
        let chat = settings.file("chat", &format!("{url}/services/T0/B0/chatSecretOfTheHouse\n"));
        let pager = settings.file("pager", &format!("{PAGER_KEY}\n"));
        let password = settings.file("password", PASSWORD);
        let signs = settings.file("signs", &format!("whsec_{SIGNS}"));
        let served = settings.serve(&format!(
            "[notify.channels.hook]\nkind = \"webhook\"\nurl = \"{url}/hook\"\nsecret_file = \"{signs}\"\n\
             [notify.channels.chat]\nkind = \"slack\"\nurl_file = \"{chat}\"\n\
             [notify.channels.pager]\nkind = \"pagerduty\"\nurl = \"{url}/pager\"\nkey_file = \"{pager}\"\n\
             [notify.channels.mail]\nkind = \"email\"\nserver = \"{post}\"\ntls = \"none\"\n\
             user = \"tenure\"\npassword_file = \"{password}\"\n\
             from = \"Tenure <tenure@example.com>\"\nto = [\"ops@example.com\", \"lead@example.com\"]\n\
             [[notify.routes]]\nevents = [\"approval.opened\"]\nchannels = [\"hook\", \"chat\", \"pager\", \"mail\"]\n\
             [[notify.routes]]\nevents = [\"approval.*\"]\ntenants = [\"zeta\"]\nchannels = [\"chat\"]\n"
        ));
        let answer = served.post("/v1/fleet:import?cluster=eu-1&region=eu", "text/csv", NODES).await;
        assert_eq!(answer.status, 200, "{}", answer.body);
        Self { _settings: settings, receiver, mailbox, served }
    }

    /// Approves the execution `id` as another user.
    async fn grant(&self, id: &str) -> String {
        let asked = self.served.asked(id).await;
        let approval = asked["waiting_for"]["approval"]["id"].as_str().map(str::to_owned);
        let approval = approval.unwrap_or_else(|| panic!("{asked}"));
        let olga = self.served.user("olga", &["platform_ops"], None).await;
        let agreed = self.served.run(&[
            "--token",
            &olga,
            "approvals",
            "approve",
            &approval,
            "--reason",
            "there is room",
        ]);
        assert_eq!(agreed.exit, 0, "{agreed:?}");
        approval
    }
}

/// The mail goes to all recipients of the channel, has the right sender, and was authenticated by password.
fn is_a_letter(letter: &Letter) {
    assert!(letter.from.contains("<tenure@example.com>"), "{letter:?}");
    let to: Vec<_> = letter.to.iter().map(|to| to.trim_start_matches("RCPT TO:")).collect();
    assert_eq!(to, ["<ops@example.com>", "<lead@example.com>"]);
    assert_eq!(STANDARD.decode(&letter.auth).unwrap(), format!("\0tenure\0{PASSWORD}").as_bytes());
    for line in [
        "Subject: Approval needed [acme]: ",
        "Message-ID: <",
        "To: ops@example.com, lead@example.com",
        "Content-Type: text/plain",
    ] {
        assert!(letter.text.contains(line), "{line}: {}", letter.text);
    }
}

/// Approvers are notified, and the incident at the pager is closed once the approval is granted.
#[tokio::test(flavor = "multi_thread")]
async fn an_open_approval_is_sent_in_the_format_of_each_channel_and_closed_where_supported() {
    let house = House::new().await;
    let id = house.served.onboard(&large("acme")).await;

    let hook = house.receiver.at("/hook", 1).await.remove(0);
    let header = |name: &str| hook.headers[name].to_str().unwrap().to_owned();
    let approval = hook.body["subject"].as_str().unwrap().to_owned();
    assert_eq!(header("content-type"), "application/cloudevents+json; charset=utf-8");
    assert_eq!(
        (&hook.body["type"], &hook.body["id"]),
        (&json!("tenure.approval.opened"), &json!(header("webhook-id")))
    );
    assert_eq!(hook.body["data"]["severity"], "warning");
    assert_eq!(
        (&hook.body["data"]["tenant"], &hook.body["data"]["to"][0]),
        (&json!("acme"), &json!("platform_ops"))
    );
    let signed = format!("{}.{}.{}", header("webhook-id"), header("webhook-timestamp"), hook.body);
    let key = hmac::Key::new(hmac::HMAC_SHA256, &STANDARD.decode(SIGNS).unwrap());
    let wanted = STANDARD.encode(hmac::sign(&key, signed.as_bytes()));
    assert_eq!(header("webhook-signature"), format!("v1,{wanted}"));

    let chat = house.receiver.at("/services/T0/B0/chatSecretOfTheHouse", 1).await.remove(0);
    let said = chat.body["text"].as_str().unwrap();
    assert!(
        said.starts_with("*Approval needed [acme]: ") && said.contains(&format!("approvals show {approval}")),
        "{said}"
    );
    assert_eq!(chat.body.as_object().unwrap().len(), 1);

    let pager = house.receiver.at("/pager", 1).await.remove(0).body;
    let incident = format!("approval/{approval}");
    assert_eq!((&pager["event_action"], &pager["dedup_key"]), (&json!("trigger"), &json!(incident)));
    assert_eq!(pager["routing_key"], PAGER_KEY);
    let payload = &pager["payload"];
    assert_eq!((&payload["severity"], &payload["source"]), (&json!("warning"), &json!("tenure")));
    assert_eq!((&payload["class"], &payload["group"]), (&json!("approval.opened"), &json!("acme")));
    assert!(payload["summary"].as_str().unwrap().starts_with("Approval needed [acme]"), "{payload}");

    is_a_letter(&house.mailbox.wait(1).await.remove(0));

    assert_eq!(house.grant(&id).await, approval);
    let resolved = house.receiver.at("/pager", 2).await.remove(1).body;
    let wanted = json!({ "event_action": "resolve", "dedup_key": incident, "routing_key": PAGER_KEY });
    assert_eq!(resolved, wanted);
    assert_eq!(house.receiver.heard().len(), 4, "the other channels receive only the opening");
    assert_eq!(house.mailbox.letters().len(), 1);
}

/// The key, the address and the password of three channels are in no answer, no log and not in the store.
#[tokio::test(flavor = "multi_thread")]
async fn no_answer_no_stored_value_and_no_log_line_contains_the_secret_of_a_channel() {
    let house = House::new().await;
    house.receiver.answer([StatusCode::BAD_REQUEST; 3]);
    *house.mailbox.refusals.lock().unwrap() = 1;
    house.served.onboard(&large("acme")).await;
    house.mailbox.wait(1).await;
    house.receiver.at("/pager", 1).await;
    let mut told = Vec::new();
    for channel in ["hook", "chat", "pager", "mail"] {
        told.push(house.served.run(&["notify", "test", channel, "-o", "json"]).out);
        for state in ["waiting", "settled", "dead"] {
            told.push(
                house.served.run(&["notify", "deliveries", channel, "--state", state, "-o", "json"]).out,
            );
        }
    }
    told.push(house.served.run(&["notify", "channels", "-o", "json"]).out);
    told.push(house.served.get("/v1/channels").await.body.to_string());
    assert!(told.iter().any(|text| text.contains("channel.test")), "{told:?}");
    let dir = house.served.dir.path().to_owned();
    let log = fs::read_to_string(dir.join("log.txt")).unwrap();
    assert!(log.contains("was refused"), "the log has channel failures");
    for secret in [
        PAGER_KEY,
        "chatSecretOfTheHouse",
        PASSWORD,
        SIGNS,
        &STANDARD.encode(format!("\0tenure\0{PASSWORD}")),
    ] {
        assert!(told.iter().all(|text| !text.contains(secret)), "{secret}");
        assert_eq!(files_with(&dir, secret), [""; 0]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dead_letter_is_listed_and_can_be_resent_from_the_command_line() {
    let (settings, receiver) = (Settings::new(), Receiver::default());
    let chat = settings.file("chat", &format!("{}/chat", receiver.open().await));
    let served = settings.serve(&format!(
        "[notify.channels.chat]\nkind = \"slack\"\nurl_file = \"{chat}\"\nattempts = 1\n\
         [[notify.routes]]\nchannels = [\"chat\"]\nevents = [\"approval.opened\"]\n"
    ));
    served.post("/v1/fleet:import?cluster=eu-1&region=eu", "text/csv", NODES).await;
    receiver.answer([StatusCode::INTERNAL_SERVER_ERROR]);
    served.onboard(&large("acme")).await;
    receiver.at("/chat", 1).await;
    let dead = async || {
        let listed = served.get("/v1/channels/chat/deliveries?state=dead").await.body;
        listed["items"].as_array().unwrap().clone()
    };
    let mut letters = dead().await;
    for _ in 0..100 {
        if !letters.is_empty() {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        letters = dead().await;
    }
    let letter = letters.first().expect("it is dead");
    assert_eq!(
        (&letter["state"], &letter["tries"], &letter["event"]),
        (&json!("dead"), &json!(1), &json!("approval.opened"))
    );
    assert_eq!(letter["answer"], "500 Internal Server Error");
    let listed = served.run(&["notify", "channels", "-o", "json"]).json();
    assert_eq!((&listed[0]["id"], &listed[0]["dead"]), (&json!("chat"), &json!(1)), "{listed}");

    let id = letter["id"].as_str().unwrap();
    let sent = served.run(&["notify", "resend", "chat", id]);
    assert_eq!(sent.exit, 0, "{sent:?}");
    let heard = receiver.at("/chat", 2).await;
    assert_eq!(heard[0].body, heard[1].body);
    assert_eq!(dead().await, Vec::<Value>::new());
    let again = served.run(&["notify", "resend", "chat", id]);
    assert_eq!(again.exit, 3, "it is no longer dead: {again:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_authorized_user_can_test_a_channel_from_the_command_line() {
    let house = House::new().await;
    let tried = house.served.run(&["notify", "test", "pager", "-o", "json"]);
    assert_eq!((tried.exit, &tried.json()["state"]), (0, &json!("delivered")), "{tried:?}");
    let heard = house.receiver.at("/pager", 2).await;
    let actions: Vec<_> = heard.iter().map(|told| told.body["event_action"].clone()).collect();
    assert_eq!(actions, ["trigger", "resolve"], "the pager's incident is resolved");
    assert_eq!(heard[0].body["dedup_key"], heard[1].body["dedup_key"]);

    house.receiver.answer([StatusCode::FORBIDDEN]);
    let failed = house.served.run(&["notify", "test", "chat", "-o", "json"]);
    assert_eq!((failed.exit, &failed.json()["answer"]), (1, &json!("403 Forbidden")), "{failed:?}");
    let strange = house.served.run(&["notify", "test", "chatt"]);
    assert_eq!(strange.exit, 3, "{strange:?}");
    let fin = house.served.user("fin", &["finance"], None).await;
    let refused = house.served.json_as(&fin, "/v1/channels/mail:test", json!({})).await;
    assert_eq!((refused.status, refused.code()), (StatusCode::FORBIDDEN, "auth.forbidden"));
    assert_eq!(house.served.get_as(&fin, "/v1/channels").await.status, 200);
    let owner = house.served.user("own", &["tenant_owner"], Some("acme")).await;
    assert_eq!(house.served.get_as(&owner, "/v1/channels").await.status, 403);
    let settled = house.served.get("/v1/channels/pager/deliveries").await.body;
    assert_eq!(settled["items"][0]["event"], "channel.test", "{settled}");
}

/// A mail server without TLS receives nothing, not even the client's name.
#[tokio::test(flavor = "multi_thread")]
async fn no_mail_is_sent_without_tls_unless_the_settings_allow_it() {
    let (settings, mailbox) = (Settings::new(), Mailbox::default());
    let (post, password) = (mailbox.open().await, settings.file("password", PASSWORD));
    let served = settings.serve(&format!(
        "[notify.channels.mail]\nkind = \"email\"\nserver = \"{post}\"\nuser = \"tenure\"\npassword_file = \"{password}\"\n\
         from = \"tenure@example.com\"\nto = [\"ops@example.com\"]\n"
    ));
    let tried = served.run(&["notify", "test", "mail", "-o", "json"]);
    assert_eq!(tried.exit, 1, "{tried:?}");
    assert!(tried.json()["answer"].as_str().unwrap().contains("STARTTLS"), "{tried:?}");
    assert!(mailbox.letters().is_empty());
}

/// Pending notifications are delivered after a start, and delivered ones are not repeated.
#[tokio::test(flavor = "multi_thread")]
async fn pending_notifications_are_sent_after_a_server_was_killed() {
    let (settings, receiver) = (Settings::new(), Receiver::default());
    let url = receiver.open().await;
    let text = format!(
        "[notify.channels.hook]\nkind = \"webhook\"\nurl = \"{url}/hook\"\n\
         [[notify.routes]]\nchannels = [\"hook\"]\nevents = [\"approval.opened\"]\n"
    );
    let file = settings.file("tenure.toml", &text);
    let served = Served::start_with(&[("TENURE_CONFIG", &file)]);
    served.post("/v1/fleet:import?cluster=eu-1&region=eu", "text/csv", NODES).await;
    served.onboard(&large("acme")).await;
    receiver.at("/hook", 1).await;
    // The delivery is complete once the answer is recorded.
    for _ in 0..100 {
        let settled = served.get("/v1/channels/hook/deliveries").await.body;
        if settled["items"].as_array().is_some_and(|items| items.len() == 1) {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    receiver.answer([StatusCode::SERVICE_UNAVAILABLE]);
    let zeta = served.onboard(&large("zeta")).await;
    served.asked(&zeta).await;
    let (dir, _admin) = served.killed();

    let running = crate::served::Running::start(dir.path(), &[("TENURE_CONFIG", &file)]);
    let ids = |heard: &[receivers::Told]| -> Vec<String> {
        heard.iter().map(|told| told.body["data"]["tenant"].as_str().unwrap().to_owned()).collect()
    };
    let mut heard = receiver.at("/hook", 3).await;
    tokio::time::sleep(std::time::Duration::from_secs(3)).await;
    heard = if heard.len() == 3 { receiver.heard() } else { heard };
    assert_eq!(running.stop(Signal::TERM), Some(0));
    assert_eq!(
        ids(&heard),
        ["acme", "zeta", "zeta"],
        "the second delivery was refused once, and is sent again"
    );
    assert_eq!(heard[1].body, heard[2].body, "under the same id");
}

#[test]
fn invalid_settings_are_refused_at_the_start_with_their_place() {
    let settings = Settings::new();
    let chat = settings.file("chat", "https://chat.example.com/x");
    let channel = format!("[notify.channels.chat]\nkind = \"slack\"\nurl_file = \"{chat}\"\n");
    let with = |folder: &str, file: &str, text: &str| {
        let folder = settings.0.path().join(folder);
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join(file), text).unwrap();
        format!("[notify]\ntemplates = \"{}\"\n{channel}", folder.display())
    };
    for (text, wanted) in [
        (with("a", "approval.opened.txt", "{{ tenant }}\n{{ nothing }}"), "approval.opened.txt line 2"),
        (with("b", "execution.parked.txt", "{% if tenant %}"), "execution.parked.txt line 1"),
        (channel.replace("/chat\"", "/nowhere\""), "notify.channels.chat.url_file"),
        (
            format!("{channel}[[notify.routes]]\nchannels = [\"chat\"]\nevents = [\"approval.open\"]\n"),
            "`approval.opened`",
        ),
    ] {
        let refused = settings.refused(&text);
        assert_eq!(refused.exit, 2, "{refused:?}");
        assert!(refused.err.contains(wanted), "{wanted}: {refused:?}");
    }
}

#[test]
fn the_page_about_notifications_names_every_event() {
    use workflows::notices::{KINDS, MatterChange, Severity};
    let mut table =
        "| event | severity | what it does to its matter | when |\n|---|---|---|---|\n".to_owned();
    for kind in KINDS {
        let severity: Severity = kind.severity;
        let act = match kind.act {
            MatterChange::Opens => "opens it",
            MatterChange::TakesUp => "takes it up",
            MatterChange::Closes => "closes it",
            MatterChange::Tells => "none",
        };
        table.push_str(&format!(
            "| `{}` | `{}` | {act} | {} |\n",
            kind.name,
            <&str>::from(severity),
            kind.when
        ));
    }
    generated("notifications.md", "events", &table);
}
