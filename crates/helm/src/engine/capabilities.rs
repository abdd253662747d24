//! `.Capabilities`: what the cluster is assumed to offer.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use go_template::{Arguments, FunctionError, Kind, Object, Value};

use super::record::Record;

/// The version of Helm that charts see.
const HELM_VERSION: &str = "v3.22.0";

/// What templates query is remembered within these bounds. Beyond them, they count as having read
/// the whole list.
const MAX_QUERIED: usize = 1000;
const MAX_VERSION_BYTES: usize = 512;

/// A cluster as charts see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Capabilities {
    /// Major and minor version and the rest, such as `1`, `34`, `v1.34.0`.
    pub major: String,
    pub minor: String,
    pub version: String,
    pub api_versions: ApiVersions,
}

/// The APIs of a cluster, and what templates read of them. Copies share both.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiVersions(Rc<Known>);

#[derive(Debug, PartialEq, Eq)]
struct Known {
    /// Such as `apps/v1` and `apps/v1/Deployment`.
    versions: Vec<String>,
    queried: RefCell<BTreeMap<String, bool>>,
    is_listed: Cell<bool>,
}

/// What templates read of a cluster's APIs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ApiReads {
    /// Arguments of `.Capabilities.APIVersions.Has`, and the results.
    queried: BTreeMap<String, bool>,
    /// Whether the whole list was read.
    is_listed: bool,
}

impl ApiVersions {
    pub fn new(versions: Vec<String>) -> Self {
        let (queried, is_listed) = Default::default();
        Self(Rc::new(Known { versions, queried, is_listed }))
    }

    /// What was read until now.
    pub fn reads(&self) -> ApiReads {
        ApiReads { queried: self.0.queried.borrow().clone(), is_listed: self.0.is_listed.get() }
    }

    fn has(&self, wanted: &str) -> bool {
        let has = self.0.versions.iter().any(|version| version == wanted);
        let mut queried = self.0.queried.borrow_mut();
        if queried.len() < MAX_QUERIED && wanted.len() <= MAX_VERSION_BYTES {
            queried.insert(wanted.to_owned(), has);
        } else {
            self.0.is_listed.set(true);
        }
        has
    }
}

impl ApiReads {
    /// Whether a cluster with other APIs would have given the same results.
    pub fn hold_for(&self, has: impl Fn(&str) -> bool) -> bool {
        !self.is_listed && self.queried.iter().all(|(wanted, found)| has(wanted) == *found)
    }
}

impl Capabilities {
    pub fn value(&self) -> Value {
        let texts = |pairs: &[(&str, &str)]| {
            Value::map(pairs.iter().map(|(k, v)| ((*k).to_owned(), Value::string(v))).collect())
        };
        let kube = Value::object(Record {
            type_name: "chartutil.KubeVersion",
            kind: Kind::Struct,
            fields: vec![
                ("Version", Value::string(&self.version)),
                ("Major", Value::string(&self.major)),
                ("Minor", Value::string(&self.minor)),
            ],
            plain: texts(&[
                ("Version", &self.version),
                ("Major", &self.major),
                ("Minor", &self.minor),
            ]),
            methods: vec![("String", self.version.clone()), ("GitVersion", self.version.clone())],
            text: Some(self.version.clone()),
        });
        let build = [
            ("Version", HELM_VERSION),
            ("GitCommit", ""),
            ("GitTreeState", ""),
            ("GoVersion", "go1.26"),
        ];
        let helm = Value::object(Record {
            type_name: "version.BuildInfo",
            kind: Kind::Struct,
            fields: build.iter().map(|(name, text)| (*name, Value::string(text))).collect(),
            plain: texts(&build),
            methods: Vec::new(),
            text: None,
        });
        let versions = Value::object(self.api_versions.clone());
        let plain = [
            ("KubeVersion".to_owned(), kube.clone()),
            ("APIVersions".to_owned(), versions.clone()),
            ("HelmVersion".to_owned(), helm.clone()),
        ];
        Value::object(Record {
            type_name: "*chartutil.Capabilities",
            kind: Kind::Pointer,
            fields: vec![("KubeVersion", kube), ("APIVersions", versions), ("HelmVersion", helm)],
            plain: Value::map(plain.into()),
            methods: Vec::new(),
            text: None,
        })
    }
}

/// The list of versions, with its method `Has`.
impl Object for ApiVersions {
    fn type_name(&self) -> String {
        "chartutil.VersionSet".to_owned()
    }

    fn kind(&self) -> Kind {
        Kind::Slice
    }

    fn field(&self, _: &str) -> Option<Value> {
        None
    }

    fn call(&self, name: &str, arguments: &[Value]) -> Option<Result<Value, FunctionError>> {
        (name == "Has").then(|| {
            let wanted = arguments.text(0)?;
            Ok(self.has(&wanted).into())
        })
    }

    fn items(&self) -> Option<Vec<Value>> {
        self.0.is_listed.set(true);
        Some(self.0.versions.iter().map(Value::string).collect())
    }

    fn plain(&self) -> Value {
        Value::list(self.items().unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_hold_for_clusters_that_give_the_same_results() {
        let versions = ApiVersions::new(vec!["apps/v1".to_owned()]);
        assert!(versions.reads().hold_for(|_| false), "nothing was read");
        assert!(versions.has("apps/v1") && !versions.has("route.openshift.io/v1"));
        let reads = versions.reads();
        assert!(reads.hold_for(|expected| expected == "apps/v1"));
        assert!(!reads.hold_for(|_| true));
        assert!(!reads.hold_for(|_| false));
        versions.items();
        assert!(!versions.reads().hold_for(|expected| expected == "apps/v1"));
    }

    #[test]
    fn a_template_that_queries_too_much_counts_as_having_read_the_list() {
        let many = ApiVersions::new(Vec::new());
        for number in 0..=MAX_QUERIED {
            many.has(&number.to_string());
        }
        let long = ApiVersions::new(Vec::new());
        long.has(&"x".repeat(MAX_VERSION_BYTES + 1));
        for versions in [many, long] {
            assert!(!versions.reads().hold_for(|_| false));
            assert!(versions.reads().queried.len() <= MAX_QUERIED);
        }
    }
}
