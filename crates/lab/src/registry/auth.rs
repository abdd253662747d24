//! Who may do what: nothing required, basic credentials, or bearer tokens from
//! the registry's own token endpoint.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use http::{HeaderMap, header};
use oci::Repository;

use super::route::{Need, Query, scopes};

/// What the registry requires of its clients.
#[derive(Debug, Clone, Default)]
pub enum Auth {
    /// Nothing.
    #[default]
    None,
    /// These credentials with every request.
    Basic(Credentials),
    /// A token for every request, issued for these credentials by `/token`.
    Bearer(Bearer),
}

/// A user name and a password. Not printed by `Debug`.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    /// The user's name.
    pub user: String,
    /// The password.
    pub password: String,
}

/// How tokens are given out.
#[derive(Debug, Clone)]
pub struct Bearer {
    /// Who may do everything.
    pub credentials: Credentials,
    /// Whether a token that only pulls is given to everyone.
    pub anonymous_pull: bool,
    /// How long a token is good for.
    pub lifetime: Duration,
    /// How many requests a token is good for, if there is a limit.
    pub requests: Option<u32>,
}

impl Credentials {
    /// These credentials.
    pub fn new(user: &str, password: &str) -> Self {
        Self { user: user.into(), password: password.into() }
    }
}

impl Bearer {
    /// Tokens for these credentials only, good for five minutes.
    pub fn new(credentials: Credentials) -> Self {
        Self {
            credentials,
            anonymous_pull: false,
            lifetime: Duration::from_secs(300),
            requests: None,
        }
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials").field("user", &self.user).finish_non_exhaustive()
    }
}

/// The value of `WWW-Authenticate` in the response to a request without permission.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Challenge(pub(super) String);

/// A token that was given out.
#[derive(Debug)]
struct Token {
    allows: BTreeMap<Repository, Vec<String>>,
    until: Instant,
    requests_left: Option<u32>,
}

/// Checks requests and issues tokens.
#[derive(Debug)]
pub(super) struct Authenticator {
    auth: Auth,
    tokens: Mutex<HashMap<String, Token>>,
}

impl Authenticator {
    pub(super) fn new(auth: Auth) -> Self {
        Self { auth, tokens: Mutex::default() }
    }

