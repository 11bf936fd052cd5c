//! Faults in the life of servers: when they are started, brought back, shared, and ended.

use crate::drivers::ClientSetup;
use crate::mutants::decorate::{Fate, outgoing};
use crate::mutants::{Fault, Mutant, of_host, settings};
use serde_json::{Value, json};
use sparring_host::store::cache::{CacheKey, ToolCache};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Remembers tools by the name of the server alone.
struct ByServer(Arc<dyn ToolCache>);

impl ByServer {
    fn key(key: &CacheKey) -> CacheKey {
        CacheKey { project: String::new(), server: key.server.clone() }
    }
}

impl ToolCache for ByServer {
    fn get(&self, key: &CacheKey) -> Option<Arc<Vec<Value>>> {
        self.0.get(&Self::key(key))
    }

    fn put(&self, key: &CacheKey, tools: &[Value]) {
        self.0.put(&Self::key(key), tools);
    }

    fn forget(&self, key: &CacheKey) {
        self.0.forget(&Self::key(key));
    }
}

fn waits_for_the_next_call(setup: &mut ClientSetup) {
    setup.set("restart.trigger", &json!("next-call"));
    setup.set("restart.retry_call", &json!(false));
}

fn shows_changes_too_early(setup: &mut ClientSetup) {
    setup.set("list_changed.tools", &json!("refetch-now"));
    setup.set("list_changed.visible", &json!("at-once"));
}

pub(super) const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "orphans-on-sigterm",
        about: "Ends at once when it is told to, and leaves its servers alone.",
        scenarios: &[],
        profile: "mouaif",
        fault: Fault::Process(|s| s.set("shutdown.on", &json!(["exit"]))),
    },
    of_host("mouaif", "cache-not-keyed-by-project", "Remembers tools by the server's name alone.", |s| {
        s.parts(|parts| parts.cache = Arc::new(ByServer(Arc::clone(&parts.cache))));
    }),
    of_host(
        "chaz",
        "waits-for-the-next-call",
        "Starts a dead server with the next call.",
        waits_for_the_next_call,
    ),
    of_host("chaz", "shows-changes-too-early", "Shows changes of lists at once.", shows_changes_too_early),
    of_host("zidane", "timeout-closes-connection", "Says no more once a call has timed out.", |s| {
        let over = AtomicBool::new(false);
        outgoing(s, move |p| {
            if p.is("notifications/cancelled") {
                over.store(true, Ordering::Release);
            }
            if over.load(Ordering::Acquire) { Fate::Drop } else { Fate::Pass }
        });
    }),
];

