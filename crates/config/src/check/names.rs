//! References from one section to another.

use crate::checker::Checker;
use crate::model::{Action, Config, Dependency, ErrorPage, PageSource, Route, SplitTarget};
use crate::nearest::{or_list, suggestion};
use crate::raw::Span;
use crate::report::Problem;
use crate::sections::{ProcessDraft, UpstreamDraft};

/// The names of sections, with their spans.
pub(super) struct SectionNames {
    pub(super) apps: Vec<(String, Span)>,
    pub(super) upstreams: Vec<(String, Span)>,
    pub(super) rate_limits: Vec<(String, Span)>,
}

/// Reports a reference to a section `[what.name]` that does not exist. The reference is `key` in the file, `doc` in
/// the documentation.
pub(super) fn check(
    name: &str,
    span: Span,
    key: &str,
    doc: &'static str,
    what: &str,
    known: &[(String, Span)],
    cx: &mut Checker<'_>,
) {
    if known.iter().any(|(known, _)| known == name) {
        return;
    }
    let names: Vec<&str> = known.iter().map(|(name, _)| name.as_str()).collect();
    let article = if what.starts_with(['a', 'u']) { "an" } else { "a" };
    let expected = match names.is_empty() {
        true => format!("{article} [{what}.NAME] section; there is none"),
        false => format!("the name of {article} [{what}.NAME]: {}", or_list(&names)),
    };
    Problem::new(format!("`{key}` is `{name}`, but there is no `[{what}.{name}]`"))
        .key(doc)
        .at(cx.source_map.location(span))
        .expected(expected)
        .maybe_help(suggestion(name, names))
        .report(cx);
}

/// Reports what processes wait for and does not exist.
pub(super) fn check_dependencies(processes: &[ProcessDraft], known: &SectionNames, cx: &mut Checker<'_>) {
    let names: Vec<(String, Span)> =
        processes.iter().map(|draft| (draft.process.name.clone(), draft.span)).collect();
    for draft in processes {
        let key = format!("process.{}.after", draft.process.name);
        for (dependency, span) in &draft.after {
            let (name, what, known) = match dependency {
                Dependency::App(name) => (name, "app", &known.apps),
                Dependency::Process(name) => (name, "process", &names),
                Dependency::Upstream(name) => (name, "upstream", &known.upstreams),
            };
            check(name, *span, &key, "process.NAME.after", what, known, cx);
        }
    }
}

/// Two upstreams whose variables have the same name: workers would get only one of them.
pub(super) fn check_variables(upstreams: &[UpstreamDraft], cx: &mut Checker<'_>) {
    for (index, draft) in upstreams.iter().enumerate() {
        let variable = draft.upstream.variable();
        let Some(earlier) = upstreams.iter().take(index).find(|one| one.upstream.variable() == variable)
        else {
            continue;
        };
        let (name, other) = (&draft.upstream.name, &earlier.upstream.name);
        Problem::new(format!("`upstream.{name}` and `upstream.{other}` have the same variable, {variable}"))
            .key("upstream")
            .at(cx.source_map.location(draft.span))
            .related(cx.source_map.location(earlier.span), "the other one")
            .expected("names that differ in more than case, `-` and `_`")
            .report(cx);
    }
}

/// Warns of sections that cost something and are not used.
pub(super) fn warn_of_unused(config: &Config, known: &SectionNames, cx: &mut Checker<'_>) {
    let routes = || config.listeners.iter().flat_map(|listen| &listen.routes);
    let leads_to = |fits: &dyn Fn(&Route) -> bool| routes().any(fits);
    let pages_lead_to =
        |target: &SplitTarget| config.listeners.iter().any(|listen| makes_page(&listen.error_pages, target));
    for (name, span) in &known.apps {
        let target = SplitTarget::App(name.clone());
        if !leads_to(&|route| is_target(route, &target)) && !pages_lead_to(&target) {
            let message = format!("no route leads to `app.{name}`: it is started, but gets no requests");
            let help = format!("add a [[listen.NAME.route]] with app = \"{name}\", or remove the app");
            warn("listen.NAME.route.app", *span, message, help, cx);
        }
    }
    // A forward proxy leads to every upstream.
    let has_proxy = config.listeners.iter().any(|listen| listen.forward_proxy.is_some());
    for (name, span) in known.upstreams.iter().filter(|_| !has_proxy) {
        let has_door = config.upstream(name).is_some_and(|upstream| !upstream.bind.is_empty());
        let target = SplitTarget::Upstream(name.clone());
        let is_collector = config.otlp.as_ref().is_some_and(|otlp| otlp.upstream == *name);
        if !has_door
            && !is_collector
            && !leads_to(&|route| is_target(route, &target))
            && !pages_lead_to(&target)
        {
            let message = format!("nothing leads to `upstream.{name}`: it has no door and no route");
            let help = "give it a door, for example bind = \"127.0.0.1:6102\", or remove it".to_owned();
            warn("upstream.NAME.bind", *span, message, help, cx);
        }
    }
    for (name, span) in &known.rate_limits {
        let of_upstream = config.upstreams.iter().any(|upstream| upstream.rate_limit.as_ref() == Some(name));
        if !of_upstream && !leads_to(&|route| route.rate_limit.as_ref() == Some(name)) {
            let message = format!("nothing uses `rate_limit.{name}`");
            let help = format!("add rate_limit = \"{name}\" to a route or an upstream, or remove it");
            warn("rate_limit", *span, message, help, cx);
        }
    }
}

/// Whether a route leads to it, if only with some requests.
fn is_target(route: &Route, target: &SplitTarget) -> bool {
    let main = match (&route.action, target) {
        (Action::App(own), SplitTarget::App(name)) | (Action::Upstream(own), SplitTarget::Upstream(name)) => {
            own == name
        }
        _ => false,
    };
    main || route.split.iter().any(|share| share.target == *target)
        || route.mirror.as_ref().is_some_and(|mirror| mirror.target == *target)
        || route.auth_request.as_ref().is_some_and(|auth| auth.service == *target)
        || makes_page(&route.error_pages, target)
}

fn makes_page(pages: &[ErrorPage], target: &SplitTarget) -> bool {
    pages.iter().any(|page| matches!(&page.source, PageSource::App(app, _) if app == target))
}

fn warn(key: &'static str, span: Span, message: String, help: String, cx: &mut Checker<'_>) {
    Problem::new(message).key(key).at(cx.source_map.location(span)).help(help).warn(cx);
}
