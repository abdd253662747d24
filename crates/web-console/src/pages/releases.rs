//! Releases and the paths between them.

use maud::{Markup, html};
use release::channel::ChannelName;

use super::operators::add_form;
use crate::view::configurations::ConfigurationRow;

/// What a page of releases is about, as in its address.
#[derive(Debug, Clone, Default)]
pub(crate) struct ReleaseChoice {
    pub(crate) channel: String,
    pub(crate) architecture: String,
    pub(crate) from: String,
    pub(crate) to: String,
    pub(crate) is_carried: bool,
}

/// What was found.
#[derive(Debug, Clone, Default)]
pub(crate) struct FoundReleases {
    /// Of the channel, newest first.
    pub(crate) versions: Vec<String>,
    /// The path as text, where one was requested.
    pub(crate) path: Option<Result<String, String>>,
    /// The address of its diagram.
    pub(crate) diagram: String,
    /// Between which releases the path is.
    pub(crate) ends: Option<ReleaseChoice>,
}

const ARCHITECTURES: [&str; 5] = ["amd64", "arm64", "ppc64le", "s390x", "multi"];

pub(crate) fn content(
    choice: &ReleaseChoice,
    found: Option<&Result<FoundReleases, String>>,
    configurations: &[ConfigurationRow],
) -> Markup {
    let versions = match found {
        Some(Ok(found)) => found.versions.as_slice(),
        _ => &[],
    };
    html! {
        form .stacked method="get" action="/releases" {
            label for="channel" { "Channel" }
            input id="channel" name="channel" required value=(choice.channel) placeholder="stable-4.20" spellcheck="false";
            label for="arch" { "Architecture" }
            select id="arch" name="arch" {
                @for name in ARCHITECTURES { option value=(name) selected[name == choice.architecture] { (name) } }
            }
            label for="from" { "From" }
            input id="from" name="from" value=(choice.from) list="versions" placeholder="the release that the cluster has" spellcheck="false";
            label for="to" { "To" }
            input id="to" name="to" value=(choice.to) list="versions" placeholder="the release that it is to have" spellcheck="false";
            label for="carried" { "Offline" }
            span { input id="carried" type="checkbox" name="carried" value="true" checked[choice.is_carried]; " read the graphs in this workspace" }
            button type="submit" { "Show" }
            datalist id="versions" { @for version in versions.iter().take(500) { option value=(version) {} } }
        }
        @match found {
            None => {},
            Some(Err(why)) => p .fault role="alert" { (why) },
            Some(Ok(found)) => (paths_page(choice, found, configurations)),
        }
    }
}

fn is_eus(channel: &str) -> bool {
    ChannelName::parse(channel).is_some_and(|name| name.is_eus())
}

fn paths_page(
    choice: &ReleaseChoice,
    found: &FoundReleases,
    configurations: &[ConfigurationRow],
) -> Markup {
    let is_graph = choice.from.is_empty() && choice.to.is_empty();
    html! {
        @match &found.path {
            None => {},
            Some(Err(why)) => p .fault role="alert" { (why) },
            Some(Ok(text)) => {
                h2 { @if is_graph { "Update graph" } @else { "Upgrade path" } }
                @if is_graph { p .note { "How the newest release is reached. Enter releases above for the path between them, with its hops and known risks." } }
                div .diagram tabindex="0" role="region" aria-label="Diagram of the upgrade path" {
                    img src=(found.diagram) alt="Releases and the updates between them, as in the text below";
                }
                @if text.contains("EUS") || is_eus(&choice.channel) {
                    p .note { "Releases with an even minor version have Extended Update Support (EUS). Hops marked "
                        "EUS lead from one to the next through the odd version, while the workers can stay paused." }
                }
                details open[!is_graph] { summary { "As text" } pre tabindex="0" { code { (text) } } }
            },
        }
        h2 { "Releases in " (choice.channel)
            @if is_eus(&choice.channel) { " " span .badge.active { "EUS channel" } } }
        p { (found.versions.join(", ")) }
        h2 { "Add to a configuration" }
        (add_form(configurations, &html! {
            input type="hidden" name="kind" value="releases";
            input type="hidden" name="channel" value=(choice.channel);
            label for="min" { "First release" }
            input id="min" name="from" value=(choice.from) list="versions" placeholder="the newest only" spellcheck="false";
            label for="max" { "Last release" }
            input id="max" name="to" value=(choice.to) list="versions" placeholder="the newest" spellcheck="false";
            label for="shortest" { "Shortest path" }
            span { input id="shortest" type="checkbox" name="shortest" value="true" checked; " only the releases on the path" }
        }))
    }
}
