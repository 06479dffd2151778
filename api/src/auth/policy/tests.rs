//! Decisions of the policies for every verb, role, tenant and scope; and rejections of invalid policies of the operator.

use super::*;
use std::fs;

const FILE: &str = "house.cedar";

fn house(text: &str) -> Result<AccessPolicy, Vec<String>> {
    AccessPolicy::of(Some((FILE, text)))
}

fn user<'a>(roles: &'a [Role], tenant: Option<&'a str>) -> Principal<'a> {
    Principal::User { name: "ada", roles, tenant }
}

fn now() -> RequestContext {
    RequestContext::default()
}

/// Returns the errors of an invalid text.
fn faults(text: &str) -> String {
    house(text).err().unwrap_or_else(|| panic!("this text was accepted: {text}")).join("\n")
}

#[test]
fn the_built_in_policies_match_the_schema() {
    assert_eq!(house("").map(|_| ()), Ok(()));
    assert!(SHIPPED.contains("tenants.apart") && AccessPolicy::shipped().names.is_some());
}

#[test]
fn a_caller_bound_to_a_tenant_acts_only_for_it_whatever_roles_and_policies_say() {
    let generous = house("@id(\"all\") permit (principal, action, resource);").unwrap();
    for law in [&*AccessPolicy::shipped(), &generous] {
        for verb in Verb::VARIANTS.iter().copied() {
            let each = Role::VARIANTS.iter().map(std::slice::from_ref);
            for roles in each.chain([Role::VARIANTS, &[]]) {
                let may = |tenant, place| law.decide(&user(roles, tenant), verb, place, &now());
                let outside = [
                    ResourceScope::Platform,
                    ResourceScope::Tenant("zeta"),
                    ResourceScope::Tenant("acm"),
                    ResourceScope::Tenant(""),
                ];
                for place in outside {
                    let decision = may(Some("acme"), place);
                    assert!(!decision.allows, "{roles:?} {verb:?} {place:?}");
                    assert_eq!(decision.by, ["tenants.apart"]);
                }
                let (own, staff) =
                    (may(Some("acme"), ResourceScope::Tenant("acme")), may(None, ResourceScope::Platform));
                assert_eq!(own.allows, staff.allows, "{roles:?} {verb:?}");
            }
        }
    }
}

#[test]
fn without_roles_nothing_is_permitted_and_each_role_only_adds_permissions() {
    let law = AccessPolicy::shipped();
    for verb in Verb::VARIANTS.iter().copied() {
        let none = law.decide(&user(&[], None), verb, ResourceScope::Platform, &now());
        assert_eq!(none, Decision { allows: false, by: Vec::new(), broken: None });
        let may = law.roles(verb);
        assert!(may.contains(&Role::Admin), "an admin may not {verb:?}");
        for pair in Role::VARIANTS.windows(2) {
            let both = law.decide(&user(pair, None), verb, ResourceScope::Platform, &now());
            assert_eq!(both.allows, pair.iter().any(|role| may.contains(role)), "{pair:?} {verb:?}");
        }
        let reads_or_is_none = verb.name().starts_with("read_") || !may.contains(&Role::Auditor);
        assert!(reads_or_is_none, "an auditor changes nothing: {verb:?}");
    }
    assert_eq!(law.roles(Verb::ManageUsers), [Role::Admin]);
}

#[test]
fn the_key_of_a_cluster_pushes_the_facts_of_its_tenant_and_does_nothing_else() {
    let law = AccessPolicy::shipped();
    let key = |scopes| Principal::Cluster { name: "eu-1", tenant: "acme", scopes };
    for verb in Verb::VARIANTS.iter().copied() {
        for place in [ResourceScope::Platform, ResourceScope::Tenant("acme"), ResourceScope::Tenant("zeta")] {
            let allows = law.decide(&key(&["facts.push"]), verb, place, &now()).allows;
            assert_eq!(
                allows,
                verb == Verb::PushFacts && place == ResourceScope::Tenant("acme"),
                "{verb:?} {place:?}"
            );
            assert!(!law.decide(&key(&["commands.pull"]), verb, place, &now()).allows);
        }
    }
}

