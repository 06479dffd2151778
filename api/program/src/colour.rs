//! ColorMode what a program says to people is coloured.

use clap::{ColorChoice, ValueEnum};

/// ColorMode text is coloured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum ColorMode {
    /// On a terminal, unless `NO_COLOR` is set.
    #[default]
    Auto,
    /// Everywhere.
    Always,
    /// Nowhere.
    Never,
}

impl ColorMode {
    /// What the arguments ask for, read before they are parsed, so that what is said of a mistake in them is coloured likewise.
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

    /// Returns true if text for a terminal, or for something else, is coloured; the environment is asked too.
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
    fn what_the_arguments_ask_for_is_known_before_they_are_parsed() {
        let asked = |line: &str| ColorMode::asked(line.split(' ').map(str::to_owned));
        assert_eq!(asked("tenure --color never x"), ColorMode::Never);
        assert_eq!(asked("tenure x --color=always"), ColorMode::Always);
        assert_eq!(asked("tenure x"), ColorMode::Auto);
    }

    #[test]
    fn colours_are_for_terminals_and_for_those_who_want_them() {
        let none = |_: &str| None;
        let with = |name: &'static str, value: &'static str| {
            move |asked: &str| (asked == name).then(|| value.to_owned())
        };
        assert!(ColorMode::Auto.colours_in(true, none) && !ColorMode::Auto.colours_in(false, none));
        assert!(!ColorMode::Auto.colours_in(true, with("NO_COLOR", "1")));
        assert!(ColorMode::Auto.colours_in(true, with("NO_COLOR", "")), "an empty one says nothing");
        assert!(!ColorMode::Auto.colours_in(true, with("TERM", "dumb")));
        assert!(ColorMode::Auto.colours_in(false, with("CLICOLOR_FORCE", "1")));
        assert!(
            ColorMode::Always.colours_in(false, with("NO_COLOR", "1")),
            "a flag goes over the environment"
        );
        assert!(!ColorMode::Never.colours_in(true, with("CLICOLOR_FORCE", "1")));
    }
}
