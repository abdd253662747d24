use crate::{Catalog, Files, Flaw, LoadError, Requirement, flaws};

fn files<'a>(list: &[(&'a str, &'a str)]) -> Result<Files<'a>, LoadError> {
    Files::read(list.iter().map(|(path, text)| (*path, text.as_bytes())))
}

fn refused(path: &str, text: &str) -> String {
    let files = files(&[(path, text)]).unwrap();
    Catalog::load(&files).unwrap_err().to_string()
}

const JSON: &str = r#"
{"schema": "olm.package", "name": "p", "defaultChannel": "stable", "icon": {"base64data": ""}}
{"schema": "olm.channel", "package": "p", "name": "stable",
 "entries": [{"name": "p.v1"}, {"name": "p.v2", "replaces": "p.v1", "skips": ["p.v0"], "skipRange": "<2.0.0"}]}
{"name": "p.v1", "image": "q.io/p:1", "package": "p", "schema": "olm.bundle",
 "properties": [{"type": "olm.package", "value": {"packageName": "p", "version": "1.0.0"}}]}
{"schema": "olm.bundle", "name": "p.v2", "package": "p", "image": "q.io/p:2", "properties": [
 {"type": "olm.package", "value": {"packageName": "p", "version": "2.0.0+build.1"}},
 {"type": "olm.gvk", "value": {"group": "g", "kind": "K", "version": "v1"}},
 {"type": "olm.gvk.required", "value": {"group": "h", "kind": "L", "version": "v1"}},
 {"type": "olm.package.required", "value": {"packageName": "q", "versionRange": ">=1.0.0"}},
 {"type": "other", "value": [{"deep": [1, 2, {"x": "y"}]}]}],
 "relatedImages": [{"name": "", "image": "q.io/r:1"}, {"image": "q.io/\u0073:1"}, null_placeholder]}
{"schema": "custom", "package": "p", "entries": 7}
{"schema": "custom", "properties": "what it likes"}
"#;

#[test]
fn one_file_and_many_in_json_and_yaml_read_alike() {
    let json = JSON.replace(", null_placeholder", "");
    let documents: Vec<String> = serde_json::Deserializer::from_str(&json)
        .into_iter::<serde_json::Value>()
        .map(|document| document.unwrap().to_string())
        .collect();
    let names: Vec<String> = (0..documents.len()).map(|n| format!("f{n}/x")).collect();
    let many: Vec<(&str, &str)> =
        names.iter().zip(&documents).map(|(name, text)| (name.as_str(), text.as_str())).collect();
    let yaml = format!("---\n{}\n", documents.join("\n---\n"));
    let one = [("catalog.json", json.as_str())];
    let as_yaml = [("index.yaml", yaml.trim_start_matches('{'))];
    for list in [&one[..], &many[..], &as_yaml[..]] {
        let files = files(list).unwrap();
        let catalog = Catalog::load(&files).unwrap();
        let package = &catalog.packages["p"];
        assert_eq!(flaws(package), []);
        assert_eq!(package.default_channel(), Some("stable"));
        let entry = &package.channels["stable"].entries[1];
        assert_eq!(entry.replaces.as_deref(), Some("p.v1"));
        assert_eq!(entry.skips.iter().map(|s| &**s).collect::<Vec<_>>(), ["p.v0"]);
        assert_eq!(entry.skip_range.as_deref(), Some("<2.0.0"));
        let bundle = &package.bundles["p.v2"];
        assert_eq!(bundle.version.as_ref().unwrap().to_string(), "2.0.0+build.1");
        assert_eq!(&*bundle.related_images[1].image, "q.io/s:1");
        assert_eq!(&*bundle.provides[0].kind, "K");
        assert!(matches!(&bundle.requires[1], Requirement::Package { name, .. } if &**name == "q"));
        assert_eq!((package.others.len(), catalog.loose.len()), (1, 1));
    }
}

