//! Paths within a data folder.

use std::path::{Path, PathBuf};

/// Returns the folder of the embedded store within a data folder.
pub fn store_dir(data: &Path) -> PathBuf {
    data.join("store")
}

/// Returns the file of the bootstrap token within a data folder.
pub fn admin_file(data: &Path) -> PathBuf {
    data.join("admin.token")
}
