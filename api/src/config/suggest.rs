//! Suggestions for unknown words.

/// Returns the parser's error; for an unknown word with the nearest expected one.
pub(super) fn with_suggestion(why: &str) -> String {
    let unknown = why.split_once("unknown field `").or_else(|| why.split_once("unknown variant `"));
    let Some((word, rest)) = unknown.and_then(|(_, rest)| rest.split_once('`')) else {
        return why.to_owned();
    };
    let expected = rest.split('`').skip(1).step_by(2);
    match engine::nearest(word, expected) {
        Some(near) => format!("{}\ndid you mean `{near}`?", why.trim_end()),
        None => why.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::with_suggestion;

    #[test]
    fn the_nearest_expected_word_is_suggested() {
        let why = "unknown field `leese`, expected one of `concurrency`, `lease`, `drain`\n";
        assert_eq!(with_suggestion(why), format!("{}\ndid you mean `lease`?", why.trim_end()));
        let strange = "unknown field `colour`, expected `lease` or `drain`";
        assert_eq!(with_suggestion(strange), strange);
        assert_eq!(with_suggestion("invalid type"), "invalid type");
    }
}
