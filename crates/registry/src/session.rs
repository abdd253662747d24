//! A request to a registry with everything around it: the right address, what
//! authorization the registry requires, the limit on requests at a time.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::header::{HeaderMap, HeaderValue, WWW_AUTHENTICATE};
use http::{Method, StatusCode};
use oci::RegistryHost;
use url::Url;

use crate::authfile::Secret;
use crate::challenge::Challenge;
use crate::credentials::{Credentials, Found};
use crate::error::{Error, Fault, RequestLine};
use crate::host::{Authorization, Host, Scheme};
use crate::location::Location;
use crate::registries_conf::{PullSource, RegistriesConf, RequestKind};
use crate::retry::Retry;
use crate::settings::Side;
use crate::throttle::{Lane, Permit};
use crate::token::{self, Scope, basic, bearer};
use crate::transport::{Outgoing, Protocol, Response, Transport, Verify};
use crate::upload_log::UploadLog;

/// How often a request that was refused is made with something fresher.
const RENEWALS: usize = 2;

/// How long a login is used before its file is read again.
const LOGIN_MEMORY: Duration = Duration::from_secs(60);

pub(crate) struct Session {
    pub(crate) side: Side,
    pub(crate) tls_verify: bool,
    pub(crate) per_host: usize,
    pub(crate) retry: Retry,
    pub(crate) uploads: Option<Arc<dyn UploadLog>>,
    pub(crate) conf: RegistriesConf,
    pub(crate) credentials: Credentials,
    pub(crate) transport: Transport,
    pub(crate) hosts: Mutex<HashMap<(RegistryHost, Verify), Arc<Host>>>,
}

/// Proxies and logins are secret, so almost nothing is printed.
impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session").field("side", &self.side).finish_non_exhaustive()
    }
}

/// A repository at the host that serves it, after mirrors were resolved.
#[derive(Debug, Clone)]
pub(crate) struct HostRepository {
    pub(crate) host: Arc<Host>,
    pub(crate) at: Location,
}

/// A request that needs no body or a small one.
pub(crate) struct Call {
    pub(crate) method: Method,
    /// Below `/v2/`.
    pub(crate) path: String,
    pub(crate) headers: HeaderMap,
    pub(crate) scope: Scope,
    pub(crate) protocol: Protocol,
    pub(crate) body: Option<Bytes>,
}

impl Call {
    pub(crate) fn new(method: Method, path: String, scope: Scope) -> Self {
        let headers = HeaderMap::new();
        Self { method, path, headers, scope, protocol: Protocol::Any, body: None }
    }
}

impl Session {
    /// Where to go for `at`, in the order to try.
    pub(crate) fn spots(
        &self,
        at: &Location,
        kind: RequestKind,
    ) -> Result<Vec<HostRepository>, Error> {
        let places = match self.side {
            Side::Source => self.conf.sources(at, kind)?,
            Side::Destination => vec![self.conf.destination(at)?],
        };
        Ok(places.into_iter().map(|place| self.spot(place)).collect())
    }

    /// Where `at` is written, whatever the side.
    pub(crate) fn target(&self, at: &Location) -> Result<HostRepository, Error> {
        Ok(self.spot(self.conf.destination(at)?))
    }

    fn spot(&self, place: PullSource) -> HostRepository {
        let verify = if self.tls_verify && !place.insecure { Verify::Yes } else { Verify::No };
        let name = place.at.registry.clone();
        let mut hosts = self.hosts.lock().unwrap_or_else(PoisonError::into_inner);
        let host = hosts
            .entry((name.clone(), verify))
            .or_insert_with(|| Arc::new(Host::new(name, verify, self.per_host)));
        HostRepository { host: Arc::clone(host), at: place.at }
    }

    /// Requests `at` from each location in turn, and from all of them again as the retry
    /// policy has it. `Ok(None)` is the word of the registry itself; a mirror
    /// that lacks something proves nothing about the next.
    pub(crate) async fn everywhere<T, F: Future<Output = Result<Option<T>, Error>>>(
        &self,
        at: &Location,
        kind: RequestKind,
        attempt: impl Fn(HostRepository) -> F,
    ) -> Result<Option<T>, Error> {
        self.retry.run(&self.transport.counters, || self.once(at, kind, &attempt)).await
    }

