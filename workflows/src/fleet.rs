//! The fleet's inventory as people hand it in: nodes as CSV, regions and clusters as YAML.
//!
//! A file is read whole before anything is applied, so that one bad row leaves the ledger as it was. Importing the same
//! file again changes nothing and says so.

mod folded_names;
mod import;
mod nodes;
mod sites;

pub use folded_names::FoldedName;
pub use import::{Import, ModelReport, import_nodes, import_sites};
pub use nodes::{NodeRow, parse_nodes};
pub use sites::{ClusterRow, RegionRow, SiteReport, Sites, parse_sites};
