//! The committed reference and schema match the definitions.

use std::path::Path;

use super::golden::compare;
use crate::{json_schema, reference_markdown};

#[test]
fn generated_files_are_fresh() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference");
    let mut faults = String::new();
    compare(&folder.join("configuration.md"), &reference_markdown(), &mut faults);
    compare(&folder.join("keepwarm.schema.json"), &json_schema(), &mut faults);
    let advice = "write them with `keepwarm reference`, or UPDATE_GOLDEN=1 cargo test -p keepwarm-config";
    assert!(faults.is_empty(), "{advice}\n{faults}");
}

#[test]
fn the_schema_is_json() {
    let schema: serde_json::Value = serde_json::from_str(&json_schema()).expect("JSON");
    let bind = &schema["properties"]["listen"]["additionalProperties"]["properties"]["bind"];
    assert_eq!(bind["description"], "Addresses to listen on");
    assert_eq!(schema["properties"]["app"]["additionalProperties"]["additionalProperties"], false);
}
