//! Which hosts are reached through a proxy: `HTTP_PROXY`, `HTTPS_PROXY` and
//! `NO_PROXY`, read as the programs of this field read them.

use std::sync::Arc;

use http::Uri;
use hyper_util::client::proxy::matcher::Matcher;
use url::Url;

use crate::environment::Environment;

#[derive(Debug, thiserror::Error)]
pub enum ProxyError {
    #[error("the {variable} of the environment is not the address of a proxy")]
    Address {
        variable: &'static str,
        #[source]
        source: reqwest::Error,
    },
    #[error(
        "the {variable} of the environment is not the address of a proxy: its scheme may be http or https"
    )]
    Scheme { variable: &'static str },
}

/// Never requested through a proxy: it would connect to its own machine.
const LOOPBACK: [&str; 3] = ["localhost", "127.0.0.0/8", "::1"];

/// No `Debug`: the addresses may hold passwords.
pub(crate) struct Proxies {
    proxies: Vec<reqwest::Proxy>,
    http: Option<String>,
    https: Option<String>,
    except: Vec<String>,
}

impl Proxies {
    pub(crate) fn new(environment: &Environment) -> Result<Self, ProxyError> {
        type Make = fn(String) -> reqwest::Result<reqwest::Proxy>;
        let wanted: [(&'static str, &Option<String>, Make); 2] = [
            ("HTTP_PROXY", &environment.http_proxy, reqwest::Proxy::http),
            ("HTTPS_PROXY", &environment.https_proxy, reqwest::Proxy::https),
        ];
        let mut proxies = Vec::new();
        for (variable, value, make) in wanted {
            let Some(value) = value else { continue };
            if let Some((scheme, _)) = value.split_once("://")
                && !matches!(scheme, "http" | "https")
            {
                return Err(ProxyError::Scheme { variable });
            }
            let proxy = make(value.clone())
                .map_err(|error| ProxyError::Address { variable, source: error.without_url() })?;
            proxies.push(proxy);
        }
        let except = environment.no_proxy.iter().flat_map(|list| list.split(','));
        let except = except.map(|entry| entry.trim().to_owned()).collect();
        let (http, https) = (environment.http_proxy.clone(), environment.https_proxy.clone());
        Ok(Self { proxies, http, https, except })
    }

    /// The proxy for `url`, as errors name it: address without credentials, and the
    /// variable it comes from.
    pub(crate) fn named(&self, url: &Url) -> Option<Arc<str>> {
        let used = self.used(url)?;
        let variable = if url.scheme() == "https" { "HTTPS_PROXY" } else { "HTTP_PROXY" };
        let (scheme, host) = (used.scheme_str().unwrap_or("http"), used.host()?);
        let port = used.port_u16().map(|port| format!(":{port}")).unwrap_or_default();
        Some(format!("{scheme}://{host}{port} ({variable})").into())
    }

    /// Host and port of the proxy for `url`.
    pub(crate) fn address(&self, url: &Url) -> Option<(String, u16)> {
        let used = self.used(url)?;
        let usual = if used.scheme_str() == Some("https") { 443 } else { 80 };
        let host = used.host()?.trim_matches(['[', ']']).to_owned();
        Some((host, used.port_u16().unwrap_or(usual)))
    }

    fn used(&self, url: &Url) -> Option<Uri> {
        if self.proxies.is_empty() || self.except.iter().any(|entry| entry == "*") {
            return None;
        }
        let matcher = Matcher::builder()
            .http(self.http.clone().unwrap_or_default())
            .https(self.https.clone().unwrap_or_default())
            .no(exceptions(&self.except, url.port()))
            .build();
        Some(matcher.intercept(&url.as_str().parse().ok()?)?.uri().clone())
    }

    /// The proxies for one host, each with the exceptions that concern it.
    pub(crate) fn toward(&self, port: Option<u16>) -> impl Iterator<Item = reqwest::Proxy> {
        let direct = self.except.iter().any(|entry| entry == "*");
        let except = exceptions(&self.except, port);
        let proxies = if direct { &[][..] } else { &self.proxies };
        proxies
            .iter()
            .map(move |proxy| proxy.clone().no_proxy(reqwest::NoProxy::from_string(&except)))
    }
}

/// The list in the form the HTTP library reads, which knows neither ports nor
/// `*.domain`. `port` is the host's own, if it is not the usual one.
fn exceptions(entries: &[String], port: Option<u16>) -> String {
    let fitting = entries.iter().filter_map(|entry| {
        let entry = entry.strip_prefix('*').unwrap_or(entry);
        match entry.rsplit_once(':') {
            // An IPv6 address has more than one colon.
            Some((host, digits)) if !host.contains(':') || host.ends_with(']') => {
                let usual = matches!(digits, "80" | "443");
                let fits = port.map_or(usual, |port| digits == port.to_string());
                fits.then_some(host.trim_matches(['[', ']']))
            }
            _ => Some(entry.trim_matches(['[', ']'])),
        }
    });
    fitting.chain(LOOPBACK).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bad_proxy_is_an_error_not_a_direct_connection() {
        let with = |value: &str| {
            let https_proxy = Some(value.to_owned());
            Proxies::new(&Environment { https_proxy, ..Environment::default() })
        };
        for good in ["http://proxy.lan:3128", "proxy.lan:3128", "http://me:secret@proxy.lan:3128"] {
            assert!(with(good).is_ok(), "{good}");
        }
        for bad in ["http://", "socks5://proxy:1080", "http://proxy:port", "::"] {
            let Err(error) = with(bad) else { panic!("{bad} was taken") };
            assert!(error.to_string().contains("HTTPS_PROXY"), "{bad}: {error}");
        }
    }

    #[test]
    fn a_proxy_is_named_without_its_credentials_and_only_where_it_is_used() {
        let environment = Environment {
            https_proxy: Some("http://me:secret@proxy.lan:3128".into()),
            no_proxy: Some("inside.lan, 10.0.0.0/8".into()),
            ..Environment::default()
        };
        let Ok(proxies) = Proxies::new(&environment) else { panic!() };
        let named = |url: &str| proxies.named(&Url::parse(url).unwrap());
        let expected = Some("http://proxy.lan:3128 (HTTPS_PROXY)");
        assert_eq!(named("https://quay.io/v2/").as_deref(), expected);
        let address = |url: &str| proxies.address(&Url::parse(url).unwrap());
        assert_eq!(address("https://quay.io/v2/"), Some(("proxy.lan".to_owned(), 3128)));
        assert_eq!(address("https://x.inside.lan/"), None);
        for direct in ["http://quay.io/", "https://x.inside.lan/", "https://10.1.1.1:5000/"] {
            assert_eq!(named(direct), None, "{direct}");
        }
    }

    #[test]
    fn exceptions_hold_for_the_port_they_name() {
        let own = |entries: &[&str], port| {
            let entries: Vec<String> = entries.iter().map(|entry| (*entry).to_owned()).collect();
            let all = exceptions(&entries, port);
            all.strip_suffix("localhost,127.0.0.0/8,::1").unwrap().trim_end_matches(',').to_owned()
        };
        for (entries, port, wanted) in [
            (&["a.lan", "*.b.lan", ".c.lan"][..], None, "a.lan,.b.lan,.c.lan"),
            (&["a.lan:5000"], Some(5000), "a.lan"),
            (&["a.lan:5000"], Some(5001), ""),
            (&["a.lan:443"], None, "a.lan"),
            (&["a.lan:5000"], None, ""),
            (
                &["10.0.0.0/8", "fe80::1", "[fe80::2]:5000"],
                Some(5000),
                "10.0.0.0/8,fe80::1,fe80::2",
            ),
            (&[], None, ""),
        ] {
            assert_eq!(own(entries, port), wanted, "{entries:?} {port:?}");
        }
    }

    #[test]
    fn a_star_means_no_proxy_at_all() {
        let environment = Environment {
            http_proxy: Some("http://proxy.lan".into()),
            no_proxy: Some("a.lan, *".into()),
            ..Environment::default()
        };
        let Ok(proxies) = Proxies::new(&environment) else { panic!() };
        assert_eq!(proxies.toward(None).count(), 0);
    }
}
