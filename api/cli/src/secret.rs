//! Secrets that a command has drawn: each is shown once, on standard output, or written to a file that only its owner can read.
//!
//! Every command that draws a token, a code or a key hands it over here and nowhere else. Invariant: the file is made before anything
//! is drawn, so that no secret is lost because it cannot be written.

use crate::{
    common::{Common, Format},
    output,
};
use clap::Args;
use program::exit::{Exit, Failure};
use serde_json::{Value, json};
use std::{
    fs::{self, File, OpenOptions},
    io::Write as _,
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
};

/// Where a secret goes that is about to be drawn.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct SecretTo {
    /// Write the secret to this new file, with mode 0600, and print none.
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
}

impl SecretTo {
    /// Makes the file, if one is asked for. It is removed again unless a secret is handed over.
    pub(crate) fn prepare(&self) -> Result<SecretPlace, Failure> {
        let made = |path: &PathBuf| make(path).map(|file| (path.clone(), file));
        Ok(SecretPlace { file: self.token_file.as_ref().map(made).transpose()? })
    }
}

fn make(path: &Path) -> Result<File, Failure> {
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    file.map_err(|error| Failure::new(Exit::Usage, format!("--token-file {}: {error}", path.display())))
}

/// The place that was prepared for a secret.
#[derive(Debug)]
pub(crate) struct SecretPlace {
    file: Option<(PathBuf, File)>,
}

impl SecretPlace {
    /// Hands over the field `secret` of what was `drawn`; `what` says what it is.
    pub(crate) fn hand_over(
        mut self,
        common: &Common,
        what: &str,
        drawn: &Value,
        secret: &str,
    ) -> Result<(), Failure> {
        let text = drawn.get(secret).and_then(Value::as_str).unwrap_or_default();
        let Some((path, mut file)) = self.file.take() else {
            return match common.output {
                format @ (Format::Json | Format::Yaml) => output::one(format, drawn),
                // The secret alone on standard output, so that it can be taken into a variable.
                Format::Table => {
                    output::note(&format!("{what}, shown this once:"));
                    output::say(&format!("{text}\n"))
                }
            };
        };
        let written = writeln!(file, "{text}").and_then(|()| file.sync_all());
        if let Err(error) = written {
            // It is drawn, and cannot be drawn again: better on the terminal than lost.
            output::note(&format!("--token-file {}: {error}; {what}, shown this once:", path.display()));
            output::say(&format!("{text}\n"))?;
            return Err(Failure::other(format!("--token-file {}: {error}", path.display())));
        }
        match common.output {
            format @ (Format::Json | Format::Yaml) => {
                let mut shown = drawn.clone();
                if let Some(fields) = shown.as_object_mut() {
                    fields.remove(secret);
                    fields.insert("token_file".into(), json!(path));
                }
                output::one(format, &shown)
            }
            Format::Table => {
                output::note(&format!("{what} is in {}", path.display()));
                Ok(())
            }
        }
    }
}

impl Drop for SecretPlace {
    fn drop(&mut self) {
        // Nothing was drawn.
        if let Some((path, _)) = self.file.take() {
            let _ = fs::remove_file(path);
        }
    }
}
