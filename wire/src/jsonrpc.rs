//! The JSON-RPC 2.0 envelope, read so that a judge loses nothing.
//!
//! [`inspect`] classifies a message leniently and lists every [`Fault`] of its envelope; a message is strictly valid
//! if that list is empty. The raw text is kept as evidence.

use crate::duplicate::duplicate_keys;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::fmt;

/// A valid request id of MCP: a string or an integer (JSON-RPC's null and fractions are excluded).
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Id {
    /// An integer.
    Number(i64),
    /// A string.
    String(String),
}

impl Id {
    /// The id that `value` is, if it is one.
    pub fn from_value(value: &Value) -> Option<Self> {
        match value {
            Value::String(text) => Some(Self::String(text.clone())),
            Value::Number(number) => number.as_i64().map(Self::Number),
            _ => None,
        }
    }

    /// As JSON.
    pub fn to_value(&self) -> Value {
        match self {
            Self::Number(n) => Value::from(*n),
            Self::String(s) => Value::from(s.as_str()),
        }
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.to_value())
    }
}

/// What a message is, judged by the members it has rather than by their validity.
#[derive(Debug, Clone, PartialEq)]
pub enum Envelope {
    /// `method` and `id`. An invalid id is `None`, and a [`Fault`] says so.
    Request {
        /// The id, if valid.
        id: Option<Id>,
        /// The method, empty if it is no string.
        method: String,
        /// `params`, if present.
        params: Option<Value>,
    },
    /// `method` without `id`.
    Notification {
        /// The method, empty if it is no string.
        method: String,
        /// `params`, if present.
        params: Option<Value>,
    },
    /// `result` without `method`.
    Result {
        /// The id, if valid.
        id: Option<Id>,
        /// The result.
        result: Value,
    },
    /// `error` without `method`.
    Error {
        /// The id, if valid; an error may lack it where the request could not be read.
        id: Option<Id>,
        /// `error.code` if it is an integer.
        code: Option<i64>,
        /// `error.message` if it is a string.
        message: Option<String>,
        /// `error.data`, if present.
        data: Option<Value>,
    },
    /// An array of messages.
    Batch(Vec<Inspected>),
    /// An object that is none of these, a scalar, or no JSON at all.
    Unknown,
}

impl Envelope {
    /// The method of a request or notification.
    pub fn method(&self) -> Option<&str> {
        match self {
            Self::Request { method, .. } | Self::Notification { method, .. } => Some(method),
            _ => None,
        }
    }

    /// The id of a request or response.
    pub const fn id(&self) -> Option<&Id> {
        match self {
            Self::Request { id, .. } | Self::Result { id, .. } | Self::Error { id, .. } => id.as_ref(),
            _ => None,
        }
    }

    /// The params of a request or notification.
    pub const fn params(&self) -> Option<&Value> {
        match self {
            Self::Request { params, .. } | Self::Notification { params, .. } => params.as_ref(),
            _ => None,
        }
    }

    /// Whether it is a result or an error.
    pub const fn is_response(&self) -> bool {
        matches!(self, Self::Result { .. } | Self::Error { .. })
    }
}

