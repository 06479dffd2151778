//! Parses tokens to a query.

use super::{
    attributes::{LEFTOVERS, STANDING},
    field::{FieldType, reasons},
    lex::{Token, Word},
};
use crate::{CONDITIONS_LIMIT, Field, FilterError, nearest};
use chrono::{DateTime, NaiveDate};
use std::{iter::Peekable, time::Duration, vec};
use store::{Query, Timestamp};
use strum::VariantArray as _;

/// The most nested brackets and negations.
const DEPTH: usize = 16;
/// Words that are a complete condition.
const SHORT: [&str; 4] = ["has", "open", "finished", "stuck"];
const NOT_SIGNED: &str = "= or != or ~ or in (…)";

pub(super) struct Parser {
    words: Peekable<vec::IntoIter<Word>>,
    end: usize,
    now: Timestamp,
    conditions: usize,
    depth: usize,
    /// The workflows that can run, if known.
    workflows: Vec<String>,
}

type Parsed<T = Query> = Result<T, FilterError>;

impl Parser {
    pub(super) fn new(words: Vec<Word>, characters: usize, now: Timestamp, workflows: Vec<String>) -> Self {
        let words = words.into_iter().peekable();
        Self { words, end: characters + 1, now, conditions: 0, depth: 0, workflows }
    }

    pub(super) fn parse(mut self) -> Parsed {
        if self.words.peek().is_none() {
            return Ok(Query::All);
        }
        let query = self.parse_or()?;
        match self.words.next() {
            None => Ok(query),
            Some(word) => Err(misread(&word, &joined(&word, "the end"), None)),
        }
    }

    fn parse_or(&mut self) -> Parsed {
        let mut any = vec![self.parse_and()?];
        while self.take_if("or") {
            any.push(self.parse_and()?);
        }
        Ok(if any.len() == 1 { any.remove(0) } else { Query::Or(any) })
    }

    fn parse_and(&mut self) -> Parsed {
        let mut all = vec![self.parse_term()?];
        while self.take_if("and") {
            all.push(self.parse_term()?);
        }
        Ok(if all.len() == 1 { all.remove(0) } else { Query::And(all) })
    }

    fn parse_term(&mut self) -> Parsed {
        let word = self.next("a field, not, or (")?;
        self.depth += 1;
        if self.depth > DEPTH {
            return Err(misread(&word, &format!("at most {DEPTH} nested brackets"), None));
        }
        let one = match &word.token {
            Token::Open => {
                let inner = self.parse_or()?;
                let close = self.next("and, or, or )")?;
                if close.token != Token::Close {
                    return Err(misread(&close, &joined(&close, ")"), None));
                }
                inner
            }
            Token::Plain(name) => self.parse_named(&word, &name.clone())?,
            Token::Quoted(_) | Token::Sign(_) | Token::Close | Token::Comma => {
                return Err(misread(&word, "a field, not, or (", None));
            }
        };
        self.depth -= 1;
        Ok(one)
    }

    /// Parses a term that begins with a name: a negation, a complete condition, or a field.
    fn parse_named(&mut self, word: &Word, name: &str) -> Parsed {
        let said_of = matches!(self.words.peek().map(|next| &next.token), Some(Token::Sign(_)))
            || self.peeks("in")
            || self.peeks("not");
        match name.to_ascii_lowercase().as_str() {
            "not" => return Ok(negated(self.parse_term()?)),
            "open" if !said_of => return self.count_condition(word, Query::is("open", "true")),
            "finished" if !said_of => return self.count_condition(word, Query::is("phase", "finished")),
            "stuck" if !said_of => return self.count_condition(word, stuck()),
            "has" if !said_of => {
                let of = self.next("a field")?;
                let field = field(&of)?;
                let FieldType::Text(columns) = field.kind() else {
                    let FieldType::Word(column, _) = field.kind() else {
                        return Err(misread(
                            &of,
                            "a field that may have no value, such as parent or error",
                            None,
                        ));
                    };
                    return self.count_condition(word, Query::Has { field: column.into() });
                };
                let has = columns.iter().map(|column| Query::Has { field: (*column).into() });
                return self.count_condition(word, either(has.collect()));
            }
            _ => {}
        }
        let field = field(word)?;
        if self.take_if("not") {
            let word = self.next("in")?;
            if !is(&word, "in") {
                return Err(misread(&word, "in", None));
            }
            return Ok(negated(self.parse_list(field)?));
        }
        if self.take_if("in") {
            return self.parse_list(field);
        }
        let sign = self.next(&signs(field))?;
        let Token::Sign(said) = sign.token else { return Err(misread(&sign, &signs(field), None)) };
        let value = self.next("a value")?;
        self.condition(field, said, &sign, &value)
    }

