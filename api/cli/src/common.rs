//! Options of every command: the output format, the server, and the credentials.

use clap::{ArgMatches, Args, ValueEnum, parser::ValueSource};
use program::colour::ColorMode;
use std::path::PathBuf;

/// Options of every command.
#[derive(Clone, Debug, Args)]
pub(crate) struct Common {
    /// Output format.
    #[arg(short = 'o', long = "output", id = "output", global = true, value_enum, default_value_t = OutputOption::Table)]
    written: OutputOption,
    /// Server URL [default: the context's, else http://127.0.0.1:7878].
    #[arg(long, global = true, env = "TENURE_SERVER", value_name = "URL", hide_env_values = true)]
    pub(crate) server: Option<String>,
    /// Access token [default: the context's, else the one in DATA/admin.token].
    #[arg(long, global = true, env = "TENURE_TOKEN", value_name = "TOKEN", hide_env_values = true)]
    pub(crate) token: Option<String>,
    /// Context name [default: set by `tenure context use`].
    #[arg(long, global = true, env = "TENURE_CONTEXT", value_name = "NAME")]
    pub(crate) context: Option<String>,
    /// Additional certificate authorities (PEM) [default: the context's].
    #[arg(long, global = true, env = "TENURE_CA_FILE", value_name = "FILE")]
    pub(crate) ca_file: Option<PathBuf>,
    /// Data folder [default: ./tenure-data].
    #[arg(long, global = true, env = "TENURE_DATA", value_name = "DIR")]
    pub(crate) data: Option<PathBuf>,
    /// Configuration file (TOML).
    #[arg(long, global = true, env = "TENURE_CONFIG", value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// When to use colours.
    #[arg(long, global = true, value_enum, default_value_t = ColorMode::Auto, value_name = "WHEN")]
    pub(crate) color: ColorMode,
    /// The output format without the width.
    #[arg(skip)]
    pub(crate) output: Format,
    /// The sources of server, token, context and authorities.
    #[arg(skip)]
    pub(crate) said: Sources,
    /// True if the command is a dry run, so that nothing may be changed.
    #[arg(skip)]
    pub(crate) dry_run: bool,
}

/// The values of `--output`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum OutputOption {
    /// Table.
    Table,
    /// Table with more columns and full timestamps.
    Wide,
    /// JSON of the API.
    Json,
    /// The same as YAML.
    Yaml,
}

/// The output format.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Format {
    /// Text for a terminal.
    #[default]
    Table,
    /// JSON of the API.
    Json,
    /// The same as YAML.
    Yaml,
}

/// The source of a value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Source {
    /// Not given.
    #[default]
    Nowhere,
    /// An environment variable.
    Environment,
    /// The command line.
    Flag,
}

/// The sources of server, token, context and authorities.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sources {
    pub(crate) server: Source,
    pub(crate) token: Source,
    pub(crate) context: Source,
    pub(crate) ca_file: Source,
}

impl Common {
    /// Sets the fields that clap does not fill: the sources and the output format.
    pub(crate) fn settle(&mut self, matches: &ArgMatches) {
        let place = |name: &str| match matches.value_source(name) {
            Some(ValueSource::CommandLine) => Source::Flag,
            Some(ValueSource::EnvVariable) => Source::Environment,
            _ => Source::Nowhere,
        };
        self.said = Sources {
            server: place("server"),
            token: place("token"),
            context: place("context"),
            ca_file: place("ca_file"),
        };
        self.output = match self.written {
            OutputOption::Table | OutputOption::Wide => Format::Table,
            OutputOption::Json => Format::Json,
            OutputOption::Yaml => Format::Yaml,
        };
    }

    /// Returns true if `-o wide` was given.
    pub(crate) fn is_wide(&self) -> bool {
        self.written == OutputOption::Wide
    }
}
