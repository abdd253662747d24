//! A running component, and clients that request its metrics.

use std::cell::RefCell;
use std::fs::{self, File};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use lab::certificates::{Authority, Identity};
use lab::eventually;
use lab_cluster::kube::{ApiServer, FieldValidation, Persistence};
use reqwest::tls::Version;
use serde_json::json;

/// The client that may read metrics.
pub(crate) const MONITORING: &str = "system:serviceaccount:openshift-monitoring:prometheus-k8s";

const DEADLINE: Duration = Duration::from_secs(600);

/// A component that serves metrics; stopped when dropped.
pub(crate) struct Part {
    child: Child,
    log: PathBuf,
    metrics: SocketAddr,
    health: SocketAddr,
}

impl Part {
    /// Starts it with the certificate that is, or will be, `tls.crt` and `tls.key` of this folder.
    pub(crate) async fn start(
        command: &str,
        arguments: &[String],
        kubeconfig: &Path,
        folder: &Path,
    ) -> Self {
        let log = folder.join("log");
        let mut child = Command::new(env!("CARGO_BIN_EXE_nmstate-operator"))
            .arg(command)
            .args(["--listen=127.0.0.1:0", "--metrics-listen=127.0.0.1:0"])
            .arg(format!("--metrics-certificate={}", folder.join("tls.crt").display()))
            .arg(format!("--metrics-key={}", folder.join("tls.key").display()))
            .args(arguments)
            .env("KUBECONFIG", kubeconfig)
            .stdin(Stdio::null())
            .stderr(File::create(&log).unwrap())
            .spawn()
            .unwrap();
        let address = |words: &str| {
            let text = fs::read_to_string(&log).unwrap();
            let line = text.split_inclusive('\n').find(|it| it.contains(words))?.to_owned();
            let address = line.strip_suffix('\n')?.rsplit_once("address=")?.1.to_owned();
            Some(address.parse::<SocketAddr>().unwrap())
        };
        let end = Instant::now() + DEADLINE;
        loop {
            if let (Some(metrics), Some(health)) =
                (address("serving metrics"), address("health is served"))
            {
                return Self { child, log, metrics, health };
            }
            let text = || fs::read_to_string(&log).unwrap();
            assert!(child.try_wait().unwrap().is_none(), "{command} ended: {}", text());
            assert!(Instant::now() < end, "{command} does not listen: {}", text());
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    pub(crate) fn log(&self) -> &Path {
        &self.log
    }

    pub(crate) fn runs(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    pub(crate) async fn says(&self, words: &str) {
        eventually(words, || async { fs::read_to_string(&self.log).unwrap().contains(words) })
            .await;
    }

    /// The response to the kubelet's probe.
    pub(crate) async fn health(&self, path: &str) -> u16 {
        let client = reqwest::Client::builder().no_proxy().build().unwrap();
        let url = format!("http://{}{path}", self.health);
        client.get(url).send().await.unwrap().status().as_u16()
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            eprintln!("{}", fs::read_to_string(&self.log).unwrap_or_default());
        }
    }
}

/// A client that requests metrics from a server with a certificate of this CA.
pub(crate) struct TestClient(reqwest::ClientBuilder);

impl TestClient {
    pub(crate) fn of(authority: &Authority) -> Self {
        let authority = reqwest::Certificate::from_pem(authority.pem().as_bytes()).unwrap();
        Self(reqwest::Client::builder().no_proxy().tls_certs_only([authority]).timeout(DEADLINE))
    }

    pub(crate) fn with(self, identity: &Identity) -> Self {
        let pem = format!("{}{}", identity.certificate, identity.key);
        Self(self.0.identity(reqwest::Identity::from_pem(pem.as_bytes()).unwrap()))
    }

    pub(crate) fn only(self, version: Version) -> Self {
        Self(self.0.tls_version_min(version).tls_version_max(version))
    }

    /// The connection is rejected.
    pub(crate) async fn refused(self, part: &Part) {
        let response = get(&self.0.build().unwrap(), part).await;
        assert!(response.is_err(), "{response:?}");
    }

    /// There are metrics, after a while.
    pub(crate) async fn numbers(self, part: &Part) -> String {
        self.response_with(200, part).await
    }

    /// The metrics contain this text, after a while.
    pub(crate) async fn numbers_with(self, words: &str, part: &Part) {
        self.wait_for(words, part, |code, text| code == 200 && text.contains(words)).await;
    }

    /// The response has this code, after a while: machines may be busy.
    pub(crate) async fn response_with(self, code: u16, part: &Part) -> String {
        self.wait_for(&code.to_string(), part, |status, _| status == code).await
    }

    async fn wait_for(self, what: &str, part: &Part, is_it: impl Fn(u16, &str) -> bool) -> String {
        let client = self.0.build().unwrap();
        let response = RefCell::new(String::new());
        eventually(&format!("a response with {what}"), || async {
            match get(&client, part).await {
                Ok((code, text)) if is_it(code, &text) => {
                    response.replace(text);
                    true
                }
                _ => false,
            }
        })
        .await;
        response.into_inner()
    }
}

async fn get(client: &reqwest::Client, part: &Part) -> Result<(u16, String), reqwest::Error> {
    let response = client.get(format!("https://{}/metrics", part.metrics)).send().await?;
    let code = response.status().as_u16();
    if code == 200 {
        // Prometheus selects its parser by it.
        let kind = response.headers()["content-type"].to_str().unwrap().to_owned();
        assert_eq!(kind, "application/openmetrics-text; version=1.0.0; charset=utf-8");
    }
    Ok((code, response.text().await?))
}

/// Stores the client CA where clusters have it.
pub(crate) async fn put_client_authority(server: &ApiServer, authority: &Authority) {
    let map = json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": { "name": "extension-apiserver-authentication", "namespace": "kube-system" },
        "data": { "client-ca-file": authority.pem() },
    });
    let text = map.to_string();
    server.apply(&text, Persistence::Stored, FieldValidation::Strict).await.unwrap();
}
