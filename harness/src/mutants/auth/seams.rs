//! Decorators over the seams through which the reference client authorizes: its HTTP, its browser.

pub(super) use super::super::decorate::{MANY, Memo, Rounds, exchanges, is_mcp, requests};
use crate::drivers::ClientSetup;
use async_trait::async_trait;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use futures_util::stream;
use serde_json::{Map, Value};
use sparring_client::Browser;
use sparring_client::http::{HttpRequest, HttpResponse, Purpose};
use std::sync::Arc;
use url::{Url, form_urlencoded};

/// The longest document that is changed, in bytes; as much as the client itself reads.
const LONGEST: usize = 1 << 20;

/// A redirect URI at which nobody listens, so that the browser brings the answer.
const NOBODY: &str = "https://client.example/callback";

/// What comes back from the browser.
pub(super) type Visit = Result<Option<String>, String>;

// ---- HTTP ----

/// Changes requests to the MCP endpoint that carry a token: its value without the scheme is handed over apart.
pub(super) fn tokens(
    setup: &mut ClientSetup,
    change: impl Fn(&mut HttpRequest, String) + Send + Sync + 'static,
) {
    requests(setup, move |request| {
        if is_mcp(request)
            && let Some(value) = header(request, "authorization")
        {
            change(request, value.trim_start_matches("Bearer ").to_owned());
        }
    });
}

/// Changes the status and the header of responses.
pub(super) fn heads(
    setup: &mut ClientSetup,
    change: impl Fn(&HttpRequest, &mut HttpResponse) + Send + Sync + 'static,
) {
    let change = Arc::new(change);
    exchanges(setup, move |request, next| {
        let change = Arc::clone(&change);
        async move {
            let mut response = next.send(request.clone()).await?;
            change(&request, &mut response);
            Ok(response)
        }
    });
}

/// Changes what the client reads in `WWW-Authenticate`: one text for each field.
pub(super) fn challenges(
    setup: &mut ClientSetup,
    change: impl Fn(&HttpRequest, u16, Vec<String>) -> Vec<String> + Send + Sync + 'static,
) {
    const FIELD: &str = "www-authenticate";
    heads(setup, move |request, response| {
        let (challenges, mut others): (Vec<_>, Vec<_>) =
            std::mem::take(&mut response.headers).into_iter().partition(|(name, _)| name == FIELD);
        let values: Vec<String> = challenges.into_iter().map(|(_, value)| value).collect();
        if !values.is_empty() {
            let changed = change(request, response.status, values);
            others.extend(changed.into_iter().map(|value| (FIELD.to_owned(), value)));
        }
        response.headers = others;
    });
}

/// Makes a parameter of the challenges one that the client does not know.
pub(super) fn hide_parameter(setup: &mut ClientSetup, name: &'static str) {
    challenges(setup, move |_, _, values| {
        values.iter().map(|value| value.replace(name, "x-unknown")).collect()
    });
}

/// Sends requests again, at most so many times, as long as the answer is such.
pub(super) fn repeat(
    setup: &mut ClientSetup,
    times: u32,
    when: impl Fn(&HttpRequest, u16) -> bool + Send + Sync + 'static,
) {
    let when = Arc::new(when);
    exchanges(setup, move |request, next| {
        let when = Arc::clone(&when);
        async move {
            let mut response = next.send(request.clone()).await?;
            for _ in 0..times {
                if !when(&request, response.status) {
                    break;
                }
                response = next.send(request.clone()).await?;
            }
            Ok(response)
        }
    });
}

/// Stands still after so many answers of a kind.
pub(super) fn bound(
    setup: &mut ClientSetup,
    rounds: u32,
    what: impl Fn(&HttpRequest, u16) -> bool + Send + Sync + 'static,
) {
    let (rounds, what) = (Rounds::new(rounds), Arc::new(what));
    exchanges(setup, move |request, next| {
        let (rounds, what) = (rounds.clone(), Arc::clone(&what));
        async move {
            let response = next.send(request.clone()).await?;
            if what(&request, response.status) {
                rounds.next().await;
            }
            Ok(response)
        }
    });
}

/// Answers some requests without sending them.
pub(super) fn instead(
    setup: &mut ClientSetup,
    answer: impl Fn(&HttpRequest) -> Option<HttpResponse> + Send + Sync + 'static,
) {
    exchanges(setup, move |request, next| {
        let answer = answer(&request);
        async move {
            match answer {
                Some(answer) => Ok(answer),
                None => next.send(request).await,
            }
        }
    });
}

