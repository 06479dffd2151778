//! Keys that are made of several parts: ids of documents, and idempotency keys.
//!
//! Called wherever a key has more than one part. Invariant: two different lists of parts never have the same key, whatever
//! characters the parts have. Names without `/` and `%` are stored as they are, so keys of earlier versions are still found.

use std::{
    fmt::{self, Display, Write as _},
    ops::Deref,
};

/// A key made of parts, with `/` between them.
///
/// In each part `/` is stored as `%2F` and `%` as `%25`. Only a tail is stored as it is: it is the last part, and every key of its kind has
/// the same number of parts before it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CompositeKey(String);

/// Writes a part with its separators escaped.
struct Escaped<'a>(&'a mut String);

impl fmt::Write for Escaped<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for c in text.chars() {
            match c {
                '/' => self.0.push_str("%2F"),
                '%' => self.0.push_str("%25"),
                other => self.0.push(other),
            }
        }
        Ok(())
    }
}

impl CompositeKey {
    /// Returns the key of `parts`.
    #[must_use]
    pub fn of(parts: &[&dyn Display]) -> Self {
        let mut key = String::new();
        for (place, part) in parts.iter().enumerate() {
            if place > 0 {
                key.push('/');
            }
            // Writing to a string cannot fail.
            let _ = write!(Escaped(&mut key), "{part}");
        }
        Self(key)
    }

    /// Returns the key with one more part, which is stored as it is.
    #[must_use]
    pub fn tail(self, tail: impl Display) -> Self {
        Self(format!("{self}/{tail}"))
    }

    /// Returns the key of one more `part` below a key that was made before.
    #[must_use]
    pub fn within(key: &str, part: &dyn Display) -> Self {
        let part = Self::of(&[part]);
        Self(format!("{key}/{part}"))
    }

    /// Returns the common prefix of the keys of all longer lists with these parts.
    #[must_use]
    pub fn prefix(self) -> String {
        self.0 + "/"
    }

    /// Returns the key that versions before 0.2 stored for `parts`, if it differs from today's. Several lists of parts may share it, so
    /// a document that is found under it must be compared with the request.
    #[must_use]
    pub fn unescaped(parts: &[&dyn Display]) -> Option<String> {
        let joined = parts.iter().map(ToString::to_string).collect::<Vec<_>>().join("/");
        (joined != Self::of(parts).0).then_some(joined)
    }
}

impl Display for CompositeKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Deref for CompositeKey {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl From<CompositeKey> for String {
    fn from(key: CompositeKey) -> Self {
        key.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn key(parts: &[String]) -> String {
        let parts: Vec<&dyn Display> = parts.iter().map(|part| part as &dyn Display).collect();
        CompositeKey::of(&parts).into()
    }

    /// Parts of separators, escapes and letters: short, so that many lists are similar.
    fn parts() -> impl Strategy<Value = Vec<String>> {
        proptest::collection::vec("[/%2F5a]{0,4}", 1..5)
    }

    fn of_one_length() -> impl Strategy<Value = (Vec<String>, Vec<String>)> {
        let parts = |count: usize| proptest::collection::vec("[/%2F5a]{0,4}", count);
        (1_usize..4).prop_flat_map(move |count| (parts(count), parts(count)))
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 4_000, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn two_different_lists_of_parts_never_share_a_key(a in parts(), b in parts()) {
            prop_assert_eq!(key(&a) == key(&b), a == b);
        }

        #[test]
        fn lists_that_shared_a_key_in_an_earlier_version_have_different_keys(
            whole in "[/a]{2,8}", at in 0_usize..8, or in 0_usize..8,
        ) {
            let cut = |at: usize| {
                let (front, back) = whole.split_at(at.min(whole.len()));
                vec![front.to_owned(), back.to_owned()]
            };
            prop_assert_eq!(key(&cut(at)) == key(&cut(or)), cut(at) == cut(or));
        }

        #[test]
        fn two_different_tails_or_parts_before_them_never_share_a_key(
            (a, b) in of_one_length(), tail in "[/%2F5a]{0,4}", other in "[/%2F5a]{0,4}",
        ) {
            let with = |parts: &[String], tail: &str| CompositeKey(key(parts)).tail(tail);
            prop_assert_eq!(with(&a, &tail) == with(&b, &other), (&a, &tail) == (&b, &other));
        }
    }

    #[test]
    fn plain_names_keep_the_keys_of_earlier_versions() {
        assert_eq!(
            &*CompositeKey::of(&[&"acme", &"research", &format_args!("{:04}", 7)]),
            "acme/research/0007"
        );
        assert_eq!(&*CompositeKey::of(&[&"acme"]).tail("gpu/H100"), "acme/gpu/H100");
        assert_eq!(CompositeKey::of(&[&"acme"]).prefix(), "acme/");
        assert_eq!(CompositeKey::unescaped(&[&"acme", &"research"]), None);
        assert_eq!(CompositeKey::unescaped(&[&"a/b", &"c"]).as_deref(), Some("a/b/c"));
    }
}
