//! `nmstate-operator operator` with its own permissions, on a real API server with OpenShift's
//! CRDs.

mod br_ex;
mod cluster;
mod lifecycle;
mod on_a_node;
mod permissions;
mod plain_kubernetes;
mod restored;
mod stored_versions;
mod take_over;
