//! The kinds of objects that are read, and how they are requested.

use std::fmt;

/// A kind of objects on a cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    ClusterVersion,
    Node,
    Subscription,
    ClusterServiceVersion,
    CatalogSource,
    ImageDigestMirrorSet,
    ImageTagMirrorSet,
    ImageContentSourcePolicy,
}

impl Kind {
    /// All kinds that are read, in the order of the requests.
    pub const ALL: [Self; 8] = [
        Self::ClusterVersion,
        Self::Node,
        Self::Subscription,
        Self::ClusterServiceVersion,
        Self::CatalogSource,
        Self::ImageDigestMirrorSet,
        Self::ImageTagMirrorSet,
        Self::ImageContentSourcePolicy,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::ClusterVersion => "ClusterVersion",
            Self::Node => "Node",
            Self::Subscription => "Subscription",
            Self::ClusterServiceVersion => "ClusterServiceVersion",
            Self::CatalogSource => "CatalogSource",
            Self::ImageDigestMirrorSet => "ImageDigestMirrorSet",
            Self::ImageTagMirrorSet => "ImageTagMirrorSet",
            Self::ImageContentSourcePolicy => "ImageContentSourcePolicy",
        }
    }

    /// The path that lists the objects of all namespaces.
    pub fn list_path(self) -> &'static str {
        match self {
            Self::ClusterVersion => "/apis/config.openshift.io/v1/clusterversions",
            Self::Node => "/api/v1/nodes",
            Self::Subscription => "/apis/operators.coreos.com/v1alpha1/subscriptions",
            Self::ClusterServiceVersion => {
                "/apis/operators.coreos.com/v1alpha1/clusterserviceversions"
            }
            Self::CatalogSource => "/apis/operators.coreos.com/v1alpha1/catalogsources",
            Self::ImageDigestMirrorSet => "/apis/config.openshift.io/v1/imagedigestmirrorsets",
            Self::ImageTagMirrorSet => "/apis/config.openshift.io/v1/imagetagmirrorsets",
            Self::ImageContentSourcePolicy => {
                "/apis/operator.openshift.io/v1alpha1/imagecontentsourcepolicies"
            }
        }
    }

    /// Which of them are requested. OLM copies the ClusterServiceVersion of an operator for all
    /// namespaces into each of them; on a large cluster that is a gigabyte of copies.
    pub fn label_selector(self) -> Option<&'static str> {
        match self {
            Self::ClusterServiceVersion => Some("!olm.copiedFrom"),
            _ => None,
        }
    }

    /// Whether one object has everything that is needed: a release for one architecture runs on nodes of
    /// that architecture only.
    pub fn one_is_enough(self) -> bool {
        self == Self::Node
    }

    /// What is unknown if objects of this kind cannot be read.
    pub fn consequence(self) -> &'static str {
        match self {
            Self::ClusterVersion => "the release and the channel of the cluster are unknown",
            Self::Node => "the architecture of the cluster is unknown",
            Self::Subscription => "operators and their channels are unknown",
            Self::ClusterServiceVersion => "the installed versions of operators are unknown",
            Self::CatalogSource => "the catalogs of operators are unknown",
            Self::ImageDigestMirrorSet | Self::ImageTagMirrorSet => {
                "the original names of mirrored catalogs may be unknown"
            }
            Self::ImageContentSourcePolicy => "mirrors of older clusters are unknown",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
