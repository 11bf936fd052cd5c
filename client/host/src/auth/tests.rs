use super::*;
use serde_json::json;
use sparring_client::Browser;
use sparring_profiles::{Login, Profile};
use std::sync::{Arc, Mutex};

fn settings(host: &str) -> AuthSettings {
    Profile::load(host).unwrap().settings().auth
}

fn entry(auth: Value) -> ServerEntry {
    ServerEntry {
        name: "s".into(),
        auth: Some(auth).filter(|auth| !auth.is_null()),
        ..ServerEntry::default()
    }
}

const HEADER: (&str, &str) = ("authorization", "Bearer x");

fn plan(settings: &AuthSettings, auth: Value, header: bool) -> SignIn {
    let headers = [("X", "y")].into_iter().chain(header.then_some(HEADER));
    let headers = headers.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    sign_in(settings, &entry(auth), headers).unwrap()
}

#[test]
fn who_signs_in_and_what_becomes_of_a_header() {
    let zidane = settings("zidane");
    let mouaif = settings("mouaif");
    let zut = settings("zut");
    // settings, `auth`, a header is configured, the flow is there, nobody asked for it, the header is sent
    let table = [
        (&zidane, json!(null), false, true, true, false),
        (&zidane, json!(null), true, false, false, true),
        (&zidane, json!("oauth"), false, true, false, false),
        (&zidane, json!({}), false, true, false, false),
        (&mouaif, json!("oauth"), true, true, false, false),
        (&mouaif, json!("none"), true, false, false, true),
        (&zut, json!("oauth"), true, false, false, true),
        (&zut, json!(null), false, false, false, false),
    ];
    for (settings, auth, header, flow, auto, sent) in table {
        let plan = plan(settings, auth.clone(), header);
        assert_eq!(plan.oauth.is_some(), flow, "{auth}");
        assert_eq!(plan.oauth.is_some_and(|oauth| oauth.needs_metadata), auto, "{auth}");
        assert_eq!(plan.headers.iter().any(|(name, _)| name == "authorization"), sent, "{auth}");
        assert!(plan.headers.iter().any(|(name, _)| name == "X"));
    }
    let sent = AuthSettings { static_header_under_oauth: StaticHeader::Sent, ..mouaif.clone() };
    assert_eq!(plan(&sent, json!("oauth"), true).headers.len(), 2);
    let not_auto = AuthSettings { auto_on_401: false, ..zidane.clone() };
    assert!(plan(&not_auto, json!(null), false).oauth.is_none());
    let despite = AuthSettings { static_header_blocks_auto: false, ..zidane };
    assert!(plan(&despite, json!(null), true).oauth.is_some());
}

#[test]
fn the_client_is_who_the_host_and_the_entry_say() {
    let auth = json!({"client_id": "me", "callback_port": 7777, "scope": "a b", "metadata_document": "https://m.test/c"});
    let mut mouaif = settings("mouaif");
    let oauth = plan(&mouaif, auth.clone(), false).oauth.unwrap();
    assert_eq!(oauth.registered, [RegisteredClient { issuer: None, id: "me".into(), secret: None }]);
    assert_eq!((oauth.callback_port, oauth.scope.as_deref()), (7777, Some("a b")));
    assert_eq!((oauth.metadata_document, oauth.dynamic_registration), (None, true));
    mouaif.registration = vec![Registration::MetadataDocument];
    mouaif.fixed_port = false;
    mouaif.interactive_start = false;
    let oauth = plan(&mouaif, auth, false).oauth.unwrap();
    assert_eq!((oauth.registered.len(), oauth.callback_port, oauth.dynamic_registration), (0, 0, false));
    assert_eq!(oauth.metadata_document.as_deref(), Some("https://m.test/c"));
    assert_eq!(oauth.login, LoginPolicy::Never);
    for wrong in [json!(1), json!("basic"), json!({"client_id": 1}), json!({"callback_port": 70000})] {
        assert!(
            matches!(sign_in(&mouaif, &entry(wrong.clone()), vec![]), Err(HostError::Config(_))),
            "{wrong}"
        );
    }
}

const ADDRESS: &str =
    "https://as.test/authorize?state=s&redirect_uri=http%3A%2F%2F127.0.0.1%3A7777%2Fcallback";

fn desk(ways: &[Login]) -> (Arc<LoginDesk>, Arc<Mutex<Vec<String>>>) {
    let told = Arc::new(Mutex::new(Vec::new()));
    let announce: Announce = {
        let told = Arc::clone(&told);
        Arc::new(move |server, url| told.lock().unwrap().push(format!("{server} {url}")))
    };
    (Arc::new(LoginDesk::new(ways, None, announce)), told)
}

#[tokio::test]
async fn an_answer_comes_back_by_the_ways_that_the_host_has() {
    let (desk, told) = desk(&[Login::Paste, Login::Forward]);
    let nobody = desk.back("s", WayBack::Pasted("x".into()));
    assert!(matches!(nobody, Err(HostError::Refused(text)) if text.contains("under way")));
    let (opened, ()) = tokio::join!(biased; desk.open("s", ADDRESS), async {
        assert_eq!(desk.waiting(), [("s".to_owned(), ADDRESS.to_owned())]);
        desk.back("s", WayBack::Pasted(" http://127.0.0.1:7777/callback?code=c \n".into())).unwrap();
    });
    assert_eq!(opened, Ok(Some("http://127.0.0.1:7777/callback?code=c".into())));
    assert_eq!(*told.lock().unwrap(), [format!("s {ADDRESS}")]);
    let (opened, ()) = tokio::join!(biased; desk.open("s", ADDRESS), async {
        let parameters = vec![("code".into(), "a b".into()), ("state".into(), "s".into())];
        desk.back("s", WayBack::Forwarded(parameters)).unwrap();
    });
    assert_eq!(opened, Ok(Some("http://127.0.0.1:7777/callback?code=a+b&state=s".into())));
    assert!(desk.waiting().is_empty());
}

#[tokio::test]
async fn a_way_that_the_host_has_not_is_refused_and_a_login_given_up_is_gone() {
    let (desk, _) = desk(&[Login::Loopback]);
    tokio::select! { biased;
        _ = desk.open("s", ADDRESS) => panic!("nothing came back"),
        () = async {
            assert!(matches!(desk.back("s", WayBack::Pasted("x".into())), Err(HostError::Refused(_))));
        } => {}
    }
    assert!(desk.waiting().is_empty());
    assert!(!format!("{:?}", WayBack::Pasted("code".into())).contains("code"));
}