#[test]
fn keys_are_read_in_any_case() {
    let text =
        r#"{"Schema": "olm.channel", "Package": "p", "NAME": "c", "Entries": [{"Name": "e"}]}"#;
    let files = files(&[("x", text)]).unwrap();
    let catalog = Catalog::load(&files).unwrap();
    assert_eq!(&*catalog.packages["p"].channels["c"].entries[0].name, "e");
}

#[test]
fn what_cannot_be_read_is_reported_with_file_line_and_column() {
    for (path, text, expected) in [
        ("a.json", "{\"schema\": \"x\"}\n{\"schema\": ]}", "a.json:2:12: not a document"),
        (
            "a.json",
            "{\"schema\": \"x\"}  {\"a\": 1}",
            "a.json:1:18: not a document of a catalog: missing field `schema`",
        ),
        ("a.json", "{\"schema\": \"x\"", "a.json:1:14: not a document of a catalog: EOF"),
        (
            "a.json",
            "{\"schema\": \"x\"}\n[1]\n",
            "a.json:2:1: not a document of a catalog: invalid type: sequence, expected a document of a catalog, which is a map",
        ),
        (
            "a.json",
            "{\"schema\": \"x\", \"Schema\": \"y\"}",
            "a.json:1:24: not a document of a catalog: the key \"schema\" comes twice",
        ),
        (
            "a.json",
            "{\"schema\": \"olm.bundle\", \"properties\": 7}",
            "a.json:1:40: not a document of a catalog: invalid type: integer `7`, expected a list",
        ),
        (
            "a.yaml",
            "schema: x\n---\n\nschema: olm.bundle\nname: 5\n",
            "a.yaml:4:1: not a document of a catalog: invalid type: integer `5`, expected text",
        ),
        ("a.yaml", "- 1\n", "a.yaml:1:1: not a document"),
    ] {
        let output = refused(path, text);
        assert!(output.starts_with(expected), "{text}\n found:    {output}\n expected: {expected}");
    }
}

#[test]
fn nesting_without_end_neither_overflows_nor_takes_long() {
    let deep = "[".repeat(3_000_000);
    let text = format!("{{\"schema\": \"x\", \"a\": {deep}{}}}", "]".repeat(3_000_000));
    let files = files(&[("x.json", &text)]).unwrap();
    assert_eq!(Catalog::load(&files).unwrap().loose.len(), 1);
    let cut = format!("{{\"schema\": \"x\", \"a\": {deep}");
    assert!(refused("x.json", &cut).contains("EOF"));
}

#[test]
fn lists_without_end_are_refused() {
    let images = vec!["{}"; 200_001].join(",");
    let text = format!("{{\"schema\": \"olm.bundle\", \"relatedImages\": [{images}]}}");
    assert!(refused("x.json", &text).contains("more than 200000 items"));
    let text = format!("{{\"schema\": \"olm.channel\", \"entries\": [{images}]}}");
    assert!(refused("x.json", &text).contains("more than 200000 items"));
}

