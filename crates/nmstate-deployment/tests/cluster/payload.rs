//! The files of the release payload, on a server that has OpenShift's own CRDs.

use std::path::Path;

use lab_cluster::kube::{ApiServer, FieldValidation, Persistence};
use nmstate_api::NMStateSpec;
use nmstate_deployment::operand::{self, ControlPlane, Wanted};

use crate::support::{apply, files, hosted, payload};

/// Where the generated files are committed.
const COMMITTED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/nmstate-operator");

#[test]
fn the_committed_files_are_what_the_program_writes() {
    for (folder, ours, arguments) in [
        ("payload", payload(), ""),
        ("hosted", hosted("clusters-example"), " --hosted clusters-example"),
    ] {
        let theirs = files(&Path::new(COMMITTED).join(folder));
        let names = |files: &[(String, String)]| -> Vec<String> {
            files.iter().map(|(name, _)| name.clone()).collect()
        };
        assert_eq!(names(&ours), names(&theirs), "{folder}");
        for ((name, written), (_, committed)) in ours.iter().zip(&theirs) {
            assert!(
                written == committed,
                "{name} differs; run `cargo run -p nmstate-operator -- manifests --out deploy/nmstate-operator/{folder}{arguments}`"
            );
        }
    }
}

#[tokio::test]
async fn every_file_is_taken_by_a_server_with_openshifts_crds() {
    let server = ApiServer::start().await.unwrap();
    server.load_cluster_crds().await.unwrap();
    apply(&server, &payload(), &[]).await;
    // A second time, as the cluster-version operator does all day.
    apply(&server, &payload(), &[]).await;

    let namespace = "apiVersion: v1\nkind: Namespace\nmetadata: {name: clusters-example}\n";
    server.apply(namespace, Persistence::Stored, FieldValidation::Strict).await.unwrap();
    apply(&server, &hosted("clusters-example"), &[]).await;

    // What the operator deploys, one shape after the other, as a cluster may change.
    let mut spec = NMStateSpec::default();
    for bind in [":8089", "0", "[::1]:29089", ":8089"] {
        spec.metrics_configuration.bind_address = bind.to_owned();
        for control_plane in
            [ControlPlane::HighlyAvailable, ControlPlane::SingleNode, ControlPlane::Hosted]
        {
            let wanted = Wanted::new(&spec, "example/i:1", "1", control_plane).unwrap();
            for object in operand::objects(&wanted) {
                let text = object.to_string();
                server
                    .apply(&text, Persistence::Stored, FieldValidation::Strict)
                    .await
                    .unwrap_or_else(|error| panic!("{bind}, {control_plane:?}: {error}\n{text}"));
            }
        }
    }
}
