//! Certificates of destruction, verified offline with the file and a public key.

use crate::{
    client::{Body, Client, block_on, escape},
    common::{Common, Format},
    output, settings,
};
use clap::Subcommand;
use engine::{Clock as _, SystemClock};
use program::{
    exit::{Exit, Failure},
    files,
};
use serde_json::{Value, json};
use std::{
    fs,
    io::{self, Read as _},
    path::{Path, PathBuf},
};
use workflows::{
    destruction::certificate::{Verification, apply_withdrawals, print, verify_at},
    signing::{KeyFile, Moment, PublicKey, SigningKey},
};

/// Certificate commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Certificate {
    /// Verify a certificate with the issuer's public key.
    Verify {
        /// File; `-` reads standard input.
        file: PathBuf,
        /// Trusted public key (PEM, repeatable) [default: that of the data folder].
        #[arg(long = "key", value_name = "PUBLIC.pem")]
        keys: Vec<PathBuf>,
        /// Verify at this time [default: now]; later dates are rejected.
        #[arg(long, value_name = "TIME")]
        at: Option<Moment>,
        /// File of withdrawals, from `tenure certificate withdrawals` (repeatable).
        #[arg(long, alias = "withdrawal", value_name = "FILE")]
        withdrawals: Vec<PathBuf>,
    },
    /// Withdraw a wrong certificate with a signed statement.
    Withdraw {
        /// Certificate id.
        id: String,
        /// Reason for the statement.
        #[arg(long)]
        reason: String,
        /// A finding (repeatable); the findings of the last check are added.
        #[arg(long, value_name = "TEXT")]
        found: Vec<String>,
    },
    /// Export signed withdrawals for `verify --withdrawals`.
    Withdrawals {
        /// Certificate id [default: all].
        id: Option<String>,
        /// File to write; `-` writes standard output.
        #[arg(long, value_name = "FILE", default_value = "-")]
        to: PathBuf,
    },
    /// Show a certificate without verifying it.
    Show {
        /// File; `-` reads standard input.
        file: PathBuf,
        /// File of withdrawals, from `tenure certificate withdrawals` (repeatable).
        #[arg(long, alias = "withdrawal", value_name = "FILE")]
        withdrawals: Vec<PathBuf>,
    },
    /// Write a certificate as a printable HTML page.
    Print {
        /// File; `-` reads standard input.
        file: PathBuf,
        /// Trusted public key (PEM, repeatable) [default: that of the data folder].
        #[arg(long = "key", value_name = "PUBLIC.pem")]
        keys: Vec<PathBuf>,
        /// File of withdrawals, from `tenure certificate withdrawals` (repeatable).
        #[arg(long, alias = "withdrawal", value_name = "FILE")]
        withdrawals: Vec<PathBuf>,
    },
    /// Download a certificate, byte for byte as signed.
    Download {
        /// Certificate id; `tenure certificates list` shows it.
        id: String,
        /// File to write; `-` writes to standard output [default: ID.json].
        #[arg(long, value_name = "FILE")]
        to: Option<PathBuf>,
    },
    /// Print the data folder's public key (PEM).
    ///
    /// Creates the key pair if it does not exist.
    Key,
    /// Replace the data folder's signing key.
    ///
    /// A statement signed with both keys links them, so that older certificates can still be withdrawn.
    RotateKey {
        /// Reason for the statement.
        #[arg(long)]
        reason: String,
        /// Link this earlier private key (PEM) to the current key, and replace nothing.
        #[arg(long, value_name = "PRIVATE.pem")]
        from: Option<PathBuf>,
    },
}

pub(crate) fn run(common: &Common, command: Certificate) -> Result<Exit, Failure> {
    match command {
        Certificate::Verify { file, keys, at, withdrawals } => verify(common, &file, &keys, at, &withdrawals),
        Certificate::Show { file, withdrawals } => {
            let found = read(&file, &trusted(common, &[]).unwrap_or_default(), &withdrawals)?;
            let text = print::text(&found).ok_or_else(|| unreadable(&file, &found))?;
            match common.output {
                format @ (Format::Json | Format::Yaml) => {
                    output::one(
                        format,
                        &json!({
                            "certificate": found.certificate,
                            "assets": found.assets,
                            "withdrawn": found.withdrawals.withdrawn,
                        }),
                    )?;
                }
                Format::Table => {
                    output::say(
                        &text.lines().map(|line| format!("{}\n", output::sanitize(line))).collect::<String>(),
                    )?;
                    output::note("not verified; to verify it, run `tenure certificate verify FILE`");
                }
            }
            Ok(Exit::Done)
        }
        Certificate::Print { file, keys, withdrawals } => {
            let found = read(&file, &trusted(common, &keys).unwrap_or_default(), &withdrawals)?;
            output::say(&print::html(&found).ok_or_else(|| unreadable(&file, &found))?)?;
            Ok(Exit::Done)
        }
        Certificate::Download { id, to } => block_on(download(common, &id, to)),
        Certificate::Withdraw { id, reason, found } => block_on(withdraw(common, &id, &reason, &found)),
        Certificate::Withdrawals { id, to } => block_on(withdrawals(common, id.as_deref(), &to)),
        Certificate::RotateKey { reason, from } => rotate_key(common, &reason, from.as_deref()),
        Certificate::Key => {
            let path = settings::settings(common)?.data.join(KeyFile::NAME);
            let key = KeyFile::new(&path).load_or_create().map_err(Failure::other)?.public_key();
            match common.output {
                format @ (Format::Json | Format::Yaml) => {
                    output::one(format, &json!({ "id": key.id(), "pem": key.to_pem(), "file": path }))?
                }
                Format::Table => output::say(&key.to_pem())?,
            }
            Ok(Exit::Done)
        }
    }
}

