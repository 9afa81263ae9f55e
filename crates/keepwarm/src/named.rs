//! The app and the route that a command names, and what is said where there is no such thing.

use std::sync::Arc;

use keepwarm_telemetry::meters;
use keepwarm_workers::dispatch::App;

use crate::status::view::View;

/// The app of this name.
pub(crate) fn app(view: &View, name: &str) -> Result<Arc<App>, String> {
    let served = view.served();
    let names: Vec<&str> = served.apps.iter().map(|(name, _)| name.as_str()).collect();
    let app = names.contains(&name).then(|| view.links.app(name)).flatten();
    app.ok_or_else(|| unknown("there is no app", name, &names))
}

/// Routes are known by the pattern that the configuration gives them.
pub(crate) fn check_route(app: &str, route: &str) -> Result<(), String> {
    let meters = meters::routes();
    let known: Vec<&str> =
        meters.iter().filter(|meter| *meter.app == *app).map(|meter| &*meter.route).collect();
    match known.contains(&route) {
        true => Ok(()),
        false => Err(unknown(&format!("app {app} has no route"), route, &known)),
    }
}

fn unknown(what: &str, name: &str, known: &[&str]) -> String {
    let near = keepwarm_config::suggestion(name, known.iter().copied()).map(|near| format!("; {near}"));
    let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
    format!("{what} {name:?} (there are: {known}){}", near.unwrap_or_default())
}

/// `1 worker`, `2 workers`.
pub(crate) fn counted(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_there_is_named_with_what_is() {
        assert_eq!(
            unknown("there is no app", "shp", &["shop", "blog"]),
            "there is no app \"shp\" (there are: shop, blog); did you mean `shop`?"
        );
        assert_eq!(unknown("there is no app", "x", &[]), "there is no app \"x\" (there are: none)");
    }
}
