//! Reads values from a document and records every problem.

use crate::{
    policy::{
        Ratio, duration,
        parsing::{
            document::{Item, Value, joined},
            finding::{Finding, Invalid, Spot},
        },
    },
    tenancy::{Cents, Gpus, Name, NameKind},
};
use std::{
    cell::{Cell, RefCell},
    collections::{BTreeMap, BTreeSet},
    ops::RangeInclusive,
    str::FromStr,
    time::Duration,
};
use strum::VariantArray;

/// The default limit of items in a list.
const MOST_ITEMS: usize = 1_000;
/// The limit of fields in a section with free names.
const MOST_NAMED: usize = 10_000;

/// Records problems.
#[derive(Debug, Default)]
pub struct Reader {
    findings: RefCell<Vec<Finding>>,
    /// The number of problems above the limit.
    untold: Cell<usize>,
}

/// Fields in order, each name with its own position.
type Entries = [(String, Option<Spot>, Item)];

/// The fields of one section, and those of the document with its defaults.
#[derive(Clone, Copy)]
pub struct Fields<'a> {
    reader: &'a Reader,
    item: &'a Item,
    fields: &'a Entries,
    under: &'a Entries,
}

impl Reader {
    /// Returns the read value, or all problems by position.
    pub fn finish<T>(self, read: Option<T>) -> Result<T, Invalid> {
        let (mut findings, untold) = (self.findings.into_inner(), self.untold.get());
        findings.sort_by(|a, b| (a.at, &a.field).cmp(&(b.at, &b.field)));
        match read {
            Some(read) if findings.is_empty() => Ok(read),
            _ => Err(Invalid::of(findings, untold)),
        }
    }

    fn push(&self, finding: Finding) {
        let mut findings = self.findings.borrow_mut();
        if findings.len() < Invalid::MOST {
            findings.push(finding);
        } else {
            self.untold.set(self.untold.get() + 1);
        }
    }

    /// Records a problem of an item and its remedy.
    pub fn note(&self, item: &Item, problem: String, remedy: impl Into<String>) {
        self.push(Finding::new(item.at, &item.path, problem, remedy.into()));
    }

    /// Records findings from elsewhere.
    pub(in crate::policy) fn note_all(&self, findings: Vec<Finding>) {
        findings.into_iter().for_each(|finding| self.push(finding));
    }

    /// Returns the fields of `item`; records those not in `known`.
    pub fn fields<'a>(&'a self, item: &'a Item, known: &[&str]) -> Option<Fields<'a>> {
        let Value::Map(fields) = &item.value else {
            self.note(
                item,
                format!("expected fields, but found {}", item.value.kind()),
                fields_remedy(known),
            );
            return None;
        };
        for (name, at, inner) in fields {
            if !known.contains(&name.as_str()) {
                let problem = format!("field `{name}` is unknown here");
                let finding = Finding::new(*at, &inner.path, problem, fields_remedy(known));
                self.push(finding);
            }
        }
        Some(Fields { reader: self, item, fields, under: &[] })
    }

