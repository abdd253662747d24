//! Packages for Debian and RPM systems, written by cargo-deb and cargo-generate-rpm from a manifest
//! that lists the files.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use serde::Serialize;
use test_tools::Tool;
use toml::{Table, Value};

use crate::architecture::Architecture;
use crate::command;
use crate::contents::Contents;
use crate::entries::{self, Entry};
use crate::programs::Program;

const MAINTAINER: &str = "The Landfall maintainers <landfall@example.com>";

/// How much time is spent on optimization and compression. Checks do not wait for smaller files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Effort {
    Release,
    Check,
}

/// What is packaged.
#[derive(Debug)]
pub(crate) struct Package<'a> {
    pub(crate) program: Program,
    pub(crate) architecture: Architecture,
    pub(crate) version: &'a str,
    pub(crate) epoch: u64,
    pub(crate) units: Vec<String>,
}

impl<'a> Package<'a> {
    pub(crate) fn new(contents: &Contents, version: &'a str, epoch: u64) -> Self {
        let built = &contents.built;
        let units = contents.unit_names();
        Self { program: built.program, architecture: built.architecture, version, epoch, units }
    }
}

/// Writes `NAME_VERSION_ARCH.deb` into `out`. `work` is an empty folder for intermediate files.
pub(crate) fn deb(
    package: &Package<'_>,
    entries: &[Entry],
    out: &Path,
    work: &Path,
    effort: Effort,
) -> Result<PathBuf> {
    let Package { program, architecture, version, .. } = package;
    entries::write_folder(&work.join("root"), entries)?;
    let mut deb = Table::new();
    put(&mut deb, "maintainer", MAINTAINER)?;
    put(&mut deb, "extended-description", program.description)?;
    put(&mut deb, "section", "admin")?;
    put(&mut deb, "priority", "optional")?;
    // The program is static: the empty list means that it needs no library. Public registries need
    // the certificate authorities.
    put(&mut deb, "depends", "")?;
    put(&mut deb, "recommends", "ca-certificates")?;
    put(&mut deb, "assets", assets(work, entries))?;
    if !package.units.is_empty() {
        let script = format!(
            "#!/bin/sh\nset -e\n[ \"$1\" = remove ] || exit 0\n{}",
            disable(&package.units)
        );
        let scripts = work.join("scripts");
        fs::create_dir_all(&scripts)?;
        fs::write(scripts.join("prerm"), script).context("writing the script of the package")?;
        put(&mut deb, "maintainer-scripts", &scripts)?;
    }
    write_manifest(package, program.summary, work, "deb", deb)?;
    let file = out.join(format!("{}_{version}_{}.deb", program.name, architecture.go()));
    let mut tool = Command::new(test_tools::path(Tool::CargoDeb)?);
    tool.args(["deb", "--no-build", "--no-strip", "--quiet", "--target", architecture.triple()]);
    tool.arg("--deb-version").arg(version).arg("--output").arg(&file);
    tool.arg("--manifest-path").arg(work.join("Cargo.toml"));
    if effort == Effort::Check {
        // With xz: the compressor for gzip is many times slower.
        tool.arg("--fast");
    }
    run(tool, package, work)?;
    Ok(file)
}

