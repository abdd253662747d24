//! Checksums and their signature: with the tools that a site has.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use test_tools::Tool;

use crate::checksums::{FILE, SIGNATURE};
use crate::command;
use crate::job::Artefacts;

pub(crate) fn check(artefacts: &Artefacts) -> Result<()> {
    let mut sha256sum = Command::new("sha256sum");
    sha256sum.args(["--check", "--strict", "--quiet", FILE]).current_dir(&artefacts.folder);
    command::output(&mut sha256sum)?;
    // Signing changes the folder: a copy is signed, with a key for this check only.
    let work = artefacts.work.path().join("signature");
    fs::create_dir_all(&work).context("creating a folder")?;
    fs::copy(artefacts.folder.join(FILE), work.join(FILE)).context("copying the checksums")?;
    let cosign = test_tools::path(Tool::Cosign)?;
    let mut generate = Command::new(&cosign);
    generate.arg("generate-key-pair").env("COSIGN_PASSWORD", "").current_dir(&work);
    command::output(&mut generate)?;
    sign(&work)?;
    verify(&cosign, &work)?;
    let path = work.join(FILE);
    let text = fs::read_to_string(&path).context("reading the checksums")?;
    fs::write(&path, format!("{text}tampered\n")).context("writing the checksums")?;
    ensure!(verify(&cosign, &work).is_err(), "cosign accepts checksums that were changed");
    println!(
        "    {FILE}: {} files, signature verified by cosign and openssl",
        artefacts.sums.len()
    );
    Ok(())
}

fn sign(work: &Path) -> Result<()> {
    // The key of this check has no password; cosign prompts for one unless the variable is set.
    let mut cosign = Command::new(test_tools::path(Tool::Cosign)?);
    cosign.args(["sign-blob", "--yes", "--tlog-upload=false", "--key", "cosign.key"]);
    cosign.args(["--output-signature", SIGNATURE, FILE]);
    cosign.env("COSIGN_PASSWORD", "").current_dir(work);
    command::output(&mut cosign).map(drop)
}

fn verify(cosign: &Path, work: &Path) -> Result<()> {
    let mut verify = Command::new(cosign);
    verify.args(["verify-blob", "--insecure-ignore-tlog", "--key", "cosign.pub"]);
    verify.args(["--signature", SIGNATURE, FILE]).current_dir(work);
    command::output(&mut verify)?;
    // The same for sites without cosign.
    let encoded = fs::read_to_string(work.join(SIGNATURE)).context("reading the signature")?;
    let signature = STANDARD.decode(encoded.trim()).context("decoding the signature")?;
    fs::write(work.join("signature.der"), signature).context("writing the signature")?;
    let mut openssl = Command::new("openssl");
    openssl.args(["dgst", "-sha256", "-verify", "cosign.pub", "-signature", "signature.der", FILE]);
    command::output(openssl.current_dir(work))?;
    Ok(())
}
