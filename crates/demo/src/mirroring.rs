//! Mirrors images, a release and a catalog from registry to disk to registry.

use std::fs;
use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use http::Method;
use lab::operators::{CATALOG, TAG};
use lab::registry::{LabRegistry, Settings};
use lab::releases::Release;

use crate::exhibits::{self, Exhibit, shared_bytes};
use crate::reader::Reader;
use crate::stage::{OcMirror, heading, megabytes, say, show_files, show_text};
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
    let exhibits = exhibits::first()?;
    let upstream = Upstream::start(&exhibits)?;
    upstream.configure(&home)?;
    for exhibit in &exhibits {
        println!("    {}", exhibit.line());
    }
    for release in &upstream.releases {
        println!("    release {}, signed, in channel {CHANNEL}", release.version);
    }
    println!("    {HOST}/{CATALOG}:{TAG}, an operator catalog with the packages bar, baz and foo");
    let (unique, counted) = shared_bytes(&exhibits);
    say(&format!(
        "The images have {} of layers, {} if each were stored separately.",
        megabytes(unique),
        megabytes(counted)
    ));

    heading("What to mirror: isc.yaml");
    let configuration = exhibits::image_set(&exhibits);
    fs::write(folder.join("isc.yaml"), &configuration).context("writing isc.yaml")?;
    show_text(&configuration);

    heading("Mirror to disk");
    let connected = OcMirror::new(program, folder, &home, upstream.environment(&home));
    connected.run(&["-c", "isc.yaml", &url(&data)])?;
    expect_fetched_once(&upstream.registry, &exhibits)?;
    say("Each layer was fetched once. The folder now contains:");
    show_files(&data)?;

    heading("Across the air gap: only the archive");
    carry(&data, &other_side, "mirror_000001.tar")?;

    heading("Disk to mirror, into a registry on the disconnected side");
    let target = LabRegistry::start(Settings::default())?;
    let destination = format!("docker://{}/{NAMESPACE}", target.address());
    let from = url(&other_side);
    let push = ["-c", "isc.yaml", "--dest-tls-verify=false", "--from", &from, &destination];
    // The other side knows the release key, and nothing else of the connected side.
    let home_there = folder.join("home-of-the-other-side");
    let disconnected = OcMirror::new(program, folder, &home_there, vec![key_variable(&home)]);
    let requests_before = upstream.requests();
    disconnected.run(&push)?;
    ensure!(
        upstream.requests() == requests_before,
        "the disconnected side sent a request to the connected side"
    );
    say("What arrived; every manifest has the digest that it has at the source:");
    show_arrived(&reader, &target)?;
    expect_arrived(&reader, &target, &exhibits)?;
    expect_release(&reader, &target, upstream.newest()?)?;
    expect_catalog(&reader, &target)?;

    heading("For the cluster: oc apply -f …/working-dir/cluster-resources/");
    show_resources(&other_side.join("working-dir/cluster-resources"))?;

    heading("One image changes; only the change is carried");
    let changed = exhibits::changed()?;
    upstream.registry.put_image(&changed.image, changed.repository, changed.tag)?;
    println!("    {}", changed.line());
    upstream.registry.forget_requests();
    connected.run(&["-c", "isc.yaml", &url(&data)])?;
    let (first, second) = (size(&data, "mirror_000001.tar")?, size(&data, "mirror_000002.tar")?);
    let fetched = upstream.registry.requests().of(&Method::GET, "/blobs/").count();
    say(&format!(
        "{fetched} blobs were fetched; the second archive has {}, the first has {}.",
        megabytes(second),
        megabytes(first)
    ));
    ensure!(
        fetched == changed.new_blobs,
        "expected {} fetched blobs, found {fetched}",
        changed.new_blobs
    );
    ensure!(second < first / 2, "the second archive repeats what the first one has");

    carry(&data, &other_side, "mirror_000002.tar")?;
    target.forget_requests();
    disconnected.run(&push)?;
    let uploaded = target.requests().of(&Method::PUT, "/blobs/uploads/").count();
    say(&format!("{uploaded} blobs were uploaded."));
    ensure!(
        uploaded == changed.new_blobs,
        "expected {} uploaded blobs, found {uploaded}",
        changed.new_blobs
    );
    let current: Vec<Exhibit> = exhibits::replaced(exhibits, changed);
    expect_arrived(&reader, &target, &current)?;

    heading("Without a registry: the workspace as one, read-only");
    let server = connected.serve(&url(&data))?;
    for exhibit in &current {
        let pulled = reader.pull(server.address(), exhibit.repository, &exhibit.pointer())?;
        ensure!(
            pulled.root == exhibit.image.digest(),
            "{} was served with the digest {}",
            exhibit.repository,
            pulled.root
        );
        println!(
            "    pulled {:14} {} blobs and manifests, {}, every digest checked",
            exhibit.repository,
            pulled.items,
            megabytes(pulled.bytes)
        );
    }
    server.stop()?;

    println!("\nEverything is as expected, after {:.0} s.", start.elapsed().as_secs_f64());
    println!("\n{NEXT_STEPS}");
    Ok(())
}

