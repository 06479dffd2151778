//! The text of notifications: built in for each event, or from a template.
//!
//! A template sees only the notification: it reads no files, calls no other templates, and its steps are limited. An invalid template, or one with unknown
//! names, is rejected at the start of the server. If a template fails later, the built-in text is sent.

use engine::Notification;
use minijinja::{Environment, UndefinedBehavior, context};
use program::encoding::rfc3339::format_time;
use std::{fs, path::Path};
use store::Timestamp;
use workflows::notices::{KINDS, NoticeKind, kind_of, matter};

/// The template of all events without their own.
const ANY: &str = "default";
/// The file extension of templates.
const ENDING: &str = ".txt";
/// The maximum number of steps of a template.
const STEPS: u64 = 50_000;
/// The maximum length of a text, in bytes.
const MOST: usize = 16 << 10;

/// The text of a notification.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct NotificationText {
    /// One line.
    pub(super) title: String,
    /// The other lines; may be empty.
    pub(super) body: String,
}

/// The templates.
pub(crate) struct Templates {
    environment: Environment<'static>,
}

impl Templates {
    /// Loads the templates of a folder, if one is given.
    ///
    /// # Errors
    /// The file and line with the fault.
    pub(super) fn of(folder: &str) -> Result<Self, String> {
        let mut environment = Environment::new();
        environment.set_undefined_behavior(UndefinedBehavior::Strict);
        environment.set_fuel(Some(STEPS));
        let mut texts = Self { environment };
        if folder.is_empty() {
            return Ok(texts);
        }
        let unread = |error| format!("notify.templates: {folder}: {error}");
        let mut files: Vec<_> =
            fs::read_dir(folder).map_err(unread)?.collect::<Result<_, _>>().map_err(unread)?;
        files.sort_by_key(fs::DirEntry::path);
        for file in files {
            texts.add(&file.path())?;
        }
        Ok(texts)
    }

    /// Loads a template, after a trial with all events that it may get.
    fn add(&mut self, file: &Path) -> Result<(), String> {
        let shown = file.display();
        let Some(name) =
            file.file_name().and_then(|name| name.to_str()).filter(|name| !name.starts_with('.'))
        else {
            return Ok(());
        };
        let event = name.strip_suffix(ENDING).unwrap_or(name).to_owned();
        let meant: Vec<NoticeKind> =
            KINDS.iter().copied().filter(|kind| event == ANY || event == kind.name).collect();
        if meant.is_empty() || !name.ends_with(ENDING) {
            let near = engine::nearest(&event, KINDS.iter().map(|kind| kind.name));
            let near = near.map(|near| format!("; did you mean `{near}{ENDING}`?")).unwrap_or_default();
            return Err(format!("notify.templates: {shown} belongs to no event{near}"));
        }
        let wrong = |error: &minijinja::Error| {
            let line = error.line().map(|line| format!(" line {line}")).unwrap_or_default();
            format!("notify.templates: {shown}{line}: {}", said(error))
        };
        let source =
            fs::read_to_string(file).map_err(|error| format!("notify.templates: {shown}: {error}"))?;
        self.environment.add_template_owned(event.clone(), source).map_err(|error| wrong(&error))?;
        for kind in meant {
            self.render(&event, &example(kind)).map_err(|error| wrong(&error))?;
        }
        Ok(())
    }

    /// Returns the text of a notification.
    pub(super) fn words(&self, told: &Notification) -> NotificationText {
        let named =
            [told.kind.as_str(), ANY].into_iter().find(|name| self.environment.get_template(name).is_ok());
        let rendered = named.map(|name| self.render(name, told));
        match rendered {
            Some(Ok(text)) if !text.trim().is_empty() => split(&text),
            Some(Err(error)) => {
                tracing::warn!(
                    event = told.kind,
                    why = said(&error),
                    "a template failed; the built-in text is sent"
                );
                usual(told)
            }
            Some(Ok(_)) | None => usual(told),
        }
    }

    fn render(&self, name: &str, told: &Notification) -> Result<String, minijinja::Error> {
        let kind = kind_of(told);
        let severity: &str = kind.severity.into();
        let known = context! {
            id => &told.id,
            kind => &told.kind,
            severity => severity,
            reason => told.reason.as_deref().unwrap_or_default(),
            about => &told.about,
            matter => matter(told),
            tenant => &told.tenant,
            to => told.to.clone(),
            text => &told.text,
            at => format_time(told.at),
        };
        let mut text = self.environment.get_template(name)?.render(known)?;
        if text.len() > MOST {
            let end = (0..=MOST).rev().find(|end| text.is_char_boundary(*end)).unwrap_or_default();
            text.truncate(end);
        }
        Ok(text)
    }
}

/// Returns the error without its position.
fn said(error: &minijinja::Error) -> String {
    match error.detail() {
        Some(detail) => format!("{}: {detail}", error.kind()),
        None => error.kind().to_string(),
    }
}

/// Splits the first line from the rest.
fn split(text: &str) -> NotificationText {
    let text = text.trim();
    let (title, body) = text.split_once('\n').unwrap_or((text, ""));
    NotificationText { title: line(title), body: body.trim().to_owned() }
}

/// Returns a text on one line.
fn line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect::<String>().trim().to_owned()
}

