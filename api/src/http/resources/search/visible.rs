//! Which rows of `/v1/stuck` a caller sees.
//!
//! Invariant: every list of the answer is a [`Visible`], which only [`Sight::only`] makes, so no source of rows reaches a caller
//! unfiltered.

use crate::{
    auth::{Caller, Verb, policy::ResourceScope},
    types::{
        channels, executions,
        operations::{StuckHold, StuckPlatform},
        schedules,
    },
};
use schemars::JsonSchema;
use serde::Serialize;
use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

/// A row of `/v1/stuck`: whose it is, and what a caller must be permitted to do to see it.
pub(super) trait StuckRow {
    /// Its tenant; empty for the platform's own.
    fn tenant(&self) -> &str;
    /// What it is read by.
    fn read_by(&self) -> Verb;
}

/// Rows that their caller sees.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(transparent)]
#[schemars(inline)]
pub(super) struct Visible<T>(Vec<T>);

impl<T> Visible<T> {
    /// The rows.
    pub(super) fn into_rows(self) -> Vec<T> {
        self.0
    }
}

/// What one caller sees. Each tenant is decided once for each verb.
pub(super) struct Sight {
    caller: Caller,
    decided: Mutex<BTreeMap<(&'static str, String), bool>>,
}

impl Sight {
    pub(super) fn of(caller: &Caller) -> Self {
        Self { caller: caller.clone(), decided: Mutex::default() }
    }

    /// Keeps the rows that the caller sees.
    pub(super) fn only<T: StuckRow>(&self, rows: impl IntoIterator<Item = T>) -> Visible<T> {
        Visible(rows.into_iter().filter(|row| self.sees(row.tenant(), row.read_by())).collect())
    }

    /// Returns true if the caller sees what is `tenant`'s and read by `verb`; an empty tenant is the platform.
    pub(super) fn sees(&self, tenant: &str, verb: Verb) -> bool {
        let key = (verb.name(), tenant.to_owned());
        *self.decided().entry(key).or_insert_with(|| self.decide(tenant, verb))
    }

    fn decided(&self) -> MutexGuard<'_, BTreeMap<(&'static str, String), bool>> {
        self.decided.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A tenant's people see what is their tenant's. People of the platform see what they may read for the platform, unless a policy
    /// forbids it to them for that tenant.
    fn decide(&self, tenant: &str, verb: Verb) -> bool {
        let caller = &self.caller;
        match &caller.tenant {
            Some(own) => own == tenant && caller.sees(tenant) && caller.may(verb),
            None if !caller.may(verb) => false,
            None if tenant.is_empty() => true,
            None => {
                let decision = caller.decide(verb, ResourceScope::Tenant(tenant));
                // Permits of roles name no tenant; where none applies, that for the platform counts.
                let is_forbidden = !decision.allows && (!decision.by.is_empty() || decision.broken.is_some());
                !is_forbidden
            }
        }
    }
}

impl StuckRow for executions::Stuck {
    fn tenant(&self) -> &str {
        &self.row.tenant
    }
    fn read_by(&self) -> Verb {
        Verb::ReadExecutions
    }
}

impl StuckRow for channels::Stuck {
    fn tenant(&self) -> &str {
        ""
    }
    fn read_by(&self) -> Verb {
        Verb::ReadChannels
    }
}

impl StuckRow for schedules::Stuck {
    fn tenant(&self) -> &str {
        ""
    }
    fn read_by(&self) -> Verb {
        Verb::ReadSchedules
    }
}

impl StuckRow for StuckPlatform {
    fn tenant(&self) -> &str {
        self.tenant.as_deref().unwrap_or_default()
    }
    /// A workload that does not start is read as an execution is.
    fn read_by(&self) -> Verb {
        if self.tenant.is_some() { Verb::ReadExecutions } else { Verb::ReadLimits }
    }
}

impl StuckRow for StuckHold {
    fn tenant(&self) -> &str {
        &self.tenant
    }
    fn read_by(&self) -> Verb {
        Verb::ReadHolds
    }
}

impl StuckRow for schedules::StuckClosedTenant {
    fn tenant(&self) -> &str {
        &self.tenant
    }
    fn read_by(&self) -> Verb {
        Verb::ReadSweeps
    }
}

/// What leaves operators without word.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(transparent)]
#[schemars(inline)]
pub(super) struct Warning(pub(super) String);

impl StuckRow for Warning {
    fn tenant(&self) -> &str {
        ""
    }
    fn read_by(&self) -> Verb {
        Verb::ReadChannels
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::{Role, policy::AccessPolicy};
    use std::sync::Arc;
    use strum::VariantArray as _;

    /// A row of any source.
    struct Row(&'static str, Verb);

    impl StuckRow for Row {
        fn tenant(&self) -> &str {
            self.0
        }
        fn read_by(&self) -> Verb {
            self.1
        }
    }

    /// What every source reads its rows by, and whether its rows are of tenants.
    const SOURCES: [(Verb, bool); 7] = [
        (Verb::ReadExecutions, true),
        (Verb::ReadExecutions, false),
        (Verb::ReadHolds, true),
        (Verb::ReadLimits, false),
        (Verb::ReadChannels, false),
        (Verb::ReadSchedules, false),
        (Verb::ReadSweeps, true),
    ];

    fn seen(caller: &Caller) -> Vec<(&'static str, Verb)> {
        let rows = SOURCES.into_iter().flat_map(|(verb, of_tenants)| {
            let tenants: &[&'static str] = if of_tenants { &["acme", "zeta"] } else { &[""] };
            tenants.iter().map(move |tenant| Row(tenant, verb))
        });
        Sight::of(caller).only(rows).into_rows().into_iter().map(|row| (row.0, row.1)).collect()
    }

    #[test]
    fn a_policy_that_hides_a_tenant_from_a_platform_user_hides_its_rows_of_every_source() {
        let forbids = r#"@id("not.zeta") forbid (principal, action, resource == Tenure::Tenant::"zeta");"#;
        let law = Arc::new(AccessPolicy::of(Some(("rules.cedar", forbids))).unwrap());
        let caller = Caller::new("eve", vec![Role::Admin], None, law);

        let seen = seen(&caller);

        assert!(seen.iter().all(|(tenant, _)| *tenant != "zeta"), "{seen:?}");
        for (verb, of_tenants) in SOURCES {
            let tenant = if of_tenants { "acme" } else { "" };
            assert!(seen.contains(&(tenant, verb)), "{tenant:?} {verb:?}");
        }
    }

    #[test]
    fn users_of_a_tenant_see_the_rows_of_their_tenant_and_none_of_the_platform() {
        for role in Role::VARIANTS {
            let caller = Caller::new("ada", vec![*role], Some("acme".into()), AccessPolicy::shipped());
            let seen = seen(&caller);
            assert!(
                seen.iter().all(|(tenant, verb)| *tenant == "acme" && caller.may(*verb)),
                "{role:?} {seen:?}"
            );
        }
        let owner = Caller::new("ada", vec![Role::TenantOwner], Some("acme".into()), AccessPolicy::shipped());
        assert!(seen(&owner).contains(&("acme", Verb::ReadExecutions)));
    }

    #[test]
    fn a_caller_who_cannot_read_a_source_sees_no_row_of_it() {
        for role in Role::VARIANTS {
            let caller = Caller::new("ada", vec![*role], None, AccessPolicy::shipped());
            let seen = seen(&caller);
            for (verb, _) in SOURCES {
                assert_eq!(seen.iter().any(|(_, read)| *read == verb), caller.may(verb), "{role:?} {verb:?}");
            }
        }
    }
}
