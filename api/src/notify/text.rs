//! What people read: a text for each event, or a template in its place.
//!
//! A template sees what is told and nothing else: it reads no file, calls no other template and ends after so many steps. One
//! that cannot be read, or names what there is not, is refused when the server starts; if one fails all the same, the text
//! that there is anyway is sent.

use engine::Notification;
use minijinja::{Environment, UndefinedBehavior, context};
use program::encoding::rfc3339::format_time;
use std::{fs, path::Path};
use store::Timestamp;
use workflows::notices::{KINDS, NoticeKind, kind_of, matter};

/// The template of every event that has none of its own.
const ANY: &str = "default";
/// How templates' files end.
const ENDING: &str = ".txt";
/// The most steps of a template.
const STEPS: u64 = 50_000;
/// The longest text, in bytes.
const MOST: usize = 16 << 10;

/// A notification in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct NotificationText {
    /// One line.
    pub(super) title: String,
    /// All the rest; empty if there is none.
    pub(super) body: String,
}

/// The templates.
pub(crate) struct Templates {
    environment: Environment<'static>,
}

impl Templates {
    /// Those in a folder, if one is named.
    ///
    /// # Errors
    /// The file and line at fault.
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

    /// Takes one template, after it has been tried on everything that it may have to say.
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
            return Err(format!("notify.templates: {shown} is of no event{near}"));
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

    /// What people are told.
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
                    "a template failed; the usual text is sent"
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

/// What is wrong, without the place.
fn said(error: &minijinja::Error) -> String {
    match error.detail() {
        Some(detail) => format!("{}: {detail}", error.kind()),
        None => error.kind().to_string(),
    }
}

/// The first line, and the rest.
fn split(text: &str) -> NotificationText {
    let text = text.trim();
    let (title, body) = text.split_once('\n').unwrap_or((text, ""));
    NotificationText { title: line(title), body: body.trim().to_owned() }
}

/// A text on one line.
fn line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect::<String>().trim().to_owned()
}

/// The text where there is no template.
fn usual(told: &Notification) -> NotificationText {
    let kind = kind_of(told);
    let what = match kind.name {
        "approval.opened" => "To decide",
        "approval.reminder" => "Still to decide",
        "approval.escalated" => "To decide, escalated",
        "approval.extended" => "To decide, extended",
        "approval.plan_changed" => "To decide anew",
        "approval.voted" => "A vote",
        "approval.granted" | "approval.refused" | "approval.withdrawn" => "Decided",
        "approval.expired" => "Not decided in time",
        "approval.glass_broken" => "Decided alone",
        "execution.parked" => "Parked",
        "execution.unparked" => "Goes on",
        "execution.overdue" => "Promise missed",
        "execution.ended_late" => "Over",
        "schedule.failed" => "Failed",
        "hold.review_due" => "Hold to review",
        "offboarding.held" => "Waits for a hold",
        "certificate.issued" => "Certificate issued",
        "workload.fits_no_node" => "Fits no node",
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

/// Something that could be told, to try a template on.
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
    fn a_template_stands_in_for_the_usual_text_of_its_event() {
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
        assert_eq!(usual.title, "To decide [acme]: onboard acme waits");
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
            let error = folder.texts().err().unwrap_or_else(|| panic!("{text} was taken"));
            assert!(error.contains(wanted), "{error}");
            assert!(error.starts_with("notify.templates: "), "{error}");
        }
    }

    /// What only fails on what is really told: the usual text goes out.
    #[test]
    fn a_template_that_fails_later_keeps_nothing_back() {
        let text = "{% if about != 'example' %}{{ text.nothing.there }}{% endif %}fine";
        let folder = Folder::with("later", &[("default.txt", text)]);
        let texts = folder.texts().unwrap();
        let told = Notification { about: "e-1".into(), ..told("approval.opened") };
        assert_eq!(texts.words(&told), usual(&told));
        assert_eq!(texts.words(&Notification { about: "example".into(), ..told }).title, "fine");
    }
}
