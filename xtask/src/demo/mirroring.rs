//! The whole journey of a few images, on this machine alone.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use http::Method;
use lab::registry::{LabRegistry, Settings};

use super::exhibits::{self, Exhibit, shared_bytes};
use super::reader::Reader;
use super::stage::{OcMirror, heading, megabytes, say, show_files, show_text};

/// The namespace in the registry of the disconnected side.
const NAMESPACE: &str = "mirror";

/// Shows the journey with this `oc-mirror`.
pub(super) fn show(program: PathBuf, keep: bool) -> Result<()> {
    let folder = tempfile::Builder::new()
        .prefix("landfall-demo-")
        .tempdir()
        .context("making a temporary folder")?;
    let told = tell(folder.path(), &OcMirror::new(program, folder.path()));
    if keep {
        println!("\nEverything is kept in {}", folder.keep().display());
    }
    told
}

fn tell(folder: &Path, oc_mirror: &OcMirror<'_>) -> Result<()> {
    let began = Instant::now();
    let reader = Reader::new()?;
    let (data, other_side) = (folder.join("data"), folder.join("other-side"));

    heading("A registry on the connected side, with generated images");
    let source = LabRegistry::start(Settings::default())?;
    let exhibits = exhibits::first()?;
    for exhibit in &exhibits {
        source.put_image(&exhibit.image, exhibit.repository, exhibit.tag)?;
        println!("    {}", exhibit.line(source.address()));
    }
    let (unique, counted) = shared_bytes(&exhibits);
    say(&format!(
        "{} of layers; {} if every image were stored by itself.",
        megabytes(unique),
        megabytes(counted)
    ));

    heading("What to mirror: isc.yaml");
    let configuration = exhibits::image_set(&exhibits, source.address());
    fs::write(folder.join("isc.yaml"), &configuration).context("writing isc.yaml")?;
    show_text(&configuration);

    heading("Mirror to disk");
    oc_mirror.run(&["-c", "isc.yaml", "--src-tls-verify=false", &url(&data)])?;
    expect_fetched_once(&source, &exhibits)?;
    say("Each layer was fetched once. What is on the disk now:");
    show_files(&data)?;

    heading("Across the air gap: the archive, and nothing else");
    carry(&data, &other_side, "mirror_000001.tar")?;

    heading("Disk to mirror, into a registry on the disconnected side");
    let target = LabRegistry::start(Settings::default())?;
    let destination = format!("docker://{}/{NAMESPACE}", target.address());
    let from = url(&other_side);
    let push = ["-c", "isc.yaml", "--dest-tls-verify=false", "--from", &from, &destination];
    let asked_before = source.requests().count();
    oc_mirror.run(&push)?;
    ensure!(
        source.requests().count() == asked_before,
        "the disconnected side asked the connected registry for something"
    );
    say("What arrived; every manifest has the digest it has at the source:");
    show_arrived(&reader, &target)?;
    expect_arrived(&reader, &target, &exhibits)?;

    heading("For the cluster: oc apply -f …/working-dir/cluster-resources/");
    show_resources(&other_side.join("working-dir/cluster-resources"))?;

    heading("One image changes; only the change travels");
    let changed = exhibits::changed()?;
    source.put_image(&changed.image, changed.repository, changed.tag)?;
    println!("    {}", changed.line(source.address()));
    source.forget_requests();
    oc_mirror.run(&["-c", "isc.yaml", "--src-tls-verify=false", &url(&data)])?;
    let (first, second) = (size(&data, "mirror_000001.tar")?, size(&data, "mirror_000002.tar")?);
    let fetched = source.requests().of(&Method::GET, "/blobs/").count();
    say(&format!(
        "{fetched} blobs fetched; the second archive has {}, the first had {}.",
        megabytes(second),
        megabytes(first)
    ));
    ensure!(fetched == changed.new_blobs, "{} blobs are new, not {fetched}", changed.new_blobs);
    ensure!(second < first / 2, "the second archive carries what the first one did");

    carry(&data, &other_side, "mirror_000002.tar")?;
    target.forget_requests();
    oc_mirror.run(&push)?;
    let uploaded = target.requests().of(&Method::PUT, "/blobs/uploads/").count();
    say(&format!("{uploaded} blobs uploaded."));
    ensure!(uploaded == changed.new_blobs, "{} blobs are new, not {uploaded}", changed.new_blobs);
    let now: Vec<Exhibit> = exhibits::replaced(exhibits, changed);
    expect_arrived(&reader, &target, &now)?;

    heading("Without a registry at hand: the workspace as one, read-only");
    let server = oc_mirror.serve(&url(&data))?;
    for exhibit in &now {
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

    println!("\nAll as expected, in {:.0} s.", began.elapsed().as_secs_f64());
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
        let text =
            fs::read_to_string(file).with_context(|| format!("reading {}", file.display()))?;
        println!("# {}", file.file_name().unwrap_or_default().to_string_lossy());
        show_text(&text);
    }
    Ok(())
}
