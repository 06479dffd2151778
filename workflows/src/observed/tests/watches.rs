//! The watch protocol.

use super::*;

type Pods = Table<PodObject>;

fn apply(pods: &mut Pods, batch: Batch<PodObject>) -> Vec<Delta<PodObject>> {
    pods.apply(batch).unwrap()
}

#[test]
fn an_object_that_a_list_lacks_has_vanished_between_the_last_complete_time_and_the_list() {
    let mut pods = Pods::default();
    apply(&mut pods, list(mark(1, 1, 0), at(0), vec![pod("a", "n-0", 1), pod("b", "n-0", 1)]));
    apply(&mut pods, batch(mark(1, 1, 1), at(7), vec![]));

    let deltas = apply(&mut pods, list(mark(1, 2, 0), at(30), vec![pod("b", "n-0", 1)]));

    let how = Ending::Vanished { after: at(7), before: at(30) };
    assert_eq!(deltas, [Delta::Ended { last: pod("a", "n-0", 1), how }]);
    assert_eq!(uids(&pods), [uid("b")].into());
    assert_eq!(pods.counts().vanished, 1);
}

#[test]
fn a_list_that_fails_changes_nothing() {
    let mut pods = Pods::default();
    apply(&mut pods, list(mark(1, 1, 0), at(0), vec![pod("a", "n-0", 1), pod("b", "n-0", 1)]));
    let before: Vec<_> = pods.iter().cloned().collect();

    let events = vec![
        WatchEvent::Init,
        WatchEvent::InitApply(ended(&pod("a", "n-0", 1))),
        WatchEvent::InitApply(pod("new", "n-0", 1)),
    ];
    assert_eq!(apply(&mut pods, batch(mark(1, 2, 0), at(9), events)), []);
    assert_eq!(pods.iter().cloned().collect::<Vec<_>>(), before, "the list is not complete");
    assert!(pods.is_listing() && pods.complete_at() == Some(at(0)));

    let same = list(mark(1, 3, 0), at(20), before.clone());
    assert_eq!(apply(&mut pods, same), [], "nothing of the failed list is left");
    assert_eq!((pods.counts().failed_lists, pods.counts().vanished), (1, 0));
}

/// C-39.
#[test]
fn an_object_with_the_name_of_another_is_another_object() {
    let mut pods = Pods::default();
    apply(&mut pods, list(mark(1, 1, 0), at(0), vec![pod("old", "n-0", 1)]));

    let deltas = apply(&mut pods, batch(mark(1, 1, 1), at(1), vec![WatchEvent::Apply(pod("new", "n-0", 1))]));
    assert_eq!(deltas, [Delta::Appeared(uid("new"))]);
    assert_eq!(uids(&pods), [uid("old"), uid("new")].into(), "the deletion was lost");

    let late = batch(mark(1, 1, 2), at(2), vec![WatchEvent::Delete(uid("old"))]);
    assert!(matches!(apply(&mut pods, late)[..], [Delta::Ended { how: Ending::Deleted, .. }]));
    assert_eq!(uids(&pods), [uid("new")].into());
}

#[test]
fn batches_of_an_older_term_or_round_and_batches_after_a_gap_are_refused_whole() {
    let mut pods = Pods::default();
    let some = || vec![WatchEvent::Apply(pod("x", "n-0", 1))];
    assert_eq!(pods.apply(batch(mark(1, 1, 0), at(0), some())), Err(Refusal::NoList));
    apply(&mut pods, list(mark(3, 4, 0), at(0), vec![pod("a", "n-0", 1)]));

    let refused = [
        (list(mark(2, 9, 0), at(1), vec![]), Refusal::OldTerm { batch: Term(2), current: Term(3) }),
        (list(mark(3, 3, 0), at(1), vec![]), Refusal::OldRound { batch: 3, current: 4 }),
        (batch(mark(3, 4, 2), at(1), some()), Refusal::Gap { batch: 2, expected: 1 }),
        (batch(mark(4, 1, 0), at(1), some()), Refusal::NoList),
        (batch(mark(3, 5, 1), at(1), vec![WatchEvent::Init]), Refusal::NoList),
        (batch(mark(3, 4, 1), at(1), vec![WatchEvent::InitDone]), Refusal::Malformed),
        (batch(mark(3, 4, 1), at(1), vec![WatchEvent::InitApply(pod("x", "n-0", 1))]), Refusal::Malformed),
    ];
    let all = u64::try_from(refused.len()).unwrap() + 1;
    for (batch, refusal) in refused {
        assert_eq!(pods.apply(batch), Err(refusal));
        assert_eq!(uids(&pods), [uid("a")].into());
    }
    assert_eq!(pods.counts().refused, all);

    assert_eq!(apply(&mut pods, list(mark(3, 4, 0), at(1), vec![])), [], "a repeated batch");
    assert_eq!(uids(&pods), [uid("a")].into());
    assert_eq!(apply(&mut pods, batch(mark(3, 4, 1), at(2), some())).len(), 1);
    assert_eq!(
        apply(&mut pods, list(mark(4, 1, 0), at(3), vec![])).len(),
        2,
        "a new term begins with a list"
    );
}

/// C-38, C-39.
#[test]
fn an_object_never_gets_an_older_version_and_versions_are_numbers() {
    let version = |version, gpus| PodObject { version, ..pod("a", "n-0", gpus) };
    let mut pods = Pods::default();
    apply(&mut pods, list(mark(1, 1, 0), at(0), vec![version(9, 1)]));
    assert_eq!(
        apply(&mut pods, batch(mark(1, 1, 1), at(1), vec![WatchEvent::Apply(version(10, 2))])).len(),
        1
    );

    assert_eq!(apply(&mut pods, list(mark(1, 2, 0), at(2), vec![version(9, 1)])), []);

    assert_eq!(pods.get(uid("a")).unwrap().gpus, 2);
    assert_eq!(pods.counts().outdated, 1);
}

#[test]
fn an_event_before_the_list_is_complete_is_refused() {
    let mut pods = Pods::default();
    apply(&mut pods, batch(mark(1, 1, 0), at(0), vec![WatchEvent::Init]));
    let early = batch(mark(1, 1, 1), at(1), vec![WatchEvent::Delete(uid("a"))]);
    assert_eq!(pods.apply(early), Err(Refusal::Malformed));
    assert!(!pods.is_synced(), "an empty index is no evidence of absence");
}
