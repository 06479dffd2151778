//! The withdrawal of a wrong certificate: a statement signed with the key of the certificate.
//!
//! A signed certificate cannot be recalled from its readers. A withdrawal is a separate statement that they verify with the same public key.
//! Invariant: a statement names one certificate by number and digest, so it affects no other.

#[cfg(test)]
mod forgeries;
mod read;

pub use read::{ReadWithdrawals, apply_withdrawals};

use super::{CertificateRef, CertificateSignature, Software, StoredCertificate, checked_json};
use crate::{
    destruction::closed_look::ClosedTenantLook,
    signing::{
        KeySuccessions, Moment, Signer,
        canonical::value,
        dsse::{Signature, pae},
    },
    tenancy::TenantId,
};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use engine::{Entity, Notification, Undecided, View};
use serde::{Deserialize, Serialize};
use store::{CompositeKey, ExecutionId};

/// The format of a withdrawal. Another format has another name, so that an older verifier rejects it.
pub const WITHDRAWAL_FORMAT: &str = "tenure certificate withdrawal 1";
/// The type of the signed bytes in the DSSE envelope. It prevents the use of a certificate as a withdrawal, and the reverse.
const PAYLOAD_TYPE: &str = "application/vnd.tenure.certificate-withdrawal+json";
/// The name of the content in the sheet; it sorts before `checks`.
const SHEET: &str = "certificate_withdrawal";
/// The longest reason, in bytes.
const LONGEST_REASON: usize = 2_000;
/// The maximum number of findings in a statement.
const MOST_FOUND: usize = 50;
const LONGEST_FOUND: usize = 1_000;

/// The signed content: the certificate, the person who withdrew it, and the reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WithdrawalStatement {
    /// [`WITHDRAWAL_FORMAT`].
    pub format: String,
    /// The withdrawn certificate.
    pub certificate: CertificateRef,
    /// The tenant of that certificate.
    pub tenant: TenantId,
    /// The time of issue of that certificate.
    pub issued_at: Moment,
    /// The person who withdrew it.
    pub withdrawn_by: String,
    /// The roles of that person at that time.
    pub roles: Vec<String>,
    /// The time of the withdrawal.
    pub withdrawn_at: Moment,
    /// The reason why the certificate is wrong.
    pub reason: String,
    /// The findings: those of the person, and those of the last check of the closed tenant.
    pub found: Vec<String>,
    /// The issuer of the certificate.
    pub issuer: String,
    /// The program that wrote the statement.
    pub software: Software,
}

impl WithdrawalStatement {
    /// Says in one sentence who withdrew the certificate and why.
    #[must_use]
    pub fn describe(&self) -> String {
        let roles =
            if self.roles.is_empty() { String::new() } else { format!(" ({})", self.roles.join(", ")) };
        let found =
            if self.found.is_empty() { String::new() } else { format!("; found: {}", self.found.join("; ")) };
        format!("withdrawn by {}{roles} at {}: {}{found}", self.withdrawn_by, self.withdrawn_at, self.reason)
    }
}

/// The withdrawal as the document of the certificate names it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WithdrawnBy {
    /// The person who withdrew it.
    pub by: String,
    /// The time of the withdrawal.
    pub at: Moment,
    /// The reason why the certificate is wrong.
    pub reason: String,
}

/// A signed withdrawal on file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CertificateWithdrawal {
    /// The tenant of the certificate.
    pub tenant: TenantId,
    /// The certificate's number.
    pub certificate: ExecutionId,
    /// The statement.
    pub statement: WithdrawalStatement,
    /// The statement in its signed form.
    pub text: String,
    /// The signature.
    pub signature: Signature,
    /// The statements that link the certificate's key to the key of the signature. Empty if they are the same key.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub successions: Vec<String>,
}

impl CertificateWithdrawal {
    /// Returns the key of the withdrawal of this certificate.
    #[must_use]
    pub fn key(tenant: &TenantId, certificate: ExecutionId) -> String {
        CompositeKey::of(&[tenant, &certificate]).into()
    }

    /// Returns the statement as a file: a DSSE envelope on one line, after one line for each succession of keys. A file with several statements has
    /// the lines of all.
    #[must_use]
    pub fn file(&self) -> String {
        let envelope = StatementEnvelope {
            payload: STANDARD.encode(&self.text),
            payload_type: PAYLOAD_TYPE.into(),
            signatures: vec![self.signature.clone()],
        };
        let lines = self.successions.iter().cloned().chain([envelope.written()]);
        lines.map(|line| line + "\n").collect()
    }
}