    fn parse_list(&mut self, field: Field) -> Parsed {
        let open = self.next("(")?;
        if open.token != Token::Open {
            return Err(misread(&open, "( and the values, with commas between them", None));
        }
        let mut any = Vec::new();
        loop {
            let value = self.next("a value")?;
            any.push(self.condition(field, "=", &open, &value)?);
            let next = self.next(", or )")?;
            match next.token {
                Token::Comma => {}
                Token::Close => return Ok(either(any)),
                Token::Plain(_) | Token::Quoted(_) | Token::Sign(_) | Token::Open => {
                    return Err(misread(&next, ", or )", None));
                }
            }
        }
    }

    fn condition(&mut self, field: Field, said: &'static str, sign: &Word, value: &Word) -> Parsed {
        let text = match &value.token {
            Token::Plain(text) | Token::Quoted(text) => text.clone(),
            Token::Sign(_) | Token::Open | Token::Close | Token::Comma => {
                return Err(misread(value, "a value; put it between quotes if it contains signs", None));
            }
        };
        let unfit = || misread(sign, &format!("after {}: {}", field.name(), signs(field)), None);
        let query = match (field.kind(), said) {
            (FieldType::Text(columns), "=" | "!=") => {
                self.check_workflow_name(field, &text, value)?;
                either(columns.iter().map(|column| Query::is(*column, &text)).collect())
            }
            (FieldType::Text(columns), "~") => {
                let begins =
                    |column: &&str| Query::StartsWith { field: (*column).into(), with: text.clone() };
                either(columns.iter().map(begins).collect())
            }
            (FieldType::Word(column, known), "=" | "!=") => {
                if !known.contains(&text.as_str()) {
                    let expected = format!("one of {}", known.join(", "));
                    return Err(misread(value, &expected, nearest(&text, known)));
                }
                Query::is(column, text)
            }
            (FieldType::Flag, "=" | "!=") => match text.as_str() {
                "true" => Query::is("open", "true"),
                "false" => Query::is("phase", "finished"),
                _ => return Err(misread(value, "true or false", None)),
            },
            (FieldType::Span(start), "<" | "<=" | ">" | ">=") => {
                let span =
                    span(&text).ok_or_else(|| misread(value, "a span such as 90s, 15m, 2h or 3d", None))?;
                let then = self.now.0.saturating_sub(u64::try_from(span.as_millis()).unwrap_or(u64::MAX));
                // The older, the earlier.
                let turned = match said {
                    "<" => ">",
                    "<=" => ">=",
                    ">" => "<",
                    _ => "<=",
                };
                range(start, turned, then)
            }
            (FieldType::Moment(start), "<" | "<=" | ">" | ">=") => {
                let expected = "a moment such as 2026-11-02 or 2026-11-02T08:00:00Z";
                let then = moment(&text).ok_or_else(|| misread(value, expected, None))?;
                range(start, said, then)
            }
            (FieldType::Word(..) | FieldType::Flag, _)
            | (FieldType::Text(_) | FieldType::Span(_) | FieldType::Moment(_), _) => {
                return Err(unfit());
            }
        };
        self.count_condition(value, if said == "!=" { negated(query) } else { query })
    }

    /// Refuses a misspelt workflow name.
    fn check_workflow_name(&self, field: Field, text: &str, value: &Word) -> Parsed<()> {
        let known = || self.workflows.iter().map(String::as_str);
        if field != Field::Workflow || known().any(|name| name == text) {
            return Ok(());
        }
        let Some(near) = nearest(text, known()) else { return Ok(()) };
        let expected = format!("one of {}", self.workflows.join(", "));
        Err(FilterError {
            at: value.at,
            problem: format!("no workflow is named {text}"),
            expected,
            nearest: Some(near),
        })
    }

    fn count_condition(&mut self, word: &Word, query: Query) -> Parsed {
        self.conditions += 1;
        if self.conditions > CONDITIONS_LIMIT {
            return Err(misread(
                word,
                &format!("at most {CONDITIONS_LIMIT} conditions; split the query"),
                None,
            ));
        }
        Ok(query)
    }

    fn next(&mut self, expected: &str) -> Parsed<Word> {
        let at = self.end;
        self.words.next().ok_or_else(|| FilterError {
            at,
            problem: "the filter ends here".into(),
            expected: expected.to_owned(),
            nearest: None,
        })
    }

    fn peeks(&mut self, word: &str) -> bool {
        self.words.peek().is_some_and(|next| is(next, word))
    }

    fn take_if(&mut self, word: &str) -> bool {
        self.words.next_if(|next| is(next, word)).is_some()
    }
}

