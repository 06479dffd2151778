//! `/v1/closed-tenants`: what the last look at each closed tenant came to.

use crate::{
    auth::Verb,
    http::{
        resource_kind::ResourceKind,
        resource_routes::read_routes,
        route::{Access, Route},
        route_doc::doc,
    },
    types,
};
use serde_json::{Value, json};
use workflows::{destruction::ClosedTenantLook, tenancy::Cohort};

pub(in crate::http) fn routes() -> Vec<Route> {
    read_routes::<ClosedTenantLook>(
        (
            "/v1/closed-tenants",
            doc("listClosedTenants", "Lists the last check of each closed tenant.")
                .lists::<types::compliance::ClosedTenantLook>(),
        ),
        (
            "/v1/closed-tenants/{tenant}",
            doc("showClosedTenant", "Shows the last check of a closed tenant, with the objects that exist.")
                .says::<types::compliance::ClosedTenantLook>(200),
        ),
        Access::Staff(Verb::ReadSweeps),
    )
}

impl ResourceKind for ClosedTenantLook {
    const WORD: &'static str = "look at a closed tenant";
    const BY_TENANT: bool = false;

    fn tenant(&self) -> &str {
        self.tenant.as_str()
    }

    fn seen(&self, _: Option<&Cohort>) -> Value {
        json!({
            "id": self.tenant,
            "tenant": self.tenant,
            "at": self.at,
            "complete_at": self.complete_at,
            "found_since": self.found_since,
            "findings": self.findings().count(),
            "remains": self.remains,
            "more": self.more,
            "unanswered": self.unanswered,
            "unanswered_since": self.unanswered_since,
            "says": self.describe(),
        })
    }
}
