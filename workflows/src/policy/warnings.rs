//! Warnings: parts of a tenant request that may be a mistake, and parts of a platform policy without effect.

use crate::{
    policy::{Medium, Method, OnboardingRequest, PlatformPolicy},
    tenancy::Gpus,
};

impl OnboardingRequest {
    /// Returns the GPUs that the workspaces request by number.
    fn nominal(&self) -> Gpus {
        self.workspaces.iter().filter_map(|workspace| workspace.nominal).sum()
    }

    /// Returns the bought GPUs that no workspace gets; 0 if a workspace gets the rest or quotas count slices.
    #[must_use]
    pub fn unpromised(&self) -> Gpus {
        let all = self.workspaces.iter().all(|workspace| workspace.nominal.is_some() && !workspace.in_slices);
        if all { self.entitlement.gpus.saturating_sub(self.nominal()) } else { Gpus::ZERO }
    }

    /// Returns allowed parts of the request that may be a mistake, for the user who checks it.
    #[must_use]
    pub fn warnings(&self) -> Vec<String> {
        let (unpromised, bought) = (self.unpromised(), self.entitlement.gpus);
        let warning = || {
            format!(
                "{unpromised} of {bought} purchased GPUs are in no workspace's quota: workspaces can only borrow them from the tenant's pool; raise quotas to assign them"
            )
        };
        (unpromised > Gpus::ZERO).then(warning).into_iter().collect()
    }
}

/// Media that the reset of a node cleans with one method, `clear` of NIST SP 800-88.
const RESET: [Medium; 2] = [Medium::Memory, Medium::Firmware];

impl PlatformPolicy {
    /// Returns parts of the policy without effect, for the user who checks it.
    #[must_use]
    pub fn warnings(&self) -> Vec<String> {
        let rules = &self.sanitisation;
        let minimum = RESET.into_iter().map(|medium| {
            let key = format!("sanitisation.minimum.{}", <&str>::from(medium));
            (key, medium, rules.minimum.get(&medium))
        });
        let by_tier = rules.by_tier.iter().flat_map(|(tier, methods)| {
            RESET.into_iter().map(move |medium| {
                let key = format!("sanitisation.by_tier.{}.{}", <&str>::from(*tier), <&str>::from(medium));
                (key, medium, methods.get(&medium))
            })
        });
        let stronger = |(key, medium, method): (String, Medium, Option<&Method>)| {
            let method = method.filter(|method| **method != Method::Clear)?;
            let by = self.provenance.origin(&key).map(|by| format!(" ({by})")).unwrap_or_default();
            let (method, medium) = (<&str>::from(*method), <&str>::from(medium));
            Some(format!(
                "{key}{by}: `{method}` has no effect, because the reset of a node always clears {medium} in the same way; write `clear`"
            ))
        };
        minimum.chain(by_tier).filter_map(stronger).collect()
    }
}