    /// One round of [`Session::everywhere`].
    pub(crate) async fn once<T, F: Future<Output = Result<Option<T>, Error>>>(
        &self,
        at: &Location,
        kind: RequestKind,
        attempt: impl Fn(HostRepository) -> F,
    ) -> Result<Option<T>, Error> {
        let mut spots = self.spots(at, kind)?;
        let Some(own) = spots.pop() else { return Ok(None) };
        let mut tried = match self.mirrors(at, spots, &attempt).await {
            Ok(value) => return Ok(Some(value)),
            Err(tried) => tried,
        };
        match attempt(own).await {
            Ok(response) => Ok(response),
            Err(error) if tried.is_empty() => Err(error),
            Err(error) => {
                tried.push(error);
                Err(Error::Everywhere { name: at.to_string(), tried })
            }
        }
    }

    /// [`Session::everywhere`] for what belongs to an image, such as its
    /// signatures, and is mostly not there at all. If a mirror responds so and
    /// the registry itself is out of reach, as from inside an enclave, the
    /// mirror's word is taken: the image comes from there too.
    pub(crate) async fn attached<T, F: Future<Output = Result<Option<T>, Error>>>(
        &self,
        at: &Location,
        attempt: impl Fn(HostRepository) -> F,
    ) -> Result<Option<T>, Error> {
        let once = || async {
            let mut spots = self.spots(at, RequestKind::Content)?;
            let Some(own) = spots.pop() else { return Ok(None) };
            let mut tried = match self.mirrors(at, spots, &attempt).await {
                Ok(value) => return Ok(Some(value)),
                Err(tried) => tried,
            };
            let lacking = tried.iter().any(|error| matches!(error, Error::Absent { .. }));
            let host = Arc::clone(&own.host);
            if lacking && host.rests().is_some() {
                return Ok(None);
            }
            match attempt(own).await {
                Ok(response) => Ok(response),
                Err(error) if lacking && error.is_unreachable() => {
                    let why = error.chain();
                    tracing::warn!(
                        "what the mirrors of {at} do not have is treated as absent: {why}"
                    );
                    host.rest(&why);
                    Ok(None)
                }
                Err(error) if tried.is_empty() => Err(error),
                Err(error) => {
                    tried.push(error);
                    Err(Error::Everywhere { name: at.to_string(), tried })
                }
            }
        };
        self.retry.run(&self.transport.counters, once).await
    }

    /// Sends the request to each mirror in turn. The error has the result of each.
    async fn mirrors<T, F: Future<Output = Result<Option<T>, Error>>>(
        &self,
        of: &Location,
        mirrors: Vec<HostRepository>,
        attempt: impl Fn(HostRepository) -> F,
    ) -> Result<T, Vec<Error>> {
        let mut tried = Vec::new();
        for mirror in mirrors {
            let (place, host) = (mirror.at.to_string(), Arc::clone(&mirror.host));
            if let Some(why) = host.rests() {
                tried.push(Error::Resting { place, why });
                continue;
            }
            match attempt(mirror).await {
                Ok(Some(value)) => return Ok(value),
                Ok(None) => tried.push(Error::Absent { place }),
                Err(error) => {
                    let why = error.chain();
                    tracing::warn!("a mirror of {of} fails, trying the next: {why}");
                    if error.is_unreachable() {
                        host.rest(&why);
                    }
                    tried.push(error);
                }
            }
        }
        Err(tried)
    }

    /// Sends a call and returns its response: anything but a refusal of access and
    /// what a retry may repair, which are errors.
    pub(crate) async fn send(
        &self,
        spot: &HostRepository,
        permit: &Permit,
        call: &Call,
    ) -> Result<Response, Error> {
        let attempt = |authorization: Option<HeaderValue>| {
            self.contact(&spot.host, &call.path, move |url| Outgoing {
                method: call.method.clone(),
                url,
                headers: call.headers.clone(),
                authorization: authorization.clone(),
                body: call.body.clone().map(reqwest::Body::from),
                verify: spot.host.verify,
                protocol: call.protocol,
            })
        };
        self.authorised(spot, permit, &call.scope, attempt).await
    }

