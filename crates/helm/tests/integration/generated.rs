//! Charts made here, each for one feature, compared with real Helm: so the comparison means something
//! without the data.

use std::path::Path;

use crate::comparison::{differences, images_of, ours, reference};

fn write(folder: &Path, files: &[(&str, &str)]) {
    for (name, text) in files {
        let file = folder.join(name);
        std::fs::create_dir_all(file.parent().expect("a parent")).expect("a folder");
        std::fs::write(file, text).expect("a file");
    }
}

/// Renders with both and compares. Gives the images, which are the same in both.
fn compared(files: &[(&str, &str)], values: &str) -> Vec<String> {
    let folder = tempfile::tempdir().expect("a folder");
    write(folder.path(), files);
    let expected = reference(folder.path(), values).unwrap_or_else(|e| panic!("Helm fails: {e}"));
    let found = ours(folder.path(), values).unwrap_or_else(|e| panic!("we fail: {e}"));
    assert_eq!(differences(&expected, &expected, &found), [""; 0], "{values}");
    assert_eq!(images_of(&expected), images_of(&found));
    images_of(&found).into_iter().collect()
}

const TOP: &str = "apiVersion: v2\nname: top\nversion: 1.0.0\nappVersion: 2.0.0\n";

const POD: &str = "apiVersion: v1\nkind: Pod\nmetadata:\n  name: {{ .Release.Name }}-{{ .Chart.Name \
                   }}\nspec:\n  containers:\n  - name: a\n    image: {{ .Values.image | quote }}\n  \
                   # {{ .Template.Name }} {{ .Template.BasePath }}\n";

#[test]
fn sub_charts_aliases_conditions_and_tags() {
    let top = format!(
        "{TOP}dependencies:\n- {{name: sub, version: ~1.0, alias: one, condition: \
         one.enabled,all.enabled}}\n- {{name: sub, version: ~1.0, alias: two, tags: [back]}}\n- \
         {{name: deep, version: '>=0.1.0-0'}}\n"
    );
    let files = [
        ("Chart.yaml", top.as_str()),
        ("values.yaml", "image: q/top:1\none: {image: q/one:1}\nglobal: {x: {y: {z: 1}}}\n"),
        ("templates/pod.yaml", POD),
        ("templates/values.yaml", "kind: V\nall: {{ .Values | toJson | quote }}\n"),
        ("charts/sub/Chart.yaml", "apiVersion: v2\nname: sub\nversion: 1.0.3\n"),
        ("charts/sub/values.yaml", "image: q/sub:1\nglobal: {x: {y: {sub: 2}, w: 3}}\n"),
        ("charts/sub/templates/pod.yaml", POD),
        (
            "charts/deep/Chart.yaml",
            "apiVersion: v2\nname: deep\nversion: 0.1.0\ndependencies:\n- {name: sub, version: '*', \
             condition: sub.active}\n",
        ),
        ("charts/deep/values.yaml", "image: q/deep:1\nsub: {active: false}\n"),
        ("charts/deep/templates/pod.yaml", POD),
        ("charts/deep/charts/sub/Chart.yaml", "apiVersion: v2\nname: sub\nversion: 1.0.3\n"),
        ("charts/deep/charts/sub/values.yaml", "image: q/deepest:1\n"),
        ("charts/deep/charts/sub/templates/pod.yaml", POD),
    ];
    let all = compared(&files, "");
    let names =
        ["docker.io/q/deep:1", "docker.io/q/one:1", "docker.io/q/sub:1", "docker.io/q/top:1"];
    assert_eq!(all, names);
    for values in [
        "one: {enabled: false}",
        "all: {enabled: false}",
        "tags: {back: false}",
        "tags: {back: false}\ntwo: {enabled: true}",
        "deep: {sub: {active: true}}",
        "deep: {sub: {on: true}}",
        "deep: {sub: {active: true, image: ~}}",
        "image: ~",
        "global: {x: {y: ~}}",
        "global: {x: 3}",
        "global: {image: {registry: r}}\none: {global: {image: {registry: s, t: 1}}}",
        "one: {image: q/other:2, enabled: yes}",
    ] {
        compared(&files, values);
    }
}

#[test]
fn values_imported_from_sub_charts() {
    let top = format!(
        "{TOP}dependencies:\n- name: sub\n  version: 1.0.0\n  import-values:\n  - data\n  - {{child: \
         a.b, parent: imported.c}}\n  - nothing\n"
    );
    let files = [
        ("Chart.yaml", top.as_str()),
        ("values.yaml", "host: top\nimage: q/top:1\n"),
        ("templates/values.yaml", "kind: V\nall: {{ .Values | toJson | quote }}\n"),
        ("charts/sub/Chart.yaml", "apiVersion: v2\nname: sub\nversion: 1.0.0\n"),
        (
            "charts/sub/values.yaml",
            "exports: {data: {host: sub, port: 80, gone: ~}}\na: {b: {c: 1, d: ~}}\nimage: q/sub:1\n",
        ),
        ("charts/sub/templates/pod.yaml", POD),
    ];
    for values in ["", "port: ~", "sub: {a: {b: {c: 5}}}", "imported: {c: ~}"] {
        compared(&files, values);
    }
}

