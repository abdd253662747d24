//! `.Capabilities`: what the cluster is believed to offer.

use std::rc::Rc;

use go_template::{Arguments, FunctionError, Kind, Object, Value};

use super::record::Record;

/// The version of Helm that charts see.
const HELM_VERSION: &str = "v3.22.0";

/// A cluster as charts see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Capabilities {
    /// Major and minor version and the rest, such as `1`, `34`, `v1.34.0`.
    pub major: String,
    pub minor: String,
    pub version: String,
    /// Such as `apps/v1` and `apps/v1/Deployment`.
    pub api_versions: Vec<String>,
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
        let versions = Value::object(Versions(Rc::new(self.api_versions.clone())));
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
struct Versions(Rc<Vec<String>>);

impl Object for Versions {
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
            Ok(self.0.iter().any(|version| **version == *wanted).into())
        })
    }

    fn items(&self) -> Option<Vec<Value>> {
        Some(self.0.iter().map(Value::string).collect())
    }

    fn plain(&self) -> Value {
        Value::list(self.items().unwrap_or_default())
    }
}
