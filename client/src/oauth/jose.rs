//! Signed tokens of the client's own: assertions that authenticate it, and proofs of possession. ES256 only.

use super::secret::Secret;
use crate::seams::Entropy;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use p256::ecdsa::signature::Signer as _;
use p256::ecdsa::{Signature, SigningKey};
use p256::pkcs8::DecodePrivateKey as _;
use serde_json::{Map, Value, json};
use std::fmt;

/// The algorithm, as JOSE names it.
pub(crate) const ALGORITHM: &str = "ES256";

/// A private key for ES256 (ECDSA on P-256 with SHA-256), by which the client authenticates itself.
#[derive(Clone)]
pub struct ClientKey {
    key: SigningKey,
    id: Option<String>,
}

impl fmt::Debug for ClientKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientKey").field("id", &self.id).finish_non_exhaustive()
    }
}

impl ClientKey {
    /// Reads a private key in PEM: PKCS#8 (`BEGIN PRIVATE KEY`), of the curve P-256.
    ///
    /// # Errors
    /// It is none; the message shows nothing of it.
    pub fn from_pem(pem: &str) -> Result<Self, String> {
        let key = SigningKey::from_pkcs8_pem(pem.trim())
            .map_err(|_| "not a private key in PEM (PKCS#8) of the curve P-256".to_owned())?;
        Ok(Self { key, id: None })
    }

    /// Names the key (`kid`), as it is named in the client's `jwks`.
    #[must_use]
    pub fn named(mut self, id: impl Into<String>) -> Self {
        self.id = Some(id.into());
        self
    }

    /// The public key as a JWK, with its name and its use, as a client's `jwks` holds it.
    #[must_use]
    pub fn public(&self) -> Value {
        let mut jwk = self.jwk();
        jwk["alg"] = ALGORITHM.into();
        jwk["use"] = "sig".into();
        if let Some(id) = &self.id {
            jwk["kid"] = id.as_str().into();
        }
        jwk
    }

    /// A fresh key.
    pub(crate) fn random(entropy: &dyn Entropy) -> Option<Self> {
        // All but one in 2^32 texts are keys; a source that repeats itself gets no endless loop.
        (0..8).find_map(|_| {
            let mut bytes = [0; 32];
            entropy.fill(&mut bytes);
            SigningKey::from_slice(&bytes).ok().map(|key| Self { key, id: None })
        })
    }

    /// Reads what [`Self::stored`] wrote.
    pub(crate) fn from_stored(text: &Secret) -> Option<Self> {
        let bytes = URL_SAFE_NO_PAD.decode(text.expose()).ok()?;
        SigningKey::from_slice(&bytes).ok().map(|key| Self { key, id: None })
    }

    /// The private key as a text for the credential store.
    pub(crate) fn stored(&self) -> Secret {
        URL_SAFE_NO_PAD.encode(self.key.to_bytes()).into()
    }

    /// The public key as a JWK: its required members, in the order that RFC 7638 hashes them in.
    pub(crate) fn jwk(&self) -> Value {
        let point = self.key.verifying_key().to_sec1_point(false);
        let coordinate = |range: std::ops::Range<usize>| {
            URL_SAFE_NO_PAD.encode(point.as_bytes().get(range).unwrap_or_default())
        };
        json!({ "crv": "P-256", "kty": "EC", "x": coordinate(1..33), "y": coordinate(33..65) })
    }

    /// A token in compact form, with these claims and these further members of the header.
    pub(crate) fn sign(&self, header: Map<String, Value>, claims: &Value) -> String {
        let mut whole = Map::new();
        whole.insert("alg".into(), ALGORITHM.into());
        whole.extend(header);
        if let Some(id) = &self.id {
            whole.insert("kid".into(), id.as_str().into());
        }
        let part = |json: String| URL_SAFE_NO_PAD.encode(json);
        let signed = format!("{}.{}", part(Value::Object(whole).to_string()), part(claims.to_string()));
        let signature: Signature = self.key.sign(signed.as_bytes());
        format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature.to_bytes()))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use p256::ecdsa::VerifyingKey;
    use p256::ecdsa::signature::Verifier as _;

    pub(crate) const PEM: &str = "-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgevZzL1gdAFr88hb2
OF/2NxApJCzGCEDdfSp6VQO30hyhRANCAAQRWz+jn65BtOMvdyHKcvjBeBSDZH2r
1RTwjmYSi9R/zpBnuQ4EiMnCqfMPWiZqB4QdbAd0E7oH50VpuZ1P087G
-----END PRIVATE KEY-----
";

    /// Header and claims of a token, if this key signed it.
    pub(crate) fn read(token: &str, jwk: &Value) -> (Value, Value) {
        let bytes = |text: &str| URL_SAFE_NO_PAD.decode(text).unwrap();
        let mut point = vec![4];
        point.extend(bytes(jwk["x"].as_str().unwrap()));
        point.extend(bytes(jwk["y"].as_str().unwrap()));
        let key = VerifyingKey::from_sec1_bytes(&point).unwrap();
        let (signed, signature) = token.rsplit_once('.').unwrap();
        key.verify(signed.as_bytes(), &Signature::from_slice(&bytes(signature)).unwrap()).unwrap();
        let (header, claims) = signed.split_once('.').unwrap();
        let json = |text: &str| serde_json::from_slice(&bytes(text)).unwrap();
        (json(header), json(claims))
    }

    #[test]
    fn a_signed_token_is_verified_by_the_public_key() {
        let key = ClientKey::from_pem(PEM).unwrap().named("k1");
        let token = key.sign(Map::from_iter([("typ".to_owned(), "JWT".into())]), &json!({"iss": "me"}));
        let (header, claims) = read(&token, &key.jwk());
        assert_eq!(header, json!({"alg": "ES256", "typ": "JWT", "kid": "k1"}));
        assert_eq!(claims, json!({"iss": "me"}));
        assert!(!format!("{key:?}").contains("key"), "{key:?}");
    }

    #[test]
    fn keys_are_stored_and_found_again() {
        struct Counting(std::sync::atomic::AtomicU8);
        impl Entropy for Counting {
            fn fill(&self, buffer: &mut [u8]) {
                buffer.fill(self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed));
            }
        }
        // The first text, all zero, is no key.
        let key = ClientKey::random(&Counting(0.into())).unwrap();
        let again = ClientKey::from_stored(&key.stored()).unwrap();
        assert_eq!(key.jwk(), again.jwk());
        assert!(ClientKey::from_stored(&"short".into()).is_none());
        struct Nothing;
        impl Entropy for Nothing {
            fn fill(&self, buffer: &mut [u8]) {
                buffer.fill(0);
            }
        }
        assert!(ClientKey::random(&Nothing).is_none());
    }

    #[test]
    fn what_is_no_key_is_told_without_showing_it() {
        for bad in ["", "hunter2", &PEM.replace('M', "N"), "-----BEGIN EC PRIVATE KEY-----"] {
            let error = ClientKey::from_pem(bad).unwrap_err();
            assert!(error.contains("P-256") && !error.contains("hunter2"), "{error}");
        }
    }
}
