//! Under which terms of TLS numbers are served.

use anyhow::{Context as _, Result};
use clap::Args;
use nmstate_deployment::tls::{CipherSuite, Group, TlsSettings, TlsVersion};
use rustls::SupportedCipherSuite;
use rustls::crypto::aws_lc_rs::{self, cipher_suite, kx_group};
use rustls::crypto::{CryptoProvider, SupportedKxGroup};
use rustls::version::{TLS12, TLS13};
use tls_server::Offer;

/// Terms that the operator passes on to those it deploys.
#[derive(Debug, Clone, Args)]
pub(crate) struct Terms {
    /// Oldest version of TLS for metrics: VersionTLS12 or VersionTLS13
    #[arg(long = "tls-min-version", value_name = "VERSION", default_value_t = TlsVersion::Tls12)]
    minimum: TlsVersion,
    /// Cipher suites of TLS 1.2 for metrics, by their IANA names, separated by commas [default: all secure ones]
    #[arg(long = "tls-cipher-suites", value_name = "LIST", value_delimiter = ',')]
    suites: Vec<CipherSuite>,
    /// Key exchange groups of TLS for metrics, in order of preference, separated by commas [default: all supported ones]
    #[arg(long = "tls-groups", value_name = "LIST", value_delimiter = ',')]
    groups: Vec<Group>,
}

impl Terms {
    pub(crate) fn settings(&self) -> Result<TlsSettings> {
        let usual = TlsSettings::default();
        let or = |given: &[CipherSuite]| {
            if given.is_empty() { usual.suites().to_vec() } else { given.to_vec() }
        };
        let groups = if self.groups.is_empty() { usual.groups() } else { &self.groups };
        TlsSettings::new(self.minimum, or(&self.suites), groups.iter().copied())
            .context("reading --tls-groups")
    }
}

/// What clients are offered.
pub(super) fn offer(settings: &TlsSettings) -> Offer {
    let versions = match settings.minimum() {
        TlsVersion::Tls12 => vec![&TLS13, &TLS12],
        TlsVersion::Tls13 => vec![&TLS13],
    };
    Offer { provider: provider(settings), versions }
}

fn provider(settings: &TlsSettings) -> CryptoProvider {
    let all = aws_lc_rs::default_provider();
    let tls13 = all.cipher_suites.iter().copied().filter(|suite| suite.tls13().is_some());
    CryptoProvider {
        cipher_suites: tls13.chain(settings.suites().iter().map(|it| suite(*it))).collect(),
        kx_groups: settings.groups().iter().map(|it| group(*it)).collect(),
        ..all
    }
}

fn suite(suite: CipherSuite) -> SupportedCipherSuite {
    use cipher_suite as known;
    match suite {
        CipherSuite::EcdheEcdsaAes128GcmSha256 => known::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
        CipherSuite::EcdheRsaAes128GcmSha256 => known::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
        CipherSuite::EcdheEcdsaAes256GcmSha384 => known::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
        CipherSuite::EcdheRsaAes256GcmSha384 => known::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
        CipherSuite::EcdheEcdsaChacha20Poly1305 => {
            known::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256
        }
        CipherSuite::EcdheRsaChacha20Poly1305 => known::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
    }
}

fn group(group: Group) -> &'static dyn SupportedKxGroup {
    match group {
        Group::X25519Mlkem768 => kx_group::X25519MLKEM768,
        Group::X25519 => kx_group::X25519,
        Group::Secp256r1 => kx_group::SECP256R1,
        Group::Secp384r1 => kx_group::SECP384R1,
        Group::Secp256r1Mlkem768 => kx_group::SECP256R1MLKEM768,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_tls_library() {
        for name in CipherSuite::ALL {
            assert_eq!(format!("{:?}", suite(name).suite()), name.name());
        }
        for name in Group::ALL {
            let theirs = format!("{:?}", group(name).name());
            assert!(theirs.eq_ignore_ascii_case(name.name()), "{theirs} {name}");
        }
    }

    #[test]
    fn only_what_was_chosen_is_offered() {
        let only = CipherSuite::EcdheRsaAes256GcmSha384;
        let chosen = TlsSettings::new(TlsVersion::Tls12, [only], [Group::Secp384r1]).unwrap();
        let offered = provider(&chosen);
        let names: Vec<String> =
            offered.cipher_suites.iter().map(|suite| format!("{:?}", suite.suite())).collect();
        let old: Vec<&String> = names.iter().filter(|name| name.starts_with("TLS_")).collect();
        assert_eq!(old, ["TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384"]);
        // Those of TLS 1.3 are there whatever is chosen.
        assert_eq!(names.len(), 4);
        assert_eq!(offered.kx_groups.len(), 1);
    }
}
