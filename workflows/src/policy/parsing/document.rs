//! A parsed YAML or JSON document: every value with its position.
//!
//! Decoding collects all findings instead of stopping at the first, so that an author can fix a document in one round.

use super::finding::{Finding, Spot};
use crate::yaml;
use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_saphyr::Spanned;
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

/// The longest stored path of a value, in bytes. Prevents a long name from being copied into every value below it.
const LONGEST_PATH: usize = 256;
/// The replacement for the rest of a path.
const REST: &str = "…";

/// A value with its position.
#[derive(Clone, Debug, PartialEq)]
pub struct Item {
    /// The position, if the document has lines.
    pub at: Option<Spot>,
    /// The path: `workspaces[0].name`.
    pub path: String,
    /// The value.
    pub value: Value,
}

/// A value of a document.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Nothing.
    Null,
    /// True or false.
    Bool(bool),
    /// A whole number.
    Whole(i128),
    /// Any other number.
    Fraction(f64),
    /// Text.
    Text(String),
    /// Items in order.
    List(Vec<Item>),
    /// Fields in order, each name with its own position.
    Map(Vec<(String, Option<Spot>, Item)>),
}

impl Value {
    /// Returns the kind of the value, for messages.
    pub fn kind(&self) -> String {
        match self {
            Self::Null => "nothing".into(),
            Self::Bool(value) => format!("the truth value {value}"),
            Self::Whole(value) => format!("the number {value}"),
            Self::Fraction(value) => format!("the number {value}"),
            Self::Text(value) => format!("the text {:?}", value.chars().take(64).collect::<String>()),
            Self::List(_) => "a list".into(),
            Self::Map(_) => "a mapping".into(),
        }
    }
}

impl Item {
    /// Returns the line of each field of the top level, if the document has lines.
    pub(crate) fn lines(&self) -> BTreeMap<String, u64> {
        let Value::Map(fields) = &self.value else { return BTreeMap::new() };
        fields.iter().filter_map(|(name, at, _)| Some((name.clone(), (*at)?.line))).collect()
    }

    /// Returns the value as JSON, without positions.
    pub(crate) fn to_json(&self) -> serde_json::Value {
        use serde_json::Value as Json;
        match &self.value {
            Value::Null => Json::Null,
            Value::Bool(value) => Json::Bool(*value),
            Value::Whole(value) => serde_json::Number::from_i128(*value).map_or(Json::Null, Json::Number),
            Value::Fraction(value) => serde_json::Number::from_f64(*value).map_or(Json::Null, Json::Number),
            Value::Text(text) => Json::String(text.clone()),
            Value::List(items) => Json::Array(items.iter().map(Self::to_json).collect()),
            Value::Map(fields) => {
                Json::Object(fields.iter().map(|(name, _, item)| (name.clone(), item.to_json())).collect())
            }
        }
    }
}

/// Parses a YAML document.
pub fn from_yaml(text: &str) -> Result<Item, Finding> {
    match yaml::read_plain::<Spanned<Tree>>(text) {
        Ok(root) => Ok(placed(root, String::new())),
        Err(error) => {
            let at = error.at.map(|(line, column)| Spot { line, column });
            let remedy = error.remedy.unwrap_or("write it as YAML, each field once");
            Err(Finding::new(at, "", reworded(&error.why), remedy.into()))
        }
    }
}

/// Converts a JSON document. Findings in it have a path instead of a line.
pub(crate) fn from_json(value: &serde_json::Value, path: String) -> Item {
    use serde_json::Value as Json;
    let value = match value {
        Json::Null => Value::Null,
        Json::Bool(value) => Value::Bool(*value),
        Json::Number(number) => match (number.as_i128(), number.as_f64()) {
            (Some(whole), _) => Value::Whole(whole),
            (None, fraction) => Value::Fraction(fraction.unwrap_or(f64::NAN)),
        },
        Json::String(text) => Value::Text(text.clone()),
        Json::Array(items) => {
            let items = items.iter().enumerate();
            Value::List(items.map(|(i, item)| from_json(item, grown(&path, &format!("[{i}]")))).collect())
        }
        Json::Object(fields) => Value::Map(
            fields
                .iter()
                .collect::<BTreeMap<_, _>>()
                .into_iter()
                .map(|(name, item)| (name.clone(), None, from_json(item, joined(&path, name))))
                .collect(),
        ),
    };
    Item { at: None, path, value }
}

