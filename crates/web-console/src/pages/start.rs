//! Forms that start commands.

use maud::{Markup, html};

use crate::view::configurations::{ConfigurationRow, Purpose};

/// What the forms offer.
#[derive(Debug)]
pub(crate) struct StartForms<'a> {
    pub(crate) configurations: &'a [ConfigurationRow],
    /// The target of the newest push, to start with.
    pub(crate) target: &'a str,
    /// What was wrong with the last attempt.
    pub(crate) problem: Option<&'a str>,
    /// Whether a process uses the workspace.
    pub(crate) is_busy: bool,
}

pub(crate) fn content(forms: &StartForms<'_>) -> Markup {
    let StartForms { configurations, target, problem, is_busy } = forms;
    let mirror = select("config", configurations, Purpose::Mirror);
    html! {
        @if let Some(problem) = problem { p .fault role="alert" { (problem) } }
        @if *is_busy {
            p .note { "A process uses this workspace. What you start now ends with an error unless that process ends first; "
                a href="/" { "see its progress" } "." }
        }
        @if !has(configurations, Purpose::Mirror) {
            p { "Mirroring needs a configuration without errors: "
                a href="/configurations" { "create or upload one" } "." }
        }
        (workflow("mirrorToDisk", "Mirror to disk", "Fetches what the configuration selects, and writes an archive to transfer.",
            &html! { (mirror("disk")) (plan_only("disk")) }))
        (workflow("diskToMirror", "Disk to mirror", "Pushes archives or this workspace to a registry, without other connections.",
            &html! { (mirror("push")) (target_field("push", target)) (plan_only("push")) }))
        (workflow("mirrorToMirror", "Mirror to mirror", "Copies from the source registries directly to a registry.",
            &html! { (mirror("copy")) (target_field("copy", target)) (plan_only("copy")) }))
        (workflow("verify", "Verify", "Checks every byte of the workspace and its archives against its digest.", &html! {}))
        (workflow("repair", "Repair", "Verifies the workspace, and fetches only what is damaged or missing.", &html! {}))
        (workflow("planDeletion", "Delete from a registry", "First writes a plan. Nothing is deleted before you confirm it.",
            &html! { (select("config", configurations, Purpose::Delete)("delete")) (target_field("delete", target)) }))
        p { a href="/plan" { "The plan of the last dry run" } ", " a href="/deletion" { "the plan of the last deletion" } ", " a href="/jobs" { "what was started here" } }
    }
}

fn has(configurations: &[ConfigurationRow], purpose: Purpose) -> bool {
    configurations.iter().any(|row| row.checked.purpose == Some(purpose))
}

fn workflow(key: &str, title: &str, about: &str, fields: &Markup) -> Markup {
    html! {
        section aria-labelledby={ "w-" (key) } {
            h2 id={ "w-" (key) } { (title) }
            p .note { (about) }
            form .stacked method="post" action="/start" {
                input type="hidden" name="workflow" value=(key);
                (fields)
                button type="submit" { "Start: " (title) }
            }
        }
    }
}

/// A field that offers the configurations for a purpose; its id starts with the given text.
fn select<'a>(
    name: &'a str,
    configurations: &'a [ConfigurationRow],
    purpose: Purpose,
) -> impl Fn(&str) -> Markup + 'a {
    move |id| {
        html! {
            label for={ (id) "-config" } { "Configuration" }
            select id={ (id) "-config" } name=(name) required {
                @for row in configurations.iter().filter(|row| row.checked.purpose == Some(purpose)) {
                    option value=(row.name) { (row.name) }
                }
            }
        }
    }
}

fn target_field(id: &str, target: &str) -> Markup {
    html! {
        label for={ (id) "-target" } { "Target registry" }
        input id={ (id) "-target" } name="target" required value=(target)
            placeholder="registry.example.com:5000/namespace" autocomplete="off" spellcheck="false";
    }
}

fn plan_only(id: &str) -> Markup {
    html! {
        label for={ (id) "-plan" } { "Plan only" }
        span { input id={ (id) "-plan" } type="checkbox" name="dryRun" value="true"; " write what would be done, change nothing else" }
    }
}