/// One thing wrong with an envelope. The words are stable: checks and reports use them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "fault", content = "detail")]
#[non_exhaustive]
pub enum Fault {
    /// The bytes are not UTF-8.
    InvalidUtf8,
    /// The text starts with a byte order mark.
    ByteOrderMark,
    /// Not JSON; the parser's words.
    InvalidJson(String),
    /// A JSON value, but neither object nor array.
    NotAnObject,
    /// An object key occurs twice; its JSON pointer.
    DuplicateKey(String),
    /// `jsonrpc` is absent or not exactly "2.0".
    Version,
    /// `id` of a request is null.
    NullId,
    /// `id` is neither string nor integer.
    IdType,
    /// A response has no usable id where one is required.
    MissingId,
    /// `method` is no string.
    MethodType,
    /// `params` is no object.
    ParamsType,
    /// `result` and `error` together, or either beside `method`.
    Mixed,
    /// None of `method`, `result`, `error`.
    NoKind,
    /// `result` is no object.
    ResultType,
    /// `error` is no object.
    ErrorType,
    /// `error.code` is absent or no integer.
    ErrorCode,
    /// `error.message` is absent or no string.
    ErrorMessage,
    /// A batch without members.
    EmptyBatch,
    /// A top-level member that JSON-RPC does not define.
    UnknownMember(String),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InvalidUtf8 => f.write_str("not valid UTF-8"),
            Self::ByteOrderMark => f.write_str("starts with a byte order mark"),
            Self::InvalidJson(why) => write!(f, "not JSON: {why}"),
            Self::NotAnObject => f.write_str("neither a JSON object nor an array"),
            Self::DuplicateKey(at) => write!(f, "the key at {at} occurs twice"),
            Self::Version => f.write_str("`jsonrpc` is not \"2.0\""),
            Self::NullId => f.write_str("`id` is null"),
            Self::IdType => f.write_str("`id` is neither a string nor an integer"),
            Self::MissingId => f.write_str("the response has no `id`"),
            Self::MethodType => f.write_str("`method` is not a string"),
            Self::ParamsType => f.write_str("`params` is not an object"),
            Self::Mixed => f.write_str("more than one of `method`, `result` and `error`"),
            Self::NoKind => f.write_str("none of `method`, `result` and `error`"),
            Self::ResultType => f.write_str("`result` is not an object"),
            Self::ErrorType => f.write_str("`error` is not an object"),
            Self::ErrorCode => f.write_str("`error.code` is not an integer"),
            Self::ErrorMessage => f.write_str("`error.message` is not a string"),
            Self::EmptyBatch => f.write_str("an empty batch"),
            Self::UnknownMember(name) => write!(f, "`{name}` is no member of a JSON-RPC message"),
        }
    }
}

/// A message with all that is wrong about its envelope.
#[derive(Debug, Clone, PartialEq)]
pub struct Inspected {
    /// The parsed value; `None` if it is no JSON.
    pub value: Option<Value>,
    /// What it is.
    pub envelope: Envelope,
    /// What is wrong with it. Empty: strictly valid. Faults inside a batch stand with its members.
    pub faults: Vec<Fault>,
}

impl Inspected {
    /// Whether nothing is wrong, in a batch with any of its members.
    pub fn is_valid(&self) -> bool {
        self.faults.is_empty()
            && match &self.envelope {
                Envelope::Batch(items) => items.iter().all(Self::is_valid),
                _ => true,
            }
    }

    /// The single messages: itself, or the members of a batch.
    pub fn messages(&self) -> &[Self] {
        match &self.envelope {
            Envelope::Batch(items) => items,
            _ => std::slice::from_ref(self),
        }
    }
}

/// Reads bytes as a message.
pub fn inspect_bytes(bytes: &[u8]) -> Inspected {
    match std::str::from_utf8(bytes) {
        Ok(text) => inspect(text),
        Err(_) => {
            let mut read = inspect(&String::from_utf8_lossy(bytes));
            read.faults.insert(0, Fault::InvalidUtf8);
            read
        }
    }
}

/// Reads text as a message.
pub fn inspect(text: &str) -> Inspected {
    let mut faults = Vec::new();
    let body = match text.strip_prefix('\u{feff}') {
        Some(rest) => {
            faults.push(Fault::ByteOrderMark);
            rest
        }
        None => text,
    };
    let value: Value = match serde_json::from_str(body) {
        Ok(value) => value,
        Err(error) => {
            faults.push(Fault::InvalidJson(error.to_string()));
            return Inspected { value: None, envelope: Envelope::Unknown, faults };
        }
    };
    faults.extend(duplicate_keys(body).into_iter().map(Fault::DuplicateKey));
    let envelope = match &value {
        Value::Object(object) => single(object, &mut faults),
        Value::Array(items) => {
            if items.is_empty() {
                faults.push(Fault::EmptyBatch);
            }
            Envelope::Batch(items.iter().map(member).collect())
        }
        _ => {
            faults.push(Fault::NotAnObject);
            Envelope::Unknown
        }
    };
    Inspected { value: Some(value), envelope, faults }
}

fn member(value: &Value) -> Inspected {
    let mut faults = Vec::new();
    let envelope = match value {
        Value::Object(object) => single(object, &mut faults),
        _ => {
            faults.push(Fault::NotAnObject);
            Envelope::Unknown
        }
    };
    Inspected { value: Some(value.clone()), envelope, faults }
}

