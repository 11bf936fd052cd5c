//! Proofs of possession: a right one passes, each wrong one is refused for its reason.

use super::*;
use crate::auth::jwt::KeyPair;
use crate::script::{DpopNonce, DpopScript};
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use sha2::{Digest as _, Sha256};

const UNIX: i64 = 1_800_000_000;

fn key(purpose: &str) -> KeyPair {
    KeyPair::from_seed(99, purpose).unwrap()
}

/// What goes into a proof.
#[derive(Clone)]
struct Parts {
    key: &'static str,
    typ: &'static str,
    header: Value,
    claims: Value,
}

fn parts(method: &str, url: &str, jti: &str, token: Option<&str>, nonce: Option<&str>) -> Parts {
    let mut claims = json!({ "htm": method, "htu": url, "iat": UNIX, "jti": jti });
    if let Some(token) = token {
        claims["ath"] = json!(BASE64_URL_SAFE_NO_PAD.encode(Sha256::digest(token)));
    }
    if let Some(nonce) = nonce {
        claims["nonce"] = json!(nonce);
    }
    Parts { key: "own", typ: "dpop+jwt", header: json!({ "jwk": key("own").jwk() }), claims }
}

fn sign(parts: &Parts) -> String {
    key(parts.key).sign(parts.typ, &parts.header, &parts.claims)
}

fn client(dpop: DpopScript) -> Client {
    let script = AuthScript { dpop: Some(dpop), refresh: true, ..AuthScript::default() };
    let mut client = Client::new(&script, Revision::V2025_11_25);
    client.server = client.server.with_clock(UNIX);
    client
}

impl Client {
    fn token_with_proof(&mut self, known: &Known, pairs: &[(&str, &str)], proof: Option<&str>) -> Answer {
        let mut pairs = pairs.to_vec();
        pairs.extend([("client_id", known.client_id.as_str()), ("resource", RESOURCE)]);
        let mut headers = vec![("content-type", "application/x-www-form-urlencoded")];
        headers.extend(proof.map(|proof| ("dpop", proof)));
        let sent = http("POST", &known.token, &headers, &form(&pairs));
        self.send(&sent, &known.token)
    }

    fn redeem_with_proof(&mut self, known: &Known, code: &str, proof: Option<&str>) -> Answer {
        let pairs = [("grant_type", "authorization_code"), ("code", code), ("code_verifier", VERIFIER)];
        self.token_with_proof(known, &pairs, proof)
    }

    fn use_token(&mut self, authorization: &str, proofs: &[&str]) -> Result<(), Answer> {
        let mut headers = vec![("authorization", authorization)];
        headers.extend(proofs.iter().map(|proof| ("dpop", *proof)));
        self.server.admit(&http("POST", RESOURCE, &headers, "{}"), Some("ping"), self.now)
    }

    fn bound_tokens(&mut self) -> (Known, Value) {
        let (known, code) = self.code(&[]);
        let proof = sign(&parts("POST", &known.token, &format!("for {code}"), None, None));
        let answer = self.redeem_with_proof(&known, &code, Some(&proof));
        assert_eq!(answer.status, 200, "{answer:?}");
        (known, serde_json::from_str(&answer.body).unwrap())
    }
}

#[test]
fn a_bound_token_works_with_proofs_only() {
    let mut client = client(DpopScript::default());
    let (_, tokens) = client.bound_tokens();
    assert_eq!(tokens["token_type"], "DPoP");
    let token = token_of(&tokens).to_owned();
    let fresh = |jti: &str| sign(&parts("POST", RESOURCE, jti, Some(&token), None));
    let scheme = format!("DPoP {token}");
    client.use_token(&scheme, &[&fresh("1")]).unwrap();
    client.use_token(&scheme, &[&fresh("2")]).unwrap();
    let mut refused = |authorization: &str, proofs: &[&str]| {
        let answer = client.use_token(authorization, proofs).unwrap_err();
        assert_eq!(answer.status, 401);
        bearer_challenge(&answer).unwrap()["error_description"].clone()
    };
    assert_eq!(refused(&scheme, &[&fresh("2")]), "the proof was used before");
    assert_eq!(refused(&scheme, &[]), "there must be one DPoP field");
    assert_eq!(refused(&scheme, &[&fresh("3"), &fresh("4")]), "there must be one DPoP field");
    let bearer = format!("Bearer {token}");
    assert_eq!(refused(&bearer, &[&fresh("5")]), "the token needs a proof, and the scheme DPoP");
    let mut other = parts("POST", RESOURCE, "6", Some(&token), None);
    (other.key, other.header) = ("other", json!({ "jwk": key("other").jwk() }));
    assert_eq!(refused(&scheme, &[&sign(&other)]), "the token is bound to another key");
}

