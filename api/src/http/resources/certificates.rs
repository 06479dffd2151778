//! `/v1/certificates`: certificates of destruction, as they were signed; `/v1/withdrawals`: their withdrawals.

use crate::{
    auth::{Caller, Verb},
    http::{
        extract::{JsonBody, page::scope::get_visible},
        problem::{Problem, code::ProblemCode},
        resource_kind::ResourceKind,
        resource_routes::{find, list},
        resources::approvals::person,
        route::{Access, Route},
        route_doc::doc,
    },
    state::SharedState,
    types,
};
use axum::{
    Extension, Json,
    body::Body,
    extract::{Path, State},
    http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header},
    response::{IntoResponse as _, Response},
};
use engine::with_reason;
use futures_util::{StreamExt as _, stream};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use workflows::{
    destruction::certificate::{
        CertificateWithdrawal, NotWithdrawn, StoredCertificate, WithdrawalOrder, apply_withdrawals,
        certificate_file, keep_withdrawal, print, sign_withdrawal, verify, withdrawal_draft,
    },
    signing::{KeyFile, KeySuccessions},
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
        Route::post(
            "/v1/certificates/{id}:withdraw",
            Access::Staff(Verb::WithdrawCertificates),
            withdraw,
            doc(
                "withdrawCertificate",
                "Withdraws a certificate that turned out wrong, by a signed statement.",
            )
            .says::<types::compliance::Withdrawal>(201)
            .may(&[ProblemCode::ReasonMissing, ProblemCode::NotAPerson, ProblemCode::Already]),
        ),
        Route::get(
            "/v1/certificates/{id}/withdrawal",
            read,
            show_withdrawal,
            doc("showWithdrawal", "The signed statement that withdraws a certificate, as a file.")
                .file(200, "application/jsonl"),
        ),
        Route::get(
            "/v1/withdrawals",
            read,
            list::<CertificateWithdrawal>,
            doc("listWithdrawals", "Lists withdrawals of certificates, each with its signed statement.")
                .lists::<types::compliance::Withdrawal>()
                .filters::<CertificateWithdrawal>(),
        ),
    ]
}

/// The header by which the file of a withdrawn certificate says so: the file itself stays as it was signed.
const WITHDRAWN: &str = "tenure-withdrawn";

impl ResourceKind for CertificateWithdrawal {
    const WORD: &'static str = "withdrawal";
    const FILTERS: &'static [(&'static str, &'static str)] = &[("certificate", "/certificate")];

    fn tenant(&self) -> &str {
        self.tenant.as_str()
    }

    fn seen(&self, _: Option<&Cohort>) -> Value {
        let said = &self.statement;
        json!({
            "id": format!("{}/{}", self.tenant, self.certificate),
            "tenant": self.tenant,
            "certificate": self.certificate.to_string(),
            "digest": said.certificate.digest,
            "withdrawn_by": said.withdrawn_by,
            "roles": said.roles,
            "withdrawn_at": said.withdrawn_at,
            "reason": said.reason,
            "found": said.found,
            "file": self.file().trim_end(),
        })
    }
}

impl ResourceKind for StoredCertificate {
    const WORD: &'static str = "certificate";
    const FILTERS: &'static [(&'static str, &'static str)] =
        &[("kind", "/kind"), ("signed", "/signed"), ("withdrawn", "/withdrawn")];
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
            "withdrawn": self.withdrawn.is_some(),
            "withdrawal": self.withdrawn,
            "supplements": self.supplements.as_ref().map(|first| first.id.to_string()),
        })
    }
}

/// The most pages of assets in a certificate that is shown as a page for browsers. Each has about 100 KiB.
const MOST_PAGES_SHOWN: usize = 256;

/// Returns the file of the certificate, with exactly the bytes that were signed. A long one is sent in parts, and not as a page for browsers.
async fn show(
    State(app): State<SharedState>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let kept = find::<StoredCertificate>(&app, &caller, &[&id]).await?;
    if kept.signature.is_none() {
        return Err(Problem::not_found("signature yet on certificate", &id));
    }
    let wants = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if !wants.contains("text/html") || kept.pages > MOST_PAGES_SHOWN {
        let said = kept
            .withdrawn
            .as_ref()
            .and_then(|withdrawn| HeaderValue::from_str(&withdrawn.at.to_string()).ok());
        let mut answer =
            ([(header::CONTENT_TYPE, "application/json")], file(&app, kept).await?).into_response();
        answer.headers_mut().extend(said.map(|at| (HeaderName::from_static(WITHDRAWN), at)));
        return Ok(answer);
    }
    let file = app.engine.transact(false, |view| certificate_file(view, kept.id)).await?;
    let file = file.ok_or_else(|| Problem::not_found("signature yet on certificate", &id))?;
    // The page shows the result of verifying the certificate with this server's key.
    let path = app.config.data.join(KeyFile::NAME);
    let read = tokio::task::spawn_blocking(move || KeyFile::new(path).public_keys()).await;
    let keys = read.ok().and_then(Result::ok).unwrap_or_default();
    let mut verified = verify(file.as_bytes(), &keys);
    if let Some(withdrawal) = withdrawal_of(&app, &caller, &kept).await? {
        apply_withdrawals(&mut verified, withdrawal.file().as_bytes(), &keys);
    }
    let page = print::html(&verified);
    let page = page
        .ok_or_else(|| Problem::new(ProblemCode::Unreadable, format!("certificate {id} cannot be read")))?;
    Ok(([(header::CONTENT_TYPE, "text/html; charset=utf-8")], page).into_response())
}

