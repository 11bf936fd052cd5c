//! Which requirements the words of [`AuthScript`] serve.

use super::AuthScript;

impl AuthScript {
    /// For each word: the requirements that it serves, as ids of the catalogue or sections of an RFC.
    pub const SERVES: &[(&str, &[&str])] = &[
        (
            "resource_metadata",
            &[
                "auth-discovery-use-prm",
                "auth-discovery-header-url-preferred",
                "auth-discovery-header-url-used-2025-06-18",
                "auth-discovery-well-known-path-first",
                "auth-discovery-well-known-root-second",
                "auth-discovery-base-url-2025-03-26",
                "auth-resource-canonical",
            ],
        ),
        (
            "identifier",
            &[
                "auth-resource-canonical",
                "auth-resource-most-specific",
                "auth-resource-no-trailing-slash",
                "auth-resource-uppercase-accepted",
            ],
        ),
        ("exact_resource", &["auth-resource-in-token-request", "auth-resource-no-trailing-slash"]),
        (
            "challenge",
            &[
                "auth-discovery-401-starts-flow",
                "auth-discovery-parse-www-authenticate",
                "auth-discovery-parse-403-challenge",
            ],
        ),
        (
            "server_metadata",
            &[
                "auth-discovery-as-metadata-rfc8414",
                "auth-discovery-as-metadata-oidc",
                "auth-discovery-order-issuer-with-path",
                "auth-discovery-order-issuer-without-path",
                "auth-discovery-default-suffix-only",
                "auth-discovery-metadata-before-defaults-2025-03-26",
                "auth-discovery-default-endpoints-2025-03-26",
                "auth-discovery-version-header-2025-03-26",
                "auth-pkce-refuse-without-support-oidc",
                "auth-resource-regardless-of-support",
            ],
        ),
        ("issuer_path", &["auth-discovery-order-issuer-with-path", "auth-iss-match-accepted"]),
        (
            "second_server",
            &[
                "auth-discovery-choose-authorization-server",
                "auth-reg-credentials-keyed-by-issuer",
                "auth-reg-no-reuse-across-servers",
                "auth-reg-reregister-on-change",
                "auth-reg-prereg-mismatch-error",
                "auth-reg-separate-state-per-server",
                "auth-reg-cimd-portable",
                "auth-token-only-from-own-server",
                "auth-sec-code-single-use",
            ],
        ),
        ("challenge_scope", &["auth-scope-from-challenge", "auth-scope-challenge-authoritative"]),
        (
            "scopes_supported",
            &["auth-scope-from-metadata", "auth-scope-omitted", "auth-scope-least-privilege"],
        ),
        (
            "call_scope",
            &[
                "auth-scope-step-up",
                "auth-scope-step-up-machine",
                "auth-scope-step-up-retries-request",
                "auth-scope-no-set-assumption",
            ],
        ),
        ("method_scopes", &["auth-scope-step-up", "auth-scope-upgrade-attempts-tracked"]),
        ("step_up_names", &["auth-scope-step-up-union", "auth-scope-step-up-selection-2025-11-25"]),
        ("guard", &["auth-discovery-401-starts-flow", "auth-token-every-request"]),
        ("no_registration", &["auth-reg-dcr-needs-endpoint", "auth-reg-dcr-supported-may"]),
        (
            "enforce_application_type",
            &["auth-reg-application-type", "auth-reg-application-type-native", "auth-reg-rejection-handled"],
        ),
        ("exact_redirect", &["auth-reg-redirect-uri-registered", "auth-redirect-uri-same-in-token-request"]),
        (
            "client_id_metadata",
            &[
                "auth-reg-priority",
                "auth-reg-cimd-supported",
                "auth-reg-cimd-flag-checked",
                "auth-reg-cimd-https-with-path",
            ],
        ),
        (
            "client_documents",
            &[
                "auth-reg-cimd-document-fields",
                "auth-reg-cimd-document-id-match",
                "auth-reg-redirect-uri-registered",
                "auth-reg-cimd-private-key-jwt",
            ],
        ),
        ("client_grants", &["auth-token-invalid-refresh-falls-back", "RFC 6749 section 5.2"]),
        ("preregistered", &["auth-reg-preregistered-supported", "auth-reg-priority"]),
        ("client_authentication", &["auth-reg-auth-method-honoured", "auth-reg-cimd-private-key-jwt"]),
        ("grants", &["RFC 6749 section 4.4", "RFC 7523 section 2.1"]),
        ("identity_provider", &["RFC 8693 section 2.1", "RFC 7523 section 2.1"]),
        ("workload", &["RFC 7523 section 3"]),
        ("dpop", &["RFC 9449 section 4.3", "RFC 9449 section 8", "RFC 9449 section 9"]),
        ("expires_in", &["auth-token-401-after-expiry", "auth-token-refresh-used"]),
        (
            "uses_per_token",
            &["auth-token-401-after-expiry", "auth-token-every-request", "auth-token-refresh-not-assumed"],
        ),
        (
            "refresh",
            &[
                "auth-token-refresh-used",
                "auth-token-refresh-confidential",
                "auth-reg-grant-type-refresh",
                "auth-token-offline-access",
                "auth-resource-in-token-request",
            ],
        ),
        ("rotate_refresh", &["auth-token-refresh-rotation", "RFC 9700 section 4.14"]),
        ("refresh_expires_in", &["auth-token-invalid-refresh-falls-back"]),
        ("revocation", &["RFC 7009 section 2"]),
        ("fault", &["auth-error-response-ends-flow"]),
        ("answers", &["auth-sec-urls-sanitized"]),
    ];
}
