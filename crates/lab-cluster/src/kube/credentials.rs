//! Certificates, the service-account key and the administrator's token of one API server.

use std::fs;
use std::io;
use std::path::Path;

use anyhow::anyhow;
use aws_lc_rs::rand::{SecureRandom, SystemRandom};
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use lab::certificates::{Authority, Identity};
use rcgen::KeyPair;
use serde_json::json;

pub(super) const SERVER_CERTIFICATE: &str = "server.crt";
pub(super) const SERVER_KEY: &str = "server.key";
pub(super) const SERVICE_ACCOUNT_KEY: &str = "service-account.key";
pub(super) const SERVICE_ACCOUNT_PUBLIC_KEY: &str = "service-account.pub";
pub(super) const AUTHORITY: &str = "ca.crt";
pub(super) const TOKENS: &str = "tokens.csv";

/// All are newly generated: two servers trust nothing of each other.
pub(super) struct Credentials {
    pub(super) ca_pem: String,
    pub(super) token: String,
    kubelet_token: String,
    server: Identity,
    service_account_key: KeyPair,
}

impl Credentials {
    pub(super) fn generate() -> anyhow::Result<Self> {
        let authority = Authority::generate()?;
        Ok(Self {
            ca_pem: authority.pem().to_owned(),
            token: token()?,
            kubelet_token: token()?,
            server: authority.server()?,
            service_account_key: KeyPair::generate()?,
        })
    }

    /// Writes what the servers read. The folder is the caller's own, closed to others.
    pub(super) fn write(&self, dir: &Path, node: Option<&str>) -> io::Result<()> {
        fs::write(dir.join(SERVER_CERTIFICATE), &self.server.certificate)?;
        fs::write(dir.join(SERVER_KEY), &self.server.key)?;
        fs::write(dir.join(AUTHORITY), &self.ca_pem)?;
        let service_account = &self.service_account_key;
        fs::write(dir.join(SERVICE_ACCOUNT_KEY), service_account.serialize_pem())?;
        fs::write(dir.join(SERVICE_ACCOUNT_PUBLIC_KEY), service_account.public_key_pem())?;
        let mut tokens = format!("{},admin,admin,system:masters\n", self.token);
        if let Some(node) = node {
            let token = &self.kubelet_token;
            tokens.push_str(&format!("{token},system:node:{node},{node},system:nodes\n"));
        }
        fs::write(dir.join(TOKENS), tokens)
    }

    /// JSON, which every reader of kubeconfig's YAML accepts too.
    pub(super) fn kubeconfig(&self, url: &str) -> String {
        self.kubeconfig_with(url, &self.token)
    }

    /// The same with the rights of a kubelet.
    pub(super) fn kubelet_kubeconfig(&self, url: &str) -> String {
        self.kubeconfig_with(url, &self.kubelet_token)
    }

    fn kubeconfig_with(&self, url: &str, token: &str) -> String {
        let cluster = json!({
            "server": url,
            "certificate-authority-data": STANDARD.encode(&self.ca_pem),
            // Its certificate is for the address it listens on, wherever it is reached.
            "tls-server-name": "127.0.0.1",
        });
        let config = json!({
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{ "name": "lab", "cluster": cluster }],
            "users": [{ "name": "admin", "user": { "token": token } }],
            "contexts": [{ "name": "lab", "context": { "cluster": "lab", "user": "admin" } }],
            "current-context": "lab",
        });
        format!("{config:#}\n")
    }
}

fn token() -> anyhow::Result<String> {
    let mut secret = [0; 24];
    SystemRandom::new()
        .fill(&mut secret)
        .map_err(|_| anyhow!("the operating system gave no random bytes"))?;
    Ok(URL_SAFE_NO_PAD.encode(secret))
}

impl std::fmt::Debug for Credentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Credentials").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_servers_have_nothing_in_common() {
        let (one, two) = (Credentials::generate().unwrap(), Credentials::generate().unwrap());
        assert_ne!(one.token, two.token);
        assert_ne!(one.ca_pem, two.ca_pem);
    }

    #[test]
    fn secrets_are_not_in_the_debug_text() {
        let credentials = Credentials::generate().unwrap();
        assert!(!format!("{credentials:?}").contains(&credentials.token));
    }

    #[test]
    fn a_kubeconfig_leads_to_the_server_with_the_token() {
        let credentials = Credentials::generate().unwrap();
        let text = credentials.kubeconfig("https://127.0.0.1:1");
        let config: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(config["clusters"][0]["cluster"]["server"], "https://127.0.0.1:1");
        assert_eq!(config["users"][0]["user"]["token"], credentials.token.as_str());
        let ca = config["clusters"][0]["cluster"]["certificate-authority-data"].as_str().unwrap();
        assert_eq!(STANDARD.decode(ca).unwrap(), credentials.ca_pem.as_bytes());
    }
}
