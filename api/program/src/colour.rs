//! When output has colours.

use clap::{ColorChoice, ValueEnum};

/// When output has colours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum ColorMode {
    /// On a terminal, unless `NO_COLOR` is set.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

impl ColorMode {
    /// Reads `--color` before the arguments are parsed, so that parse errors have the right colours.
    pub fn asked(arguments: impl Iterator<Item = String>) -> Self {
        let mut before = String::new();
        for argument in arguments {
            let value = if before == "--color" { Some(argument.as_str()) } else { None };
            match value.or_else(|| argument.strip_prefix("--color=")) {
                Some("always") => return Self::Always,
                Some("never") => return Self::Never,
                _ => before = argument,
            }
        }
        Self::Auto
    }

    /// Returns true if text is coloured. `terminal` is true if the output is a terminal. Reads the environment.
    #[must_use]
    pub fn colours(self, terminal: bool) -> bool {
        self.colours_in(terminal, |name| std::env::var(name).ok())
    }

    fn colours_in(self, terminal: bool, environment: impl Fn(&str) -> Option<String>) -> bool {
        let set = |name: &str| environment(name).is_some_and(|value| !value.is_empty());
        match self {
            Self::Always => true,
            Self::Never => false,
            Self::Auto if set("NO_COLOR") => false,
            Self::Auto
                if environment("CLICOLOR_FORCE").is_some_and(|value| !value.is_empty() && value != "0") =>
            {
                true
            }
            Self::Auto => terminal && environment("TERM").is_none_or(|term| term != "dumb"),
        }
    }
}

impl From<ColorMode> for ColorChoice {
    fn from(when: ColorMode) -> Self {
        match when {
            ColorMode::Auto => Self::Auto,
            ColorMode::Always => Self::Always,
            ColorMode::Never => Self::Never,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_colour_option_is_read_before_the_arguments_are_parsed() {
        let asked = |line: &str| ColorMode::asked(line.split(' ').map(str::to_owned));
        assert_eq!(asked("tenure --color never x"), ColorMode::Never);
        assert_eq!(asked("tenure x --color=always"), ColorMode::Always);
        assert_eq!(asked("tenure x"), ColorMode::Auto);
    }

    #[test]
    fn terminals_have_colours_unless_options_or_variables_differ() {
        let none = |_: &str| None;
        let with = |name: &'static str, value: &'static str| {
            move |asked: &str| (asked == name).then(|| value.to_owned())
        };
        assert!(ColorMode::Auto.colours_in(true, none) && !ColorMode::Auto.colours_in(false, none));
        assert!(!ColorMode::Auto.colours_in(true, with("NO_COLOR", "1")));
        assert!(ColorMode::Auto.colours_in(true, with("NO_COLOR", "")), "an empty variable is ignored");
        assert!(!ColorMode::Auto.colours_in(true, with("TERM", "dumb")));
        assert!(ColorMode::Auto.colours_in(false, with("CLICOLOR_FORCE", "1")));
        assert!(
            ColorMode::Always.colours_in(false, with("NO_COLOR", "1")),
            "an option overrides the environment"
        );
        assert!(!ColorMode::Never.colours_in(true, with("CLICOLOR_FORCE", "1")));
    }
}