#[test]
fn a_forbid_of_the_operator_overrides_permits_and_the_decision_names_it() {
    let law = house(
        "@id(\"house.no-alone\") forbid (principal in Tenure::Role::\"admin\", action == Tenure::Action::\"hold_store\", resource);\n\
         @id(\"house.finance\") permit (principal in Tenure::Role::\"finance\", action == Tenure::Action::\"change_quota\", resource);",
    )
    .unwrap();
    let decide = |roles, verb| law.decide(&user(roles, None), verb, ResourceScope::Platform, &now());
    let refused = decide(&[Role::Admin, Role::PlatformOps], Verb::HoldStore);
    assert!(!refused.allows && refused.why() == "policy house.no-alone forbids it", "{refused:?}");
    let allowed = decide(&[Role::Finance], Verb::ChangeQuota);
    assert!(allowed.allows && allowed.why() == "policy house.finance permits it", "{allowed:?}");
    assert_eq!(decide(&[Role::Auditor], Verb::Cancel).why(), "no access policy permits it");
    assert!(law.roles(Verb::ChangeQuota).contains(&Role::Finance));
    assert_ne!(law.version(), AccessPolicy::shipped().version());
}

#[test]
fn decisions_depend_on_address_time_and_dry_run() {
    let law = house(
        "@id(\"inside\") forbid (principal in Tenure::Role::\"breakglass\", action in Tenure::Action::\"change\", resource)\n\
         unless { context has from && context.from.isInRange(ip(\"10.0.0.0/8\")) };\n\
         @id(\"until\") forbid (principal == Tenure::User::\"ada\", action, resource)\n\
         when { context.at >= datetime(\"2026-12-01T00:00:00Z\") };\n\
         @id(\"plans\") permit (principal in Tenure::Role::\"finance\", action == Tenure::Action::\"offboard\", resource)\n\
         when { context.plans };",
    )
    .unwrap();
    let may = |role: Role, verb, how: RequestContext| {
        law.decide(&user(&[role], None), verb, ResourceScope::Platform, &how).allows
    };
    let from = |text: &str| RequestContext { from: Some(text.parse().unwrap()), ..now() };
    assert!(may(Role::Breakglass, Verb::Cancel, from("10.1.2.3")));
    assert!(!may(Role::Breakglass, Verb::Cancel, from("192.0.2.1")));
    assert!(!may(Role::Breakglass, Verb::Cancel, now()), "an unknown address never satisfies a condition");
    assert!(may(Role::Breakglass, Verb::ReadExecutions, from("2001:db8::1")));
    // 2026-12-01T00:00:00Z.
    let at = |millis| RequestContext { at: ::store::Timestamp(millis), ..now() };
    assert!(may(Role::Auditor, Verb::ReadAudit, at(1_796_083_199_999)));
    assert!(!may(Role::Auditor, Verb::ReadAudit, at(1_796_083_200_000)));
    assert!(may(Role::Finance, Verb::Offboard, RequestContext { plans: true, ..now() }));
    assert!(!may(Role::Finance, Verb::Offboard, now()));
}

#[test]
fn a_policy_with_an_evaluation_error_refuses_the_request() {
    let text = "@id(\"odd\") forbid (principal, action == Tenure::Action::\"cancel\", resource)\n\
                when { context.plans || principal has name && 9223372036854775807 + 1 > 0 };";
    // The schema accepts a sum.
    let law = house(text).unwrap();
    let decide = |verb| law.decide(&user(&[Role::Admin], None), verb, ResourceScope::Platform, &now());
    let refused = decide(Verb::Cancel);
    assert!(!refused.allows && refused.broken.is_some(), "{refused:?}");
    assert!(
        refused.why().contains("could not be evaluated") && refused.why().contains("odd"),
        "{}",
        refused.why()
    );
    assert!(decide(Verb::Repair).allows);
}