/// Returns the tokens that may follow a condition. A sign there was probably meant as part of the value.
fn joined(word: &Word, end: &str) -> String {
    let hint = "; put a value with a sign between quotes, like label = \"team=ml\"";
    format!("and, or, or {end}{}", if matches!(word.token, Token::Sign(_)) { hint } else { "" })
}

fn is(word: &Word, name: &str) -> bool {
    matches!(&word.token, Token::Plain(text) if text.eq_ignore_ascii_case(name))
}

fn misread(word: &Word, expected: &str, nearest: Option<String>) -> FilterError {
    let found = match &word.token {
        Token::Plain(text) => text.as_str(),
        Token::Quoted(text) => text.as_str(),
        Token::Sign(sign) => sign,
        Token::Open => "(",
        Token::Close => ")",
        Token::Comma => ",",
    };
    let problem = format!("{found} does not belong here");
    FilterError { at: word.at, problem, expected: expected.to_owned(), nearest }
}

fn field(word: &Word) -> Parsed<Field> {
    let names = || Field::VARIANTS.iter().map(|field| field.name());
    let Token::Plain(name) = &word.token else { return Err(misread(word, "a field", None)) };
    Field::from_name(name).ok_or_else(|| FilterError {
        at: word.at,
        problem: format!("no field is named {name}"),
        expected: format!("one of {}", names().collect::<Vec<_>>().join(", ")),
        nearest: nearest(name, names().chain(SHORT)),
    })
}

/// Describes the signs of a field.
fn signs(field: Field) -> String {
    match field.kind() {
        FieldType::Text(_) => NOT_SIGNED.into(),
        FieldType::Word(..) | FieldType::Flag => "= or != or in (…)".into(),
        FieldType::Span(_) | FieldType::Moment(_) => "< or <= or > or >=".into(),
    }
}

/// Matches executions that need an operator: parked, overdue, or terminated with leftovers.
fn stuck() -> Query {
    let reasons = reasons().map(|reason| Query::is("reason", reason)).collect();
    let open = Query::And(vec![
        Query::is("open", "true"),
        either([vec![Query::is("phase", "parked")], reasons].concat()),
    ]);
    Query::Or(vec![open, leftovers()])
}

/// Matches terminated executions whose effects still exist.
#[must_use]
pub fn leftovers() -> Query {
    Query::is(LEFTOVERS, STANDING)
}

fn either(mut any: Vec<Query>) -> Query {
    if any.len() == 1 { any.remove(0) } else { Query::Or(any) }
}

/// Returns the opposite of a query. The opposite of `open` is `finished`, because both have an index.
fn negated(query: Query) -> Query {
    let (open, finished) = (Query::is("open", "true"), Query::is("phase", "finished"));
    match query {
        Query::Not(query) => *query,
        query if query == open => finished,
        query if query == finished => open,
        Query::Or(any) => Query::And(any.into_iter().map(negated).collect()),
        other @ (Query::All
        | Query::And(_)
        | Query::Is { .. }
        | Query::StartsWith { .. }
        | Query::Has { .. }
        | Query::CreatedBetween { .. }
        | Query::UpdatedBetween { .. }) => Query::Not(Box::new(other)),
    }
}

/// Returns the range before or after the moment `then`.
fn range(start: bool, said: &str, then: u64) -> Query {
    let behind = Timestamp(then.saturating_add(1));
    let then = Timestamp(then);
    let (from, until) = match said {
        "<" => (Timestamp(0), then),
        "<=" => (Timestamp(0), behind),
        ">" => (behind, Timestamp(u64::MAX)),
        _ => (then, Timestamp(u64::MAX)),
    };
    if start { Query::CreatedBetween { from, until } } else { Query::UpdatedBetween { from, until } }
}

fn moment(text: &str) -> Option<u64> {
    let day = || Some(text.parse::<NaiveDate>().ok()?.and_hms_opt(0, 0, 0)?.and_utc());
    let at = DateTime::parse_from_rfc3339(text).ok().map(|at| at.to_utc()).or_else(day)?;
    u64::try_from(at.timestamp_millis()).ok()
}

/// Parses `90s`, `15m`, `2h`, `3d`, or a sequence such as `1h30m`.
fn span(text: &str) -> Option<Duration> {
    let (mut seconds, mut digits) = (0_u64, String::new());
    for c in text.chars() {
        let unit = match c {
            '0'..='9' => {
                digits.push(c);
                continue;
            }
            's' => 1,
            'm' => 60,
            'h' => 3_600,
            'd' => 86_400,
            _ => return None,
        };
        seconds = seconds.checked_add(digits.parse::<u64>().ok()?.checked_mul(unit)?)?;
        digits.clear();
    }
    (digits.is_empty() && !text.is_empty()).then(|| Duration::from_secs(seconds))
}
