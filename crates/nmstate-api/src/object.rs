//! What makes a struct an object of the Kubernetes API.

/// Makes a struct with the fields `api_version`, `kind` and `metadata` an object of our group that
/// belongs to no namespace. `kube` takes every type that is one for `k8s-openapi`.
macro_rules! cluster_object {
    ($type:ident, $version:literal, $plural:literal) => {
        impl k8s_openapi::Resource for $type {
            const API_VERSION: &'static str = concat!("nmstate.io/", $version);
            const GROUP: &'static str = $crate::GROUP;
            const KIND: &'static str = stringify!($type);
            const VERSION: &'static str = $version;
            const URL_PATH_SEGMENT: &'static str = $plural;
            type Scope = k8s_openapi::ClusterResourceScope;
        }

        impl k8s_openapi::Metadata for $type {
            type Ty = k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

            fn metadata(&self) -> &Self::Ty {
                &self.metadata
            }

            fn metadata_mut(&mut self) -> &mut Self::Ty {
                &mut self.metadata
            }
        }

        impl $type {
            /// An object of this name with nothing else in it.
            pub fn new(name: &str) -> Self {
                Self {
                    metadata: k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta {
                        name: Some(name.to_owned()),
                        ..Default::default()
                    },
                    ..Default::default()
                }
            }
        }

        impl Default for $type {
            fn default() -> Self {
                Self { api_version: api_version(), kind: kind(), ..Self::empty() }
            }
        }

        fn api_version() -> String {
            <$type as k8s_openapi::Resource>::API_VERSION.to_owned()
        }

        fn kind() -> String {
            <$type as k8s_openapi::Resource>::KIND.to_owned()
        }
    };
}

pub(crate) use cluster_object;
