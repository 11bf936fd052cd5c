//! Logins: as a step of their own, by their ways back, and what of the answer is believed.

use crate::oauth_world::{Person, Verdict, World, client, oauth, with};
use crate::support::{Server, args, field};
use async_trait::async_trait;
use serde_json::json;
use sparring_client::oauth::{BrowserFn, CredentialStore, MemoryStore, Secret};
use sparring_client::{
    Browser, Client, Error, HttpTarget, LoginPolicy, OauthSettings, RegisteredClient, Settings,
};
use sparring_wire::Revision;
use sparring_wire::transcript::FailureKind;
use std::sync::{Arc, Mutex};

fn target(server: &Server) -> HttpTarget {
    HttpTarget::new(format!("{}/mcp", server.origin))
}

fn stateless() -> Settings {
    Settings { offer: Revision::V2026_07_28, ..with(oauth()) }
}

async fn login(server: &Server, person: &Arc<Person>, settings: Settings) -> Result<(), Error> {
    let client = Client::builder(settings).browser(Arc::clone(person) as Arc<dyn Browser>).build();
    client.login("s", &target(server)).await.map(drop)
}

#[tokio::test]
async fn a_start_opens_no_browser_unless_that_is_allowed() {
    let mut world = World::new();
    world.resource = json!({"scopes_supported": ["read"]});
    world.judge = Arc::new(|_, token| match token {
        "t1" => Verdict::Good,
        _ => Verdict::Unauthorized("Bearer"),
    });
    let server = world.start().await;
    let (person, store) =
        (Arc::new(Person::default()), Arc::new(MemoryStore::default()) as Arc<dyn CredentialStore>);
    let never = OauthSettings { login: LoginPolicy::Never, ..oauth() };
    let client = client(&person, &store, with(never));
    let error = client.connect("files", &server.target()).await.unwrap_err();
    assert_eq!(error.kind(), FailureKind::Auth);
    let Error::NeedsLogin(needs) = &error else { panic!("{error}") };
    assert_eq!((needs.server.as_str(), &needs.url), ("files", &format!("{}/mcp", server.origin)));
    assert_eq!((&needs.issuer, needs.scope.as_deref(), needs.again), (&server.origin, Some("read"), false));
    assert_eq!(error.to_string(), format!("the server files needs a login, at {}", server.origin));
    assert_eq!(person.count(), 0);
    assert!(server.log.of("/as/register").is_empty());

    let key = client.login("files", &target(&server)).await.unwrap();
    assert_eq!((key.server, key.issuer), (format!("{}/mcp", server.origin), server.origin.clone()));
    client.connect("files", &server.target()).await.unwrap().call("echo", args("x")).await.unwrap();
    assert_eq!(person.count(), 1);

    assert_eq!(client.logout(&target(&server)).await.unwrap().len(), 1);
    let error = client.connect("files", &server.target()).await.unwrap_err();
    assert!(matches!(error, Error::NeedsLogin(_)), "{error}");
    assert!(client.logout(&target(&server)).await.unwrap().is_empty());
}

#[tokio::test]
async fn a_token_that_is_lost_asks_for_a_new_login() {
    let mut world = World::new();
    let gone = Arc::new(Mutex::new(false));
    let state = Arc::clone(&gone);
    world.judge = Arc::new(move |_, token| match token.is_empty() || *state.lock().unwrap() {
        true => Verdict::Unauthorized("Bearer"),
        false => Verdict::Good,
    });
    let server = world.start().await;
    let (person, store) =
        (Arc::new(Person::default()), Arc::new(MemoryStore::default()) as Arc<dyn CredentialStore>);
    let never = OauthSettings { login: LoginPolicy::Never, ..oauth() };
    let client = client(&person, &store, with(never));
    client.login("s", &target(&server)).await.unwrap();
    let connection = client.connect("s", &server.target()).await.unwrap();
    *gone.lock().unwrap() = true;
    let error = connection.call("echo", args("x")).await.unwrap_err();
    assert!(matches!(&error, Error::NeedsLogin(needs) if needs.again), "{error}");
    assert!(error.to_string().contains("a new login"), "{error}");
    assert_eq!(person.count(), 1);
}