impl Entity for CertificateWithdrawal {
    const COLLECTION: &'static str = "certificate-withdrawals";
    const RETENTION: engine::Retention<Self> = engine::Retention::Forever;

    fn id(&self) -> String {
        Self::key(&self.tenant, self.certificate)
    }
}

/// The envelope of a statement.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct StatementEnvelope {
    payload: String,
    payload_type: String,
    signatures: Vec<Signature>,
}

impl StatementEnvelope {
    /// Returns the only accepted form of the envelope.
    fn written(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}

/// An order to withdraw a certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WithdrawalOrder {
    /// The certificate's number.
    pub certificate: ExecutionId,
    /// The person who orders it.
    pub by: String,
    /// The roles of that person.
    pub roles: Vec<String>,
    /// The reason.
    pub reason: String,
    /// The findings of the person.
    pub found: Vec<String>,
}

/// The reason why a certificate was not withdrawn.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotWithdrawn {
    /// The order lacks a reason.
    #[error("reason: a withdrawal says why")]
    NoReason,
    /// A text is too long, or there are too many.
    #[error("{field}: {problem}")]
    Text {
        /// The name of the field.
        field: &'static str,
        /// The description of the problem.
        problem: String,
    },
    /// There is no such certificate, or it is not signed yet.
    #[error("signed certificate {0} does not exist")]
    NotSigned(ExecutionId),
    /// It is already withdrawn.
    #[error("certificate {certificate} was withdrawn by {} at {}", .standing.by, .standing.at)]
    Already {
        /// The certificate's number.
        certificate: ExecutionId,
        /// The existing withdrawal.
        standing: WithdrawnBy,
    },
    /// The certificate was signed with a different key than the server's current one.
    #[error(
        "the certificate is signed with key {certificate}, and this server signs with key {now}: no verifier would accept the withdrawal. With the old private key, run `tenure certificate rotate-key --from OLD.pem --reason TEXT`, then try again"
    )]
    OtherKey {
        /// The key of the certificate.
        certificate: String,
        /// The key that signed the withdrawal.
        now: String,
    },
    /// The signature does not match this statement.
    #[error("the signature does not belong to this withdrawal")]
    SignatureWrong,
}

/// An unsigned withdrawal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnsignedWithdrawal {
    /// The statement.
    pub statement: WithdrawalStatement,
    /// The statement in the form to sign.
    pub text: String,
}

/// Creates the statement that withdraws a certificate. Changes nothing.
///
/// # Errors
/// As [`View::get`]. A rejection is part of the result.
pub fn withdrawal_draft(
    view: &mut View,
    order: &WithdrawalOrder,
) -> Result<Result<UnsignedWithdrawal, NotWithdrawn>, Undecided> {
    if let Err(refused) = check_texts(order) {
        return Ok(Err(refused));
    }
    let certificate = match standing(view, order.certificate)? {
        Ok(certificate) => certificate,
        Err(refused) => return Ok(Err(refused)),
    };
    let look = view.get::<ClosedTenantLook>(certificate.tenant.as_str())?;
    let mut found = order.found.clone();
    found.extend(look.iter().flat_map(ClosedTenantLook::findings).map(|seen| seen.describe()));
    let statement = WithdrawalStatement {
        format: WITHDRAWAL_FORMAT.into(),
        certificate: certificate.reference(),
        tenant: certificate.tenant,
        issued_at: certificate.issued_at,
        withdrawn_by: order.by.clone(),
        roles: order.roles.clone(),
        withdrawn_at: Moment::from(view.now()).max(certificate.issued_at),
        reason: order.reason.trim().to_owned(),
        found,
        issuer: "the operator of this Tenure".into(),
        software: Software { name: "tenure".into(), version: env!("CARGO_PKG_VERSION").into() },
    };
    let text = checked_json::write(SHEET, &value(&statement));
    Ok(Ok(UnsignedWithdrawal { statement, text }))
}

