//! Credentials over time: kept, shared, refreshed by several at once, bound to their issuer.

use crate::oauth_world::{Person, Verdict, World, client, connect, latest_only, oauth, with};
use crate::support::{Request, Server, args};
use async_trait::async_trait;
use serde_json::{Value, json};
use sparring_client::oauth::{
    ClientOrigin, CredentialKey, CredentialStore, Credentials, MemoryStore, StoreError, StoreLock,
};
use sparring_client::{OauthSettings, RegisteredClient};
use sparring_wire::transcript::FailureKind;
use std::sync::{Arc, Mutex};

fn memory() -> Arc<dyn CredentialStore> {
    Arc::new(MemoryStore::default())
}

/// `t0` with `r0`, `t1` with `r1`, …; a refresh token that comes a second time is refused.
fn rotating(lifetime: u64) -> impl Fn(usize, &Request) -> (u16, Value) + Send + Sync {
    let used = Mutex::new(Vec::new());
    move |n, request| {
        if let Some(refresh) = request.field("refresh_token") {
            let mut used = used.lock().unwrap();
            if used.contains(&refresh) {
                return (400, json!({"error": "invalid_grant"}));
            }
            used.push(refresh);
        }
        let json = json!({"access_token": format!("t{n}"), "token_type": "Bearer",
            "refresh_token": format!("r{n}"), "expires_in": lifetime});
        (200, json)
    }
}

fn refreshes(server: &Server) -> usize {
    server.log.of("/as/token").iter().filter(|r| r.field("refresh_token").is_some()).count()
}

#[tokio::test]
async fn stored_credentials_are_used_without_a_person() {
    let mut world = World::new();
    latest_only(&mut world, rotating(3600));
    let server = world.start().await;
    let (person, store) = (Arc::new(Person::default()), memory());
    for _ in 0..2 {
        let client = client(&person, &store, with(oauth()));
        client.connect("s", &server.target()).await.unwrap().tools().await.unwrap();
    }
    assert_eq!((person.count(), server.log.of("/as/token").len()), (1, 1));
    let records = store.of_server(&format!("{}/mcp", server.origin)).await.unwrap();
    let [(key, record)] = records.as_slice() else { panic!("{records:?}") };
    assert_eq!(key.issuer, server.origin);
    assert_eq!((record.client.id.as_str(), record.client.origin), ("cl:1", ClientOrigin::Dynamic));
    let tokens = record.tokens.as_ref().unwrap();
    assert_eq!((tokens.access.expose(), tokens.refresh.as_ref().unwrap().expose()), ("t0", "r0"));
}

#[tokio::test]
async fn two_clients_with_one_store_refresh_once() {
    let mut world = World::new();
    latest_only(&mut world, rotating(3600));
    let good = Arc::clone(&world.judge);
    let revoked = Arc::new(Mutex::new(false));
    let off = Arc::clone(&revoked);
    world.judge = Arc::new(move |method, token| match token == "t0" && *off.lock().unwrap() {
        true => Verdict::Unauthorized("Bearer error=\"invalid_token\""),
        false => good(method, token),
    });
    let server = world.start().await;
    let (person, store) = (Arc::new(Person::default()), memory());
    // As two processes would, they know of each other by the store alone.
    let one = client(&person, &store, with(oauth())).connect("s", &server.target()).await.unwrap();
    let two = client(&person, &store, with(oauth())).connect("s", &server.target()).await.unwrap();
    *revoked.lock().unwrap() = true;
    let calls = [&one, &two, &one, &two].map(|connection| connection.call("echo", args("x")));
    for result in futures_util::future::join_all(calls).await {
        result.unwrap();
    }
    assert_eq!((person.count(), refreshes(&server)), (1, 1));
}

#[tokio::test]
async fn without_refreshing_the_person_signs_in_again() {
    let mut world = World::new();
    latest_only(&mut world, rotating(3600));
    let good = Arc::clone(&world.judge);
    let revoked = Arc::new(Mutex::new(false));
    let off = Arc::clone(&revoked);
    world.judge = Arc::new(move |method, token| match token == "t0" && *off.lock().unwrap() {
        true => Verdict::Unauthorized("Bearer error=\"invalid_token\""),
        false => good(method, token),
    });
    let server = world.start().await;
    let (person, store) = (Arc::new(Person::default()), memory());
    let mut settings = oauth();
    settings.refresh = false;
    let client = client(&person, &store, with(settings));
    let connection = client.connect("s", &server.target()).await.unwrap();
    *revoked.lock().unwrap() = true;
    connection.call("echo", args("x")).await.unwrap();
    assert_eq!((person.count(), refreshes(&server)), (2, 0));
}