pub(super) const SETTINGS: &[Mutant] = &settings![
    "zidane": "half-the-budget-of-half-a-minute", "Gives calls up after half of its time.", "timeouts.tool_s" = 15;
    "chaz": "half-the-budget-of-a-minute", "Gives calls up after half of its time.", "timeouts.tool_s" = 30;
    "zut": "half-the-budget-of-five-minutes", "Gives calls up after half of its time.", "timeouts.tool_s" = 150;
    "zut": "launches-without-servers", "Leaves servers to the first run.", "startup.connect" = "first-run";
    "mewbo": "opens-sessions-without-servers", "Leaves servers to the first run.", "startup.connect" = "first-run";
    "zidane": "starts-servers-before-the-first-run", "Starts servers with the session.",
        "startup.connect" = "session";
    "zidane": "runs-without-servers", "Leaves servers to their first calls.", "startup.connect" = "first-call";
    "mouaif": "starts-servers-before-the-first-call", "Starts servers with the session.",
        "startup.connect" = "session";
    "mouaif": "starts-on-listing", "Starts servers when it is asked for tools.", "startup.listing_starts" = true;
    "zidane": "serial-connect", "Starts one server after the other.", "startup.parallel" = false;
    "zut": "one-failure-fails-all", "Does not open if a server fails.", "startup.on_failure" = "abort";
    "zut": "required-ignored", "Knows no required servers.", "startup.required_option" = false;
    "zut": "retries-with-each-run", "Starts failed servers again with each run.",
        "startup.retry_failed" = "next-bootstrap";
    "zut": "retries-on-each-call", "Starts failed servers again with each call.",
        "startup.retry_failed" = "next-call";
    "zidane": "never-retries-a-start", "Never starts a failed server again.", "startup.retry_failed" = "never";
    "mouaif": "retries-a-start-by-itself", "Starts failed servers again with a call.",
        "startup.retry_failed" = "next-call";
    "zidane": "warmup-not-memoised", "Starts a server for each that wants it.", "startup.shared_attempt" = false;
    "mouaif": "double-spawn-on-concurrent-first-call", "Starts a server for each call that finds none.",
        "startup.shared_attempt" = false;
    "mouaif": "stays-stopped", "Does not start what was stopped.", "startup.connect" = "session";
    "zidane": "reports-starts-under-another-name", "Calls the end of a start something else.",
        "events.names.started" = "started";
    "zidane": "reports-starts-without-errors", "Does not say why a start has failed.",
        "events.started_fields" = ["name", "transport", "durationMs", "ok", "toolCount"];
    "zidane": "warnings-under-another-name", "Calls warnings something else.", "events.names.warn" = "notice";
    "zidane": "no-budget-for-a-start", "Waits for servers without end.", "timeouts.startup_s" = 600;
    "zidane": "budget-per-phase", "Gives the list of tools a budget of its own.",
        "timeouts.startup_covers" = ["spawn", "initialize"];
    "zidane": "no-budget-for-closing", "Gives servers all the time they want to end.", "timeouts.close_s" = 600;
    "mouaif": "starts-what-is-off", "Starts servers that are switched off.", "startup.off_switch" = false;
    "mouaif": "other-word-for-disabled", "Has another code for what is switched off.",
        "errors.codes.disabled" = "EOTHER";
    "zidane": "no-budget-for-calls", "Waits for calls without end.", "timeouts.tool_s" = 600;
    "zidane": "no-budget-for-single-tools", "Has one budget for all tools.", "timeouts.per_tool" = false;
    "zut": "reads-changed-lists-late", "Reads a changed list before the next call.",
        "list_changed.tools" = "before-next-call";
    "chaz": "reads-changed-lists-at-once", "Reads a changed list at once.", "list_changed.tools" = "refetch-now";
    "chaz": "never-reads-changed-lists", "Does not read lists again.", "list_changed.tools" = "ignore";
    "chaz": "shows-changes-too-late", "Shows changes of lists when it is told to.",
        "list_changed.visible" = "rebuild";
    "zut": "shows-changes-before-a-rebuild", "Shows changes of lists with each turn.",
        "list_changed.visible" = "next-turn";
    "zut": "never-sees-changes", "Does not read lists again.", "list_changed.tools" = "ignore";
    "mouaif": "remembers-tools-in-memory-only", "Forgets tools at its end.", "discovery.cache" = "memory";
    "chaz": "fails-the-call-that-met-the-crash", "Does not send a call again.", "restart.retry_call" = false;
    "mouaif": "restarts-in-same-chat", "Starts a dead server with the next call.", "restart.trigger" = "next-call";
    "mouaif": "restarts-by-itself", "Starts a dead server at once.", "restart.trigger" = "at-once";
    "mouaif": "new-session-does-not-arm", "Leaves a dead server to the user.", "restart.rearm_on" = ["manual"];
    "chaz": "reopens-lost-sessions-at-once", "Sends a call again that met a lost session.",
        "restart.http_session_lost" = "at-once";
    "zut": "replays-call-on-404", "Sends a call again that met a lost session.",
        "restart.http_session_lost" = "at-once";
    "zut": "never-reopens-lost-sessions", "Is lost with the session.", "restart.http_session_lost" = "surface";
    "zidane": "a-process-for-each-agent", "Shares no server.", "pool.shares" = false;
    "zidane": "lists-once-for-all-agents", "Asks a shared server for its tools once.",
        "pool.lists_per_session" = false;
    "zidane": "shares-what-is-not-shared", "Knows no servers that are kept to a session.",
        "pool.per_session_option" = false;
    "zidane": "no-switch-for-the-pool", "Knows another variable.", "pool.off_env" = "OTHER=1";
    "zidane": "keeps-idle-servers", "Leaves servers running that nobody has.", "pool.keeps_started" = true;
    "zidane": "retire-kills-holders", "Ends a server that is retired at once.", "pool.retires" = false;
    "zidane": "other-words-for-a-restart", "Has other words for a restart.", "errors.restarted" = "gone";
    "zidane": "restart-replays-call", "Sends a call again that met a restart.", "pool.restart_retries" = true;
    "zidane": "broadcasts-stderr", "Warns everybody.", "pool.warns_caller" = false;
    "zut": "leaves-sessions-open", "Ends no session.", "shutdown.deletes_session" = false;
    "zut": "speaks-legacy-sse-all-the-same", "Speaks HTTP+SSE.", "transports.kinds" = ["stdio", "http", "sse"];
    "zidane": "connection-per-call", "Connects for each call.", "transports.persist" = false;
    "zut": "ends-servers-alone", "Ends a server without what it has started.", "shutdown.own_group" = false;
    "mouaif": "closes-kept-servers", "Ends servers that nobody has.", "pool.keeps_started" = false;
    "mouaif": "one-process-for-all-projects", "Has one server for all projects.", "pool.per_context" = false;
    "zut": "a-connection-for-each-agent", "Connects for each agent.", "transports.shared_by_agents" = false;
    "zidane": "one-connection-for-all-agents", "Connects once for all agents.",
        "transports.shared_by_agents" = true;
    "zidane": "forgets-configured-headers", "Sends no configured header fields.",
        "transports.static_headers" = false;
    "zidane": "restart-starts-at-once", "Starts a server at once that is restarted by hand.",
        "pool.restart_waits" = false;
    "chaz": "no-first-wait", "Makes the first attempt at once.", "restart.first_wait" = false;
];
