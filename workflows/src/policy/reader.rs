//! Takes values out of a document, noting everything that is wrong on the way.

use super::{
    document::{Item, Value, joined},
    duration,
    finding::{Finding, Invalid},
};
use crate::tenancy::{Name, Naming};
use std::{cell::RefCell, ops::RangeInclusive, str::FromStr, time::Duration};
use strum::VariantArray;

/// Notes what is wrong.
#[derive(Debug, Default)]
pub(crate) struct Reader {
    findings: RefCell<Vec<Finding>>,
}

/// The fields of one group.
pub(crate) struct Fields<'a> {
    reader: &'a Reader,
    item: &'a Item,
    fields: &'a [(String, Option<super::finding::Spot>, Item)],
}

impl Reader {
    /// What was read, or all that was wrong, by place.
    pub(crate) fn done<T>(self, read: Option<T>) -> Result<T, Invalid> {
        let mut findings = self.findings.into_inner();
        findings.sort_by(|a, b| (a.at, &a.field).cmp(&(b.at, &b.field)));
        match read {
            Some(read) if findings.is_empty() => Ok(read),
            _ => Err(Invalid { findings }),
        }
    }

    pub(crate) fn note(&self, item: &Item, problem: String, remedy: impl Into<String>) {
        self.findings.borrow_mut().push(Finding::new(item.at, &item.path, problem, remedy.into()));
    }

    /// The fields of `item`; notes those not `known`.
    pub(crate) fn fields<'a>(&'a self, item: &'a Item, known: &[&str]) -> Option<Fields<'a>> {
        let Value::Map(fields) = &item.value else {
            self.note(
                item,
                format!("{} stands where fields are expected", item.value.kind()),
                fields_remedy(known),
            );
            return None;
        };
        for (name, at, inner) in fields {
            if !known.contains(&name.as_str()) {
                let problem = format!("there is no field `{name}` here");
                let finding = Finding::new(*at, &inner.path, problem, fields_remedy(known));
                self.findings.borrow_mut().push(finding);
            }
        }
        Some(Fields { reader: self, item, fields })
    }

    /// Fields whose names are free, such as GPU models.
    pub(crate) fn entries<'a>(&self, item: &'a Item) -> &'a [(String, Option<super::finding::Spot>, Item)] {
        if let Value::Map(fields) = &item.value {
            return fields;
        }
        self.note(
            item,
            format!("{} stands where fields are expected", item.value.kind()),
            "write `name: value` lines",
        );
        &[]
    }

    pub(crate) fn list<'a>(&self, item: &'a Item) -> &'a [Item] {
        if let Value::List(items) = &item.value {
            return items;
        }
        self.note(
            item,
            format!("{} stands where a list is expected", item.value.kind()),
            "write `[a, b]`, or `[]`",
        );
        &[]
    }

    pub(crate) fn text<'a>(&self, item: &'a Item) -> Option<&'a str> {
        if let Value::Text(text) = &item.value {
            return Some(text);
        }
        self.note(
            item,
            format!("{} stands where text is expected", item.value.kind()),
            "put it in quotes if it is meant as text",
        );
        None
    }

    pub(crate) fn bool(&self, item: &Item) -> Option<bool> {
        if let Value::Bool(value) = item.value {
            return Some(value);
        }
        self.note(
            item,
            format!("{} is neither true nor false", item.value.kind()),
            "write `true` or `false`",
        );
        None
    }

    pub(crate) fn whole<T: TryFrom<i128> + Into<i128> + Copy>(
        &self,
        item: &Item,
        range: RangeInclusive<T>,
    ) -> Option<T> {
        let (low, high): (i128, i128) = ((*range.start()).into(), (*range.end()).into());
        match item.value {
            Value::Whole(value) if (low..=high).contains(&value) => T::try_from(value).ok(),
            _ => {
                let remedy = format!("write a whole number from {low} to {high}");
                self.note(item, format!("{} is not a number that fits here", item.value.kind()), remedy);
                None
            }
        }
    }

    pub(crate) fn one_of<T>(&self, item: &Item) -> Option<T>
    where
        T: FromStr + VariantArray + Copy,
        &'static str: From<T>,
    {
        let text = if let Value::Text(text) = &item.value { text.as_str() } else { "" };
        if let Ok(value) = T::from_str(text) {
            return Some(value);
        }
        let all: Vec<&'static str> = T::VARIANTS.iter().map(|variant| (*variant).into()).collect();
        self.note(
            item,
            format!("{} is not a value of this field", item.value.kind()),
            format!("use one of {}", all.join(", ")),
        );
        None
    }

    pub(crate) fn name<K: Naming>(&self, item: &Item) -> Option<Name<K>> {
        let text = self.text(item)?;
        match text.parse() {
            Ok(name) => Some(name),
            Err(_) => {
                self.note(item, format!("{text:?} cannot name a {}", K::WORD), Name::<K>::rule());
                None
            }
        }
    }

    pub(crate) fn duration(&self, item: &Item) -> Option<Duration> {
        let text = if let Value::Text(text) = &item.value { text.as_str() } else { "" };
        let span = duration::parse(text);
        if span.is_none() {
            let remedy = "write a number and a unit: `30s`, `15m`, `12h` or `5d`";
            self.note(item, format!("{} is not a span of time", item.value.kind()), remedy);
        }
        span
    }
}

impl<'a> Fields<'a> {
    /// The field, unless it is absent or empty.
    pub(crate) fn may(&self, name: &str) -> Option<&'a Item> {
        let (_, _, item) = self.fields.iter().find(|(known, _, _)| known == name)?;
        (item.value != Value::Null).then_some(item)
    }

    /// The field; notes its absence at the group it belongs to.
    pub(crate) fn must(&self, name: &str) -> Option<&'a Item> {
        let found = self.may(name);
        if found.is_none() {
            let (path, at) = (joined(&self.item.path, name), self.item.at);
            let finding = Finding::new(at, &path, "the field is missing".into(), format!("add `{name}: …`"));
            self.reader.findings.borrow_mut().push(finding);
        }
        found
    }
}

fn fields_remedy(known: &[&str]) -> String {
    format!("the fields are {}", known.join(", "))
}
