//! The login, and the response to requests that are refused.

use maud::{Markup, html};

use super::layout::plain_page;
use crate::access::Refusal;

/// After the token was accepted. The page reloads itself instead of a redirect: a request that
/// follows a link of another site does not have the cookie, a reload by the page itself does.
pub(crate) fn accepted() -> Markup {
    html! {
        (maud::DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="refresh" content="0;url=/";
                title { "Logged in · oc-mirror console" }
                link rel="stylesheet" href="/assets/console.css";
            }
            body { main { h1 { "Logged in" } p { a href="/" { "Continue to the console" } } } }
        }
    }
}

/// The login form. `is_wrong` after a token that is not the console's.
pub(crate) fn form(is_wrong: bool) -> Markup {
    plain_page(
        "Log in",
        &html! {
            @if is_wrong { p .fault role="alert" { "This is not the token of this console." } }
            p { "Open the address that " code { "oc-mirror console" } " printed when it started, or enter its token." }
            form method="post" action="/login" {
                label for="token" { "Token" }
                input id="token" name="token" type="password" autocomplete="off" required;
                button type="submit" { "Log in" }
            }
        },
    )
}

pub(crate) fn refused(refusal: Refusal) -> Markup {
    match refusal {
        Refusal::Session => form(false),
        Refusal::Host => plain_page(
            "Wrong host name",
            &html! {
                p { "This request names a host that is not this console. Open the address that "
                    code { "oc-mirror console" } " printed; for another name of this machine, start it with "
                    code { "--hostname" } "." }
            },
        ),
        Refusal::Origin => plain_page(
            "Request from another site",
            &html! {
                p { "A page of another site sent this request, or the browser did not state which page did. Nothing was changed." }
            },
        ),
    }
}