#[tokio::test]
async fn a_login_needs_no_refusal_and_leaves_no_session() {
    let mut world = World::new();
    world.judge = Arc::new(|_, _| Verdict::Good);
    let server = Server::start(move |mut x| {
        let world = world.clone();
        Box::pin(async move {
            match x.request.path() {
                "/mcp" => x.good().await,
                _ => world.answer(x).await,
            }
        })
    })
    .await;
    let person = Arc::new(Person::default());
    login(&server, &person, with(oauth())).await.unwrap();
    assert_eq!(person.count(), 1);
    let closed = &server.log.of("DELETE")[0];
    assert_eq!(closed.header("mcp-session-id"), Some("s-1"));
}

#[tokio::test]
async fn a_server_that_is_away_is_told_as_such() {
    let gone = HttpTarget::new("http://127.0.0.1:1/mcp");
    let error = Client::new(with(oauth())).login("s", &gone).await.unwrap_err();
    assert_eq!(error.kind(), FailureKind::Start, "{error}");
}

#[tokio::test]
async fn the_way_back_is_where_the_settings_say() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let uri = format!("http://localhost:{free}/oauth/back");
    let server = World::new().start().await;
    let listening = OauthSettings { listen_at: Some(uri.clone()), ..OauthSettings::default() };
    // The redirect URL is pasted; the listener waits beside it.
    let pasted = BrowserFn(|_, url: String| async move {
        let query = url.split_once('?').unwrap().1.to_owned();
        let (back, state) = (field(&query, "redirect_uri").unwrap(), field(&query, "state").unwrap());
        Ok(Some(format!(" {back}?code=c&state={state}\n")))
    });
    let client = Client::builder(with(listening)).browser(Arc::new(pasted)).build();
    client.login("s", &target(&server)).await.unwrap();
    assert_eq!(server.log.of("/as/token")[0].field("redirect_uri"), Some(uri.clone()));
    assert_eq!(server.log.of("/as/register")[0].json()["redirect_uris"], json!([uri]));

    let elsewhere = OauthSettings { listen_at: Some("http://10.0.0.1/x".into()), ..OauthSettings::default() };
    let error = login(&server, &Arc::default(), with(elsewhere)).await.unwrap_err();
    assert!(error.to_string().contains("not on loopback"), "{error}");
}

#[tokio::test]
async fn the_issuer_of_an_answer_is_compared_as_a_text() {
    // Advertised; what is sent in place of `code=`, with ISSUER for the right one; the words of the refusal.
    let right = "iss=ISSUER&code=";
    let cases = [
        (true, right.to_owned(), None),
        (false, right.to_owned(), None),
        (false, "code=".to_owned(), None),
        (true, "code=".to_owned(), Some("lacks its issuer")),
        (true, "iss=https%3A%2F%2Fevil.example&code=".to_owned(), Some("another issuer")),
        (false, "iss=https%3A%2F%2Fevil.example&code=".to_owned(), Some("another issuer")),
        (true, "iss=ISSUER%2F&code=".to_owned(), Some("another issuer")),
        (true, "iss=HTTP%3A%2F%2F127.0.0.1%3APORT&code=".to_owned(), Some("another issuer")),
        (true, "iss=http%3A%2F%2F127%252E0.0.1%3APORT&code=".to_owned(), Some("another issuer")),
        (
            true,
            "iss=https%3A%2F%2Fevil.example&error=marker&error_description=marker&x=".to_owned(),
            Some("another issuer"),
        ),
        (true, "error=marker&error_description=marker&x=".to_owned(), Some("lacks its issuer")),
        (true, "iss=ISSUER&error=access_denied&x=".to_owned(), Some("access_denied")),
    ];
    for revision in [Revision::V2025_11_25, Revision::V2026_07_28] {
        for (advertised, answer, words) in &cases {
            let mut world = World::new();
            world.server = json!({"authorization_response_iss_parameter_supported": advertised});
            let server = world.start().await;
            let port = server.origin.rsplit(':').next().unwrap();
            let issuer = server.origin.replace(':', "%3A").replace('/', "%2F");
            let answer: &'static str =
                Box::leak(answer.replace("ISSUER", &issuer).replace("PORT", port).into_boxed_str());
            let person = Arc::new(Person { answer: Some(("code=", answer)), ..Person::default() });
            let settings = Settings { offer: revision, ..with(oauth()) };
            let outcome = login(&server, &person, settings).await;
            match words {
                None => outcome.unwrap(),
                Some(words) => {
                    let error = outcome.unwrap_err().to_string();
                    assert!(error.contains(words) && !error.contains("marker"), "{answer}: {error}");
                }
            }
            assert_eq!(server.log.of("/as/token").len(), usize::from(words.is_none()), "{answer}");
        }
    }
}

