//! `tenure tenant`.

use super::{
    args::{Common, Tenant},
    client::{Body, Client},
    files, output, start,
    things::{self, TENANTS},
};
use crate::exit::{Exit, Failure};
use serde_json::json;

pub(super) async fn run(common: &Common, command: Tenant) -> Result<Exit, Failure> {
    match command {
        Tenant::Show { name } => things::show(common, &TENANTS, &name).await,
        Tenant::Offboard { name, basis, reference, reason, starting } => {
            let body = json!({ "tenant": name, "basis": basis, "reference": reference, "reason": reason });
            start::start(common, "/v1/offboardings", "", Body::json(&body), starting).await
        }
        Tenant::Classify { name, asset, class, reason } => {
            let body = json!({ "tenant": name, "asset": asset, "class": class, "reason": reason });
            let said = Client::of(common)?.post("/v1/classifications", Body::json(&body)).await?.value()?;
            output::one(common.output, &said)?;
            Ok(Exit::Done)
        }
        Tenant::Onboard { file, starting } => {
            let body =
                Body { media: "application/yaml", text: files::read(&file)?, key: None, labels: Vec::new() };
            start::start(common, "/v1/tenants", "", body, starting).await
        }
    }
}
