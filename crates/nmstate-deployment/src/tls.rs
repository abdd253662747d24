//! The TLS settings of our metrics ports: versions, cipher suites and groups, under the names that
//! clusters use.

use std::fmt;
use std::str::FromStr;

/// A version of TLS that we support. There is no older one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum TlsVersion {
    Tls12,
    Tls13,
}

/// A cipher suite of TLS 1.2 that we support. Those of TLS 1.3 cannot be configured: that version
/// always has all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum CipherSuite {
    EcdheEcdsaAes128GcmSha256,
    EcdheRsaAes128GcmSha256,
    EcdheEcdsaAes256GcmSha384,
    EcdheRsaAes256GcmSha384,
    EcdheEcdsaChacha20Poly1305,
    EcdheRsaChacha20Poly1305,
}

/// A key exchange group that we support.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Group {
    X25519Mlkem768,
    X25519,
    Secp256r1,
    Secp384r1,
    Secp256r1Mlkem768,
}

/// A name that we do not support.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not supported; supported are {}", known.join(", "))]
pub struct UnknownName {
    text: String,
    known: Vec<&'static str>,
}

impl TlsVersion {
    pub const ALL: [Self; 2] = [Self::Tls12, Self::Tls13];

    pub const fn name(self) -> &'static str {
        match self {
            Self::Tls12 => "VersionTLS12",
            Self::Tls13 => "VersionTLS13",
        }
    }
}

impl CipherSuite {
    pub const ALL: [Self; 6] = [
        Self::EcdheEcdsaAes128GcmSha256,
        Self::EcdheRsaAes128GcmSha256,
        Self::EcdheEcdsaAes256GcmSha384,
        Self::EcdheRsaAes256GcmSha384,
        Self::EcdheEcdsaChacha20Poly1305,
        Self::EcdheRsaChacha20Poly1305,
    ];

    /// As registered by IANA, and as used in flags of Kubernetes' own programs.
    pub const fn name(self) -> &'static str {
        match self {
            Self::EcdheEcdsaAes128GcmSha256 => "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
            Self::EcdheRsaAes128GcmSha256 => "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
            Self::EcdheEcdsaAes256GcmSha384 => "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
            Self::EcdheRsaAes256GcmSha384 => "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
            Self::EcdheEcdsaChacha20Poly1305 => "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
            Self::EcdheRsaChacha20Poly1305 => "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
        }
    }

    /// As used by OpenSSL, and by the cluster's TLS security profile.
    pub(crate) const fn openssl_name(self) -> &'static str {
        match self {
            Self::EcdheEcdsaAes128GcmSha256 => "ECDHE-ECDSA-AES128-GCM-SHA256",
            Self::EcdheRsaAes128GcmSha256 => "ECDHE-RSA-AES128-GCM-SHA256",
            Self::EcdheEcdsaAes256GcmSha384 => "ECDHE-ECDSA-AES256-GCM-SHA384",
            Self::EcdheRsaAes256GcmSha384 => "ECDHE-RSA-AES256-GCM-SHA384",
            Self::EcdheEcdsaChacha20Poly1305 => "ECDHE-ECDSA-CHACHA20-POLY1305",
            Self::EcdheRsaChacha20Poly1305 => "ECDHE-RSA-CHACHA20-POLY1305",
        }
    }
}

impl Group {
    /// In the order of the predefined profiles, which name the first four.
    pub const ALL: [Self; 5] = [
        Self::X25519Mlkem768,
        Self::X25519,
        Self::Secp256r1,
        Self::Secp384r1,
        Self::Secp256r1Mlkem768,
    ];
    pub(crate) const PREDEFINED: [Self; 4] =
        [Self::X25519Mlkem768, Self::X25519, Self::Secp256r1, Self::Secp384r1];

    pub const fn name(self) -> &'static str {
        match self {
            Self::X25519Mlkem768 => "X25519MLKEM768",
            Self::X25519 => "X25519",
            Self::Secp256r1 => "secp256r1",
            Self::Secp384r1 => "secp384r1",
            Self::Secp256r1Mlkem768 => "SecP256r1MLKEM768",
        }
    }
}

macro_rules! by_name {
    ($type:ty) => {
        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.name())
            }
        }

        impl FromStr for $type {
            type Err = UnknownName;

            fn from_str(text: &str) -> Result<Self, UnknownName> {
                Self::ALL.into_iter().find(|it| it.name() == text).ok_or_else(|| UnknownName {
                    text: text.chars().take(80).collect(),
                    known: Self::ALL.map(Self::name).into(),
                })
            }
        }
    };
}
by_name!(TlsVersion);
by_name!(CipherSuite);
by_name!(Group);

