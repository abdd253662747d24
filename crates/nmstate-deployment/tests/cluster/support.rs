//! Common functions of these tests.

use std::fs;
use std::path::Path;

use kube::Client;
use kube::config::{KubeConfigOptions, Kubeconfig};
use lab_cluster::kube::{ApiServer, FieldValidation, Persistence};
use nmstate_deployment::payload;

/// The files of the payload, as names and texts.
pub(crate) fn payload() -> Vec<(String, String)> {
    payload::files().iter().map(|file| (file.name.clone(), file.text().unwrap())).collect()
}

/// The files for a hosted control plane, as names and texts.
pub(crate) fn hosted(namespace: &str) -> Vec<(String, String)> {
    let files = payload::hosted_files(namespace);
    files.iter().map(|file| (file.name.clone(), file.text().unwrap())).collect()
}

/// The files of a folder in the order of their names, as names and texts.
pub(crate) fn files(folder: &Path) -> Vec<(String, String)> {
    let mut files: Vec<(String, String)> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_file())
        .map(|path| {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            (name, fs::read_to_string(path).unwrap())
        })
        .collect();
    files.sort();
    files
}

/// Applies the files whose names contain one of these words, strictly; all with an empty list.
pub(crate) async fn apply(server: &ApiServer, files: &[(String, String)], words: &[&str]) {
    for (name, text) in files {
        if name == "image-references" {
            continue;
        }
        if words.is_empty() || words.iter().any(|word| name.contains(word)) {
            if name.contains("_crd-") {
                server.client().load_crd_text(text).await.unwrap();
                continue;
            }
            server
                .apply(text, Persistence::Stored, FieldValidation::Strict)
                .await
                .unwrap_or_else(|error| panic!("{name}: {error}"));
        }
    }
}

/// A client with an administrator's permissions, or with those of a token.
pub(crate) async fn client(server: &ApiServer, token: Option<&str>) -> Client {
    let mut kubeconfig = Kubeconfig::read_from(server.kubeconfig()).unwrap();
    if let Some(token) = token {
        let user = kubeconfig.auth_infos[0].auth_info.as_mut().unwrap();
        user.token = Some(token.to_owned().into());
    }
    let options = KubeConfigOptions::default();
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &options).await.unwrap();
    Client::try_from(config).unwrap()
}