    /// [`Session::send`] with a place in the queue of small requests.
    pub(crate) async fn send_small(
        &self,
        spot: &HostRepository,
        call: &Call,
    ) -> Result<Response, Error> {
        let permit = spot.host.throttle.enter(Lane::Small).await;
        self.send(spot, &permit, call).await
    }

    /// Runs `attempt` with the authorization that the registry requires; again, with
    /// a new one, if that was refused. Twice, as a short-lived token
    /// may expire while its request is in a long queue.
    pub(crate) async fn authorised<F: Future<Output = Result<Response, Error>>>(
        &self,
        spot: &HostRepository,
        permit: &Permit,
        scope: &Scope,
        attempt: impl Fn(Option<HeaderValue>) -> F,
    ) -> Result<Response, Error> {
        self.introduce(spot).await?;
        let mut pass = self.pass(spot, scope, None).await?;
        let mut shown = pass.as_ref().map(|pass| pass.header.clone());
        let mut response = attempt(shown.clone()).await?;
        for _ in 0..RENEWALS {
            if !is_stale(&response, spot, shown.is_some()) {
                break;
            }
            if let Some(challenge) = Challenge::pick(response.headers(WWW_AUTHENTICATE.as_str())) {
                spot.host.wants(challenge);
            }
            if shown.is_some() {
                self.credentials.forget();
            }
            pass = self.pass(spot, scope, shown.as_ref()).await?;
            let renewed = pass.as_ref().map(|pass| pass.header.clone());
            if renewed == shown {
                break;
            }
            shown = renewed;
            response = attempt(shown.clone()).await?;
        }
        self.settle(spot, permit, pass, response).await
    }

    /// Tells the throttle how it went, and turns refusals into errors.
    async fn settle(
        &self,
        spot: &HostRepository,
        permit: &Permit,
        pass: Option<Authorization>,
        response: Response,
    ) -> Result<Response, Error> {
        match response.status().as_u16() {
            401 | 403 => {
                let provenance = match pass {
                    Some(pass) => pass.provenance,
                    None => self.credentials.find(&spot.at).await?.provenance,
                };
                return Err(response.refusal().await.denied(provenance));
            }
            429 => permit.too_many(response.retry_after()),
            503 => {
                if let Some(wait) = response.retry_after() {
                    permit.stay_away(wait);
                }
            }
            408 | 500 | 502 | 504 => {}
            _ => {
                permit.succeeded();
                return Ok(response);
            }
        }
        Err(response.refusal().await.into())
    }

    /// Determines once which authentication a registry requires, if there are credentials for it.
    /// Without credentials no request is sent: the response to the first request contains it.
    async fn introduce(&self, spot: &HostRepository) -> Result<(), Error> {
        let introduce = || async {
            if self.credentials.find(&spot.at).await?.secret.is_none() {
                return Ok(());
            }
            let response = self.greet(spot).await?;
            let wanted = Challenge::pick(response.headers(WWW_AUTHENTICATE.as_str()));
            if let Some(challenge) =
                wanted.filter(|_| response.status() == StatusCode::UNAUTHORIZED)
            {
                spot.host.wants(challenge);
            }
            Ok(())
        };
        spot.host.introduced.get_or_try_init(introduce).await.copied()
    }

    /// The response of a registry to a request without credentials.
    pub(crate) async fn greet(&self, spot: &HostRepository) -> Result<Response, Error> {
        let hello = |url| Outgoing {
            method: Method::GET,
            url,
            headers: HeaderMap::new(),
            authorization: None,
            body: None,
            verify: spot.host.verify,
            protocol: Protocol::Any,
        };
        self.contact(&spot.host, "", hello).await
    }

