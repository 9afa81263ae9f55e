//! Finds the routes that may match a request without trying all of them.
//!
//! A listing of hosts and a tree of path segments lead to the numbers of the routes whose host and beginning of the path fit. Those routes are then
//! tried, the rest are not: with 10,000 routes a request costs little more than with ten. A route that says nothing about its beginning
//! (`*.php`, an expression without `^`, no path) is tried for every request of its hosts.
//!
//! The index only ever leaves out routes that cannot match. Whether a route matches is decided by the route alone.

use std::collections::HashMap;

use crate::pattern::{HostPattern, PathPattern};
use crate::route::Route;

/// Longer hosts are not names (RFC 1035 §2.3.4), and match no route that names one.
const MAX_HOST: usize = 255;

/// Numbers of routes by host and path.
#[derive(Debug, Default)]
pub(crate) struct RouteIndex {
    /// By host in lower case.
    exact: HashMap<Box<[u8]>, PathTree>,
    /// By the end of the host, with its dot.
    below: HashMap<Box<[u8]>, PathTree>,
    /// Routes of any host, and of patterns that are not a name.
    any: PathTree,
}

/// A tree of path segments. The root is the empty path.
#[derive(Debug, Default)]
struct PathTree {
    root: Node,
}

#[derive(Debug, Default)]
struct Node {
    /// Routes for this path alone.
    here: Vec<u32>,
    /// Routes for paths that begin here, or later.
    below: Vec<u32>,
    children: HashMap<Box<[u8]>, Node>,
}

impl RouteIndex {
    pub(crate) fn new(routes: &[Route]) -> Self {
        let mut index = Self::default();
        for (number, route) in (0..).zip(routes) {
            if route.hosts.is_empty() {
                index.any.insert(number, route);
            }
            for host in &route.hosts {
                index.tree_of(host).insert(number, route);
            }
        }
        index
    }

    fn tree_of(&mut self, host: &HostPattern) -> &mut PathTree {
        let lower = |name: &str| name.to_ascii_lowercase().into_bytes().into_boxed_slice();
        match host {
            HostPattern::Exact(name) => self.exact.entry(lower(name)).or_default(),
            HostPattern::Below(name) => self.below.entry(lower(name)).or_default(),
            HostPattern::Glob(_) | HostPattern::Regex(_) => &mut self.any,
        }
    }

    /// Calls `consider` with lists of numbers, each in ascending order, that together have every route that may match.
    pub(crate) fn candidates(&self, host: &[u8], path: &[u8], consider: &mut dyn FnMut(&[u32])) {
        let mut lower = [0; MAX_HOST];
        if let Some(lower) = lower.get_mut(..host.len())
            && !(self.exact.is_empty() && self.below.is_empty())
        {
            lower.copy_from_slice(host);
            lower.make_ascii_lowercase();
            if let Some(tree) = self.exact.get(&*lower) {
                tree.candidates(path, consider);
            }
            if !self.below.is_empty() {
                let dots = (0..lower.len()).filter(|&at| lower.get(at) == Some(&b'.'));
                for tree in dots.filter_map(|at| self.below.get(lower.get(at..)?)) {
                    tree.candidates(path, consider);
                }
            }
        }
        self.any.candidates(path, consider);
    }
}

impl PathTree {
    fn insert(&mut self, number: u32, route: &Route) {
        let literal = route.path.literal_prefix();
        let is_exact = matches!(route.path, PathPattern::Exact(_));
        // The last segment of a beginning may be incomplete.
        let known = match is_exact {
            true => literal,
            false => {
                literal.get(..literal.iter().rposition(|&byte| byte == b'/').unwrap_or(0)).unwrap_or_default()
            }
        };
        let mut node = &mut self.root;
        for segment in segments(known) {
            node = node.children.entry(segment.into()).or_default();
        }
        let list = if is_exact { &mut node.here } else { &mut node.below };
        // A route comes more than once where two of its hosts lead to the same tree.
        if list.last() != Some(&number) {
            list.push(number);
        }
    }

    fn candidates(&self, path: &[u8], consider: &mut dyn FnMut(&[u32])) {
        let mut node = &self.root;
        consider(&node.below);
        for segment in segments(path) {
            if node.children.is_empty() {
                return;
            }
            let Some(child) = node.children.get(segment) else { return };
            node = child;
            consider(&node.below);
        }
        consider(&node.here);
    }
}

