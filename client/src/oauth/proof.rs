//! Proofs of possession (RFC 9449): a signed token for each request, that the sender has the key of its access token.

use super::jose::ClientKey;
use super::store::unix_time;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};

/// A proof for one request. `id` is fresh for each; `token`: the access token that it goes with.
pub(super) fn sign(
    key: &ClientKey,
    id: &str,
    method: &str,
    url: &str,
    token: Option<&str>,
    nonce: Option<&str>,
) -> String {
    let header = Map::from_iter([("typ".to_owned(), Value::from("dpop+jwt")), ("jwk".to_owned(), key.jwk())]);
    let mut claims = json!({ "jti": id, "htm": method, "htu": super::guard::bare(url), "iat": unix_time() });
    if let Some(token) = token {
        claims["ath"] = URL_SAFE_NO_PAD.encode(Sha256::digest(token.as_bytes())).into();
    }
    if let Some(nonce) = nonce {
        claims["nonce"] = nonce.into();
    }
    key.sign(header, &claims)
}

#[cfg(test)]
mod tests {
    use super::super::jose::tests::{PEM, read};
    use super::*;

    #[test]
    fn a_proof_names_its_request_and_its_token() {
        let key = ClientKey::from_pem(PEM).unwrap();
        let proof = sign(&key, "1", "POST", "https://x.test/mcp?a=b#c", Some("tok"), Some("n"));
        let (header, claims) = read(&proof, &key.jwk());
        assert_eq!((&header["typ"], &header["jwk"]), (&json!("dpop+jwt"), &key.jwk()));
        assert_eq!((&claims["htm"], &claims["htu"]), (&json!("POST"), &json!("https://x.test/mcp")));
        assert_eq!((&claims["jti"], &claims["nonce"]), (&json!("1"), &json!("n")));
        // SHA-256 of "tok", by another program.
        assert_eq!(claims["ath"], "GnZ0607njffhrEOak8P6jjyUV4TU3sn9jjARc4svHWI");
        let (_, bare) = read(&sign(&key, "2", "GET", "https://x.test/", None, None), &key.jwk());
        assert!(bare.get("ath").is_none() && bare.get("nonce").is_none());
    }
}
