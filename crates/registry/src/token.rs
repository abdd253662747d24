//! Bearer tokens: requests to a token server, what it responds, and for
//! how long that is good.

use std::time::Duration;

use http::HeaderValue;
use http::header::{ACCEPT, CONTENT_TYPE, HeaderMap};
use oci::Repository;
use serde::Deserialize;
use url::Url;
use url::form_urlencoded::Serializer;

use crate::authfile::Secret;
use crate::error::Error;
use crate::transport::{Outgoing, Protocol, Refusal, Transport, Verify};

const MAX_TOKEN_BYTES: u64 = 1 << 20;
/// The lifetime of a token if its server does not specify it.
const DEFAULT_LIFE: Duration = Duration::from_secs(60);
const CLIENT_ID: &str = "oc-mirror";

/// What a request needs to be allowed. As narrow as it can be: some front ends
/// refuse the long headers that broad tokens make.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Scope {
    pub(crate) repository: Repository,
    pub(crate) access: Access,
    /// The repository a blob is mounted from.
    pub(crate) mount_from: Option<Repository>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Access {
    Pull,
    PullPush,
    /// Also to push: registries differ in which right a deletion needs.
    Delete,
    /// The list of all repositories. The repository of the scope has no meaning then.
    List,
}

/// A token, ready to be sent.
#[derive(Debug, Clone)]
pub(crate) struct Token {
    pub(crate) header: HeaderValue,
    /// How long to use it: less than its lifetime.
    pub(crate) use_for: Duration,
}

/// A request to a token server. Without a secret the token is anonymous.
#[derive(Clone, Copy)]
pub(crate) struct Wanted<'a> {
    pub(crate) realm: &'a Url,
    pub(crate) service: Option<&'a str>,
    pub(crate) scope: &'a Scope,
    pub(crate) secret: Option<&'a Secret>,
}

#[derive(Deserialize)]
struct Reply {
    token: Option<String>,
    access_token: Option<String>,
    #[serde(default)]
    expires_in: Option<serde_json::Number>,
}

impl Scope {
    pub(crate) fn pull(repository: &Repository) -> Self {
        Self { repository: repository.clone(), access: Access::Pull, mount_from: None }
    }

    /// For a list that belongs to no repository; `any` means all of them.
    pub(crate) fn list(any: &Repository) -> Self {
        Self { repository: any.clone(), access: Access::List, mount_from: None }
    }

    pub(crate) fn push(repository: &Repository, mount_from: Option<&Repository>) -> Self {
        let mount_from = mount_from.cloned();
        Self { repository: repository.clone(), access: Access::PullPush, mount_from }
    }

    pub(crate) fn delete(repository: &Repository) -> Self {
        Self { repository: repository.clone(), access: Access::Delete, mount_from: None }
    }

    /// Whether a token for `self` also does for `other`.
    pub(crate) fn covers(&self, other: &Self) -> bool {
        let lists = [self.access, other.access].contains(&Access::List);
        self.repository == other.repository
            && (self.access == other.access || (!lists && self.access > other.access))
            && (other.mount_from.is_none() || other.mount_from == self.mount_from)
    }

    fn words(&self) -> impl Iterator<Item = String> {
        let actions = match self.access {
            Access::Pull => "pull",
            Access::PullPush => "pull,push",
            Access::Delete => "pull,push,delete",
            Access::List => "*",
        };
        let own = match self.access {
            Access::List => format!("registry:catalog:{actions}"),
            _ => format!("repository:{}:{actions}", self.repository),
        };
        let other = self.mount_from.as_ref().map(|from| format!("repository:{from}:pull"));
        std::iter::once(own).chain(other)
    }
}

fn request(wanted: Wanted<'_>) -> Outgoing {
    let Wanted { realm, service, scope, secret } = wanted;
    let mut outgoing = Outgoing {
        method: http::Method::GET,
        url: realm.clone(),
        headers: HeaderMap::new(),
        authorization: None,
        body: None,
        verify: Verify::Yes,
        protocol: Protocol::Any,
    };
    outgoing.headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
    if let Some(Secret::Refresh(token)) = secret {
        let mut form = Serializer::new(String::new());
        form.append_pair("grant_type", "refresh_token").append_pair("client_id", CLIENT_ID);
        if let Some(service) = service {
            form.append_pair("service", service);
        }
        form.append_pair("scope", &scope.words().collect::<Vec<_>>().join(" "));
        form.append_pair("refresh_token", token);
        let kind = HeaderValue::from_static("application/x-www-form-urlencoded");
        outgoing.headers.insert(CONTENT_TYPE, kind);
        outgoing.method = http::Method::POST;
        outgoing.body = Some(form.finish().into());
        return outgoing;
    }
    let mut query = outgoing.url.query_pairs_mut();
    if let Some(service) = service {
        query.append_pair("service", service);
    }
    for word in scope.words() {
        query.append_pair("scope", &word);
    }
    if let Some(Secret::Password { user, .. }) = secret {
        query.append_pair("account", user);
    }
    drop(query);
    outgoing.authorization = secret.and_then(basic);
    outgoing
}

/// `Authorization: Basic` for a password; nothing for other secrets.
pub(crate) fn basic(secret: &Secret) -> Option<HeaderValue> {
    use base64::Engine;
    let Secret::Password { user, password } = secret else { return None };
    let encoded = base64::engine::general_purpose::STANDARD.encode(format!("{user}:{password}"));
    sensitive(&format!("Basic {encoded}"))
}

pub(crate) fn bearer(token: &str) -> Option<HeaderValue> {
    sensitive(&format!("Bearer {token}"))
}

