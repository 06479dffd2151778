//! `tenure completions` and `tenure man`: shell completions and manual pages.

use crate::{common::Common, output};
use clap::Command;
use clap_complete::Shell;
use program::exit::{Exit, Failure};
use std::{fs, io, path::Path};

/// Prints the completions for `shell`.
pub(crate) fn completions(shell: Shell, mut whole: Command) -> Result<Exit, Failure> {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut whole, "tenure", &mut text);
    output::say(&String::from_utf8_lossy(&text))?;
    Ok(Exit::Done)
}

/// Prints the manual page of the program, or writes the pages of all commands to `dir`.
pub(crate) fn manual(common: &Common, whole: Command, dir: Option<&Path>) -> Result<Exit, Failure> {
    let Some(dir) = dir else {
        let mut text = Vec::new();
        clap_mangen::Man::new(whole).render(&mut text).map_err(Failure::other)?;
        output::say(&String::from_utf8_lossy(&text))?;
        return Ok(Exit::Done);
    };
    let failed = |error: io::Error| Failure::other(format!("{}: {error}", dir.display()));
    fs::create_dir_all(dir).map_err(failed)?;
    clap_mangen::generate_to(whole, dir).map_err(failed)?;
    output::done(common.output, "written", &dir.display().to_string())?;
    Ok(Exit::Done)
}
