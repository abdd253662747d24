//! A configuration to start from, without any cluster.

use release::channel::Minor;

/// Releases, an operator and an image, each with a comment on how to choose others.
pub fn starter(minor: Minor) -> String {
    let Minor { major, minor: number } = minor;
    format!(
        "\
# An image set configuration to start from. Remove what you do not need.
# Mirror with: oc-mirror -c FILE file:///data
kind: ImageSetConfiguration
apiVersion: {api}
mirror:
  # Releases of OpenShift. `oc-mirror list releases` lists them.
  platform:
    # The graph of updates as an image, for an update service on the disconnected side.
    graph: true
    # architectures: [amd64]
    channels:
    # Without bounds: the newest release. For a cluster that has {major}.{number}.1 already, with the releases
    # on its upgrade path (`oc-mirror upgrade-path release --from {major}.{number}.1` lists them):
    - name: stable-{minor}
      # minVersion: {major}.{number}.1
      # shortestPath: true

  # Operators. `oc-mirror list operators --catalogs --version {minor}` lists the catalogs,
  # `oc-mirror list operators --catalog IMAGE` what is in one.
  operators:
  - catalog: registry.redhat.io/redhat/redhat-operator-index:v{minor}
    packages:
    # The update service itself. Without channels: the newest version of each channel.
    - name: cincinnati-operator
      # channels:
      # - name: v1
      #   minVersion: 5.0.3

  # Any other images, with tag or digest.
  additionalImages:
  - name: registry.redhat.io/ubi9/ubi:latest
",
        api = image_set::API_VERSION,
    )
}

#[cfg(test)]
mod tests {
    use image_set::parse_image_set;

    use super::*;

    #[test]
    fn the_start_is_a_configuration_with_one_of_each() {
        let text = starter(Minor { major: 4, minor: 18 });
        let set = parse_image_set("isc.yaml", &text).unwrap();
        assert_eq!(set.mirror.platform.unwrap().channels[0].name, "stable-4.18");
        assert_eq!(set.mirror.operators[0].packages[0].name, "cincinnati-operator");
        assert_eq!(set.mirror.additional_images.len(), 1);
    }

    #[test]
    fn what_is_commented_out_may_be_taken_in() {
        let text = starter(Minor { major: 4, minor: 18 });
        let taken = [
            "# minVersion: 4",
            "# shortestPath",
            "# channels:",
            "# - name: v1",
            "#   minVersion: 5",
        ];
        let lines = text.lines().map(|line| match taken.iter().any(|key| line.contains(key)) {
            true => line.replacen("# ", "", 1),
            false => line.to_owned(),
        });
        let text = lines.collect::<Vec<_>>().join("\n");
        let set =
            parse_image_set("isc.yaml", &text).unwrap_or_else(|error| panic!("{error:?}\n{text}"));
        let channel = &set.mirror.platform.unwrap().channels[0];
        assert!(channel.shortest_path && channel.min_version.is_some());
        assert_eq!(set.mirror.operators[0].packages[0].channels[0].name, "v1");
    }
}