#[test]
fn tpl_lookup_files_and_capabilities() {
    let template = r#"
kind: ConfigMap
metadata: {name: x}
data:
  tpl: {{ tpl .Values.text . | quote }}
  lookup: {{ lookup "v1" "Secret" "ns" "name" | toJson | quote }}
  get: {{ .Files.Get "config/a.conf" | quote }}
  missing: {{ .Files.Get "nothing" | quote }}
  lines: {{ .Files.Lines "config/a.conf" | toJson | quote }}
{{ (.Files.Glob "config/*").AsConfig | indent 2 }}
  has: {{ .Capabilities.APIVersions.Has "apps/v1" }}
  route: {{ .Capabilities.APIVersions.Has "route.openshift.io/v1" }}
  kube: {{ .Capabilities.KubeVersion.Version }} {{ .Capabilities.KubeVersion.Minor }}
  compare: {{ semverCompare ">=1.30-0" .Capabilities.KubeVersion.GitVersion }}
  release: {{ .Release.Name }} {{ .Release.Namespace }} {{ .Release.IsInstall }} {{ .Release.Service }} {{ .Release.Revision }}
  chart: {{ .Chart.Name }} {{ .Chart.Version }} {{ .Chart.AppVersion }} {{ .Chart.IsRoot }} {{ .Chart.Type | quote }}
  maintainers: {{ range .Chart.Maintainers }}{{ .Name }} {{ end }}
  sub: {{ .Subcharts | toJson | quote }}
  number: {{ .Values.number }} {{ .Values.big }} {{ .Values.float }}
"#;
    let top = format!("{TOP}maintainers: [{{name: A}}, {{name: B}}]\n");
    let files = [
        ("Chart.yaml", top.as_str()),
        (
            "values.yaml",
            "text: '{{ .Values.image }}-{{ include \"top.name\" . }}'\nimage: q/a:1\nnumber: 8080\nbig: \
             12345678\nfloat: 0.5\n",
        ),
        ("templates/_helpers.tpl", "{{- define \"top.name\" -}}named {{ .Chart.Name }}{{- end -}}"),
        ("templates/config.yaml", template),
        ("config/a.conf", "a = 1\nb = 2\n"),
        ("config/b.conf", "c"),
    ];
    compared(&files, "");
    compared(&files, "text: '{{ define \"x\" }}in{{ end }}{{ include \"x\" . }}'");
}

#[test]
fn hooks_cron_jobs_lists_crds_and_notes() {
    let hook = "apiVersion: batch/v1\nkind: Job\nmetadata:\n  name: h\n  annotations:\n    helm.sh/hook: \
                pre-install,post-upgrade\nspec:\n  template:\n    spec:\n      containers:\n      - {name: \
                a, image: 'q/hook:1'}\n---\napiVersion: v1\nkind: Pod\nmetadata:\n  name: t\n  \
                annotations:\n    helm.sh/hook: test\nspec:\n  containers:\n  - {name: a, image: \
                'q/test:1'}\n---\n# nothing here\n---\nkind: Pod\nmetadata:\n  name: u\n  annotations: \
                {helm.sh/hook: crd-install}\nspec: {containers: [{name: a, image: 'q/unknown:1'}]}\n";
    let cron = "apiVersion: batch/v1\nkind: CronJob\nmetadata: {name: c}\nspec:\n  jobTemplate:\n    \
                spec:\n      template:\n        spec:\n          initContainers: [{name: i, image: \
                'q/init:1'}]\n          containers: [{name: a, image: 'q/cron:1'}]\n";
    let list = "apiVersion: v1\nkind: List\nitems:\n- kind: Pod\n  spec: {containers: [{name: a, image: \
                'q/list:1'}]}\n- kind: Custom\n  spec: {pods: {spec: {containers: [{name: a, image: \
                'q/custom:1'}]}}}\n";
    let files = [
        ("Chart.yaml", TOP),
        ("templates/hook.yaml", hook),
        ("templates/cron.yaml", cron),
        ("templates/list.yaml", list),
        ("templates/NOTES.txt", "Thank you: [not yaml"),
        ("templates/empty.yaml", "{{- if false }}\nkind: Pod\n{{- end }}\n"),
        ("crds/crd.yaml", "kind: CustomResourceDefinition\nmetadata: {name: a}\n---\nkind: B\n"),
        ("crds/README.md", "not read"),
    ];
    let images = compared(&files, "");
    let expected = ["cron", "custom", "hook", "init", "list", "test"];
    let expected: Vec<String> =
        expected.iter().map(|name| format!("docker.io/q/{name}:1")).collect();
    assert_eq!(images, expected);
}