#[tokio::test]
async fn two_clients_refresh_once_before_the_end_of_a_token() {
    let mut world = World::new();
    // The first token is about to expire, the next one is not.
    let rotating = rotating(3600);
    world.tokens = Arc::new(move |n, request| {
        let (status, mut json) = rotating(n, request);
        if n == 0 {
            json["expires_in"] = 1.into();
        }
        (status, json)
    });
    let server = world.start().await;
    let (person, store) = (Arc::new(Person::default()), memory());
    let both = [(), ()].map(|()| client(&person, &store, with(oauth())));
    both[0].login("s", &target(&server)).await.unwrap();
    let connections =
        both.iter().map(|client| async { client.connect("s", &server.target()).await.unwrap() });
    futures_util::future::join_all(connections).await;
    assert_eq!((person.count(), refreshes(&server)), (1, 1));
    assert!(
        server
            .log
            .of("POST initialize")
            .iter()
            .skip(1)
            .all(|r| r.header("authorization") == Some("Bearer t1"))
    );
}

fn target(server: &Server) -> sparring_client::HttpTarget {
    sparring_client::HttpTarget::new(format!("{}/mcp", server.origin))
}

#[tokio::test]
async fn a_refresh_that_has_to_wait_loses_nothing() {
    let mut world = World::new();
    let busy = Arc::new(Mutex::new(false));
    let state = Arc::clone(&busy);
    let rotating = rotating(1);
    world.tokens = Arc::new(move |n, request| match *state.lock().unwrap() && n == 1 {
        true => (429, json!({})),
        false => rotating(n, request),
    });
    let server = world.start().await;
    let (person, store) = (Arc::new(Person::default()), memory());
    let client = client(&person, &store, with(oauth()));
    client.login("s", &target(&server)).await.unwrap();
    *busy.lock().unwrap() = true;
    // The token is still good, and the next refresh is not refused.
    client.connect("s", &server.target()).await.unwrap().tools().await.unwrap();
    assert_eq!(person.count(), 1);
    let refreshed: Vec<_> =
        server.log.of("/as/token").iter().filter_map(|r| r.field("refresh_token")).collect();
    assert_eq!(refreshed[..2], ["r0", "r0"]);
}

#[tokio::test]
async fn a_new_authorization_server_gets_nothing_of_the_old_one() {
    let other = World { registration: json!({"client_id": "other"}), ..World::new() }.start().await;
    let mut world = World::new();
    let later = Arc::clone(&world.later);
    world.tokens = Arc::new(rotating(3600));
    world.judge = Arc::new(move |_, token| {
        let moved = later.lock().unwrap().get("authorization_servers").is_some();
        match (moved, token) {
            (false, "t0") | (true, "t1") => Verdict::Good,
            _ => Verdict::Unauthorized("Bearer"),
        }
    });
    let later = Arc::clone(&world.later);
    let server = world.start().await;
    let (person, store) = (Arc::new(Person::default()), memory());
    let connection = client(&person, &store, with(oauth())).connect("s", &server.target()).await.unwrap();
    connection.tools().await.unwrap();
    *later.lock().unwrap() = json!({"authorization_servers": [other.origin]});
    connection.call("echo", args("x")).await.unwrap();

    assert_eq!(refreshes(&server), 0, "the old server is out of it");
    assert_eq!(other.log.of("/as/register").len(), 1);
    assert_eq!(person.asked(1, "client_id").as_deref(), Some("other"));
    for request in other.log.all() {
        assert!(!format!("{request:?}").contains("cl:1") && !request.body.contains("r0"), "{request:?}");
    }
    // The registration at the old one is kept, its tokens are not.
    let records = store.of_server(&format!("{}/mcp", server.origin)).await.unwrap();
    let state: Vec<_> = records
        .iter()
        .map(|(key, record)| (key.issuer.as_str(), record.client.id.as_str(), record.tokens.is_some()))
        .collect();
    assert_eq!(state, [(server.origin.as_str(), "cl:1", false), (other.origin.as_str(), "other", true)]);
}

