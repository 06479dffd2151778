//! `email`: mail by SMTP, one message to all recipients of the channel. A matter is one thread.

use crate::{
    config::{self, MailTls},
    notify::channel::{
        Message, Sent, secret, shortened,
        smtp::{Server, Untaken},
    },
};
use lettre::{
    message::{Mailbox, header::ContentType},
    transport::smtp::{
        authentication::Credentials,
        client::{Certificate, Tls as Wire, TlsParameters},
    },
};
use std::{fs, time::Duration};

pub(in crate::notify) struct Email {
    server: Server,
    from: Mailbox,
    to: Vec<Mailbox>,
    password: String,
}

impl Email {
    pub(in crate::notify) fn of(settings: &config::Channel) -> Result<Self, String> {
        let mailbox = |key: &str, text: &str| {
            let wrong = |error| format!("{key}: {text:?} is not an e-mail address: {error}");
            text.parse::<Mailbox>().map_err(wrong)
        };
        let unset = || "server: write it like `smtp.example.com:587`".to_owned();
        let (host, port) = settings.server.rsplit_once(':').ok_or_else(unset)?;
        let port: u16 = port.parse().map_err(|_| unset())?;
        let host = host.trim_matches(['[', ']']);
        let wire = match settings.tls {
            MailTls::None => Wire::None,
            MailTls::Starttls => Wire::Required(tls(host, &settings.ca_file)?),
            MailTls::Wrapped => Wire::Wrapper(tls(host, &settings.ca_file)?),
        };
        let mut server = Server { host: host.to_owned(), port, tls: wire, credentials: None };
        let mut password = String::new();
        if !settings.user.is_empty() {
            password = secret("password_file", &settings.password_file)?;
            server.credentials = Some(Credentials::new(settings.user.clone(), password.clone()));
        }
        Ok(Self {
            server,
            from: mailbox("from", &settings.from)?,
            to: settings.to.iter().map(|to| mailbox("to", to)).collect::<Result<_, _>>()?,
            password,
        })
    }

    pub(in crate::notify) async fn send(&self, message: &Message<'_>) -> Sent {
        let letter = match self.letter(message) {
            Ok(letter) => letter,
            Err(error) => return Sent::Refused(format!("cannot build the message: {error}"), None),
        };
        match self.server.deliver(&letter).await {
            Ok(response) => {
                let said: Vec<&str> = response.message().collect();
                let said = format!("{} {}", response.code(), said.join(" "));
                Sent::Taken(shortened(&said, &self.password))
            }
            Err(Untaken::Unreached(why)) => Sent::Unreached(shortened(&why, &self.password)),
            Err(Untaken::Smtp(error)) => {
                let mut said = error.to_string();
                if let Some(source) = std::error::Error::source(&error) {
                    said = format!("{said}: {source}");
                }
                let said = shortened(&said, &self.password);
                match error.status() {
                    Some(_) => Sent::Refused(said, None),
                    None => Sent::Unreached(said),
                }
            }
        }
    }

    fn letter(&self, message: &Message<'_>) -> Result<lettre::Message, lettre::error::Error> {
        let host = self.from.email.domain();
        let thread = format!("<{}@{host}>", name(&message.matter));
        let sent = std::time::UNIX_EPOCH + Duration::from_millis(message.now.0);
        let mut letter = lettre::Message::builder()
            .from(self.from.clone())
            .subject(message.words.title.clone())
            .date(sent)
            .message_id(Some(format!("<{}@{host}>", name(&message.told.id))))
            .in_reply_to(thread.clone())
            .references(thread)
            .header(ContentType::TEXT_PLAIN);
        for to in &self.to {
            letter = letter.to(to.clone());
        }
        let body = match message.words.body.as_str() {
            "" => &message.words.title,
            body => body,
        };
        letter.body(format!("{body}\n"))
    }
}

fn tls(host: &str, ca_file: &str) -> Result<TlsParameters, String> {
    let mut tls = TlsParameters::builder(host.into());
    if !ca_file.is_empty() {
        let wrong = |why: String| format!("ca_file: {ca_file}: {why}");
        let pem = fs::read(ca_file).map_err(|error| wrong(error.to_string()))?;
        let certificate = Certificate::from_pem(&pem).map_err(|error| wrong(error.to_string()))?;
        tls = tls.add_root_certificate(certificate);
    }
    tls.build().map_err(|error| format!("tls: {error}"))
}

/// Returns a name for a mail header, which allows few characters.
fn name(text: &str) -> String {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    text.chars().map(|c| if fits(c) { c } else { '-' }).collect()
}
