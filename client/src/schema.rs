//! JSON Schema: the output of tools and the answers to forms. 2020-12 by default, and the drafts 4, 6, 7 and
//! 2019-09 by `$schema`. References outside the schema are never fetched.

use serde_json::Value;

/// Why a value was not accepted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SchemaError {
    /// The schema declares a dialect that is not supported.
    #[error("the schema's dialect {0:?} is not supported")]
    Dialect(String),
    /// The schema itself is broken, or refers to something outside.
    #[error("the schema can't be used: {0}")]
    Schema(String),
    /// The value does not fit.
    #[error("{0}")]
    Value(String),
}

/// Validates `value` against `schema`.
pub fn check(schema: &Value, value: &Value) -> Result<(), SchemaError> {
    validate(schema, value, false)
}

/// Validates a form's content against its schema, in which formats such as `email` and `date` are binding.
pub fn check_form(schema: &Value, content: &Value) -> Result<(), SchemaError> {
    validate(schema, content, true)
}

fn validate(schema: &Value, value: &Value, formats: bool) -> Result<(), SchemaError> {
    let draft = match schema.get("$schema") {
        None => jsonschema::Draft::Draft202012,
        Some(dialect) => dialect_of(dialect.as_str().unwrap_or_default())
            .ok_or_else(|| SchemaError::Dialect(dialect.as_str().unwrap_or_default().to_owned()))?,
    };
    let validator = jsonschema::options()
        .with_draft(draft)
        .should_validate_formats(formats)
        .build(schema)
        .map_err(|error| SchemaError::Schema(error.to_string()))?;
    validator.validate(value).map_err(|error| {
        SchemaError::Value(format!("at {:?}: {}", error.instance_path().to_string(), error.masked()))
    })
}

fn dialect_of(uri: &str) -> Option<jsonschema::Draft> {
    use jsonschema::Draft;
    let bare = uri.trim_end_matches('#').trim_start_matches("http://").trim_start_matches("https://");
    Some(match bare {
        "json-schema.org/draft/2020-12/schema" => Draft::Draft202012,
        "json-schema.org/draft/2019-09/schema" => Draft::Draft201909,
        "json-schema.org/draft-07/schema" => Draft::Draft7,
        "json-schema.org/draft-06/schema" => Draft::Draft6,
        "json-schema.org/draft-04/schema" => Draft::Draft4,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn dialects_are_told_apart_and_unknown_ones_refused() {
        let value = json!([1, "a"]);
        let tuple = json!({"prefixItems": [{"type": "string"}]});
        assert!(matches!(check(&tuple, &value), Err(SchemaError::Value(_))));
        let seven = json!({"$schema": "http://json-schema.org/draft-07/schema#", "prefixItems": [{"type": "string"}]});
        assert_eq!(check(&seven, &value), Ok(()));
        let odd = json!({"$schema": "https://example.test/dialect"});
        assert!(matches!(check(&odd, &value), Err(SchemaError::Dialect(_))));
    }

    #[test]
    fn formats_bind_in_forms_alone() {
        let schema = json!({"type": "string", "format": "email"});
        assert_eq!(check(&schema, &json!("no address")), Ok(()));
        assert!(matches!(check_form(&schema, &json!("no address")), Err(SchemaError::Value(_))));
        assert_eq!(check_form(&schema, &json!("a@example.test")), Ok(()));
    }

    #[test]
    fn a_remote_reference_is_an_error_and_is_not_fetched() {
        let schema = json!({"$ref": "http://127.0.0.1:9/schema.json"});
        assert!(matches!(check(&schema, &json!({})), Err(SchemaError::Schema(_))));
    }
}
