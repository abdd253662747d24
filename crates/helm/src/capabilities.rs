//! What templates can read about the cluster: its version and the APIs that it has.
//!
//! No cluster is contacted. A chart is rendered for each of these sets, and the images of both
//! count: charts check for `route.openshift.io/v1` to distinguish OpenShift from other clusters.

use crate::version::{VersionError, version};

/// The Kubernetes version when none is given.
pub const DEFAULT_KUBE_VERSION: &str = "1.34.0";

/// `.Capabilities`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Capabilities {
    pub kube_version: KubeVersion,
    /// `group/version`, and `group/version/Kind` where the set has kinds.
    pub api_versions: Vec<String>,
}

/// `.Capabilities.KubeVersion`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KubeVersion {
    /// With `v` before it.
    pub version: String,
    pub major: String,
    pub minor: String,
}

/// Which APIs there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ApiSet {
    /// What `helm template` assumes: every group and version that its client library supports.
    Plain,
    /// An OpenShift cluster: what it serves, with kinds, as `helm install` sees it.
    OpenShift,
}

impl Capabilities {
    pub fn new(set: ApiSet, kube_version: &str) -> Result<Self, VersionError> {
        let api_versions = match set {
            ApiSet::Plain => PLAIN.iter().map(|version| (*version).to_owned()).collect(),
            ApiSet::OpenShift => open_shift(),
        };
        Ok(Self { kube_version: KubeVersion::parse(kube_version)?, api_versions })
    }

    pub fn has(&self, api_version: &str) -> bool {
        self.api_versions.iter().any(|known| known == api_version)
    }
}

impl KubeVersion {
    pub fn parse(text: &str) -> Result<Self, VersionError> {
        let parsed = version(text)?;
        Ok(Self {
            version: format!("v{}.{}.{}", parsed.major, parsed.minor, parsed.patch),
            major: parsed.major.to_string(),
            minor: parsed.minor.to_string(),
        })
    }
}

fn open_shift() -> Vec<String> {
    let mut versions = Vec::new();
    for (group_version, kinds) in OPEN_SHIFT {
        versions.push((*group_version).to_owned());
        versions.extend(kinds.split_whitespace().map(|kind| format!("{group_version}/{kind}")));
    }
    versions
}

/// As `helm template` of Helm 3.22 has them, in its order.
const PLAIN: &[&str] = &[
    "v1",
    "admissionregistration.k8s.io/v1",
    "admissionregistration.k8s.io/v1alpha1",
    "admissionregistration.k8s.io/v1beta1",
    "internal.apiserver.k8s.io/v1alpha1",
    "apps/v1",
    "apps/v1beta1",
    "apps/v1beta2",
    "authentication.k8s.io/v1",
    "authentication.k8s.io/v1alpha1",
    "authentication.k8s.io/v1beta1",
    "authorization.k8s.io/v1",
    "authorization.k8s.io/v1beta1",
    "autoscaling/v1",
    "autoscaling/v2",
    "batch/v1",
    "batch/v1beta1",
    "certificates.k8s.io/v1",
    "certificates.k8s.io/v1beta1",
    "certificates.k8s.io/v1alpha1",
    "coordination.k8s.io/v1alpha2",
    "coordination.k8s.io/v1beta1",
    "coordination.k8s.io/v1",
    "discovery.k8s.io/v1",
    "discovery.k8s.io/v1beta1",
    "events.k8s.io/v1",
    "events.k8s.io/v1beta1",
    "extensions/v1beta1",
    "flowcontrol.apiserver.k8s.io/v1",
    "flowcontrol.apiserver.k8s.io/v1beta1",
    "flowcontrol.apiserver.k8s.io/v1beta2",
    "flowcontrol.apiserver.k8s.io/v1beta3",
    "lifecycle.k8s.io/v1alpha1",
    "networking.k8s.io/v1",
    "networking.k8s.io/v1beta1",
    "node.k8s.io/v1",
    "node.k8s.io/v1alpha1",
    "node.k8s.io/v1beta1",
    "policy/v1",
    "policy/v1beta1",
    "rbac.authorization.k8s.io/v1",
    "rbac.authorization.k8s.io/v1beta1",
    "rbac.authorization.k8s.io/v1alpha1",
    "resource.k8s.io/v1",
    "resource.k8s.io/v1beta2",
    "resource.k8s.io/v1beta1",
    "resource.k8s.io/v1alpha3",
    "scheduling.k8s.io/v1alpha3",
    "scheduling.k8s.io/v1beta1",
    "scheduling.k8s.io/v1",
    "storage.k8s.io/v1beta1",
    "storage.k8s.io/v1",
    "storage.k8s.io/v1alpha1",
    "storagemigration.k8s.io/v1",
    "storagemigration.k8s.io/v1beta1",
    "apiextensions.k8s.io/v1beta1",
    "apiextensions.k8s.io/v1",
];