fn sensitive(text: &str) -> Option<HeaderValue> {
    let mut value = HeaderValue::from_str(text).ok()?;
    value.set_sensitive(true);
    Some(value)
}

fn read(reply: &[u8]) -> Result<Token, &'static str> {
    let reply: Reply = serde_json::from_slice(reply).map_err(|_| "the response is not JSON")?;
    let token = [reply.token, reply.access_token].into_iter().flatten().find(|t| !t.is_empty());
    let token = token.ok_or("the response has no token")?;
    let header = bearer(&token).ok_or("the token holds characters that cannot be sent")?;
    let seconds = reply.expires_in.and_then(|number| number.as_f64());
    let life = seconds.filter(|seconds| *seconds > 0.0);
    let life = life.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    let life = life.unwrap_or(DEFAULT_LIFE);
    // Renewed early enough that it does not expire in transit.
    let use_for = life - (life / 5).min(Duration::from_secs(30));
    Ok(Token { header, use_for })
}

/// Gets a token. The caller has made sure that `realm` may see the secret.
pub(crate) async fn fetch(
    transport: &Transport,
    wanted: Wanted<'_>,
    verify: Verify,
) -> Result<Result<Token, Refusal>, Error> {
    let mut outgoing = request(wanted);
    outgoing.verify = verify;
    let response = transport.exchange(outgoing, Some(transport.timeouts.stall)).await?;
    if !response.status().is_success() {
        return Ok(Err(response.refusal().await));
    }
    let (request_line, body) = response.body(MAX_TOKEN_BYTES, &transport.counters).await?;
    read(&body).map(Ok).map_err(|what| Error::Protocol { request_line, what: what.into() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn repository(text: &str) -> Repository {
        text.parse().unwrap()
    }

    fn password() -> Secret {
        Secret::Password { user: "me".into(), password: "pass".into() }
    }

    #[test]
    fn a_token_is_requested_with_narrow_scopes() {
        let realm = Url::parse("https://auth.io/token?x=1").unwrap();
        let scope = Scope::push(&repository("a/b"), Some(&repository("c")));
        let secret = password();
        let service = Some("reg.io");
        let expected = Wanted { realm: &realm, service, scope: &scope, secret: Some(&secret) };
        let outgoing = request(expected);
        let query: Vec<(String, String)> = outgoing.url.query_pairs().into_owned().collect();
        let expected = [
            ("x", "1"),
            ("service", "reg.io"),
            ("scope", "repository:a/b:pull,push"),
            ("scope", "repository:c:pull"),
            ("account", "me"),
        ];
        assert_eq!(query, expected.map(|(key, value)| (key.to_owned(), value.to_owned())));
        // "me:pass" in base64.
        assert_eq!(outgoing.authorization.unwrap(), "Basic bWU6cGFzcw==");
        let scope = Scope::pull(&repository("a"));
        let anonymous =
            request(Wanted { realm: &realm, service: None, scope: &scope, secret: None });
        assert_eq!(anonymous.authorization, None);
    }

    #[test]
    fn a_refresh_token_goes_into_the_body_and_never_into_the_address() {
        let realm = Url::parse("https://auth.io/token").unwrap();
        let scope = Scope::pull(&repository("a/b"));
        let secret = Secret::Refresh("re&fresh".into());
        let service = Some("reg.io");
        let outgoing =
            request(Wanted { realm: &realm, service, scope: &scope, secret: Some(&secret) });
        assert_eq!(outgoing.method, http::Method::POST);
        assert_eq!(outgoing.url.query(), None);
        let body = outgoing.body.unwrap();
        let form = std::str::from_utf8(body.as_bytes().unwrap()).unwrap();
        assert_eq!(
            form,
            "grant_type=refresh_token&client_id=oc-mirror&service=reg.io&scope=repository%3Aa%2Fb%3Apull&refresh_token=re%26fresh"
        );
    }

    #[test]
    fn responses_are_read_in_all_their_forms() {
        for (reply, header, seconds) in [
            (r#"{"token":"t"}"#, "Bearer t", 48),
            (r#"{"access_token":"a","expires_in":300}"#, "Bearer a", 270),
            (r#"{"token":"","access_token":"a","expires_in":10.0}"#, "Bearer a", 8),
            (r#"{"token":"t","access_token":"a","expires_in":-5}"#, "Bearer t", 48),
        ] {
            let token = read(reply.as_bytes()).unwrap();
            assert_eq!(token.header, header, "{reply}");
            assert_eq!(token.use_for.as_secs(), seconds, "{reply}");
            assert!(!format!("{token:?}").contains("Bearer"));
        }
        for reply in ["{}", "<html>", r#"{"token":"a\nb"}"#] {
            assert!(read(reply.as_bytes()).is_err(), "{reply}");
        }
    }

    #[test]
    fn a_broad_token_is_used_for_a_narrow_scope_and_not_the_reverse() {
        let (a, c) = (repository("a"), repository("c"));
        let (pull, push, mount) =
            (Scope::pull(&a), Scope::push(&a, None), Scope::push(&a, Some(&c)));
        assert!(push.covers(&pull) && mount.covers(&push) && mount.covers(&pull));
        assert!(!pull.covers(&push) && !push.covers(&mount));
        assert!(!Scope::push(&c, None).covers(&pull));
        let list = Scope::list(&a);
        assert!(list.covers(&list) && !list.covers(&pull) && !push.covers(&list));
        assert_eq!(list.words().collect::<Vec<_>>(), ["registry:catalog:*"]);
    }
}
