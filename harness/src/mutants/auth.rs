//! Mutants that get authorization wrong.

mod seams;

use super::{Fault, Mutant, REFERENCE};
use crate::drivers::ClientSetup;
use seams::{
    Document, Fields, MANY, Memo, Rounds, answers, authenticate, authorizations, bound, challenges,
    documents, exchanges, header, heads, hide_parameter, instead, is_mcp, is_openid, never_ask, opened_urls,
    origin, path, redeems, refreshes, repeat, reply, requests, set_header, token_forms, tokens,
};
use serde_json::{Map, Value, json};
use sparring_client::OauthSettings;
use sparring_client::http::{HttpError, HttpRequest, HttpResponse, Purpose};
use sparring_mock_servers::auth::request::s256;
use std::collections::BTreeMap;

const fn mutant(name: &'static str, about: &'static str, fault: fn(&mut ClientSetup)) -> Mutant {
    Mutant { name, about, scenarios: &[], profile: REFERENCE, fault: Fault::Client(fault) }
}

/// All of them.
pub(super) const MUTANTS: &[Mutant] = &[
    // ---- the way to the authorization server ----
    mutant("gives-up-on-401", "Takes a 401 for an error and nothing more.", |setup| {
        setup.client(|settings| settings.oauth = None);
    }),
    mutant("repeats-without-token", "Repeats a request that got 401, unchanged.", |setup| {
        setup.client(|settings| settings.oauth = None);
        repeat(setup, 20, |request, status| is_mcp(request) && status == 401);
    }),
    mutant("assumes-own-origin", "Takes the MCP server's origin for the authorization server.", |setup| {
        hide_parameter(setup, "resource_metadata");
        never_ask(setup, |_, document| document == Document::Resource);
    }),
    mutant("guesses-endpoints", "Uses default endpoints, whatever the metadata says.", |setup| {
        documents(setup, Document::Server, |request, json| endpoints_at(&origin(&request.url), json));
    }),
    mutant("skips-metadata", "Asks for no metadata at all.", |setup| {
        never_ask(setup, |request, _| request.purpose == Purpose::OauthMetadata);
    }),
    mutant("gives-up-without-metadata", "Fails if the authorization server has no metadata.", |setup| {
        after_no_metadata(setup, |_| Err(HttpError::Other("there is no metadata".to_owned())));
    }),
    mutant(
        "defaults-below-the-path",
        "Puts default endpoints below the path of the MCP endpoint.",
        |setup| {
            let endpoint = endpoint(setup);
            after_no_metadata(setup, move |request| {
                let mut json = Map::new();
                json.insert("issuer".to_owned(), origin(&request.url).into());
                endpoints_at(&endpoint.get(), &mut json);
                Ok(reply(200, &Value::Object(json)))
            });
        },
    ),
    mutant("metadata-below-the-path", "Looks for server metadata only with the endpoint's path.", |setup| {
        let endpoint = endpoint(setup);
        server_metadata_at(setup, move |request| {
            let (origin, path) = (origin(&request.url), path(&endpoint.get()));
            format!("{origin}/.well-known/oauth-authorization-server{path}")
        });
    }),
    mutant("metadata-without-version-header", "Asks for metadata without MCP-Protocol-Version.", |setup| {
        requests(setup, |request| {
            if request.purpose == Purpose::OauthMetadata {
                set_header(request, "MCP-Protocol-Version", None);
            }
        });
    }),
    // ---- challenges and resource metadata ----
    mutant("ignores-header-url", "Does not use the URL in the challenge.", |setup| {
        hide_parameter(setup, "resource_metadata");
    }),
    mutant("reads-only-a-leading-bearer", "Reads a challenge only if it starts with Bearer.", |setup| {
        challenges(setup, |_, _, values| {
            let joined = values.join(", ");
            if joined.to_ascii_lowercase().starts_with("bearer") { vec![joined] } else { Vec::new() }
        });
    }),
    mutant("finds-parameters-by-text", "Takes what looks like a parameter anywhere in the text.", |setup| {
        challenges(setup, |_, _, values| {
            let joined = values.join(", ");
            let found = ["resource_metadata", "scope", "error"]
                .map(|name| Some(format!("{name}=\"{}\"", after_text(&joined, name)?)));
            vec![format!("Bearer {}", found.into_iter().flatten().collect::<Vec<_>>().join(", "))]
        });
    }),
    mutant("parameter-names-case-sensitive", "Knows parameters of challenges in lower case only.", |setup| {
        hide_parameter(setup, "SCOPE");
    }),
    mutant("reads-first-field-only", "Reads the first WWW-Authenticate field only.", |setup| {
        challenges(setup, |_, _, values| values.into_iter().take(1).collect());
    }),
    mutant("gives-up-without-challenge", "Takes a 401 without a challenge for an error.", |setup| {
        heads(setup, |_, response| {
            if response.status == 401 && response.header("www-authenticate").is_none() {
                response.status = 400;
            }
        });
    }),
    mutant("asks-root-first", "Looks for resource metadata at the root first.", |setup| {
        exchanges(setup, |request, next| async move {
            if Document::of(&request) == Some(Document::Resource) {
                let mut root = request.clone();
                root.url = format!("{}{RESOURCE_METADATA}", origin(&request.url));
                let response = next.send(root).await?;
                if response.status == 200 {
                    return Ok(response);
                }
            }
            next.send(request).await
        });
    }),
    mutant("never-asks-root", "Does not look for resource metadata at the root.", |setup| {
        never_ask(setup, |request, _| request.url.ends_with(RESOURCE_METADATA));
    }),
    mutant("accepts-any-resource", "Uses metadata of another resource.", |setup| {
        oauth(setup, |oauth| oauth.strict.resource = false);
    }),
    // ---- metadata of the authorization server ----
    mutant("accepts-any-issuer", "Uses metadata of another issuer.", |setup| {
        oauth(setup, |oauth| oauth.strict.issuer = false);
    }),
    mutant(
        "drops-issuer-path",
        "Looks for server metadata at the root, whatever the issuer's path.",
        |setup| {
            server_metadata_at(setup, |request| {
                let name =
                    if is_openid(request) { "openid-configuration" } else { "oauth-authorization-server" };
                format!("{}/.well-known/{name}", origin(&request.url))
            });
        },
    ),
    mutant("openid-first", "Looks for OpenID metadata before OAuth metadata.", |setup| {
        server_metadata_at(setup, |request| {
            let (oauth, openid) =
                ("/.well-known/oauth-authorization-server", "/.well-known/openid-configuration");
            if path(&request.url).starts_with(openid) {
                request.url.replace(openid, oauth)
            } else {
                request.url.replace(oauth, openid)
            }
        });
    }),
    mutant("oauth-metadata-only", "Never looks for OpenID metadata.", |setup| {
        never_ask(setup, |request, _| is_openid(request));
    }),
    mutant("no-resource-with-openid", "Names no resource to servers that have OpenID metadata.", |setup| {
        let openid = Memo::<bool>::default();
        let found = openid.clone();
        documents(setup, Document::Server, move |request, _| found.set(is_openid(request)));
        parameters(setup, move |fields| {
            if openid.get() {
                fields.remove("resource");
            }
        });
    }),
    // ---- registration, and authentication of the client ----
    mutant("never-registers", "Makes up a client id instead of registering.", |setup| {
        instead(setup, |request| {
            let answer = json!({ "client_id": "sparring-client", "token_endpoint_auth_method": "none" });
            (request.purpose == Purpose::OauthRegister).then(|| reply(201, &answer))
        });
    }),
    Mutant {
        // Refused at registration; a client that is known beforehand gets further.
        scenarios: &["auth.registration.known-client"],
        ..mutant("registers-plain-http-redirect", "Has a redirect URI with http on another host.", |setup| {
            oauth(setup, |oauth| oauth.redirect_uri = Some("http://client.example/callback".to_owned()));
        })
    },
    mutant("redirects-elsewhere", "Authorizes with a redirect URI that it did not register.", |setup| {
        authorizations(setup, |query| {
            let uri = query.get("redirect_uri").unwrap_or_default().replace("/callback", "/elsewhere");
            query.set("redirect_uri", uri);
        });
    }),
    mutant("ignores-known-client", "Does not use the client id that it was given.", |setup| {
        oauth(setup, |oauth| oauth.registered.clear());
    }),
    mutant("guesses-registration-endpoint", "Registers where no registration is offered.", |setup| {
        documents(setup, Document::Server, |request, json| {
            let guess = format!("{}/register", origin(&request.url));
            json.entry("registration_endpoint").or_insert_with(|| guess.into());
        });
    }),
    mutant("always-basic", "Authenticates by the header, whatever was agreed on.", |setup| {
        authenticate(setup, true, false);
    }),
    mutant("always-post", "Authenticates by the form, whatever was agreed on.", |setup| {
        authenticate(setup, false, true);
    }),
    mutant("never-sends-secret", "Does not authenticate, though it has a secret.", |setup| {
        authenticate(setup, false, false);
    }),
    mutant("sends-secret-twice", "Authenticates by the header and by the form.", |setup| {
        authenticate(setup, true, true);
    }),
    // ---- the authorization request ----
    mutant("asks-implicit-grant", "Asks for a token instead of a code.", |setup| {
        authorizations(setup, |query| query.set("response_type", "token"));
    }),
    mutant("omits-pkce", "Sends neither a PKCE challenge nor a verifier.", |setup| {
        parameters(setup, |fields| {
            for name in ["code_challenge", "code_challenge_method", "code_verifier"] {
                fields.remove(name);
            }
        });
    }),
    mutant("verifier-of-another-flow", "Sends a verifier that does not fit its challenge.", |setup| {
        token_forms(setup, |form| replace(form, "code_verifier", &"another-flow-".repeat(4)));
    }),
    mutant("pkce-plain", "Uses the challenge method `plain`.", |setup| {
        authorizations(setup, |query| query.set("code_challenge_method", "plain"));
    }),
    mutant("short-verifier", "Uses a verifier of a few characters.", |setup| {
        authorizations(setup, |query| query.set("code_challenge", s256("short")));
        token_forms(setup, |form| replace(form, "code_verifier", "short"));
    }),
    mutant("omits-state", "Sends no `state`.", |setup| {
        oauth(setup, |oauth| oauth.strict.state = false);
        authorizations(setup, |query| query.remove("state"));
    }),
    mutant("authorizes-without-resource", "Names no resource in the authorization request.", |setup| {
        authorizations(setup, |query| query.remove("resource"));
    }),
    mutant("names-another-resource", "Asks for a token for another resource.", |setup| {
        parameters(setup, |fields| replace(fields, "resource", "https://elsewhere.example/mcp"));
    }),
    mutant("asks-default-scope", "Asks for a scope that nobody has named.", |setup| {
        oauth(setup, |oauth| oauth.scope = Some("openid profile".to_owned()));
    }),
    // ---- the browser, and what it comes back with ----
    mutant("opens-any-url", "Opens authorization URLs of any scheme.", |setup| {
        // The client refuses by itself, so the URL goes past it in disguise.
        const DISGUISE: &str = "http://localhost/opens-any-url/";
        documents(setup, Document::Server, |_, json| {
            if let Some(Value::String(url)) = json.get_mut("authorization_endpoint")
                && !url.starts_with("http")
            {
                url.insert_str(0, DISGUISE);
            }
        });
        opened_urls(setup, |url| url.strip_prefix(DISGUISE).unwrap_or(url).to_owned());
    }),
    mutant("opens-url-by-shell", "Has a shell open the URL, which acts on parts of it.", |setup| {
        // No shell: only what is gone from the URL when one has acted on it.
        opened_urls(setup, |url| without(&without(url, "$(", ")"), "`", "`"));
    }),
    mutant("accepts-any-state", "Does not compare `state`.", |setup| {
        oauth(setup, |oauth| oauth.strict.state = false);
    }),
    mutant("accepts-missing-state", "Does not miss a `state` that is not there.", |setup| {
        answers(setup, |sent, mut answer, _| async move {
            if answer.get("state").is_none() {
                answer.set("state", sent.get("state").unwrap_or_default());
            }
            Ok(answer)
        });
    }),
    mutant("ignores-error-response", "Goes on to the token endpoint after a refusal.", |setup| {
        answers(setup, |_, mut answer, _| async move {
            if answer.get("error").is_some() {
                answer.remove("error");
                answer.set("code", "none");
            }
            Ok(answer)
        });
    }),
    mutant("asks-until-yes", "Asks the user again after a refusal.", |setup| {
        let rounds = Rounds::new(MANY);
        answers(setup, move |_, mut answer, again| {
            let rounds = rounds.clone();
            async move {
                while answer.get("error").is_some() {
                    rounds.next().await;
                    answer = again.visit().await?;
                }
                Ok(answer)
            }
        });
    }),
    mutant("hangs-on-error-response", "Waits for ever after a refusal.", |setup| {
        answers(setup, |_, answer, _| async move {
            if answer.get("error").is_some() {
                Rounds::new(0).next().await;
            }
            Ok(answer)
        });
    }),
    // ---- whether the server knows PKCE ----
    mutant("does-not-check-pkce-support", "Does not ask whether the server knows PKCE.", |setup| {
        oauth(setup, |oauth| oauth.strict.pkce_support = false);
    }),
    mutant(
        "trusts-openid-to-know-pkce",
        "Believes that each server with OpenID metadata knows PKCE.",
        |setup| {
            documents(setup, Document::Server, |request, json| {
                if is_openid(request) {
                    json.entry("code_challenge_methods_supported").or_insert(json!(["S256"]));
                }
            });
        },
    ),
    mutant("takes-any-pkce-method", "Is content with any PKCE method that the server knows.", |setup| {
        documents(setup, Document::Server, |_, json| {
            json.entry("code_challenge_methods_supported").and_modify(|methods| *methods = json!(["S256"]));
        });
    }),
    // ---- the token request ----
    mutant("exchanges-without-resource", "Redeems the code without naming the resource.", |setup| {
        token_forms(setup, |form| remove_for(form, "authorization_code", "resource"));
    }),
    mutant("refreshes-without-resource", "Refreshes without naming the resource.", |setup| {
        token_forms(setup, |form| remove_for(form, "refresh_token", "resource"));
    }),
    mutant("sends-code-again", "Sends a code that was refused once more.", |setup| {
        repeat(setup, 1, |request, status| redeems(request) && status == 400);
    }),
    mutant("token-type-case-sensitive", "Knows the token type only as `Bearer`.", |setup| {
        documents(setup, Document::Tokens, |_, json| {
            if json.get("token_type") != Some(&json!("Bearer")) {
                json.insert("token_type".to_owned(), json!("unknown"));
            }
        });
    }),
    mutant("needs-token-lifetime", "Does not take a token without `expires_in`.", |setup| {
        documents(setup, Document::Tokens, |_, json| {
            if !json.contains_key("expires_in") {
                json.remove("access_token");
            }
        });
    }),
    // ---- the token's use ----
    mutant("token-in-own-header", "Sends the token in a header field of its own.", |setup| {
        tokens(setup, |request, token| {
            set_header(request, "Authorization", None);
            set_header(request, "X-Access-Token", Some(token));
        });
    }),
    mutant("token-with-other-scheme", "Sends the token under another scheme than Bearer.", |setup| {
        tokens(setup, |request, token| set_header(request, "Authorization", Some(format!("Token {token}"))));
    }),
    mutant("token-in-query", "Sends the token in the query.", |setup| {
        tokens(setup, |request, token| {
            set_header(request, "Authorization", None);
            request.url = format!("{}?access_token={token}", request.url);
        });
    }),
    mutant("no-token-on-get", "Opens the GET stream without a token.", |setup| {
        no_token_if(setup, |request| request.purpose == Purpose::McpGet);
    }),
    mutant("no-token-on-delete", "Ends the session without a token.", |setup| {
        no_token_if(setup, |request| request.purpose == Purpose::McpDelete);
    }),
    mutant("no-token-on-answers", "Answers the server's requests without a token.", |setup| {
        no_token_if(setup, |request| {
            request.purpose == Purpose::McpPost && message(request).get("method").is_none()
        });
    }),
    mutant("takes-token-across-origins", "Follows redirects to other origins, with the token.", |setup| {
        exchanges(setup, |mut request, next| async move {
            let response = next.send(request.clone()).await?;
            match response.header("location") {
                Some(place) if is_mcp(&request) && matches!(response.status, 307 | 308) => {
                    place.clone_into(&mut request.url);
                    next.send(request).await
                }
                _ => Ok(response),
            }
        });
    }),
    mutant("one-token-for-all-servers", "Sends the token of one server to the others.", |setup| {
        // The server whose name comes first, so that it does not hang on which is quicker.
        let accepted = Memo::<BTreeMap<String, String>>::default();
        exchanges(setup, move |mut request, next| {
            let accepted = accepted.clone();
            async move {
                let Some(own) = header(&request, "authorization").filter(|_| is_mcp(&request)) else {
                    return next.send(request).await;
                };
                let server = request.server.to_string();
                let first = accepted.get().into_iter().next().filter(|(name, _)| *name < server);
                set_header(
                    &mut request,
                    "Authorization",
                    Some(first.map_or_else(|| own.clone(), |(_, v)| v)),
                );
                let response = next.send(request).await?;
                if response.status == 200 {
                    accepted.with(|all| all.insert(server, own));
                }
                Ok(response)
            }
        });
    }),
    // ---- renewal ----
    mutant("gives-up-on-dead-token", "Takes a 401 to its token for an error.", |setup| {
        fail_on_dead_token(setup);
    }),
    mutant("repeats-dead-token", "Repeats a request whose token was refused, with that token.", |setup| {
        repeat(setup, 5, |request, status| header(request, "authorization").is_some() && status == 401);
        fail_on_dead_token(setup);
    }),
    mutant("keeps-first-refresh-token", "Goes on with the refresh token that came first.", |setup| {
        let first = Memo::<Option<Value>>::default();
        documents(setup, Document::Tokens, move |_, json| {
            if let Some(token) = json.get_mut("refresh_token") {
                *token = first.with(|first| first.get_or_insert_with(|| token.clone()).clone());
            }
        });
    }),
    mutant("forgets-refresh-token", "Forgets the refresh token if a refresh brings no new one.", |setup| {
        let forgotten = Memo::<bool>::default();
        let lost = forgotten.clone();
        documents(setup, Document::Tokens, move |_, json| lost.set(!json.contains_key("refresh_token")));
        instead(setup, move |request| {
            let none = json!({ "error": "invalid_grant" });
            (refreshes(request) && forgotten.get()).then(|| reply(400, &none))
        });
    }),
    mutant("refreshes-without-end", "Tries a refresh again and again.", |setup| {
        bound(setup, MANY, |request, status| refreshes(request) && status == 400);
        repeat(setup, u32::MAX, |request, status| refreshes(request) && status == 400);
    }),
    mutant("authorizes-without-end", "Asks the user again and again if its tokens are refused.", |setup| {
        oauth(setup, |oauth| oauth.attempts = u32::MAX);
        bound(setup, MANY, |request, status| is_mcp(request) && status == 401);
        heads(setup, |request, response| {
            // The client itself asks once only; more often it does if it lacks scopes.
            if response.status == 401 && header(request, "authorization").is_some() {
                lacks_scope(response, None);
            }
        });
    }),
    // ---- scopes ----
    mutant("ignores-challenge-scope", "Does not ask for the scopes that the challenge names.", |setup| {
        hide_parameter(setup, "scope=");
    }),
    mutant("filters-unlisted-scopes", "Asks only for scopes that the resource metadata lists.", |setup| {
        let listed = listed_scopes(setup, Document::Resource);
        authorizations(setup, move |query| {
            let asked = query.get("scope").unwrap_or_default().to_owned();
            let listed = listed.get();
            let kept =
                asked.split(' ').filter(|scope| listed.is_empty() || listed.iter().any(|l| l == scope));
            replace(query, "scope", &kept.collect::<Vec<_>>().join(" "));
        });
    }),
    mutant(
        "ignores-listed-scopes",
        "Does not ask for the scopes that the resource metadata lists.",
        |setup| {
            documents(setup, Document::Resource, |_, json| drop(json.remove("scopes_supported")));
        },
    ),
    mutant("takes-scopes-of-authorization-server", "Asks for all that the server knows.", |setup| {
        let listed = listed_scopes(setup, Document::Server);
        authorizations(setup, move |query| query.set("scope", listed.get().join(" ")));
    }),
    mutant("gives-up-on-403", "Takes a 403 for want of scopes for an error.", |setup| {
        challenges(setup, |_, status, values| if status == 403 { Vec::new() } else { values });
    }),
    mutant("steps-up-by-refresh", "Refreshes its token when it lacks scopes.", |setup| {
        heads(setup, |_, response| {
            if response.status == 403 && response.header("www-authenticate").is_some() {
                response.status = 401;
            }
        });
    }),
    mutant("steps-up-with-old-scopes", "Asks for the scopes that it has when it lacks others.", |setup| {
        let first = first_scope(setup);
        authorizations(setup, move |query| replace(query, "scope", &first.get().unwrap_or_default()));
    }),
    mutant("no-retry-after-step-up", "Does not send the request again once it has the scopes.", |setup| {
        let refused = Memo::<Vec<String>>::default();
        exchanges(setup, move |request, next| {
            let refused = refused.clone();
            async move {
                let body = text(&request);
                if refused.get().contains(&body) {
                    return Ok(reply(403, &Value::Null));
                }
                let response = next.send(request).await?;
                if response.status == 403 {
                    refused.with(|all| all.push(body));
                }
                Ok(response)
            }
        });
    }),
    mutant("steps-up-without-end", "Asks the user again and again for scopes that do not help.", |setup| {
        oauth(setup, |oauth| oauth.attempts = u32::MAX);
        bound(setup, MANY, |_, status| status == 403);
    }),
    mutant("forgets-step-ups", "Does not remember that scopes did not help before.", |setup| {
        // The client remembers by the challenge's scopes: with more spaces they are others.
        challenges(setup, |request, status, values| {
            let call = message(request).get("id").and_then(Value::as_u64).unwrap_or_default();
            let spaces =
                " ".repeat(if status == 403 { usize::try_from(call).unwrap_or_default() } else { 0 });
            values.iter().map(|value| value.replace("scope=\"", &format!("scope=\"{spaces}"))).collect()
        });
    }),
    mutant("authorizes-on-any-403", "Asks the user after any 403.", |setup| {
        heads(setup, |_, response| {
            if response.status == 403 && response.header("www-authenticate").is_none() {
                response.status = 401;
            }
        });
    }),
    mutant("refuses-narrower-grant", "Fails if fewer scopes are granted than it asked for.", |setup| {
        let asked = first_scope(setup);
        documents(setup, Document::Tokens, move |_, json| {
            if is_narrower(json, asked.get().as_deref()) {
                json.remove("access_token");
            }
        });
    }),
    mutant(
        "throws-narrower-grant-away",
        "Asks again if fewer scopes are granted than it asked for.",
        |setup| {
            let (asked, narrow) = (first_scope(setup), Memo::<Option<String>>::default());
            let (wanted, found) = (asked.clone(), narrow.clone());
            documents(setup, Document::Tokens, move |_, json| {
                if is_narrower(json, wanted.get().as_deref()) {
                    found
                        .set(json.get("access_token").and_then(Value::as_str).map(|t| format!("Bearer {t}")));
                }
            });
            instead(setup, move |request| {
                narrow.get().filter(|token| header(request, "authorization").as_ref() == Some(token))?;
                let mut response = reply(403, &Value::Null);
                lacks_scope(&mut response, asked.get().as_deref());
                Some(response)
            });
        },
    ),
    // ---- what only monitors watch for ----
    Mutant {
        name: "sends-refresh-token",
        about: "Sends the refresh token in place of the access token.",
        scenarios: &["auth.token.refresh-kept"],
        profile: REFERENCE,
        fault: Fault::Client(|setup| {
            let refresh = Memo::<Option<String>>::default();
            let found = refresh.clone();
            documents(setup, Document::Tokens, move |_, json| {
                found.set(json.get("refresh_token").and_then(Value::as_str).map(str::to_owned));
            });
            tokens(setup, move |request, _| {
                if let Some(token) = refresh.get() {
                    set_header(request, "Authorization", Some(format!("Bearer {token}")));
                }
            });
        }),
    },
    Mutant {
        name: "resource-with-fragment",
        about: "Names a resource that has a fragment.",
        scenarios: &["auth.flow.from-401"],
        profile: REFERENCE,
        fault: Fault::Client(|setup| {
            authorizations(setup, |query| {
                let resource = query.get("resource").map(|resource| format!("{resource}#mcp"));
                if let Some(resource) = resource {
                    query.set("resource", resource);
                }
            });
        }),
    },
];

