use super::*;

fn conf(text: &str) -> RegistriesConf {
    RegistriesConf::parse(Path::new("registries.conf"), text).unwrap()
}

fn at(text: &str) -> Location {
    Location::from(&text.parse::<oci::ImageRef>().unwrap())
}

fn places(conf: &RegistriesConf, name: &str, kind: RequestKind) -> Vec<String> {
    let print = |place: PullSource| {
        format!("{}{}", place.at, if place.insecure { " insecure" } else { "" })
    };
    conf.sources(&at(name), kind).unwrap().into_iter().map(print).collect()
}

#[test]
fn mirrors_come_first_then_the_location_and_the_longest_prefix_wins() {
    let conf = conf(
        r#"
        unqualified-search-registries = ["docker.io"]
        short-name-mode = "enforcing"
        [[registry]]
        prefix = "quay.io/openshift"
        location = "inner.lan:5000/ocp"
        insecure = true
        [[registry.mirror]]
        location = "near.lan/cache"
        [[registry.mirror]]
        location = "digests.lan/d"
        pull-from-mirror = "digest-only"
        [[registry.mirror]]
        location = "tags.lan/t"
        insecure = true
        pull-from-mirror = "tag-only"
        [[registry]]
        location = "quay.io"
        "#,
    );
    let name = "quay.io/openshift/release";
    assert_eq!(
        places(&conf, name, RequestKind::Tag),
        [
            "near.lan/cache/release",
            "tags.lan/t/release insecure",
            "inner.lan:5000/ocp/release insecure"
        ]
    );
    assert_eq!(
        places(&conf, name, RequestKind::Digest),
        ["near.lan/cache/release", "digests.lan/d/release", "inner.lan:5000/ocp/release insecure"]
    );
    assert_eq!(places(&conf, name, RequestKind::Content).len(), 4);
    assert_eq!(places(&conf, "quay.io/openshift-x/y", RequestKind::Tag), ["quay.io/openshift-x/y"]);
    assert_eq!(places(&conf, "ghcr.io/a/b", RequestKind::Tag), ["ghcr.io/a/b"]);
    let destination = conf.destination(&at(name)).unwrap();
    assert_eq!(destination, PullSource { at: at("inner.lan:5000/ocp/release"), insecure: true });
}

#[test]
fn a_wildcard_matches_subdomains_only() {
    let conf = conf(
        r#"
        [[registry]]
        prefix = "*.example.com"
        [[registry.mirror]]
        location = "m.lan"
        [[registry]]
        prefix = "*.moved.org"
        location = "new.org/all"
        "#,
    );
    for (name, expected) in [
        ("a.example.com/x/y", &["m.lan/x/y", "a.example.com/x/y"][..]),
        ("a.b.example.com/x", &["m.lan/x", "a.b.example.com/x"]),
        ("example.com/x", &["example.com/x"]),
        ("a.example.com.evil.org/x", &["a.example.com.evil.org/x"]),
        ("evil.org/a.example.com/x", &["evil.org/a.example.com/x"]),
        ("r.moved.org/x/y", &["new.org/all/x/y"]),
    ] {
        assert_eq!(places(&conf, name, RequestKind::Tag), expected, "{name}");
    }
}

#[test]
fn docker_io_is_found_under_its_full_name_and_ports_belong_to_hosts() {
    let conf = conf(
        r#"
        [[registry]]
        location = "docker.io"
        [[registry.mirror]]
        location = "mirror.lan:5000/hub"
        [[registry]]
        location = "host"
        insecure = true
        "#,
    );
    assert_eq!(
        places(&conf, "busybox", RequestKind::Tag),
        ["mirror.lan:5000/hub/library/busybox", "docker.io/library/busybox"]
    );
    assert_eq!(places(&conf, "hosts.lan/x", RequestKind::Tag), ["hosts.lan/x"]);
}