/// Replaces the signing key, or links an earlier key to it.
fn rotate_key(common: &Common, reason: &str, from: Option<&Path>) -> Result<Exit, Failure> {
    let path = settings::settings(common)?.data.join(KeyFile::NAME);
    let (file, now) = (KeyFile::new(&path), Moment::from(SystemClock.now()));
    let statement = match from {
        Some(old) => SigningKey::from_pem(&bytes(old)?).and_then(|old| file.succeed(&old, now, reason)),
        None => file.rotate(now, reason),
    };
    let statement = statement.map_err(Failure::other)?;
    let key = file.load_or_create().map_err(Failure::other)?.public_key();
    match common.output {
        format @ (Format::Json | Format::Yaml) => output::one(
            format,
            &json!({ "id": key.id(), "pem": key.to_pem(), "file": path, "statement": statement }),
        )?,
        Format::Table => output::say(&key.to_pem())?,
    }
    output::note(
        "give the new public key to the readers of certificates; copy key and statements to the other servers",
    );
    Ok(Exit::Done)
}

/// Verifies a certificate against these keys and statements of withdrawal.
fn verify(
    common: &Common,
    file: &Path,
    keys: &[PathBuf],
    at: Option<Moment>,
    withdrawals: &[PathBuf],
) -> Result<Exit, Failure> {
    let now = at.unwrap_or_else(|| SystemClock.now().into());
    let keys = trusted(common, keys)?;
    let mut found = verify_at(&bytes(file)?, &keys, now);
    for statements in withdrawals {
        apply_withdrawals(&mut found, &bytes(statements)?, &keys);
    }
    match common.output {
        format @ (Format::Json | Format::Yaml) => output::one(
            format,
            &json!({
                "valid": found.is_valid(),
                "signed_by": found.signed_by,
                "problems": found.problems,
                "proves": found.proves(),
                "proves_not": found.limitations(),
                "digest": found.digest,
                "withdrawn": found.withdrawals.withdrawn,
                "withdrawals_read": found.withdrawals.read,
            }),
        )?,
        Format::Table => {
            output::say(&told(file, &found))?;
            if found.withdrawals.read == 0 && !withdrawals.is_empty() {
                output::note("0 withdrawals read");
            }
        }
    }
    Ok(if found.is_valid() { Exit::Done } else { Exit::Failed })
}

/// Verifies a certificate at the current time of this machine, against these keys and statements of withdrawal.
fn read(file: &Path, keys: &[PublicKey], withdrawals: &[PathBuf]) -> Result<Verification, Failure> {
    let mut found = verify_at(&bytes(file)?, keys, SystemClock.now().into());
    for statements in withdrawals {
        let before = found.problems.len();
        apply_withdrawals(&mut found, &bytes(statements)?, keys);
        if found.problems.len() > before && found.withdrawals.withdrawn.is_none() {
            let file = statements.display();
            output::note(&format!("{file}: a statement does not verify; see `tenure certificate verify`"));
        }
    }
    Ok(found)
}

async fn download(common: &Common, id: &str, to: Option<PathBuf>) -> Result<Exit, Failure> {
    let answer = Client::of(common)?.download(&format!("/v1/certificates/{}", escape(id))).await?;
    if let Some(at) = &answer.withdrawn {
        output::note(&format!(
            "the certificate was withdrawn at {}; see `tenure certificate withdrawals {id}`",
            output::sanitize(at)
        ));
    }
    let text = answer.text;
    let file = to.unwrap_or_else(|| format!("{id}.json").into());
    if file == Path::new("-") {
        output::pour(&text)?;
        return Ok(Exit::Done);
    }
    fs::write(&file, &text).map_err(|error| Failure::other(format!("{}: {error}", file.display())))?;
    output::note(&format!("to verify it, run `tenure certificate verify {}`", file.display()));
    output::done(common.output, "written", &file.display().to_string())?;
    Ok(Exit::Done)
}

