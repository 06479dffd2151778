//! Commands in pages: every line that a reader would type, and every command within a sentence.

use std::{iter::Peekable, str::Chars};

/// Separates alternative words in a command within a sentence.
const OR: char = '\u{1}';

/// A typed line, or a command within a sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Typed {
    /// The line in its page, from 1.
    pub(crate) line: usize,
    /// The text as printed, without the `$`.
    pub(crate) text: String,
}

/// Returns the command lines of shell blocks: in `console` blocks and blocks without a language the lines after `$`, in `sh` blocks all
/// lines. A backslash at the end continues the line.
pub(crate) fn blocks(page: &str) -> Vec<(String, Typed)> {
    let (mut found, mut kind, mut open) = (Vec::new(), None::<String>, None::<Typed>);
    for (place, line) in page.lines().enumerate() {
        if let Some(fence) = line.trim_start().strip_prefix("```") {
            kind = if kind.is_some() { None } else { Some(fence.trim().to_owned()) };
            open = None;
            continue;
        }
        let Some(kind) = kind.as_deref().filter(|kind| ["", "console", "sh"].contains(kind)) else {
            continue;
        };
        let plain = line.trim_start();
        let begins = if kind == "sh" { Some(plain) } else { plain.strip_prefix("$ ") };
        let begins = begins.or_else(|| (kind.is_empty() && plain.starts_with("tenure ")).then_some(plain));
        let mut typed = match (open.take(), begins) {
            (Some(before), _) => Typed { text: format!("{}{plain}", before.text), ..before },
            (None, Some(text)) => Typed { line: place + 1, text: text.to_owned() },
            (None, None) => continue,
        };
        if typed.text.ends_with('\\') {
            typed.text.pop();
            open = Some(typed);
        } else {
            found.push((kind.to_owned(), typed));
        }
    }
    found
}

/// Returns the commands within sentences, except generated ones.
pub(crate) fn named(page: &str) -> Vec<Typed> {
    let (mut found, mut fenced, mut written) = (Vec::new(), false, false);
    for (place, line) in page.lines().enumerate() {
        fenced ^= line.trim_start().starts_with("```");
        written = (written || line == "<!-- commands:begin -->") && line != "<!-- commands:end -->";
        if fenced || written {
            continue;
        }
        let spans = line.split('`').skip(1).step_by(2);
        let ours = spans.filter(|span| span.starts_with("tenure ") || span.contains("$(tenure "));
        found.extend(ours.map(|span| Typed { line: place + 1, text: span.to_owned() }));
    }
    found
}

/// Returns the program's commands in a shell line, each as its words.
pub(crate) fn commands(line: &str) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    simple(&mut line.chars().peekable(), None, &mut found);
    found
}

/// The same for a command within a sentence: `[ID]` is optional, `list|show` is a choice, and `…` is a placeholder for any
/// arguments.
pub(crate) fn choices(span: &str) -> Vec<Vec<String>> {
    let plain = span.replace(['[', ']'], "");
    let mut text = plain.clone();
    for (place, _) in plain.match_indices('|') {
        let letter = |c: Option<char>| c.is_some_and(|c| !c.is_whitespace());
        if letter(plain[..place].chars().next_back()) && letter(plain[place + 1..].chars().next()) {
            text.replace_range(place..=place, &OR.to_string());
        }
    }
    let mut all = Vec::new();
    for words in commands(&text) {
        let mut some: Vec<Vec<String>> = vec![Vec::new()];
        for word in words {
            let one = |chosen: &Vec<String>| {
                let more = word.split(OR).map(|word| [&chosen[..], &[word.to_owned()]].concat());
                more.collect::<Vec<_>>()
            };
            some = some.iter().flat_map(one).collect();
        }
        all.extend(some.into_iter().map(without_ellipses));
    }
    all
}

