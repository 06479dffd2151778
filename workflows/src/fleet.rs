//! The import of the fleet's inventory: nodes as CSV, regions and clusters as YAML.
//!
//! A file is read completely before it is applied, so a bad row leaves the ledger unchanged. A repeated import of the same file changes nothing and reports
//! that.

mod delimiter;
mod folded_names;
mod import;
mod lifecycle;
mod nodes;
mod site_import;
mod sites;

pub use delimiter::delimiter_of;
pub use folded_names::FoldedName;
pub use import::{Import, ModelReport, import_nodes};
pub use lifecycle::{NODE_NOT_FREE, move_node, retire_node};
pub use nodes::{Inventory, NodeRow, parse_inventory, parse_nodes};
pub use site_import::import_sites;
pub use sites::{ClusterRow, RegionRow, SiteReport, Sites, parse_sites};
