//! What a script remembers between events: states and counters.

use super::{AnyOf, Per};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

/// The state that every machine is in at first, unless `states` says otherwise.
pub const FIRST_STATE: &str = "start";

/// How one state machine starts, and what it belongs to.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct StateScript {
    /// The state it is in at first; `start` by default.
    pub first: Option<String>,
    /// What has a state of its own: the `server` by default (over stdio each process), or each `session` or `connection`.
    pub per: Per,
}

/// States asked for: of the one machine that has no name (`state: open`, `state: [open, ajar]`), or by the machines' names
/// (`state: { door: open }`).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StateIs(pub BTreeMap<String, AnyOf>);

/// States to go to: `set_state: open`, or `set_state: { door: open }`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SetState(pub BTreeMap<String, String>);

impl<'de> Deserialize<'de> for StateIs {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct States;
        impl<'de> Visitor<'de> for States {
            type Value = StateIs;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a state, a list of states, or a map from machines to states")
            }

            fn visit_str<E: de::Error>(self, state: &str) -> Result<StateIs, E> {
                Ok(StateIs([(String::new(), AnyOf(vec![state.to_owned()]))].into()))
            }

            fn visit_seq<A: de::SeqAccess<'de>>(self, access: A) -> Result<StateIs, A::Error> {
                let states = Vec::deserialize(de::value::SeqAccessDeserializer::new(access))?;
                Ok(StateIs([(String::new(), AnyOf(states))].into()))
            }

            fn visit_map<A: MapAccess<'de>>(self, access: A) -> Result<StateIs, A::Error> {
                Deserialize::deserialize(de::value::MapAccessDeserializer::new(access)).map(StateIs)
            }
        }
        deserializer.deserialize_any(States)
    }
}

impl Serialize for StateIs {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0.first_key_value() {
            Some((machine, states)) if machine.is_empty() && self.0.len() == 1 => {
                states.serialize(serializer)
            }
            _ => self.0.serialize(serializer),
        }
    }
}

impl JsonSchema for StateIs {
    fn schema_name() -> Cow<'static, str> {
        "StateIs".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let states = generator.subschema_for::<AnyOf>();
        json_schema!({
            "description": "A state, a list of states of which any will do, or those of named machines.",
            "anyOf": [states, {"type": "object", "additionalProperties": states}],
        })
    }
}

impl<'de> Deserialize<'de> for SetState {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct States;
        impl<'de> Visitor<'de> for States {
            type Value = SetState;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a state, or a map from machines to states")
            }

            fn visit_str<E: de::Error>(self, state: &str) -> Result<SetState, E> {
                Ok(SetState([(String::new(), state.to_owned())].into()))
            }

            fn visit_map<A: MapAccess<'de>>(self, access: A) -> Result<SetState, A::Error> {
                Deserialize::deserialize(de::value::MapAccessDeserializer::new(access)).map(SetState)
            }
        }
        deserializer.deserialize_any(States)
    }
}

impl Serialize for SetState {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0.first_key_value() {
            Some((machine, state)) if machine.is_empty() && self.0.len() == 1 => {
                serializer.serialize_str(state)
            }
            _ => self.0.serialize(serializer),
        }
    }
}

impl JsonSchema for SetState {
    fn schema_name() -> Cow<'static, str> {
        "SetState".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "A state to go to, or those of named machines.",
            "anyOf": [{"type": "string"}, {"type": "object", "additionalProperties": {"type": "string"}}],
        })
    }
}
