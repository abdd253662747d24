//! Passwords and keys in a desired state. nmstate's messages about a change may quote the state;
//! logs and conditions must not contain them.

use std::collections::BTreeSet;

use nmstate_api::NetworkDocument;
use serde_json::Value;

/// Keys of nmstate's language whose values are secret.
const KEYS: [&str; 4] = ["password", "private-key-password", "psk", "mka-cak"];
const HIDDEN: &str = "<hidden>";

/// Texts that must not be reported.
#[derive(Clone, Default)]
pub struct Secrets(BTreeSet<String>);

impl Secrets {
    /// All secrets in a document, which need not be one that nmstate understands.
    pub fn of(document: &NetworkDocument) -> Self {
        let mut found = Self::default();
        document.0.iter().for_each(|(key, value)| found.take(key, value));
        found
    }

    fn take(&mut self, key: &str, value: &Value) {
        match value {
            Value::Object(map) => map.iter().for_each(|(key, value)| self.take(key, value)),
            Value::Array(list) => list.iter().for_each(|value| self.take(key, value)),
            Value::String(text) if KEYS.contains(&key) && !text.is_empty() => {
                self.0.insert(text.clone());
            }
            // A password of digits, which YAML parses as a number.
            Value::Number(number) if KEYS.contains(&key) => drop(self.0.insert(number.to_string())),
            _ => {}
        }
    }

    /// The text without them.
    pub fn hide(&self, text: String) -> String {
        // Longer ones first: a secret may be a part of another.
        let mut secrets: Vec<&String> = self.0.iter().collect();
        secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
        secrets.into_iter().fold(text, |text, secret| text.replace(secret.as_str(), HIDDEN))
    }
}

impl std::fmt::Debug for Secrets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Secrets({})", self.0.len())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn secrets(document: Value) -> Secrets {
        Secrets::of(&serde_json::from_value(document).unwrap())
    }

    #[test]
    fn passwords_and_keys_are_found_wherever_they_are() {
        let found = secrets(json!({"interfaces": [
            {"name": "eth1", "802.1x": {"identity": "me", "private-key-password": "hunter2"}},
            {"name": "eth2", "802.1x": {"password": "hunter22"}},
            {"name": "ipsec", "libreswan": {"psk": 12345}},
            {"name": "macsec", "macsec": {"mka-cak": "50b71a8ef0bd5751ea76de6d6c98c03a"}},
        ]}));
        let text = found.hide(
            "desire 'hunter2', current 'hunter22'; 12345; 50b71a8ef0bd5751ea76de6d6c98c03a of me"
                .to_owned(),
        );
        assert_eq!(text, "desire '<hidden>', current '<hidden>'; <hidden>; <hidden> of me");
        assert_eq!(format!("{found:?}"), "Secrets(4)");
    }

    #[test]
    fn text_without_secrets_is_as_it_was() {
        let found = secrets(json!({"interfaces": [{"name": "eth1", "802.1x": {"password": ""}}]}));
        assert_eq!(found.hide("eth1 is down".to_owned()), "eth1 is down");
    }

    /// nmstate hides these and no others, so no key of ours is missing or misspelt.
    #[test]
    fn the_keys_are_those_that_nmstate_hides() {
        let yaml = "interfaces:
- {name: eth1, type: ethernet, state: up, 802.1x: {identity: me, eap-methods: [tls], password: s1, private-key-password: s2}}
- {name: ipsec, type: ipsec, libreswan: {right: 192.0.2.1, psk: s3}}
- {name: macsec0, type: macsec, state: up, macsec: {encrypt: true, base-iface: eth1, mka-cak: s4, mka-ckn: c, port: 0, validation: strict, send-sci: true}}
";
        let mut state = nmstate::NetworkState::new_from_yaml(yaml).unwrap();
        let plain = serde_json::to_value(&state).unwrap();
        state.hide_secrets();
        let hidden = serde_json::to_string(&state).unwrap();
        let found = secrets(plain);
        assert_eq!(found.0, ["s1", "s2", "s3", "s4"].map(str::to_owned).into());
        assert!(found.0.iter().all(|secret| !hidden.contains(&format!("\"{secret}\""))));
    }
}
