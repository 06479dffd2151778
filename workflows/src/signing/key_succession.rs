//! Statements that one signing key succeeds another, so that statements about older certificates can be signed with the current key.
//!
//! Called when a certificate is withdrawn and when a withdrawal is verified. Invariant: a statement counts only with valid signatures of both keys. It
//! gives the new key no more rights than the old key had, because the holder of the old key signed it.

use super::{
    Moment, PublicKey, SigningKey,
    canonical::{compact, value},
    dsse::{Signature, pae},
};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// The format of the statement.
const FORMAT: &str = "tenure key succession 1";
/// The type of the signed bytes.
const PAYLOAD_TYPE: &str = "application/vnd.tenure.key-succession+json";

/// The statement that a key succeeds another one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeySuccession {
    format: String,
    /// The earlier key.
    pub from: PublicKey,
    /// Its successor.
    pub to: PublicKey,
    /// The time of the change.
    pub at: Moment,
    /// The reason.
    pub reason: String,
}

/// The envelope of the statement.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Envelope {
    payload: String,
    payload_type: String,
    signatures: Vec<Signature>,
}

impl Envelope {
    /// Returns the only accepted form.
    fn written(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}

impl KeySuccession {
    /// Returns the statement as a line, signed with both keys.
    #[must_use]
    pub fn sign(from: &SigningKey, to: &SigningKey, at: Moment, reason: &str) -> String {
        let said = Self {
            format: FORMAT.into(),
            from: from.public_key(),
            to: to.public_key(),
            at,
            reason: reason.to_owned(),
        };
        let payload = compact(&value(&said));
        let message = pae(PAYLOAD_TYPE, payload.as_bytes());
        let signature = |key: &SigningKey| Signature::new(&key.public_key(), &key.signature(&message));
        Envelope {
            payload: STANDARD.encode(&payload),
            payload_type: PAYLOAD_TYPE.into(),
            signatures: vec![signature(from), signature(to)],
        }
        .written()
    }

    /// Reads a line. `None` if it is not a statement of this type.
    ///
    /// # Errors
    /// The reason why the statement does not count.
    #[must_use]
    pub fn read(line: &[u8]) -> Option<Result<Self, String>> {
        let envelope = serde_json::from_slice::<Envelope>(line).ok()?;
        (envelope.payload_type == PAYLOAD_TYPE).then(|| Self::verified(&envelope, line))
    }

    fn verified(envelope: &Envelope, line: &[u8]) -> Result<Self, String> {
        if envelope.written().as_bytes() != line {
            return Err("is not written as it was: spaces, order or escapes differ".into());
        }
        let payload =
            STANDARD.decode(&envelope.payload).map_err(|error| format!("is not base64: {error}"))?;
        let said: Self =
            serde_json::from_slice(&payload).map_err(|error| format!("cannot be read: {error}"))?;
        if said.format != FORMAT {
            return Err(format!("has the format {:?}, and this program knows {FORMAT:?}", said.format));
        }
        if compact(&value(&said)).as_bytes() != payload {
            return Err("has content in another form than it is signed in".into());
        }
        let message = pae(PAYLOAD_TYPE, &payload);
        let is_signed = |key: &PublicKey| {
            envelope.signatures.iter().any(|signature| {
                let sig = STANDARD.decode(&signature.sig);
                signature.keyid == key.id() && sig.is_ok_and(|sig| key.verifies(&message, &sig))
            })
        };
        if said.from == said.to || !is_signed(&said.from) || !is_signed(&said.to) {
            return Err("is not signed with both of its keys".into());
        }
        Ok(said)
    }
}

/// Valid statements of succession.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeySuccessions {
    all: Vec<(KeySuccession, String)>,
}

impl KeySuccessions {
    /// The name of the file with the statements of a data folder.
    pub const NAME: &'static str = "certificate-key-successions.jsonl";