/// The well-known place of resource metadata, without a path.
const RESOURCE_METADATA: &str = "/.well-known/oauth-protected-resource";

fn oauth(setup: &mut ClientSetup, change: impl Fn(&mut OauthSettings) + Send + Sync + 'static) {
    setup.client(move |settings| {
        if let Some(oauth) = &mut settings.oauth {
            change(oauth);
        }
    });
}

/// Changes the parameters of authorization and token requests alike.
fn parameters(setup: &mut ClientSetup, change: impl Fn(&mut Fields) + Clone + Send + Sync + 'static) {
    authorizations(setup, change.clone());
    token_forms(setup, change);
}

/// Gives a parameter another value, if it is there.
fn replace(fields: &mut Fields, name: &str, value: &str) {
    if fields.get(name).is_some() {
        fields.set(name, value);
    }
}

/// Removes a parameter from the form for a kind of grant.
fn remove_for(form: &mut Fields, grant: &str, name: &str) {
    if form.get("grant_type") == Some(grant) {
        form.remove(name);
    }
}

/// The endpoints of an authorization server, below a URL.
fn endpoints_at(base: &str, json: &mut Map<String, Value>) {
    let names = ["authorization_endpoint", "token_endpoint", "registration_endpoint"];
    for (name, path) in names.into_iter().zip(["authorize", "token", "register"]) {
        json.insert(name.to_owned(), format!("{base}/{path}").into());
    }
}

