//! What a bundle requires: single requirements, and `olm.constraint`, which combines them.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::model::{Api, Requirement};
use crate::text::Text;

/// How deep constraints may be nested. OLM's own limit is on the size of the whole.
const MAX_DEPTH: usize = 16;

/// Keys that a constraint may have besides what it states.
const MESSAGE: &str = "failureMessage";

#[derive(Deserialize)]
pub(crate) struct PackageRequired<'a> {
    #[serde(borrow, rename = "packageName", default)]
    package: Text<'a>,
    #[serde(borrow, rename = "versionRange", default)]
    range: Text<'a>,
}

#[derive(Deserialize)]
pub(crate) struct ApiProperty<'a> {
    #[serde(borrow, default)]
    group: Text<'a>,
    #[serde(borrow, default)]
    version: Text<'a>,
    #[serde(borrow, default)]
    kind: Text<'a>,
}

impl<'a> ApiProperty<'a> {
    pub(crate) fn api(self) -> Api<'a> {
        let Self { group, version, kind } = self;
        Api { group, version, kind }
    }
}

impl<'a> From<ApiProperty<'a>> for Requirement<'a> {
    fn from(property: ApiProperty<'a>) -> Self {
        Self::Api(property.api())
    }
}

impl<'a> From<PackageRequired<'a>> for Requirement<'a> {
    fn from(PackageRequired { package, range }: PackageRequired<'a>) -> Self {
        Self::Package { name: package, range }
    }
}

#[derive(Deserialize)]
struct Compound<'a> {
    #[serde(borrow, default)]
    constraints: Vec<&'a RawValue>,
}

/// Reads the value of an `olm.constraint` property. What is not evaluated here is kept by its
/// name, so that it can be reported.
pub(crate) fn parse(json: &str) -> Result<Requirement<'_>, serde_json::Error> {
    at_depth(json, 0)
}

fn at_depth(json: &str, depth: usize) -> Result<Requirement<'_>, serde_json::Error> {
    if depth == MAX_DEPTH {
        return Err(serde::de::Error::custom(format!(
            "constraints are nested more than {MAX_DEPTH} deep"
        )));
    }
    let fields: BTreeMap<Text<'_>, &RawValue> = serde_json::from_str(json)?;
    let mut stated = Vec::new();
    for (key, value) in fields {
        stated.push(match &*key {
            MESSAGE => continue,
            "package" => serde_json::from_str::<PackageRequired<'_>>(value.get())?.into(),
            "gvk" => serde_json::from_str::<ApiProperty<'_>>(value.get())?.into(),
            "all" => Requirement::All(parts(value, depth)?),
            "any" => Requirement::Any(parts(value, depth)?),
            // It keeps things away and requests none, so nothing has to be mirrored for it.
            "not" => Requirement::All(Vec::new()),
            other => Requirement::Unsupported(other.to_owned()),
        });
    }
    match <[Requirement<'_>; 1]>::try_from(stated) {
        Ok([only]) => Ok(only),
        Err(several) => Ok(Requirement::All(several)),
    }
}

/// The constraints that a compound one combines.
fn parts(value: &RawValue, depth: usize) -> Result<Vec<Requirement<'_>>, serde_json::Error> {
    let Compound { constraints } = serde_json::from_str(value.get())?;
    constraints.into_iter().map(|one| at_depth(one.get(), depth + 1)).collect()
}
