use super::{Contents, Lock, Page, UNTIL_LIFTED, codes};
use engine::Class;

fn page(items: &[u8], next: Option<&str>) -> Page<u8> {
    Page { items: items.to_vec(), next: next.map(|key| (key.to_owned(), String::new())) }
}

#[test]
fn an_empty_page_with_a_continuation_is_not_the_end() {
    assert_eq!(page(&[], Some("a")).has_ended_or_shows(None, "b"), Ok(false));
    assert_eq!(page(&[], None).has_ended_or_shows(None, "b"), Ok(true));
    assert_eq!(page(&[1], Some("a")).has_ended_or_shows(None, "b"), Ok(true));
    let held = Contents { more: true, ..Contents::default() };
    assert!(held.any(), "more than was counted is not nothing");
}

#[test]
fn a_list_page_that_refers_to_itself_is_an_error() {
    let from = ("a".to_owned(), String::new());
    for items in [&[][..], &[1]] {
        let refused = page(items, Some("a")).has_ended_or_shows(Some(&from), "b").unwrap_err();
        assert_eq!((refused.class, refused.code.as_str()), (Class::Transient, codes::UNREADABLE));
    }
}

#[test]
fn a_bucket_counts_as_encrypted_by_its_tenant_only_if_every_locked_version_is() {
    let under = |keys: &[Option<&str>]| {
        let mut held = Contents::default();
        for key in keys {
            held.lock(Lock { until: UNTIL_LIFTED.into(), under: key.map(str::to_owned) });
        }
        let mut spec = serde_json::json!({ "key": "t-acme" });
        held.say_encryption(&mut spec, "t-acme");
        spec
    };
    assert_eq!(under(&[]), serde_json::json!({ "key": "t-acme" }));
    assert_eq!(under(&[Some("t-acme")]), serde_json::json!({ "key": "t-acme" }));
    assert_eq!(under(&[Some("t-acme"), Some("other")]), serde_json::json!({ "key": null }));
    assert_eq!(under(&[Some("t-acme"), None]), serde_json::json!({ "key": "t-acme", "encrypted": false }));
}

#[test]
fn the_latest_end_of_all_locks_is_reported() {
    let mut held = Contents::default();
    for day in ["2027-01-01T00:00:00Z", "2031-05-01T00:00:00Z", "2026-12-01T00:00:00Z"] {
        held.lock(Lock { until: day.into(), under: None });
    }
    assert_eq!((held.locked, held.locked_until.as_deref()), (3, Some("2031-05-01T00:00:00Z")));
}
