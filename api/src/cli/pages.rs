//! `tenure completions` and `tenure man`: the command line, told to shells and as manual pages.

use super::{args::Cli, args::Common, output};
use crate::exit::{Exit, Failure};
use clap::CommandFactory as _;
use clap_complete::Shell;
use std::{fs, io, path::Path};

/// Prints what completes commands in `shell`.
pub(super) fn completions(shell: Shell) -> Result<Exit, Failure> {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "tenure", &mut text);
    output::say(&String::from_utf8_lossy(&text))?;
    Ok(Exit::Done)
}

/// Prints the page of the program, or writes those of all commands into `dir`.
pub(super) fn manual(common: &Common, dir: Option<&Path>) -> Result<Exit, Failure> {
    let mut whole = Cli::command();
    whole.build();
    let Some(dir) = dir else {
        output::say(&page(whole, "tenure")?)?;
        return Ok(Exit::Done);
    };
    let failed = |error: io::Error| Failure::other(format!("{}: {error}", dir.display()));
    fs::create_dir_all(dir).map_err(failed)?;
    let mut pages = 0_u32;
    for (name, command) in all(whole, "tenure") {
        fs::write(dir.join(format!("{name}.1")), page(command, &name)?).map_err(failed)?;
        pages += 1;
    }
    output::done(common.output, &format!("{pages} pages written"), &dir.display().to_string())?;
    Ok(Exit::Done)
}

/// Every command by the name of its page: `tenure-executions-list`.
fn all(command: clap::Command, name: &str) -> Vec<(String, clap::Command)> {
    let inner = command.get_subcommands().filter(|inner| inner.get_name() != "help");
    let mut pages: Vec<_> = inner
        .cloned()
        .flat_map(|inner| {
            let name = format!("{name}-{}", inner.get_name());
            all(inner, &name)
        })
        .collect();
    pages.insert(0, (name.to_owned(), command));
    pages
}

fn page(command: clap::Command, name: &str) -> Result<String, Failure> {
    let mut text = Vec::new();
    let command = command.name(name.to_owned());
    clap_mangen::Man::new(command).manual("Tenure").render(&mut text).map_err(Failure::other)?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}
