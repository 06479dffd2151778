//! Queries over executions.
//!
//! A query names a record's columns and attributes. The engine defines their meaning; `docs/search.md` describes its
//! filter language. [`Query::accepts`] is the meaning; an index only speeds it up.

use crate::{ExecutionId, Record, Timestamp};

/// The columns a query can name; no attribute has such a name.
pub const COLUMNS: &[&str] =
    &["tenant", "workflow", "state", "phase", "reason", "subject", "requested_by", "open"];

/// A condition on a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Query {
    /// Every record.
    All,
    /// All of these hold; of none, every record.
    And(Vec<Query>),
    /// One of these holds; of none, no record.
    Or(Vec<Query>),
    /// This does not hold.
    Not(Box<Query>),
    /// The field has this value; `open` has `true` or `false`.
    Is {
        /// A column or an attribute.
        field: String,
        /// The exact value.
        value: String,
    },
    /// A value of the field begins with this.
    StartsWith {
        /// A column or an attribute.
        field: String,
        /// The exact prefix.
        with: String,
    },
    /// The field has a value that is not empty.
    Has {
        /// A column or an attribute.
        field: String,
    },
    /// The execution was requested at `from` or later and before `until`, by the time in its id.
    CreatedBetween {
        /// The first moment.
        from: Timestamp,
        /// The end, exclusive.
        until: Timestamp,
    },
    /// It was last committed at `from` or later and before `until`.
    UpdatedBetween {
        /// The first moment.
        from: Timestamp,
        /// The end, exclusive.
        until: Timestamp,
    },
}

impl Query {
    /// Returns the condition that `field` has `value`.
    pub fn is(field: impl Into<String>, value: impl Into<String>) -> Self {
        Self::Is { field: field.into(), value: value.into() }
    }

    /// Returns the condition that this and `other` are true.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::All, one) | (one, Self::All) => one,
            (Self::And(mut all), one) => {
                all.push(one);
                Self::And(all)
            }
            (one, other) => Self::And(vec![one, other]),
        }
    }

    /// Returns true if `record` matches.
    #[must_use]
    pub fn accepts(&self, record: &Record) -> bool {
        match self {
            Self::All => true,
            Self::And(all) => all.iter().all(|query| query.accepts(record)),
            Self::Or(any) => any.iter().any(|query| query.accepts(record)),
            Self::Not(query) => !query.accepts(record),
            Self::Is { field, value } => values(record, field).any(|has| has == value),
            Self::StartsWith { field, with } => values(record, field).any(|has| has.starts_with(with)),
            Self::Has { field } => values(record, field).any(|has| !has.is_empty()),
            Self::CreatedBetween { from, until } => (*from..*until).contains(&record.id.created_at()),
            Self::UpdatedBetween { from, until } => (*from..*until).contains(&record.updated_at),
        }
    }
}

/// The values that `record` has of `field`.
fn values<'a>(record: &'a Record, field: &str) -> Box<dyn Iterator<Item = &'a str> + 'a> {
    let column = match field {
        "tenant" => &record.tenant,
        "workflow" => &record.workflow,
        "state" => &record.state,
        "phase" => &record.phase,
        "subject" => &record.subject,
        "requested_by" => &record.requested_by,
        "open" => return Box::new(std::iter::once(if record.open { "true" } else { "false" })),
        "reason" => return Box::new(record.reason.as_deref().into_iter()),
        attribute => {
            return Box::new(record.attributes.get(attribute).into_iter().flatten().map(String::as_str));
        }
    };
    Box::new(std::iter::once(column.as_str()))
}

/// A page of search results.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The records, by id (oldest first).
    pub items: Vec<Record>,
    /// The `after` of the next call; `None` at the end.
    pub next: Option<ExecutionId>,
    /// True if the page ended at the limit of examined records; there may be more after `next`.
    pub partial: bool,
}
