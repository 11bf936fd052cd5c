//! An MCP server that demands authorization, an authorization server, and a person.

use crate::support::{Exchange, Request, Server, field, init_result_of, settings};
use async_trait::async_trait;
use serde_json::{Value, json};
use sparring_client::{Browser, Client, Connection, CredentialStore, Error, OauthSettings, Settings};
use sparring_wire::Revision;
use std::sync::{Arc, Mutex};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

pub(crate) type TokenScript = dyn Fn(usize, &Request) -> (u16, Value) + Send + Sync;
pub(crate) type Judge = dyn Fn(&str, &str) -> Verdict + Send + Sync;

/// What the MCP server thinks of a method and a token.
pub(crate) enum Verdict {
    Good,
    Unauthorized(&'static str),
    Forbidden(&'static str),
}

/// One origin that is MCP server and authorization server.
#[derive(Clone)]
pub(crate) struct World {
    /// Members that replace those of the resource's metadata.
    pub(crate) resource: Value,
    /// Members that replace those of the server's metadata; null removes.
    pub(crate) server: Value,
    /// Paths that answer 404 or, if named so, 403.
    pub(crate) missing: Vec<&'static str>,
    pub(crate) issuer_path: &'static str,
    pub(crate) registration: Value,
    pub(crate) tokens: Arc<TokenScript>,
    pub(crate) judge: Arc<Judge>,
    pub(crate) revision: Revision,
    /// Members of the resource's metadata that a test changes on the way.
    pub(crate) later: Arc<Mutex<Value>>,
}

pub(crate) fn merge(base: &mut Value, over: &Value) {
    let base = base.as_object_mut().unwrap();
    for (key, value) in over.as_object().unwrap() {
        match value {
            Value::Null => drop(base.remove(key)),
            value => drop(base.insert(key.clone(), value.clone())),
        }
    }
}

impl World {
    /// Tokens are `t1`, `t2`, …; all are accepted.
    pub(crate) fn new() -> Self {
        Self {
            resource: json!({}),
            server: json!({}),
            missing: Vec::new(),
            issuer_path: "",
            registration: json!({}),
            tokens: Arc::new(|n, _| {
                (200, json!({"access_token": format!("t{}", n + 1), "token_type": "bEARER", "x": 1}))
            }),
            judge: Arc::new(
                |_, token| if token.is_empty() { Verdict::Unauthorized("Bearer") } else { Verdict::Good },
            ),
            revision: Revision::V2025_11_25,
            later: Arc::new(Mutex::new(json!({}))),
        }
    }

    pub(crate) async fn start(self) -> Server {
        let world = Arc::new(self);
        Server::start(move |x| {
            let world = Arc::clone(&world);
            Box::pin(async move { world.answer(x).await })
        })
        .await
    }

    pub(crate) async fn answer(&self, mut x: Exchange) {
        let (origin, path) = (x.origin.clone(), x.request.path().to_owned());
        if let Some(missing) = self.missing.iter().find(|m| m.trim_end_matches('!') == path) {
            return x.status(if missing.ends_with('!') { 403 } else { 404 }).await;
        }
        let place = |root: &str| format!("{root}{}", self.issuer_path);
        let tail = format!("{}/.well-known/openid-configuration", self.issuer_path);
        if path == "/mcp" {
            let token =
                x.request.header("authorization").and_then(|a| a.strip_prefix("Bearer ")).unwrap_or_default();
            assert!(x.request.field("access_token").is_none());
            match (self.judge)(&x.request.rpc(), token) {
                Verdict::Good if x.request.rpc() == "initialize" => {
                    x.json(&init_result_of(&x.request.id(), self.revision.as_str())).await;
                }
                Verdict::Good => x.good().await,
                Verdict::Unauthorized(challenge) => {
                    let challenge = challenge.replace("ORIGIN", &origin);
                    x.reply(401, &[("WWW-Authenticate", &challenge)], "").await;
                }
                Verdict::Forbidden("") => x.status(403).await,
                Verdict::Forbidden(challenge) => x.reply(403, &[("WWW-Authenticate", challenge)], "").await,
            }
        } else if path.starts_with("/.well-known/oauth-protected-resource") || path == "/custom-prm" {
            let mut json = json!({"resource": format!("{origin}/mcp"), "authorization_servers": [format!("{origin}{}", self.issuer_path)]});
            merge(&mut json, &self.resource);
            merge(&mut json, &self.later.lock().unwrap());
            x.json(&json).await;
        } else if path == place("/.well-known/oauth-authorization-server")
            || path == place("/.well-known/openid-configuration")
            || path == tail
        {
            if x.request.header("accept") != Some("application/json") {
                return x.reply(200, &[], "<html>").await;
            }
            let mut json = json!({
                "issuer": format!("{origin}{}", self.issuer_path),
                "authorization_endpoint": format!("{origin}/as/authorize?p=1"),
                "token_endpoint": format!("{origin}/as/token"), "registration_endpoint": format!("{origin}/as/register"),
                "code_challenge_methods_supported": ["plain", "S256"], "token_endpoint_auth_methods_supported": ["none", "client_secret_basic", "client_secret_post"],
            });
            merge(&mut json, &self.server);
            x.json(&json).await;
        } else if path == "/as/register" || path == "/register" {
            let mut json =
                json!({"client_id": "cl:1", "logo_uri": "", "response_types": ["code", "code id_token"]});
            merge(&mut json, &self.registration);
            x.reply(201, &[], &json.to_string()).await;
        } else if path == "/as/token" || path == "/token" {
            let n = x.log.of(&path).len() - 1;
            let (status, json) = (self.tokens)(n, &x.request);
            x.reply(status, &[], &json.to_string()).await;
        } else {
            x.status(404).await;
        }
    }
}

/// Follows the authorization URL at once; remembers it.
#[derive(Default)]
pub(crate) struct Person {
    pub(crate) visited: Mutex<Vec<String>>,
    /// Replaces parts of the redirect.
    pub(crate) answer: Option<(&'static str, &'static str)>,
    /// Calls the redirect URI by HTTP, as a browser does.
    pub(crate) really: bool,
}

#[async_trait]
impl Browser for Person {
    async fn open(&self, _: &str, url: &str) -> Result<Option<String>, String> {
        self.visited.lock().unwrap().push(url.to_owned());
        let query = url.split_once('?').unwrap().1;
        let (back, state) = (field(query, "redirect_uri").unwrap(), field(query, "state").unwrap());
        let mut target = format!("{back}?code=the%20code&state={state}");
        if let Some((from, to)) = self.answer {
            target = target.replace(from, to);
        }
        if !self.really {
            return Ok(Some(target));
        }
        let url = url::Url::parse(&target).unwrap();
        assert_eq!(url.host_str(), Some("127.0.0.1"));
        let port = url.port().unwrap();
        // A browser also asks for other things.
        for path in ["/favicon.ico".to_owned(), format!("{}?{}", url.path(), url.query().unwrap())] {
            let mut socket = tokio::net::TcpStream::connect(("127.0.0.1", port)).await.unwrap();
            socket.write_all(format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes()).await.unwrap();
            let mut page = String::new();
            socket.read_to_string(&mut page).await.unwrap();
            assert!(page.starts_with("HTTP/1.1 "));
        }
        Ok(None)
    }
}

impl Person {
    pub(crate) fn asked(&self, n: usize, name: &str) -> Option<String> {
        field(self.visited.lock().unwrap()[n].split_once('?').unwrap().1, name)
    }

    pub(crate) fn count(&self) -> usize {
        self.visited.lock().unwrap().len()
    }
}

pub(crate) fn oauth() -> OauthSettings {
    OauthSettings { redirect_uri: Some("http://127.0.0.1:1/back".into()), ..OauthSettings::default() }
}

pub(crate) fn with(oauth: OauthSettings) -> Settings {
    let mut settings = settings();
    settings.http.open_stream = false;
    settings.oauth = Some(oauth);
    settings
}

pub(crate) async fn connect(
    server: &Server,
    person: &Arc<Person>,
    settings: Settings,
) -> Result<Connection, Error> {
    let client = Client::builder(settings).browser(Arc::clone(person) as Arc<dyn Browser>).build();
    client.connect("s", &server.target()).await
}

pub(crate) fn gets(server: &Server) -> Vec<String> {
    server.log.all().iter().filter(|r| r.method == "GET").map(|r| r.target.clone()).collect()
}

/// A client with a store of one's own.
pub(crate) fn client(person: &Arc<Person>, store: &Arc<dyn CredentialStore>, settings: Settings) -> Client {
    Client::builder(settings)
        .browser(Arc::clone(person) as Arc<dyn Browser>)
        .credentials(Arc::clone(store))
        .build()
}

/// Only the latest token is good.
pub(crate) fn latest_only(
    world: &mut World,
    tokens: impl Fn(usize, &Request) -> (u16, Value) + Send + Sync + 'static,
) {
    let good = Arc::new(Mutex::new(String::new()));
    let current = Arc::clone(&good);
    world.tokens = Arc::new(move |n, request| {
        let (status, json) = tokens(n, request);
        *good.lock().unwrap() = json["access_token"].as_str().unwrap_or_default().to_owned();
        (status, json)
    });
    world.judge = Arc::new(move |_, token| match token == *current.lock().unwrap() && !token.is_empty() {
        true => Verdict::Good,
        false => Verdict::Unauthorized("Bearer error=\"invalid_token\""),
    });
}
