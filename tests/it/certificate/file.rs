//! The file: one changed byte, other keys, noise, and the printed page.

use super::*;
use crate::served::{Ran, tenure};

#[test]
fn a_certificate_signed_with_another_key_is_invalid() {
    let other = SigningKey::from_seed([1; 32]).unwrap().public_key();
    for keys in [vec![], vec![other.clone()]] {
        let found = verify(whole().as_bytes(), &keys);
        assert_eq!(found.problems.len(), 1, "{:?}", found.problems);
        assert_eq!(found.problems[0].field, "signatures[0].keyid");
        assert!(found.proves().is_empty());
    }
    assert!(
        verify(whole().as_bytes(), &[other, key().public_key()]).is_valid(),
        "among several keys one fits"
    );
}

/// Bytes throughout the file, and both ends in full. Unit tests cover each position of a sheet.
#[test]
fn one_changed_byte_makes_the_file_invalid_and_is_named() {
    let file = whole().into_bytes();
    let step = 1 + file.len() / 400;
    let ends = |place: &usize| *place < 40 || *place + 20 > file.len();
    for place in (0..file.len()).filter(|place| place % step == 0 || ends(place)) {
        let mut changed = file.clone();
        changed[place] ^= if place % 2 == 0 { 0x01 } else { 0x80 };
        let found = problems(&changed);
        assert!(!found.is_empty(), "byte {place}");
        assert!(found.iter().all(|problem| !problem.field.is_empty() && !problem.problem.is_empty()));
    }
}

/// Errors name the changed part of the envelope around cover and pages.
#[test]
fn a_changed_envelope_is_reported_as_such() {
    let named = |from: &str, to: &str| {
        let changed = whole().replacen(from, to, 1);
        assert_ne!(changed, whole());
        problems(changed.as_bytes()).remove(0).field
    };
    let sig = r#""sig":""#;
    let at = whole().find(sig).unwrap() + sig.len();
    let (before, after) = (&whole()[at..at + 8].to_owned(), "AAAAAAAA");
    assert_eq!(named(before, after), "signatures[0].sig");
    assert_eq!(named("\"keyid\":\"sha256:", "\"keyid\":\"sha255:"), "signatures[0].keyid");
    assert_eq!(named("destruction+json", "destruction+jsom"), "payloadType");
    assert_eq!(named("\"pages\"", "\"pagez\""), "envelope");
    assert_eq!(named("}\n", "} "), "envelope");
}

fn decoded(text: &str) -> Vec<u8> {
    // A base64 decoder of the tests, independent of the product's.
    let digit = |c: char| match c {
        'A'..='Z' => c as u32 - 65,
        'a'..='z' => c as u32 - 71,
        '0'..='9' => c as u32 + 4,
        '+' => 62,
        _ => 63,
    };
    let digits: Vec<u32> = text.trim_end_matches('=').chars().map(digit).collect();
    let quad = |four: &[u32]| {
        let bits = four.iter().enumerate().fold(0, |bits, (i, digit)| bits | digit << (18 - 6 * i));
        bits.to_be_bytes()[1..four.len()].to_vec()
    };
    digits.chunks(4).flat_map(quad).collect()
}

fn encoded(bytes: &[u8]) -> String {
    const LETTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let group = |three: &[u8]| {
        let bits =
            three.iter().enumerate().fold(0u32, |bits, (i, byte)| bits | u32::from(*byte) << (16 - 8 * i));
        (0..4)
            .map(
                |i| if i > three.len() { '=' } else { LETTERS[(bits >> (18 - 6 * i) & 63) as usize] as char },
            )
            .collect::<String>()
    };
    bytes.chunks(3).map(group).collect()
}

/// The file with one text of its cover or of a page replaced by another.
fn tampered(file: &str, from: &str, to: &str) -> String {
    let mut envelope: serde_json::Value = serde_json::from_str(file).unwrap();
    let mut hits = 0;
    let mut swap = |part: &mut serde_json::Value| {
        let text = String::from_utf8(decoded(part.as_str().unwrap())).unwrap();
        hits += text.matches(from).count();
        *part = encoded(text.replacen(from, to, 1).as_bytes()).into();
    };
    swap(&mut envelope["payload"]);
    envelope["pages"].as_array_mut().unwrap().iter_mut().for_each(&mut swap);
    assert!(hits > 0, "{from} is in the file");
    // Same format as the file, so that only the change is found.
    let [payload, kind, signatures, pages] =
        ["payload", "payloadType", "signatures", "pages"].map(|part| envelope[part].to_string());
    let signatures = signatures.clone();
    format!(
        "{{\"payload\":{payload},\"payloadType\":{kind},\"signatures\":{signatures},\"pages\":{pages}}}\n"
    )
}