#[test]
fn an_invalid_policy_is_rejected_with_file_line_and_suggestion() {
    let permit = |scope: &str| {
        format!("// a comment\n@id(\"x\")\npermit (\n    principal,\n    {scope},\n    resource\n);")
    };
    let told = faults(&permit("action == Tenure::Action::\"hold_stor\""));
    assert!(told.starts_with("house.cedar:5: ") && told.contains("did you mean \"hold_store\"?"), "{told}");
    let told = faults("@id(\"x\") forbid (principal in Tenure::Role::\"finanse\", action, resource);");
    assert!(told.contains("house.cedar:1: ") && told.contains("did you mean \"finance\"?"), "{told}");
    let when = |text: &str| {
        format!(
            "@id(\"x\") forbid (principal is Tenure::User, action == Tenure::Action::\"cancel\", resource)\nwhen {{ {text} }};"
        )
    };
    let told = faults(&when("principal.tenannt == resource"));
    assert!(told.starts_with("house.cedar:2: ") && told.contains("tenannt"), "{told}");
    // With an unknown address, the policy would not apply.
    let told = faults(&when("context.from.isLoopback()"));
    assert!(told.starts_with("house.cedar:2: ") && told.contains("from"), "{told}");
    let told = faults(&when("principal.name == 7"));
    assert!(told.starts_with("house.cedar:2: "), "{told}");
    let told = faults("\n\npermit (principal, action, resource)");
    assert!(told.starts_with("house.cedar:3: "), "{told}");
    let told = faults("forbid (principal, action, resource);");
    assert!(told.contains("has no id") && told.contains("@id("), "{told}");
    let twice = "@id(\"a\") forbid (principal, action, resource) when { false };";
    let told = faults(&format!("{twice}\n{twice}"));
    assert!(told.contains("house.cedar already has a policy a"), "{told}");
    let told = faults("@id(\"admin\") permit (principal, action, resource);");
    assert!(told.contains("the built-in policies already has a policy admin"), "{told}");
    let told = faults("@id(\"t\") permit (principal == ?principal, action, resource);");
    assert!(told.contains("templates are not supported"), "{told}");
}

#[test]
fn a_valid_change_of_the_file_takes_effect_and_an_invalid_one_does_not() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(FILE);
    let name = path.display().to_string();
    let missing = PolicyStore::open(&name).unwrap_err();
    assert!(missing.starts_with("access.policies: ") && missing.contains(&name), "{missing}");
    fs::write(&path, "permit (").unwrap();
    assert!(PolicyStore::open(&name).unwrap_err().starts_with("access.policies: "));

    let forbid = |verb: &str| {
        format!("@id(\"h\") forbid (principal, action == Tenure::Action::\"{verb}\", resource);")
    };
    fs::write(&path, forbid("cancel")).unwrap();
    let book = PolicyStore::open(&name).unwrap();
    let may =
        |verb| book.law().decide(&user(&[Role::Admin], None), verb, ResourceScope::Platform, &now()).allows;
    assert!(!may(Verb::Cancel) && may(Verb::Repair));
    assert_eq!(book.renew(), Ok(false));
    let before = book.law();

    fs::write(&path, forbid("repare")).unwrap();
    assert!(book.renew().unwrap_err().contains("did you mean \"repair\"?"));
    assert_eq!(book.renew(), Ok(false), "the same error is logged once");
    assert!(book.law() == before && !may(Verb::Cancel));
    fs::remove_file(&path).unwrap();
    assert!(book.renew().is_err() && book.renew() == Ok(false) && !may(Verb::Cancel));

    fs::write(&path, forbid("repair")).unwrap();
    assert_eq!(book.renew(), Ok(true));
    assert!(may(Verb::Cancel) && !may(Verb::Repair));
    assert_eq!(book.now().1.map(|(_, text)| text), Some(forbid("repair")));
}
