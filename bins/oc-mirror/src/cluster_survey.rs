//! What `oc-mirror inventory` lists in a cluster.

use cluster_connection::{Completeness, Connection, ListError, Listing};
use cluster_inventory::{Kind, Reason, Survey};

/// Objects per request.
const PAGE: u32 = 100;

/// Lists everything that an inventory contains. What the cluster does not have or does not show is
/// noted; a cluster that does not respond is an error.
pub(crate) async fn survey(connection: &Connection) -> anyhow::Result<Survey> {
    let mut survey = Survey::new();
    let mut read = 0;
    for kind in Kind::ALL {
        let listing = Listing {
            path: kind.list_path(),
            label_selector: kind.label_selector(),
            page_size: if kind.one_is_enough() { 1 } else { PAGE },
            first_page_only: kind.one_is_enough(),
        };
        match connection.list(listing, |object| survey.add(kind, &object)).await {
            Ok(Completeness::Complete) => read += 1,
            Ok(Completeness::Endless) => {
                read += 1;
                tracing::warn!("the list of {kind} does not end; the objects so far are used");
                survey.could_not_read(kind, Reason::Malformed, "its list has no end".to_owned());
            }
            Err(ListError::Missing) => {
                let consequence = kind.consequence();
                tracing::warn!("the cluster has no objects of kind {kind}: {consequence}");
                survey.could_not_read(kind, Reason::Missing, String::new());
            }
            Err(ListError::Forbidden(message)) => {
                tracing::warn!(
                    "{kind} may not be listed by this account: {}. The cluster reports: {message}",
                    kind.consequence(),
                );
                survey.could_not_read(kind, Reason::Forbidden, message);
            }
            Err(error @ ListError::Unauthorized { .. }) => return Err(error.into()),
            Err(ListError::Failed(cause)) => {
                anyhow::bail!("listing {kind} at {}: {cause}", connection.address())
            }
        }
    }
    anyhow::ensure!(
        read > 0,
        "nothing could be read from {}: it is not an OpenShift cluster, or the account may not list anything",
        connection.address()
    );
    Ok(survey)
}
