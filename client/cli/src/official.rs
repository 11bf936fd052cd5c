//! The client-side contract of the official conformance framework: a server's URL as the last argument, the scenario's
//! name, the revision and some data in the environment. The client does the whole conversation by itself, and its exit
//! code tells whether it went well.
//!
//! Taken when the first argument is `official`, or when `MCP_CONFORMANCE_SCENARIO` is set and the last argument is a URL.

mod auth;
mod skills;

use async_trait::async_trait;
use serde_json::{Map, Value, json};
use sparring_client::core::{ElicitAnswer, Elicitation, RpcError, Sampling};
use sparring_client::{
    Callbacks, Client, Connection, Declared, ElicitationCapability, Entry, Error, HttpTarget,
    RootsCapability, SamplingCapability, Settings, Target,
};
use sparring_wire::Revision;
use std::sync::Arc;

/// What the framework asks for.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Job {
    url: String,
    /// The scenario's name.
    scenario: String,
    revision: Revision,
    /// What the scenario hands to the client; `null` if nothing.
    context: Value,
}

/// The job, if the arguments or the environment ask for this mode; an error if what they say makes no sense.
pub(crate) fn asked_for(
    arguments: &[String],
    variable: impl Fn(&str) -> Option<String>,
) -> Option<Result<Job, String>> {
    let scenario = variable("MCP_CONFORMANCE_SCENARIO");
    let words = match arguments {
        [first, rest @ ..] if first == "official" => rest,
        _ if scenario.is_some() => arguments,
        _ => return None,
    };
    let is_url = |word: &&String| word.starts_with("http://") || word.starts_with("https://");
    let url = words.last().filter(is_url).cloned();
    if url.is_none() && words.len() == arguments.len() {
        return None;
    }
    Some((|| {
        let url = url.ok_or("`official` needs the URL of a server as its last argument")?;
        let scenario = scenario.ok_or("MCP_CONFORMANCE_SCENARIO is not set: it names the scenario")?;
        let revision = match variable("MCP_CONFORMANCE_PROTOCOL_VERSION") {
            Some(text) => text.parse().map_err(|_| {
                format!("MCP_CONFORMANCE_PROTOCOL_VERSION is `{text}`, which is no revision of the protocol")
            })?,
            // Older frameworks do not set it, and know nothing newer.
            None => Revision::LATEST_HANDSHAKE,
        };
        let context = match variable("MCP_CONFORMANCE_CONTEXT") {
            Some(text) => serde_json::from_str(&text)
                .map_err(|error| format!("MCP_CONFORMANCE_CONTEXT is not JSON: {error}"))?,
            None => Value::Null,
        };
        Ok(Job { url, scenario, revision, context })
    })())
}

/// Does it.
pub(crate) fn run(job: Job) -> Result<(), String> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = runtime.map_err(|error| format!("could not start: {error}"))?;
    runtime.block_on(job.talk())
}

/// Everything that can go wrong ends the conversation.
type Done = Result<(), Box<dyn std::error::Error + Send + Sync>>;

/// What the client does once it is connected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Course {
    /// Lists the tools.
    List,
    /// Lists the tools, and calls those.
    Call(&'static [(&'static str, Arguments)]),
    /// Lists the tools, and calls each of them.
    CallAll,
    /// Uses one of everything that there is.
    UseAll,
    /// Makes the calls that the context holds.
    CallsOfContext,
    /// Sends the schema of one tool to another one.
    Echo,
    /// Lists the skills.
    ListSkills,
    /// Loads a skill, if it is what it is said to be.
    LoadSkill,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Arguments {
    None,
    /// `a` and `b`.
    Numbers(i64, i64),
}

impl Arguments {
    fn json(self) -> Map<String, Value> {
        match self {
            Self::None => Map::new(),
            Self::Numbers(a, b) => Map::from_iter([("a".to_owned(), a.into()), ("b".to_owned(), b.into())]),
        }
    }
}

/// The course of a scenario; `None`: it is not known.
fn course(scenario: &str) -> Option<Course> {
    use Arguments::{None as Nothing, Numbers};
    Some(match scenario {
        "initialize" | "request-metadata" | "json-schema-ref-no-deref" => Course::List,
        "tools_call" => Course::Call(&[("add_numbers", Numbers(5, 3))]),
        "elicitation-sep1034-client-defaults" => {
            Course::Call(&[("test_client_elicitation_defaults", Nothing)])
        }
        "sse-retry" => Course::Call(&[("test_reconnection", Nothing)]),
        "sep-2322-client-request-state" => Course::Call(&[
            ("test_mrtr_echo_state", Nothing),
            ("test_mrtr_unrelated", Nothing),
            ("test_mrtr_no_state", Nothing),
            ("test_mrtr_no_result_type", Nothing),
        ]),
        "http-standard-headers" => Course::UseAll,
        "http-custom-headers" => Course::CallsOfContext,
        "http-invalid-tool-headers" => Course::CallAll,
        "json-schema-2020-12-preservation" => Course::Echo,
        "sep-2640-client-no-prefetch" => Course::ListSkills,
        "sep-2640-client-verify-digest"
        | "sep-2640-client-verify-size"
        | "sep-2640-client-verify-frontmatter" => Course::LoadSkill,
        name if name.starts_with("auth/") => Course::Call(&[("test-tool", Nothing)]),
        _ => return None,
    })
}