#[test]
fn each_part_of_a_proof_is_checked() {
    let mut private = key("own").jwk();
    private["d"] = json!("AAAA");
    type Break<'a> = Box<dyn Fn(&mut Parts) + 'a>;
    let claim = |name: &'static str, value: Value| -> Break<'static> {
        Box::new(move |parts| parts.claims[name] = value.clone())
    };
    let table: Vec<(&str, Break<'_>)> = vec![
        ("`typ` of the proof is not `dpop+jwt`", Box::new(|parts| parts.typ = "JWT")),
        ("`alg` of the proof is not ES256 or RS256", Box::new(|p| p.header["alg"] = json!("none"))),
        ("the proof has no `jwk`", Box::new(|parts| parts.header = json!({}))),
        ("`jwk` of the proof is not a public key", Box::new(|p| p.header["jwk"] = private.clone())),
        (
            "`jwk` of the proof is no key that is known here",
            Box::new(|p| p.header["jwk"] = json!({ "kty": "OKP" })),
        ),
        ("the signature of the proof is wrong", Box::new(|parts| parts.key = "other")),
        ("the proof has no `jti`", claim("jti", json!(null))),
        ("`htm` of the proof is not the method", claim("htm", json!("GET"))),
        ("`htu` of the proof is not the URL", claim("htu", json!(RESOURCE_ORIGIN))),
        ("`htu` of the proof is not the URL", claim("htu", json!(format!("{RESOURCE}?x=1")))),
        ("`iat` of the proof is not now", claim("iat", json!(UNIX - 301))),
        ("`iat` of the proof is not now", claim("iat", json!(UNIX + 301))),
        ("`iat` of the proof is not now", claim("iat", json!("now"))),
        ("`ath` of the proof is not the hash of the token", claim("ath", json!("x"))),
    ];
    let mut client = client(DpopScript::default());
    let (_, tokens) = client.bound_tokens();
    let token = token_of(&tokens).to_owned();
    for (number, (reason, spoil)) in table.iter().enumerate() {
        let mut parts = parts("POST", RESOURCE, &number.to_string(), Some(&token), None);
        spoil(&mut parts);
        let answer = client.use_token(&format!("DPoP {token}"), &[&sign(&parts)]).unwrap_err();
        let challenge = bearer_challenge(&answer).unwrap();
        assert_eq!(
            (challenge["error"].as_str(), &challenge["error_description"]),
            ("invalid_dpop_proof", &(*reason).to_owned())
        );
    }
    // What makes no difference.
    for (number, url) in ["HTTP://127.0.0.1:1001/v1/mcp", "http://127.0.0.1:1001/v1/mcp/"].iter().enumerate()
    {
        let proof = sign(&parts("POST", url, &format!("good {number}"), Some(&token), None));
        client.use_token(&format!("DPoP {token}"), &[&proof]).unwrap();
    }
}

#[test]
fn proofs_are_demanded_where_they_are_required() {
    for required in [false, true] {
        let mut client = client(DpopScript { required, ..DpopScript::default() });
        let challenge = client.rpc("401", "ping", None).unwrap_err();
        let field = header(&challenge, "www-authenticate").unwrap();
        assert_eq!(field.starts_with("DPoP "), required, "{field}");
        let (known, code) = client.code(&[]);
        let answer = client.redeem_with_proof(&known, &code, None);
        if required {
            assert_eq!(error_of(&answer), "invalid_dpop_proof");
        } else {
            let tokens: Value = serde_json::from_str(&answer.body).unwrap();
            assert_eq!(tokens["token_type"], "Bearer");
            let token = token_of(&tokens);
            client.rpc("use", "ping", Some(token)).unwrap();
            let proof = sign(&parts("POST", RESOURCE, "1", Some(token), None));
            client.use_token(&format!("DPoP {token}"), &[&proof]).unwrap_err();
        }
    }
    // Without the word the scheme is none that is known.
    let mut client = Client::new(&AuthScript::default(), Revision::V2025_11_25);
    let (_, tokens) = client.tokens();
    let refused = client.use_token(&format!("DPoP {}", token_of(&tokens)), &[]).unwrap_err();
    assert!(!bearer_challenge(&refused).unwrap().contains_key("error"));
}

