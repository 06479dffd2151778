//! What a request for a tenant allows and perhaps does not mean.

use crate::{policy::OnboardingRequest, tenancy::Gpus};

impl OnboardingRequest {
    /// GPUs that the workspaces ask for by number.
    fn nominal(&self) -> Gpus {
        self.workspaces.iter().filter_map(|workspace| workspace.nominal).sum()
    }

    /// GPUs that are bought and promised to no workspace; none where a workspace without a quota gets what the others leave, or where
    /// quotas count slices.
    #[must_use]
    pub fn unpromised(&self) -> Gpus {
        let all = self.workspaces.iter().all(|workspace| workspace.nominal.is_some() && !workspace.in_slices);
        if all { self.entitlement.gpus.saturating_sub(self.nominal()) } else { Gpus::ZERO }
    }

    /// What the request allows and perhaps does not mean, for a person who checks it.
    #[must_use]
    pub fn warnings(&self) -> Vec<String> {
        let (unpromised, bought) = (self.unpromised(), self.entitlement.gpus);
        let warning = || {
            format!(
                "{unpromised} of the {bought} GPUs bought are promised to no workspace: they are the tenant's pool, which its workspaces \
                 borrow from; raise quotas to promise them"
            )
        };
        (unpromised > Gpus::ZERO).then(warning).into_iter().collect()
    }
}
