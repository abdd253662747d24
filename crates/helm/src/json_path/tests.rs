use super::*;
use crate::yaml;

/// The examples of kubectl's documentation, and the ways in which image paths are written.
const DOCUMENT: &str = "
kind: List
items:
- kind: None
  metadata: {name: 127.0.0.1, labels: {kubernetes.io/hostname: a}}
  status: {capacity: {cpu: '4'}, addresses: [{type: LegacyHostIP, address: 127.0.0.1}]}
- kind: None
  metadata: {name: 127.0.0.2}
  status: {capacity: {cpu: '8'}, addresses: [{type: LegacyHostIP, address: 127.0.0.2}, {type: another, address: 127.0.0.3}]}
users:
- {name: myself, user: {}}
- {name: e2e, user: {username: admin, password: secret}, port: 80, active: true}
env:
- {name: IMAGE, value: 'quay.io/a:1 quay.io/b:2'}
";

fn found(path: &str) -> Vec<String> {
    let root = yaml::read(DOCUMENT).unwrap();
    let path = JsonPath::parse(path).unwrap_or_else(|e| panic!("{path}: {e}"));
    let found = path.find(&root);
    found.iter().map(|found| found.node.text().unwrap_or("(none)").to_owned()).collect()
}

#[test]
fn paths_lead_where_kubectl_documents_it() {
    for (path, expected) in [
        ("{.kind}", &["List"][..]),
        ("{['kind']}", &["List"]),
        ("{[\"kind\"]}", &["List"]),
        ("kind", &["List"]),
        ("$.kind", &["List"]),
        ("{@.kind}", &["List"]),
        ("{..name}", &["127.0.0.1", "127.0.0.2", "myself", "e2e", "IMAGE"]),
        ("{.items[*].metadata.name}", &["127.0.0.1", "127.0.0.2"]),
        ("{.users[0].name}", &["myself"]),
        ("{.users[-1].name}", &["e2e"]),
        ("{.users[0:2].name}", &["myself", "e2e"]),
        ("{.users[-2:].name}", &["myself", "e2e"]),
        ("{.users[::2].name}", &["myself"]),
        ("{.users[:1].name}", &["myself"]),
        ("{.users[5].name}", &[]),
        (
            "{.items[*]['metadata.name', 'status.capacity']}",
            &["127.0.0.1", "(none)", "127.0.0.2", "(none)"],
        ),
        ("{.items[*]['kind', 'nothing']}", &["None", "None"]),
        ("{.items[0,1].metadata.name}", &["127.0.0.1", "127.0.0.2"]),
        (r#"{.users[?(@.name=="e2e")].user.password}"#, &["secret"]),
        (r#"{.users[?(@.name!='e2e')].name}"#, &["myself"]),
        ("{.users[?(@.port>=80)].name}", &["e2e"]),
        ("{.users[?(@.port<80)].name}", &[]),
        ("{.users[?(@.active==true)].name}", &["e2e"]),
        ("{.users[?(@.port)].name}", &["e2e"]),
        (r"{.items[*].metadata.labels.kubernetes\.io/hostname}", &["a"]),
        ("{.items[*].metadata.labels['kubernetes.io/hostname']}", &["a"]),
        ("{.items[0].metadata.*}", &["127.0.0.1", "(none)"]),
        (
            "{range .items[*]}{.metadata.name}{\"\\t\"}{.kind}{end}",
            &["127.0.0.1", "None", "127.0.0.2", "None"],
        ),
        ("{.items[*].status.addresses[?(@.type=='another')].address}", &["127.0.0.3"]),
        ("{.nothing.at.all}", &[]),
        ("{.kind.below}", &[]),
        ("{.kind[0]}", &[]),
        ("{.env[?(@.name=='IMAGE')].value}", &["quay.io/a:1 quay.io/b:2"]),
    ] {
        assert_eq!(found(path), expected, "{path}");
    }
}

#[test]
fn the_path_to_a_value_is_returned() {
    let root = yaml::read(DOCUMENT).unwrap();
    let path = JsonPath::parse("{..labels.*}").unwrap();
    let found = path.find(&root);
    assert_eq!(found[0].path, "items[0].metadata.labels['kubernetes.io/hostname']");
    assert_eq!(found[0].node.at.line, 5);
}

#[test]
fn what_is_not_a_path_is_an_error() {
    for (path, expected) in [
        ("", "empty"),
        ("{.a", "not closed"),
        ("{.a[0}", "`[` is not closed"),
        ("{.a[b]}", "\"b\" is not an index"),
        ("{.a[?(@.b=='c')}", "not closed"),
        ("{.a[?(@.b=c)]}", "not a comparison"),
        ("{....a}", "followed by"),
        ("{.a['b]}", "not closed"),
        ("{range .a}{.b}", "without"),
        ("{end}", "without"),
        ("{hello}", "\"hello\" is not expected"),
    ] {
        let error = JsonPath::parse(path).unwrap_err().to_string();
        assert!(error.contains(expected), "{path}: {error}");
    }
    let long = format!("{{.{}}}", "a".repeat(2000));
    assert_eq!(JsonPath::parse(&long).unwrap_err(), JsonPathError::Long(1024));
}
