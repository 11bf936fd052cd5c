//! Answers that are other than they should be, in any single thing.

use crate::script::{JsonText, template};
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, de};
use std::collections::BTreeMap;

/// A change of an answer of the authorization server, of the metadata, or of a challenge.
///
/// *Members* are those of the JSON object in the body; of the redirect, its parameters; of a challenge, the parameters of
/// its last scheme. In all texts `{{resource}}` stands for the endpoint's URL, `{{origin}}` for its origin, `{{issuer}}` for the
/// issuer, `{{authorization}}` for the origin of the authorization server, `{{host}}` for host and port of it, and `{{other}}`
/// for the origin of the second listener. In values of `set`, `{{right}}` stands for the text that is replaced.
///
/// Other placeholders are errors; `{{open}}` stands for two braces.
///
/// An answer whose status becomes 400 or more has no effect either: no client is registered, no code spent, no token
/// issued.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AnswerChange {
    /// Which answers.
    pub of: AuthAnswer,
    /// The first one that is changed, counting from 1 those that could be; 1 by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nth: Option<u32>,
    /// How many are changed, from there on; all by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub times: Option<u32>,
    /// Also change (and count) answers that refuse a bad request. By default only those that grant something, apart from
    /// `challenge` and `forbidden`, which always refuse.
    #[serde(default)]
    pub refusals: bool,
    /// The status, from 200 to 999.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "status")]
    #[schemars(range(min = 200, max = 999))]
    pub status: Option<u16>,
    /// Header fields, which replace those of the same name.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    /// Header fields that are left out.
    #[serde(default)]
    pub without_headers: Vec<String>,
    /// Members with these values, as a JSON object; new, or in place of the right ones. Values in redirects and challenges that are not
    /// strings stand there as JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub set: Option<JsonText>,
    /// Members that are left out.
    #[serde(default)]
    pub without: Vec<String>,
    /// The whole body. Before `set` and `without`, which then work on it if it is a JSON object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<String>,
    /// Milliseconds before the answer goes out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay_ms: Option<u64>,
    /// The changed answer is one that a server may give: it is not marked as a fault in the transcript.
    #[serde(default)]
    pub allowed: bool,
}

fn status<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u16>, D::Error> {
    match Option::<u16>::deserialize(deserializer)? {
        Some(status) if !(200..=999).contains(&status) => {
            Err(de::Error::custom(format!("{status} is no status of an answer")))
        }
        status => Ok(status),
    }
}

impl AnswerChange {
    /// A change of nothing yet.
    pub(crate) fn new(of: AuthAnswer) -> Self {
        Self {
            of,
            nth: None,
            times: None,
            refusals: false,
            status: None,
            headers: BTreeMap::new(),
            without_headers: Vec::new(),
            set: None,
            without: Vec::new(),
            body: None,
            delay_ms: None,
            allowed: false,
        }
    }
}

/// The answers of an authorization flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum AuthAnswer {
    /// 401 of the endpoint.
    Challenge,
    /// 403 `insufficient_scope` of the endpoint.
    Forbidden,
    /// Protected-resource metadata.
    ResourceMetadata,
    /// Metadata of the authorization server.
    ServerMetadata,
    /// The key set of OpenID discovery.
    Keys,
    /// Dynamic client registration.
    Registration,
    /// The redirect of the authorization endpoint.
    Authorization,
    /// The token endpoint, to an authorization code.
    Token,
    /// The token endpoint, to a refresh token.
    Refresh,
    /// The token endpoint, to client credentials.
    ClientCredentials,
    /// The token endpoint, to an assertion.
    Assertion,
    /// The identity provider's token endpoint.
    TokenExchange,
    /// Revocation.
    Revocation,
}

/// The placeholders of [`AnswerChange`].
const NAMES: [&str; 8] = ["right", "resource", "origin", "issuer", "authorization", "host", "other", "open"];

/// Reads changes; placeholders that there are not are errors.
pub(super) fn checked<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<AnswerChange>, D::Error> {
    let changes = Vec::<AnswerChange>::deserialize(deserializer)?;
    for change in &changes {
        let text = serde_json::to_string(change).map_err(de::Error::custom)?;
        template::only(&text, &NAMES).map_err(de::Error::custom)?;
    }
    Ok(changes)
}
