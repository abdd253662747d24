//! Files a run writes beside the content: pinned configurations, cluster
//! resources, what a dry run shows.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use image_set::{ImageSetConfiguration, ImageSource};
use mirror_plan::{
    Destination, IMAGE_DIGEST_SOURCES, Lines, MirroredImage, Origin, Pin, PinnedFiles, Plan,
    ResourceOptions, Scope, cluster_resources, hosts_clusters_refuse, image_digest_sources,
    same_but_for_time,
};
use oci::{Digest, ImageRef};
use workspace::DiskError;
use workspace::atomic_file::{self, Durability};

use crate::collect::sections::Sections;
use crate::context::Context;
use crate::plan::stored_plan::StoredText;
use crate::results::Lost;
use crate::settings::DryRun;

/// Why a file was not generated.
#[derive(Debug, thiserror::Error)]
pub(crate) enum GeneratedError {
    #[error(transparent)]
    Configuration(#[from] image_set::WriteError),
    #[error(transparent)]
    Resource(#[from] mirror_plan::ResourceError),
    #[error(transparent)]
    Release(#[from] release::resources::ResourceError),
    #[error(transparent)]
    Name(#[from] mirror_plan::NameError),
    #[error(transparent)]
    Disk(#[from] DiskError),
}

/// Writes `isc_pinned_<time>.yaml` and `disc_pinned_<time>.yaml`: the
/// configuration with every tag pinned to the digest, and every chart to the version, of this run.
pub(crate) fn pin(
    context: &Context,
    digests: &BTreeMap<ImageRef, Digest>,
    charts: &BTreeMap<(usize, usize), String>,
) -> Result<Vec<PathBuf>, GeneratedError> {
    let pinned = pinned(&context.settings.configuration.set, digests, charts);
    let names = PinnedFiles::at(context.started);
    let directory = context.workspace.working_dir();
    let files = [
        (directory.join(names.image_set), pinned.to_yaml()?),
        (directory.join(names.delete_image_set), pinned.to_delete().to_yaml()?),
    ];
    // A run that finds nothing new leaves no new file either.
    if let Some(last) = newest_pinned(&directory)
        && fs::read_to_string(last).is_ok_and(|text| text == files[0].1)
    {
        return Ok(Vec::new());
    }
    files.into_iter().map(|(path, text)| write_named(path, &text)).collect()
}

/// Writes a file whose name has a time in the form of oc-mirror v2. FAT and exFAT have no colons in
/// names: there it does without them.
fn write_named(path: PathBuf, text: &str) -> Result<PathBuf, GeneratedError> {
    let write = |path: &Path| atomic_file::write(path, text.as_bytes(), Durability::Later);
    match write(&path) {
        Err(error) if error.kind() == std::io::ErrorKind::InvalidInput => {
            let name = path.file_name().unwrap_or_default().to_string_lossy().replace(':', "");
            let path = path.with_file_name(name);
            write(&path)?;
            Ok(path)
        }
        written => {
            written?;
            Ok(path)
        }
    }
}

/// The last pinned configuration; names end in times, so the last by name.
fn newest_pinned(directory: &Path) -> Option<PathBuf> {
    let entries = fs::read_dir(directory).ok()?;
    let names = entries.flatten().map(|entry| entry.path());
    names.filter(|path| path.to_string_lossy().contains("/isc_pinned_")).max()
}

fn pinned(
    set: &ImageSetConfiguration,
    digests: &BTreeMap<ImageRef, Digest>,
    charts: &BTreeMap<(usize, usize), String>,
) -> ImageSetConfiguration {
    let mut pinned = set.clone();
    for image in &mut pinned.mirror.additional_images {
        if let ImageSource::Registry(name) = &image.name
            && let Some(digest) = digests.get(name)
        {
            let pin = Pin { reference: name.clone(), target_tag: image.target_tag.clone() };
            let Pin { reference, target_tag } = pin.image(digest);
            image.name = ImageSource::Registry(reference);
            image.target_tag = target_tag;
        }
    }
    for operator in &mut pinned.mirror.operators {
        if let ImageSource::Registry(name) = &operator.catalog
            && let Some(digest) = digests.get(name)
        {
            let pin = Pin { reference: name.clone(), target_tag: operator.target_tag.clone() };
            let Pin { reference, target_tag } = pin.catalog(digest);
            operator.catalog = ImageSource::Registry(reference);
            operator.target_tag = target_tag;
        }
    }
    let repositories = pinned.mirror.helm.iter_mut().flat_map(|helm| &mut helm.repositories);
    for (at, repository) in repositories.enumerate() {
        for (place, chart) in repository.charts.iter_mut().enumerate() {
            if let Some(version) = charts.get(&(at, place)) {
                chart.version = Some(version.clone());
            }
        }
    }
    pinned
}

fn options(context: &Context) -> ResourceOptions {
    let settings = &context.settings;
    ResourceOptions {
        created_at: context.started,
        tool_version: settings.version.clone(),
        scope: match settings.max_nested_paths {
            Some(_) => Scope::Repository,
            None => Scope::Namespace,
        },
        content_source_policy: settings.content_source_policy,
    }
}

/// The resources for what the target holds: names and texts.
pub(crate) fn resources(
    context: &Context,
    mirrored: &[MirroredImage],
    sections: &Sections,
) -> Result<Vec<(String, String)>, GeneratedError> {
    let options = options(context);
    let files = cluster_resources(mirrored, &options)?;
    let mut files: Vec<(String, String)> =
        files.into_iter().map(|file| (file.name, file.yaml)).collect();
    files.extend(sections.resources(context, mirrored, &options)?);
    Ok(files)
}

/// Writes `cluster-resources/`. A file that would change only in its time is
/// not written, so that a repository that tracks it sees no change.
pub(crate) fn write_resources(
    context: &Context,
    mirrored: &[MirroredImage],
    sections: &Sections,
) -> Result<Vec<PathBuf>, GeneratedError> {
    for host in hosts_clusters_refuse(mirrored) {
        context.warn(format!(
            "a cluster does not take {host} in mirror sets: use a host name or an IPv4 address for the target"
        ));
    }
    let directory = context.workspace.cluster_resources();
    let mut files = resources(context, mirrored, sections)?;
    for (name, text) in &mut files {
        if let Ok(old) = fs::read_to_string(directory.join(&*name))
            && same_but_for_time(&old, text)
        {
            *text = old;
        }
    }
    let mut written = workspace::replace_generated(&directory, &files)?;
    // Beside that folder, as people apply everything in it to a cluster.
    if let Some(text) = image_digest_sources(mirrored, &options(context))? {
        let path =
            context.workspace.working_dir().join("install-config").join(IMAGE_DIGEST_SOURCES);
        atomic_file::write(&path, text.as_bytes(), Durability::Later)?;
        written.push(path);
    }
    Ok(written)
}

/// Writes what a run would do below `working-dir/dry-run`, and nothing else.
pub(crate) fn write_dry_run(
    context: &Context,
    (plan, stored): (&Plan, Option<&StoredText>),
    lost: &[Lost],
    resources: Option<Vec<(String, String)>>,
) -> Result<Vec<PathBuf>, GeneratedError> {
    let lines = match context.settings.dry_run {
        DryRun::PlanWithLists => Lines::Manifests,
        DryRun::Plan | DryRun::No => Lines::Images,
    };
    let unread: Vec<(Origin, Destination)> =
        lost.iter().map(|(wanted, name, _)| (wanted.origin.clone(), name.clone())).collect();
    let mut table = plan.table();
    if !unread.is_empty() {
        table.push_str(&format!(
            "\n{} images could not be read: their sizes are unknown, and not part of the sums.\n",
            unread.len()
        ));
    }
    let mut files = vec![("mapping.txt".to_owned(), plan.mapping(lines, &unread))];
    files.extend(stored.map(|stored| ("plan.json".to_owned(), stored.0.clone())));
    files.push(("plan.txt".to_owned(), table));
    files.extend(plan.missing(lines, &unread).map(|text| ("missing.txt".to_owned(), text)));
    let made = resources.into_iter().flatten();
    files.extend(made.map(|(name, text)| (format!("cluster-resources/{name}"), text)));
    Ok(workspace::replace_generated(&context.workspace.dry_run(), &files)?)
}