#[test]
fn library_charts_offer_templates_only() {
    let top = format!("{TOP}dependencies:\n- {{name: lib, version: 1.x}}\n");
    let files = [
        ("Chart.yaml", top.as_str()),
        ("values.yaml", "image: q/top:1\n"),
        ("templates/a.yaml", "{{ include \"lib.pod\" . }}"),
        ("charts/lib/Chart.yaml", "apiVersion: v2\nname: lib\nversion: 1.5.0\ntype: library\n"),
        (
            "charts/lib/templates/_pod.tpl",
            "{{ define \"lib.pod\" }}kind: Pod\nspec: {containers: [{name: a, image: {{ .Values.image \
             }}}]}\n{{ end }}",
        ),
        (
            "charts/lib/templates/ignored.yaml",
            "kind: Pod\nspec: {containers: [{image: 'q/not:1'}]}\n",
        ),
    ];
    assert_eq!(compared(&files, ""), ["docker.io/q/top:1"]);
}

#[test]
fn requirements_of_the_first_format_and_archives_in_charts() {
    let packed = tempfile::tempdir().expect("a folder");
    write(
        packed.path(),
        &[
            ("db/Chart.yaml", "apiVersion: v1\nname: db\nversion: 3.1.0\n"),
            ("db/values.yaml", "image: q/db:3\n"),
            ("db/templates/pod.yaml", POD),
        ],
    );
    let top = tempfile::tempdir().expect("a folder");
    write(
        top.path(),
        &[
            ("Chart.yaml", "apiVersion: v1\nname: top\nversion: 1.0.0\n"),
            (
                "requirements.yaml",
                "dependencies:\n- {name: db, version: ^3, condition: db.enabled}\n",
            ),
            ("values.yaml", "image: q/top:1\n"),
            ("templates/pod.yaml", POD),
            (".helmignore", "ignored.yaml\n"),
            ("templates/ignored.yaml", "kind: Pod\nspec: {containers: [{image: 'q/not:1'}]}\n"),
        ],
    );
    std::fs::create_dir(top.path().join("charts")).expect("a folder");
    let packed = std::process::Command::new("tar")
        .arg("-czf")
        .arg(top.path().join("charts/db-3.1.0.tgz"))
        .arg("-C")
        .arg(packed.path())
        .arg("db")
        .status();
    assert!(packed.expect("tar runs").success());
    for (values, count) in [("", 2), ("db: {enabled: false}", 1), ("db: {image: q/other:1}", 2)] {
        let expected = reference(top.path(), values).expect("Helm renders");
        let found = ours(top.path(), values).expect("we render");
        assert_eq!(differences(&expected, &expected, &found), [""; 0], "{values}");
        assert_eq!((images_of(&found), images_of(&found).len()), (images_of(&expected), count));
    }
}

/// What is wrong, the files of the chart, values, and a part of the error.
type Case<'a> = (&'a str, &'a [(&'a str, &'a str)], &'a str, &'a str);

/// What Helm refuses, we refuse, and for the same reason.
#[test]
fn what_helm_refuses_is_an_error() {
    let declared = format!("{TOP}dependencies:\n- {{name: db, version: 1.0.0}}\n");
    let cases: [Case<'_>; 6] = [
        ("a missing sub-chart", &[("Chart.yaml", &declared)], "", "db"),
        (
            "a required value",
            &[
                ("Chart.yaml", TOP),
                ("templates/a.yaml", "x: {{ required \"set it\" .Values.it }}\n"),
            ],
            "",
            "set it",
        ),
        (
            "a template that fails",
            &[("Chart.yaml", TOP), ("templates/a.yaml", "x: 1\ny: {{ fail \"no way\" }}\n")],
            "",
            "no way",
        ),
        (
            "a template that cannot be parsed",
            &[("Chart.yaml", TOP), ("templates/a.yaml", "x: {{ if }}\n")],
            "",
            "a.yaml",
        ),
        (
            "a field of nothing",
            &[("Chart.yaml", TOP), ("templates/a.yaml", "x: {{ .Values.a.b.c }}\n")],
            "",
            "nil pointer",
        ),
        ("values that are not a map", &[("Chart.yaml", TOP)], "- a\n", ""),
    ];
    for (what, files, values, reason) in cases {
        let folder = tempfile::tempdir().expect("a folder");
        write(folder.path(), files);
        let error = reference(folder.path(), values).expect_err(what);
        assert!(error.contains(reason), "{what}: Helm: {error}");
        let error = ours(folder.path(), values).expect_err(what);
        assert!(error.contains(reason), "{what}: {error}");
    }
}
