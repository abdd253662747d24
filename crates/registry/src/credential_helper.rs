//! `docker-credential-<name> get`: programs that hold logins.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use serde::Deserialize;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, Command};

use crate::authfile::{AuthFileError, Secret};
use crate::error_body::clean;

const PATIENCE: Duration = Duration::from_secs(30);
const MAX_OUTPUT: u64 = 1 << 20;

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Reply {
    #[serde(default)]
    username: String,
    #[serde(default)]
    secret: String,
}

/// Requests the credentials for `server` from the helper `name`. `None` when it has nothing for it.
/// `file` is the one that names the helper; `path` is where programs are.
pub(crate) async fn get(
    file: &Path,
    name: &str,
    server: &str,
    path: Option<&OsStr>,
) -> Result<Option<Secret>, AuthFileError> {
    // The name becomes part of a program's name: no separators, no dots.
    if name.is_empty() || !name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
    {
        return Err(AuthFileError::HelperName { path: file.into(), name: clean(name) });
    }
    let failed = |what: String| AuthFileError::Helper {
        path: file.into(),
        name: name.to_owned(),
        what: clean(&what),
    };
    let program = find(&format!("docker-credential-{name}"), path)
        .ok_or_else(|| failed("is not in PATH; install it or remove its entry".into()))?;
    let run = async {
        let mut child = Command::new(program)
            .arg("get")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()?;
        let output = converse(&mut child, server).await?;
        Ok::<_, std::io::Error>((child.wait().await?, output))
    };
    let (status, output) = tokio::time::timeout(PATIENCE, run)
        .await
        .map_err(|_| failed(format!("did not respond within {} s", PATIENCE.as_secs())))?
        .map_err(|error| failed(format!("cannot be run: {error}")))?;
    if !status.success() {
        // The protocol can only report it with this sentence.
        let text = String::from_utf8_lossy(&output);
        if text.contains("credentials not found") {
            return Ok(None);
        }
        return Err(failed(format!("failed ({status}): {text}")));
    }
    let reply: Reply = serde_json::from_slice(&output)
        .map_err(|_| failed("responded with something that is not JSON".into()))?;
    Ok(match (reply.username.as_str(), reply.secret.is_empty()) {
        (_, true) => None,
        ("<token>", false) => Some(Secret::Refresh(reply.secret)),
        (_, false) => Some(Secret::Password { user: reply.username, password: reply.secret }),
    })
}

async fn converse(child: &mut Child, server: &str) -> std::io::Result<Vec<u8>> {
    if let Some(mut stdin) = child.stdin.take() {
        // A helper may respond without reading its input; that is not an error.
        let _ = stdin.write_all(server.as_bytes()).await;
    }
    let mut output = Vec::new();
    if let Some(stdout) = child.stdout.take() {
        stdout.take(MAX_OUTPUT).read_to_end(&mut output).await?;
    }
    Ok(output)
}

fn find(program: &str, path: Option<&OsStr>) -> Option<PathBuf> {
    std::env::split_paths(path?)
        .filter(|dir| dir.is_absolute())
        .map(|dir| dir.join(program))
        .find(|candidate| candidate.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn run_helper(script: &str, name: &str) -> Result<Option<Secret>, AuthFileError> {
        let dir = tempfile::tempdir().unwrap();
        let (text, program) = (dir.path().join("text"), dir.path().join("docker-credential-test"));
        std::fs::write(&text, format!("#!/bin/sh\n{script}\n")).unwrap();
        // Written by another process: a child of another test could hold a file of ours open for
        // writing at the moment it is run, which the kernel refuses.
        let install = std::process::Command::new("install").args([&text, &program]).status();
        assert!(install.unwrap().success());
        get(Path::new("/x/auth.json"), name, "quay.io", Some(dir.path().as_os_str())).await
    }

    #[tokio::test]
    async fn a_helper_gets_the_server_and_returns_the_login() {
        let script = r#"read server; echo "{\"ServerURL\":\"$server\",\"Username\":\"$1-$server\",\"Secret\":\"s\"}""#;
        let secret = run_helper(script, "test").await.unwrap();
        let expected = Secret::Password { user: "get-quay.io".into(), password: "s".into() };
        assert_eq!(secret, Some(expected));
        let token =
            run_helper(r#"echo '{"Username":"<token>","Secret":"r"}'"#, "test").await.unwrap();
        assert_eq!(token, Some(Secret::Refresh("r".into())));
    }

    #[tokio::test]
    async fn not_found_is_not_an_error_and_everything_else_is() {
        let none = "echo credentials not found in native keychain; exit 1";
        assert_eq!(run_helper(none, "test").await.unwrap(), None);
        for (script, name, expected) in [
            ("echo locked; exit 3", "test", "locked"),
            ("echo nonsense", "test", "not JSON"),
            ("exit 0", "absent", "not in PATH"),
            ("exit 0", "../test", "not a name of a credential helper"),
            ("exit 0", "", "not a name of a credential helper"),
        ] {
            let error = run_helper(script, name).await.unwrap_err().to_string();
            assert!(error.contains(expected) && error.contains("/x/auth.json"), "{error}");
        }
    }
}
