//! Holds on what an offboarding left behind.

use super::{BUCKET, Outside, There, closed, look};
use crate::{
    destruction::{HoldKind, HoldScope, PlaceHold},
    tests::books::tenant,
};

#[tokio::test]
async fn a_reappeared_resource_can_be_held_and_a_removed_one_cannot() {
    let mut books = closed();
    let order = PlaceHold {
        tenant: tenant(),
        id: "case-9".into(),
        kind: HoldKind::Legal,
        scope: HoldScope::Tenant,
        reason: "litigation".into(),
        placed_by: "lena".into(),
        placed_from: None,
        review_at: None,
    };
    look(&mut books, &Outside::default(), 2).await;
    assert!(books.decide(|view| order.place(view)).is_err(), "everything is destroyed");
    look(&mut books, &Outside::with([There::new(BUCKET)]), 3).await;
    assert!(books.decide(|view| order.place(view)).is_ok());
}