#[tokio::test]
async fn the_issuer_that_knows_the_client_comes_first() {
    let other = World::new().start().await;
    let world = World::new();
    let later = Arc::clone(&world.later);
    let server = world.start().await;
    let (person, store) = (Arc::new(Person::default()), memory());
    let client = client(&person, &store, with(oauth()));
    client.login("s", &target(&server)).await.unwrap();
    *later.lock().unwrap() = json!({"authorization_servers": [other.origin, server.origin]});
    client.login("s", &target(&server)).await.unwrap();
    assert_eq!((person.count(), other.log.all().len()), (2, 0));
    assert_eq!(server.log.of("/as/register").len(), 1);
}

#[tokio::test]
async fn a_client_that_is_registered_elsewhere_is_told() {
    for issuer in [Some("https://elsewhere.example"), None] {
        let known = RegisteredClient {
            issuer: issuer.map(str::to_owned),
            id: "pre".into(),
            secret: Some("s3cr3t".into()),
        };
        let oauth = OauthSettings { registered: vec![known], ..oauth() };
        let world = World::new();
        let later = Arc::clone(&world.later);
        let server = world.start().await;
        let other = World::new().start().await;
        let (person, store) = (Arc::new(Person::default()), memory());
        let client = client(&person, &store, with(oauth));
        let first = client.login("s", &target(&server)).await;
        let error = match issuer {
            Some(_) => first.unwrap_err(),
            // The first issuer that it is used with is the one.
            None => {
                first.unwrap();
                *later.lock().unwrap() = json!({"authorization_servers": [other.origin]});
                client.login("s", &target(&server)).await.unwrap_err()
            }
        };
        assert!(error.to_string().contains("the client pre is registered with"), "{error}");
        assert!(other.log.of("/as/token").is_empty() && other.log.of("/as/register").is_empty());
        assert_eq!(person.count(), usize::from(issuer.is_none()));
        // The secret stays in the settings.
        let records = store.of_server(&format!("{}/mcp", server.origin)).await.unwrap();
        assert!(
            !serde_json::to_string(&records.iter().map(|r| &r.1).collect::<Vec<_>>())
                .unwrap()
                .contains("s3cr3t")
        );
    }
}

#[tokio::test]
async fn registrations_say_what_kind_of_application_this_is() {
    let server = World::new().start().await;
    connect(&server, &Arc::default(), with(oauth())).await.unwrap();
    let registered = server.log.of("/as/register")[0].json();
    assert_eq!(registered["application_type"], "native");
    assert_eq!(registered["grant_types"], json!(["authorization_code", "refresh_token"]));
}

#[tokio::test]
async fn a_secret_that_has_expired_is_registered_anew() {
    let mut world = World::new();
    world.registration = json!({"client_secret": "s", "client_secret_expires_at": 1,
        "token_endpoint_auth_method": "client_secret_post"});
    let server = world.start().await;
    let (person, store) = (Arc::new(Person::default()), memory());
    let client = client(&person, &store, with(oauth()));
    for _ in 0..2 {
        client.login("s", &target(&server)).await.unwrap();
    }
    assert_eq!(server.log.of("/as/register").len(), 2);
}

/// Nothing can be read, or nothing can be written.
struct Broken {
    reads: bool,
    inner: MemoryStore,
}

#[async_trait]
impl CredentialStore for Broken {
    async fn of_server(&self, server: &str) -> Result<Vec<(CredentialKey, Credentials)>, StoreError> {
        match self.reads {
            true => self.inner.of_server(server).await,
            false => Err(StoreError("the disk is gone".into())),
        }
    }

    async fn put(&self, _: &CredentialKey, _: &Credentials) -> Result<(), StoreError> {
        Err(StoreError("the disk is full".into()))
    }

    async fn remove(&self, key: &CredentialKey) -> Result<(), StoreError> {
        self.inner.remove(key).await
    }

    async fn lock(&self, server: &str) -> Result<StoreLock, StoreError> {
        self.inner.lock(server).await
    }
}

#[tokio::test]
async fn a_store_that_fails_is_an_error_and_no_new_login() {
    for (reads, words, logins) in [(false, "the disk is gone", 0), (true, "the disk is full", 0)] {
        let server = World::new().start().await;
        let person = Arc::new(Person::default());
        let store: Arc<dyn CredentialStore> = Arc::new(Broken { reads, inner: MemoryStore::default() });
        let client = client(&person, &store, with(oauth()));
        let error = client.connect("s", &server.target()).await.unwrap_err();
        assert_eq!(error.kind(), FailureKind::Auth);
        assert!(error.to_string().contains(words), "{error}");
        assert_eq!(person.count(), logins);
    }
}
