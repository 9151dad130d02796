//! A JSON dump that is checked against its schema, for what an allocator writes and for what is exported from a recording.

use serde_json::Value;

pub(crate) const SCHEMA: &str = include_str!("memory-dump.schema.json");

/// Returns the dump, if it keeps to the schema.
pub(crate) fn checked(text: &str) -> Value {
    let validator = jsonschema::draft202012::new(&serde_json::from_str(SCHEMA).unwrap()).unwrap();
    let value = serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"));
    let errors: Vec<_> =
        validator.iter_errors(&value).map(|error| format!("{}: {error}", error.instance_path)).collect();
    assert!(errors.is_empty(), "{errors:#?}\n{text}");
    value
}

pub(crate) fn number(value: &Value, key: &str) -> u64 {
    value[key].as_u64().unwrap_or_else(|| panic!("no number {key} in {value}"))
}

/// All pools of a dump, default and custom.
pub(crate) fn pools(dump: &Value) -> impl Iterator<Item = &Value> {
    let default = dump["DefaultPools"].as_object().unwrap().values();
    let custom = dump["CustomPools"].as_object().unwrap().values();
    default.chain(custom.flat_map(|pools| pools.as_array().unwrap()))
}
