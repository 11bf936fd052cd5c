//! JSON Web Tokens: read, verified (ES256 and RS256), and signed (ES256).
//!
//! Signatures follow from key and content, and keys from the seed, so that equal seeds give equal tokens at equal times.

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use p256::ecdsa::signature::{Signer as _, Verifier as _};
use p256::ecdsa::{Signature, SigningKey, VerifyingKey};
use p256::pkcs8::{EncodePrivateKey as _, LineEnding};
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};

/// The longest token that is looked into, in bytes.
const MAX_TOKEN: usize = 16 * 1024;
/// The longest RSA modulus that is worked with, in bytes.
const MAX_MODULUS: usize = 1024;

/// A signed token in compact form, read but not verified.
#[derive(Debug, Clone, PartialEq)]
pub struct Jwt {
    /// The header.
    pub header: Map<String, Value>,
    /// The claims.
    pub claims: Map<String, Value>,
    signed: String,
    signature: Vec<u8>,
}

impl Jwt {
    /// Reads a token.
    pub fn read(text: &str) -> Option<Self> {
        if text.len() > MAX_TOKEN {
            return None;
        }
        let (signed, signature) = text.rsplit_once('.')?;
        let (header, claims) = signed.split_once('.')?;
        Some(Self {
            header: object(header)?,
            claims: object(claims)?,
            signed: signed.to_owned(),
            signature: BASE64_URL_SAFE_NO_PAD.decode(signature).ok()?,
        })
    }

    /// A string in the header.
    pub fn head(&self, name: &str) -> Option<&str> {
        self.header.get(name)?.as_str()
    }

    /// A claim that is a string.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.claims.get(name)?.as_str()
    }

    /// A claim that is a time, in seconds since 1970. Fractions are dropped.
    pub fn time(&self, name: &str) -> Option<i64> {
        let value = self.claims.get(name)?;
        #[expect(
            clippy::cast_possible_truncation,
            reason = "a time that is out of range saturates, and is far off"
        )]
        value.as_i64().or_else(|| value.as_f64().map(|seconds| seconds as i64))
    }

    /// Whether `aud` is, or contains, something that fits.
    pub fn is_for(&self, fits: impl Fn(&str) -> bool) -> bool {
        match self.claims.get("aud") {
            Some(Value::String(one)) => fits(one),
            Some(Value::Array(list)) => list.iter().filter_map(Value::as_str).any(fits),
            _ => false,
        }
    }

    /// Whether it is signed by the owner of a public key (a JWK), by the algorithm that its header names.
    pub fn is_signed_by(&self, jwk: &Value) -> bool {
        match self.head("alg") {
            Some("ES256") => self.is_es256(jwk).unwrap_or_default(),
            Some("RS256") => self.is_rs256(jwk).unwrap_or_default(),
            _ => false,
        }
    }

    fn is_es256(&self, jwk: &Value) -> Option<bool> {
        if jwk["kty"] != "EC" || jwk["crv"] != "P-256" {
            return None;
        }
        let mut point = vec![4];
        for name in ["x", "y"] {
            let coordinate = bytes(jwk, name)?;
            if coordinate.len() != 32 {
                return None;
            }
            point.extend(coordinate);
        }
        let key = VerifyingKey::from_sec1_bytes(&point).ok()?;
        let signature = Signature::from_slice(&self.signature).ok()?;
        Some(key.verify(self.signed.as_bytes(), &signature).is_ok())
    }

    fn is_rs256(&self, jwk: &Value) -> Option<bool> {
        if jwk["kty"] != "RSA" {
            return None;
        }
        let number = |name| {
            let bytes = bytes(jwk, name)?;
            (bytes.len() <= MAX_MODULUS).then(|| rsa::BoxedUint::from_be_slice_vartime(&bytes))
        };
        let key = rsa::PublicKey::new(number("n")?, number("e")?).ok()?;
        let signature = rsa::pkcs1v15::Signature::try_from(self.signature.as_slice()).ok()?;
        let key = rsa::pkcs1v15::VerifyingKey::<Sha256>::new(key);
        Some(key.verify(self.signed.as_bytes(), &signature).is_ok())
    }
}

fn object(part: &str) -> Option<Map<String, Value>> {
    match serde_json::from_slice(&BASE64_URL_SAFE_NO_PAD.decode(part).ok()?) {
        Ok(Value::Object(members)) => Some(members),
        _ => None,
    }
}

fn bytes(jwk: &Value, name: &str) -> Option<Vec<u8>> {
    BASE64_URL_SAFE_NO_PAD.decode(jwk[name].as_str()?).ok()
}

