use serde_json::json;

use super::*;
use crate::chart::Chart;
use crate::{documents, values};

fn document(text: &str) -> Document {
    documents::read("c/templates/a.yaml", text).remove(0).unwrap()
}

fn texts(text: &str, paths: &[&str], environment: &[&str]) -> Vec<(String, String)> {
    let document = document(text);
    let path = |text: &&str| ((*text).to_owned(), JsonPath::parse(text).unwrap());
    let paths: Vec<_> = paths.iter().map(path).collect();
    let environment: Vec<String> = environment.iter().map(|name| (*name).to_owned()).collect();
    let named = named(&document, &paths, &environment);
    named.into_iter().map(|named| (named.text.to_owned(), named.path)).collect()
}

#[test]
fn images_are_found_in_every_kind_that_has_pods() {
    for (text, expected) in [
        ("kind: Pod\nspec:\n  containers: [{name: a, image: q/a:1}]\n", "spec.containers[0].image"),
        (
            "kind: Deployment\nspec: {template: {spec: {initContainers: [{name: a, image: q/a:1}]}}}",
            "spec.template.spec.initContainers[0].image",
        ),
        (
            "kind: CronJob\nspec: {jobTemplate: {spec: {template: {spec: {containers: [{name: a, \
             image: q/a:1}]}}}}}",
            "spec.jobTemplate.spec.template.spec.containers[0].image",
        ),
        (
            "kind: List\nitems: [{kind: Pod, spec: {containers: [{name: a, image: q/a:1}]}}]",
            "items[0].spec.containers[0].image",
        ),
        (
            "kind: Workflow\nspec: {deep: [{podSpec: {containers: [{name: a, image: q/a:1}]}}]}",
            "spec.deep[0].podSpec.containers[0].image",
        ),
        (
            "kind: Pod\nspec: {volumes: [{name: v, image: {reference: 'q/a:1'}}]}",
            "spec.volumes[0].image.reference",
        ),
    ] {
        assert_eq!(texts(text, &[], &[]), [("q/a:1".to_owned(), expected.to_owned())], "{text}");
    }
}

#[test]
fn what_only_has_the_name_of_containers_is_none() {
    for text in [
        "kind: X\nspec: {containers: {name: a, image: q/a:1}}",
        "kind: X\nspec: {containers: [a, b]}",
        "kind: X\nspec: {image: q/a:1}",
        "kind: Pod\nspec: {containers: [{name: a, image: ''}]}",
    ] {
        assert_eq!(texts(text, &[], &[]), [], "{text}");
    }
}

#[test]
fn image_paths_and_named_variables_add_images() {
    let text = "kind: Pod\nspec:\n  containers:\n  - name: a\n    env:\n    - {name: SIDE, value: \
                'q/s:1 q/t:2'}\n    - {name: ONE, value: 'q/o:1'}\n";
    assert_eq!(texts(text, &[], &[]), []);
    let found = texts(text, &["{.spec.containers[*].env[?(@.name=='SIDE')].value}"], &["ONE"]);
    let texts: Vec<&str> = found.iter().map(|(text, _)| text.as_str()).collect();
    assert_eq!(texts, ["q/o:1", "q/s:1", "q/t:2"]);
    assert_eq!(found[0].1, "spec.containers[0].env[1].value");
}

fn chart(chart: &str, values: &str) -> Chart {
    let files = [
        ("Chart.yaml".to_owned(), chart.as_bytes().to_vec()),
        ("values.yaml".to_owned(), values.as_bytes().to_vec()),
        (
            "charts/db/Chart.yaml".to_owned(),
            b"name: db\nversion: 1.0.0\nappVersion: '9'\n".to_vec(),
        ),
        ("charts/db/values.yaml".to_owned(), b"image: {repository: q/db, tag: ''}\n".to_vec()),
    ];
    Chart::from_folder(&files.into()).unwrap()
}

#[test]
fn annotations_list_images() {
    let text = "apiVersion: v2\nname: c\nversion: 1.0.0\nannotations:\n  helm.sh/images: |\n    - \
                name: a\n      image: q/a:1\n    - q/b:2\n  artifacthub.io/images: '{}'\n";
    let (images, errors) = annotated(&chart(text, ""));
    let images: Vec<&str> = images.iter().map(|(_, _, image)| image.as_str()).collect();
    assert_eq!(images, ["q/a:1", "q/b:2"]);
    assert!(errors[0].to_string().contains("not a list of images: found a map"), "{errors:?}");
}

#[test]
fn values_that_look_like_images_are_candidates() {
    let chart = chart(
        "name: c\nversion: 1.0.0\nappVersion: 2.0.0\n",
        "image: {repository: quay.io/a/web, tag: v1, pullPolicy: Always}\n\
         side: {registry: quay.io, repository: a/side, tag: 3}\n\
         own: {repository: quay.io/a/own, pullPolicy: Always}\n\
         proxyImage: quay.io/a/proxy:1\n\
         baseImage: plain\n\
         git: {repository: https://example.com/x}\n\
         list: [{image: 'quay.io/a/listed:1'}]\n\
         pinned: {repository: quay.io/a/pin, digest: 'sha256:\
         0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef'}\n",
    );
    let values = values::coalesce(&chart, json!({}).as_object().unwrap()).unwrap();
    let found = candidates(&chart, &values);
    let found: Vec<(String, String)> =
        found.iter().map(|c| (c.image.to_string(), c.paths.join(" "))).collect();
    let found: Vec<(&str, &str)> = found.iter().map(|(i, p)| (i.as_str(), p.as_str())).collect();
    assert_eq!(
        found,
        [
            ("docker.io/q/db:9", "db.image"),
            ("quay.io/a/listed:1", "list[0].image"),
            ("quay.io/a/own:2.0.0", "own"),
            (
                "quay.io/a/pin@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
                "pinned"
            ),
            ("quay.io/a/proxy:1", "proxyImage"),
            ("quay.io/a/side:3", "side"),
            ("quay.io/a/web:v1", "image"),
        ]
    );
}
