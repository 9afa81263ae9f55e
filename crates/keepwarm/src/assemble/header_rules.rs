//! Header rules of a listener and its routes, as one.

use keepwarm_config::{HeaderRules, Template};

/// Rules that do what the listener's do, and then the route's. For a header that the route sets or removes, nothing of the listener's is left.
pub(super) fn merged(listener: &HeaderRules, route: &HeaderRules) -> HeaderRules {
    let is_ours =
        |name: &str| route.remove.iter().any(|gone| gone.eq_ignore_ascii_case(name)) || has(&route.set, name);
    let left = |rules: &[(String, Template)]| -> Vec<(String, Template)> {
        rules.iter().filter(|(name, _)| !is_ours(name)).cloned().collect()
    };
    let both = |first: Vec<(String, Template)>, second: &[(String, Template)]| {
        first.into_iter().chain(second.iter().cloned()).collect()
    };
    let mut if_missing = left(&listener.if_missing);
    // The listener's have been added by then.
    let missing: Vec<_> =
        route.if_missing.iter().filter(|(name, _)| !has(&if_missing, name)).cloned().collect();
    if_missing.extend(missing);
    HeaderRules {
        remove: listener.remove.iter().chain(&route.remove).cloned().collect(),
        set: both(left(&listener.set), &route.set),
        add: both(left(&listener.add), &route.add),
        if_missing,
    }
}

fn has(rules: &[(String, Template)], name: &str) -> bool {
    rules.iter().any(|(one, _)| one.eq_ignore_ascii_case(name))
}

#[cfg(test)]
mod tests {
    use keepwarm_config::TemplatePiece;

    use super::*;

    fn rule(name: &str, value: &str) -> (String, Template) {
        (name.to_owned(), Template(vec![TemplatePiece::Text(value.to_owned())]))
    }

    #[test]
    fn the_route_comes_after_the_listener() {
        let listener = HeaderRules {
            remove: vec!["server".to_owned()],
            set: vec![rule("X-Frame-Options", "DENY"), rule("X-A", "listener")],
            add: vec![rule("Vary", "Accept"), rule("X-B", "listener")],
            if_missing: vec![rule("Cache-Control", "no-store"), rule("X-C", "listener")],
        };
        let route = HeaderRules {
            remove: vec!["x-b".to_owned(), "x-c".to_owned()],
            set: vec![rule("x-a", "route")],
            add: vec![rule("Vary", "Cookie")],
            if_missing: vec![rule("cache-control", "public"), rule("X-D", "route")],
        };
        let expected = HeaderRules {
            remove: ["server", "x-b", "x-c"].map(str::to_owned).to_vec(),
            set: vec![rule("X-Frame-Options", "DENY"), rule("x-a", "route")],
            add: vec![rule("Vary", "Accept"), rule("Vary", "Cookie")],
            if_missing: vec![rule("Cache-Control", "no-store"), rule("X-D", "route")],
        };
        assert_eq!(merged(&listener, &route), expected);
        assert_eq!(merged(&HeaderRules::default(), &route), route);
        assert_eq!(merged(&listener, &HeaderRules::default()), listener);
    }
}