    /// Reads a file with one statement on each line. Other lines are ignored.
    #[must_use]
    pub fn read(file: &[u8]) -> Self {
        let mut read = Self::default();
        for line in file.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii) {
            if let Some(Ok(succession)) = KeySuccession::read(line) {
                read.add(succession, line);
            }
        }
        read
    }

    /// Adds a valid statement.
    pub(crate) fn add(&mut self, succession: KeySuccession, line: &[u8]) {
        self.all.push((succession, String::from_utf8_lossy(line).into_owned()));
    }

    /// Returns these keys and all their successors.
    #[must_use]
    pub fn successors(&self, keys: &[PublicKey]) -> Vec<PublicKey> {
        self.closure(keys, |succession| (&succession.from, &succession.to))
    }

    /// Returns these keys and all their predecessors.
    #[must_use]
    pub fn predecessors(&self, keys: &[PublicKey]) -> Vec<PublicKey> {
        self.closure(keys, |succession| (&succession.to, &succession.from))
    }

    fn closure(
        &self,
        keys: &[PublicKey],
        ends: impl Fn(&KeySuccession) -> (&PublicKey, &PublicKey),
    ) -> Vec<PublicKey> {
        let mut found = keys.to_vec();
        loop {
            let is_new =
                |(one, other): &(&PublicKey, &PublicKey)| found.contains(one) && !found.contains(other);
            let next = self.all.iter().map(|(succession, _)| ends(succession)).find(is_new);
            let Some((_, next)) = next else { return found };
            let next = next.clone();
            found.push(next);
        }
    }

    /// Returns the statements that link the key `from` to the key `to`, each named by its id. `None` if no statements link them.
    #[must_use]
    pub fn chain(&self, from: &str, to: &str) -> Option<Vec<String>> {
        // For each reached key: the key before it, and the statement.
        let mut reached: BTreeMap<String, (String, &String)> = BTreeMap::new();
        let mut open = vec![from.to_owned()];
        let mut seen = BTreeSet::from([from.to_owned()]);
        while let Some(at) = open.pop() {
            for (succession, line) in self.all.iter().filter(|(succession, _)| succession.from.id() == at) {
                let next = succession.to.id();
                if seen.insert(next.clone()) {
                    reached.insert(next.clone(), (at.clone(), line));
                    open.push(next);
                }
            }
        }
        let (mut chain, mut at) = (Vec::new(), to.to_owned());
        while at != from {
            let (before, line) = reached.get(&at)?;
            chain.insert(0, (*line).clone());
            at.clone_from(before);
        }
        Some(chain)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use store::Timestamp;

    fn key(seed: u8) -> SigningKey {
        SigningKey::from_seed([seed; 32]).unwrap()
    }

    fn line(from: u8, to: u8) -> String {
        KeySuccession::sign(&key(from), &key(to), Moment::from(Timestamp(1_795_000_000_000)), "yearly")
    }

    fn id(seed: u8) -> String {
        key(seed).public_key().id()
    }

    #[test]
    fn a_chain_of_statements_links_an_old_key_to_the_current_one_and_to_no_other() {
        let file = [line(1, 2), line(2, 3), line(7, 8), "noise".into()].join("\n");
        let read = KeySuccessions::read(file.as_bytes());

        assert_eq!(read.chain(&id(1), &id(3)), Some(vec![line(1, 2), line(2, 3)]));
        assert_eq!(read.chain(&id(1), &id(1)), Some(Vec::new()));
        for (from, to) in [(3, 1), (1, 8), (7, 3)] {
            assert_eq!(read.chain(&id(from), &id(to)), None, "{from} {to}");
        }
        let [first, third] = [key(1), key(3)].map(|key| key.public_key());
        assert_eq!(read.successors(std::slice::from_ref(&first)).len(), 3);
        assert_eq!(read.predecessors(std::slice::from_ref(&third)).len(), 3);
        assert_eq!(read.predecessors(std::slice::from_ref(&first)), [first]);
    }

    #[test]
    fn a_statement_counts_only_with_the_signatures_of_both_keys() {
        let genuine: Envelope = serde_json::from_str(&line(1, 2)).unwrap();
        assert!(matches!(KeySuccession::read(line(1, 2).as_bytes()), Some(Ok(_))));

        let one = |place: usize| Envelope {
            signatures: vec![genuine.signatures[place].clone()],
            ..genuine.clone()
        };
        let other: Envelope = serde_json::from_str(&line(1, 3)).unwrap();
        let moved = Envelope { signatures: other.signatures, ..genuine.clone() };
        for forged in [one(0), one(1), moved] {
            assert!(matches!(KeySuccession::read(forged.written().as_bytes()), Some(Err(_))));
        }
        let genuine = line(1, 2);
        for place in 0..genuine.len() {
            let mut bytes = genuine.clone().into_bytes();
            bytes[place] ^= 1;
            assert!(!matches!(KeySuccession::read(&bytes), Some(Ok(_))), "byte {place}");
        }
    }
}
