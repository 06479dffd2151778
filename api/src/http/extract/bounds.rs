//! Limits on the number of values in a body, counted before the body is parsed.
//!
//! Invariant: every list of a request and the number of its values are limited, whatever the type, and no object has a field twice.

use serde::de::{Deserialize, DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use std::{cell::Cell, collections::BTreeSet, fmt};

/// The maximum number of items of a list.
pub(in crate::http) const MOST_ITEMS: usize = 10_000;
/// The maximum number of values of a body, including lists and objects.
pub(in crate::http) const MOST_VALUES: usize = 200_000;

/// A document within the limits. It keeps no content.
pub(super) struct Bounded;

impl<'de> Deserialize<'de> for Bounded {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let seen = Cell::new(0);
        Count { field: "", seen: &seen }.deserialize(from).map(|()| Self)
    }
}

/// Counts the values of a field.
#[derive(Clone, Copy)]
struct Count<'a> {
    field: &'a str,
    seen: &'a Cell<usize>,
}

impl Count<'_> {
    fn one<E: Error>(self) -> Result<(), E> {
        let seen = self.seen.get() + 1;
        self.seen.set(seen);
        if seen > MOST_VALUES {
            return Err(E::custom(format_args!("the body has more than {MOST_VALUES} values")));
        }
        Ok(())
    }
}

impl<'de> DeserializeSeed<'de> for Count<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Count<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<(), E> {
        self.one()
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<(), E> {
        self.one()
    }

    fn visit_i128<E: Error>(self, _: i128) -> Result<(), E> {
        self.one()
    }

    fn visit_u64<E: Error>(self, _: u64) -> Result<(), E> {
        self.one()
    }

    fn visit_u128<E: Error>(self, _: u128) -> Result<(), E> {
        self.one()
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<(), E> {
        self.one()
    }

    fn visit_str<E: Error>(self, _: &str) -> Result<(), E> {
        self.one()
    }

    fn visit_bytes<E: Error>(self, _: &[u8]) -> Result<(), E> {
        self.one()
    }

    fn visit_none<E: Error>(self) -> Result<(), E> {
        self.one()
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        self.one()
    }

    fn visit_some<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        self.deserialize(from)
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        self.deserialize(from)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        self.one()?;
        let mut count = 0;
        while items.next_element_seed(self)?.is_some() {
            count += 1;
            if count > MOST_ITEMS {
                let field: String = self.field.chars().take(64).collect();
                return Err(A::Error::custom(match field.as_str() {
                    "" => format!("the list has more than {MOST_ITEMS} items"),
                    field => format!("field `{field}` has more than {MOST_ITEMS} items"),
                }));
            }
        }
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<(), A::Error> {
        self.one()?;
        let mut names = BTreeSet::new();
        while let Some(name) = fields.next_key::<String>()? {
            fields.next_value_seed(Count { field: &name, seen: self.seen })?;
            if let Some(name) = names.replace(name) {
                let field: String = name.chars().take(64).collect();
                return Err(A::Error::custom(format!("field `{field}` occurs twice; remove one")));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str) -> String {
        serde_json::from_str::<Bounded>(text).map(|_| ()).unwrap_err().to_string()
    }

    #[test]
    fn a_duplicate_field_is_refused_at_any_depth() {
        assert!(refused(r#"{"gpu/H100": 1, "gpu/H100": 2}"#).starts_with("field `gpu/H100` occurs twice"));
        assert!(refused(r#"[{"a": {"b": 1, "c": 2, "b": 1}}]"#).starts_with("field `b` occurs twice"));
        assert!(serde_json::from_str::<Bounded>(r#"[{"a": 1}, {"a": 1}, {"b": {"a": 1}}]"#).is_ok());
    }

    #[test]
    fn an_error_about_a_long_list_names_the_field_and_the_limit() {
        let list = |count: usize| format!("[{}]", vec!["1"; count].join(","));
        assert!(refused(&list(MOST_ITEMS + 1)).starts_with("the list has more than 10000 items"));
        let inner = format!(r#"{{"a": {{"names": {}}}}}"#, list(MOST_ITEMS + 1));
        assert!(refused(&inner).starts_with("field `names` has more than 10000 items"));
        assert!(serde_json::from_str::<Bounded>(&list(MOST_ITEMS)).is_ok());
    }

    #[test]
    fn a_body_with_too_many_values_is_refused_whatever_its_structure() {
        let hundred = format!("[{}]", vec!["[]"; 100].join(","));
        let many = format!("[{}]", vec![hundred.as_str(); MOST_VALUES / 100].join(","));
        assert!(refused(&many).starts_with("the body has more than 200000 values"));
    }
}
