//! Output of generated secrets: shown once on standard output, or written to a file with mode 0600.
//!
//! Every command that generates a token, a code or a key uses this module. Invariant: the file is created before the secret is generated,
//! so that a file error loses no secret.

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

/// Where to write a generated secret.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct SecretTo {
    /// Write the secret to a new file (mode 0600) and do not print it.
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
}

impl SecretTo {
    /// Creates the file, if one is requested. It is removed again unless a secret is written.
    pub(crate) fn prepare(&self) -> Result<SecretPlace, Failure> {
        let made = |path: &PathBuf| make(path).map(|file| (path.clone(), file));
        Ok(SecretPlace { file: self.token_file.as_ref().map(made).transpose()? })
    }
}

fn make(path: &Path) -> Result<File, Failure> {
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    file.map_err(|error| Failure::new(Exit::Usage, format!("--token-file {}: {error}", path.display())))
}

/// The destination of a secret.
#[derive(Debug)]
pub(crate) struct SecretPlace {
    file: Option<(PathBuf, File)>,
}

impl SecretPlace {
    /// Writes the field `secret` of the answer `drawn`. `what` describes the secret.
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
                // Standard output has only the secret, so that a shell can read it into a variable.
                Format::Table => {
                    output::note(&format!("{what}, shown only once:"));
                    output::say(&format!("{text}\n"))
                }
            };
        };
        let written = writeln!(file, "{text}").and_then(|()| file.sync_all());
        if let Err(error) = written {
            // The secret exists and cannot be shown again, so it is printed.
            output::note(&format!("--token-file {}: {error}; {what}, shown only once:", path.display()));
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
        // No secret was written.
        if let Some((path, _)) = self.file.take() {
            let _ = fs::remove_file(path);
        }
    }
}
