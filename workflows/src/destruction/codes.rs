//! Error codes of the ledger actions of destruction, each with its remedy. A test compares them with `docs/operations.md`.

/// Some assets have no valid record, or the approvals do not match.
pub const NOT_ISSUED: &str = "certificate.not_issued";
/// The certificate's cover is too long to be signed.
pub const COVER_TOO_LONG: &str = "certificate.too_long";
/// The signature does not match the certificate.
pub const SIGNATURE_WRONG: &str = "certificate.signature_wrong";
/// The key could not be used.
pub const SIGNER_FAILED: &str = "certificate.signer_failed";
/// A hold covers a resource to destroy.
pub const HELD: &str = "hold.in_force";
/// The hold is too late: the point of no return has passed.
pub const PAST_PIVOT: &str = "hold.past_pivot";
/// The document of holds rejects the change.
pub const HOLD_REFUSED: &str = "hold.refused";
/// There is no inventory, or it differs from the approved one.
pub const INVENTORY_CHANGED: &str = "inventory.changed";
/// The inventory has an open question.
pub const INVENTORY_OPEN: &str = "inventory.open";

/// All codes with their remedies, in alphabetical order.
pub const ALL: &[(&str, &str)] = &[
    (
        NOT_ISSUED,
        "the message names each asset and what it lacks: have it sanitised, verified and validated, then retry; or ask for a certificate with exceptions",
    ),
    (SIGNATURE_WRONG, "the key was changed while the certificate was signed: retry, which signs anew"),
    (
        SIGNER_FAILED,
        "look at the key file that `tenure certificate key` names: it must be readable for the server alone",
    ),
    (
        COVER_TOO_LONG,
        "shorten the texts of the request: reasons, retained items and places not checked share 64 KiB",
    ),
    (HELD, "nothing was destroyed: have the holds released by another person than placed them, then retry"),
    (
        PAST_PIVOT,
        "too late: the message says what is destroyed and what still exists; preserve the rest outside of Tenure",
    ),
    (HOLD_REFUSED, "read the message: it names the hold and the rule"),
    (
        INVENTORY_CHANGED,
        "the inventory is not the one that was approved: take it again and ask for approval anew",
    ),
    (INVENTORY_OPEN, "classify or remove the assets that the message names, then take the inventory again"),
];
