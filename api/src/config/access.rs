//! Access policies in addition to the built-in ones.

use serde::{Deserialize, Serialize};

/// Access policies in addition to the built-in ones.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Access {
    /// The file of the operator's Cedar policies. Default: none, only the built-in ones.
    pub policies: String,
}