/// Returns the certificate if it is signed and not withdrawn.
fn standing(view: &mut View, id: ExecutionId) -> Result<Result<StoredCertificate, NotWithdrawn>, Undecided> {
    let kept = view.get::<StoredCertificate>(&id.to_string())?;
    let Some(kept) = kept.filter(|kept| kept.signature.is_some()) else {
        return Ok(Err(NotWithdrawn::NotSigned(id)));
    };
    if let Some(standing) = kept.withdrawn {
        return Ok(Err(NotWithdrawn::Already { certificate: id, standing }));
    }
    Ok(Ok(kept))
}

fn check_texts(order: &WithdrawalOrder) -> Result<(), NotWithdrawn> {
    let too_long =
        |field, most: usize| NotWithdrawn::Text { field, problem: format!("is longer than {most} bytes") };
    if order.reason.trim().is_empty() {
        return Err(NotWithdrawn::NoReason);
    }
    if order.reason.len() > LONGEST_REASON {
        return Err(too_long("reason", LONGEST_REASON));
    }
    if order.found.len() > MOST_FOUND {
        let problem = format!("names more than {MOST_FOUND} findings");
        return Err(NotWithdrawn::Text { field: "found", problem });
    }
    if order.found.iter().any(|found| found.len() > LONGEST_FOUND) {
        return Err(too_long("found", LONGEST_FOUND));
    }
    Ok(())
}

/// Signs a withdrawal.
///
/// # Errors
/// The error of the signer.
pub async fn sign_withdrawal(
    unsigned: &UnsignedWithdrawal,
    signer: &dyn Signer,
) -> Result<CertificateSignature, String> {
    let (sig, public_key) = signer.sign(&pae(PAYLOAD_TYPE, unsigned.text.as_bytes())).await?;
    Ok(CertificateSignature { signature: Signature::new(&public_key, &sig), public_key })
}

/// Stores a signed withdrawal, marks the certificate, and notifies the data owners.
///
/// # Errors
/// As [`View::get`]. A rejection is part of the result and changes nothing.
pub fn keep_withdrawal(
    view: &mut View,
    unsigned: &UnsignedWithdrawal,
    signed: &CertificateSignature,
    keys: &KeySuccessions,
) -> Result<Result<CertificateWithdrawal, NotWithdrawn>, Undecided> {
    let statement = &unsigned.statement;
    let kept = match standing(view, statement.certificate.id)? {
        Ok(kept) if kept.reference() == statement.certificate => kept,
        Ok(_) => return Ok(Err(NotWithdrawn::NotSigned(statement.certificate.id))),
        Err(refused) => return Ok(Err(refused)),
    };
    let certificate = kept.signature.as_ref().map(|signature| signature.keyid.clone()).unwrap_or_default();
    let Some(successions) = keys.chain(&certificate, &signed.signature.keyid) else {
        let now = signed.signature.keyid.clone();
        return Ok(Err(NotWithdrawn::OtherKey { certificate, now }));
    };
    let sig = STANDARD.decode(&signed.signature.sig).unwrap_or_default();
    let fits = signed.public_key.verifies(&pae(PAYLOAD_TYPE, unsigned.text.as_bytes()), &sig);
    if !fits || signed.public_key.id() != signed.signature.keyid {
        return Ok(Err(NotWithdrawn::SignatureWrong));
    }
    let by = WithdrawnBy {
        by: statement.withdrawn_by.clone(),
        at: statement.withdrawn_at,
        reason: statement.reason.clone(),
    };
    let withdrawal = CertificateWithdrawal {
        tenant: statement.tenant.clone(),
        certificate: kept.id,
        statement: statement.clone(),
        text: unsigned.text.clone(),
        signature: signed.signature.clone(),
        successions,
    };
    view.put(&notice(&kept, statement, view.now()))?;
    view.put(&withdrawal)?;
    view.put(&StoredCertificate { withdrawn: Some(by), ..kept })?;
    Ok(Ok(withdrawal))
}

/// Returns the notification of a withdrawal.
fn notice(kept: &StoredCertificate, said: &WithdrawalStatement, at: store::Timestamp) -> Notification {
    Notification {
        id: format!("{}.certificate_withdrawn", kept.id),
        kind: "certificate.withdrawn".into(),
        reason: None,
        about: kept.id.to_string(),
        tenant: kept.tenant.to_string(),
        to: vec!["compliance".into(), "dpo".into()],
        text: format!(
            "certificate {} of tenant {} was {}; send the statement to all holders of the certificate: `tenure certificate withdrawals {}`",
            kept.id,
            kept.tenant,
            said.describe(),
            kept.id
        ),
        at,
    }
}