#[test]
fn a_changed_field_is_named() {
    let named = |from: &str, to: &str| {
        let fields: Vec<_> =
            problems(tampered(&whole(), from, to).as_bytes()).into_iter().map(|it| it.field).collect();
        fields
    };
    let bucket = "\"locator\": \"eu-west/t-acme\"";
    assert!(named(bucket, "\"locator\": \"eu-west/t-acmf\"").contains(&"assets[0].locator".into()));
    assert!(
        named("\"checked\": 2002", "\"checked\": 2003")
            .contains(&"assets[0].record.verification.checked".into())
    );
    assert!(named("Example GPU Ltd", "Example GPU Inc").contains(&"issuer".into()));
    assert!(named("\"cora\"", "\"dora\"").contains(&"approvals[0].votes[0].name".into()));
    let found = named("SN-west-1/node-1/nvme0", "SN-west-1/node-1/nvme1");
    assert!(found.iter().any(|field| field.ends_with(".serial")), "{found:?}");
}

#[test]
fn an_unchanged_file_passes_the_parser_of_the_test() {
    assert_eq!(tampered(&whole(), "Example", "Example"), whole());
}

#[test]
fn a_key_file_is_created_once_readable_by_its_owner_only_and_read_again() {
    use std::os::unix::fs::PermissionsExt as _;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(KeyFile::NAME);
    let makers: Vec<_> = (0..8).map(|_| KeyFile::new(&path)).collect();
    let keys: BTreeSet<_> = std::thread::scope(|scope| {
        let made: Vec<_> =
            makers.iter().map(|file| scope.spawn(|| file.load_or_create().unwrap().public_key())).collect();
        made.into_iter().map(|it| it.join().unwrap()).collect()
    });
    assert_eq!(keys.len(), 1, "eight that make it at once end with one key");
    let key = keys.into_iter().next().unwrap();
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1, "no temporary file remains");
    assert_eq!(PublicKey::all_from_pem(key.to_pem().as_bytes()), Ok(vec![key.clone()]));

    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
    assert!(KeyFile::new(&path).load_or_create().unwrap_err().contains("chmod 600"));
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
    std::fs::write(&path, "no key").unwrap();
    assert!(KeyFile::new(&path).load_or_create().unwrap_err().contains("PRIVATE KEY"));
}

/// A crash left the beginning of a statement without the end of its line.
#[test]
fn an_incomplete_statement_of_succession_does_not_hide_the_next_one() {
    let dir = tempfile::tempdir().unwrap();
    let file = KeyFile::new(dir.path().join(KeyFile::NAME));
    let old = file.load_or_create().unwrap();
    std::fs::write(dir.path().join(KeySuccessions::NAME), "{\"payload\"").unwrap();
    assert!(file.succeed(&old, at(1), "no change").unwrap_err().contains("no statement is necessary"));

    file.rotate(at(1), "yearly").unwrap();

    let key = file.load_or_create().unwrap().public_key();
    assert_ne!(key, old.public_key());
    assert_eq!(file.public_keys().unwrap(), [key, old.public_key()]);
}

#[test]
fn the_printable_page_shows_every_field_and_escapes_markup() {
    let mut things = things();
    things[0] = asset(AssetType::Node, "<script>alert('1')</script>");
    let records: Vec<_> = things.iter().map(record).collect();
    let file = signed(&try_issue(&things, &records, Exceptions::Refuse).unwrap());
    let found = verify(file.as_bytes(), &[key().public_key()]);
    let page = print::html(&found).unwrap();
    assert!(!page.contains("<script"), "{page}");
    for said in [
        "SN-west-1/node-1/nvme0",
        "nvme sanitize --sanact=2",
        "vera, compliance",
        "cora",
        "laptops",
        "audit log",
    ] {
        assert!(page.contains(said), "{said}");
    }
    assert!(page.contains("signature of key") && !page.contains("NOT verified"));
    let unverified = verify(file.as_bytes(), &[]);
    assert!(print::html(&unverified).unwrap().contains("NOT verified"));
    assert!(print::text(&found).unwrap().contains("inventory sha256:"));
}

