//! Documents in, MachineConfigs out, and back.

use crate::support;

use std::fs;
use std::process::Command;

use lab::data_tier;
use lab::tools::{self, Tool};
use lab_cluster::kube::{ApiServer, FieldValidation, Persistence};
use support::{WorkDir, cluster, host};

const INSTALL_CONFIG: &str = "\
apiVersion: v1
networking:
  machineNetwork: [{cidr: 192.0.2.0/24}]
  hostConfig:
  - name: master-0.example.com
    networkConfig: &nic
      interfaces:
      - {name: eno1, type: ethernet, state: up, ipv4: {enabled: false}, ipv6: {enabled: false}}
      - name: br-ex
        type: ovs-bridge
        state: up
        bridge:
          allow-extra-patch-ports: true
          options: {mcast-snooping-enable: true}
          port: [{name: eno1}, {name: br-ex}]
      - name: br-ex
        type: ovs-interface
        state: up
        copy-mac-from: eno1
        ipv4: {enabled: true, dhcp: true, auto-route-metric: 48}
        ipv6: {enabled: false}
  - name: db-0
    role: worker
    networkConfig:
      <<: *nic
      dns-resolver: {config: {server: [192.0.2.1]}}
platform:
  baremetal:
    hosts:
    - {name: master-0.example.com, role: master}
";

fn work_dir() -> WorkDir {
    let work_dir = WorkDir::new();
    work_dir
        .put("hosts/master/master-0.yml", host("192.0.2.10"))
        .put("hosts/worker/worker-0.yaml", host("192.0.2.20"))
        .put("hosts/worker/worker-1.yml", host("192.0.2.21"))
        .put("hosts/infra/cluster.yml", cluster());
    work_dir
}

#[test]
fn a_role_with_a_typing_mistake_and_hosts_on_a_cloud_are_warned_about() {
    let work_dir = WorkDir::new();
    work_dir.put("hosts/wroker/worker-0.yml", host("192.0.2.20"));
    let ended = work_dir.done(&["render", "--hosts", "hosts", "--platform", "aws", "--out", "m"]);
    assert!(ended.err.contains("a pool called wroker; is worker meant?\n"), "{}", ended.err);
    assert!(ended.err.contains("host names on `aws` are not known in advance"), "{}", ended.err);
    work_dir.text("m/10-br-ex-wroker.yaml");
}

#[test]
fn each_role_gets_a_machine_config_and_decode_gives_the_files_back() {
    for gzip in [&[][..], &["--gzip"]] {
        let work_dir = work_dir();
        let ended =
            work_dir.done(&[&["render", "--hosts", "hosts", "--out", "manifests"], gzip].concat());
        assert_eq!(
            ended.out,
            "manifests/10-br-ex-infra.yaml\nmanifests/10-br-ex-master.yaml\n\
             manifests/10-br-ex-worker.yaml\n",
        );
        let manifests: Vec<_> = ended.out.lines().collect();
        let ended = work_dir.done(&[&["decode", "--out", "back"], manifests.as_slice()].concat());
        assert_eq!(
            ended.out,
            "back/infra/cluster.yml\nback/master/master-0.yml\nback/worker/worker-0.yml\n\
             back/worker/worker-1.yml\n",
        );
        for (given, back) in [
            ("hosts/master/master-0.yml", "back/master/master-0.yml"),
            ("hosts/worker/worker-0.yaml", "back/worker/worker-0.yml"),
            ("hosts/worker/worker-1.yml", "back/worker/worker-1.yml"),
            ("hosts/infra/cluster.yml", "back/infra/cluster.yml"),
        ] {
            assert_eq!(work_dir.text(given), work_dir.text(back));
        }
    }
}

#[test]
fn the_same_documents_give_the_same_bytes() {
    for flag in ["--service", "--gzip"] {
        let work_dir = work_dir();
        work_dir.done(&["render", "--hosts", "hosts", "--out", "a", flag]);
        work_dir.done(&["render", "--hosts", "hosts", "--out", "b", flag]);
        work_dir.done(&["render", "--hosts", "hosts", "--out", "b", flag]);
        for entry in fs::read_dir(work_dir.path("a")).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            assert_eq!(work_dir.text(&format!("a/{name}")), work_dir.text(&format!("b/{name}")));
        }
    }
}

#[test]
fn the_former_spelling_of_out_works_with_a_warning() {
    let work_dir = WorkDir::new();
    work_dir.put("install-config.yaml", INSTALL_CONFIG);
    let render = ["render", "--install-config", "install-config.yaml"];
    let current = work_dir.done(&[&render[..], &["--out", "a"]].concat());
    let former = work_dir.done(&[&render[..], &["-o", "b"]].concat());
    let warning = "warning: -o DIR is deprecated; use --out DIR\n";
    assert_eq!(former.err, format!("{warning}{}", current.err));
    let file = "10-br-ex-worker.yaml";
    assert_eq!(work_dir.text(&format!("a/{file}")), work_dir.text(&format!("b/{file}")));
}

