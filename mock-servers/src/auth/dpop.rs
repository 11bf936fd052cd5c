//! Proofs of possession (DPoP, RFC 9449): how they are read, by servers and judges, and what a server remembers of them.

use super::Refusal;
use super::jwt::{self, Jwt};
use super::request;
use super::store::Store;
use crate::script::{DpopNonce, DpopScript};
use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use sha2::{Digest as _, Sha256};
use sparring_wire::transcript::HttpRequest;
use url::Url;

/// How far `iat` of a proof may be from the server's time, in seconds.
pub const MAX_AGE: i64 = 300;

/// What a good proof says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Proof {
    /// The thumbprint of the key that it is made with.
    pub thumbprint: String,
    /// Its name, which is used once.
    pub jti: String,
    /// The nonce in it.
    pub nonce: Option<String>,
}

/// Reads and checks the proof of a request to `url`, at the time `unix` in seconds since 1970; `token` is the access token
/// beside it, if it is one for a resource.
///
/// # Errors
/// What is wrong with it.
pub fn read(request: &HttpRequest, url: &str, unix: i64, token: Option<&str>) -> Result<Proof, &'static str> {
    let mut fields = request::headers(request, "dpop");
    let (Some(field), None) = (fields.next(), fields.next()) else {
        return Err("there must be one DPoP field");
    };
    let proof = Jwt::read(field.trim()).ok_or("the proof is no JWT")?;
    if proof.head("typ") != Some("dpop+jwt") {
        return Err("`typ` of the proof is not `dpop+jwt`");
    }
    if !matches!(proof.head("alg"), Some("ES256" | "RS256")) {
        return Err("`alg` of the proof is not ES256 or RS256");
    }
    let key = proof.header.get("jwk").ok_or("the proof has no `jwk`")?;
    if jwt::is_private(key) {
        return Err("`jwk` of the proof is not a public key");
    }
    let thumbprint = jwt::thumbprint(key).ok_or("`jwk` of the proof is no key that is known here")?;
    if !proof.is_signed_by(key) {
        return Err("the signature of the proof is wrong");
    }
    let jti = proof.text("jti").filter(|jti| !jti.is_empty()).ok_or("the proof has no `jti`")?;
    if proof.text("htm") != Some(request.method.as_str()) {
        return Err("`htm` of the proof is not the method");
    }
    if !proof.text("htu").is_some_and(|htu| is_same_target(htu, url)) {
        return Err("`htu` of the proof is not the URL");
    }
    if proof.time("iat").is_none_or(|iat| iat.saturating_sub(unix).saturating_abs() > MAX_AGE) {
        return Err("`iat` of the proof is not now");
    }
    if let Some(token) = token {
        let hash = BASE64_URL_SAFE_NO_PAD.encode(Sha256::digest(token));
        if proof.text("ath") != Some(hash.as_str()) {
            return Err("`ath` of the proof is not the hash of the token");
        }
    }
    let nonce = proof.text("nonce").map(str::to_owned);
    Ok(Proof { thumbprint, jti: jti.to_owned(), nonce })
}

/// Section 4.3: the URL without query and fragment, compared after normalization; `htu` has neither. A slash at the end
/// makes no difference.
fn is_same_target(htu: &str, url: &str) -> bool {
    let normal = |text: &str| {
        let url = Url::parse(text).ok()?;
        let port = url.port().map(|port| format!(":{port}")).unwrap_or_default();
        let path = url.path();
        let path = path.strip_suffix('/').unwrap_or(path);
        Some(format!("{}://{}{port}{path}", url.scheme(), url.host_str()?))
    };
    !htu.contains(['?', '#']) && normal(htu).is_some_and(|htu| normal(url) == Some(htu))
}

impl DpopNonce {
    pub(super) const fn at_server(self) -> bool {
        matches!(self, Self::AuthorizationServer | Self::Both)
    }

    pub(super) const fn at_endpoint(self) -> bool {
        matches!(self, Self::Endpoint | Self::Both)
    }
}

/// What one of the two that check proofs remembers.
#[derive(Debug, Clone)]
pub(super) struct Verifier {
    seed: u64,
    owner: &'static str,
    /// Names of proofs that were used.
    used: Store<()>,
    /// Counts the nonces.
    nonce: u64,
    /// How many proofs came with this one.
    proofs: u32,
}

impl Verifier {
    pub(super) const fn new(seed: u64, owner: &'static str) -> Self {
        Self { seed, owner, used: Store::new(), nonce: 1, proofs: 0 }
    }

    /// The nonce that proofs must have now.
    pub(super) fn nonce(&self) -> String {
        let digest = Sha256::digest(format!("sparring nonce {} {} {}", self.seed, self.owner, self.nonce));
        format!("nonce-{}", BASE64_URL_SAFE_NO_PAD.encode(&digest[..18]))
    }

    /// Takes a proof that is good in itself: if it has the nonce, where one is wanted, and was not used before.
    pub(super) fn accept(&mut self, proof: &Proof, wants_nonce: Option<&DpopScript>) -> Result<(), Refusal> {
        if !self.used.first_time(&proof.jti) {
            return Err(Refusal::new("invalid_dpop_proof", "the proof was used before"));
        }
        if let Some(dpop) = wants_nonce {
            if proof.nonce.as_deref() != Some(self.nonce().as_str()) {
                return Err(Refusal::new("use_dpop_nonce", "the proof needs the nonce of this server"));
            }
            self.proofs += 1;
            if dpop.proofs_per_nonce.is_some_and(|limit| self.proofs >= limit) {
                self.proofs = 0;
                self.nonce += 1;
            }
        }
        Ok(())
    }

    /// The nonce that goes with an answer: with one that asks for it, and with the last one before it changes.
    pub(super) fn nonce_to_send(&self, dpop: &DpopScript, asked_for: bool) -> Option<String> {
        let changed = dpop.proofs_per_nonce.is_some() && self.proofs == 0 && self.nonce > 1;
        (asked_for || changed).then(|| self.nonce())
    }
}