impl Job {
    async fn talk(&self) -> Result<(), String> {
        let course = course(&self.scenario)
            .ok_or_else(|| format!("the scenario `{}` is not known to this client", self.scenario))?;
        let mut settings = self.settings(course);
        settings.oauth = Some(auth::settings(&self.scenario, &self.context)?);
        let browser = auth::Headless::new().map_err(|error| error.to_string())?;
        let client =
            Client::builder(settings).callbacks(Arc::new(Obliging)).browser(Arc::new(browser)).build();
        let target = Target::Http(HttpTarget::new(self.url.clone()));
        let failed = |error: &dyn std::fmt::Display| format!("{}: {error}", self.scenario);
        let connection = client.connect("server", &target).await.map_err(|error| failed(&error))?;
        let outcome = self.follow(course, &connection).await;
        connection.close().await;
        outcome.map_err(|error| failed(&error))
    }

    fn settings(&self, course: Course) -> Settings {
        let mut settings = Settings { offer: self.revision, ping_every: None, ..Settings::default() };
        settings.declare = Declared {
            roots: Some(RootsCapability { list_changed: true }),
            sampling: Some(SamplingCapability { tools: false, context: false }),
            elicitation: Some(ElicitationCapability { form: true, url: false }),
            ..Declared::default()
        };
        if matches!(course, Course::ListSkills | Course::LoadSkill) {
            skills::declare(&mut settings.declare);
        }
        settings
    }

    async fn follow(&self, course: Course, connection: &Connection) -> Done {
        match course {
            Course::List => drop(offered(connection.tools().await)?),
            Course::Call(calls) => {
                connection.tools().await?;
                for (tool, arguments) in calls {
                    connection.call(tool, arguments.json()).await?;
                }
            }
            Course::CallAll => {
                for tool in connection.tools().await?.iter() {
                    connection.call(&tool.key, made_up(tool.json.get("inputSchema"))).await?;
                }
            }
            Course::UseAll => use_all(connection).await?,
            Course::CallsOfContext => {
                connection.tools().await?;
                for call in self.context["toolCalls"].as_array().ok_or("the context has no toolCalls")? {
                    let name = call["name"].as_str().ok_or("a call of the context has no name")?;
                    let arguments = call["arguments"].as_object().cloned().unwrap_or_default();
                    connection.call(name, arguments).await?;
                }
            }
            Course::Echo => {
                let tools = connection.tools().await?;
                let tool = tools.iter().find(|tool| tool.key == "json_schema_2020_12_tool");
                let schema = tool.and_then(|tool| tool.json.get("inputSchema")).cloned();
                let schema = schema.ok_or("the tool json_schema_2020_12_tool is not offered")?;
                let arguments = Map::from_iter([("schema".to_owned(), schema)]);
                connection.call("json_schema_echo", arguments).await?;
            }
            Course::ListSkills => drop(skills::list(connection).await?),
            Course::LoadSkill => skills::load(connection).await?,
        }
        Ok(())
    }
}

/// A list; an empty one, if the server has no such thing.
fn offered(list: Result<Arc<Vec<Entry>>, Error>) -> Result<Arc<Vec<Entry>>, Error> {
    match list {
        Err(Error::Refused(_)) => Ok(Arc::default()),
        other => other,
    }
}

/// Lists everything, and uses one of each kind.
async fn use_all(connection: &Connection) -> Done {
    if let Some(tool) = offered(connection.tools().await)?.first() {
        connection.call(&tool.key, made_up(tool.json.get("inputSchema"))).await?;
    }
    if let Some(resource) = offered(connection.resources().await)?.first() {
        connection.read(&resource.key).await?;
    }
    if let Some(prompt) = offered(connection.prompts().await)?.first() {
        connection.prompt(&prompt.key, Map::new()).await?;
    }
    Ok(())
}

/// Says yes to everything: takes the defaults of a form, and makes up what it has to.
struct Obliging;