/// Does not ask for some documents, as if there were none.
pub(super) fn never_ask(
    setup: &mut ClientSetup,
    of: impl Fn(&HttpRequest, Document) -> bool + Send + Sync + 'static,
) {
    instead(setup, move |request| {
        Document::of(request).filter(|document| of(request, *document)).map(|_| reply(404, &Value::Null))
    });
}

/// What the body of an answer is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Document {
    /// Metadata of the resource.
    Resource,
    /// Metadata of the authorization server.
    Server,
    /// A registration.
    Registration,
    /// Tokens.
    Tokens,
}

impl Document {
    pub(super) fn of(request: &HttpRequest) -> Option<Self> {
        match request.purpose {
            Purpose::OauthMetadata if request.url.contains("/.well-known/oauth-authorization-server") => {
                Some(Self::Server)
            }
            Purpose::OauthMetadata if is_openid(request) => Some(Self::Server),
            Purpose::OauthMetadata => Some(Self::Resource),
            Purpose::OauthRegister => Some(Self::Registration),
            Purpose::OauthToken => Some(Self::Tokens),
            Purpose::McpPost | Purpose::McpGet | Purpose::McpDelete => None,
        }
    }
}

/// Changes documents of a kind.
pub(super) fn documents(
    setup: &mut ClientSetup,
    kind: Document,
    change: impl Fn(&HttpRequest, &mut Map<String, Value>) + Send + Sync + 'static,
) {
    let change = Arc::new(change);
    exchanges(setup, move |request, next| {
        let change = Arc::clone(&change);
        async move {
            let response = next.send(request.clone()).await?;
            if Document::of(&request) != Some(kind) || !(200..300).contains(&response.status) {
                return Ok(response);
            }
            let status = response.status;
            let mut json = serde_json::from_slice(&response.read(LONGEST).await?).unwrap_or_default();
            change(&request, &mut json);
            Ok(reply(status, &Value::Object(json)))
        }
    });
}

/// An answer of the mutant's own.
pub(super) fn reply(status: u16, json: &Value) -> HttpResponse {
    HttpResponse {
        status,
        headers: vec![("content-type".into(), "application/json".into())],
        body: Box::pin(stream::iter([Ok(json.to_string().into())])),
    }
}

pub(super) fn is_openid(request: &HttpRequest) -> bool {
    request.url.contains("/.well-known/openid-configuration")
}

/// Whether a request redeems a code.
pub(super) fn redeems(request: &HttpRequest) -> bool {
    grants(request, "authorization_code")
}

/// Whether a request uses a refresh token.
pub(super) fn refreshes(request: &HttpRequest) -> bool {
    grants(request, "refresh_token")
}

fn grants(request: &HttpRequest, kind: &str) -> bool {
    request.purpose == Purpose::OauthToken && form(request).get("grant_type") == Some(kind)
}

/// Scheme, host and port of a URL.
pub(super) fn origin(url: &str) -> String {
    Url::parse(url).map(|url| url.origin().ascii_serialization()).unwrap_or_default()
}

/// The path of a URL.
pub(super) fn path(url: &str) -> String {
    Url::parse(url).map(|url| url.path().to_owned()).unwrap_or_default()
}

/// The first field of a name, whatever its case.
pub(super) fn header(request: &HttpRequest, name: &str) -> Option<String> {
    request.headers.iter().find(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, value)| value.clone())
}

/// Replaces a field, or removes it.
pub(super) fn set_header(request: &mut HttpRequest, name: &str, value: Option<String>) {
    request.headers.retain(|(n, _)| !n.eq_ignore_ascii_case(name));
    request.headers.extend(value.map(|value| (name.to_owned(), value)));
}

// ---- parameters ----

/// The parameters of a query or a form.
#[derive(Debug, Clone, Default)]
pub(super) struct Fields(Vec<(String, String)>);

impl Fields {
    fn parse(text: &str) -> Self {
        Self(form_urlencoded::parse(text.as_bytes()).into_owned().collect())
    }

    fn of(url: &str) -> Self {
        Self::parse(
            Url::parse(url).ok().and_then(|url| url.query().map(str::to_owned)).as_deref().unwrap_or(""),
        )
    }

    fn text(&self) -> String {
        form_urlencoded::Serializer::new(String::new()).extend_pairs(&self.0).finish()
    }

    /// The URL with these parameters instead of its own.
    fn put_into(&self, url: &str) -> String {
        let bare = url.split('?').next().unwrap_or(url);
        format!("{bare}?{}", self.text())
    }

    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(n, _)| n == name).map(|(_, value)| value.as_str())
    }

    pub(super) fn set(&mut self, name: &str, value: impl Into<String>) {
        self.remove(name);
        self.0.push((name.to_owned(), value.into()));
    }

    pub(super) fn remove(&mut self, name: &str) {
        self.0.retain(|(n, _)| n != name);
    }
}

