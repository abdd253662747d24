//! The cluster's TLS security profile: the settings of the APIServer `cluster`, as far as we can
//! honour them.
//!
//! Settings that are older or weaker than anything we support are left out, as the API allows. A
//! setting whose absence would prevent connections that clients expect is reported.

use nmstate_api::condition::{Condition, ConditionStatus};
use nmstate_api::{NMStateConditionType, NMStateReason};
use serde_json::Value;

use crate::tls::{CipherSuite, Group, TlsSettings, TlsVersion};

/// The settings that result from the profile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsProfile {
    /// The settings in use. Without them, metrics are not served: they are never served with
    /// settings that the profile does not allow.
    pub settings: Option<TlsSettings>,
    /// What cannot be honoured, as text.
    pub not_honoured: Option<String>,
}

/// The profile of a cluster without a setting: Intermediate.
impl Default for TlsProfile {
    fn default() -> Self {
        Self::full(TlsSettings::default())
    }
}

impl TlsProfile {
    /// The profile in an APIServer.
    pub fn of(api_server: &Value) -> Self {
        let profile = &api_server["spec"]["tlsSecurityProfile"];
        let custom = &profile["custom"];
        match profile["type"].as_str() {
            // We support none of the versions and suites that Old has in addition to Intermediate.
            None | Some("" | "Intermediate" | "Old") => Self::default(),
            Some("Modern") => Self::full(TlsSettings::default().without_tls12()),
            // The API server itself then uses the default.
            Some("Custom") if !custom.is_object() => Self::default(),
            Some("Custom") => Self::custom(custom),
            Some(other) => {
                Self::nothing(&format!("The TLS profile {} is not known here", quoted(other)))
            }
        }
    }

    /// Conditions of an `NMState`, with the message about this profile. Handlers do not depend on
    /// metrics: no other condition is affected.
    pub(crate) fn noted(&self, conditions: Vec<Condition>) -> Vec<Condition> {
        let degraded: &str = NMStateConditionType::Degraded.into();
        let note = |held: Condition| match &self.not_honoured {
            Some(message) if held.type_ == degraded => {
                Condition::new(NMStateConditionType::Degraded, ConditionStatus::True)
                    .reason(NMStateReason::TlsProfileNotFullyHonored)
                    .message(message)
            }
            _ => held,
        };
        conditions.into_iter().map(note).collect()
    }

    fn full(settings: TlsSettings) -> Self {
        Self { settings: Some(settings), not_honoured: None }
    }

    fn nothing(why: &str) -> Self {
        Self { settings: None, not_honoured: Some(format!("{why}; no metrics are served")) }
    }

    fn custom(custom: &Value) -> Self {
        let minimum = match custom["minTLSVersion"].as_str() {
            None | Some("" | "VersionTLS10" | "VersionTLS11" | "VersionTLS12") => TlsVersion::Tls12,
            Some("VersionTLS13") => TlsVersion::Tls13,
            Some(other) => {
                return Self::nothing(&format!(
                    "minTLSVersion {} of the custom TLS profile is not known here",
                    quoted(other)
                ));
            }
        };
        let named = texts(&custom["ciphers"]);
        let suites: Vec<CipherSuite> = named.iter().filter_map(|name| suite(name)).collect();
        let groups: Vec<Group> = match custom.get("groups").filter(|value| !value.is_null()) {
            None => Group::PREDEFINED.into(),
            Some(list) => texts(list).iter().filter_map(|name| name.parse().ok()).collect(),
        };
        let Ok(settings) = TlsSettings::new(minimum, suites, groups) else {
            let known = Group::ALL.map(Group::name).join(", ");
            return Self::nothing(&format!(
                "None of the groups of the custom TLS profile can be offered; {known} could be"
            ));
        };
        // Names of TLS 1.3 are ignored: that version always has all of its suites.
        let for_tls12 = named
            .iter()
            .any(|name| !name.starts_with("TLS_AES_") && !name.starts_with("TLS_CHACHA20_"));
        let lost = minimum == TlsVersion::Tls12 && for_tls12 && settings.suites().is_empty();
        let not_honoured = lost.then(|| {
            let known = CipherSuite::ALL.map(CipherSuite::openssl_name).join(", ");
            format!("None of the ciphers that the custom TLS profile names for TLS 1.2 can be offered, so metrics need TLS 1.3; {known} could be")
        });
        Self { settings: Some(settings), not_honoured }
    }
}

/// Profiles use OpenSSL's names of suites; users also write the names registered by IANA.
fn suite(name: &str) -> Option<CipherSuite> {
    CipherSuite::ALL.into_iter().find(|suite| suite.openssl_name() == name || suite.name() == name)
}

fn texts(list: &Value) -> Vec<&str> {
    list.as_array().map(|list| list.iter().filter_map(Value::as_str).collect()).unwrap_or_default()
}

