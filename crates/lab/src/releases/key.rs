//! Keys that sign releases, held and used by GnuPG: what it signs is what
//! clusters verify, and it is independent of our own reader.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;

/// The creation time of keys.
const MADE: &str = "20200101T000000!";
/// A moment at which an expiry can still be set.
const SOON_AFTER: &str = "20200102T000000!";

/// A key pair with its own keyring, which is removed when this is dropped.
#[derive(Debug)]
pub struct ReleaseKey {
    home: TempDir,
    public: String,
}

impl ReleaseKey {
    /// A key that never expires.
    pub fn generate() -> Result<Self> {
        let home = TempDir::new().context("making a keyring")?;
        let key = ["--quick-generate-key", "Lab Release <release@lab.example>", "rsa2048"];
        gpg(home.path(), &[&["--faked-system-time", MADE], &key[..], &["sign", "never"]].concat())?;
        let public = export(home.path())?;
        Ok(Self { home, public })
    }

    /// A key that was good until 2021 by its public part, and signs today all
    /// the same.
    pub fn expired() -> Result<Self> {
        let mut key = Self::generate()?;
        let copy = TempDir::new().context("making a keyring")?;
        for part in ["pubring.kbx", "trustdb.gpg"] {
            let (from, to) = (key.home.path().join(part), copy.path().join(part));
            fs::copy(&from, to).with_context(|| format!("copying {}", from.display()))?;
        }
        let secrets = "private-keys-v1.d";
        fs::create_dir(copy.path().join(secrets)).context("making a keyring")?;
        for entry in fs::read_dir(key.home.path().join(secrets)).context("reading a keyring")? {
            let entry = entry.context("reading a keyring")?;
            fs::copy(entry.path(), copy.path().join(secrets).join(entry.file_name()))
                .context("copying a key")?;
        }
        let id = key.fingerprint()?;
        let time = ["--faked-system-time", SOON_AFTER];
        gpg(copy.path(), &[&time, &["--quick-set-expire", &id, "1y"][..]].concat())?;
        key.public = export(copy.path())?;
        end_agent(copy.path());
        Ok(key)
    }

    /// The public part, armored, as `OCP_SIGNATURE_VERIFICATION_PK` names it.
    pub fn public(&self) -> &str {
        &self.public
    }

    /// A signed message in the form of Red Hat's: compressed, with the text inside.
    pub fn sign(&self, text: &[u8]) -> Result<Vec<u8>> {
        let form = ["--digest-algo", "SHA256", "--compress-algo", "zip", "--sign"];
        feed(self.home.path(), &form, text)
    }

    /// The same without compression, so that text and signature lie open.
    pub fn sign_uncompressed(&self, text: &[u8]) -> Result<Vec<u8>> {
        let form = ["--digest-algo", "SHA256", "--compress-algo", "none", "--sign"];
        feed(self.home.path(), &form, text)
    }

    /// The keyrings that Helm signs and verifies charts with: files with the secret and the public key.
    pub fn write_keyrings(&self, secret: &Path, public: &Path) -> Result<()> {
        for (file, command) in [(secret, "--export-secret-keys"), (public, "--export")] {
            let keys = gpg(self.home.path(), &[command])?;
            fs::write(file, keys).with_context(|| format!("writing {}", file.display()))?;
        }
        Ok(())
    }

    fn fingerprint(&self) -> Result<String> {
        let listed = gpg(self.home.path(), &["--with-colons", "--list-keys"])?;
        let listed = String::from_utf8(listed).context("reading a keyring")?;
        let line = listed.lines().find_map(|line| line.strip_prefix("fpr:"));
        let field = line.and_then(|line| line.split(':').find(|field| !field.is_empty()));
        Ok(field.context("a keyring without a key")?.to_owned())
    }
}

impl Drop for ReleaseKey {
    fn drop(&mut self) {
        end_agent(self.home.path());
    }
}

fn export(home: &Path) -> Result<String> {
    String::from_utf8(gpg(home, &["--armor", "--export"])?).context("exporting a key")
}

fn gpg(home: &Path, args: &[&str]) -> Result<Vec<u8>> {
    feed(home, args, b"")
}

fn feed(home: &Path, args: &[&str], input: &[u8]) -> Result<Vec<u8>> {
    let mut child = Command::new("gpg")
        .args(["--batch", "--quiet", "--no-tty", "--pinentry-mode", "loopback"])
        .args(["--passphrase", "", "--homedir"])
        .arg(home)
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .context("running gpg; `apt-get install gnupg` installs it")?;
    if let Some(mut stdin) = child.stdin.take() {
        stdin.write_all(input).context("handing a text to gpg")?;
    }
    let output = child.wait_with_output().context("waiting for gpg")?;
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "gpg {args:?}: {}", errors.trim());
    Ok(output.stdout)
}

/// GnuPG leaves a process behind that holds the keys; it would end by itself,
/// some time after its directory is removed.
fn end_agent(home: &Path) {
    let _ = Command::new("gpgconf").arg("--homedir").arg(home).args(["--kill", "all"]).output();
}
