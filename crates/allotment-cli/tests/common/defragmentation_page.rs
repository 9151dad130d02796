//! The page that `allotment defragment` writes, and the data in it.

use serde_json::Value;
use tempfile::TempDir;

const BEGIN: &str = r#"<script id="data" type="application/json">"#;
const END: &str = "</script>";

/// Returns the page that was written into the folder.
pub(crate) fn page(folder: &TempDir) -> String {
    std::fs::read_to_string(folder.path().join("allotment-defragmentation.html")).unwrap()
}

pub(crate) fn data(page: &str) -> Value {
    let (_, after) = page.split_once(BEGIN).unwrap();
    serde_json::from_str(after.split_once(END).unwrap().0).unwrap()
}

/// Returns the page with other data.
pub(crate) fn with_data(page: &str, data: &Value) -> String {
    let (before, after) = page.split_once(BEGIN).unwrap();
    let (_, after) = after.split_once(END).unwrap();
    format!("{before}{BEGIN}{}{END}{after}", data.to_string().replace('<', "\\u003c"))
}