/// Returns the built-in text.
fn usual(told: &Notification) -> NotificationText {
    let kind = kind_of(told);
    let what = match kind.name {
        "approval.opened" => "Approval needed",
        "approval.reminder" => "Approval reminder",
        "approval.escalated" => "Approval escalated",
        "approval.extended" => "Approval extended",
        "approval.plan_changed" => "Approval needed again",
        "approval.voted" => "Vote",
        "approval.granted" | "approval.refused" | "approval.withdrawn" => "Decided",
        "approval.expired" => "Approval expired",
        "approval.glass_broken" => "Break-glass decision",
        "execution.parked" => "Parked",
        "execution.unparked" => "Continues",
        "execution.overdue" => "Deadline missed",
        "execution.ended_late" => "Ended late",
        "schedule.failed" => "Schedule failed",
        "hold.review_due" => "Hold to review",
        "offboarding.held" => "Waiting for a hold",
        "offboarding.unclassified" => "Waiting for a classification",
        "offboarding.changing" => "Waiting until writes stop",
        "certificate.issued" => "Certificate issued",
        "workload.fits_no_node" => "Fits on no node",
        "channel.test" => "Test",
        _ => told.kind.as_str(),
    };
    let whose = if told.tenant.is_empty() { String::new() } else { format!(" [{}]", told.tenant) };
    let title = line(&format!("{what}{whose}: {}", told.text));
    let to = if told.to.is_empty() { String::new() } else { format!("for {}\n", told.to.join(", ")) };
    let severity: &str = kind.severity.into();
    let body = format!("{to}{severity}, {}, {}", told.kind, format_time(told.at));
    NotificationText { title, body }
}

/// Returns an example notification, to try a template.
fn example(kind: NoticeKind) -> Notification {
    Notification {
        id: format!("example.{}", kind.name),
        kind: kind.name.into(),
        reason: Some("example".into()),
        about: "example".into(),
        tenant: "example".into(),
        to: vec!["platform_ops".into()],
        text: kind.when.into(),
        at: Timestamp(0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Folder(std::path::PathBuf);

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    impl Folder {
        fn with(name: &str, files: &[(&str, &str)]) -> Self {
            let dir = std::env::temp_dir().join(format!("tenure-texts-{}-{name}", std::process::id()));
            fs::create_dir_all(&dir).unwrap();
            for (name, text) in files {
                fs::write(dir.join(name), text).unwrap();
            }
            Self(dir)
        }

        fn texts(&self) -> Result<Templates, String> {
            Templates::of(self.0.to_str().unwrap())
        }
    }

    fn told(kind: &str) -> Notification {
        let kind = KINDS.iter().copied().find(|known| known.name == kind).unwrap();
        Notification { tenant: "acme".into(), text: "onboard acme waits".into(), ..example(kind) }
    }

    #[test]
    fn a_template_replaces_the_built_in_text_of_its_event() {
        let files = [
            ("approval.opened.txt", "{{ tenant | upper }}: {{ text }}\nfor {{ to | join(', ') }}\n"),
            ("default.txt", "{{ kind }} ({{ severity }})"),
        ];
        let texts = Folder::with("own", &files);
        let texts = texts.texts().unwrap();
        let words = |title: &str, body: &str| NotificationText { title: title.into(), body: body.into() };
        assert_eq!(
            texts.words(&told("approval.opened")),
            words("ACME: onboard acme waits", "for platform_ops")
        );
        assert_eq!(texts.words(&told("execution.parked")), words("execution.parked (error)", ""));
        let usual = Templates::of("").unwrap().words(&told("approval.opened"));
        assert_eq!(usual.title, "Approval needed [acme]: onboard acme waits");
    }

    #[test]
    fn a_broken_template_is_refused_with_its_file_and_line() {
        for (name, text, wanted) in [
            ("approval.opened.txt", "fine\n{{ text", "approval.opened.txt line 2"),
            ("approval.opened.txt", "a\nb\n{{ nothing.there }}", "approval.opened.txt line 3"),
            ("approval.opened.txt", "{% include '/etc/passwd' %}", "approval.opened.txt line 1"),
            (
                "default.txt",
                "{% for a in range(9999) %}{% for b in range(9999) %}x{% endfor %}{% endfor %}",
                "default.txt line 1",
            ),
            ("approval.open.txt", "x", "did you mean `approval.opened.txt`"),
        ] {
            let folder = Folder::with("broken", &[(name, text)]);
            let error = folder.texts().err().unwrap_or_else(|| panic!("{text} was accepted"));
            assert!(error.contains(wanted), "{error}");
            assert!(error.starts_with("notify.templates: "), "{error}");
        }
    }

    /// If a template fails on a real notification, the built-in text is sent.
    #[test]
    fn a_failing_template_does_not_block_notifications() {
        let text = "{% if about != 'example' %}{{ text.nothing.there }}{% endif %}fine";
        let folder = Folder::with("later", &[("default.txt", text)]);
        let texts = folder.texts().unwrap();
        let told = Notification { about: "e-1".into(), ..told("approval.opened") };
        assert_eq!(texts.words(&told), usual(&told));
        assert_eq!(texts.words(&Notification { about: "example".into(), ..told }).title, "fine");
    }
}
