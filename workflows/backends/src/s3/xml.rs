//! Parses XML of object stores to a tree and keeps every character of texts.
//!
//! Keys may begin or end with spaces and contain control characters, which stores write as references. A parser that
//! trims or rejects them would leave objects undeleted.

use quick_xml::{Reader, events::Event};

/// An element.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Node {
    name: String,
    text: String,
    children: Vec<Node>,
}

/// The maximum depth of elements. Actual answers have four levels.
const DEEPEST: usize = 16;
/// The maximum number of elements and texts. A list of 10,000 buckets has 90,000.
const MOST_EVENTS: usize = 1_000_000;

impl Node {
    /// Parses a document whose root element is `root`. A different root means that the store does not support the
    /// request, for example one that lists the bucket instead.
    pub(super) fn document(text: &str, root: &str) -> Result<Self, String> {
        let document = Self::parse(text)?;
        if document.name == root {
            return Ok(document);
        }
        Err(format!("the answer is a {:?} and not a {root}", document.name))
    }

    fn parse(text: &str) -> Result<Self, String> {
        let mut reader = Reader::from_str(text);
        let (mut open, mut count) = (vec![Self::default()], 0);
        loop {
            count += 1;
            if count > MOST_EVENTS {
                return Err(format!("the document has more than {MOST_EVENTS} elements and texts"));
            }
            match reader.read_event().map_err(|e| e.to_string())? {
                Event::Start(start) => {
                    if open.len() > DEEPEST {
                        return Err("elements are nested too deeply".into());
                    }
                    open.push(Self::named(start.local_name().as_ref()));
                }
                Event::Empty(start) => close(&mut open, Self::named(start.local_name().as_ref()))?,
                Event::End(_) => {
                    let closed = open.pop().ok_or("an element ends that was not begun")?;
                    close(&mut open, closed)?;
                }
                Event::Text(text) => add(&mut open, text.as_ref()),
                Event::CData(text) => add(&mut open, text.as_ref()),
                Event::GeneralRef(reference) => {
                    let character = match reference.resolve_char_ref().map_err(|e| e.to_string())? {
                        Some(character) => character,
                        None => predefined(reference.as_ref())?,
                    };
                    add(&mut open, character.encode_utf8(&mut [0; 4]));
                }
                Event::Decl(_) | Event::Comment(_) | Event::PI(_) | Event::DocType(_) => {}
                Event::Eof => break,
            }
        }
        let mut document = open.pop().filter(|_| open.is_empty()).ok_or("the document ends too early")?;
        document.children.pop().ok_or_else(|| "there is no element".into())
    }

    fn named(name: &str) -> Self {
        Self { name: name.to_owned(), ..Self::default() }
    }

    /// Returns the children with this name.
    pub(super) fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Self> {
        self.children.iter().filter(move |child| child.name == name)
    }

    /// Returns the first child with this name.
    pub(super) fn child<'a>(&'a self, name: &'a str) -> Option<&'a Self> {
        self.all(name).next()
    }

    /// Returns the text of the first child with this name; empty if absent.
    pub(super) fn text<'a>(&'a self, name: &'a str) -> &'a str {
        self.child(name).map_or("", |child| &child.text)
    }
}

fn close(open: &mut [Node], closed: Node) -> Result<(), String> {
    let parent = open.last_mut().ok_or("an element ends that was not begun")?;
    parent.children.push(closed);
    Ok(())
}

fn add(open: &mut [Node], text: &str) {
    if let Some(node) = open.last_mut() {
        node.text.push_str(text);
    }
}

fn predefined(name: &str) -> Result<char, String> {
    match name {
        "lt" => Ok('<'),
        "gt" => Ok('>'),
        "amp" => Ok('&'),
        "apos" => Ok('\''),
        "quot" => Ok('"'),
        unknown => Err(format!("&{unknown}; is unknown")),
    }
}

/// Escapes text for use between tags.
pub(super) fn escaped(text: &str) -> String {
    quick_xml::escape::escape(text).into_owned()
}

#[cfg(test)]
mod tests {
    use super::Node;

    /// An answer of Ceph's gateway, with spaces added and the owner removed.
    const LISTED: &str = "<?xml version=\"1.0\" encoding=\"UTF-8\"?><ListVersionsResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">\
        <Name>b</Name><IsTruncated>true</IsTruncated><NextKeyMarker>ctl&#x01;x</NextKeyMarker><KeyMarker/>\
        <Version><Key> lt&lt;&amp; </Key><VersionId>1</VersionId></Version><DeleteMarker><Key>d</Key></DeleteMarker>\
        <Version><Key>two\r\nlines</Key><VersionId>2</VersionId></Version></ListVersionsResult>";

    #[test]
    fn every_character_of_a_key_is_preserved() {
        let listed = Node::document(LISTED, "ListVersionsResult").unwrap();
        let keys: Vec<&str> = listed.all("Version").map(|version| version.text("Key")).collect();

        assert_eq!(keys, [" lt<& ", "two\r\nlines"]);
        assert_eq!(listed.text("NextKeyMarker"), "ctl\u{1}x");
        assert_eq!((listed.text("KeyMarker"), listed.text("nothing")), ("", ""));
        assert_eq!(listed.all("DeleteMarker").count(), 1);
    }

    /// Ceph 16 answers a request for a bucket's encryption with a list of the bucket, which must not be read as "no
    /// encryption configured".
    #[test]
    fn an_answer_of_another_kind_is_refused() {
        assert!(Node::document(LISTED, "ServerSideEncryptionConfiguration").unwrap_err().contains("is a"));
        for garbage in ["", "<html", "<a><b></a>", "upstream connect error", "<a>"] {
            assert!(Node::document(garbage, "a").is_err(), "{garbage:?}");
        }
        assert!(Node::document(&"<a>".repeat(100), "a").is_err());
    }
}