async fn withdraw(common: &Common, id: &str, reason: &str, found: &[String]) -> Result<Exit, Failure> {
    let path = format!("/v1/certificates/{}:withdraw", escape(id));
    let body = Body::json(&json!({ "reason": reason, "found": found }));
    let withdrawal = Client::of(common)?.post(&path, body).await?.value()?;
    output::one(common.output, &withdrawal)?;
    output::note(&format!(
        "send the statement to all holders of the certificate: tenure certificate withdrawals {id}"
    ));
    Ok(Exit::Done)
}

async fn withdrawals(common: &Common, id: Option<&str>, to: &Path) -> Result<Exit, Failure> {
    let client = Client::of(common)?;
    let text = match id {
        Some(id) => client.get(&format!("/v1/certificates/{}/withdrawal", escape(id))).await?.text,
        None => {
            let all = client.for_documents().all("/v1/withdrawals", "").await?;
            let files = all.iter().filter_map(|row| row.get("file").and_then(Value::as_str));
            files.map(|file| format!("{file}\n")).collect()
        }
    };
    if to == Path::new("-") {
        output::pour(&text)?;
        return Ok(Exit::Done);
    }
    fs::write(to, &text).map_err(|error| Failure::other(format!("{}: {error}", to.display())))?;
    output::note(
        "to check if a certificate is withdrawn, run `tenure certificate verify FILE --withdrawals LIST`",
    );
    output::done(common.output, "written", &to.display().to_string())?;
    Ok(Exit::Done)
}

/// Returns sentences from the statements of withdrawal about a valid certificate.
fn statements(found: &Verification) -> Vec<String> {
    let read = &found.withdrawals;
    let mut lines = Vec::new();
    if read.read > 0 {
        lines.push(format!("None of the {} statements of withdrawal names this certificate.", read.read));
    }
    lines.extend(
        read.first
            .as_ref()
            .map(|first| format!("The certificate that it supplements was {}.", first.describe())),
    );
    lines
}

fn told(file: &Path, found: &Verification) -> String {
    let file = file.display();
    let mut lines = Vec::new();
    if found.is_valid() {
        let title = found.certificate.as_ref().map_or("", |certificate| &certificate.title);
        lines.push(format!("{file}: valid"));
        lines.push(title.to_owned());
        lines.extend(statements(found));
        lines.push("It proves:".into());
        lines.extend(found.proves().into_iter().map(|line| format!("- {line}")));
        lines.push("It does not prove:".into());
        lines.extend(found.limitations().into_iter().map(|line| format!("- {line}")));
    } else {
        let verdict = match &found.withdrawals.withdrawn {
            Some(_) => "WITHDRAWN",
            None => "INVALID",
        };
        lines.push(format!("{file}: {verdict}"));
        lines
            .extend(found.problems.iter().map(|problem| format!("- {}: {}", problem.field, problem.problem)));
        lines.push("It proves nothing.".into());
    }
    lines.iter().map(|line| format!("{}\n", output::sanitize(line))).collect()
}

fn unreadable(file: &Path, found: &Verification) -> Failure {
    let first = found.problems.first().map(|problem| format!("{}: {}", problem.field, problem.problem));
    Failure::other(format!("{}: {}", file.display(), output::sanitize(&first.unwrap_or_default())))
}

/// Returns the named keys, or that of the data folder and its predecessors. A key inside the certificate is never trusted.
pub(crate) fn trusted(common: &Common, named: &[PathBuf]) -> Result<Vec<PublicKey>, Failure> {
    if named.is_empty() {
        let path = settings::settings(common)?.data.join(KeyFile::NAME);
        if !path.exists() {
            let why = format!(
                "no trusted key: name the issuer's public key with --key PUBLIC.pem ({} does not exist)",
                path.display()
            );
            return Err(Failure::new(Exit::Usage, why));
        }
        return KeyFile::new(path).public_keys().map_err(Failure::other);
    }
    let mut keys = Vec::new();
    for path in named {
        let of_pem = PublicKey::all_from_pem(&bytes(path)?);
        keys.extend(of_pem.map_err(|why| Failure::new(Exit::Usage, format!("{}: {why}", path.display())))?);
    }
    Ok(keys)
}

/// Reads the bytes of `file`; `-` is standard input.
pub(crate) fn bytes(file: &Path) -> Result<Vec<u8>, Failure> {
    let named = |error: io::Error| files::unreadable(file, &error);
    if file == Path::new("-") {
        let mut bytes = Vec::new();
        io::stdin().read_to_end(&mut bytes).map_err(named)?;
        return Ok(bytes);
    }
    fs::read(file).map_err(named)
}
