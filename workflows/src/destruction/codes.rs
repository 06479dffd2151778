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
        "the message names each asset without a valid record: sanitise, verify and validate it, then retry; or request a certificate with exceptions",
    ),
    (SIGNATURE_WRONG, "the signing key changed while the certificate was signed: retry to sign it again"),
    (
        SIGNER_FAILED,
        "check the key file that `tenure certificate key` names: only the user of the server may read it",
    ),
    (
        COVER_TOO_LONG,
        "shorten the texts of the request: reasons, retained items and unchecked places have a common limit of 64 KiB",
    ),
    (
        HELD,
        "legal holds are in force, and nothing was destroyed: let another person than the one who placed them release them, then retry",
    ),
    (
        PAST_PIVOT,
        "the destruction has already begun; the message lists what still exists: preserve that outside of Tenure",
    ),
    (HOLD_REFUSED, "the message names the hold and the rule: follow the rule"),
    (
        INVENTORY_CHANGED,
        "the inventory differs from the approved one: take it again, and request approval again",
    ),
    (INVENTORY_OPEN, "classify or remove the assets that the message names, then take the inventory again"),
];