proptest! {
    #![proptest_config(tests::cases(48))]

    #[test]
    fn the_verifier_never_panics(bytes in vec(any::<u8>(), 0..600)) {
        prop_assert!(!verify(&bytes, &[key().public_key()]).is_valid());
    }

    /// Damage to a valid certificate gets further into the verifier than noise.
    #[test]
    fn no_damage_makes_the_verifier_panic_or_pass(cuts in vec((any::<prop::sample::Index>(), any::<u8>(), 0..3u8), 1..8)) {
        let file = whole().into_bytes();
        let mut damaged = file.clone();
        for (place, byte, how) in cuts {
            let place = place.index(damaged.len());
            match how {
                0 => damaged[place] = byte,
                1 => drop(damaged.remove(place)),
                _ => damaged.insert(place, byte),
            }
        }
        let found = verify(&damaged, &[key().public_key()]);
        prop_assert_eq!(found.is_valid(), damaged == file);
        drop((found.proves(), found.limitations(), print::html(&found), print::text(&found)));
    }
}

/// A folder with a certificate and its issuer's public key.
fn filed() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("acme.json"), whole()).unwrap();
    std::fs::write(dir.path().join("issuer.pem"), key().public_key().to_pem()).unwrap();
    dir
}

fn certificate(dir: &std::path::Path, words: &[&str]) -> Ran {
    Ran::of(tenure(dir).current_dir(dir).arg("certificate").args(words))
}

#[test]
fn the_command_verifies_offline_and_lists_what_is_proved_and_what_is_not() {
    let dir = filed();
    let verify = ["verify", "acme.json", "--key", "issuer.pem"];
    let ran = certificate(dir.path(), &verify);
    assert_eq!(ran.exit, 0, "{}", ran.err);
    assert!(
        ran.out.starts_with("acme.json: valid\n") && ran.out.contains("It does not prove:"),
        "{}",
        ran.out
    );

    std::fs::write(dir.path().join("acme.json"), tampered(&whole(), "Example GPU Ltd", "Example GPU Inc"))
        .unwrap();
    let ran = certificate(dir.path(), &verify);
    assert_eq!(ran.exit, 1);
    assert!(ran.out.contains("INVALID\n") && ran.out.contains("- issuer: has been changed\n"), "{}", ran.out);
    let ran = certificate(dir.path(), &[&verify[..], &["-o", "json"]].concat());
    let said: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!((ran.exit, &said["valid"]), (1, &false.into()));
    assert!(said["problems"].as_array().unwrap().iter().any(|problem| problem["field"] == "issuer"));
}

#[test]
fn the_command_accepts_no_key_that_the_caller_has_not_named() {
    let dir = filed();
    let ran = certificate(dir.path(), &["verify", "acme.json"]);
    assert_eq!(ran.exit, 2);
    assert!(ran.err.contains("--key PUBLIC.pem"), "{}", ran.err);
    assert_eq!(certificate(dir.path(), &["verify", "missing.json", "--key", "issuer.pem"]).exit, 2);
    assert_eq!(certificate(dir.path(), &["verify", "acme.json", "--key", "acme.json"]).exit, 2);
}

#[test]
fn the_command_shows_and_prints_a_certificate() {
    let dir = filed();
    let ran = certificate(dir.path(), &["show", "acme.json"]);
    assert!(ran.out.contains("Certificate of destruction of data of tenant acme"), "{}{}", ran.out, ran.err);
    let ran = certificate(dir.path(), &["print", "acme.json", "--key", "issuer.pem"]);
    assert!(ran.out.starts_with("<!doctype html>") && !ran.out.contains("NOT verified"));
}

/// Runs the commands of the docs, if openssl is installed.
#[test]
fn openssl_verifies_the_signature_of_the_envelope() {
    if std::process::Command::new("openssl").arg("version").output().is_err() {
        return;
    }
    let dir = filed();
    let envelope: serde_json::Value = serde_json::from_str(&whole()).unwrap();
    let cover = decoded(envelope["payload"].as_str().unwrap());
    let sig = decoded(envelope["signatures"][0]["sig"].as_str().unwrap());
    std::fs::write(dir.path().join("pae"), dsse::pae(PAYLOAD_TYPE, &cover)).unwrap();
    std::fs::write(dir.path().join("sig"), sig).unwrap();
    let says = || {
        let words = "pkeyutl -verify -pubin -inkey issuer.pem -rawin -in pae -sigfile sig";
        let mut openssl = std::process::Command::new("openssl");
        openssl.args(words.split(' ')).current_dir(dir.path()).output().unwrap().status.success()
    };
    assert!(says());
    std::fs::write(dir.path().join("pae"), "another").unwrap();
    assert!(!says());
}
