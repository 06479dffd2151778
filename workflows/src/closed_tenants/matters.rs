//! Closed tenants that an operator must review, according to their last check.

use crate::{destruction::ClosedTenantLook, platform::Platform, tenancy::TenantId};
use engine::{Engine, Entity as _, Error};
use std::sync::Arc;
use store::Timestamp;

/// The number of documents in one read.
const PAGE: usize = 500;

/// The reason why an operator must review a closed tenant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr, strum::VariantArray)]
#[strum(serialize_all = "snake_case")]
pub enum ClosedConcern {
    /// A resource of it exists that its certificates do not explain.
    ClosedTenantFound,
    /// A source did not answer, so the state of its resources is unknown.
    ClosedTenantUnanswered,
}

/// A closed tenant that an operator must review.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClosedTenantMatter {
    /// The reason.
    pub concern: ClosedConcern,
    /// The tenant.
    pub tenant: TenantId,
    /// The time since when a review is due.
    pub since: Timestamp,
    /// The text for operators.
    pub text: String,
}

/// Returns the last check of each closed tenant that has one.
///
/// # Errors
/// The errors of the store. An unreadable check is left out.
pub async fn all_looks(engine: &Engine<Platform>) -> Result<Vec<Arc<ClosedTenantLook>>, Error> {
    let (mut all, mut after) = (Vec::new(), None);
    loop {
        let page = engine.store().documents(ClosedTenantLook::COLLECTION, "", after.as_deref(), PAGE).await?;
        all.extend(page.items.iter().filter_map(|found| engine.parse_document(found).ok()));
        after = page.next;
        if after.is_none() {
            return Ok(all);
        }
    }
}

/// Returns every closed tenant that an operator must review.
///
/// # Errors
/// The errors of the store.
pub async fn closed_tenant_matters(engine: &Engine<Platform>) -> Result<Vec<ClosedTenantMatter>, Error> {
    Ok(all_looks(engine).await?.iter().flat_map(|look| of(look)).collect())
}

fn of(look: &ClosedTenantLook) -> Vec<ClosedTenantMatter> {
    let matter = |concern, since: Option<crate::signing::Moment>| {
        let since = Timestamp::from(since.unwrap_or(look.at));
        ClosedTenantMatter { concern, tenant: look.tenant.clone(), since, text: look.describe() }
    };
    let found = look.has_findings().then(|| matter(ClosedConcern::ClosedTenantFound, look.found_since));
    let silent = (!look.unanswered.is_empty())
        .then(|| matter(ClosedConcern::ClosedTenantUnanswered, look.unanswered_since));
    found.into_iter().chain(silent).collect()
}