#[test]
fn blocked_places_are_refused_for_both_directions() {
    let conf = conf("[[registry]]\nprefix = \"evil.io/x\"\nblocked = true\n");
    let error = conf.sources(&at("evil.io/x/y"), RequestKind::Tag).unwrap_err().to_string();
    assert!(error.contains("evil.io/x/y is blocked"), "{error}");
    assert!(conf.destination(&at("evil.io/x/y")).is_err());
    assert!(conf.destination(&at("evil.io/xy")).is_ok());
}

#[test]
fn mirrors_of_a_blocked_registry_still_serve_unless_they_are_blocked_themselves() {
    let text = "[[registry]]\nlocation = \"quay.io\"\nblocked = true\n\
                [[registry.mirror]]\nlocation = \"good.lan\"\n\
                [[registry.mirror]]\nlocation = \"bad.lan\"\n\
                [[registry]]\nlocation = \"bad.lan\"\nblocked = true\n";
    let conf = conf(text);
    assert_eq!(places(&conf, "quay.io/a/b", RequestKind::Tag), ["good.lan/a/b"]);
    assert!(conf.destination(&at("quay.io/a/b")).is_err());
}

#[test]
fn a_location_that_makes_no_repository_is_an_error() {
    let conf = conf("[[registry]]\nprefix = \"a.io\"\nlocation = \"b.io/UPPER\"\n");
    let error = conf.destination(&at("a.io/x")).unwrap_err().to_string();
    assert!(error.contains("b.io/UPPER/x"), "{error}");
}

#[test]
fn errors_of_files_name_the_invalid_part() {
    for (text, expected) in [
        ("[[registry]]\nlocation = 5\n", "registries.conf is not valid"),
        ("[[registry]]\ninsecure = true\n", "neither prefix nor location"),
        ("[[registry]]\nlocation = \"https://a.io\"\n", "has a scheme"),
        ("[[registry]]\nlocation = \"a.io\"\n[[registry.mirror]]\n", "no location"),
        (
            "[[registry]]\nlocation = \"a.io\"\n[[registry.mirror]]\nlocation = \"b\"\npull-from-mirror = \"x\"\n",
            "may be all, digest-only or tag-only",
        ),
        (
            "[[registry]]\nlocation = \"a.io\"\nmirror-by-digest-only = true\n[[registry.mirror]]\nlocation = \"b\"\npull-from-mirror = \"all\"\n",
            "cannot both be set",
        ),
        ("[registries.insecure]\nregistries = [\"a\"]\n", "first version of the format"),
    ] {
        let error = RegistriesConf::parse(Path::new("registries.conf"), text).unwrap_err();
        assert!(error.to_string().contains(expected), "{text}: {error}");
    }
}

#[test]
fn drop_ins_override_those_of_the_file_that_applies() {
    let dir = tempfile::tempdir().unwrap();
    let etc = dir.path().join("etc/containers");
    std::fs::create_dir_all(etc.join("registries.conf.d")).unwrap();
    let mirror = |at: &str| {
        format!("[[registry]]\nlocation = \"quay.io\"\n[[registry.mirror]]\nlocation = \"{at}\"\n")
    };
    std::fs::write(etc.join("registries.conf"), mirror("main.lan")).unwrap();
    std::fs::write(etc.join("registries.conf.d/10-a.conf"), mirror("ten.lan")).unwrap();
    std::fs::write(etc.join("registries.conf.d/20-b.conf"), mirror("twenty.lan")).unwrap();
    std::fs::write(etc.join("registries.conf.d/30-c.txt"), "not read").unwrap();
    let mut environment = Environment { system_root: dir.path().into(), ..Environment::default() };
    let conf = RegistriesConf::open(&environment).unwrap();
    assert_eq!(places(&conf, "quay.io/a", RequestKind::Tag), ["twenty.lan/a", "quay.io/a"]);
    // A named file takes the place of the file; drop-ins still override it.
    let named = dir.path().join("named.conf");
    std::fs::write(&named, mirror("named.lan") + &mirror("x.lan").replace("quay.io", "x.io"))
        .unwrap();
    environment.registries_conf = Some(named);
    let conf = RegistriesConf::open(&environment).unwrap();
    assert_eq!(places(&conf, "quay.io/a", RequestKind::Tag), ["twenty.lan/a", "quay.io/a"]);
    assert_eq!(places(&conf, "x.io/a", RequestKind::Tag), ["x.lan/a", "x.io/a"]);
    environment.registries_conf = None;
    // A file of the user takes the place of everything of the system; their own drop-ins count.
    let user = dir.path().join("config/containers");
    std::fs::create_dir_all(user.join("registries.conf.d")).unwrap();
    environment.config_home = Some(dir.path().join("config"));
    std::fs::write(user.join("registries.conf.d/05-u.conf"), mirror("five.lan")).unwrap();
    let conf = RegistriesConf::open(&environment).unwrap();
    assert_eq!(places(&conf, "quay.io/a", RequestKind::Tag), ["five.lan/a", "quay.io/a"]);
    std::fs::remove_file(user.join("registries.conf.d/05-u.conf")).unwrap();
    std::fs::write(user.join("registries.conf"), mirror("user.lan")).unwrap();
    let conf = RegistriesConf::open(&environment).unwrap();
    assert_eq!(places(&conf, "quay.io/a", RequestKind::Tag), ["user.lan/a", "quay.io/a"]);
    environment.registries_conf = Some(dir.path().join("absent.conf"));
    assert!(RegistriesConf::open(&environment).is_err());
}

