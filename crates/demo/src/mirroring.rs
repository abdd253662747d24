//! Mirrors images, a release and a catalog from registry to disk to registry.

use std::fs;
use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use http::Method;
use lab::operators::{CATALOG, TAG};
use lab::registry::{LabRegistry, Settings};
use lab::releases::Release;

use crate::oc_mirror::OcMirror;
use crate::output::{entries, heading, megabytes, show_files, show_line, show_text};
use crate::reader::Reader;
use crate::source_images::{self, SourceImage, shared_bytes};
use crate::upstream::{CHANNEL, HOST, Upstream, key_variable};

/// The namespace in the registry of the disconnected side.
const NAMESPACE: &str = "mirror";

const NEXT_STEPS: &str = "\
Next steps:
    cargo build --release --bin oc-mirror         # target/release/oc-mirror; on the PATH, `oc mirror` works as well
    oc-mirror init --version 4.18 --out isc.yaml     # a configuration to start from
    oc-mirror -c isc.yaml --dry-run file:///data  # what a run would fetch, and its size
    docs/mirroring.md                             # images, releases, operators, step by step";

/// Shows the three workflows with this `oc-mirror`.
pub(super) fn show(program: &Path, keep: bool) -> Result<()> {
    let folder = tempfile::Builder::new()
        .prefix("landfall-demo-")
        .tempdir()
        .context("creating a temporary folder")?;
    let result = run(folder.path(), program);
    if keep {
        println!("\nEverything is kept in {}", folder.keep().display());
    }
    result
}

fn run(folder: &Path, program: &Path) -> Result<()> {
    let start = Instant::now();
    let reader = Reader::new()?;
    let (data, other_side) = (folder.join("data"), folder.join("other-side"));
    let home = folder.join("home");

    heading("Connected side: a registry with generated content");
    let source_images = source_images::first()?;
    let upstream = Upstream::start(&source_images)?;
    upstream.configure(&home)?;
    for source_image in &source_images {
        println!("    {}", source_image.line());
    }
    for release in &upstream.releases {
        println!("    release {}, signed, in channel {CHANNEL}", release.version);
    }
    println!("    {HOST}/{CATALOG}:{TAG}, an operator catalog with the packages bar, baz and foo");
    let (unique, counted) = shared_bytes(&source_images);
    show_line(&format!(
        "The images have {} of layers, {} if each were stored separately.",
        megabytes(unique),
        megabytes(counted)
    ));

    heading("What to mirror: isc.yaml");
    let configuration = source_images::image_set(&source_images);
    fs::write(folder.join("isc.yaml"), &configuration).context("writing isc.yaml")?;
    show_text(&configuration);

    heading("Mirror to disk");
    let connected = OcMirror::new(program, folder, &home, upstream.environment(&home));
    connected.run(&["-c", "isc.yaml", &url(&data)])?;
    expect_fetched_once(&upstream.registry, &source_images)?;
    show_line("Each layer was fetched once. The folder now contains:");
    show_files(&data)?;

    heading("Across the air gap: only the archive");
    transfer(&data, &other_side, "mirror_000001.tar")?;

    heading("Disk to mirror, into a registry on the disconnected side");
    let target = LabRegistry::start(Settings::default())?;
    let destination = format!("docker://{}/{NAMESPACE}", target.address());
    let from = url(&other_side);
    let push = ["-c", "isc.yaml", "--dest-tls-verify=false", "--from", &from, &destination];
    // The other side has the release key, and nothing else of the connected side.
    let home_there = folder.join("home-of-the-other-side");
    let disconnected = OcMirror::new(program, folder, &home_there, vec![key_variable(&home)]);
    let requests_before = upstream.requests();
    disconnected.run(&push)?;
    ensure!(
        upstream.requests() == requests_before,
        "the disconnected side sent a request to the connected side"
    );
    show_line("Content of the target; every manifest has the digest of the source:");
    show_arrived(&reader, &target)?;
    expect_arrived(&reader, &target, &source_images)?;
    expect_release(&reader, &target, upstream.newest()?)?;
    expect_catalog(&reader, &target)?;

    heading("For the cluster: oc apply -f …/working-dir/cluster-resources/");
    show_resources(&other_side.join("working-dir/cluster-resources"))?;

    heading("One image changes; only the change is transferred");
    let changed = source_images::changed()?;
    upstream.registry.put_image(&changed.image, changed.repository, changed.tag)?;
    println!("    {}", changed.line());
    upstream.registry.forget_requests();
    connected.run(&["-c", "isc.yaml", &url(&data)])?;
    let (first, second) = (size(&data, "mirror_000001.tar")?, size(&data, "mirror_000002.tar")?);
    let fetched = upstream.registry.requests().of(&Method::GET, "/blobs/").count();
    show_line(&format!(
        "{fetched} blobs were fetched; the second archive has {}, the first has {}.",
        megabytes(second),
        megabytes(first)
    ));
    ensure!(
        fetched == changed.new_blobs,
        "expected {} fetched blobs, found {fetched}",
        changed.new_blobs
    );
    ensure!(second < first / 2, "the second archive repeats content of the first one");

    transfer(&data, &other_side, "mirror_000002.tar")?;
    target.forget_requests();
    disconnected.run(&push)?;
    let uploaded = target.requests().of(&Method::PUT, "/blobs/uploads/").count();
    show_line(&format!("{uploaded} blobs were uploaded."));
    ensure!(
        uploaded == changed.new_blobs,
        "expected {} uploaded blobs, found {uploaded}",
        changed.new_blobs
    );
    let current: Vec<SourceImage> = source_images::replaced(source_images, changed);
    expect_arrived(&reader, &target, &current)?;

    heading("Without a registry: the workspace as one, read-only");
    let server = connected.serve(&url(&data))?;
    for source_image in &current {
        let pulled =
            reader.pull(server.address(), source_image.repository, &source_image.pointer())?;
        ensure!(
            pulled.root == source_image.image.digest(),
            "{}: expected the digest of the source, found {}",
            source_image.repository,
            pulled.root
        );
        println!(
            "    pulled {:14} {} blobs and manifests, {}, every digest checked",
            source_image.repository,
            pulled.items,
            megabytes(pulled.bytes)
        );
    }
    server.stop()?;

    println!("\nEverything is as expected, after {:.0} s.", start.elapsed().as_secs_f64());
    println!("\n{NEXT_STEPS}");
    Ok(())
}

