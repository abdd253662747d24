//! Finds the image of a catalog, and checks it against the trust policy.

use mirror_plan::{Destination, Found, Wanted};
use registry::Client;

use crate::collect::built_images::BuiltImages;
use crate::collect::documents::Documents;
use crate::collect::releases::Source;
use crate::context::Context;
use crate::fault::EngineError;
use crate::gather::carried_content;
use crate::gather::trust_check::TrustCheck;
use crate::gather::{Gathered, gather};
use crate::reason::Reason;

/// The original catalog: at its registry, in its layout, or in transferred content. The
/// documents are signatures that the disconnected side needs to verify it.
pub(crate) async fn find(
    context: &Context,
    source: Source<'_>,
    client: &Client,
    (wanted, name): (Wanted, Destination),
) -> Result<(Found, Documents), Reason> {
    let nothing = BuiltImages::default();
    let mut gathered = match source {
        Source::Remote(client) => gather(context, client, vec![(wanted, name)], &nothing).await,
        Source::Held(holdings) => {
            let found = carried_content::find(holdings, vec![(wanted, name)], &nothing);
            match TrustCheck::of(context, client, holdings) {
                Some(check) => judged(&check, found).await,
                None => found,
            }
        }
    };
    match gathered.lost.pop() {
        Some((.., why)) => Err(why),
        None => match gathered.found.pop() {
            Some(found) => Ok((found, gathered.documents)),
            None => Err("interrupted".into()),
        },
    }
}

async fn judged(check: &TrustCheck<'_>, gathered: Gathered) -> Gathered {
    let mut judged = Gathered { lost: gathered.lost, ..Gathered::default() };
    for found in gathered.found {
        match check.check(&found.wanted.origin, None, &found.tree).await {
            Ok(_) => judged.found.push(found),
            Err(error) => judged.lost.push((found.wanted, found.destination, error.reason())),
        }
    }
    judged
}