#[tokio::test]
async fn the_issuer_of_metadata_is_identical_in_the_stateless_revision() {
    for (issuer, identical, before) in [
        (json!("ORIGIN"), true, true),
        (json!("ORIGIN/"), false, true),
        (json!("https://evil.example"), false, false),
        (json!(null), false, true),
    ] {
        for (settings, good) in [(stateless(), identical), (with(oauth()), before)] {
            let world = World::new();
            let stated = issuer.clone();
            let server = Server::start(move |x| {
                let mut world = world.clone();
                let stated = stated.as_str().map(|text| text.replace("ORIGIN", &x.origin));
                world.server = json!({ "issuer": stated });
                Box::pin(async move { world.answer(x).await })
            })
            .await;
            let revision = settings.offer;
            let outcome = login(&server, &Arc::default(), settings).await;
            assert_eq!(outcome.is_ok(), good, "{issuer} {revision}: {outcome:?}");
            assert_eq!(server.log.of("/as/register").len(), usize::from(good));
        }
    }
}

#[tokio::test]
async fn scopes_are_kept_and_refresh_tokens_are_asked_for_where_they_are_offered() {
    let scopes = |world: &mut World, of_server: &[&str]| {
        world.resource = json!({"scopes_supported": ["read"]});
        world.server = json!({"scopes_supported": of_server});
    };
    // Settings, what the authorization server lists: asked for at the first and at the second login.
    let denied = OauthSettings { offline_access: false, ..oauth() };
    for (settings, listed, first, second) in [
        (stateless(), vec!["offline_access", "read"], "read offline_access", "read offline_access write"),
        (stateless(), vec!["read"], "read", "read write"),
        (
            Settings { offer: Revision::V2026_07_28, ..with(denied) },
            vec!["offline_access"],
            "read",
            "read write",
        ),
        (with(oauth()), vec!["offline_access"], "read", "write"),
    ] {
        let mut world = World::new();
        scopes(&mut world, &listed);
        let later = Arc::clone(&world.later);
        let server = world.start().await;
        let (person, store) =
            (Arc::new(Person::default()), Arc::new(MemoryStore::default()) as Arc<dyn CredentialStore>);
        let client = client(&person, &store, settings);
        client.login("s", &target(&server)).await.unwrap();
        *later.lock().unwrap() = json!({"scopes_supported": ["write"]});
        client.login("s", &target(&server)).await.unwrap();
        assert_eq!(person.asked(0, "scope").as_deref(), Some(first));
        assert_eq!(person.asked(1, "scope").as_deref(), Some(second));
    }
    // Nothing to add it to: the server's own default would be lost.
    let mut world = World::new();
    world.server = json!({"scopes_supported": ["offline_access"]});
    let server = world.start().await;
    let person = Arc::new(Person::default());
    login(&server, &person, stateless()).await.unwrap();
    assert_eq!(person.asked(0, "scope"), None);
}

#[tokio::test]
async fn a_browser_that_fails_is_told() {
    struct Broken;
    #[async_trait]
    impl Browser for Broken {
        async fn open(&self, _: &str, _: &str) -> Result<Option<String>, String> {
            Err("no display".into())
        }
    }
    let server = World::new().start().await;
    let client = Client::builder(with(OauthSettings::default())).browser(Arc::new(Broken)).build();
    let error = client.login("s", &target(&server)).await.unwrap_err();
    assert!(error.to_string().contains("no display"), "{error}");
}

#[test]
fn settings_show_no_secret() {
    let known = RegisteredClient { issuer: None, id: "the-id".into(), secret: Some("hunter2".into()) };
    let assertion = sparring_client::oauth::Assertion::Text("hunter2".into());
    let settings = OauthSettings {
        registered: vec![known],
        grant: sparring_client::oauth::Grant::Workload(assertion),
        ..OauthSettings::default()
    };
    let shown = format!("{settings:?} {:?}", Secret::from("hunter2"));
    assert!(shown.contains("the-id") && !shown.contains("hunter2"), "{shown}");
}
