//! `registries.conf`: where an image really is, and which mirrors have it too.

mod short_names;

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use oci::{RegistryHost, Repository};
use serde::Deserialize;

use crate::environment::Environment;
use crate::location::Location;

pub use short_names::{ShortNameError, ShortNames};

#[derive(Debug, thiserror::Error)]
pub enum ConfError {
    #[error("reading {}", path.display())]
    Read {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("{} is not valid", path.display())]
    Parse {
        path: PathBuf,
        #[source]
        source: Box<toml::de::Error>,
    },
    #[error("{}: {what}", path.display())]
    Invalid { path: PathBuf, what: String },
}

#[derive(Debug, thiserror::Error)]
pub enum ResolveError {
    #[error("{name} is blocked by registries.conf (prefix {prefix:?})")]
    Blocked { name: String, prefix: String },
    #[error("registries.conf makes {place:?} of {name}, which is not a repository of a registry")]
    Rewrite { name: String, place: String },
}

/// The rules of all files together.
#[derive(Debug, Default)]
pub struct RegistriesConf {
    rules: Vec<Rule>,
    /// Of the last file that has any, and that file.
    pub(crate) credential_helpers: Option<(PathBuf, Vec<String>)>,
    short_names: ShortNames,
}

/// A source of an image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PullSource {
    pub at: Location,
    pub insecure: bool,
}

/// What is requested from a source; mirrors may serve only one of the two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestKind {
    Tag,
    Digest,
    /// A blob, which belongs to an image requested by tag or digest.
    Content,
}

#[derive(Debug, PartialEq, Eq)]
struct Rule {
    prefix: String,
    location: String,
    insecure: bool,
    blocked: bool,
    mirrors: Vec<Mirror>,
}

