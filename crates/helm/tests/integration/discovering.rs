//! Which images are found, where they are named, and what is reported about charts that are wrong.

use std::collections::BTreeMap;

use helm::Chart;
use helm::capabilities::ApiSet;
use helm::discover::{Cause, Discovery, Options, images};
use helm::images::Origin;
use serde_json::{Map, json};

const TOP: &str = "apiVersion: v2\nname: top\nversion: 1.0.0\nappVersion: 2.0.0\n";

fn chart(files: &[(&str, &str)]) -> Chart {
    let files = files.iter().map(|(name, text)| ((*name).to_owned(), text.as_bytes().to_vec()));
    let mut all: BTreeMap<String, Vec<u8>> = files.collect();
    all.entry("Chart.yaml".to_owned()).or_insert_with(|| TOP.into());
    Chart::from_folder(&all).expect("a chart")
}

fn discover(files: &[(&str, &str)]) -> Discovery {
    images(&chart(files), &Map::new(), &Options::default()).expect("a chart that can be searched")
}

fn names(discovery: &Discovery) -> Vec<String> {
    discovery.images.keys().map(ToString::to_string).collect()
}

#[test]
fn branches_for_either_set_of_apis_are_covered() {
    let template = "kind: Pod\nspec:\n  containers:\n  {{- if .Capabilities.APIVersions.Has \
                    \"route.openshift.io/v1\" }}\n  - {name: a, image: 'q/openshift:1'}\n  {{- else }}\n  \
                    - {name: a, image: 'q/plain:1'}\n  {{- end }}\n";
    let found = discover(&[("templates/a.yaml", template)]);
    assert_eq!(names(&found), ["docker.io/q/openshift:1", "docker.io/q/plain:1"]);
    assert_eq!(found.problems, []);
}

#[test]
fn every_image_has_its_origin() {
    let template = "{{- if true }}\nkind: Deployment\nmetadata:\n  name: web\nspec:\n  template:\n    \
                    spec:\n      containers:\n      - name: web\n        image: \"{{ \
                    .Values.image.repository }}:{{ .Values.image.tag }}\"\n{{- end }}\n";
    let found = discover(&[
        ("templates/web.yaml", template),
        (
            "values.yaml",
            "image: {repository: quay.io/a/web, tag: v1}\nother: {repository: quay.io/a/b, tag: 2}\n",
        ),
        (
            "Chart.yaml",
            &format!("{TOP}annotations:\n  helm.sh/images: '[{{image: \"q/listed:1\"}}]'\n"),
        ),
    ]);
    assert_eq!(names(&found), ["docker.io/q/listed:1", "quay.io/a/web:v1"]);
    let origins: Vec<&Origin> = found.images.values().flatten().collect();
    assert_eq!(origins[0], &Origin::Annotation { chart: "top".into(), key: "helm.sh/images" });
    let Origin::Document { file, line, object, path, values, .. } = origins[1] else {
        panic!("{:?}", origins[1]);
    };
    assert_eq!((file.as_str(), *line), ("top/templates/web.yaml", Some(10)));
    assert_eq!(object, "Deployment/web");
    assert_eq!(path, "spec.template.spec.containers[0].image");
    assert_eq!(values, &["image.repository", "image.tag"]);
    let candidates: Vec<String> = found.candidates.iter().map(|c| c.image.to_string()).collect();
    assert_eq!(candidates, ["quay.io/a/b:2"]);
}