/// Every mistake that concerns one package is a flaw of that package, and of no other.
#[test]
fn mistakes_of_a_package_are_its_flaws() {
    let bundle = |name: &str, version: &str| {
        format!(
            "{{\"schema\":\"olm.bundle\",\"package\":\"p\",\"name\":\"{name}\",\"image\":\"q.io/x:1\",\
             \"properties\":[{{\"type\":\"olm.package\",\"value\":{{\"packageName\":\"p\",\"version\":\"{version}\"}}}}]}}"
        )
    };
    let package = "{\"schema\":\"olm.package\",\"name\":\"p\",\"defaultChannel\":\"c\"}";
    let channel = |entries: &str| {
        format!(
            "{{\"schema\":\"olm.channel\",\"package\":\"p\",\"name\":\"c\",\"entries\":[{entries}]}}"
        )
    };
    let good = [package.to_owned(), channel("{\"name\":\"b\"}"), bundle("b", "1.0.0")];
    let with = |more: &[String]| [&good[..], more].concat().join("\n");
    let instead = |channel: String| {
        [package.to_owned(), channel, bundle("b", "1.0.0"), bundle("d", "2.0.0")].join("\n")
    };
    for (text, expected) in [
        (with(&[]), ""),
        (with(&[package.to_owned()]), "the package is defined twice"),
        (with(&[channel("")]), "the channel \"c\" is defined twice"),
        (with(&[bundle("b", "3.0.0")]), "the bundle \"b\" is defined twice"),
        (with(&[bundle("d", "3.0.0")]), "the bundle \"d\" is in no channel"),
        (instead(channel("{\"name\":\"b\"}, {\"name\":\"d\"}")), "the channel \"c\" has several heads, which nothing replaces or skips: b, d"),
        (instead(channel("{\"name\":\"b\",\"replaces\":\"d\"}, {\"name\":\"d\",\"replaces\":\"b\"}")), "the channel \"c\" has no head"),
        (instead(channel("{\"name\":\"b\"}, {\"name\":\"d\",\"replaces\":\"b\"}, {\"name\":\"e\",\"replaces\":\"d\"}")), "the channel \"c\" lists \"e\", but there is no such bundle"),
        (instead(channel("{\"name\":\"b\"}, {\"name\":\"d\",\"replaces\":\"b\",\"skipRange\":\"~1\"}")), "the channel \"c\" has the skipRange \"~1\" at \"d\", which cannot be read"),
        (instead(channel("{\"name\":\"b\"}, {\"name\":\"b\"}, {\"name\":\"d\",\"replaces\":\"b\"}")), "the channel \"c\" lists \"b\" twice"),
        (good[1..].join("\n"), "the package itself is not defined"),
        (with(&["{\"schema\":\"olm.deprecations\",\"package\":\"p\",\"entries\":[{\"reference\":{\"schema\":\"olm.bundle\",\"name\":\"z\"},\"message\":\"m\"}]}".to_owned()]), "olm.bundle \"z\" is deprecated, but does not exist"),
        ([package, &channel("{\"name\":\"b\"}"), &bundle("b", "v1")].join("\n"), "the version \"v1\" of the bundle \"b\" is not a semantic version"),
        ([package, &channel("{\"name\":\"b\"}"), &bundle("b", "1.0.0").replace("packageName\":\"p", "packageName\":\"z")].join("\n"), "the bundle \"b\" declares the package \"z\""),
        ([package, &channel("{\"name\":\"b\"}"), &bundle("b", "1.0.0").replace("q.io/x:1", "")].join("\n"), "the bundle \"b\" has neither an image nor objects"),
        ([package, &channel("{\"name\":\"b\"}"), &bundle("b", "1.0.0").replace("olm.package\"", "x\"")].join("\n"), "the bundle \"b\" has 0 olm.package properties"),
        ([&package.replace("\"c\"", "\"z\""), &channel("{\"name\":\"b\"}"), &bundle("b", "1.0.0")].map(|t: &String| t.clone()).join("\n"), "its default channel \"z\" does not exist"),
        ([package, &channel("{\"name\":\"b\"},{\"name\":\"d\",\"replaces\":\"b\"}"), &bundle("b", "1.0.0"), &bundle("d", "1.0.0")].join("\n"), "the bundles b and d have the same version 1.0.0"),
    ] {
        let files = files(&[("c.json", &text)]).unwrap();
        let catalog = Catalog::load(&files).unwrap();
        let found = flaws(&catalog.packages["p"]);
        let output: Vec<String> = found.iter().map(Flaw::to_string).collect();
        match expected {
            "" => assert_eq!(output, [""; 0], "{text}"),
            expected => assert!(output.iter().any(|flaw| flaw.starts_with(expected)), "{text}\n{output:?}"),
        }
    }
    let files = files(&[(
        "c.json",
        "{\"schema\":\"olm.package\",\"name\":\"../x\",\"defaultChannel\":\"c\"}",
    )])
    .unwrap();
    let catalog = Catalog::load(&files).unwrap();
    assert!(flaws(&catalog.packages["../x"]).contains(&Flaw::Name));
}
