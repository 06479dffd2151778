//! Ended workloads are kept for 400 days.

use super::books::{Books, tenant};
use crate::{scheduling::admission, tenancy::Workload};
use engine::{DAY, Entity as _};

#[test]
fn a_workload_is_kept_for_400_days_from_its_end_however_long_it_ran() {
    let mut books = Books::new(1, &[("one", 8)]);
    books.submit("one", "train", 8);
    books.now = books.now.after(DAY * 900);
    books.decide(|view| admission::finish(view, &tenant(), "train"));
    let (ended, workload) = (books.now, books.workload("train"));

    assert_eq!(workload.ended_at, Some(ended));
    assert!(!Workload::RETENTION.is_over(&workload, ended.after(DAY * 399)));
    assert!(Workload::RETENTION.is_over(&workload, ended.after(DAY * 400)));

    books.now = books.now.after(DAY);
    books.decide(|view| admission::finish(view, &tenant(), "train"));
    assert_eq!(books.workload("train").ended_at, Some(ended), "ended twice is ended once");
}

#[test]
fn a_workload_that_an_earlier_version_ended_is_kept_for_400_days_from_its_last_known_change() {
    let mut books = Books::new(1, &[("one", 8)]);
    books.submit("one", "train", 8);
    books.now = books.now.after(DAY);
    books.decide(|view| admission::finish(view, &tenant(), "train"));
    let mut old = serde_json::to_value(books.workload("train")).unwrap();
    old.as_object_mut().unwrap().remove("ended_at");
    let old: Workload = serde_json::from_value(old).unwrap();

    let admitted = old.admitted_at.unwrap();
    assert!(!Workload::RETENTION.is_over(&old, admitted.after(DAY * 399)));
    assert!(Workload::RETENTION.is_over(&old, admitted.after(DAY * 400)));
}