    /// Returns the field of `root` itself, without defaults; records its absence.
    pub(crate) fn own_field<'a>(&self, root: &'a Item, name: &str) -> Option<&'a Item> {
        let Value::Map(fields) = &root.value else { return None };
        let found = found(fields, name);
        if found.is_none() {
            self.missing(root, name);
        }
        found
    }

    fn missing(&self, group: &Item, name: &str) {
        let path = joined(&group.path, name);
        let remedy = format!("add `{name}: …`");
        let finding = Finding::new(group.at, &path, "the field is missing".into(), remedy);
        self.push(finding);
    }

    /// Returns fields with free names, such as GPU models.
    pub fn entries<'a>(&self, item: &'a Item) -> &'a Entries {
        if let Value::Map(fields) = &item.value {
            return if self.has_at_most(item, fields.len(), MOST_NAMED) { fields } else { &[] };
        }
        self.note(
            item,
            format!("expected fields, but found {}", item.value.kind()),
            "write `name: value` lines",
        );
        &[]
    }

    /// Returns the items of a list, at most 1000; empty, with a finding, if it is not a list or has more.
    pub fn list<'a>(&self, item: &'a Item) -> &'a [Item] {
        self.list_of(item, MOST_ITEMS)
    }

    /// Returns true if there are at most `most` items; records the item otherwise.
    fn has_at_most(&self, item: &Item, count: usize, most: usize) -> bool {
        if count > most {
            self.note(item, format!("the list has {count} items"), format!("use at most {most}"));
        }
        count <= most
    }

    /// Returns the items of a list, at most `most`; empty, with a finding, if it is not a list or has more.
    pub fn list_of<'a>(&self, item: &'a Item, most: usize) -> &'a [Item] {
        if let Value::List(items) = &item.value {
            return if self.has_at_most(item, items.len(), most) { items } else { &[] };
        }
        self.note(
            item,
            format!("expected a list, but found {}", item.value.kind()),
            "write `[a, b]`, or `[]`",
        );
        &[]
    }

    /// Returns the text of an item that is text.
    pub fn text<'a>(&self, item: &'a Item) -> Option<&'a str> {
        if let Value::Text(text) = &item.value {
            return Some(text);
        }
        self.note(
            item,
            format!("expected text, but found {}", item.value.kind()),
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

    /// Returns a whole number within a range.
    pub fn whole<T: TryFrom<i128> + Into<i128> + Copy>(
        &self,
        item: &Item,
        range: RangeInclusive<T>,
    ) -> Option<T> {
        let (low, high): (i128, i128) = ((*range.start()).into(), (*range.end()).into());
        match item.value {
            Value::Whole(value) if (low..=high).contains(&value) => T::try_from(value).ok(),
            _ => {
                let remedy = match item.value {
                    // For example `012` and `1e1`, which the parser reads as other numbers than the author means.
                    Value::Fraction(value) if value.fract().abs() < f64::EPSILON => {
                        format!(
                            "write plain digits, without leading zeros or an exponent: a whole number from {low} to {high}"
                        )
                    }
                    _ => format!("write a whole number from {low} to {high}"),
                };
                self.note(item, format!("{} is not a valid number here", item.value.kind()), remedy);
                None
            }
        }
    }

    pub(crate) fn gpus(&self, item: &Item) -> Option<Gpus> {
        self.whole(item, 0..=100_000_u32).map(Gpus)
    }

    pub(crate) fn cents(&self, item: &Item) -> Option<Cents> {
        self.whole(item, 0..=1_u64 << 50).map(Cents)
    }

    /// Reads a share of a whole, from 0 to 1.
    pub(crate) fn share(&self, item: &Item) -> Option<Ratio> {
        self.ratio(item, 1)
    }

    /// Reads a number from 0 to `most`, with up to three decimals.
    pub(crate) fn ratio(&self, item: &Item, most: u32) -> Option<Ratio> {
        let thousandths = match item.value {
            Value::Whole(value) => u32::try_from(value).ok().and_then(|value| value.checked_mul(1_000)),
            Value::Fraction(value) => Ratio::exactly(value).map(|ratio| ratio.thousandths),
            Value::Null | Value::Bool(_) | Value::Text(_) | Value::List(_) | Value::Map(_) => None,
        };
        let read = thousandths.filter(|read| *read <= most.saturating_mul(1_000));
        if read.is_none() {
            let remedy = format!("write a number from 0 to {most}, with up to three decimals");
            self.note(item, format!("{} is not a valid number here", item.value.kind()), remedy);
        }
        read.map(Ratio::thousandths)
    }

    /// Reads a duration of whole days.
    pub(crate) fn days(&self, item: &Item) -> Option<Duration> {
        let span = self.duration(item)?;
        if span.as_secs().is_multiple_of(86_400) {
            return Some(span);
        }
        self.note(
            item,
            format!("{} is not a number of whole days", duration::show(span)),
            "write it as `30d`",
        );
        None
    }

    pub(crate) fn texts(&self, item: &Item) -> Option<Vec<String>> {
        let read: Vec<_> = self.list(item).iter().map(|item| self.text(item).map(str::to_owned)).collect();
        read.into_iter().collect()
    }

    pub(crate) fn set<T>(&self, item: &Item) -> Option<BTreeSet<T>>
    where
        T: FromStr + VariantArray + Copy + Ord,
        &'static str: From<T>,
    {
        let read: Vec<_> = self.list(item).iter().map(|item| self.one_of(item)).collect();
        read.into_iter().collect()
    }

    /// Returns the fields of `item` whose names are variants of `K`; records the others.
    pub(crate) fn keyed<'a, K>(&self, item: &'a Item) -> Vec<(K, &'a Item)>
    where
        K: FromStr + VariantArray + Copy,
        &'static str: From<K>,
    {
        let mut all = Vec::new();
        for (name, at, inner) in self.entries(item) {
            if let Ok(key) = K::from_str(name) {
                all.push((key, inner));
                continue;
            }
            let known: Vec<&'static str> = K::VARIANTS.iter().map(|variant| (*variant).into()).collect();
            let problem = format!("field `{name}` is unknown here");
            let finding = Finding::new(*at, &inner.path, problem, fields_remedy(&known));
            self.push(finding);
        }
        all
    }

    /// Returns the fields of `item` with free names, such as GPU models.
    pub(crate) fn by_name<K: NameKind, T>(
        &self,
        item: &Item,
        read: impl Fn(&Item) -> Option<T>,
    ) -> BTreeMap<Name<K>, T> {
        let mut all = BTreeMap::new();
        for (name, _, inner) in self.entries(item) {
            match name.parse() {
                Ok(key) => all.extend(read(inner).map(|value| (key, value))),
                Err(error) => self.note(inner, format!("{error}"), "correct the name"),
            }
        }
        all
    }

    /// Reads the variant that a text names.
    pub fn one_of<T>(&self, item: &Item) -> Option<T>
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

    /// Reads a name.
    pub fn name<K: NameKind>(&self, item: &Item) -> Option<Name<K>> {
        let text = self.text(item)?;
        match text.parse() {
            Ok(name) => Some(name),
            Err(_) => {
                self.note(item, format!("{text:?} is not a valid name of a {}", K::WORD), Name::<K>::rule());
                None
            }
        }
    }

    /// Reads a duration, such as `1h30m`.
    pub fn duration(&self, item: &Item) -> Option<Duration> {
        let text = if let Value::Text(text) = &item.value { text.as_str() } else { "" };
        let span = duration::parse(text);
        if span.is_none() {
            let remedy = "write a number and a unit: `30s`, `15m`, `12h` or `5d`";
            self.note(item, format!("{} is not a duration", item.value.kind()), remedy);
        }
        span
    }
}