/// The thumbprint of a public key (RFC 7638), SHA-256 in base64url.
pub fn thumbprint(jwk: &Value) -> Option<String> {
    let text = |name: &str| jwk[name].as_str();
    // The required members in the order of their names, without space.
    let members = match text("kty")? {
        "EC" => json!({ "crv": text("crv")?, "kty": "EC", "x": text("x")?, "y": text("y")? }),
        "RSA" => json!({ "e": text("e")?, "kty": "RSA", "n": text("n")? }),
        _ => return None,
    };
    Some(BASE64_URL_SAFE_NO_PAD.encode(Sha256::digest(members.to_string())))
}

/// Whether a JWK has anything of a private or shared key.
pub fn is_private(jwk: &Value) -> bool {
    ["d", "p", "q", "dp", "dq", "qi", "oth", "k"].iter().any(|name| jwk.get(name).is_some())
}

/// A key pair for ES256.
pub struct KeyPair(SigningKey);

impl std::fmt::Debug for KeyPair {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("KeyPair(..)")
    }
}

impl KeyPair {
    /// The key that follows from a seed, for one purpose.
    pub fn from_seed(seed: u64, purpose: &str) -> Option<Self> {
        // All but one in 2^32 hashes are keys.
        (0..8).find_map(|attempt| {
            let secret = Sha256::digest(format!("sparring key {seed} {purpose} {attempt}"));
            SigningKey::from_slice(&secret).ok().map(Self)
        })
    }

    /// The public key, as a JWK.
    pub fn jwk(&self) -> Value {
        let point = self.0.verifying_key().to_sec1_point(false);
        let coordinate = |at: usize| {
            let end = at + 32;
            BASE64_URL_SAFE_NO_PAD.encode(point.as_bytes().get(at..end).unwrap_or_default())
        };
        json!({ "kty": "EC", "crv": "P-256", "x": coordinate(1), "y": coordinate(33), "use": "sig", "alg": "ES256" })
    }

    /// The private key, as PKCS#8 in PEM.
    pub fn pem(&self) -> Option<String> {
        let key = p256::SecretKey::from(&self.0);
        key.to_pkcs8_pem(LineEnding::LF).ok().map(|pem| pem.to_string())
    }

