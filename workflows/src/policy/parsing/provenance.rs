//! The origin of each value of a policy: its own document, or the built-in one with its defaults.

use super::{
    document::{Item, Value},
    finding::Spot,
};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, fmt, sync::Arc};

/// The lines of one document by the path of each key, such as `approvals.onboarding.within` or `pins[0].label`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Lines {
    name: String,
    version: u32,
    lines: BTreeMap<String, Spot>,
}

/// The place of every value of a policy. Derived from the text, and not part of the policy's digest.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Provenance {
    own: Arc<Lines>,
    under: Option<Arc<Lines>>,
}

/// A place in a policy document.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    /// The document's name: `platform`.
    pub document: String,
    /// The version.
    pub version: u32,
    /// The line, from 1.
    pub line: u64,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{} line {}", self.document, self.version, self.line)
    }
}

impl Lines {
    fn from_document(name: &str, version: u32, root: &Item) -> Self {
        let mut lines = BTreeMap::new();
        gather(root, &mut lines);
        Self { name: name.into(), version, lines }
    }

    fn origin(&self, path: &str) -> Option<Origin> {
        let line = self.lines.get(path)?.line;
        Some(Origin { document: self.name.clone(), version: self.version, line })
    }
}

impl Provenance {
    /// Returns the places of the document `name`@`version`, and of the document with its defaults.
    pub(in crate::policy) fn from_document(
        name: &str,
        version: u32,
        root: &Item,
        under: Option<&Self>,
    ) -> Self {
        let own = Arc::new(Lines::from_document(name, version, root));
        Self { own, under: under.map(|under| under.own.clone()) }
    }

    /// Returns the place of the value at `path`, or of the nearest section around it; `None` if no document has it.
    #[must_use]
    pub fn origin(&self, path: &str) -> Option<Origin> {
        let mut path = path;
        loop {
            let found = self.own.origin(path);
            let found = found.or_else(|| self.under.as_ref().and_then(|under| under.origin(path)));
            if found.is_some() {
                return found;
            }
            path = path.get(..path.rfind(['.', '['])?)?;
        }
    }

    /// Returns the line of `path` in the document itself; `None` if it has the default.
    #[must_use]
    pub fn line(&self, path: &str) -> Option<u64> {
        self.own.lines.get(path).map(|spot| spot.line)
    }

    /// Returns the position of `path` in the document itself, or of the nearest section around it.
    pub(in crate::policy) fn spot(&self, path: &str) -> Option<Spot> {
        let mut path = path;
        loop {
            if let Some(spot) = self.own.lines.get(path) {
                return Some(*spot);
            }
            path = path.get(..path.rfind(['.', '['])?)?;
        }
    }
}

fn gather(item: &Item, lines: &mut BTreeMap<String, Spot>) {
    match &item.value {
        Value::Map(fields) => {
            for (_, at, inner) in fields {
                lines.extend(at.map(|spot| (inner.path.clone(), spot)));
                gather(inner, lines);
            }
        }
        Value::List(items) => {
            for inner in items {
                lines.extend(inner.at.map(|spot| (inner.path.clone(), spot)));
                gather(inner, lines);
            }
        }
        Value::Null | Value::Bool(_) | Value::Whole(_) | Value::Fraction(_) | Value::Text(_) => {}
    }
}