/// The URL of the MCP endpoint, once it was asked for something.
fn endpoint(setup: &mut ClientSetup) -> Memo<String> {
    let seen = Memo::default();
    let endpoint = seen.clone();
    requests(setup, move |request| {
        if request.purpose == Purpose::McpPost {
            seen.set(request.url.clone());
        }
    });
    endpoint
}

/// Asks for metadata of the authorization server elsewhere.
fn server_metadata_at(
    setup: &mut ClientSetup,
    place: impl Fn(&HttpRequest) -> String + Send + Sync + 'static,
) {
    requests(setup, move |request| {
        if Document::of(request) == Some(Document::Server) {
            request.url = place(request);
        }
    });
}

/// What is made of it if an authorization server has no metadata.
fn after_no_metadata(
    setup: &mut ClientSetup,
    then: impl Fn(&HttpRequest) -> Result<HttpResponse, HttpError> + Clone + Send + Sync + 'static,
) {
    exchanges(setup, move |request, next| {
        let then = then.clone();
        async move {
            let response = next.send(request.clone()).await?;
            let none = Document::of(&request) == Some(Document::Server) && response.status == 404;
            if none { then(&request) } else { Ok(response) }
        }
    });
}

fn no_token_if(setup: &mut ClientSetup, such: impl Fn(&HttpRequest) -> bool + Send + Sync + 'static) {
    tokens(setup, move |request, _| {
        if such(request) {
            set_header(request, "Authorization", None);
        }
    });
}