    /// Whether a request has the right to all it needs. `base` is where the
    /// client finds the token endpoint.
    pub(super) fn check(
        &self,
        base: &str,
        headers: &HeaderMap,
        needs: &[Need],
    ) -> Result<(), Challenge> {
        match &self.auth {
            Auth::None => Ok(()),
            Auth::Basic(credentials) if basic(headers).as_ref() == Some(credentials) => Ok(()),
            Auth::Basic(_) => Err(Challenge(r#"Basic realm="lab""#.into())),
            Auth::Bearer(_) => {
                self.check_token(headers, needs).map_err(|error| challenge(base, needs, error))
            }
        }
    }

    /// The error is the one to name in the challenge, if any.
    fn check_token(&self, headers: &HeaderMap, needs: &[Need]) -> Result<(), Option<&str>> {
        let presented = credential(headers, "Bearer ").ok_or(None)?;
        let mut tokens = self.tokens.lock().unwrap_or_else(PoisonError::into_inner);
        let good = |token: &&mut Token| {
            token.until > Instant::now() && token.requests_left.is_none_or(|left| left > 0)
        };
        let token = tokens.get_mut(presented).filter(good).ok_or(Some("invalid_token"))?;
        let allowed = |need: &Need| {
            token.allows.get(&need.repository).is_some_and(|actions| {
                need.actions.iter().all(|action| actions.iter().any(|a| a == action))
            })
        };
        if !needs.iter().all(allowed) {
            return Err(Some("insufficient_scope"));
        }
        if let Some(left) = &mut token.requests_left {
            *left -= 1;
        }
        Ok(())
    }

    /// A token and how many seconds it is good for, if this client may have one.
    pub(super) fn token(&self, headers: &HeaderMap, query: &Query) -> Option<(String, u64)> {
        let Auth::Bearer(bearer) = &self.auth else { return None };
        let known = match basic(headers) {
            Some(credentials) if credentials == bearer.credentials => true,
            Some(_) => return None,
            None if bearer.anonymous_pull => false,
            None => return None,
        };
        let mut allows = scopes(query);
        if !known {
            allows.values_mut().for_each(|actions| actions.retain(|action| action == "pull"));
        }
        let mut tokens = self.tokens.lock().unwrap_or_else(PoisonError::into_inner);
        let number = tokens.len();
        let name = oci::Digest::of(format!("token {number}").as_bytes()).hex();
        let until = Instant::now() + bearer.lifetime;
        tokens.insert(name.clone(), Token { allows, until, requests_left: bearer.requests });
        Some((name, bearer.lifetime.as_secs()))
    }

    /// Makes every token given out so far worthless.
    pub(super) fn expire_tokens(&self) {
        let mut tokens = self.tokens.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        tokens.values_mut().for_each(|token| token.until = now);
    }
}

fn challenge(base: &str, needs: &[Need], error: Option<&str>) -> Challenge {
    let mut text = format!(r#"Bearer realm="{base}/token",service="lab""#);
    let scope = |need: &Need| format!("repository:{}:{}", need.repository, need.actions.join(","));
    let scopes: Vec<_> = needs.iter().map(scope).collect();
    if !scopes.is_empty() {
        text += &format!(r#",scope="{}""#, scopes.join(" "));
    }
    if let Some(error) = error {
        text += &format!(r#",error="{error}""#);
    }
    Challenge(text)
}

fn credential<'a>(headers: &'a HeaderMap, scheme: &str) -> Option<&'a str> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (found, rest) = value.split_at_checked(scheme.len())?;
    found.eq_ignore_ascii_case(scheme).then(|| rest.trim())
}

fn basic(headers: &HeaderMap) -> Option<Credentials> {
    let decoded = BASE64.decode(credential(headers, "Basic ")?).ok()?;
    let text = String::from_utf8(decoded).ok()?;
    let (user, password) = text.split_once(':')?;
    Some(Credentials::new(user, password))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn authenticator(change: impl FnOnce(&mut Bearer)) -> Authenticator {
        let mut bearer = Bearer::new(Credentials::new("me", "secret"));
        change(&mut bearer);
        Authenticator::new(Auth::Bearer(bearer))
    }

    fn headers(value: &str) -> HeaderMap {
        HeaderMap::from_iter([(header::AUTHORIZATION, value.parse().unwrap())])
    }

    fn need(name: &str, actions: &'static [&'static str]) -> Vec<Need> {
        vec![Need { repository: name.parse().unwrap(), actions }]
    }

    fn request_token(
        authenticator: &Authenticator,
        credentials: Option<&str>,
        scope: &str,
    ) -> Option<HeaderMap> {
        let uri = format!("/token?service=lab&scope={scope}").parse().unwrap();
        let requested = credentials
            .map(|text| headers(&format!("Basic {}", BASE64.encode(text))))
            .unwrap_or_default();
        let (token, _) = authenticator.token(&requested, &Query::of(&uri))?;
        Some(headers(&format!("Bearer {token}")))
    }

    #[test]
    fn a_token_is_good_for_its_scope_only() {
        let authenticator = authenticator(|_| {});
        let token = request_token(&authenticator, Some("me:secret"), "repository:a:pull").unwrap();
        assert_eq!(authenticator.check("http://lab", &token, &need("a", &["pull"])), Ok(()));
        for beyond in [need("a", &["pull", "push"]), need("b", &["pull"])] {
            let Challenge(text) = authenticator.check("http://lab", &token, &beyond).unwrap_err();
            assert!(text.contains("insufficient_scope"), "{text}");
        }
        assert!(request_token(&authenticator, Some("me:wrong"), "repository:a:pull").is_none());
        assert!(request_token(&authenticator, None, "repository:a:pull").is_none());
    }

    #[test]
    fn anonymous_clients_may_pull_where_that_is_allowed_but_not_push() {
        let authenticator = authenticator(|bearer| bearer.anonymous_pull = true);
        let token = request_token(&authenticator, None, "repository:a:pull,push").unwrap();
        assert_eq!(authenticator.check("http://lab", &token, &need("a", &["pull"])), Ok(()));
        assert!(authenticator.check("http://lab", &token, &need("a", &["pull", "push"])).is_err());
    }

    #[test]
    fn tokens_end_after_their_requests_their_time_or_on_demand() {
        let pull = need("a", &["pull"]);
        let counted = authenticator(|bearer| bearer.requests = Some(1));
        let token = request_token(&counted, Some("me:secret"), "repository:a:pull").unwrap();
        assert!(counted.check("http://lab", &token, &pull).is_ok());
        assert!(
            counted.check("http://lab", &token, &pull).unwrap_err().0.contains("invalid_token")
        );

        let short = authenticator(|bearer| bearer.lifetime = Duration::ZERO);
        let token = request_token(&short, Some("me:secret"), "repository:a:pull").unwrap();
        assert!(short.check("http://lab", &token, &pull).is_err());

        let authenticator = authenticator(|_| {});
        let token = request_token(&authenticator, Some("me:secret"), "repository:a:pull").unwrap();
        authenticator.expire_tokens();
        assert!(authenticator.check("http://lab", &token, &pull).is_err());
    }

    #[test]
    fn a_password_is_not_printed() {
        let printed = format!("{:?}", Auth::Basic(Credentials::new("me", "secret")));
        assert!(!printed.contains("secret"), "{printed}");
    }
}
