//! Images in everything that has the shape of a pod spec, in whatever kind of object it is.

use located_yaml::{Node, Value};

use super::{Named, Reason};
use crate::documents::Document;

/// Lists of containers in a pod spec.
const CONTAINERS: [&str; 3] = ["containers", "initContainers", "ephemeralContainers"];
/// What containers always or mostly have beside an image, so that other lists with this name in
/// custom resources are distinguished from them.
const CONTAINER_KEYS: [&str; 12] = [
    "name",
    "image",
    "imagePullPolicy",
    "command",
    "args",
    "env",
    "envFrom",
    "ports",
    "resources",
    "volumeMounts",
    "securityContext",
    "livenessProbe",
];

pub(super) fn images<'d>(document: &'d Document, environment: &[String]) -> Vec<Named<'d>> {
    let mut search = Search { document, environment, found: Vec::new() };
    search.visit(&document.root, "");
    search.found
}

struct Search<'d, 'e> {
    document: &'d Document,
    environment: &'e [String],
    found: Vec<Named<'d>>,
}

impl<'d> Search<'d, '_> {
    fn visit(&mut self, node: &'d Node, path: &str) {
        match &node.value {
            Value::Scalar { .. } => {}
            Value::List(items) => {
                for (index, item) in items.iter().enumerate() {
                    self.visit(item, &format!("{path}[{index}]"));
                }
            }
            Value::Map(entries) => {
                for entry in entries {
                    let below = join(path, &entry.key);
                    if CONTAINERS.contains(&entry.key.as_str()) {
                        self.containers(&entry.value, &below);
                    }
                    if entry.key == "volumes" {
                        self.volumes(&entry.value, &below);
                    }
                    self.visit(&entry.value, &below);
                }
            }
        }
    }

    fn containers(&mut self, list: &'d Node, path: &str) {
        for (index, container) in list.items().iter().enumerate() {
            let keys = container.entries().iter().map(|entry| entry.key.as_str());
            if !keys.into_iter().any(|key| CONTAINER_KEYS.contains(&key)) {
                continue;
            }
            let path = format!("{path}[{index}]");
            if let Some(image) = container.get("image") {
                self.add(image, format!("{path}.image"), Reason::PodSpec);
            }
            let variables = container.get("env").map(Node::items).unwrap_or_default();
            for (index, variable) in variables.iter().enumerate() {
                let name = variable.get("name").and_then(Node::text).unwrap_or_default();
                if let Some(value) = variable.get("value")
                    && self.environment.iter().any(|wanted| wanted == name)
                {
                    let reason = Reason::Environment(name.to_owned());
                    self.add(value, format!("{path}.env[{index}].value"), reason);
                }
            }
        }
    }

    /// A volume may be the content of an image.
    fn volumes(&mut self, list: &'d Node, path: &str) {
        for (index, volume) in list.items().iter().enumerate() {
            if let Some(reference) = volume.get("image").and_then(|image| image.get("reference")) {
                self.add(reference, format!("{path}[{index}].image.reference"), Reason::PodSpec);
            }
        }
    }

    fn add(&mut self, node: &'d Node, path: String, reason: Reason) {
        let line = self.document.line + node.at.line - 1;
        let text = node.text().unwrap_or_default().trim();
        // An empty image is left to an admission webhook, as service meshes do.
        if !text.is_empty() {
            self.found.push(Named { text, path, line, reason });
        }
    }
}

fn join(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}