#[test]
fn short_names_are_used_where_all_programs_agree_and_rejected_where_not() {
    let merged = |files: &[&str]| {
        let mut all = RegistriesConf::default();
        files.iter().for_each(|text| all.merge(conf(text)));
        all.short_names
    };
    let check = |files: &[&str], name: &str| {
        let image = name.parse().unwrap();
        merged(files).check(name, &image).map_err(|error| error.to_string())
    };
    let alias = "[aliases]\n\"busybox\" = \"quay.io/x/busybox\"\n\"org/app\" = \"docker.io/org/app\"\n\"redis\" \
                 = \"docker.io/library/redis\"\n";
    let search =
        "unqualified-search-registries = [\"registry.access.redhat.com\", \"docker.io\"]\n";
    for (files, name) in [
        (&[][..], "busybox:1"),
        (&[alias], "alpine:1"),
        (&[alias, search], "redis:7"),
        (
            &[alias, search],
            "org/app@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
        ),
        (&["unqualified-search-registries = [\"docker.io\"]"], "busybox:1"),
        (&["unqualified-search-registries = []"], "busybox:1"),
        (&[search, "unqualified-search-registries = [\"docker.io\"]"], "busybox:1"),
        (&[alias, "[aliases]\n\"busybox\" = \"\"\n"], "busybox:1"),
    ] {
        assert_eq!(check(files, name), Ok(()), "{name}");
    }
    assert_eq!(
        check(&[alias, search], "busybox:1").unwrap_err(),
        "the short name \"busybox:1\" is ambiguous: it is docker.io/library/busybox by default, but \
         quay.io/x/busybox by the alias in registries.conf; write the full name"
    );
    assert_eq!(
        check(&[search], "org/app:1").unwrap_err(),
        "the short name \"org/app:1\" is ambiguous: it is docker.io/org/app by default, but registries.conf \
         searches registry.access.redhat.com, docker.io; write the full name"
    );
}

#[test]
fn aliases_and_modes_that_are_not_valid_are_errors() {
    for (text, part) in [
        ("short-name-mode = \"strict\"", "expected enforcing, permissive or disabled"),
        ("[aliases]\n\"a:1\" = \"quay.io/a\"", "without registry, tag and digest"),
        ("[aliases]\n\"quay.io/a\" = \"quay.io/a\"", "without registry, tag and digest"),
        ("[aliases]\n\"a\" = \"b\"", "expected registry/repository"),
        ("[aliases]\n\"a\" = \"quay.io/a:1\"", "expected registry/repository"),
    ] {
        let error = RegistriesConf::parse(Path::new("registries.conf"), text).unwrap_err();
        assert!(error.to_string().contains(part), "{text}: {error}");
    }
}