/// Returns the file of a signed certificate. At most one part of it is held in memory.
async fn file(app: &SharedState, kept: StoredCertificate) -> Result<Body, Problem> {
    let first = app.engine.transact(false, |view| kept.file_part(view, 0)).await?.unwrap_or_default();
    if kept.file_parts() == 1 {
        return Ok(Body::from(first));
    }
    let rest = stream::try_unfold((app.clone(), kept, 1_usize), |(app, kept, part)| async move {
        if part >= kept.file_parts() {
            return Ok::<_, engine::Error>(None);
        }
        let text = app.engine.transact(false, |view| kept.file_part(view, part)).await?.unwrap_or_default();
        Ok(Some((text, (app, kept, part.saturating_add(1)))))
    });
    Ok(Body::from_stream(stream::once(async move { Ok(first) }).chain(rest)))
}

/// The withdrawal of a certificate, if it is withdrawn.
async fn withdrawal_of(
    app: &SharedState,
    caller: &Caller,
    kept: &StoredCertificate,
) -> Result<Option<CertificateWithdrawal>, Problem> {
    get_visible(app, caller, &CertificateWithdrawal::key(&kept.tenant, kept.id)).await
}

/// The signed statement as a file, with the statements that link the certificate's key to its key.
async fn show_withdrawal(
    State(app): State<SharedState>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
) -> Result<Response, Problem> {
    let kept = find::<StoredCertificate>(&app, &caller, &[&id]).await?;
    let withdrawal = withdrawal_of(&app, &caller, &kept).await?;
    let withdrawal = withdrawal.ok_or_else(|| Problem::not_found("withdrawal of certificate", &id))?;
    Ok(([(header::CONTENT_TYPE, "application/jsonl")], withdrawal.file()).into_response())
}

/// Why a certificate is withdrawn.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "WithdrawCertificate")]
struct WithdrawBody {
    #[serde(default)]
    reason: String,
    /// The findings, a sentence each. The findings of the last check of the closed tenant are added.
    #[serde(default)]
    found: Vec<String>,
}

async fn withdraw(
    State(app): State<SharedState>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
    JsonBody(why): JsonBody<WithdrawBody>,
) -> Result<Response, Problem> {
    person(&caller)?;
    let kept = find::<StoredCertificate>(&app, &caller, &[&id]).await?;
    let order = WithdrawalOrder {
        certificate: kept.id,
        by: caller.name.clone(),
        roles: caller.roles.iter().map(|role| role.name().to_owned()).collect(),
        reason: why.reason,
        found: why.found,
    };
    let drafted = app.engine.transact(false, |view| withdrawal_draft(view, &order)).await?;
    let drafted = drafted.map_err(|refused| not_withdrawn(&refused))?;
    let signed = sign_withdrawal(&drafted, app.engine.platform().signer.as_ref()).await;
    let signed = signed.map_err(|why| {
        Problem::new(ProblemCode::Internal, format!("the withdrawal cannot be signed: {why}"))
    })?;
    let successions = successions(&app).await?;
    let keep = app.engine.transact(true, |view| keep_withdrawal(view, &drafted, &signed, &successions));
    let withdrawal = with_reason(&order.reason, keep).await?.map_err(|refused| not_withdrawn(&refused))?;
    tracing::warn!(tenant = %withdrawal.tenant, certificate = id, by = caller.name, "certificate withdrawn");
    Ok((StatusCode::CREATED, Json(withdrawal.seen(None))).into_response())
}

/// Reads the statements that link earlier keys of this server to its current key.
async fn successions(app: &SharedState) -> Result<KeySuccessions, Problem> {
    let path = app.config.data.join(KeyFile::NAME);
    let read = tokio::task::spawn_blocking(move || KeyFile::new(path).successions()).await;
    match read {
        Ok(Ok(read)) => Ok(read),
        Ok(Err(why)) => Err(Problem::new(ProblemCode::Internal, why)),
        Err(error) => Err(Problem::new(ProblemCode::Internal, error.to_string())),
    }
}

fn not_withdrawn(refused: &NotWithdrawn) -> Problem {
    let code = match refused {
        NotWithdrawn::NoReason => ProblemCode::ReasonMissing,
        NotWithdrawn::Text { .. } => ProblemCode::DocumentInvalid,
        NotWithdrawn::NotSigned(_) => ProblemCode::NotFound,
        NotWithdrawn::Already { .. } => ProblemCode::Already,
        NotWithdrawn::OtherKey { .. } | NotWithdrawn::SignatureWrong => ProblemCode::Conflict,
    };
    Problem::new(code, refused.to_string())
}
