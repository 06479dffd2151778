//! The surveys before an inventory and before destruction, and their results.

use super::RecheckInventory;
use crate::{
    offboarding::{Offboarding, assets},
    platform::{NodeDevices, Observer, SYSTEMS, SurveyTenant, TenantSurvey},
};

impl Offboarding {
    /// Surveys all resources with the tenant's mark. The verifier must see the same resources.
    pub(in crate::offboarding) fn survey(&self) -> SurveyTenant {
        SurveyTenant {
            tenant: self.tenant.to_string(),
            systems: SYSTEMS.map(str::to_owned).to_vec(),
            eyes: Observer::Platform,
            compared: true,
            expected: self.leaver.as_ref().map(assets::expected).unwrap_or_default(),
        }
    }

    pub(in crate::offboarding) fn surveyed(&mut self, survey: TenantSurvey) {
        self.seen = survey.seen;
        self.simulated_places = Some(survey.simulated);
        self.devices.clear();
    }

    pub(in crate::offboarding) fn read_node(&mut self, read: NodeDevices) {
        // Without a set, an earlier version made the survey, and `simulated` has all places.
        if let (true, Some(leaver), Some(places)) = (read.simulated, &self.leaver, &mut self.simulated_places)
        {
            places.insert(format!("machines/{}/{}", leaver.cluster, read.node));
        }
        self.devices.push(read);
    }

    /// Compares the approved plan with the existing resources.
    pub(in crate::offboarding) fn recheck(&self) -> RecheckInventory {
        let survey = SurveyTenant { compared: false, ..self.survey() };
        RecheckInventory { survey, agreed: self.targets.clone(), kept: self.kept_before() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{offboarding::examples, platform::Devices};
    use std::collections::BTreeSet;

    fn location(me: &Offboarding) -> Option<String> {
        let places = me.draft().not_checked;
        places.into_iter().find(|place| place.why.starts_with("simulated")).map(|place| place.location)
    }

    #[test]
    fn a_certificate_marks_exactly_the_simulated_places() {
        let mut me = examples::all().remove(0);
        me.simulated = vec!["estate".into(), "objects".into()];
        assert_eq!(location(&me).as_deref(), Some("the platform (estate, objects)"), "as it was begun");

        let node = "node-1".to_owned();
        me.read_node(NodeDevices { node, devices: Devices::default(), simulated: true });
        assert_eq!(location(&me).as_deref(), Some("the platform (estate, objects)"), "surveyed before");

        me.surveyed(TenantSurvey::default());
        assert_eq!(location(&me), None, "nothing that answered was simulated");

        let simulated = BTreeSet::from(["registry".to_owned(), "slurm/eu-1".to_owned()]);
        me.surveyed(TenantSurvey { simulated, ..TenantSurvey::default() });
        assert_eq!(location(&me).as_deref(), Some("the platform (registry, slurm/eu-1)"));
    }
}