fn without_ellipses(words: Vec<String>) -> Vec<String> {
    let mut kept: Vec<String> = Vec::new();
    for word in words {
        let behind_an_option =
            kept.last().is_some_and(|before| before.starts_with('-') && !before.contains('='));
        if word != "…" || behind_an_option {
            kept.push(word);
        }
    }
    kept
}

/// Reads shell commands up to `end`.
fn simple(rest: &mut Peekable<Chars<'_>>, end: Option<char>, found: &mut Vec<Vec<String>>) {
    let (mut words, mut is_target) = (Vec::new(), false);
    while let Some(&next) = rest.peek() {
        match next {
            _ if Some(next) == end => {
                rest.next();
                break;
            }
            ' ' | '\t' => drop(rest.next()),
            '|' | ';' | '&' | '(' | ')' => {
                rest.next();
                ended(&mut words, found);
            }
            '>' | '<' => {
                rest.next();
                is_target = true;
            }
            '#' => while rest.next().is_some() {},
            _ => {
                let word = word(rest, end, found);
                let is_number = rest.peek() == Some(&'>') && word.chars().all(|c| c.is_ascii_digit());
                if !is_target && !is_number {
                    words.push(word);
                }
                is_target = false;
            }
        }
        // `2>&1` has no file.
        if is_target && rest.peek() == Some(&'&') {
            rest.next();
        }
    }
    ended(&mut words, found);
}

/// Adds a command if it calls the program, after shell keywords and variable assignments.
fn ended(words: &mut Vec<String>, found: &mut Vec<Vec<String>>) {
    let is_before = |word: &&String| {
        let is_set = word.split_once('=').is_some_and(|(name, _)| {
            !name.is_empty() && name.chars().all(|c| c.is_ascii_uppercase() || c == '_')
        });
        is_set || ["if", "until", "while", "do", "then", "!", "export"].contains(&word.as_str())
    };
    let from = words.iter().take_while(is_before).count();
    let words = std::mem::take(words).split_off(from);
    if words.first().is_some_and(|first| first == "tenure") {
        found.push(words);
    }
}

/// Reads one word without its quotes; the output of a command substitution becomes an `x`.
fn word(rest: &mut Peekable<Chars<'_>>, end: Option<char>, found: &mut Vec<Vec<String>>) -> String {
    let (mut word, mut quote) = (String::new(), None::<char>);
    while let Some(&next) = rest.peek() {
        let ends =
            |c: char| c.is_whitespace() || ['|', ';', '&', '>', '<', '(', ')'].contains(&c) || Some(c) == end;
        if quote.is_none() && ends(next) {
            break;
        }
        rest.next();
        match (quote, next) {
            (Some(open), next) if open == next => quote = None,
            (None, '\'' | '"') => quote = Some(next),
            (None | Some('"'), '$') if rest.peek() == Some(&'(') => {
                rest.next();
                simple(rest, Some(')'), found);
                word.push('x');
            }
            (None | Some('"'), '\\') => word.extend(rest.next()),
            _ => word.push(next),
        }
    }
    word
}

#[test]
fn typed_completions_appear_within_the_time_of_a_shell() {
    let told = |line: &str| commands(line).iter().map(|words| words.join(" ")).collect::<Vec<_>>();
    assert_eq!(told("until tenure loans list | grep -q 'a b'; do sleep 1; done"), ["tenure loans list"]);
    assert_eq!(told("A=$(tenure user add ada --role x)   # tenure no"), ["tenure user add ada --role x"]);
    assert_eq!(
        told("tenure --token \"$(cat x)\" a \"b c\" > f 2>&1 && tenure d --e"),
        ["tenure --token x a b c", "tenure d --e"]
    );
    assert_eq!(told("X=1 tenure set 'a/*' < in --over; cat tenure b"), ["tenure set a/* --over"]);
    assert_eq!(choices("tenure get|show KIND [ID] --reason …").len(), 2);
    assert_eq!(choices("tenure hold … --why …"), [["tenure", "hold", "--why", "…"]]);
    assert_eq!(choices("tenure nodes list | head"), [["tenure", "nodes", "list"]]);
}
