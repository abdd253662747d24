//! One registry as we have come to know it: where it responds, whether over
//! TLS, which authorization it requires, what it cannot do.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use http::HeaderValue;
use oci::{RegistryHost, Repository};
use tokio::sync::OnceCell;
use url::Url;

use crate::challenge::Challenge;
use crate::credentials::Provenance;
use crate::throttle::Throttle;
use crate::token::Scope;
use crate::transport::{HUB, HUB_API, Verify};

/// How long a mirror that could not be reached is left out.
const REST: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub(crate) struct Host {
    pub(crate) name: RegistryHost,
    pub(crate) verify: Verify,
    pub(crate) throttle: Arc<Throttle>,
    scheme: OnceLock<Scheme>,
    /// Held by the one who finds out whether it speaks TLS; the others wait for that.
    pub(crate) finding_out: tokio::sync::Mutex<()>,
    challenge: Mutex<Option<Challenge>>,
    /// Set once the authentication of the registry is known, or not needed.
    pub(crate) introduced: OnceCell<()>,
    passes: Mutex<HashMap<Repository, Slots>>,
    lacks_referrers: AtomicBool,
    /// Of a mirror that could not be reached: no requests before this.
    rest: Mutex<Option<(Instant, Arc<str>)>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scheme {
    Https,
    Http,
}

/// The authorization for the registry, where it came from, and until when it is good.
#[derive(Debug, Clone)]
pub(crate) struct Authorization {
    pub(crate) header: HeaderValue,
    pub(crate) provenance: Provenance,
    pub(crate) until: Instant,
}

/// Locked while a pass is being fetched, so that many requests that need the
/// same one wait for a single response.
pub(crate) type Slot = tokio::sync::Mutex<Option<Authorization>>;

/// The few scopes one repository is used with.
type Slots = Vec<(Scope, Arc<Slot>)>;

impl Host {
    pub(crate) fn new(name: RegistryHost, verify: Verify, per_host: usize) -> Self {
        let scheme = OnceLock::new();
        if verify == Verify::Yes {
            let _ = scheme.set(Scheme::Https);
        }
        Self {
            name,
            verify,
            throttle: Throttle::new(per_host),
            scheme,
            finding_out: tokio::sync::Mutex::default(),
            challenge: Mutex::default(),
            introduced: OnceCell::new(),
            passes: Mutex::default(),
            lacks_referrers: AtomicBool::new(false),
            rest: Mutex::default(),
        }
    }

    /// `None`: it may speak either, and got no request yet.
    pub(crate) fn scheme(&self) -> Option<Scheme> {
        self.scheme.get().copied()
    }

    pub(crate) fn speaks(&self, scheme: Scheme) {
        // The first to find out is right; others found the same.
        let _ = self.scheme.set(scheme);
    }

    /// `https://host/v2/<path>`. `None` cannot be: the name was checked, and
    /// paths are made of checked parts; yet an address is parsed, not glued.
    pub(crate) fn url(&self, scheme: Scheme, path: &str) -> Option<Url> {
        Url::parse(&format!("{}://{}/v2/{path}", scheme.as_str(), self.authority())).ok()
    }

    fn authority(&self) -> &str {
        match self.name.as_str() {
            HUB => HUB_API,
            name => name,
        }
    }

    /// Whether `url` is this registry, so that it may see its credentials.
    pub(crate) fn owns(&self, url: &Url) -> bool {
        self.scheme()
            .and_then(|scheme| self.url(scheme, ""))
            .is_some_and(|own| own.origin() == url.origin())
    }

    /// Where an upload continues: `location` as the registry gave it. A registry
    /// behind a proxy often gets its own scheme wrong, so for its own name the
    /// scheme that works is kept. `None`: not an address that may be used.
    pub(crate) fn upload_url(&self, base: &Url, location: &str) -> Option<Url> {
        let mut url = base.join(location).ok()?;
        if !matches!(url.scheme(), "http" | "https") || !url.has_host() {
            return None;
        }
        let same_name = url.host() == base.host() && url.port() == base.port();
        if same_name && url.scheme() != base.scheme() {
            url.set_scheme(base.scheme()).ok()?;
        }
        let downgraded = base.scheme() == "https" && url.scheme() == "http";
        (!downgraded || self.verify == Verify::No).then_some(url)
    }

    pub(crate) fn challenge(&self) -> Option<Challenge> {
        lock(&self.challenge).clone()
    }

    /// Remembers what the registry requires. Passes for another challenge become invalid.
    pub(crate) fn wants(&self, challenge: Challenge) {
        let mut known = lock(&self.challenge);
        if known.as_ref() != Some(&challenge) {
            lock(&self.passes).clear();
            *known = Some(challenge);
        }
    }

    /// The place where the pass for a scope is kept, or that of a broader one.
    pub(crate) fn slot(&self, scope: &Scope) -> Arc<Slot> {
        let mut passes = lock(&self.passes);
        let slots = passes.entry(scope.repository.clone()).or_default();
        if let Some((_, slot)) = slots.iter().find(|(held, _)| held.covers(scope)) {
            return Arc::clone(slot);
        }
        let slot = Arc::new(Slot::new(None));
        slots.push((scope.clone(), Arc::clone(&slot)));
        slot
    }

    /// A mirror could not be reached. Others are used in its place for a
    /// while: every request would wait for it first, and there are thousands.
    pub(crate) fn rest(&self, why: &str) {
        *lock(&self.rest) = Some((Instant::now() + REST, why.into()));
    }

    /// Why it rests, if it does.
    pub(crate) fn rests(&self) -> Option<Arc<str>> {
        let rest = lock(&self.rest).clone();
        rest.filter(|(until, _)| *until > Instant::now()).map(|(_, why)| why)
    }

    pub(crate) fn lacks_referrers(&self) -> bool {
        self.lacks_referrers.load(Ordering::Relaxed)
    }

    pub(crate) fn has_no_referrers(&self) {
        self.lacks_referrers.store(true, Ordering::Relaxed);
    }
}

impl Scheme {
    fn as_str(self) -> &'static str {
        match self {
            Self::Https => "https",
            Self::Http => "http",
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(name: &str, verify: Verify) -> Host {
        Host::new(name.parse().unwrap(), verify, 1)
    }

    #[test]
    fn dockers_registry_responds_under_another_name() {
        let url = host("docker.io", Verify::Yes).url(Scheme::Https, "library/x/tags/list").unwrap();
        assert_eq!(url.as_str(), "https://registry-1.docker.io/v2/library/x/tags/list");
    }

    #[test]
    fn only_its_own_origin_sees_a_registrys_credentials() {
        let quay = host("quay.io", Verify::Yes);
        for (url, expected) in [
            ("https://quay.io/v2/x", true),
            ("https://quay.io:443/v2/x", true),
            ("http://quay.io/v2/x", false),
            ("https://quay.io:8443/v2/x", false),
            ("https://cdn.quay.io/v2/x", false),
            ("https://quay.io.evil.org/", false),
        ] {
            assert_eq!(quay.owns(&Url::parse(url).unwrap()), expected, "{url}");
        }
        let unknown = host("h:5000", Verify::No);
        assert!(!unknown.owns(&Url::parse("http://h:5000/").unwrap()));
        unknown.speaks(Scheme::Http);
        assert!(unknown.owns(&Url::parse("http://h:5000/").unwrap()));
    }

    #[test]
    fn an_upload_continues_where_the_registry_states_within_reason() {
        let base = Url::parse("https://reg.io/v2/a/blobs/uploads/").unwrap();
        let quay = host("reg.io", Verify::Yes);
        for (location, expected) in [
            (
                "/v2/a/blobs/uploads/1?_state=x",
                Some("https://reg.io/v2/a/blobs/uploads/1?_state=x"),
            ),
            ("2", Some("https://reg.io/v2/a/blobs/uploads/2")),
            ("https://other.io/up?sig=1", Some("https://other.io/up?sig=1")),
            ("http://reg.io/v2/a/blobs/uploads/3", Some("https://reg.io/v2/a/blobs/uploads/3")),
            ("http://other.io/up", None),
            ("file:///etc/passwd", None),
        ] {
            let url = quay.upload_url(&base, location).map(String::from);
            assert_eq!(url.as_deref(), expected, "{location}");
        }
        let lax = host("reg.io", Verify::No);
        assert!(lax.upload_url(&base, "http://other.io/up").is_some());
    }

    #[test]
    fn a_new_challenge_voids_what_was_got_for_the_old_one() {
        let host = host("reg.io", Verify::Yes);
        let scope = Scope::pull(&"a".parse().unwrap());
        let slot = host.slot(&scope);
        assert!(Arc::ptr_eq(&slot, &host.slot(&scope)));
        host.wants(Challenge::Basic);
        let renewed = host.slot(&scope);
        assert!(!Arc::ptr_eq(&slot, &renewed));
        host.wants(Challenge::Basic);
        assert!(Arc::ptr_eq(&renewed, &host.slot(&scope)));
    }
}
