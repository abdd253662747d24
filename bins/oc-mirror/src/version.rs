//! `oc-mirror version`: the version of this program.

use serde::Serialize;

use crate::arguments::{VersionArguments, VersionFormat};

/// The number alone.
pub(crate) const NUMBER: &str = build_info::NUMBER;

/// The document of `version --output json`, with the keys that scripts read.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Document {
    client_version: Client,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Client {
    major: &'static str,
    minor: &'static str,
    git_version: String,
    git_commit: &'static str,
    git_tree_state: &'static str,
    build_date: &'static str,
    /// Always empty: this is not a Go program. Scripts may read every key.
    go_version: &'static str,
    compiler: &'static str,
    platform: String,
}

fn document() -> Document {
    let architecture = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        "powerpc64" => "ppc64le",
        other => other,
    };
    Document {
        client_version: Client {
            major: env!("CARGO_PKG_VERSION_MAJOR"),
            minor: env!("CARGO_PKG_VERSION_MINOR"),
            git_version: format!("v{NUMBER}"),
            git_commit: build_info::COMMIT,
            git_tree_state: build_info::TREE_STATE,
            build_date: build_info::DATE,
            go_version: "",
            compiler: "rustc",
            platform: format!("{}/{architecture}", std::env::consts::OS),
        },
    }
}

/// The text of `oc-mirror version`.
pub(crate) fn text(arguments: &VersionArguments) -> anyhow::Result<String> {
    let document = document();
    Ok(match arguments.output {
        Some(VersionFormat::Json) => format!("{}\n", serde_json::to_string_pretty(&document)?),
        Some(VersionFormat::Yaml) => serde_saphyr::to_string(&document)?,
        None if arguments.short => format!("v{NUMBER}\n"),
        None => {
            let platform = document.client_version.platform;
            format!("Client Version: v{} {platform}\n", build_info::VERSION)
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn show(output: Option<VersionFormat>, short: bool) -> String {
        text(&VersionArguments { output, short }).unwrap()
    }

    #[test]
    fn json_and_yaml_have_the_keys_that_scripts_use() {
        let keys = [
            "major",
            "minor",
            "gitVersion",
            "gitCommit",
            "gitTreeState",
            "buildDate",
            "goVersion",
            "compiler",
            "platform",
        ];
        let json: serde_json::Value =
            serde_json::from_str(&show(Some(VersionFormat::Json), false)).unwrap();
        let yaml: serde_json::Value =
            serde_saphyr::from_str(&show(Some(VersionFormat::Yaml), false)).unwrap();
        for document in [json, yaml] {
            let client = document["clientVersion"].as_object().unwrap();
            assert_eq!(client.len(), keys.len());
            for key in keys {
                assert!(client[key].is_string(), "{key}: {client:?}");
            }
        }
    }

    #[test]
    fn the_text_starts_as_it_always_did() {
        assert!(show(None, false).starts_with("Client Version: v"));
        assert_eq!(show(None, true), format!("v{}\n", env!("CARGO_PKG_VERSION")));
    }
}