fn single(object: &Map<String, Value>, faults: &mut Vec<Fault>) -> Envelope {
    if object.get("jsonrpc").and_then(Value::as_str) != Some("2.0") {
        faults.push(Fault::Version);
    }
    let id = object.get("id").and_then(|id| {
        let read = Id::from_value(id);
        match id {
            Value::Null => faults.push(Fault::NullId),
            _ if read.is_none() => faults.push(Fault::IdType),
            _ => {}
        }
        read
    });
    let (method, result, error) = (object.get("method"), object.get("result"), object.get("error"));
    let known: &[&str] = if method.is_some() {
        &["jsonrpc", "id", "method", "params"]
    } else {
        &["jsonrpc", "id", "result", "error"]
    };
    let kinds = [method, result, error].iter().flatten().count();
    if kinds > 1 {
        faults.push(Fault::Mixed);
    }
    for key in object.keys() {
        let mixed = kinds > 1 && matches!(key.as_str(), "result" | "error");
        if !mixed && !known.contains(&key.as_str()) {
            faults.push(Fault::UnknownMember(key.clone()));
        }
    }
    if let Some(method) = method {
        if !method.is_string() {
            faults.push(Fault::MethodType);
        }
        let method = method.as_str().unwrap_or_default().to_owned();
        let params = object.get("params").cloned();
        if params.as_ref().is_some_and(|p| !p.is_object()) {
            faults.push(Fault::ParamsType);
        }
        return if object.contains_key("id") {
            Envelope::Request { id, method, params }
        } else {
            Envelope::Notification { method, params }
        };
    }
    if let Some(result) = result {
        if !object.contains_key("id") {
            faults.push(Fault::MissingId);
        }
        if !result.is_object() {
            faults.push(Fault::ResultType);
        }
        return Envelope::Result { id, result: result.clone() };
    }
    if let Some(error) = error {
        // An error without an id is how a peer reports what it could not read; whether that is allowed depends on
        // the revision, so it is a fault here and the judge may forgive it.
        if !object.contains_key("id") {
            faults.push(Fault::MissingId);
        }
        if !error.is_object() {
            faults.push(Fault::ErrorType);
        }
        let code = error.get("code").and_then(Value::as_i64);
        let message = error.get("message").and_then(Value::as_str).map(str::to_owned);
        if error.is_object() {
            if code.is_none() {
                faults.push(Fault::ErrorCode);
            }
            if message.is_none() {
                faults.push(Fault::ErrorMessage);
            }
        }
        return Envelope::Error { id, code, message, data: error.get("data").cloned() };
    }
    faults.push(Fault::NoKind);
    Envelope::Unknown
}

/// A request as JSON.
pub fn request(id: &Id, method: &str, params: Option<Value>) -> Value {
    let mut object = Map::new();
    object.insert("jsonrpc".into(), "2.0".into());
    object.insert("id".into(), id.to_value());
    object.insert("method".into(), method.into());
    if let Some(params) = params {
        object.insert("params".into(), params);
    }
    Value::Object(object)
}

/// A notification as JSON.
pub fn notification(method: &str, params: Option<Value>) -> Value {
    let mut object = Map::new();
    object.insert("jsonrpc".into(), "2.0".into());
    object.insert("method".into(), method.into());
    if let Some(params) = params {
        object.insert("params".into(), params);
    }
    Value::Object(object)
}

/// A successful response as JSON.
pub fn result(id: &Id, result: Value) -> Value {
    let mut object = Map::new();
    object.insert("jsonrpc".into(), "2.0".into());
    object.insert("id".into(), id.to_value());
    object.insert("result".into(), result);
    Value::Object(object)
}

/// An error response as JSON.
pub fn error(id: &Id, code: i64, message: &str, data: Option<Value>) -> Value {
    let mut inner = Map::new();
    inner.insert("code".into(), code.into());
    inner.insert("message".into(), message.into());
    if let Some(data) = data {
        inner.insert("data".into(), data);
    }
    let mut object = Map::new();
    object.insert("jsonrpc".into(), "2.0".into());
    object.insert("id".into(), id.to_value());
    object.insert("error".into(), Value::Object(inner));
    Value::Object(object)
}

