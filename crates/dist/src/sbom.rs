//! The bill of materials of a program in CycloneDX 1.5, from the list of dependencies that
//! cargo-auditable embedded into it: what is described is what was linked.

use std::path::Path;

use anyhow::{Context, Result};
use auditable_info::Limits;
use auditable_serde::{DependencyKind, Source, VersionInfo};
use serde_json::{Value, json};

use crate::programs::Program;
use crate::release::Release;

/// Larger than any program and list of ours; the reader allocates as much as it finds.
const LIMITS: Limits = Limits { input_file_size: 1 << 30, decompressed_json_size: 16 << 20 };

/// The list of dependencies in a program.
pub(crate) fn embedded(program: &Path) -> Result<VersionInfo> {
    auditable_info::audit_info_from_file(program, LIMITS)
        .with_context(|| format!("reading the list of dependencies in {}", program.display()))
}

/// The document. The same list gives the same bytes.
pub(crate) fn document(program: Program, release: &Release, info: &VersionInfo) -> String {
    let is_linked = |index: &usize| info.packages[*index].kind == DependencyKind::Runtime;
    let reference = |index: usize| {
        let package = &info.packages[index];
        if package.root {
            return format!("{}@{}", program.name, release.version());
        }
        purl(&package.name, &package.version.to_string(), &package.source)
    };
    let linked: Vec<usize> = (0..info.packages.len()).filter(is_linked).collect();
    let component = |index: &usize| {
        let package = &info.packages[*index];
        let version = package.version.to_string();
        let mut component = json!({
            "type": "library",
            "bom-ref": reference(*index),
            "name": package.name,
            "version": version,
        });
        if package.source == Source::CratesIo {
            component["purl"] = Value::String(reference(*index));
        }
        component
    };
    let components: Vec<Value> =
        linked.iter().filter(|index| !info.packages[**index].root).map(component).collect();
    let dependencies: Vec<Value> = linked
        .iter()
        .map(|index| {
            let on: Vec<String> = info.packages[*index]
                .dependencies
                .iter()
                .filter(|index| is_linked(index))
                .map(|index| reference(*index))
                .collect();
            json!({ "ref": reference(*index), "dependsOn": on })
        })
        .collect();
    let name = format!("{}@{}", program.name, release.version());
    let document = json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {
            "timestamp": format!("{}T00:00:00Z", release.date),
            "component": {
                "type": "application",
                "bom-ref": name,
                "name": program.name,
                "version": release.version(),
                "description": program.summary,
                "licenses": [{ "license": { "id": "Apache-2.0" } }],
            },
        },
        "components": components,
        "dependencies": dependencies,
    });
    format!("{document:#}\n")
}

fn purl(name: &str, version: &str, source: &Source) -> String {
    match source {
        Source::CratesIo => format!("pkg:cargo/{name}@{version}"),
        _ => format!("{name}@{version}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::programs;

    #[test]
    fn the_document_lists_what_is_linked_and_its_dependencies() {
        // The format that cargo-auditable documents; `proc` is a build dependency.
        let text = r#"{ "packages": [
            { "name": "anyhow", "version": "1.0.1", "source": "crates.io" },
            { "name": "enhance", "version": "0.1.0", "source": "local", "root": true,
              "dependencies": [0, 2] },
            { "name": "proc", "version": "2.0.0", "source": "crates.io", "kind": "build" }
        ] }"#;
        let info: VersionInfo = serde_json::from_str(text).unwrap();
        let release = Release {
            number: "0.1.0".into(),
            commit: "c".repeat(40),
            date: "2026-01-02".into(),
            epoch: 0,
            is_dirty: false,
        };
        let text = document(programs::find("--program", "enhance").unwrap(), &release, &info);
        let json: Value = serde_json::from_str(&text).unwrap();
        let names: Vec<&str> = json["components"]
            .as_array()
            .unwrap()
            .iter()
            .map(|component| component["purl"].as_str().unwrap())
            .collect();
        assert_eq!(names, ["pkg:cargo/anyhow@1.0.1"]);
        let root = &json["dependencies"][1];
        assert_eq!(
            (&root["ref"], &root["dependsOn"]),
            (&json!("enhance@0.1.0"), &json!(["pkg:cargo/anyhow@1.0.1"]))
        );
    }
}