/// The settings in use. They are never empty: without a suite of TLS 1.2 it is TLS 1.3 alone, and
/// there is at least one group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsSettings {
    suites: Vec<CipherSuite>,
    groups: Vec<Group>,
}

/// No group is left to exchange keys with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("TLS needs at least one group to exchange keys with")]
pub struct NoGroup;

impl TlsSettings {
    /// TLS 1.2 is enabled if `minimum` allows it and there is a suite for it. Duplicate names count
    /// once; the order is kept.
    pub fn new(
        minimum: TlsVersion,
        suites: impl IntoIterator<Item = CipherSuite>,
        groups: impl IntoIterator<Item = Group>,
    ) -> Result<Self, NoGroup> {
        let groups = distinct(groups);
        if groups.is_empty() {
            return Err(NoGroup);
        }
        let suites = match minimum {
            TlsVersion::Tls12 => distinct(suites),
            TlsVersion::Tls13 => Vec::new(),
        };
        Ok(Self { suites, groups })
    }

    pub(crate) fn without_tls12(self) -> Self {
        Self { suites: Vec::new(), ..self }
    }

    pub fn minimum(&self) -> TlsVersion {
        if self.suites.is_empty() { TlsVersion::Tls13 } else { TlsVersion::Tls12 }
    }

    /// Those of TLS 1.2.
    pub fn suites(&self) -> &[CipherSuite] {
        &self.suites
    }

    /// In the order of preference.
    pub fn groups(&self) -> &[Group] {
        &self.groups
    }

    /// As flags of our programs.
    pub fn flags(&self) -> Vec<String> {
        let list = |names: Vec<&str>| names.join(",");
        let mut flags = vec![format!("--tls-min-version={}", self.minimum())];
        if !self.suites.is_empty() {
            let names = self.suites.iter().map(|suite| suite.name()).collect();
            flags.push(format!("--tls-cipher-suites={}", list(names)));
        }
        let names = self.groups.iter().map(|group| group.name()).collect();
        flags.push(format!("--tls-groups={}", list(names)));
        flags
    }
}

/// Everything we support that the profile Intermediate allows, which is the default of clusters.
impl Default for TlsSettings {
    fn default() -> Self {
        Self { suites: CipherSuite::ALL.into(), groups: Group::PREDEFINED.into() }
    }
}

fn distinct<T: PartialEq>(all: impl IntoIterator<Item = T>) -> Vec<T> {
    let mut kept = Vec::new();
    for item in all {
        if !kept.contains(&item) {
            kept.push(item);
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_parsed_and_an_unknown_one_lists_the_known_ones() {
        for suite in CipherSuite::ALL {
            assert_eq!(suite.name().parse(), Ok(suite));
        }
        for group in Group::ALL {
            assert_eq!(group.name().parse(), Ok(group));
        }
        assert_eq!("VersionTLS13".parse(), Ok(TlsVersion::Tls13));
        let error = "VersionTLS11".parse::<TlsVersion>().unwrap_err().to_string();
        assert_eq!(
            error,
            "\"VersionTLS11\" is not supported; supported are VersionTLS12, VersionTLS13"
        );
    }

    #[test]
    fn without_a_suite_for_it_tls_1_2_is_not_spoken() {
        let suite = CipherSuite::EcdheRsaAes128GcmSha256;
        let minimum = |minimum, suites: &[CipherSuite]| {
            TlsSettings::new(minimum, suites.iter().copied(), Group::ALL).unwrap().minimum()
        };
        assert_eq!(minimum(TlsVersion::Tls12, &[suite]), TlsVersion::Tls12);
        assert_eq!(minimum(TlsVersion::Tls12, &[]), TlsVersion::Tls13);
        assert_eq!(minimum(TlsVersion::Tls13, &[suite]), TlsVersion::Tls13);
        assert_eq!(TlsSettings::new(TlsVersion::Tls12, [suite], []), Err(NoGroup));
    }

    #[test]
    fn flags_name_what_is_spoken_in_the_order_of_preference() {
        let suites = [
            CipherSuite::EcdheRsaAes256GcmSha384,
            CipherSuite::EcdheEcdsaAes128GcmSha256,
            CipherSuite::EcdheRsaAes256GcmSha384,
        ];
        let settings =
            TlsSettings::new(TlsVersion::Tls12, suites, [Group::Secp384r1, Group::X25519]).unwrap();
        assert_eq!(
            settings.flags(),
            [
                "--tls-min-version=VersionTLS12",
                "--tls-cipher-suites=TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
                "--tls-groups=secp384r1,X25519",
            ]
        );
        let modern = TlsSettings::new(TlsVersion::Tls13, [], [Group::X25519]).unwrap();
        assert_eq!(modern.flags(), ["--tls-min-version=VersionTLS13", "--tls-groups=X25519"]);
    }
}