#[async_trait]
impl Callbacks for Obliging {
    async fn sample(&self, _: &str, _: Sampling) -> Result<Value, RpcError> {
        Ok(json!({
            "role": "assistant", "model": "none", "stopReason": "endTurn",
            "content": { "type": "text", "text": "as you wish" },
        }))
    }

    async fn elicit(&self, _: &str, request: Elicitation) -> Result<ElicitAnswer, RpcError> {
        Ok(ElicitAnswer::Accept(made_up(request.params.get("requestedSchema"))))
    }
}

/// An object that a schema allows: defaults where there are some, the plainest value where one is required.
fn made_up(schema: Option<&Value>) -> Map<String, Value> {
    let Some(schema) = schema else { return Map::new() };
    let required =
        |name: &str| schema["required"].as_array().is_some_and(|names| names.iter().any(|n| n == name));
    let Some(properties) = schema["properties"].as_object() else { return Map::new() };
    let mut made = Map::new();
    for (name, property) in properties {
        let value = match property.get("default") {
            Some(value) => value.clone(),
            // A question that is asked is answered with yes.
            None if property["type"] == "boolean" => true.into(),
            None if required(name) => plainest(property),
            None => continue,
        };
        made.insert(name.clone(), value);
    }
    made
}

fn plainest(property: &Value) -> Value {
    if let Some(first) = property["enum"].as_array().and_then(|values| values.first()) {
        return first.clone();
    }
    match property["type"].as_str() {
        Some("number" | "integer") => property.get("minimum").cloned().unwrap_or_else(|| 1.into()),
        Some("array") => json!([]),
        Some("object") => Value::Object(made_up(Some(property))),
        Some("null") => Value::Null,
        _ => "text".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(arguments: &[&str], variables: &[(&str, &str)]) -> Option<Result<Job, String>> {
        let arguments: Vec<String> = arguments.iter().map(|a| (*a).to_owned()).collect();
        asked_for(&arguments, |name| {
            variables.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned())
        })
    }

    const SCENARIO: (&str, &str) = ("MCP_CONFORMANCE_SCENARIO", "initialize");

    #[test]
    fn the_mode_is_chosen_by_the_word_or_by_the_environment() {
        assert_eq!(asked(&[], &[]), None);
        assert_eq!(asked(&["call", "x"], &[SCENARIO]), None);
        assert_eq!(asked(&["http://localhost:1/"], &[]), None);
        let job = asked(&["http://localhost:1/mcp"], &[SCENARIO]).unwrap().unwrap();
        assert_eq!((job.revision, &job.context), (Revision::V2025_11_25, &Value::Null));
        let more = [
            SCENARIO,
            ("MCP_CONFORMANCE_PROTOCOL_VERSION", "2026-07-28"),
            ("MCP_CONFORMANCE_CONTEXT", r#"{"name": "initialize"}"#),
        ];
        let job = asked(&["official", "--any", "http://localhost:1/mcp"], &more).unwrap().unwrap();
        assert_eq!((job.revision, &job.context["name"]), (Revision::V2026_07_28, &json!("initialize")));
    }

    #[test]
    fn what_makes_no_sense_is_told() {
        for (arguments, variables, words) in [
            (["official"].as_slice(), vec![SCENARIO], "URL"),
            (&["official", "http://x"], vec![], "MCP_CONFORMANCE_SCENARIO"),
            (&["http://x"], vec![SCENARIO, ("MCP_CONFORMANCE_PROTOCOL_VERSION", "2025")], "`2025`"),
            (&["http://x"], vec![SCENARIO, ("MCP_CONFORMANCE_CONTEXT", "{")], "not JSON"),
        ] {
            let error = asked(arguments, &variables).unwrap().unwrap_err();
            assert!(error.contains(words), "{error}");
        }
        let job = asked(&["http://x"], &[("MCP_CONFORMANCE_SCENARIO", "juggling")]).unwrap().unwrap();
        assert!(run(job).unwrap_err().contains("`juggling` is not known"));
    }

    #[test]
    fn a_form_is_filled_with_what_it_allows() {
        let schema = json!({"required": ["kind", "count", "name"], "properties": {
            "kind": {"type": "string", "enum": ["a", "b"]}, "count": {"type": "integer", "minimum": 7},
            "name": {"type": "string", "default": "John"}, "sure": {"type": "boolean"},
            "left": {"type": "string"}, "size": {"type": "number", "default": 95.5}}});
        let made = Value::Object(made_up(Some(&schema)));
        assert_eq!(made, json!({"kind": "a", "count": 7, "name": "John", "sure": true, "size": 95.5}));
        assert!(made_up(None).is_empty());
    }
}
