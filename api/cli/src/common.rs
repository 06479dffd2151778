//! What every command takes: how its answer is written, which server is asked, and as whom.

use clap::{ArgMatches, Args, ValueEnum, parser::ValueSource};
use program::colour::ColorMode;
use std::path::PathBuf;

/// What every command takes.
#[derive(Clone, Debug, Args)]
pub(crate) struct Common {
    /// Output for people or for programs.
    #[arg(short = 'o', long = "output", id = "output", global = true, value_enum, default_value_t = OutputOption::Table)]
    written: OutputOption,
    /// The server to ask [default: that of the context, else http://127.0.0.1:7878].
    #[arg(long, global = true, env = "TENURE_SERVER", value_name = "URL", hide_env_values = true)]
    pub(crate) server: Option<String>,
    /// Who you are [default: the token of the context, else the one in DATA/admin.token].
    #[arg(long, global = true, env = "TENURE_TOKEN", value_name = "TOKEN", hide_env_values = true)]
    pub(crate) token: Option<String>,
    /// Server and token by a name that `tenure context set` gave them [default: the one that `context use` chose].
    #[arg(long, global = true, env = "TENURE_CONTEXT", value_name = "NAME")]
    pub(crate) context: Option<String>,
    /// Certificates of authorities to trust beside the system's (PEM) [default: those of the context].
    #[arg(long, global = true, env = "TENURE_CA_FILE", value_name = "FILE")]
    pub(crate) ca_file: Option<PathBuf>,
    /// The data folder [default: ./tenure-data].
    #[arg(long, global = true, env = "TENURE_DATA", value_name = "DIR")]
    pub(crate) data: Option<PathBuf>,
    /// The configuration file (TOML).
    #[arg(long, global = true, env = "TENURE_CONFIG", value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Whether to colour what people read.
    #[arg(long, global = true, value_enum, default_value_t = ColorMode::Auto, value_name = "WHEN")]
    pub(crate) color: ColorMode,
    /// For people, or for which programs.
    #[arg(skip)]
    pub(crate) output: Format,
    /// Where server, token and context were said.
    #[arg(skip)]
    pub(crate) said: Sources,
    /// Whether the command is a dry run, so that nothing may be changed.
    #[arg(skip)]
    pub(crate) dry_run: bool,
}

/// How answers are written, as it is said.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum OutputOption {
    /// For people.
    Table,
    /// For people, with more columns, and moments in full.
    Wide,
    /// The API's JSON.
    Json,
    /// The same as YAML.
    Yaml,
}

/// Whom answers are written for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Format {
    /// For people.
    #[default]
    Table,
    /// The API's JSON.
    Json,
    /// The same as YAML.
    Yaml,
}

/// Where something was said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Source {
    /// Nowhere.
    #[default]
    Nowhere,
    /// In the environment.
    Environment,
    /// On the command line.
    Flag,
}

/// Where server, token, context and authorities were said.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sources {
    pub(crate) server: Source,
    pub(crate) token: Source,
    pub(crate) context: Source,
    pub(crate) ca_file: Source,
}

impl Common {
    /// Takes in what clap alone knows of `matches`: where each was said.
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

    /// Whether more columns are wanted, and moments in full.
    pub(crate) fn is_wide(&self) -> bool {
        self.written == OutputOption::Wide
    }
}
