//! Stored formats: every value of earlier versions can be read, and the written form is stable.

use crate::{
    Revision, Sequence,
    embedded::{
        format::{
            codec,
            envelope::{self, Kind},
            key,
        },
        index::IndexStats,
    },
    tests::fixture::*,
};
use std::path::PathBuf;

fn golden(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../tests/golden/store").join(name)
}

type Seal<'a> = &'a dyn Fn(&mut Vec<u8>, &[u8]) -> Result<(), crate::Error>;

fn attributed() -> crate::Record {
    let values = |of: &[&str]| of.iter().map(|value| (*value).to_owned()).collect();
    let attributes = [
        ("action".to_owned(), values(&["CarveSlices"])),
        ("error".to_owned(), values(&["gpu.busy", "gpu.lost"])),
    ];
    crate::Record { attributes: attributes.into(), revision: Revision(2), ..record(8) }
}

/// Returns a value of each kind with its key, in the current form.
fn written() -> Vec<(&'static str, Vec<u8>, Vec<u8>)> {
    let parked = crate::Record { reason: Some("retrying".into()), open: false, ..record(7) };
    let mut values = Vec::new();
    let mut add = |name, key: Vec<u8>, seal: Seal<'_>| {
        let mut value = Vec::new();
        seal(&mut value, &key).unwrap();
        values.push((name, key, value));
    };
    add("record.v1", key::record(id(7)), &|out, key| codec::put_record(out, key, &parked, Revision(300)));
    let attributed = attributed();
    add("record.v2", key::record(id(8)), &|out, key| codec::put_record(out, key, &attributed, Revision(2)));
    add("entry.v1", key::entry(id(7), Sequence(70_000), 3), &|out, key| {
        codec::put_entry(out, key, &entry(7))
    });
    let task = task(7, 2, 1_700_000_000_000);
    add("task.v1", key::task(task.id), &|out, key| codec::put_task(out, key, &task, Sequence(9)));
    add("document.v1", key::document("nodes", "n/7"), &|out, key| {
        codec::put_document(out, key, Sequence(251), b"{\"gpus\":8}")
    });
    add("guard.v1", key::guard("tenant/acme"), &|out, key| codec::put_guard(out, key, id(7)));
    add("open.v1", key::open(id(7)), &|out, key| codec::put_mark(out, key, Kind::Open));
    add("tenant.v1", key::tenant("acme", id(7)), &|out, key| codec::put_mark(out, key, Kind::Tenant));
    let order = key::order(Sequence(70_000), 3, id(7));
    add("order.v1", order, &|out, key| codec::put_mark(out, key, Kind::Order));
    values
}

/// Reads `length u16 | key | value`, the form of a golden file.
fn split(file: &[u8]) -> (Vec<u8>, Vec<u8>) {
    let (length, rest) = file.split_first_chunk::<2>().unwrap();
    let (key, value) = rest.split_at(usize::from(u16::from_le_bytes(*length)));
    (key.to_vec(), value.to_vec())
}

#[test]
fn every_value_ever_written_can_still_be_read() {
    let read = |name: &str| split(&std::fs::read(golden(name)).unwrap());
    for (name, _, _) in written() {
        let (key, value) = read(name);
        codec::check(&key, &value).unwrap_or_else(|why| panic!("{name}: {why}"));
    }
    let (key, value) = read("record.v1");
    let parked =
        crate::Record { reason: Some("retrying".into()), open: false, revision: Revision(300), ..record(7) };
    assert_eq!(codec::record(&key, &value), Ok(parked));
    let (key, value) = read("record.v2");
    assert_eq!(codec::record(&key, &value), Ok(attributed()));
    let (key, value) = read("entry.v1");
    assert_eq!(codec::entry(&key, &value), Ok((crate::Entry { sequence: Sequence(70_000), ..entry(7) }, 3)));
    let (key, value) = read("document.v1");
    let document = codec::document(&key, &value).unwrap();
    assert_eq!((document.version, document.body.as_slice()), (Sequence(251), b"{\"gpus\":8}".as_slice()));
}

/// Run with `BLESS=1` after a new schema has been added; an old file must never change.
#[test]
fn the_written_form_has_not_changed() {
    for (name, key, value) in written() {
        let length = u16::try_from(key.len()).unwrap().to_le_bytes();
        let file = [length.as_slice(), &key, &value].concat();
        if std::env::var_os("BLESS").is_some() {
            std::fs::create_dir_all(golden("")).unwrap();
            std::fs::write(golden(name), &file).unwrap();
        }
        assert_eq!(std::fs::read(golden(name)).unwrap(), file, "{name} has moved without a new schema");
    }
}

#[test]
fn the_numbers_of_kinds_are_pinned() {
    use crate::embedded::format::envelope::Kind::*;
    let kinds = [Record, Entry, Task, Document, Guard, Open, Tenant, Meta, Order];
    assert_eq!(kinds.map(|kind| kind as u8), [1, 2, 3, 4, 5, 6, 7, 8, 9]);
}

#[test]
fn a_torn_changed_or_misplaced_value_is_detected() {
    for (name, key, value) in written() {
        for cut in 0..value.len() {
            assert!(codec::check(&key, &value[..cut]).is_err(), "{name} cut at {cut}");
        }
        for bit in 0..value.len() * 8 {
            let mut changed = value.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            assert!(codec::check(&key, &changed).is_err(), "{name} with bit {bit} changed");
        }
        let mut longer = value.clone();
        longer.push(0);
        assert!(codec::check(&key, &longer).is_err(), "{name} with a byte more");
        let mut other = key.clone();
        *other.last_mut().unwrap() ^= 1;
        assert!(codec::check(&other, &value).is_err(), "{name} under another key");
    }
}

#[test]
fn a_value_of_a_newer_schema_is_reported_as_such() {
    let key = key::record(id(1));
    let mut value = Vec::new();
    codec::put_record(&mut value, &key, &record(1), Revision(1)).unwrap();
    value[2] = 9;
    let crc = crc32c::crc32c_append(crc32c::crc32c_append(crc32c::crc32c(&key), &value[..10]), &value[14..]);
    value[10..14].copy_from_slice(&crc.to_le_bytes());

    let refused = envelope::open(&key, Kind::Record, &value);

    assert!(refused.clone().is_err_and(|why| why.contains("newer version of Tenure")), "{refused:?}");
}

#[test]
fn keys_sort_by_their_parts_and_can_be_parsed() {
    let entry = |sequence, place| key::entry(id(1), Sequence(sequence), place);
    assert!(entry(255, 9) < entry(256, 0) && entry(1, 1) < entry(1, 2));
    assert!(key::record(id(255)) < key::record(id(256)));
    for (_, key, _) in written() {
        assert!(key::parse(&key).is_some());
    }
    assert_eq!(key::parse(&[9, 1, 2]), None);
    assert_eq!(key::parse(&[]), None);
}

#[test]
fn the_statistics_of_the_index_are_independent_of_row_order() {
    let (mut forth, mut back) = (IndexStats::default(), IndexStats::default());
    forth.add(b"a", b"1");
    forth.add(b"b", b"2");
    back.add(b"b", b"2");
    back.add(b"c", b"3");
    back.add(b"a", b"1");
    assert!(!forth.same_rows(&back));
    back.subtract(b"c", b"3");
    assert!(forth.same_rows(&back));
    assert_eq!(IndexStats::decode(&forth.encode()), Ok(forth));
}
