//! From reactions to rules: only where the model would not do the same.

use super::walk::Reaction;
use serde_json::{Map, Value, json};
use sparring_mock_servers::model::{Model, Reply};
use sparring_mock_servers::script::{
    Action, AnyOf, ErrorAnswer, JsonText, Like, Nth, Rule, ServerScript, Slot, Trigger,
};
use sparring_wire::Revision;

/// Reactions that one rule, or one series of rules, is for.
struct Group<'r> {
    on: &'r Trigger,
    incarnation: Option<u32>,
    unknown: Option<&'r str>,
    key: &'r Value,
    /// Position of each among the events that fit, from 1, and what was done.
    turns: Vec<(u32, Vec<Action>)>,
}

/// The rules that make of the script what was recorded.
pub(super) fn of(reactions: &[Reaction], script: &ServerScript, revision: Revision) -> Vec<Rule> {
    let model = Model::new(script, revision);
    let mut groups: Vec<Group<'_>> = Vec::new();
    for (at, reaction) in reactions.iter().enumerate() {
        let fits = |other: &&Reaction| {
            other.on == reaction.on
                && other.incarnation == reaction.incarnation
                && other.unknown == reaction.unknown
                && contains(&other.params, &reaction.key)
        };
        let before = reactions.iter().take(at).filter(fits).count();
        let nth = u32::try_from(before).unwrap_or(u32::MAX).saturating_add(1);
        let actions = actions(reaction, &model);
        let same = |group: &&mut Group<'_>| {
            *group.on == reaction.on
                && group.incarnation == reaction.incarnation
                && group.unknown == reaction.unknown.as_deref()
                && *group.key == reaction.key
        };
        match groups.iter_mut().find(same) {
            Some(group) => group.turns.push((nth, actions)),
            None => groups.push(Group {
                on: &reaction.on,
                incarnation: reaction.incarnation,
                unknown: reaction.unknown.as_deref(),
                key: &reaction.key,
                turns: vec![(nth, actions)],
            }),
        }
    }
    // Of rules that fit the first is taken: those that ask for more stand first.
    groups.sort_by_key(|group| std::cmp::Reverse(size(group.key)));
    let several = reactions.iter().any(|r| r.incarnation.is_some_and(|n| n > 1));
    let mut out: Vec<Vec<Rule>> = Vec::new();
    // From the end, where those stand that ask for less: what they would catch needs a rule even if the model does it.
    for (at, group) in groups.iter().enumerate().rev() {
        let caught = groups.iter().skip(at + 1).zip(out.iter().rev()).any(|(other, rules)| {
            !rules.is_empty()
                && other.on == group.on
                && other.incarnation == group.incarnation
                && other.unknown == group.unknown
                && contains(group.key, other.key)
        });
        out.push(rules(group, several, caught));
    }
    out.into_iter().rev().flatten().collect()
}

/// `needed`: other rules would catch what this group is for.
fn rules(group: &Group<'_>, several_processes: bool, needed: bool) -> Vec<Rule> {
    let rule = |nth: Option<u32>, actions: &[Action]| Rule {
        on: group.on.clone().into(),
        nth: nth.map(|nth| Nth::These(vec![nth])),
        incarnation: group.incarnation.filter(|_| several_processes).map(|n| Nth::These(vec![n])),
        method: AnyOf(group.unknown.map(str::to_owned).into_iter().collect()),
        params: Some(Like(group.key.clone())).filter(|key| size(&key.0) > 1),
        actions: actions.to_vec(),
        ..Rule::default()
    };
    let plain = [Action::Default];
    let is_plain = |actions: &[Action]| !needed && (actions.is_empty() || actions == plain);
    let Some((last, earlier)) = group.turns.split_last() else { return Vec::new() };
    let mut out = Vec::new();
    // What is not asked for, such as notifications, came once for each; it does not go on for ever.
    let goes_on = last.1.iter().any(Action::answers);
    for (position, (nth, actions)) in earlier.iter().enumerate() {
        let differs = !goes_on || group.turns.iter().skip(position).any(|(_, other)| other != actions);
        if differs && !(is_plain(actions) && (!goes_on || is_plain(&last.1))) {
            out.push(rule(Some(*nth), actions));
        }
    }
    if !is_plain(&last.1) {
        out.push(rule(Some(last.0).filter(|_| !goes_on), &last.1));
    }
    out
}

/// What a rule has to do, the faithful answer as `default` if it is the recorded one.
fn actions(reaction: &Reaction, model: &Model) -> Vec<Action> {
    let faithful = reaction.method().and_then(|method| {
        let revision = model.speaks().last().copied()?;
        Some(match model.answer(revision, method, Some(&reaction.params), &Map::new()) {
            Ok(Reply::Result(result)) => Action::Respond(JsonText(result)),
            // What was recorded asks for nothing that the model would.
            Ok(Reply::Ask(_)) => return None,
            Err(e) => {
                Action::Error(ErrorAnswer { code: e.code, message: e.message, data: e.data.map(JsonText) })
            }
        })
    });
    let mut out = Vec::new();
    for action in &reaction.actions {
        if Some(action) == faithful.as_ref() {
            out.push(Action::Default);
        } else {
            let mut action = action.clone();
            action.slots(&mut escape);
            with_token(&mut action, &reaction.params);
            out.push(action);
        }
    }
    // The faithful answer comes at the end anyway.
    if out.last() == Some(&Action::Default) && out.len() > 1 {
        out.pop();
    }
    out
}

/// What was recorded has no placeholders.
fn escape(slot: Slot<'_>) {
    const OPEN: &str = "{{open}}";
    fn strings(value: &mut Value) {
        match value {
            Value::String(text) if text.contains("{{") => *text = text.replace("{{", OPEN),
            Value::Array(items) => items.iter_mut().for_each(strings),
            Value::Object(members) => members.values_mut().for_each(strings),
            _ => {}
        }
    }
    match slot {
        Slot::Json(value) => strings(value),
        Slot::Text(text) => *text = text.replace("{{", OPEN),
    }
}

/// Progress on the request at hand is for whatever token the client names.
fn with_token(action: &mut Action, params: &Value) {
    if let Action::Notify(own) = action
        && let Some(JsonText(Value::Object(said))) = &mut own.params
        && let Some(token) = said.get_mut("progressToken")
        && params.pointer("/_meta/progressToken") == Some(&*token)
    {
        *token = "{{token}}".into();
    }
}

/// What a rule can ask of params: objects with a `$` would be questions.
pub(super) fn askable(value: &Value) -> Value {
    match value {
        Value::Object(members) if members.keys().any(|key| key.starts_with('$')) => json!({"$any": true}),
        Value::Object(members) => members.iter().map(|(key, value)| (key.clone(), askable(value))).collect(),
        value => value.clone(),
    }
}

/// How much a pattern asks for.
fn size(value: &Value) -> usize {
    match value {
        Value::Object(members) => 1 + members.values().map(size).sum::<usize>(),
        Value::Array(items) => 1 + items.iter().map(size).sum::<usize>(),
        _ => 1,
    }
}

/// Whether `given` contains `wanted`, as rules match params: objects as a subset, everything else equal.
fn contains(given: &Value, wanted: &Value) -> bool {
    match (given, wanted) {
        (_, Value::Object(any)) if any.contains_key("$any") => true,
        (Value::Object(given), Value::Object(wanted)) => {
            wanted.iter().all(|(key, wanted)| given.get(key).is_some_and(|given| contains(given, wanted)))
        }
        _ => given == wanted,
    }
}
