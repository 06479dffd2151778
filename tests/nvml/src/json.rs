//! The part of JSON that the state needs, without a dependency.

use std::collections::BTreeMap;

/// A JSON value. Numbers are integers: the state has no fractions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Json {
    Null,
    Bool(bool),
    Number(i128),
    Text(String),
    List(Vec<Json>),
    Map(BTreeMap<String, Json>),
}

impl Json {
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut reader = Reader { rest: text };
        let value = reader.value()?;
        reader.rest.trim().is_empty().then_some(value)
    }

    pub(crate) fn map<const N: usize>(entries: [(&str, Self); N]) -> Self {
        Self::Map(entries.into_iter().map(|(key, value)| (key.to_owned(), value)).collect())
    }

    pub(crate) fn get(&self, key: &str) -> Option<&Self> {
        match self {
            Self::Map(entries) => entries.get(key),
            Self::Null | Self::Bool(_) | Self::Number(_) | Self::Text(_) | Self::List(_) => None,
        }
    }

    pub(crate) fn number(&self, key: &str) -> Option<u64> {
        match self.get(key)? {
            Self::Number(number) => u64::try_from(*number).ok(),
            Self::Bool(_) | Self::Null | Self::Text(_) | Self::List(_) | Self::Map(_) => None,
        }
    }

    pub(crate) fn small(&self, key: &str) -> Option<u32> {
        self.number(key).and_then(|number| u32::try_from(number).ok())
    }

    pub(crate) fn yes(&self, key: &str) -> bool {
        self.get(key) == Some(&Self::Bool(true))
    }

    pub(crate) fn text(&self, key: &str) -> Option<String> {
        match self.get(key)? {
            Self::Text(text) => Some(text.clone()),
            Self::Bool(_) | Self::Null | Self::Number(_) | Self::List(_) | Self::Map(_) => None,
        }
    }

    pub(crate) fn list(&self, key: &str) -> &[Self] {
        if let Some(Self::List(items)) = self.get(key) { items } else { &[] }
    }

    pub(crate) fn print(&self) -> String {
        match self {
            Self::Null => "null".to_owned(),
            Self::Bool(value) => value.to_string(),
            Self::Number(number) => number.to_string(),
            Self::Text(text) => quoted(text),
            Self::List(items) => {
                format!("[{}]", items.iter().map(Self::print).collect::<Vec<_>>().join(", "))
            }
            Self::Map(entries) => {
                let entries =
                    entries.iter().map(|(key, value)| format!("{}: {}", quoted(key), value.print()));
                format!("{{{}}}", entries.collect::<Vec<_>>().join(", "))
            }
        }
    }
}

fn quoted(text: &str) -> String {
    let escaped = text.chars().map(|letter| match letter {
        '"' => "\\\"".to_owned(),
        '\\' => "\\\\".to_owned(),
        control if control < ' ' => format!("\\u{:04x}", u32::from(control)),
        other => other.to_string(),
    });
    format!("\"{}\"", escaped.collect::<String>())
}

struct Reader<'a> {
    rest: &'a str,
}

impl Reader<'_> {
    fn skip(&mut self, token: &str) -> Option<()> {
        self.rest = self.rest.trim_start().strip_prefix(token)?;
        Some(())
    }

    fn value(&mut self) -> Option<Json> {
        self.rest = self.rest.trim_start();
        match self.rest.chars().next()? {
            '{' => self.entries(),
            '[' => self.items(),
            '"' => self.string().map(Json::Text),
            't' => self.skip("true").map(|()| Json::Bool(true)),
            'f' => self.skip("false").map(|()| Json::Bool(false)),
            'n' => self.skip("null").map(|()| Json::Null),
            _ => self.integer(),
        }
    }

    fn entries(&mut self) -> Option<Json> {
        self.skip("{")?;
        let mut entries = BTreeMap::new();
        if self.skip("}").is_some() {
            return Some(Json::Map(entries));
        }
        loop {
            self.rest = self.rest.trim_start();
            let key = self.string()?;
            self.skip(":")?;
            entries.insert(key, self.value()?);
            if self.skip(",").is_none() {
                self.skip("}")?;
                return Some(Json::Map(entries));
            }
        }
    }

    fn items(&mut self) -> Option<Json> {
        self.skip("[")?;
        let mut items = Vec::new();
        if self.skip("]").is_some() {
            return Some(Json::List(items));
        }
        loop {
            items.push(self.value()?);
            if self.skip(",").is_none() {
                self.skip("]")?;
                return Some(Json::List(items));
            }
        }
    }

    fn string(&mut self) -> Option<String> {
        let mut letters = self.rest.strip_prefix('"')?.chars();
        let mut text = String::new();
        loop {
            match letters.next()? {
                '"' => break,
                '\\' => match letters.next()? {
                    'n' => text.push('\n'),
                    't' => text.push('\t'),
                    'u' => {
                        let digits: String = letters.by_ref().take(4).collect();
                        text.push(char::from_u32(u32::from_str_radix(&digits, 16).ok()?)?);
                    }
                    other => text.push(other),
                },
                other => text.push(other),
            }
        }
        self.rest = letters.as_str();
        Some(text)
    }

    fn integer(&mut self) -> Option<Json> {
        let end = self.rest.find(|letter: char| letter != '-' && !letter.is_ascii_digit());
        let (digits, rest) = self.rest.split_at(end.unwrap_or(self.rest.len()));
        self.rest = rest;
        digits.parse().ok().map(Json::Number)
    }
}