    /// What to show for `scope`; never `refused`, unless there is nothing else.
    async fn pass(
        &self,
        spot: &HostRepository,
        scope: &Scope,
        refused: Option<&HeaderValue>,
    ) -> Result<Option<Authorization>, Error> {
        let Some(challenge) = spot.host.challenge() else { return Ok(None) };
        let slot = spot.host.slot(scope);
        let mut held = slot.lock().await;
        if let Some(pass) = &*held
            && pass.until > Instant::now()
            && refused != Some(&pass.header)
        {
            return Ok(Some(pass.clone()));
        }
        let Found { secret, provenance } = self.credentials.find(&spot.at).await?;
        let (header, use_for) = match (&challenge, &secret) {
            (_, Some(Secret::Bearer(token))) => (bearer(token), LOGIN_MEMORY),
            (Challenge::Basic, secret) => (secret.as_ref().and_then(basic), LOGIN_MEMORY),
            (Challenge::Bearer { realm, service }, secret) => {
                self.check_realm(spot, realm)?;
                let service = service.as_deref();
                let wanted = token::Wanted { realm, service, scope, secret: secret.as_ref() };
                match token::fetch(&self.transport, wanted, spot.host.verify).await? {
                    Ok(token) => (Some(token.header), token.use_for),
                    Err(refusal) if matches!(refusal.status.as_u16(), 400 | 401 | 403) => {
                        return Err(refusal.denied(provenance));
                    }
                    Err(refusal) => return Err(refusal.into()),
                }
            }
        };
        let until = Instant::now() + use_for;
        *held = header.map(|header| Authorization { header, provenance, until });
        Ok(held.clone())
    }

    /// Credentials and tokens travel encrypted, unless the registry itself
    /// does not know how to.
    fn check_realm(&self, spot: &HostRepository, realm: &Url) -> Result<(), Error> {
        if realm.scheme() == "https" || spot.host.scheme() == Some(Scheme::Http) {
            return Ok(());
        }
        let what = format!(
            "the registry {} requires tokens from this plain http address, which is not used",
            spot.host.name
        );
        Err(Error::Protocol { request_line: RequestLine::new(&Method::GET, realm), what })
    }

    /// Sends to a path of the registry. Where plain HTTP is allowed and nothing
    /// is known yet, TLS is tried first; what works is remembered.
    async fn contact(
        &self,
        host: &Host,
        path: &str,
        outgoing: impl Fn(Url) -> Outgoing,
    ) -> Result<Response, Error> {
        let outgoing = &outgoing;
        let exchange = |scheme| async move {
            let url = host.url(scheme, path).ok_or_else(|| Error::Address {
                host: host.name.to_string(),
                path: path.to_owned(),
            })?;
            self.transport.exchange(outgoing(url), Some(self.transport.timeouts.stall)).await
        };
        if let Some(scheme) = host.scheme() {
            return exchange(scheme).await;
        }
        let finding_out = host.finding_out.lock().await;
        if let Some(scheme) = host.scheme() {
            drop(finding_out);
            return exchange(scheme).await;
        }
        match exchange(Scheme::Https).await {
            Ok(response) => {
                host.speaks(Scheme::Https);
                Ok(response)
            }
            Err(error) if is_not_tls(&error) => {
                tracing::debug!("{} speaks plain HTTP", host.name);
                host.speaks(Scheme::Http);
                drop(finding_out);
                exchange(Scheme::Http).await
            }
            Err(error) if may_be_plain(&error) => {
                let Ok(response) = exchange(Scheme::Http).await else { return Err(error) };
                if response.url().scheme() == "http" {
                    host.speaks(Scheme::Http);
                }
                Ok(response)
            }
            Err(error) => Err(error),
        }
    }
}

/// Whether something fresh may be let in. Some registries respond with 403 to a
/// password that has expired; from others it means that none will do.
fn is_stale(response: &Response, spot: &HostRepository, shown: bool) -> bool {
    match response.status() {
        StatusCode::UNAUTHORIZED => true,
        StatusCode::FORBIDDEN => shown && spot.host.challenge() == Some(Challenge::Basic),
        _ => false,
    }
}

/// Something responded, and not in TLS.
fn is_not_tls(error: &Error) -> bool {
    matches!(error, Error::Transport { fault: Fault::NotTls, .. })
}

/// Nothing is known: other ports, or a server that disconnects on what it does
/// not understand.
fn may_be_plain(error: &Error) -> bool {
    error.is_unreachable()
        || matches!(error, Error::Transport { fault: Fault::Handshake | Fault::Cut, .. })
}