/// The texts between the slashes.
fn segments(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    let relative = path.strip_prefix(b"/").unwrap_or(path);
    let empty = path.is_empty();
    relative.split(|&byte| byte == b'/').filter(move |_| !empty)
}

#[cfg(test)]
mod tests {
    use http::Method;

    use super::*;
    use crate::matcher::{BareRequest, Glob, RegularExpression, RequestView};
    use crate::route::{RouteMatch, Routes};
    use crate::{FixedResponse, Target};

    /// A small generator (xorshift64), so that a failure can be repeated.
    struct Random(u64);

    impl Random {
        fn below(&mut self, end: usize) -> usize {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            usize::try_from(self.0 % end as u64).unwrap()
        }

        fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
            &from[self.below(from.len())]
        }

        fn path(&mut self) -> String {
            (0..self.below(4)).fold(String::new(), |path, _| path + "/" + *self.pick(&["", "a", "b", "ab"]))
                + "/"
        }
    }

    fn route(random: &mut Random) -> Route {
        let mut route = Route::to(Target::Respond(FixedResponse::new(200, None, &[], "").unwrap()));
        let (path, hosts) = (random.path(), ["a.test", "b.test", "x.a.test", ""]);
        route.path = match random.below(7) {
            0 => PathPattern::Any,
            1 | 2 => {
                PathPattern::Exact(path.trim_end_matches('/').to_owned() + *random.pick(&["", "/", "/a"]))
            }
            3 | 4 => PathPattern::Prefix(path),
            5 => PathPattern::Glob(Glob::new(&format!("{path}*{}", random.pick(&["", "b", "/a"])))),
            _ => PathPattern::Regex(RegularExpression::new(&format!("^{path}a?b")).unwrap()),
        };
        for _ in 0..random.below(3) {
            route.hosts.push(match random.below(4) {
                0 => HostPattern::Below(".test".to_owned()),
                1 => HostPattern::Below(".a.test".to_owned()),
                2 => HostPattern::Glob(Glob::new("*.test")),
                _ => HostPattern::Exact((*random.pick(&hosts)).to_owned()),
            });
        }
        route.strip_prefix = random.below(4) == 0;
        route.methods = if random.below(3) == 0 { vec![Method::POST] } else { Vec::new() };
        route.not_methods = if random.below(5) == 0 { vec![Method::GET] } else { Vec::new() };
        route
    }

    /// The index finds what trying each route finds, on random routes and requests.
    #[test]
    fn it_finds_what_a_scan_finds() {
        for seed in 1..400_u64 {
            let random = &mut Random(seed * 0x9e37_79b9);
            let routes: Vec<Route> = (0..random.below(40)).map(|_| route(random)).collect();
            let (indexed, scanned) = (Routes::with_index(routes.clone()), Routes::without_index(routes));
            for _ in 0..60 {
                let path = random.path() + *random.pick(&["", "a", "b", "ab"]);
                let host =
                    *random.pick(&["a.test", "A.Test", "b.test", "x.a.test", "y.x.a.test", "", "other"]);
                let method = random.pick(&[Method::GET, Method::POST]);
                let details = BareRequest::default();
                let view =
                    RequestView { host: host.as_bytes(), path: path.as_bytes(), method, details: &details };
                let outcome = |routes: &Routes| match routes.find(&view) {
                    RouteMatch::Route(route) => format!("{:?}", routes.number_of(route)),
                    other => format!("{other:?}"),
                };
                assert_eq!(outcome(&indexed), outcome(&scanned), "seed {seed}: {method} {host} {path}");
            }
        }
    }

    #[test]
    fn a_host_longer_than_a_name_matches_only_routes_of_any_host() {
        let mut named = Route::to(Target::Respond(FixedResponse::new(200, None, &[], "").unwrap()));
        named.hosts = vec![HostPattern::Below(".test".to_owned())];
        let any = Route { hosts: Vec::new(), ..named.clone() };
        let routes = Routes::with_index(vec![named, any]);
        let host = "a.".repeat(200) + "test";
        let details = BareRequest::default();
        let view = RequestView { host: host.as_bytes(), path: b"/", method: &Method::GET, details: &details };
        assert!(matches!(routes.find(&view), RouteMatch::Route(route) if routes.number_of(route) == Some(1)));
    }
}