fn fail_on_dead_token(setup: &mut ClientSetup) {
    heads(setup, |request, response| {
        if response.status == 401 && header(request, "authorization").is_some() {
            response.status = 500;
        }
    });
}

/// Makes of a response one that says that scopes are wanting.
fn lacks_scope(response: &mut HttpResponse, scope: Option<&str>) {
    let scope = scope.map(|scope| format!(", scope=\"{scope}\"")).unwrap_or_default();
    response.status = 403;
    response.headers.retain(|(name, _)| name != "www-authenticate");
    let value = format!("Bearer error=\"insufficient_scope\"{scope}");
    response.headers.push(("www-authenticate".to_owned(), value));
}

/// The `scopes_supported` of the latest such document.
fn listed_scopes(setup: &mut ClientSetup, kind: Document) -> Memo<Vec<String>> {
    let listed = Memo::default();
    let seen = listed.clone();
    documents(setup, kind, move |_, json| {
        let scopes = json.get("scopes_supported").and_then(Value::as_array).into_iter().flatten();
        seen.set(scopes.filter_map(Value::as_str).map(str::to_owned).collect());
    });
    listed
}

/// What the client asks for in its first authorization request.
fn first_scope(setup: &mut ClientSetup) -> Memo<Option<String>> {
    let first = Memo::<Option<String>>::default();
    let seen = first.clone();
    authorizations(setup, move |query| {
        seen.with(|first| {
            first.get_or_insert_with(|| query.get("scope").unwrap_or_default().to_owned());
        });
    });
    first
}

