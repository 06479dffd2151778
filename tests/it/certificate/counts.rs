//! Which results count as clean, and which never do.

use super::*;

/// a result that is absent, skipped, unknown or decided by only one person never counts.
#[test]
fn only_a_removal_that_was_verified_and_accepted_by_another_person_counts() {
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
    assert_eq!(fails(Nvme, &|it| it.result = SanitisationOutcome::Unknown), NotClean::Unknown);
    assert_eq!(
        fails(Nvme, &|it| it.result = SanitisationOutcome::SanitisedUnverified),
        NotClean::NotVerified
    );
    assert_eq!(fails(Nvme, &|it| it.verification = None), NotClean::NotVerified);
    assert_eq!(fails(Nvme, &|it| it.verification.as_mut().unwrap().checked = 0), NotClean::NothingChecked);
    assert_eq!(
        fails(Nvme, &|it| it.verification.as_mut().unwrap().unreadable = 1),
        NotClean::Mismatches { mismatches: 0, unreadable: 1 }
    );
    assert_eq!(fails(Nvme, &|it| it.method = None), NotClean::NoMethod);
    assert_eq!(fails(Nvme, &|it| it.technique = Technique::Nothing), NotClean::NothingDone);
    assert_eq!(fails(Nvme, &|it| it.validation = None), NotClean::NotValidated);
    assert!(matches!(
        fails(Nvme, &|it| it.validation.as_mut().unwrap().decision = ValidationVerdict::Reject),
        NotClean::Rejected { .. }
    ));
    assert!(matches!(
        fails(Nvme, &|it| it.validation.as_mut().unwrap().actor.name = "scrubber ".into()),
        NotClean::SameActor { .. }
    ));
    assert_eq!(fails(Nvme, &|it| it.ended_at = None), NotClean::NotEnded);
    assert!(matches!(fails(Nvme, &|it| it.started_at = at(115)), NotClean::OutOfOrder { .. }));
    assert_eq!(fails(Gpu, &|it| it.scrub = None), NotClean::NoScrub);
    assert!(matches!(fails(Gpu, &|it| it.scrub.as_mut().unwrap().bytes_covered = 1), NotClean::Scrub(_)));
    assert_eq!(fails(Node, &|it| it.firmware = None), NotClean::NoFirmwareCheck);
    assert!(matches!(
        fails(Node, &|it| it.firmware = Some(FirmwareCheck::Differs { what: "BMC".into() })),
        NotClean::Firmware { .. }
    ));
    assert_eq!(fails(Key, &|it| it.key = None), NotClean::NoKeyFacts);
    assert_eq!(fails(Key, &|it| it.key.as_mut().unwrap().exportable = true), NotClean::KeyCouldLeave);
    for way in <workflows::platform::WayBack as strum::VariantArray>::VARIANTS {
        let ways = BTreeSet::from([*way]);
        let came_back = fails(Key, &|it| it.key.as_mut().unwrap().can_come_back = ways.clone());
        assert_eq!(came_back, NotClean::KeyCanComeBack { ways });
    }
    assert_eq!(fails(Key, &|it| it.key.as_mut().unwrap().observed_absent = false), NotClean::KeyNotProbed);
}

#[test]
fn a_destroyed_medium_needs_two_witnesses_and_an_exemption_needs_a_rule() {
    let with = |kind, result| SanitisationRecord { result, ..record(&asset(kind, "x")) }.passes();
    let seen = |names: &[&str]| SanitisationOutcome::PhysicallyDestroyed {
        witnesses: names.iter().map(|name| Actor::person(*name, "guard")).collect(),
    };
    assert_eq!(with(AssetType::Nvme, seen(&["ann", "ben"])), Ok(()));
    for few in [&[][..], &["ann"], &["ann", "ann "], &["ann", ""]] {
        assert!(matches!(with(AssetType::Nvme, seen(few)), Err(NotClean::Witnesses { .. })), "{few:?}");
    }
    let exempt = |rule: &str, reason: &str, destroy_by| SanitisationOutcome::NotApplicable {
        rule: rule.into(),
        reason: reason.into(),
        destroy_by,
    };
    assert_eq!(with(AssetType::Dns, exempt("holds_no_data", "a name", None)), Ok(()));
    assert_eq!(with(AssetType::Backup, exempt("backup_beyond_use", "tape", Some(at(9)))), Ok(()));
    assert!(matches!(
        with(AssetType::Backup, exempt("backup_beyond_use", "tape", None)),
        Err(NotClean::NoDay { .. })
    ));
    assert!(matches!(
        with(AssetType::Dns, exempt("holds_no_data", " ", None)),
        Err(NotClean::NoReason { .. })
    ));
    assert!(matches!(with(AssetType::Dns, exempt("because", "so", None)), Err(NotClean::NoSuchRule { .. })));
    for rule in EXEMPTION_RULES {
        let medium = with(AssetType::Nvme, exempt(rule.name, "so", Some(at(9))));
        assert!(matches!(medium, Err(NotClean::RuleDoesNotHold { .. })), "no rule covers a medium");
    }
}

/// I-6 and S-129: every asset of the node has a record, newer than the last service.
#[test]
fn a_node_is_clean_only_if_all_its_assets_were_cleaned_since_its_last_service() {
    let parts: Vec<_> = things().into_iter().take(4).collect();
    let records: BTreeMap<_, _> = parts.iter().map(|it| (it.id.clone(), record(it))).collect();
    assert_eq!(node_is_clean(&parts, &records, at(100)), Ok(()));
    assert_eq!(node_is_clean(&parts, &records, at(101)).unwrap_err().len(), 4);
    for part in &parts {
        let mut fewer = records.clone();
        fewer.remove(&part.id);
        assert_eq!(
            node_is_clean(&parts, &fewer, at(100)).unwrap_err(),
            BTreeMap::from([(part.id.clone(), NotClean::NoRecord)])
        );
    }
    assert!(node_is_clean([], &records, at(100)).is_err(), "an empty result is not clean");
}