    /// A signed token with these claims and the type `typ`, and further members of the header.
    pub fn sign(&self, typ: &str, more: &Value, claims: &Value) -> String {
        let mut header = json!({ "alg": "ES256", "typ": typ });
        if let (Some(header), Some(more)) = (header.as_object_mut(), more.as_object()) {
            header.extend(more.clone());
        }
        let part = |value: &Value| BASE64_URL_SAFE_NO_PAD.encode(value.to_string());
        let signed = format!("{}.{}", part(&header), part(claims));
        let signature: Signature = self.0.sign(signed.as_bytes());
        format!("{signed}.{}", BASE64_URL_SAFE_NO_PAD.encode(signature.to_bytes()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A token signed with RS256 by OpenSSL, and the modulus of the key.
    const RS256: &str = concat!(
        "eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiJhLWNsaWVudCJ9.",
        "kZiQm6zU0tkqQe5LNv7abWRlHt2aK9Vf8GQz88Gev35owYeZ1fhyHO_5T-QJyhqPLVuQ1ft0ndyP-u1qk0Jm4Wf1Am1dmlIV",
        "-XIMMAq4oZoNOSTjZAAsurxFznpnPLU2BsGGQXso0cMxHzE42XYv2rEckCzhz7h0SPzVHVzPRFfCE9qWhc5Qand96RK7bspn",
        "eqWM2M0t0rmRNeMKdAjlra99x33TJBahdSyEqaSemfg0pWfMSJyXEyP0JGd1Mgwt9SXoEcW5jUvodf0RvbYRzODQ2RXqUMvt",
        "H5aWto5LzvQggg5yujkANbtvyxzGTjxcLk0SWy10Z-YhE20SLY_bIQ",
    );
    const MODULUS: &str = concat!(
        "0ANE9Ay0tXuaZFYE-Tv3sfVfAxDbM7oz6ZP0esEKnv21K--bB8LfWI5WlrjGc_TJj5vMHdkh7swQeq6U9oi9SROldUytrNM3",
        "URif7YKAXqN2w0xsh1FSwCM0sE-OrhGQvZ0ugbzWAWCUIRf8pwcdlv961EppUUX7LnJGq1V4TokUZuASQvcwnMsL-L9MR1c-",
        "Im1_WSLLTfng-PzX4HRYr7uXKSW6qLshemlRWLEzv4Ie8Njtl15GCPkXSEvjEnvdYirwO9scjUZT9CA1jo-iG0iKh1P9yqSJ",
        "LPnThxvpMqIjQT9A70pck1xB0tHqCSL3FO92QMMnaeTeP2Xk25G8cw",
    );

    #[test]
    fn rs256_is_verified() {
        let key = json!({ "kty": "RSA", "n": MODULUS, "e": "AQAB" });
        let jwt = Jwt::read(RS256).unwrap();
        assert_eq!(jwt.text("iss"), Some("a-client"));
        assert!(jwt.is_signed_by(&key));
        let other = Jwt { signed: jwt.signed.replace('.', ".e"), ..jwt.clone() };
        assert!(!other.is_signed_by(&key));
        for bad in [
            json!({ "kty": "RSA", "n": MODULUS, "e": "Aw" }),
            json!({ "kty": "RSA", "n": "", "e": "AQAB" }),
            json!({ "kty": "RSA", "n": "AQAB", "e": "AQAB" }),
            json!({ "kty": "RSA", "n": "A".repeat(4096), "e": "AQAB" }),
            json!({ "kty": "EC", "n": MODULUS, "e": "AQAB" }),
            json!({ "kty": "oct", "k": MODULUS }),
            json!(null),
        ] {
            assert!(!jwt.is_signed_by(&bad), "{bad}");
        }
    }

    #[test]
    fn es256_is_signed_and_verified() {
        let (key, other) = (KeyPair::from_seed(1, "a").unwrap(), KeyPair::from_seed(1, "b").unwrap());
        let token = key.sign("JWT", &json!({ "kid": "one" }), &json!({ "aud": ["x", "y"], "exp": 17.9 }));
        assert_eq!(
            token,
            key.sign("JWT", &json!({ "kid": "one" }), &json!({ "aud": ["x", "y"], "exp": 17.9 }))
        );
        let jwt = Jwt::read(&token).unwrap();
        assert_eq!((jwt.head("typ"), jwt.head("kid"), jwt.time("exp")), (Some("JWT"), Some("one"), Some(17)));
        assert!(jwt.is_for(|audience| audience == "y") && !jwt.is_for(|audience| audience == "z"));
        assert!(jwt.is_signed_by(&key.jwk()) && !jwt.is_signed_by(&other.jwk()));
        let none = Jwt { header: Map::from_iter([("alg".to_owned(), json!("none"))]), ..jwt.clone() };
        assert!(!none.is_signed_by(&key.jwk()), "`alg` is what counts");
        let mut short = key.jwk();
        short["x"] = json!("AAAA");
        assert!(!jwt.is_signed_by(&short));
        let pem = key.pem().unwrap();
        assert!(
            pem.starts_with("-----BEGIN PRIVATE KEY-----\n") && pem.ends_with("-----END PRIVATE KEY-----\n")
        );
        assert!(!format!("{key:?}").contains(|c: char| c.is_ascii_digit()), "no secret is shown");
    }

    #[test]
    fn what_is_no_token_is_not_read() {
        for bad in ["", ".", "..", "a.b.c", "e30.e30", "e30.W10.", "e30.e30.!"] {
            assert_eq!(Jwt::read(bad), None, "{bad}");
        }
        assert!(Jwt::read("e30.e30.").is_some());
        assert_eq!(Jwt::read(&format!("e30.e30.{}", "A".repeat(20_000))), None);
    }

    #[test]
    fn thumbprints() {
        // The example of RFC 7638, section 3.1.
        let n = concat!(
            "0vx7agoebGcQSuuPiLJXZptN9nndrQmbXEps2aiAFbWhM78LhWx4cbbfAAtVT86zwu1RK7aPFFxuhDR1L6tSoc_BJECPebWK",
            "RXjBZCiFV4n3oknjhMstn64tZ_2W-5JsGY4Hc5n9yBXArwl93lqt7_RN5w6Cf0h4QyQ5v-65YGjQR0_FDW2QvzqY368QQMic",
            "AtaSqzs8KJZgnYb9c7d0zgdAZHzu6qMQvRL5hajrn1n91CbOpbISD08qNLyrdkt-bFTWhAI4vMQFh6WeZu0fM4lFd2NcRwr3",
            "XPksINHaQ-G_xBniIqbw0Ls1jF44-csFCur-kEgU8awapJzKnqDKgw",
        );
        let key = json!({ "kty": "RSA", "n": n, "e": "AQAB", "alg": "RS256", "kid": "2011-04-29" });
        assert_eq!(thumbprint(&key).as_deref(), Some("NzbLsXh8uDCcd-6MNwXF4W_7noWXFZAfHkxZsRGC9Xs"));
        assert_eq!(thumbprint(&json!({ "kty": "oct", "k": "AA" })), None);
        assert!(is_private(&json!({ "kty": "EC", "d": "AA" })) && !is_private(&key));
    }
}
