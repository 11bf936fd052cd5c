use crate::oauth_world::{Person, Verdict, World, connect, gets, latest_only, oauth, with};
use crate::support::{Server, args, settings};
use async_trait::async_trait;
use serde_json::json;
use sha2::Digest as _;
use sparring_client::{Browser, Client, OauthSettings, RegisteredClient};
use sparring_wire::Revision;
use sparring_wire::transcript::FailureKind;
use std::sync::{Arc, Mutex};

#[tokio::test]
async fn the_whole_flow_over_a_real_callback() {
    let server = World::new().start().await;
    let person = Arc::new(Person { really: true, ..Person::default() });
    let settings = with(OauthSettings::default());
    let connection = connect(&server, &person, settings).await.unwrap();
    connection.call("echo", args("x")).await.unwrap();
    connection.close().await;
    assert_eq!(
        gets(&server),
        ["/.well-known/oauth-protected-resource/mcp", "/.well-known/oauth-authorization-server"]
    );
    let registered = server.log.of("/as/register")[0].json();
    let back = person.asked(0, "redirect_uri").unwrap();
    assert!(back.starts_with("http://127.0.0.1:"));
    assert_eq!(registered["redirect_uris"], json!([back]));
    let resource = format!("{}/mcp", server.origin);
    for (name, value) in [
        ("p", "1"),
        ("response_type", "code"),
        ("client_id", "cl:1"),
        ("code_challenge_method", "S256"),
        ("resource", &resource),
    ] {
        assert_eq!(person.asked(0, name).as_deref(), Some(value), "{name}");
    }
    assert_eq!(person.asked(0, "scope"), None);
    let token = &server.log.of("/as/token")[0];
    for (name, value) in [
        ("grant_type", "authorization_code"),
        ("code", "the code"),
        ("client_id", "cl:1"),
        ("resource", &resource),
        ("redirect_uri", &back),
    ] {
        assert_eq!(token.field(name).as_deref(), Some(value), "{name}");
    }
    let verifier = token.field("code_verifier").unwrap();
    assert!(
        verifier.len() >= 43 && verifier.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._~".contains(&b))
    );
    use base64::Engine as _;
    let challenge = base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(sha2::Sha256::digest(verifier));
    assert_eq!(person.asked(0, "code_challenge"), Some(challenge));
    let mcp: Vec<Option<String>> =
        server.log.of("/mcp").iter().map(|r| r.header("authorization").map(str::to_owned)).collect();
    assert!(mcp[0].is_none() && mcp[1..].iter().all(|a| a.as_deref() == Some("Bearer t1")), "{mcp:?}");
    let port = back.rsplit(':').next().unwrap().split('/').next().unwrap().to_owned();
    let closed = tokio::net::TcpStream::connect(format!("127.0.0.1:{port}")).await;
    assert!(closed.is_err(), "the callback is still listening");
}

