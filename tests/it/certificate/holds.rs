//! Holds that keep data from being destroyed, and the data that a hold comes too late for.

use super::*;

fn hold(id: &str, scope: HoldScope) -> Hold {
    Hold {
        id: id.into(),
        kind: HoldKind::Legal,
        scope,
        reason: "case 12 O 34/26".into(),
        placed_by: "lea".into(),
        placed_at: at(5),
        review_at: None,
        placed_from: None,
    }
}

fn placing(id: &str) -> PlaceHold {
    PlaceHold {
        tenant: tenant(),
        id: id.into(),
        kind: HoldKind::Legal,
        scope: HoldScope::Tenant,
        reason: "case 12 O 34/26".into(),
        placed_by: "lea".into(),
        placed_from: None,
        review_at: None,
    }
}

fn releasing(by: &str) -> ReleaseHold {
    ReleaseHold { tenant: tenant(), id: "h".into(), released_by: by.into(), reason: "settled".into() }
}

#[tokio::test]
async fn the_person_who_placed_a_hold_cannot_release_it_and_it_blocks_destruction() {
    let (mut books, executions) = inventoried().await;
    let call = executions.call(RUN);
    books.act(&placing("h"), &call).unwrap();
    books.act(&placing("h"), &call).unwrap();

    let held = books.act(&passing(), &call).unwrap_err();
    assert_eq!(held.code, codes::HELD);
    assert!(held.message.contains("h (legal, the whole tenant, by lea)"), "{held}");
    assert_eq!(books.act(&releasing("lea"), &call).unwrap_err().code, codes::HOLD_REFUSED);

    let released = books.act(&releasing("jo"), &call).unwrap();
    assert_eq!(released, books.act(&releasing("jo"), &call).unwrap(), "a released hold stays released");
    books.act(&passing(), &call).unwrap();
    assert_eq!(books.find::<ReleasedHold>("acme/h"), Some(released));
}

/// A released name may be used by another hold; the records of the earlier holds stay.
#[tokio::test]
async fn each_released_hold_keeps_its_own_record() {
    let (mut books, executions) = inventoried().await;
    let call = executions.call(RUN);
    for reason in ["settled A", "settled B", "settled C"] {
        books.act(&placing("h"), &call).unwrap();
        books.act(&placing("other"), &call).unwrap();
        books.act(&ReleaseHold { reason: reason.into(), ..releasing("jo") }, &call).unwrap();
        assert_eq!(books.act(&passing(), &call).unwrap_err().code, codes::HELD, "the other hold is active");
    }

    let all: Vec<ReleasedHold> = books.decide(|view| ReleasedHold::all_of(view, &tenant(), "h")).unwrap();

    let reasons: Vec<_> = all.iter().map(|released| released.reason.as_str()).collect();
    assert_eq!(reasons, ["settled A", "settled B", "settled C"]);
    assert_eq!(books.all::<ReleasedHold>().len(), 3);
}

/// A record of an earlier version has no number.
#[test]
fn a_hold_released_by_an_earlier_version_is_the_first_record_of_its_name() {
    let released = ReleasedHold {
        tenant: tenant(),
        hold: hold("h", HoldScope::Tenant),
        released_by: "jo".into(),
        released_at: at(6),
        reason: "settled".into(),
        number: 1,
    };
    let body = serde_json::to_value(&released).unwrap();
    assert!(body.get("number").is_none(), "{body}");
    assert_eq!(serde_json::from_value::<ReleasedHold>(body).unwrap(), released);
    assert_eq!(engine::Entity::id(&released), "acme/h");
}

#[tokio::test]
async fn a_hold_after_the_pivot_is_refused_with_the_destroyed_and_the_remaining_assets() {
    let (mut books, executions) = inventoried().await;
    let call = executions.call(RUN);
    let passed = books.act(&passing(), &call).unwrap();
    assert_eq!(books.act(&passing(), &call).unwrap(), passed, "the pivot is passed once");
    let key = things().remove(5);
    books.act(&KeepRecords { records: vec![record(&key)] }, &call).unwrap();

    let refused = books.decide(|view| placing("late").place(view)).unwrap().unwrap_err();

    let standing = refused.standing.clone().unwrap();
    assert_eq!(standing.destroyed, vec![key.id]);
    assert_eq!(standing.still_there.len(), 7);
    assert!(refused.to_string().contains("destroyed: key:transit/t-acme; still there:"), "{refused}");
    assert_eq!(books.act(&placing("late"), &call).unwrap_err().code, codes::PAST_PIVOT);
}

/// Both read the same documents: the first commit makes the other one decide again.
#[tokio::test]
async fn of_a_concurrent_hold_and_pivot_one_commits() {
    let (books, executions) = inventoried().await;
    let call = executions.call(RUN);
    let place = |books: &Books| books.weigh(|view| engine::LedgerAction::decide(&placing("h"), view, &call));
    let pass = |books: &Books| books.weigh(|view| engine::LedgerAction::decide(&passing(), view, &call));
    let (first, second) = (place(&books).unwrap(), pass(&books).unwrap());

    let mut held = books.clone();
    held.apply(first.2);
    assert!(!held.holds(&second.1));
    assert_eq!(pass(&held).unwrap_err().code, codes::HELD);
    let mut past = books.clone();
    past.apply(second.2);
    assert!(!past.holds(&first.1));
    assert_eq!(place(&past).unwrap_err().code, codes::PAST_PIVOT);
}