#[test]
fn images_that_templates_put_together_have_their_line_and_values() {
    let helpers = "{{ define \"top.image\" }}{{ printf \"%s/%s:v%s\" .Values.image.registry \
                   .Values.image.repository (.Values.image.tag | default .Chart.AppVersion) }}{{ end }}\n";
    let template = "kind: Pod
metadata: {name: a}
spec:
  containers:
  - name: a
    image: {{ include \"top.image\" . }}
  {{- with .Values.side.image }}
  - name: b
    image: \"{{ .registry }}/{{ .name }}:{{ .tag }}\"
  {{- end }}
  {{- $tag := .Values.third.tag | default .Chart.AppVersion }}
  - name: c
    image: {{ .Values.third.repository }}:{{ $tag }}
  - name: d
    image: {{ index .Values \"the-fourth\" \"image\" }}
  - name: e
    image: quay.io/a/fixed:1
  {{- toYaml .Values.extra | nindent 2 }}
";
    let values = "image: {registry: quay.io, repository: a/web, tag: '1.5'}
side: {image: {registry: quay.io, name: a/side, tag: '7'}}
third: {repository: quay.io/a/third, tag: v3}
the-fourth: {image: 'quay.io/a/fourth:4'}
extra: [{name: x, image: 'quay.io/a/extra:5'}]
unused: {image: {repository: quay.io/a/unused, tag: '6'}}
";
    let found = discover(&[
        ("templates/_helpers.tpl", helpers),
        ("templates/a.yaml", template),
        ("values.yaml", values),
    ]);
    let line = |image: &str| {
        let origins = &found.images[&image.parse().unwrap()];
        let [Origin::Document { line, values, .. }] = &origins[..] else { panic!("{origins:?}") };
        (line.unwrap(), values.join(" "))
    };
    for (image, at, values) in [
        ("quay.io/a/web:v1.5", 6, "image.registry image.repository image.tag"),
        ("quay.io/a/side:7", 9, "side.image.name side.image.registry side.image.tag"),
        ("quay.io/a/third:v3", 13, "third.repository third.tag"),
        ("quay.io/a/fourth:4", 15, "the-fourth.image"),
        ("quay.io/a/fixed:1", 17, ""),
        ("quay.io/a/extra:5", 18, "extra"),
    ] {
        assert_eq!(line(image), (at, values.to_owned()), "{image}");
    }
    // Of the values, only those are candidates that no template uses.
    let candidates: Vec<String> = found.candidates.iter().map(|c| c.image.to_string()).collect();
    assert_eq!(candidates, ["quay.io/a/unused:6"]);
}

#[test]
fn values_of_the_user_reach_the_templates() {
    let chart = chart(&[(
        "templates/a.yaml",
        "kind: Pod\nspec: {containers: [{name: a, image: {{ .Values.image }}}]}\n",
    )]);
    let values = json!({"image": "q/mine:1"});
    let found = images(&chart, values.as_object().unwrap(), &Options::default()).unwrap();
    assert_eq!(names(&found), ["docker.io/q/mine:1"]);
}

#[test]
fn a_template_that_fails_leaves_the_others() {
    let found = discover(&[
        ("templates/a.yaml", "kind: Pod\nspec: {containers: [{name: a, image: 'q/a:1'}]}\n"),
        ("templates/b.yaml", "kind: Pod\nx: {{ .Values.a.b }}\n"),
        ("templates/c.yaml", "kind: [\n"),
        ("templates/d.yaml", "kind: Pod\nspec: {containers: [{name: a, image: 'Not An Image'}]}\n"),
    ]);
    assert_eq!(names(&found), ["docker.io/q/a:1"]);
    let problems: Vec<String> = found.problems.iter().map(ToString::to_string).collect();
    assert_eq!(problems.len(), 3, "{problems:#?}");
    assert!(problems[0].starts_with("top/templates/b.yaml:2: the template cannot"), "{problems:?}");
    assert!(problems[1].starts_with("top/templates/c.yaml: the rendered text"), "{problems:?}");
    assert!(problems[2].contains("\"Not An Image\", which is not an image"), "{problems:?}");
    assert!(found.problems.iter().all(|problem| problem.cause.hides_images()));
}

#[test]
fn required_values_are_named() {
    let found = discover(&[
        (
            "templates/a.yaml",
            "kind: Pod\nx: {{ required \"a host is needed\" .Values.ingress.host }}\n",
        ),
        ("values.yaml", "ingress: {}\n"),
    ]);
    let expected = Cause::Required {
        reason: "a host is needed".to_owned(),
        values: vec!["ingress.host".to_owned()],
    };
    assert_eq!(found.problems[0].cause, expected);
    assert_eq!(
        found.problems[0].to_string(),
        "top/templates/a.yaml:2: the chart requires values (ingress.host): a host is needed"
    );
}

#[test]
fn templates_that_loop_or_grow_without_limit_end() {
    for template in [
        "{{ define \"x\" }}{{ include \"x\" . }}{{ end }}{{ include \"x\" . }}",
        "{{ range until 100000 }}{{ range until 100000 }}a{{ end }}{{ end }}",
        "{{ $x := \"aaaaaaaa\" }}{{ range until 60 }}{{ $x = print $x $x }}{{ end }}{{ $x }}",
        "{{ repeat 2000000000 \"aaaaaaaaaaaaaaaa\" }}",
    ] {
        // Small limits, because the tests are not optimised.
        let mut options = Options { api_sets: vec![ApiSet::Plain], ..Options::default() };
        options.rendering.limits.steps = 100_000;
        options.rendering.limits.value_size = 1 << 20;
        let chart = chart(&[("templates/a.yaml", template)]);
        let found = images(&chart, &Map::new(), &options).expect("a chart that can be searched");
        let problem = &found.problems[0];
        assert_eq!(problem.file.as_deref(), Some("top/templates/a.yaml"), "{template}");
        assert!(problem.cause.hides_images(), "{template}: {problem}");
    }
}

#[test]
fn what_keeps_a_chart_from_being_searched_is_an_error() {
    let declared = format!("{TOP}dependencies: [{{name: db, version: 1.0.0}}]\n");
    let missing = chart(&[("Chart.yaml", &declared)]);
    let error = images(&missing, &Map::new(), &Options::default()).unwrap_err();
    assert!(error.to_string().contains("not in charts/: db"), "{error}");

    let top = chart(&[("charts/db/Chart.yaml", "name: db\nversion: 1.0.0\n")]);
    let values = json!({"db": "text"});
    let error = images(&top, values.as_object().unwrap(), &Options::default()).unwrap_err();
    assert!(error.to_string().contains("\"db\" is text, expected a map"), "{error}");

    let options = Options { image_paths: vec!["{.a[".to_owned()], ..Options::default() };
    let error = images(&top, &Map::new(), &options).unwrap_err();
    assert!(error.to_string().contains("\"{.a[\" is not a JSONPath"), "{error}");
}

#[test]
fn a_chart_for_another_kubernetes_is_searched_with_a_warning() {
    let found = discover(&[
        ("Chart.yaml", &format!("{TOP}kubeVersion: <1.20.0\n")),
        ("templates/a.yaml", "kind: Pod\nspec: {containers: [{name: a, image: 'q/a:1'}]}\n"),
    ]);
    assert_eq!(names(&found), ["docker.io/q/a:1"]);
    let problem = found.problems[0].to_string();
    assert!(problem.contains("requires Kubernetes <1.20.0, rendered for v1.34.0"), "{problem}");
    assert!(!found.problems[0].cause.hides_images());
}

#[test]
fn a_library_chart_has_no_images() {
    let found = discover(&[
        ("Chart.yaml", &format!("{TOP}type: library\n")),
        ("templates/a.yaml", "kind: Pod\nspec: {containers: [{name: a, image: 'q/a:1'}]}\n"),
    ]);
    assert_eq!((names(&found), found.problems), (vec![], vec![]));
}