/// Whether a token answer grants less than was asked for.
fn is_narrower(json: &Map<String, Value>, asked: Option<&str>) -> bool {
    let granted = json.get("scope").and_then(Value::as_str);
    granted.zip(asked).is_some_and(|(granted, asked)| {
        asked.split(' ').any(|scope| !granted.split(' ').any(|granted| granted == scope))
    })
}

/// What stands after `name=` in a text, up to a quotation mark.
fn after_text<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = text.split_once(&format!("{name}="))?;
    rest.trim_start_matches(['\\', '"']).split(['\\', '"']).next()
}

/// The text without what stands between two marks, and without the marks.
fn without(text: &str, open: &str, close: &str) -> String {
    match text.split_once(open).map(|(before, rest)| (before, rest.split_once(close))) {
        Some((before, Some((_, after)))) => format!("{before}{}", without(after, open, close)),
        _ => text.to_owned(),
    }
}

/// A request's body.
fn text(request: &HttpRequest) -> String {
    String::from_utf8_lossy(request.body.as_deref().unwrap_or_default()).into_owned()
}

/// The JSON-RPC message in a request's body.
fn message(request: &HttpRequest) -> Value {
    serde_json::from_slice(request.body.as_deref().unwrap_or_default()).unwrap_or_default()
}
