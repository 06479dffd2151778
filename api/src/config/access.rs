//! Who may do what, beside what is shipped.

use serde::{Deserialize, Serialize};

/// Who may do what, beside what is shipped.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Access {
    /// The file of a house's own Cedar policies, beside those that are shipped. Default none: the shipped ones alone.
    pub policies: String,
}
