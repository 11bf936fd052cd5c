//! What can be asked of a session, and done to it, besides calls.

use super::{Session, lock};
use crate::control::{Control, Inspect};
use crate::entry::ServerEntry;
use crate::error::HostError;
use crate::events::{HostEvent, SessionId};
use crate::policy::{Answer, Standing};
use crate::prompt::Prompt;
use crate::server::target::kind_of;
use crate::server::{ServerState, Wish};
use serde_json::{Value, json};
use sparring_profiles::EventName;

impl Session {
    /// Looks at something.
    ///
    /// # Errors
    /// If there is nothing to look at.
    pub async fn inspect(&self, what: Inspect) -> Result<Value, HostError> {
        let host = &self.inner.host;
        let events = |wanted: &dyn Fn(&HostEvent) -> bool| {
            let all = host.context.log.all();
            json!(all.iter().map(AsRef::as_ref).filter(|event| wanted(event)).collect::<Vec<&HostEvent>>())
        };
        let mine = |session: Option<SessionId>| session.is_none_or(|session| session == self.inner.id);
        Ok(match what {
            Inspect::Prompt => self.prompt()?,
            Inspect::Policy { tool } => self.policy(&tool)?,
            Inspect::Status => self.status(),
            Inspect::Instances => json!(host.pool.instances()),
            Inspect::Events => events(&|event| mine(event.session)),
            Inspect::Log => events(&|event| event.session.is_none() && event.kind == EventName::Warn),
            Inspect::Pending => json!(host.context.parts.approvals.pending()),
        })
    }

    /// What the model gets now.
    fn prompt(&self) -> Result<Value, HostError> {
        let settings = self.settings();
        let registry = self.registry()?;
        let stage = self.stage(&registry);
        let mut said = Vec::new();
        for entry in self.entries() {
            let negotiated = self.connection(&entry.name).and_then(|connection| connection.negotiated());
            let text = negotiated.and_then(|negotiated| negotiated.instructions.clone());
            said.push((entry.name, text.unwrap_or_default()));
        }
        let disclosing = stage.disclosing(self.context(), &settings);
        let mut prompt = Prompt::new(&settings.instructions, &said, &disclosing);
        prompt.tools = self.shown(&stage, &disclosing);
        Ok(json!(prompt))
    }

    /// What holds for a tool.
    fn policy(&self, name: &str) -> Result<Value, HostError> {
        let settings = self.settings();
        let registry = self.registry()?;
        let tool = registry.find(name).ok_or_else(|| HostError::NoTool(name.to_owned()))?;
        let rules = self.rules();
        let standing = Standing { settings: &settings.policy, rules: &rules };
        let rule = &self.context().parts.policy;
        let ruling = rule.ruling(&standing, tool);
        let decision = rule.decision(&standing, tool, &ruling, &serde_json::Map::new());
        Ok(json!({
            "policy": ruling.rule,
            "layer": ruling.layer,
            "decision": decision,
            "withheld": self.withheld(tool),
        }))
    }

    /// Why a server is not connected, if it failed. Nothing secret is in it.
    #[must_use]
    pub fn failure_of(&self, server: &str) -> Option<HostError> {
        let failed = match self.share(&self.entry(server).ok()?) {
            Ok(share) => share.server.status().1,
            Err(error) => Some(error),
        };
        failed.map(|error| self.context().parts.redact.failure(error))
    }

    /// All configured servers, as this session sees them.
    fn status(&self) -> Value {
        let settings = self.settings();
        let on = self.entries();
        let one = |entry: &ServerEntry| {
            let (state, error) = match on.iter().any(|other| other.name == entry.name) {
                false => (ServerState::Off, None),
                true => match (kind_of(&settings, entry), self.server(entry)) {
                    (Err(error), _) => (ServerState::Errored, Some(error)),
                    (Ok(_), Some(server)) => server.status(),
                    (Ok(_), None) => (ServerState::Idle, None),
                },
            };
            let tools = match state {
                ServerState::Off => 0,
                _ => self.latest(entry).map_or(0, |tools| tools.len()),
            };
            let code = error.as_ref().and_then(HostError::code);
            let code = code.and_then(|code| settings.errors.codes.get(&code));
            let error = error.map(|error| self.context().parts.redact.failure(error));
            json!({
                "name": entry.name,
                "transport": kind_of(&settings, entry).ok(),
                "state": state,
                "tools": tools,
                "error": error.map(|error| error.shown(&settings.errors)),
                "code": code,
            })
        };
        crate::config::listing(&settings.config, &self.configured()).into_iter().map(one).collect()
    }

    /// Does something besides a call.
    ///
    /// # Errors
    /// If it can't be done, or fails.
    pub async fn control(&self, control: Control) -> Result<Value, HostError> {
        let done = self.controlled(control).await;
        done.map_err(|error| self.context().parts.redact.failure(error))
    }

    async fn controlled(&self, control: Control) -> Result<Value, HostError> {
        let pool = &self.inner.host.pool;
        let approvals = &self.context().parts.approvals;
        match control {
            Control::Start { server } => {
                let entry = self.entry(&server)?;
                if self.share(&entry)?.server.status().0 == ServerState::Starting {
                    return Err(HostError::Refused(format!("{server:?} is being started already")));
                }
                self.start(&entry, Wish::Manual).await?;
            }
            Control::Stop { server } => self.share_of(&server)?.server.stop().await,
            Control::Restart { server } => {
                let wait = self.settings().pool.restart_waits;
                self.share_of(&server)?.server.restart(wait).await?;
            }
            Control::Retire { server } => pool.retire(&self.entry(&server)?.name).await,
            Control::Refresh { server: Some(server) } => {
                self.share_of(&server)?.server.refresh().await?;
            }
            Control::Refresh { server: None } => {
                for entry in self.entries() {
                    let share = self.share(&entry)?;
                    if share.server.live().is_some() {
                        share.server.refresh().await?;
                    }
                }
            }
            Control::Rebuild => self.rebuild(),
            Control::Run => self.run().await?,
            Control::Warmup => self.warmup().await?,
            Control::Reopen => self.reopen().await?,
            Control::Compact => self.compact(),
            Control::Approve { tool, always } => {
                let answer = if always { Answer::Always } else { Answer::Approve };
                approvals.answer_now_or_next(tool.as_deref(), answer);
            }
            Control::Deny { tool, reason } => {
                let why = reason.unwrap_or_else(|| "the user said no".to_owned());
                approvals.answer_now_or_next(tool.as_deref(), Answer::Deny(why));
            }
            Control::AutoApprove { on } => approvals.set_auto(on),
            Control::Rules { rules } => self.change_rules(&rules)?,
            Control::Visible { .. } if !self.settings().policy.session_filter => {
                return Err(HostError::Refused("sessions of this host have all its tools".to_owned()));
            }
            Control::Visible { visible } => self.set_visible(visible),
            Control::Gate { names } => *lock(&self.inner.refused) = names,
            Control::Disclosure { options } => self.set_disclosure(options),
            Control::Set { setting, value } => self.inner.host.set(&setting, value)?,
        }
        Ok(Value::Null)
    }
}