impl<'a> Fields<'a> {
    /// Returns these fields, with those of `under` for the missing ones.
    pub(crate) fn with_defaults(self, under: &'a Item) -> Self {
        let Value::Map(under) = &under.value else { return self };
        Self { under, ..self }
    }

    pub(crate) fn reader(&self) -> &'a Reader {
        self.reader
    }

    /// Returns the field, from this document or its defaults, unless it is absent or empty.
    pub fn optional(&self, name: &str) -> Option<&'a Item> {
        found(self.fields, name).or_else(|| found(self.under, name))
    }

    /// Applies `read` to the field: it may be absent, but must be valid if present.
    pub(crate) fn optionally<T>(
        &self,
        name: &str,
        read: impl FnOnce(&'a Item) -> Option<T>,
    ) -> Option<Option<T>> {
        self.optional(name).map_or(Some(None), |item| read(item).map(Some))
    }

    /// Returns the section `name` with its defaults. Records unknown fields, or a missing section.
    pub(crate) fn layer(&self, name: &str, known: &[&str]) -> Option<Fields<'a>> {
        match (found(self.fields, name), found(self.under, name)) {
            (Some(own), Some(under)) => Some(self.reader.fields(own, known)?.with_defaults(under)),
            (Some(only), None) | (None, Some(only)) => self.reader.fields(only, known),
            (None, None) => self.reader.fields(self.required(name)?, known),
        }
    }

    /// Returns the field; records its absence at the section that it belongs to.
    pub fn required(&self, name: &str) -> Option<&'a Item> {
        let found = self.optional(name);
        if found.is_none() {
            self.reader.missing(self.item, name);
        }
        found
    }
}

fn found<'a>(fields: &'a Entries, name: &str) -> Option<&'a Item> {
    let (_, _, item) = fields.iter().find(|(known, _, _)| known == name)?;
    (item.value != Value::Null).then_some(item)
}

fn fields_remedy(known: &[&str]) -> String {
    format!("the fields are {}", known.join(", "))
}