#[tokio::test]
async fn the_destruction_begins_only_with_the_approved_and_settled_inventory() {
    let (mut books, executions) = inventoried().await;
    let call = executions.call(RUN);
    let other = PassPivot { approved: Digest::from_bytes(b"other"), ..passing() };
    assert_eq!(books.act(&other, &call).unwrap_err().code, codes::INVENTORY_CHANGED);

    for (open, change) in [
        (OpenReason::Orphan, Asset { discovered_by: [Scan::Live].into(), ..asset(AssetType::Pv, "orphan") }),
        (
            OpenReason::OnlyInRecords,
            Asset { discovered_by: [Scan::Records].into(), ..asset(AssetType::Pv, "lost") },
        ),
        (OpenReason::Unclassified, Asset { data_class: None, ..asset(AssetType::Pv, "what") }),
    ] {
        let seen = [things(), vec![change]].concat();
        let head = books.act(&KeepInventory { tenant: tenant(), seen: seen.clone() }, &call).unwrap();
        assert_eq!(
            Inventory::from_scans(seen).unwrap().open_questions().into_values().collect::<Vec<_>>(),
            [open]
        );
        let refused = books.act(&PassPivot { approved: head.digest, ..passing() }, &call).unwrap_err();
        assert_eq!(refused.code, codes::INVENTORY_OPEN);
    }

    books.act(&KeepInventory { tenant: tenant(), seen: things() }, &call).unwrap();
    books.act(&passing(), &call).unwrap();
    let late = KeepInventory { tenant: tenant(), seen: things().into_iter().skip(1).collect() };
    assert_eq!(
        books.act(&late, &call).unwrap_err().code,
        codes::INVENTORY_CHANGED,
        "the inventory is fixed past the pivot"
    );
    books.act(&ForgetInventory { tenant: tenant() }, &call).unwrap();
    assert_eq!(books.all::<InventoryHead>().len(), 1);
}

#[test]
fn scans_with_different_serial_numbers_of_one_asset_conflict() {
    let one = asset(AssetType::Nvme, "n/0");
    let other = Asset { serial: Some("another".into()), ..one.clone() };
    assert_eq!(Inventory::from_scans([one.clone(), other]), Err(BTreeSet::from([one.id.clone()])));
    let records =
        Asset { serial: None, discovered_by: [Scan::Records].into(), data_class: None, ..one.clone() };
    let live = Asset { discovered_by: [Scan::Live].into(), ..one.clone() };
    let joined = Inventory::from_scans([records, live]).unwrap();
    assert_eq!(joined.open_questions(), BTreeMap::new(), "both observations are merged");
    assert_eq!(joined.get(&one.id).unwrap().serial, one.serial);
}

proptest! {
    #![proptest_config(tests::cases(48))]

    /// I-13: in any order, no hold covers data whose destruction has begun, and no destruction begins under a hold.
    #[test]
    fn a_hold_and_a_destruction_never_both_succeed(moves in vec((0..3u8, 0..6usize), 1..40)) {
        let scopes = [
            HoldScope::Tenant,
            HoldScope::Workspace("a".parse().unwrap()),
            HoldScope::Workspace("b".parse().unwrap()),
            HoldScope::Asset { asset: AssetId("pv:1".into()), workspace: Some("a".parse().unwrap()) },
            HoldScope::Asset { asset: AssetId("pv:2".into()), workspace: Some("b".parse().unwrap()) },
            HoldScope::Asset { asset: AssetId("pv:3".into()), workspace: None },
        ];
        let mut holds = Holds::empty(tenant());
        for (n, (what, scope)) in moves.into_iter().enumerate() {
            let scope = scopes[scope].clone();
            let next = match what {
                0 => holds.place(hold(&format!("h{n}"), scope.clone())),
                1 => holds.pass_pivot(Pivot {
                    scope: scope.clone(),
                    run: ExecutionId::from_bytes([u8::try_from(n).unwrap(); 16]),
                    inventory: Digest::from_bytes(b"i"),
                    at: at(1),
                }),
                _ => match holds.open.first().map(|hold| hold.id.clone()) {
                    Some(id) => holds.release(&id, "judge", "over", at(2)).map(|(next, _)| next),
                    None => continue,
                },
            };
            match next {
                Ok(next) => holds = next,
                Err(HoldError::PastPivot { pivot }) => prop_assert!(pivot.scope.overlaps(&scope)),
                Err(HoldError::Held { holds: named, .. }) => prop_assert!(!named.is_empty()),
                Err(other) => prop_assert!(false, "{}", other),
            }
            for pivot in &holds.pivots {
                prop_assert!(holds.open.iter().all(|hold| !hold.scope.overlaps(&pivot.scope)));
            }
        }
    }
}