/// The payload and all components are at the target, under the names that a cluster asks for.
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
    ensure!(!has("bar"), "an operator arrived that was not selected");
    Ok(())
}

fn url(folder: &Path) -> String {
    format!("file://{}", folder.display())
}

fn size(folder: &Path, file: &str) -> Result<u64> {
    let path = folder.join(file);
    let found = fs::metadata(&path).with_context(|| format!("looking for {}", path.display()))?;
    Ok(found.len())
}

fn carry(from: &Path, to: &Path, file: &str) -> Result<()> {
    fs::create_dir_all(to).with_context(|| format!("making {}", to.display()))?;
    let (source, target) = (from.join(file), to.join(file));
    println!("$ cp {} {}/", source.display(), to.display());
    let copying = || format!("copying {} to {}", source.display(), to.display());
    fs::copy(&source, &target).map(drop).with_context(copying)
}

fn show_arrived(reader: &Reader, target: &LabRegistry) -> Result<()> {
    for repository in reader.repositories(target.address())? {
        for tag in reader.tags(target.address(), &repository)? {
            let manifest = reader.manifest(target.address(), &repository, &tag)?;
            // Tags made of a digest are longer than a terminal is wide.
            let tag = match tag.strip_prefix("sha256-").map(|hex| hex.split_at_checked(64)) {
                Some(Some((hex, suffix))) => format!("sha256-{}…{suffix}", &hex[..12]),
                _ => tag,
            };
            println!("    {:48} {}", format!("{repository}:{tag}"), manifest.digest.short());
        }
    }
    Ok(())
}

/// Everything is at the target under its own digest, attachments included.
fn expect_arrived(reader: &Reader, target: &LabRegistry, exhibits: &[Exhibit]) -> Result<()> {
    for exhibit in exhibits {
        let repository = format!("{NAMESPACE}/{}", exhibit.repository);
        let pulled = reader.pull(target.address(), &repository, &exhibit.pointer())?;
        ensure!(
            pulled.root == exhibit.image.digest(),
            "{repository} arrived with the digest {}, and has {} at the source",
            pulled.root,
            exhibit.image.digest()
        );
        for attachment in &exhibit.image.attachments {
            let digest = attachment.manifest.digest;
            let pointer = attachment.tag.as_ref().map_or(digest.to_string(), ToString::to_string);
            let arrived = reader.manifest(target.address(), &repository, &pointer)?;
            ensure!(arrived.digest == digest, "{repository}:{pointer} is not what was attached");
        }
    }
    Ok(())
}

fn expect_fetched_once(source: &LabRegistry, exhibits: &[Exhibit]) -> Result<()> {
    let requests = source.requests();
    for digest in exhibits.iter().flat_map(|exhibit| exhibit.image.blobs.keys()) {
        let times = requests.blob_gets(digest);
        ensure!(times == 1, "the blob {digest} was fetched {times} times, not once");
    }
    Ok(())
}

fn show_resources(folder: &Path) -> Result<()> {
    let reading = || format!("reading {}", folder.display());
    let mut files = fs::read_dir(folder)
        .and_then(|entries| entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>, _>>())
        .with_context(reading)?;
    files.retain(|file| file.extension().is_some_and(|extension| extension == "yaml"));
    files.sort();
    let named = |part: &str| files.iter().any(|file| file.to_string_lossy().contains(part));
    ensure!(named("idms") && named("itms"), "{} lacks mirror sets", folder.display());
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