/// Writes `NAME-VERSION-1.ARCH.rpm` into `out`. `work` is an empty folder for intermediate files.
pub(crate) fn rpm(
    package: &Package<'_>,
    entries: &[Entry],
    out: &Path,
    work: &Path,
    effort: Effort,
) -> Result<PathBuf> {
    let Package { program, architecture, version, epoch, .. } = package;
    entries::write_folder(&work.join("root"), entries)?;
    let mut rpm = Table::new();
    put(&mut rpm, "summary", program.summary)?;
    put(&mut rpm, "license", "Apache-2.0")?;
    put(&mut rpm, "release", "1")?;
    put(&mut rpm, "vendor", "Landfall")?;
    put(&mut rpm, "assets", rpm_assets(work, entries))?;
    put(&mut rpm, "require-sh", !package.units.is_empty())?;
    let mut recommends = Table::new();
    put(&mut recommends, "ca-certificates", "*")?;
    put(&mut rpm, "recommends", recommends)?;
    if !package.units.is_empty() {
        let script = format!("[ \"$1\" = 0 ] || exit 0\n{}", disable(&package.units));
        put(&mut rpm, "pre_uninstall_script", script)?;
    }
    write_manifest(package, program.description, work, "generate-rpm", rpm)?;
    let file = out.join(format!("{}-{version}-1.{}.rpm", program.name, architecture.rpm()));
    let mut tool = Command::new(test_tools::path(Tool::CargoGenerateRpm)?);
    tool.args(["generate-rpm", "--auto-req", "disabled", "--arch", architecture.rpm()]);
    tool.arg("--source-date").arg(epoch.to_string()).arg("--output").arg(&file);
    tool.args(["--payload-compress", if effort == Effort::Check { "none" } else { "zstd" }]);
    run(tool, package, work)?;
    Ok(file)
}

/// Removes the links of enabled units with the package, where systemd is present: without the
/// package they would point to nothing.
fn disable(units: &[String]) -> String {
    format!(
        "if command -v systemctl >/dev/null 2>&1; then\n    systemctl --no-reload disable {} || :\nfi\n",
        units.join(" ")
    )
}

fn run(mut tool: Command, package: &Package<'_>, work: &Path) -> Result<()> {
    tool.current_dir(work).env("SOURCE_DATE_EPOCH", package.epoch.to_string());
    tool.env_remove("CARGO_TARGET_DIR");
    command::output(&mut tool).with_context(|| format!("packaging {}", package.program.name))?;
    Ok(())
}

fn assets(work: &Path, entries: &[Entry]) -> Vec<(String, String, String)> {
    let asset = |entry: &Entry| {
        let source = work.join("root").join(&entry.path).display().to_string();
        (source, entry.path.clone(), format!("{:o}", entry.mode))
    };
    entries.iter().map(asset).collect()
}

#[derive(Debug, Serialize)]
struct RpmAsset {
    source: String,
    dest: String,
    mode: String,
    doc: bool,
}

fn rpm_assets(work: &Path, entries: &[Entry]) -> Vec<RpmAsset> {
    let asset = |(source, path, mode): (String, String, String)| RpmAsset {
        source,
        doc: path.starts_with("usr/share/doc/"),
        dest: format!("/{path}"),
        mode,
    };
    assets(work, entries).into_iter().map(asset).collect()
}

fn put(table: &mut Table, key: &str, value: impl Serialize) -> Result<()> {
    table.insert(key.to_owned(), Value::try_from(value).context("writing a manifest")?);
    Ok(())
}

/// A crate that contains nothing but the description of the package.
fn write_manifest(
    package: &Package<'_>,
    description: &str,
    work: &Path,
    key: &str,
    format: Table,
) -> Result<()> {
    let mut about = Table::new();
    put(&mut about, "name", package.program.name)?;
    put(&mut about, "version", package.version)?;
    put(&mut about, "edition", "2024")?;
    put(&mut about, "license", "Apache-2.0")?;
    put(&mut about, "description", description)?;
    let mut metadata = Table::new();
    metadata.insert(key.to_owned(), Value::Table(format));
    about.insert("metadata".to_owned(), Value::Table(metadata));
    let mut manifest = Table::new();
    manifest.insert("package".to_owned(), Value::Table(about));
    // The folder may be inside another workspace.
    manifest.insert("workspace".to_owned(), Value::Table(Table::new()));
    let writing = || format!("writing the manifest of a package to {}", work.display());
    fs::create_dir_all(work.join("src")).with_context(writing)?;
    fs::write(work.join("src/lib.rs"), "").with_context(writing)?;
    let text = toml::to_string(&manifest).with_context(writing)?;
    fs::write(work.join("Cargo.toml"), text).with_context(writing)
}