#[test]
fn a_nonce_is_asked_for_where_it_is_wanted() {
    for nonce in [DpopNonce::None, DpopNonce::AuthorizationServer, DpopNonce::Endpoint, DpopNonce::Both] {
        let mut client = client(DpopScript { required: true, nonce, ..DpopScript::default() });
        let (known, code) = client.code(&[]);
        let proof = |jti: &str, nonce: Option<&str>| sign(&parts("POST", &known.token, jti, None, nonce));
        let mut answer = client.redeem_with_proof(&known, &code, Some(&proof("1", None)));
        assert_eq!(answer.status == 400, nonce.at_server(), "{nonce:?}");
        if nonce.at_server() {
            assert_eq!(error_of(&answer), "use_dpop_nonce");
            let given = header(&answer, "dpop-nonce").unwrap().to_owned();
            let wrong = client.redeem_with_proof(&known, &code, Some(&proof("2", Some("nonce-of-old"))));
            assert_eq!(error_of(&wrong), "use_dpop_nonce");
            answer = client.redeem_with_proof(&known, &code, Some(&proof("3", Some(&given))));
        }
        assert_eq!(header(&answer, "dpop-nonce"), None);
        let tokens: Value = serde_json::from_str(&answer.body).unwrap();
        let token = token_of(&tokens);
        let scheme = format!("DPoP {token}");
        let proof = |jti: &str, nonce: Option<&str>| sign(&parts("POST", RESOURCE, jti, Some(token), nonce));
        match client.use_token(&scheme, &[&proof("4", None)]) {
            Ok(()) => assert!(!nonce.at_endpoint()),
            Err(answer) => {
                assert!(nonce.at_endpoint());
                let challenge = header(&answer, "www-authenticate").unwrap();
                assert!(challenge.starts_with("DPoP error=\"use_dpop_nonce\""), "{challenge}");
                let given = header(&answer, "dpop-nonce").unwrap().to_owned();
                client.use_token(&scheme, &[&proof("5", Some(&given))]).unwrap();
            }
        }
    }
}

#[test]
fn a_nonce_can_run_out() {
    let dpop =
        DpopScript { required: true, nonce: DpopNonce::AuthorizationServer, proofs_per_nonce: Some(1) };
    let mut client = client(dpop);
    let (known, code) = client.code(&[]);
    let proof = |jti: &str, nonce: Option<&str>| sign(&parts("POST", &known.token, jti, None, nonce));
    let answer = client.redeem_with_proof(&known, &code, Some(&proof("1", None)));
    let first = header(&answer, "dpop-nonce").unwrap().to_owned();
    let answer = client.redeem_with_proof(&known, &code, Some(&proof("2", Some(&first))));
    assert_eq!(answer.status, 200);
    let second = header(&answer, "dpop-nonce").unwrap().to_owned();
    assert_ne!(first, second);
    let tokens: Value = serde_json::from_str(&answer.body).unwrap();
    let pairs =
        [("grant_type", "refresh_token"), ("refresh_token", tokens["refresh_token"].as_str().unwrap())];
    let answer = client.token_with_proof(&known, &pairs, Some(&proof("3", Some(&first))));
    assert_eq!(error_of(&answer), "use_dpop_nonce");
    let answer = client.token_with_proof(&known, &pairs, Some(&proof("4", Some(&second))));
    assert_eq!(answer.status, 200);
}

#[test]
fn refresh_tokens_and_codes_are_bound_to_the_key() {
    let mut client = client(DpopScript::default());
    let (known, tokens) = client.bound_tokens();
    let pairs =
        [("grant_type", "refresh_token"), ("refresh_token", tokens["refresh_token"].as_str().unwrap())];
    let mut other = parts("POST", &known.token, "1", None, None);
    (other.key, other.header) = ("other", json!({ "jwk": key("other").jwk() }));
    let refused = client.token_with_proof(&known, &pairs, Some(&sign(&other)));
    assert_eq!(error_of(&refused), "invalid_grant");
    assert_eq!(error_of(&client.token_with_proof(&known, &pairs, None)), "invalid_grant");
    let own = sign(&parts("POST", &known.token, "2", None, None));
    assert_eq!(client.token_with_proof(&known, &pairs, Some(&own)).status, 200);

    let thumbprint = jwt::thumbprint(&key("own").jwk()).unwrap();
    let (known, code) = client.code(&[("dpop_jkt", Some(&thumbprint))]);
    other.claims["jti"] = json!("3");
    let refused = client.redeem_with_proof(&known, &code, Some(&sign(&other)));
    assert_eq!(error_of(&refused), "invalid_grant");
}
