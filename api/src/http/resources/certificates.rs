//! `/v1/certificates`: signed certificates of destruction.

use crate::{
    auth::{Caller, Verb},
    http::{
        problem::{Problem, code::ProblemCode},
        resource_kind::ResourceKind,
        resource_routes::{find, list},
        route::{Access, Route},
        route_doc::doc,
    },
    state::SharedState,
    types,
};
use axum::{
    Extension,
    extract::{Path, State},
    http::{HeaderMap, header},
    response::{IntoResponse as _, Response},
};
use serde_json::{Value, json};
use workflows::{
    destruction::certificate::{StoredCertificate, certificate_file, print, verify},
    signing::KeyFile,
    tenancy::Cohort,
};

pub(in crate::http) fn routes() -> Vec<Route> {
    let read = Access::Tenant(Verb::ReadCertificates);
    vec![
        Route::get(
            "/v1/certificates",
            read,
            list::<StoredCertificate>,
            doc("listCertificates", "Lists certificates of destruction.")
                .lists::<types::compliance::CertificateRow>()
                .filters::<StoredCertificate>(),
        ),
        Route::get(
            "/v1/certificates/{id}",
            read,
            show,
            doc("showCertificate", "Returns the signed bytes of a certificate, or a page for browsers.")
                .says::<types::Object>(200)
                .file(200, "text/html"),
        ),
    ]
}

impl ResourceKind for StoredCertificate {
    const WORD: &'static str = "certificate";
    const FILTERS: &'static [(&'static str, &'static str)] = &[("kind", "/kind"), ("signed", "/signed")];
    const BY_TENANT: bool = false;

    fn tenant(&self) -> &str {
        self.tenant.as_str()
    }

    fn seen(&self, _: Option<&Cohort>) -> Value {
        json!({
            "id": self.id.to_string(),
            "tenant": self.tenant,
            "kind": self.kind,
            "title": self.title,
            "exceptions": self.exceptions,
            "issued_at": self.issued_at,
            "kept_until": self.kept_until,
            "signed": self.signature.is_some(),
        })
    }
}

/// Returns the file of the certificate, with exactly the bytes that were signed.
async fn show(
    State(app): State<SharedState>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let kept = find::<StoredCertificate>(&app, &caller, &[&id]).await?;
    let file = app.engine.transact(false, |view| certificate_file(view, kept.id)).await?;
    let file = file.ok_or_else(|| Problem::not_found("signature yet on certificate", &id))?;
    let wants = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if !wants.contains("text/html") {
        return Ok(([(header::CONTENT_TYPE, "application/json")], file).into_response());
    }
    // The page shows the result of verifying the certificate with this server's key.
    let path = app.config.data.join(KeyFile::NAME);
    let read =
        tokio::task::spawn_blocking(move || KeyFile::new(path).load_or_create().map(|key| key.public_key()))
            .await;
    let key = read.ok().and_then(Result::ok);
    let page = print::html(&verify(file.as_bytes(), key.as_slice()));
    let page = page
        .ok_or_else(|| Problem::new(ProblemCode::Unreadable, format!("certificate {id} cannot be read")))?;
    Ok(([(header::CONTENT_TYPE, "text/html; charset=utf-8")], page).into_response())
}