/// The parameters in a request's body.
pub(super) fn form(request: &HttpRequest) -> Fields {
    Fields::parse(&String::from_utf8_lossy(request.body.as_deref().unwrap_or_default()))
}

/// Changes the form of token requests.
pub(super) fn token_forms(setup: &mut ClientSetup, change: impl Fn(&mut Fields) + Send + Sync + 'static) {
    requests(setup, move |request| {
        if request.purpose == Purpose::OauthToken {
            let mut form = form(request);
            change(&mut form);
            request.body = Some(form.text().into());
        }
    });
}

/// Authenticates at the token endpoint by the header, by the form, by both or not at all, whatever was agreed on.
pub(super) fn authenticate(setup: &mut ClientSetup, by_header: bool, by_form: bool) {
    requests(setup, move |request| {
        if request.purpose != Purpose::OauthToken {
            return;
        }
        let mut form = form(request);
        let basic = header(request, "authorization")
            .and_then(|value| BASE64_STANDARD.decode(value.strip_prefix("Basic ")?).ok())
            .and_then(|pair| String::from_utf8(pair).ok())
            .and_then(|pair| {
                pair.split_once(':').map(|(id, secret)| (id.to_owned(), Some(secret.to_owned())))
            });
        let own = |name: &str| form.get(name).map(str::to_owned);
        let (id, secret) =
            basic.unwrap_or_else(|| (own("client_id").unwrap_or_default(), own("client_secret")));
        let pair = format!("{id}:{}", secret.as_deref().unwrap_or_default());
        let value = by_header.then(|| format!("Basic {}", BASE64_STANDARD.encode(pair)));
        set_header(request, "Authorization", value);
        form.set("client_id", id);
        match secret.filter(|_| by_form) {
            Some(secret) => form.set("client_secret", secret),
            None => form.remove("client_secret"),
        }
        request.body = Some(form.text().into());
    });
}

// ---- the browser ----

struct Person<F> {
    next: Arc<dyn Browser>,
    hook: F,
}

#[async_trait]
impl<F, R> Browser for Person<F>
where
    F: Fn(String, String, Arc<dyn Browser>) -> R + Send + Sync,
    R: Future<Output = Visit> + Send,
{
    async fn open(&self, server: &str, url: &str) -> Visit {
        (self.hook)(server.to_owned(), url.to_owned(), Arc::clone(&self.next)).await
    }
}

/// Changes the URL that is opened, as a text.
pub(super) fn opened_urls(setup: &mut ClientSetup, change: impl Fn(&str) -> String + Send + Sync + 'static) {
    let hook = move |server: String, url: String, next: Arc<dyn Browser>| {
        let url = change(&url);
        async move { next.open(&server, &url).await }
    };
    setup.browser = Arc::new(Person { next: Arc::clone(&setup.browser), hook });
}

/// Changes the parameters of authorization requests.
pub(super) fn authorizations(setup: &mut ClientSetup, change: impl Fn(&mut Fields) + Send + Sync + 'static) {
    opened_urls(setup, move |url| {
        let mut query = Fields::of(url);
        change(&mut query);
        query.put_into(url)
    });
}

/// Looks at what the browser comes back with, after it was sent somewhere with these parameters.
///
/// The hook is given a way to send it there again.
pub(super) fn answers<R>(
    setup: &mut ClientSetup,
    hook: impl Fn(Fields, Fields, Again) -> R + Send + Sync + 'static,
) where
    R: Future<Output = Result<Fields, String>> + Send + 'static,
{
    setup.client(|settings| {
        if let Some(oauth) = &mut settings.oauth {
            oauth.redirect_uri = Some(NOBODY.to_owned());
        }
    });
    let hook = Arc::new(hook);
    let around = move |server: String, url: String, next: Arc<dyn Browser>| {
        let hook = Arc::clone(&hook);
        async move {
            let again = Again { server, url, next };
            let answer = again.visit().await?;
            let answer = hook(Fields::of(&again.url), answer, again).await?;
            Ok(Some(answer.put_into(NOBODY)))
        }
    };
    setup.browser = Arc::new(Person { next: Arc::clone(&setup.browser), hook: around });
}

/// A way to send the browser to the same place again.
pub(super) struct Again {
    server: String,
    url: String,
    next: Arc<dyn Browser>,
}

impl Again {
    pub(super) async fn visit(&self) -> Result<Fields, String> {
        let seen = self.next.open(&self.server, &self.url).await?;
        seen.map(|url| Fields::of(&url)).ok_or_else(|| "the browser did not bring the answer back".to_owned())
    }
}