/// The payload and all components are at the target, under the names that a cluster requests.
fn expect_release(reader: &Reader, target: &LabRegistry, release: &Release) -> Result<()> {
    let repository = format!("{NAMESPACE}/openshift/release-images");
    let payload = reader.pull(target.address(), &repository, &release.tag())?;
    let expected = release.payload.digest();
    ensure!(
        payload.root == expected,
        "release {}: expected {expected}, found {}",
        release.version,
        payload.root
    );
    let repository = format!("{NAMESPACE}/openshift/release");
    for (name, image) in &release.components {
        let tag = format!("{}-{name}", release.tag());
        let pulled = reader.pull(target.address(), &repository, &tag)?;
        ensure!(pulled.root == image.digest(), "{repository}:{tag} is another image");
    }
    Ok(())
}

/// The filtered catalog is at the target, with the bundles that were selected and no others.
fn expect_catalog(reader: &Reader, target: &LabRegistry) -> Result<()> {
    reader.pull(target.address(), &format!("{NAMESPACE}/{CATALOG}"), TAG)?;
    let repositories = reader.repositories(target.address())?;
    let has = |name: &str| repositories.contains(&format!("{NAMESPACE}/lab/{name}-bundle"));
    ensure!(has("foo") && has("baz"), "a selected operator is missing");
    ensure!(!has("bar"), "an operator that was not selected is at the target");
    Ok(())
}

fn url(folder: &Path) -> String {
    format!("file://{}", folder.display())
}

fn size(folder: &Path, file: &str) -> Result<u64> {
    let path = folder.join(file);
    let found =
        fs::metadata(&path).with_context(|| format!("reading the size of {}", path.display()))?;
    Ok(found.len())
}

fn transfer(from: &Path, to: &Path, file: &str) -> Result<()> {
    fs::create_dir_all(to).with_context(|| format!("creating {}", to.display()))?;
    let (source, target) = (from.join(file), to.join(file));
    println!("$ cp {} {}/", source.display(), to.display());
    let copying = || format!("copying {} to {}", source.display(), to.display());
    fs::copy(&source, &target).map(drop).with_context(copying)
}

fn show_arrived(reader: &Reader, target: &LabRegistry) -> Result<()> {
    for repository in reader.repositories(target.address())? {
        for tag in reader.tags(target.address(), &repository)? {
            let manifest = reader.manifest(target.address(), &repository, &tag)?;
            // Tags that contain a digest are too long for a terminal.
            let tag = match tag.strip_prefix("sha256-").map(|hex| hex.split_at_checked(64)) {
                Some(Some((hex, suffix))) => format!("sha256-{}…{suffix}", &hex[..12]),
                _ => tag,
            };
            println!("    {:48} {}", format!("{repository}:{tag}"), manifest.digest.short());
        }
    }
    Ok(())
}

/// All images are at the target with the digests of the source, attachments included.
fn expect_arrived(
    reader: &Reader,
    target: &LabRegistry,
    source_images: &[SourceImage],
) -> Result<()> {
    for source_image in source_images {
        let repository = format!("{NAMESPACE}/{}", source_image.repository);
        let pulled = reader.pull(target.address(), &repository, &source_image.pointer())?;
        ensure!(
            pulled.root == source_image.image.digest(),
            "{repository}: expected the digest {}, found {}",
            source_image.image.digest(),
            pulled.root
        );
        for attachment in &source_image.image.attachments {
            let digest = attachment.manifest.digest;
            let pointer = attachment.tag.as_ref().map_or(digest.to_string(), ToString::to_string);
            let arrived = reader.manifest(target.address(), &repository, &pointer)?;
            ensure!(
                arrived.digest == digest,
                "{repository}:{pointer} is not the attached manifest"
            );
        }
    }
    Ok(())
}

fn expect_fetched_once(source: &LabRegistry, source_images: &[SourceImage]) -> Result<()> {
    let requests = source.requests();
    for digest in source_images.iter().flat_map(|source_image| source_image.image.blobs.keys()) {
        let times = requests.blob_gets(digest);
        ensure!(times == 1, "expected one request for the blob {digest}, found {times}");
    }
    Ok(())
}

fn show_resources(folder: &Path) -> Result<()> {
    let mut files = entries(folder)?;
    files.retain(|file| file.extension().is_some_and(|extension| extension == "yaml"));
    let named = |part: &str| files.iter().any(|file| file.to_string_lossy().contains(part));
    ensure!(named("idms") && named("itms"), "{} has no mirror sets", folder.display());
    for file in &files {
        println!("    {}", file.file_name().unwrap_or_default().to_string_lossy());
    }
    let Some(set) = files.iter().find(|file| file.to_string_lossy().contains("itms")) else {
        return Ok(());
    };
    let text = fs::read_to_string(set).with_context(|| format!("reading {}", set.display()))?;
    println!("\n# {}", set.file_name().unwrap_or_default().to_string_lossy());
    show_text(&text);
    Ok(())
}