/// Text of others, bounded.
fn quoted(text: &str) -> String {
    format!("{:?}", text.chars().take(40).collect::<String>())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn of(profile: &Value) -> TlsProfile {
        TlsProfile::of(&json!({ "spec": { "tlsSecurityProfile": profile } }))
    }

    fn custom(minimum: &str, ciphers: &[&str]) -> TlsProfile {
        of(&json!({ "type": "Custom", "custom": { "minTLSVersion": minimum, "ciphers": ciphers } }))
    }

    fn offered(profile: &TlsProfile) -> (TlsVersion, Vec<&'static str>) {
        let settings = profile.settings.as_ref().unwrap();
        let suites = settings.suites().iter().map(|suite| suite.openssl_name());
        (settings.minimum(), suites.collect())
    }

    /// What OpenShift's predefined profiles name for TLS 1.2, without what needs DHE, RSA key
    /// exchange or CBC.
    const INTERMEDIATE: [&str; 6] = [
        "ECDHE-ECDSA-AES128-GCM-SHA256",
        "ECDHE-RSA-AES128-GCM-SHA256",
        "ECDHE-ECDSA-AES256-GCM-SHA384",
        "ECDHE-RSA-AES256-GCM-SHA384",
        "ECDHE-ECDSA-CHACHA20-POLY1305",
        "ECDHE-RSA-CHACHA20-POLY1305",
    ];

    #[test]
    fn predefined_profiles_are_reduced_to_what_is_supported() {
        let twelve = (TlsVersion::Tls12, INTERMEDIATE.to_vec());
        for (profile, expected) in [
            (Value::Null, twelve.clone()),
            (json!({ "type": "" }), twelve.clone()),
            (json!({ "type": "Intermediate", "intermediate": {} }), twelve.clone()),
            (json!({ "type": "Old", "old": {} }), twelve.clone()),
            (json!({ "type": "Custom", "custom": null }), twelve),
            (json!({ "type": "Modern", "modern": {} }), (TlsVersion::Tls13, vec![])),
        ] {
            let seen = of(&profile);
            assert_eq!(offered(&seen), expected, "{profile}");
            assert_eq!(seen.not_honoured, None, "{profile}");
            let groups = seen.settings.unwrap().groups().to_vec();
            assert_eq!(
                groups.iter().map(|group| group.name()).collect::<Vec<_>>(),
                ["X25519MLKEM768", "X25519", "secp256r1", "secp384r1"]
            );
        }
        assert_eq!(TlsProfile::of(&Value::Null), TlsProfile::default());
    }

    #[test]
    fn a_custom_profile_is_reduced_to_what_is_supported() {
        // The example of the API documentation.
        let example = custom(
            "VersionTLS11",
            &[
                "ECDHE-ECDSA-CHACHA20-POLY1305",
                "ECDHE-RSA-CHACHA20-POLY1305",
                "ECDHE-RSA-AES128-GCM-SHA256",
                "ECDHE-ECDSA-AES128-GCM-SHA256",
            ],
        );
        let expected = vec![
            "ECDHE-ECDSA-CHACHA20-POLY1305",
            "ECDHE-RSA-CHACHA20-POLY1305",
            "ECDHE-RSA-AES128-GCM-SHA256",
            "ECDHE-ECDSA-AES128-GCM-SHA256",
        ];
        assert_eq!(offered(&example), (TlsVersion::Tls12, expected));
        assert_eq!(example.not_honoured, None);

        let mixed = custom(
            "VersionTLS12",
            &["AES128-SHA", "ECDHE-RSA-AES256-GCM-SHA384", "DHE-RSA-AES128-GCM-SHA256"],
        );
        assert_eq!(offered(&mixed), (TlsVersion::Tls12, vec!["ECDHE-RSA-AES256-GCM-SHA384"]));
        assert_eq!(mixed.not_honoured, None);

        let registered = custom("VersionTLS12", &["TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"]);
        assert_eq!(offered(&registered).1, ["ECDHE-RSA-AES128-GCM-SHA256"]);
    }

    #[test]
    fn clients_that_lose_a_version_of_the_profile_are_reported() {
        let lost = custom("VersionTLS12", &["AES128-SHA", "DES-CBC3-SHA"]);
        assert_eq!(offered(&lost), (TlsVersion::Tls13, vec![]));
        assert!(lost.not_honoured.unwrap().contains("metrics need TLS 1.3"));
        // A profile without suites for TLS 1.2, or without TLS 1.2, is honoured completely.
        assert_eq!(custom("VersionTLS12", &["TLS_AES_128_GCM_SHA256"]).not_honoured, None);
        assert_eq!(custom("VersionTLS13", &["AES128-SHA"]).not_honoured, None);
    }

    #[test]
    fn groups_are_kept_in_their_order_and_without_any_nothing_is_served() {
        let groups = |names: &[&str]| {
            of(&json!({ "type": "Custom", "custom": {
                "minTLSVersion": "VersionTLS13", "ciphers": [], "groups": names,
            }}))
        };
        let some = groups(&["secp521r1", "secp384r1", "X25519"]);
        let kept = some.settings.unwrap();
        assert_eq!(kept.groups(), [Group::Secp384r1, Group::X25519]);
        assert_eq!(some.not_honoured, None);
        let none = groups(&["secp521r1", "SecP384r1MLKEM1024"]);
        assert_eq!(none.settings, None);
        assert!(none.not_honoured.unwrap().contains("no metrics are served"));
    }

    #[test]
    fn what_is_not_understood_is_not_taken_for_something_else() {
        for profile in [
            json!({ "type": "Future" }),
            json!({ "type": "Custom", "custom": { "minTLSVersion": "VersionTLS14", "ciphers": [] } }),
        ] {
            let seen = of(&profile);
            assert_eq!(seen.settings, None, "{profile}");
            assert!(seen.not_honoured.unwrap().contains("is not known here"), "{profile}");
        }
    }
}