#[test]
fn an_install_config_with_anchors_and_merge_keys_is_rendered_and_files_win() {
    let work_dir = WorkDir::new();
    work_dir.put("install-config.yaml", INSTALL_CONFIG);
    work_dir.done(&["render", "--install-config", "install-config.yaml", "--out", "m"]);
    work_dir.done(&["decode", "m/10-br-ex-master.yaml", "m/10-br-ex-worker.yaml", "--out", "back"]);
    let (master, worker) =
        (work_dir.text("back/master/master-0.yml"), work_dir.text("back/worker/db-0.yml"));
    for text in [&master, &worker] {
        assert!(text.contains("interfaces:\n- name: eno1\n"), "{text}");
        assert!(!text.contains("<<") && !text.contains('&') && !text.contains('*'), "{text}");
    }
    assert!(worker.contains("192.0.2.1") && !master.contains("192.0.2.1"));

    work_dir.put("hosts/worker/db-0.yml", host("192.0.2.30"));
    let both = ["--install-config", "install-config.yaml", "--hosts", "hosts"];
    work_dir.done(&[&["render", "--out", "m"], &both[..]].concat());
    work_dir.done(&["decode", "m/10-br-ex-worker.yaml", "--out", "back", "--force"]);
    assert_eq!(work_dir.text("back/worker/db-0.yml"), host("192.0.2.30"));
}

#[test]
fn errors_stop_the_rendering_unless_they_are_allowed() {
    let work_dir = WorkDir::new();
    let broken = host("192.0.2.20").replace("    - name: br-ex\n", "");
    work_dir.put("hosts/worker/worker-0.yml", &broken);
    let ended = work_dir.run(&["render", "--hosts", "hosts", "--out", "manifests"]);
    assert_eq!(ended.code, 1);
    assert!(ended.err.contains("hosts/worker/worker-0.yml:"), "{}", ended.err);
    assert!(ended.err.contains("[B3]"), "{}", ended.err);
    assert!(ended.err.contains("Nothing was written."), "{}", ended.err);
    assert!(!work_dir.path("manifests").exists());
    work_dir.done(&["render", "--hosts", "hosts", "--out", "manifests", "--allow-errors"]);
    work_dir.done(&["decode", "manifests/10-br-ex-worker.yaml", "--out", "back"]);
    assert_eq!(work_dir.text("back/worker/worker-0.yml"), broken);
}

#[test]
fn two_hosts_with_one_address_are_not_rendered() {
    let work_dir = WorkDir::new();
    work_dir
        .put("hosts/worker-0.yml", host("192.0.2.20"))
        .put("hosts/master-0.yml", host("192.0.2.20"));
    let ended = work_dir.run(&["render", "--hosts", "hosts", "--out", "manifests"]);
    assert_eq!(ended.code, 1);
    assert!(ended.err.contains("[B22]") && ended.err.contains("192.0.2.20"), "{}", ended.err);
}

#[test]
fn both_endings_for_one_host_are_an_error() {
    let work_dir = WorkDir::new();
    work_dir
        .put("hosts/worker-0.yml", host("192.0.2.20"))
        .put("hosts/worker-0.yaml", host("192.0.2.20"));
    let ended = work_dir.run(&["render", "--hosts", "hosts", "--out", "manifests"]);
    assert_eq!(ended.code, 2);
    assert_eq!(
        ended.err,
        "error: reading hosts:\n  worker-0.yaml and worker-0.yml: a host has one document; remove \
         one of the two\n",
    );
}

#[test]
fn what_cannot_be_rendered_is_reported() {
    let work_dir = WorkDir::new();
    work_dir.put("install-config.yaml", "platform: {none: {}}\n").put("empty/README.md", "");
    for (arguments, expected) in [
        (
            &["--install-config", "install-config.yaml"][..],
            "error: reading install-config.yaml: expected documents under networking.hostConfig",
        ),
        (&["--hosts", "empty"], "error: empty holds no documents: no .yml and no .yaml file"),
        (&["--hosts", "absent"], "error: reading absent: No such file or directory"),
        (&[], "error: the following required arguments were not provided:"),
    ] {
        let ended = work_dir.run(&[&["render", "--out", "m"], arguments].concat());
        assert_eq!(ended.code, 2);
        let has_line = ended.err.lines().any(|line| line.starts_with(expected));
        assert!(has_line, "{}", ended.err);
    }
}