#[derive(Debug, PartialEq, Eq)]
struct Mirror {
    location: String,
    insecure: bool,
    serves: MirrorScope,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum MirrorScope {
    All,
    Digests,
    Tags,
}

#[derive(Deserialize)]
struct Document {
    #[serde(default)]
    registry: Vec<RegistryTable>,
    /// The first version of the format.
    registries: Option<toml::Value>,
    /// Where credentials are searched, in this order.
    #[serde(rename = "credential-helpers")]
    credential_helpers: Option<Vec<String>>,
    /// The full names of names without a registry.
    #[serde(default)]
    aliases: BTreeMap<String, String>,
    /// Registries to search for names without one.
    #[serde(rename = "unqualified-search-registries")]
    search: Option<Vec<String>>,
    #[serde(rename = "short-name-mode")]
    short_name_mode: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct RegistryTable {
    #[serde(default)]
    prefix: String,
    #[serde(default)]
    location: String,
    #[serde(default)]
    insecure: bool,
    #[serde(default)]
    blocked: bool,
    #[serde(default)]
    mirror_by_digest_only: bool,
    #[serde(default)]
    mirror: Vec<MirrorTable>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct MirrorTable {
    #[serde(default)]
    location: String,
    #[serde(default)]
    insecure: bool,
    #[serde(default)]
    pull_from_mirror: String,
}

impl RegistriesConf {
    /// Reads the file that applies, and its drop-ins: a rule of a later file
    /// replaces one with the same prefix. As in containers/image, a file of the
    /// user replaces the system's file together with the system's drop-ins; a
    /// file named by `CONTAINERS_REGISTRIES_CONF` replaces the file only.
    pub(crate) fn open(environment: &Environment) -> Result<Self, ConfError> {
        let system_drop_ins = Some(environment.system_containers("registries.conf.d"));
        let user_file = environment.user_containers("registries.conf").filter(|path| path.exists());
        let (file, must_exist, system_drop_ins) = match (&environment.registries_conf, user_file) {
            (Some(named), _) => (named.clone(), true, system_drop_ins),
            (None, Some(user_file)) => (user_file, true, None),
            (None, None) => {
                (environment.system_containers("registries.conf"), false, system_drop_ins)
            }
        };
        let mut files = vec![(file, must_exist)];
        let dirs = [system_drop_ins, environment.user_containers("registries.conf.d")];
        for dir in dirs.into_iter().flatten() {
            files.extend(drop_ins(&dir)?.into_iter().map(|path| (path, true)));
        }
        let mut conf = Self::default();
        for (path, must_exist) in files {
            match std::fs::read_to_string(&path) {
                Ok(text) => conf.merge(Self::parse(&path, &text)?),
                Err(error) if !must_exist && is_absent(&error) => {}
                Err(source) => return Err(ConfError::Read { path, source }),
            }
        }
        Ok(conf)
    }

    /// Reads the rules of one file; `path` is for messages.
    pub fn parse(path: &Path, text: &str) -> Result<Self, ConfError> {
        let document: Document = toml::from_str(text)
            .map_err(|source| ConfError::Parse { path: path.into(), source: Box::new(source) })?;
        let invalid = |what: String| ConfError::Invalid { path: path.into(), what };
        if document.registries.is_some() {
            return Err(invalid(
                "this is the first version of the format ([registries.…]); write [[registry]] tables instead".into(),
            ));
        }
        let rules: Result<_, _> = document.registry.into_iter().map(Rule::read).collect();
        let helpers = document.credential_helpers.filter(|helpers| !helpers.is_empty());
        if let Some(mode) = &document.short_name_mode
            && !matches!(mode.as_str(), "" | "enforcing" | "permissive" | "disabled")
        {
            return Err(invalid(format!(
                "short-name-mode is {mode:?}; expected enforcing, permissive or disabled"
            )));
        }
        for (name, target) in &document.aliases {
            short_names::check_alias(name, target).map_err(invalid)?;
        }
        let aliases = document.aliases.into_iter();
        let aliases = aliases.map(|(name, target)| (name, (path.to_owned(), target))).collect();
        let search = document.search.map(|registries| (path.to_owned(), registries));
        Ok(Self {
            rules: rules.map_err(invalid)?,
            credential_helpers: helpers.map(|helpers| (path.to_owned(), helpers)),
            short_names: ShortNames { aliases, search },
        })
    }

    fn merge(&mut self, later: Self) {
        for rule in later.rules {
            self.rules.retain(|earlier| earlier.prefix != rule.prefix);
            self.rules.push(rule);
        }
        if later.credential_helpers.is_some() {
            self.credential_helpers = later.credential_helpers;
        }
        self.short_names.merge(later.short_names);
    }

    fn rule(&self, name: &str) -> Option<(&Rule, usize)> {
        let matching = |rule| matched(rule, name).map(|length| (rule, length));
        self.rules.iter().filter_map(matching).max_by_key(|(rule, _)| rule.prefix.len())
    }

    /// Where an image is written: its registry's own location.
    pub fn destination(&self, at: &Location) -> Result<PullSource, ResolveError> {
        let own = self.own_place(at)?;
        self.check(&at.to_string())?;
        self.check(&own.at.to_string())?;
        Ok(own)
    }

    fn own_place(&self, at: &Location) -> Result<PullSource, ResolveError> {
        let name = at.to_string();
        match self.rule(&name) {
            Some((rule, length)) => place(&rule.location, rule.insecure, &name, length),
            None => Ok(PullSource { at: at.clone(), insecure: false }),
        }
    }

    /// Whether a place that is about to be contacted is blocked.
    fn check(&self, name: &str) -> Result<(), ResolveError> {
        match self.rule(name) {
            Some((rule, _)) if rule.blocked => {
                Err(ResolveError::Blocked { prefix: rule.prefix.clone(), name: name.to_owned() })
            }
            _ => Ok(()),
        }
    }

    /// Where an image may be read, in the order to try. The last is the
    /// registry itself. A place that is blocked is left out: as in
    /// containers/image, `blocked` concerns the place that would be contacted,
    /// so mirrors of a blocked registry still serve its images.
    pub fn sources(
        &self,
        at: &Location,
        kind: RequestKind,
    ) -> Result<Vec<PullSource>, ResolveError> {
        let name = at.to_string();
        let mut places = Vec::new();
        if let Some((rule, length)) = self.rule(&name) {
            for mirror in rule.mirrors.iter().filter(|mirror| mirror.serves.includes(kind)) {
                places.push(place(&mirror.location, mirror.insecure, &name, length)?);
            }
        }
        places.push(self.own_place(at)?);
        let mut blocked = None;
        places.retain(|place| match self.check(&place.at.to_string()) {
            Ok(()) => true,
            Err(error) => {
                blocked.get_or_insert(error);
                false
            }
        });
        match blocked {
            Some(error) if places.is_empty() => Err(error),
            _ => Ok(places),
        }
    }
}

impl MirrorScope {
    fn includes(self, kind: RequestKind) -> bool {
        match (self, kind) {
            (Self::All, _) | (_, RequestKind::Content) => true,
            (Self::Digests, kind) => kind == RequestKind::Digest,
            (Self::Tags, kind) => kind == RequestKind::Tag,
        }
    }
}

impl Rule {
    fn read(table: RegistryTable) -> Result<Self, String> {
        let trim = |text: String| text.trim_end_matches('/').to_owned();
        let (prefix, location) = match (trim(table.prefix), trim(table.location)) {
            (prefix, location) if prefix.is_empty() && location.is_empty() => {
                return Err("a [[registry]] has neither prefix nor location".into());
            }
            (prefix, location) if prefix.is_empty() => (location.clone(), location),
            (prefix, location) if location.is_empty() && !prefix.starts_with("*.") => {
                (prefix.clone(), prefix)
            }
            both => both,
        };
        for text in [&prefix, &location] {
            if text.contains("://") {
                return Err(format!("{text:?} has a scheme; write host[:port][/path]"));
            }
        }
        let by_digest_only = table.mirror_by_digest_only;
        let mirrors: Result<_, String> =
            table.mirror.iter().map(|mirror| Mirror::read(mirror, by_digest_only)).collect();
        let (insecure, blocked) = (table.insecure, table.blocked);
        Ok(Self { mirrors: mirrors?, prefix, location, insecure, blocked })
    }
}

impl Mirror {
    fn read(table: &MirrorTable, by_digest_only: bool) -> Result<Self, String> {
        let location = table.location.trim_end_matches('/').to_owned();
        if location.is_empty() {
            return Err("a [[registry.mirror]] has no location".into());
        }
        if location.contains("://") {
            return Err(format!("{location:?} has a scheme; write host[:port][/path]"));
        }
        let serves = match table.pull_from_mirror.as_str() {
            "" if by_digest_only => MirrorScope::Digests,
            "" | "all" => MirrorScope::All,
            "digest-only" => MirrorScope::Digests,
            "tag-only" => MirrorScope::Tags,
            other => {
                return Err(format!(
                    "pull-from-mirror is {other:?}; it may be all, digest-only or tag-only"
                ));
            }
        };
        if by_digest_only && !table.pull_from_mirror.is_empty() {
            return Err(format!(
                "mirror-by-digest-only and pull-from-mirror (of {location:?}) cannot both be set"
            ));
        }
        Ok(Self { location, insecure: table.insecure, serves })
    }
}

/// How much of `name` a rule's prefix takes, if it fits: up to a `/` or the end.
fn matched(rule: &Rule, name: &str) -> Option<usize> {
    let length = match rule.prefix.strip_prefix('*') {
        None => name.starts_with(&rule.prefix).then_some(rule.prefix.len())?,
        Some(wanted) => {
            let host = name.split('/').next().unwrap_or_default();
            let domain = wanted.split('/').next().unwrap_or_default();
            let path = &wanted[domain.len()..];
            let fits = host.len() > domain.len()
                && host.ends_with(domain)
                && name[host.len()..].starts_with(path);
            fits.then_some(host.len() + path.len())?
        }
    };
    matches!(name.as_bytes().get(length), None | Some(b'/')).then_some(length)
}

fn place(
    location: &str,
    insecure: bool,
    name: &str,
    length: usize,
) -> Result<PullSource, ResolveError> {
    // A rule for a whole domain need not move anything.
    let place = if location.is_empty() {
        name.to_owned()
    } else {
        format!("{location}{}", &name[length..])
    };
    let parsed = place.split_once('/').and_then(|(host, path)| {
        let registry: RegistryHost = host.parse().ok()?;
        let repository: Repository = path.parse().ok()?;
        Some(Location { registry, repository })
    });
    match parsed {
        Some(at) => Ok(PullSource { at, insecure }),
        None => Err(ResolveError::Rewrite { name: name.to_owned(), place }),
    }
}

fn drop_ins(dir: &Path) -> Result<Vec<PathBuf>, ConfError> {
    let failed = |source| ConfError::Read { path: dir.into(), source };
    let entries = match std::fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) if is_absent(&error) => return Ok(Vec::new()),
        Err(error) => return Err(failed(error)),
    };
    let mut files = Vec::new();
    for entry in entries {
        let path = entry.map_err(failed)?.path();
        if path.extension().is_some_and(|extension| extension == "conf") {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

#[cfg(test)]
mod tests;
