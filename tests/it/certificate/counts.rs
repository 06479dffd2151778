//! What counts as clean, and what never does.

use super::*;

/// what is absent, skipped, unknown or decided by one alone never counts.
#[test]
fn only_what_was_done_verified_and_accepted_by_another_counts() {
    let good = |kind| record(&asset(kind, "x/y"));
    for kind in <AssetType as strum::VariantArray>::VARIANTS {
        assert_eq!(good(*kind).passes(), Ok(()), "{kind}");
    }
    let fails = |kind, change: &dyn Fn(&mut SanitisationRecord)| {
        let mut record = good(kind);
        change(&mut record);
        record.passes().unwrap_err()
    };
    use AssetType::*;
    assert_eq!(fails(Nvme, &|it| it.result = Outcome::Unknown), Why::Unknown);
    assert_eq!(fails(Nvme, &|it| it.result = Outcome::SanitisedUnverified), Why::NotVerified);
    assert_eq!(fails(Nvme, &|it| it.verification = None), Why::NotVerified);
    assert_eq!(fails(Nvme, &|it| it.verification.as_mut().unwrap().checked = 0), Why::NothingChecked);
    assert_eq!(
        fails(Nvme, &|it| it.verification.as_mut().unwrap().unreadable = 1),
        Why::Mismatches { mismatches: 0, unreadable: 1 }
    );
    assert_eq!(fails(Nvme, &|it| it.method = None), Why::NoMethod);
    assert_eq!(fails(Nvme, &|it| it.technique = Technique::Nothing), Why::NothingDone);
    assert_eq!(fails(Nvme, &|it| it.validation = None), Why::NotValidated);
    assert!(matches!(
        fails(Nvme, &|it| it.validation.as_mut().unwrap().decision = Judgement::Reject),
        Why::Rejected { .. }
    ));
    assert!(matches!(
        fails(Nvme, &|it| it.validation.as_mut().unwrap().actor.name = "scrubber ".into()),
        Why::SameActor { .. }
    ));
    assert_eq!(fails(Nvme, &|it| it.ended_at = None), Why::NotEnded);
    assert!(matches!(fails(Nvme, &|it| it.started_at = at(115)), Why::OutOfOrder { .. }));
    assert_eq!(fails(Gpu, &|it| it.scrub = None), Why::NoScrub);
    assert!(matches!(fails(Gpu, &|it| it.scrub.as_mut().unwrap().bytes_covered = 1), Why::Scrub(_)));
    assert_eq!(fails(Node, &|it| it.firmware = None), Why::NoFirmwareCheck);
    assert!(matches!(
        fails(Node, &|it| it.firmware = Some(FirmwareCheck::Differs { what: "BMC".into() })),
        Why::Firmware { .. }
    ));
    assert_eq!(fails(Key, &|it| it.key = None), Why::NoKeyFacts);
    assert_eq!(fails(Key, &|it| it.key.as_mut().unwrap().exportable = true), Why::KeyCouldLeave);
    assert_eq!(fails(Key, &|it| it.key.as_mut().unwrap().observed_absent = false), Why::KeyNotProbed);
}

#[test]
fn a_destroyed_medium_needs_two_different_witnesses_and_an_exemption_a_rule() {
    let with = |kind, result| SanitisationRecord { result, ..record(&asset(kind, "x")) }.passes();
    let seen = |names: &[&str]| Outcome::PhysicallyDestroyed {
        witnesses: names.iter().map(|name| Actor::person(*name, "guard")).collect(),
    };
    assert_eq!(with(AssetType::Nvme, seen(&["ann", "ben"])), Ok(()));
    for few in [&[][..], &["ann"], &["ann", "ann "], &["ann", ""]] {
        assert!(matches!(with(AssetType::Nvme, seen(few)), Err(Why::Witnesses { .. })), "{few:?}");
    }
    let exempt = |rule: &str, reason: &str, destroy_by| Outcome::NotApplicable {
        rule: rule.into(),
        reason: reason.into(),
        destroy_by,
    };
    assert_eq!(with(AssetType::Dns, exempt("holds_no_data", "a name", None)), Ok(()));
    assert_eq!(with(AssetType::Backup, exempt("backup_beyond_use", "tape", Some(at(9)))), Ok(()));
    assert!(matches!(
        with(AssetType::Backup, exempt("backup_beyond_use", "tape", None)),
        Err(Why::NoDay { .. })
    ));
    assert!(matches!(with(AssetType::Dns, exempt("holds_no_data", " ", None)), Err(Why::NoReason { .. })));
    assert!(matches!(with(AssetType::Dns, exempt("because", "so", None)), Err(Why::NoSuchRule { .. })));
    for rule in RULES {
        let medium = with(AssetType::Nvme, exempt(rule.name, "so", Some(at(9))));
        assert!(matches!(medium, Err(Why::RuleDoesNotHold { .. })), "no rule covers a medium");
    }
}

/// I-6 and S-129: every asset of the node, and newer than the last service.
#[test]
fn a_node_is_clean_only_when_every_asset_of_it_is_and_since_its_last_service() {
    let parts: Vec<_> = things().into_iter().take(4).collect();
    let records: BTreeMap<_, _> = parts.iter().map(|it| (it.id.clone(), record(it))).collect();
    assert_eq!(node_is_clean(&parts, &records, at(100)), Ok(()));
    assert_eq!(node_is_clean(&parts, &records, at(101)).unwrap_err().len(), 4);
    for part in &parts {
        let mut fewer = records.clone();
        fewer.remove(&part.id);
        assert_eq!(
            node_is_clean(&parts, &fewer, at(100)).unwrap_err(),
            BTreeMap::from([(part.id.clone(), Why::NoRecord)])
        );
    }
    assert!(node_is_clean([], &records, at(100)).is_err(), "nothing looked at is not clean");
}