/// Error codes of JSON-RPC and MCP.
pub mod codes {
    /// Not JSON.
    pub const PARSE_ERROR: i64 = -32700;
    /// Not a valid request object.
    pub const INVALID_REQUEST: i64 = -32600;
    /// The method does not exist.
    pub const METHOD_NOT_FOUND: i64 = -32601;
    /// The params are invalid.
    pub const INVALID_PARAMS: i64 = -32602;
    /// Internal error.
    pub const INTERNAL_ERROR: i64 = -32603;
    /// Resource not found (up to 2025-11-25; `INVALID_PARAMS` from 2026-07-28 on).
    pub const RESOURCE_NOT_FOUND: i64 = -32002;
    /// URL elicitation required (2025-11-25 only).
    pub const URL_ELICITATION_REQUIRED: i64 = -32042;
    /// HTTP headers and body disagree, or a required header is missing (2026-07-28).
    pub const HEADER_MISMATCH: i64 = -32020;
    /// The request needs a capability that the client has not declared on it (2026-07-28).
    pub const MISSING_CLIENT_CAPABILITY: i64 = -32021;
    /// The server does not speak the request's protocol version (2026-07-28).
    pub const UNSUPPORTED_PROTOCOL_VERSION: i64 = -32022;
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn faults(text: &str) -> Vec<Fault> {
        inspect(text).faults
    }

    #[test]
    fn what_we_write_is_strictly_valid() {
        for value in [
            request(&Id::Number(1), "tools/list", Some(json!({"cursor": ""}))),
            request(&Id::String("a".into()), "ping", None),
            notification("notifications/initialized", None),
            result(&Id::Number(1), json!({})),
            error(&Id::Number(1), codes::INTERNAL_ERROR, "no", Some(json!([1]))),
        ] {
            assert_eq!(faults(&value.to_string()), [], "{value}");
        }
    }

    #[test]
    fn every_fault_is_named() {
        let cases = [
            (r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#, Fault::NullId),
            (r#"{"jsonrpc":"2.0","id":1.5,"method":"ping"}"#, Fault::IdType),
            (r#"{"jsonrpc":"2.0","id":true,"method":"ping"}"#, Fault::IdType),
            (r#"{"jsonrpc":"1.0","id":1,"method":"ping"}"#, Fault::Version),
            (r#"{"jsonrpc":2.0,"id":1,"method":"ping"}"#, Fault::Version),
            (r#"{"id":1,"method":"ping"}"#, Fault::Version),
            (r#"{"jsonrpc":"2.0","id":1,"method":7}"#, Fault::MethodType),
            (r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":[]}"#, Fault::ParamsType),
            (r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":null}"#, Fault::ParamsType),
            (r#"{"jsonrpc":"2.0","id":1,"method":"ping","result":{}}"#, Fault::Mixed),
            (r#"{"jsonrpc":"2.0","id":1,"result":{},"error":{"code":1,"message":""}}"#, Fault::Mixed),
            (r#"{"jsonrpc":"2.0","id":1,"result":[]}"#, Fault::ResultType),
            (r#"{"jsonrpc":"2.0","result":{}}"#, Fault::MissingId),
            (r#"{"jsonrpc":"2.0","error":{"code":1,"message":""}}"#, Fault::MissingId),
            (r#"{"jsonrpc":"2.0","id":1,"error":"x"}"#, Fault::ErrorType),
            (r#"{"jsonrpc":"2.0","id":1,"error":{"code":1.5,"message":""}}"#, Fault::ErrorCode),
            (r#"{"jsonrpc":"2.0","id":1,"error":{"code":1}}"#, Fault::ErrorMessage),
            (r#"{"jsonrpc":"2.0","id":1,"id":1,"method":"ping"}"#, Fault::DuplicateKey("/id".into())),
            (r#"{"jsonrpc":"2.0","id":1,"method":"ping","extra":1}"#, Fault::UnknownMember("extra".into())),
            (r#"{"jsonrpc":"2.0"}"#, Fault::NoKind),
            ("[]", Fault::EmptyBatch),
            ("3", Fault::NotAnObject),
            ("\u{feff}{\"jsonrpc\":\"2.0\",\"method\":\"x\"}", Fault::ByteOrderMark),
        ];
        for (text, fault) in cases {
            assert_eq!(faults(text), [fault], "{text}");
        }
        assert!(matches!(faults("{")[..], [Fault::InvalidJson(_)]));
        assert_eq!(inspect_bytes(b"\xff{}").faults[0], Fault::InvalidUtf8);
    }

    #[test]
    fn a_batch_is_valid_only_if_its_members_are() {
        let good = inspect(r#"[{"jsonrpc":"2.0","method":"a"},{"jsonrpc":"2.0","id":1,"method":"b"}]"#);
        assert!(good.is_valid());
        assert_eq!(good.messages().len(), 2);
        assert!(!inspect(r#"[{"jsonrpc":"2.0","method":"a"},3]"#).is_valid());
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_read_without_a_panic(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..64)) {
            inspect_bytes(&bytes);
        }
    }
}