#[test]
fn hundreds_of_hosts_want_compression_and_thousands_do_not_fit() {
    let work_dir = WorkDir::new();
    for number in 0..1200 {
        let address = format!("192.0.{}.{}", number / 250, number % 250 + 2);
        // Each a kilobyte, as documents with a bond are.
        let text = format!("{}# {}\n", host(&address), "x".repeat(200));
        work_dir.put(&format!("hosts/worker-{number}.yml"), text);
    }
    let render = |flags: &[&str]| {
        work_dir
            .run(&[&["render", "--hosts", "hosts", "--out", "m", "--allow-errors"], flags].concat())
    };
    let ended = render(&[]);
    assert_eq!(ended.code, 2);
    let last = ended.err.lines().last().unwrap();
    assert!(last.contains("which is too much; give --gzip"), "{last}");
    assert_eq!(render(&["--gzip"]).code, 0);
}

#[test]
fn decode_shows_what_is_in_a_machine_config_of_a_pool() {
    let work_dir = work_dir();
    work_dir.done(&["render", "--hosts", "hosts", "--out", "m"]);
    let printed = work_dir.done(&["decode", "m/10-br-ex-infra.yaml"]).out;
    assert_eq!(
        printed,
        format!("# 10-br-ex-infra, role infra: /etc/nmstate/openshift/cluster.yml\n{}", cluster()),
    );
    let ended = work_dir.run(&["decode", "hosts/master/master-0.yml"]);
    assert_eq!(ended.code, 2);
    assert_eq!(
        ended.err,
        "error: reading hosts/master/master-0.yml: expected a MachineConfig, found none; it has no \
         `kind`, as objects of a cluster have\n"
    );
}

#[test]
fn every_published_machine_config_is_decoded_to_what_another_program_decoded() {
    let Some(data) = data_tier("nmstate-br-ex") else { return };
    let work_dir = WorkDir::new();
    for entry in fs::read_dir(data.join("machineconfig")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        let out = work_dir.done(&["decode", path.to_str().unwrap(), "--out", &name]).out;
        for file in out.lines() {
            let expected = format!("decoded/{name}__{}", file.rsplit('/').next().unwrap());
            assert_eq!(work_dir.text(file), fs::read_to_string(data.join(expected)).unwrap());
        }
    }
}

/// The Ignition in a MachineConfig, for a judge of Ignition.
fn ignition(yaml: &str) -> String {
    machine_config::parse(yaml).expect("a MachineConfig").ignition_json()
}

#[test]
fn ignition_itself_accepts_everything_we_render() {
    let validate = tools::path(Tool::IgnitionValidate).unwrap();
    let work_dir = work_dir();
    work_dir.done(&["render", "--hosts", "hosts", "--out", "m", "--service"]);
    work_dir.done(&["render", "--hosts", "hosts", "--out", "g", "--gzip"]);
    let mut judged = 0;
    for folder in ["m", "g"] {
        for entry in fs::read_dir(work_dir.path(folder)).unwrap() {
            let path = entry.unwrap().path();
            let text = ignition(&fs::read_to_string(&path).unwrap());
            work_dir.put("config.ign", &text);
            let verdict =
                Command::new(&validate).arg(work_dir.path("config.ign")).output().unwrap();
            let message = String::from_utf8_lossy(&verdict.stderr).into_owned();
            assert!(
                verdict.status.success() && message.is_empty(),
                "{}: {message}",
                path.display()
            );
            judged += 1;
        }
    }
    assert_eq!(judged, 9);
    // The judge does judge.
    work_dir.put(
        "config.ign",
        ignition(&work_dir.text("m/10-br-ex-worker.yaml")).replace("/etc/", "etc/"),
    );
    let verdict = Command::new(&validate).arg(work_dir.path("config.ign")).output().unwrap();
    assert!(!verdict.status.success());
}

#[tokio::test]
async fn a_cluster_accepts_everything_we_render() {
    let server = ApiServer::start().await.unwrap();
    server.load_cluster_crds().await.unwrap();
    let work_dir = work_dir();
    work_dir.done(&["render", "--hosts", "hosts", "--out", "m", "--service"]);
    work_dir.done(&["render", "--hosts", "hosts", "--out", "g", "--gzip"]);
    for folder in ["m", "g"] {
        for entry in fs::read_dir(work_dir.path(folder)).unwrap() {
            let text = fs::read_to_string(entry.unwrap().path()).unwrap();
            server.apply(&text, Persistence::Stored, FieldValidation::Strict).await.unwrap();
        }
    }
    let wrong = work_dir.text("m/10-br-ex-worker.yaml").replace("spec:", "spec:\n  files: []");
    let refused = server.apply(&wrong, Persistence::DryRun, FieldValidation::Strict).await;
    assert!(refused.is_err());
}