/// Groups and kinds that charts check for. Not every kind of a cluster: an API that is missing here
/// only means that a branch for it is covered by the other set or not at all.
const OPEN_SHIFT: &[(&str, &str)] = &[
    (
        "v1",
        "ConfigMap Endpoints Event LimitRange Namespace Node PersistentVolume \
         PersistentVolumeClaim Pod PodTemplate ReplicationController ResourceQuota Secret Service \
         ServiceAccount",
    ),
    (
        "admissionregistration.k8s.io/v1",
        "MutatingWebhookConfiguration ValidatingAdmissionPolicy ValidatingAdmissionPolicyBinding \
         ValidatingWebhookConfiguration",
    ),
    ("apiextensions.k8s.io/v1", "CustomResourceDefinition"),
    ("apiregistration.k8s.io/v1", "APIService"),
    ("apps/v1", "ControllerRevision DaemonSet Deployment ReplicaSet StatefulSet"),
    ("authentication.k8s.io/v1", "SelfSubjectReview TokenReview"),
    (
        "authorization.k8s.io/v1",
        "LocalSubjectAccessReview SelfSubjectAccessReview SelfSubjectRulesReview SubjectAccessReview",
    ),
    ("autoscaling/v1", "HorizontalPodAutoscaler Scale"),
    ("autoscaling/v2", "HorizontalPodAutoscaler"),
    ("batch/v1", "CronJob Job"),
    ("certificates.k8s.io/v1", "CertificateSigningRequest"),
    ("coordination.k8s.io/v1", "Lease"),
    ("discovery.k8s.io/v1", "EndpointSlice"),
    ("events.k8s.io/v1", "Event"),
    ("flowcontrol.apiserver.k8s.io/v1", "FlowSchema PriorityLevelConfiguration"),
    ("networking.k8s.io/v1", "Ingress IngressClass IPAddress NetworkPolicy ServiceCIDR"),
    ("node.k8s.io/v1", "RuntimeClass"),
    ("policy/v1", "Eviction PodDisruptionBudget"),
    ("rbac.authorization.k8s.io/v1", "ClusterRole ClusterRoleBinding Role RoleBinding"),
    ("resource.k8s.io/v1", "DeviceClass ResourceClaim ResourceClaimTemplate ResourceSlice"),
    ("scheduling.k8s.io/v1", "PriorityClass"),
    ("storage.k8s.io/v1", "CSIDriver CSINode CSIStorageCapacity StorageClass VolumeAttachment"),
    ("apps.openshift.io/v1", "DeploymentConfig"),
    ("authorization.openshift.io/v1", "ClusterRole ClusterRoleBinding Role RoleBinding"),
    ("build.openshift.io/v1", "Build BuildConfig"),
    (
        "config.openshift.io/v1",
        "APIServer Authentication ClusterOperator ClusterVersion Console DNS FeatureGate Image \
         ImageDigestMirrorSet ImageTagMirrorSet Infrastructure Ingress Network OAuth OperatorHub \
         Project Proxy Scheduler",
    ),
    (
        "console.openshift.io/v1",
        "ConsoleCLIDownload ConsoleLink ConsoleNotification ConsolePlugin ConsoleQuickStart \
         ConsoleYAMLSample",
    ),
    ("helm.openshift.io/v1beta1", "HelmChartRepository ProjectHelmChartRepository"),
    ("image.openshift.io/v1", "Image ImageStream ImageStreamImport ImageStreamTag ImageTag"),
    ("imageregistry.operator.openshift.io/v1", "Config ImagePruner"),
    ("ingress.operator.openshift.io/v1", "DNSRecord"),
    ("k8s.cni.cncf.io/v1", "NetworkAttachmentDefinition"),
    ("machine.openshift.io/v1beta1", "Machine MachineHealthCheck MachineSet"),
    (
        "machineconfiguration.openshift.io/v1",
        "ContainerRuntimeConfig ControllerConfig KubeletConfig MachineConfig MachineConfigPool",
    ),
    (
        "monitoring.coreos.com/v1",
        "Alertmanager PodMonitor Probe Prometheus PrometheusRule ServiceMonitor ThanosRuler",
    ),
    ("monitoring.coreos.com/v1beta1", "AlertmanagerConfig"),
    ("monitoring.openshift.io/v1", "AlertRelabelConfig AlertingRule"),
    ("network.operator.openshift.io/v1", "EgressRouter OperatorPKI"),
    ("oauth.openshift.io/v1", "OAuthClient OAuthClientAuthorization"),
    (
        "operator.openshift.io/v1",
        "Authentication Console DNS Etcd IngressController KubeAPIServer Network \
         OpenShiftAPIServer ServiceCA Storage",
    ),
    ("operators.coreos.com/v1", "OLMConfig Operator OperatorCondition OperatorGroup"),
    (
        "operators.coreos.com/v1alpha1",
        "CatalogSource ClusterServiceVersion InstallPlan Subscription",
    ),
    ("packages.operators.coreos.com/v1", "PackageManifest"),
    ("performance.openshift.io/v2", "PerformanceProfile"),
    ("project.openshift.io/v1", "Project ProjectRequest"),
    ("quota.openshift.io/v1", "AppliedClusterResourceQuota ClusterResourceQuota"),
    ("route.openshift.io/v1", "Route"),
    (
        "security.openshift.io/v1",
        "PodSecurityPolicyReview RangeAllocation SecurityContextConstraints",
    ),
    ("snapshot.storage.k8s.io/v1", "VolumeSnapshot VolumeSnapshotClass VolumeSnapshotContent"),
    ("template.openshift.io/v1", "Template TemplateInstance"),
    ("tuned.openshift.io/v1", "Profile Tuned"),
    ("user.openshift.io/v1", "Group Identity User"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sets_differ_where_charts_check() {
        let plain = Capabilities::new(ApiSet::Plain, DEFAULT_KUBE_VERSION).unwrap();
        let open_shift = Capabilities::new(ApiSet::OpenShift, "v1.33.4+abc").unwrap();
        assert!(!plain.has("route.openshift.io/v1") && plain.has("policy/v1beta1"));
        assert!(open_shift.has("route.openshift.io/v1/Route") && open_shift.has("apps/v1"));
        assert!(!open_shift.has("policy/v1beta1"));
        assert_eq!(open_shift.kube_version.version, "v1.33.4");
        assert_eq!(plain.kube_version.minor, "34");
    }
}