/// Returns `path.name`, or `name` at the top.
pub(crate) fn joined(path: &str, name: &str) -> String {
    if path.is_empty() { grown(path, name) } else { grown(path, &format!(".{name}")) }
}

/// Returns the path with one more part, unless it is too long already.
fn grown(path: &str, part: &str) -> String {
    if path.ends_with(REST) {
        return path.to_owned();
    }
    if path.len() + part.len() > LONGEST_PATH {
        let end = part.floor_char_boundary(LONGEST_PATH.saturating_sub(path.len()));
        return format!("{path}{}{REST}", part.get(..end).unwrap_or_default());
    }
    format!("{path}{part}")
}

/// Returns the parser's message without the position, because the finding has it.
fn reworded(message: &str) -> String {
    let end = message.find(" at line ").unwrap_or(message.len());
    message.get(..end).unwrap_or(message).trim_end_matches(['.', ':', ' ']).to_owned()
}

fn spot<T>(spanned: &Spanned<T>) -> Option<Spot> {
    let place = spanned.referenced;
    (place.line() > 0).then(|| Spot { line: place.line(), column: place.column() })
}

fn placed(tree: Spanned<Tree>, path: String) -> Item {
    let at = spot(&tree);
    let value = match tree.value {
        Tree::Null => Value::Null,
        Tree::Bool(value) => Value::Bool(value),
        Tree::Whole(value) => Value::Whole(value),
        Tree::Fraction(value) => Value::Fraction(value),
        Tree::Text(value) => Value::Text(value),
        Tree::List(items) => {
            let items = items.into_iter().enumerate();
            Value::List(items.map(|(i, item)| placed(item, grown(&path, &format!("[{i}]")))).collect())
        }
        Tree::Map(fields) => Value::Map(
            fields
                .into_iter()
                .map(|(name, item)| {
                    let inner = joined(&path, &name.value);
                    (name.value.clone(), spot(&name), placed(item, inner))
                })
                .collect(),
        ),
    };
    Item { at, path, value }
}

/// A YAML value before its paths are known.
enum Tree {
    Null,
    Bool(bool),
    Whole(i128),
    Fraction(f64),
    Text(String),
    List(Vec<Spanned<Tree>>),
    Map(Vec<(Spanned<String>, Spanned<Tree>)>),
}

impl<'de> Deserialize<'de> for Tree {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(TreeBuilder)
    }
}

struct TreeBuilder;

impl<'de> Visitor<'de> for TreeBuilder {
    type Value = Tree;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Tree, E> {
        Ok(Tree::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Tree, E> {
        Ok(Tree::Whole(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Tree, E> {
        Ok(Tree::Whole(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Tree, E> {
        Ok(Tree::Fraction(value))
    }

    fn visit_str<E>(self, value: &str) -> Result<Tree, E> {
        Ok(Tree::Text(value.to_owned()))
    }

    fn visit_unit<E>(self) -> Result<Tree, E> {
        Ok(Tree::Null)
    }

    fn visit_none<E>(self) -> Result<Tree, E> {
        Ok(Tree::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, from: D) -> Result<Tree, D::Error> {
        Tree::deserialize(from)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Tree, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = seq.next_element()? {
            items.push(item);
        }
        Ok(Tree::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Tree, A::Error> {
        let mut fields: Vec<(Spanned<String>, Spanned<Tree>)> = Vec::new();
        let mut names = BTreeSet::new();
        while let Some((name, item)) = map.next_entry::<Spanned<String>, Spanned<Tree>>()? {
            if !names.insert(name.value.clone()) {
                return Err(A::Error::custom(format!("field `{}` occurs twice", name.value)));
            }
            fields.push((name, item));
        }
        Ok(Tree::Map(fields))
    }
}