#[tokio::test]
async fn metadata_is_found_where_it_is() {
    let rs = "/.well-known/oauth-authorization-server/t1";
    let oidc = "/.well-known/openid-configuration/t1";
    let tail = "/t1/.well-known/openid-configuration";
    let prm = "/.well-known/oauth-protected-resource";
    let cases: Vec<(Vec<&'static str>, Vec<&str>)> =
        vec![(vec![], vec![rs]), (vec![rs], vec![rs, oidc]), (vec![rs, oidc], vec![rs, oidc, tail])];
    for (missing, expected) in cases {
        let mut world = World::new();
        world.issuer_path = "/t1";
        world.missing = missing;
        world.missing.push("/.well-known/oauth-protected-resource/mcp!");
        let server = world.start().await;
        connect(&server, &Arc::default(), with(oauth())).await.unwrap();
        let gets = gets(&server);
        assert_eq!(gets[..2], [format!("{prm}/mcp"), prm.to_owned()]);
        assert_eq!(gets[2..], expected);
    }
    let mut world = World::new();
    world.judge = Arc::new(|_, token| match token {
        "" => Verdict::Unauthorized(r#"Bearer scope="mcp:read", resource_metadata="ORIGIN/custom-prm""#),
        _ => Verdict::Good,
    });
    world.resource = json!({"scopes_supported": ["all"]});
    let server = world.start().await;
    let person = Arc::new(Person::default());
    connect(&server, &person, with(oauth())).await.unwrap();
    assert_eq!(gets(&server)[0], "/custom-prm");
    assert_eq!(person.asked(0, "scope").as_deref(), Some("mcp:read"));
}

#[tokio::test]
async fn what_can_not_be_trusted_ends_the_flow() {
    type Change = fn(&mut World);
    let worlds: Vec<(Change, &str)> = vec![
        (|w| w.resource = json!({"resource": "https://other.example/mcp"}), "for the resource"),
        (|w| w.resource = json!({"resource": null}), "has no resource"),
        (|w| w.resource = json!({"authorization_servers": []}), "names no authorization server"),
        (|w| w.server = json!({"issuer": "https://evil.example"}), "another issuer"),
        (|w| w.server = json!({"code_challenge_methods_supported": null}), "PKCE"),
        (|w| w.server = json!({"code_challenge_methods_supported": ["plain"]}), "S256"),
        (
            |w| w.server = json!({"token_endpoint": "http://as.example/token"}),
            "neither https nor http on loopback",
        ),
        (|w| w.server = json!({"authorization_endpoint": "javascript:alert(1)"}), "neither https"),
        (|w| w.server = json!({"registration_endpoint": null}), "no way to register"),
        (|w| w.tokens = Arc::new(|_, _| (400, json!({"error": "invalid_grant"}))), "invalid_grant"),
        (
            |w| w.tokens = Arc::new(|_, _| (200, json!({"access_token": "t", "token_type": "mac"}))),
            "not of type Bearer",
        ),
    ];
    for (change, words) in worlds {
        let mut world = World::new();
        change(&mut world);
        let server = world.start().await;
        let error = connect(&server, &Arc::default(), with(oauth())).await.unwrap_err();
        assert_eq!(error.kind(), FailureKind::Auth, "{error}");
        assert!(error.to_string().contains(words), "{words}: {error}");
        let posts = server.log.of("/mcp");
        assert!(posts.iter().all(|r| r.header("authorization").is_none()));
    }
    let answers = [
        ("state=", "state=x", "another state"),
        ("&state=", "&other=", "another state"),
        ("code=the%20code", "error=access_denied", "access_denied"),
        ("code=", "iss=https%3A%2F%2Fevil.example&code=", "another issuer"),
    ];
    for (from, to, words) in answers {
        let server = World::new().start().await;
        let person = Arc::new(Person { answer: Some((from, to)), ..Person::default() });
        let error = connect(&server, &person, with(oauth())).await.unwrap_err();
        assert!(error.to_string().contains(words), "{words}: {error}");
        assert!(server.log.of("/as/token").is_empty());
    }
}

#[tokio::test]
async fn the_kinds_of_client_have_their_order_and_their_method() {
    use base64::Engine as _;
    let document = "https://client.example/id.json";
    let flagged = json!({"client_id_metadata_document_supported": true});
    let known = || vec![RegisteredClient { issuer: None, id: "pre".into(), secret: Some("s:e".into()) }];
    let basic = base64::engine::general_purpose::STANDARD.encode("pre:s%3Ae");
    let reg = |method: &str| json!({"client_secret": "sec", "token_endpoint_auth_method": method});
    // Settings, server, registration: client id, in the form, in the header.
    let cases = [
        (
            OauthSettings { registered: known(), ..oauth() },
            flagged.clone(),
            json!({}),
            "pre",
            None,
            Some(basic),
        ),
        (
            OauthSettings { metadata_document: Some(document.into()), ..oauth() },
            flagged.clone(),
            json!({}),
            document,
            None,
            None,
        ),
        (
            OauthSettings { metadata_document: Some(document.into()), ..oauth() },
            json!({}),
            json!({}),
            "cl:1",
            None,
            None,
        ),
        (
            OauthSettings { metadata_document: Some("https://client.example".into()), ..oauth() },
            flagged,
            json!({}),
            "cl:1",
            None,
            None,
        ),
        (oauth(), json!({}), reg("client_secret_post"), "cl:1", Some("sec"), None),
        (oauth(), json!({}), reg("client_secret_basic"), "cl:1", None, Some("Y2wlM0ExOnNlYw==".into())),
        (oauth(), json!({}), json!({"token_endpoint_auth_method": "none"}), "cl:1", None, None),
    ];
    for (settings, server, registration, id, secret, header) in cases {
        let mut world = World::new();
        (world.server, world.registration) = (server, registration);
        let server = world.start().await;
        let person = Arc::new(Person::default());
        connect(&server, &person, with(settings)).await.unwrap();
        assert_eq!(person.asked(0, "client_id").as_deref(), Some(id));
        let token = &server.log.of("/as/token")[0];
        assert_eq!(token.field("client_secret").as_deref(), secret);
        assert_eq!(token.header("authorization").map(str::to_owned), header.map(|h| format!("Basic {h}")));
        assert_eq!(server.log.of("/as/register").len(), usize::from(id == "cl:1"));
    }
}

#[tokio::test]
async fn refresh_tokens_rotate_or_stay_and_expiring_tokens_are_renewed_beforehand() {
    let mut world = World::new();
    latest_only(&mut world, |n, _| {
        let mut json = json!({"access_token": format!("t{n}"), "token_type": "Bearer", "expires_in": 1});
        // The second refresh brings no new refresh token.
        if n != 2 {
            json["refresh_token"] = format!("r{n}").into();
        }
        (if n == 1 { 201 } else { 200 }, json)
    });
    let server = world.start().await;
    let person = Arc::new(Person::default());
    let mut settings = with(oauth());
    settings.http.delete_session = false;
    let connection = connect(&server, &person, settings).await.unwrap();
    for _ in 0..2 {
        connection.call("echo", args("x")).await.unwrap();
    }
    assert_eq!(person.count(), 1);
    let refreshed: Vec<String> =
        server.log.of("/as/token").iter().filter_map(|r| r.field("refresh_token")).collect();
    assert_eq!(refreshed[..3], ["r0", "r1", "r1"]);
    assert!(server.log.of("/as/token")[1].field("resource").is_some());
    let refused = server.log.of("/mcp").iter().filter(|r| r.header("authorization").is_none()).count();
    assert_eq!(refused, 1);
}

#[tokio::test]
async fn parallel_401s_lead_to_one_refresh() {
    let mut world = World::new();
    let revoked = Arc::new(Mutex::new(false));
    let off = Arc::clone(&revoked);
    world.tokens = Arc::new(|n, _| {
        (
            200,
            json!({"access_token": format!("t{n}"), "token_type": "bearer", "refresh_token": format!("r{n}")}),
        )
    });
    world.judge = Arc::new(move |_, token| match (token, *off.lock().unwrap()) {
        ("", _) | ("t0", true) => Verdict::Unauthorized("Bearer"),
        _ => Verdict::Good,
    });
    let server = world.start().await;
    let person = Arc::new(Person::default());
    let connection = connect(&server, &person, with(oauth())).await.unwrap();
    connection.ping().await.unwrap();
    *revoked.lock().unwrap() = true;
    let calls = (0..5).map(|_| connection.call("echo", args("x")));
    for result in futures_util::future::join_all(calls).await {
        result.unwrap();
    }
    assert_eq!(server.log.of("/as/token").len(), 2);
    assert_eq!(person.count(), 1);
}

#[tokio::test]
async fn a_refresh_token_of_no_use_leads_to_a_new_login() {
    let mut world = World::new();
    let state = Arc::new(Mutex::new(false));
    let off = Arc::clone(&state);
    world.tokens = Arc::new(|n, request| match request.field("grant_type").as_deref() {
        Some("refresh_token") => (400, json!({"error": "invalid_grant"})),
        _ => (200, json!({"access_token": format!("t{n}"), "token_type": "bearer", "refresh_token": "r"})),
    });
    world.judge = Arc::new(move |_, token| match (token, *off.lock().unwrap()) {
        ("", _) | ("t0", true) => Verdict::Unauthorized("Bearer"),
        _ => Verdict::Good,
    });
    let server = world.start().await;
    let person = Arc::new(Person::default());
    let connection = connect(&server, &person, with(oauth())).await.unwrap();
    *state.lock().unwrap() = true;
    connection.call("echo", args("x")).await.unwrap();
    assert_eq!(person.count(), 2);
    assert_eq!(server.log.of("/as/register").len(), 1, "the registration is kept");
}

#[tokio::test]
async fn a_server_that_refuses_every_token_is_no_loop() {
    let mut world = World::new();
    world.judge = Arc::new(|_, _| Verdict::Unauthorized("Bearer"));
    let server = world.start().await;
    let person = Arc::new(Person::default());
    let error = connect(&server, &person, with(oauth())).await.unwrap_err();
    assert_eq!((error.kind(), error.code()), (FailureKind::Auth, Some(401)));
    assert_eq!((person.count(), server.log.of("/mcp").len()), (1, 2));
}

#[tokio::test]
async fn stepping_up_asks_for_more_and_is_bounded() {
    let mut world = World::new();
    world.resource = json!({"scopes_supported": ["read"]});
    world.tokens = Arc::new(|n, request| {
        assert_ne!(request.field("grant_type").as_deref(), Some("refresh_token"), "no step-up by refreshing");
        (200, json!({"access_token": format!("t{n}"), "token_type": "bearer", "refresh_token": "r"}))
    });
    world.judge = Arc::new(|method, token| match (method, token) {
        (_, "") => Verdict::Unauthorized("Bearer"),
        ("tools/call", "t0") => Verdict::Forbidden(r#"Bearer error="insufficient_scope", scope="write""#),
        ("tools/list", _) => Verdict::Forbidden(r#"Bearer error="insufficient_scope", scope="admin""#),
        ("ping", _) => Verdict::Forbidden(""),
        _ => Verdict::Good,
    });
    let server = world.start().await;
    let person = Arc::new(Person::default());
    let connection = connect(&server, &person, with(oauth())).await.unwrap();
    connection.call("echo", args("x")).await.unwrap();
    assert_eq!(person.asked(0, "scope").as_deref(), Some("read"));
    assert_eq!(person.asked(1, "scope").as_deref(), Some("read write"));
    assert_eq!(server.log.of("POST tools/call").len(), 2);
    let plain = connection.ping().await.unwrap_err();
    assert_eq!((plain.kind(), plain.code()), (FailureKind::Http, Some(403)));
    assert_eq!(person.count(), 2);
    for _ in 0..3 {
        let error = connection.tools().await.unwrap_err();
        assert_eq!((error.kind(), error.code()), (FailureKind::Auth, Some(403)));
        assert!(error.to_string().contains("scopes"), "{error}");
    }
    assert_eq!(person.count(), 4, "two more, then never again");
}

#[tokio::test]
async fn step_ups_are_counted_for_each_tool() {
    let mut world = World::new();
    world.judge = Arc::new(|method, token| match (method, token) {
        (_, "") => Verdict::Unauthorized("Bearer"),
        ("tools/call", _) => Verdict::Forbidden(r#"Bearer error="insufficient_scope", scope="admin""#),
        _ => Verdict::Good,
    });
    let server = world.start().await;
    let person = Arc::new(Person::default());
    let connection = connect(&server, &person, with(oauth())).await.unwrap();
    let mut counts = vec![person.count()];
    for tool in ["one", "one", "other", "other"] {
        let error = connection.call(tool, args("x")).await.unwrap_err();
        assert_eq!((error.kind(), error.code()), (FailureKind::Auth, Some(403)));
        counts.push(person.count());
    }
    assert_eq!(counts, [1, 3, 3, 5, 5]);
}

#[tokio::test]
async fn the_first_authorization_of_2025_03_26_knows_the_origin_only() {
    for has_metadata in [true, false] {
        let mut world = World::new();
        world.revision = Revision::V2025_03_26;
        if !has_metadata {
            world.missing = vec!["/.well-known/oauth-authorization-server"];
        }
        let server = world.start().await;
        let person = Arc::new(Person::default());
        let mut settings = with(oauth());
        settings.offer = Revision::V2025_03_26;
        connect(&server, &person, settings).await.unwrap();
        let metadata = &server.log.of("/.well-known/oauth-authorization-server")[0];
        assert_eq!(metadata.header("mcp-protocol-version"), Some("2025-03-26"));
        assert_eq!(gets(&server).len(), 1);
        let visited = person.visited.lock().unwrap()[0].clone();
        let path = if has_metadata { "/as/authorize?" } else { "/authorize?" };
        assert!(visited.starts_with(&format!("{}{path}", server.origin)), "{visited}");
        assert!(person.asked(0, "resource").is_none());
        assert_eq!(server.log.of(if has_metadata { "/as/token" } else { "/token" }).len(), 1);
    }
}

#[tokio::test]
async fn without_resource_metadata_the_origin_is_asked_until_the_revision_is_known() {
    let missing = vec!["/.well-known/oauth-protected-resource/mcp", "/.well-known/oauth-protected-resource"];
    for has_metadata in [true, false] {
        let mut world = World::new();
        world.revision = Revision::V2025_03_26;
        world.missing = missing.clone();
        if !has_metadata {
            world.missing.push("/.well-known/oauth-authorization-server");
        }
        let server = world.start().await;
        let person = Arc::new(Person::default());
        connect(&server, &person, with(oauth())).await.unwrap();
        let place = "/.well-known/oauth-authorization-server";
        assert_eq!(gets(&server)[2..], [place]);
        assert_eq!(server.log.of(place)[0].header("mcp-protocol-version"), Some("2025-03-26"));
        assert_eq!(person.asked(0, "resource"), Some(format!("{}/mcp", server.origin)));
        assert_eq!(server.log.of(if has_metadata { "/as/token" } else { "/token" }).len(), 1);
    }

    // The challenge names a place, so there is such metadata, or ought to be.
    let mut world = World::new();
    world.missing = vec!["/custom-prm"];
    world.judge = Arc::new(|_, _| Verdict::Unauthorized(r#"Bearer resource_metadata="ORIGIN/custom-prm""#));
    let server = world.start().await;
    let error = connect(&server, &Arc::default(), with(oauth())).await.unwrap_err();
    assert!(error.to_string().contains("no protected resource metadata"), "{error}");
    assert_eq!(gets(&server), ["/custom-prm"]);

    // The handshake needs no token here, and shows a revision that has such metadata.
    let mut world = World::new();
    world.missing = missing;
    world.judge = Arc::new(|method, _| match method {
        "tools/list" => Verdict::Unauthorized("Bearer"),
        _ => Verdict::Good,
    });
    let server = world.start().await;
    let connection = connect(&server, &Arc::default(), with(oauth())).await.unwrap();
    let error = connection.tools().await.unwrap_err();
    assert!(error.to_string().contains("no protected resource metadata"), "{error}");
    assert_eq!(gets(&server).len(), 2);
}

#[tokio::test]
async fn the_resource_is_the_published_string() {
    let mut world = World::new();
    world.resource = json!({"resource": "ROOT"});
    let server = World { ..world }.start().await;
    // The origin is known only now; so the metadata is made by a second server that names the first.
    let origin = server.origin.clone();
    let person = Arc::new(Person::default());
    let error = connect(&server, &person, with(oauth())).await.unwrap_err();
    assert!(error.to_string().contains("ROOT"), "{error}");
    let plain = Server::start(move |mut x| {
        Box::pin(async move {
            match x.request.path() {
                "/.well-known/oauth-protected-resource/mcp" => {
                    let json = json!({"resource": x.origin, "authorization_servers": [x.origin]});
                    x.json(&json).await;
                }
                _ => World::new().answer(x).await,
            }
        })
    })
    .await;
    connect(&plain, &person, with(oauth())).await.unwrap();
    assert_ne!(origin, plain.origin);
    assert_eq!(person.asked(0, "resource"), Some(plain.origin.clone()));
    assert_eq!(plain.log.of("/as/token")[0].field("resource"), Some(plain.origin.clone()));
}

#[tokio::test]
async fn without_oauth_a_401_is_an_error_of_authorization() {
    let server = World::new().start().await;
    let client = Client::new(settings());
    let error = client.connect("s", &server.target()).await.unwrap_err();
    assert_eq!((error.kind(), error.code()), (FailureKind::Auth, Some(401)));
    assert_eq!(server.log.all().len(), 1);
}

#[tokio::test]
async fn the_time_in_the_browser_does_not_count() {
    struct Slow;
    #[async_trait]
    impl Browser for Slow {
        async fn open(&self, server: &str, url: &str) -> Result<Option<String>, String> {
            tokio::time::sleep(std::time::Duration::from_millis(150)).await;
            Person::default().open(server, url).await
        }
    }
    let server = World::new().start().await;
    let mut settings = with(oauth());
    settings.timeouts.start = std::time::Duration::from_millis(100);
    let client = Client::builder(settings).browser(Arc::new(Slow)).build();
    client.connect("s", &server.target()).await.unwrap();
}
