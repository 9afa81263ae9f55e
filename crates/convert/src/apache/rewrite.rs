//! `RewriteRule`s of a server: redirects, denials, and what front controllers need.

use super::site::mounts::places;
use super::site::regions::in_directory;
use super::site::{Host, Mount, Reader};
use super::syntax::Node;
use crate::expression;
use crate::model::{PathMatch, Route};
use crate::table::Table;

const TODO: &str = "write a route with `redirect`, `rewrite` or `respond` by hand";

impl<'a> Reader<'a> {
    /// The rules of the server, which come before `Redirect`.
    pub(super) fn rewrites(&mut self, host: &Host<'a>) -> Vec<Route> {
        self.rules(host, &host.own, None)
    }

    /// The rules of directories, which come after it. `passed`: paths of other servers, for which they are not.
    pub(super) fn rewrites_of_directories(
        &mut self,
        host: &Host<'a>,
        mounts: &[Mount],
        passed: &[String],
    ) -> Vec<Route> {
        let mut routes = Vec::new();
        for section in host.all.iter().copied() {
            let inner: Vec<&Node> = section.inner.iter().collect();
            if !inner.iter().any(|node| node.name == "rewriterule") {
                continue;
            }
            match section.name.as_str() {
                "directory" => {
                    let places = places(mounts, section.arg(0));
                    for place in &places {
                        for mut route in self.rules(host, &inner, Some(place)) {
                            route.except.extend(passed.iter().cloned());
                            routes.push(route);
                        }
                    }
                    if places.is_empty() {
                        self.lost_rules(&inner, "a rule of another directory than those of the site");
                    }
                }
                name if name.starts_with("location") || name.starts_with("directory") => {
                    self.lost_rules(&inner, "a rule of a part of the paths");
                }
                _ => {}
            }
        }
        routes
    }

    fn lost_rules(&mut self, nodes: &[&Node], why: &str) {
        for node in nodes {
            match node.name.as_str() {
                "rewriterule" => self.ledger.lost(node.origin, why, TODO),
                "rewritecond" => self.ledger.ignored(node.origin, "the condition of a rule that is dropped"),
                _ => {}
            }
        }
    }

    /// The routes of rules, of a server or of a directory with the paths below `place`.
    fn rules(&mut self, host: &Host<'a>, nodes: &[&Node], place: Option<&str>) -> Vec<Route> {
        let mut routes = Vec::new();
        let mut conditions: Vec<&Node> = Vec::new();
        let base = nodes.iter().find(|node| node.name == "rewritebase").map(|node| node.arg(0));
        for node in nodes.iter().copied() {
            match node.name.as_str() {
                "rewritecond" => conditions.push(node),
                "rewriterule" => {
                    let conditions = std::mem::take(&mut conditions);
                    match self.rule(host, node, &conditions, place, base) {
                        Ok(made) => {
                            routes.extend(made);
                            self.ledger.carried(node.origin);
                            conditions.iter().for_each(|condition| self.ledger.carried(condition.origin));
                        }
                        Err(why) => {
                            self.ledger.lost(node.origin, why, TODO);
                            conditions.iter().for_each(|condition| {
                                self.ledger
                                    .ignored(condition.origin, "the condition of a rule that is dropped")
                            });
                        }
                    }
                }
                "rewriteoptions" => self.ledger.ignored(node.origin, "rules of an .htaccess stay there"),
                "rewritebase" => self.ledger.carried(node.origin),
                "rewritemap" => self.ledger.lost(node.origin, "a map of rewrites", "write a `[map.NAME]`"),
                _ => {}
            }
        }
        routes
    }

    fn rule(
        &mut self,
        host: &Host<'a>,
        node: &Node,
        conditions: &[&Node],
        place: Option<&str>,
        base: Option<&str>,
    ) -> Result<Option<Route>, String> {
        let (pattern, target) = (node.arg(0), node.arg(1));
        let flags: Vec<String> = node
            .arg(2)
            .trim_matches(['[', ']'])
            .split(',')
            .map(|flag| flag.trim().to_ascii_uppercase())
            .collect();
        let has = |name: &str| flags.iter().any(|flag| flag == name || flag.starts_with(&format!("{name}=")));
        let is_answer = ["F", "G", "R"].iter().any(|flag| has(flag));
        if !is_answer && is_front_controller(target, conditions) && host.root.is_some() {
            if place.is_some_and(|place| place != "/") {
                return Err("a script for all paths of a directory".to_owned());
            }
            // The entry of the app handles every path without a file.
            return Ok(None);
        }
        let mut table = Table::default();
        let mut paths = Vec::new();
        for condition in conditions {
            match condition.arg(0) {
                "%{REQUEST_URI}" => paths.push(path_condition(condition)?),
                _ => set_condition(&mut table, condition)?,
            }
        }
        // The whole path: a group of it is the path.
        let is_path =
            place.is_none() && matches!(pattern, "^(.*)$" | "(.*)" | "^(.*)") && target.contains("$1");
        let is_relative = place.is_some()
            && target != "-"
            && !target.starts_with(['/', '%', '$'])
            && !target.contains("://");
        let target = &match (is_path, is_relative, base.or(place)) {
            (true, ..) => target.replace("$1", "%{REQUEST_URI}"),
            (false, true, Some(base)) => format!("{}/{target}", base.trim_end_matches('/')),
            _ => target.to_owned(),
        };
        let is_negated = pattern.starts_with('!');
        let pattern = pattern.trim_start_matches('!');
        let is_all = matches!(
            pattern,
            "^" | ".*"
                | "(.*)"
                | "^(.*)$"
                | "^.*$"
                | "^/?(.*)"
                | "^/(.*)$"
                | "^/(.*)"
                | "^(.*)"
                | "."
                | "^/?(.*)$"
        );
        let checked = expression::check(pattern, has("NC"))?;
        let captures = checked.contains('(');
        let flags_of = checked.strip_prefix("(?i)");
        let placed = |place: &str| match flags_of {
            Some(rest) => format!("(?i){}", in_directory(place, rest)),
            None => in_directory(place, &checked),
        };
        let below = place.filter(|place| *place != "/").map(str::to_owned);
        let path = match (is_all && !target.contains("$1"), is_negated, place) {
            (true, false, _) => below.map_or(PathMatch::Any, PathMatch::Begin),
            (_, true, place) => {
                let pattern = place.map_or_else(|| checked.clone(), placed);
                let mut patterns: Vec<String> = below.iter().map(|place| format!("{place}*")).collect();
                patterns.push(format!("!~{pattern}"));
                PathMatch::Patterns(patterns)
            }
            // In a directory, paths have no slash at the beginning: in a server they have.
            (false, false, Some(place)) => PathMatch::Regex(placed(place)),
            (false, false, None) => PathMatch::Regex(checked.replace("^/?", "^/")),
        };
        let mut route = Route::new(node.origin, path);
        for (is_negated, pattern) in paths {
            match (is_negated, &route.path) {
                (true, _) => route.except.push(format!("~{pattern}")),
                (false, PathMatch::Any) => route.path = PathMatch::Regex(pattern),
                (false, _) => return Err("a condition on REQUEST_URI beside a pattern".to_owned()),
            }
        }
        route.table.items.extend(table.items);
        if has("F") {
            route.table.set("respond", 403i64, node.origin);
            return Ok(Some(route));
        }
        if has("G") {
            route.table.set("respond", 410i64, node.origin);
            return Ok(Some(route));
        }
        if has("P") {
            return Err("a rule that passes requests to a proxy".to_owned());
        }
        let is_url = target.starts_with("http://") || target.starts_with("https://");
        if !has("R") && !is_url {
            return Err("a rule that changes the path".to_owned());
        }
        let status = flags.iter().find_map(|flag| flag.strip_prefix("R="));
        let status: i64 = match status {
            Some("PERMANENT") => 301,
            Some("TEMP") | None => 302,
            Some("SEEOTHER") => 303,
            Some(code) => code.parse().unwrap_or(302),
        };
        let text = template(target, captures).ok_or("its target has a variable without a counterpart")?;
        let query = match (text.contains('?'), text.contains("$query"), has("QSA")) {
            (_, true, _) | (true, _, false) => "",
            (true, false, true) => "&$args",
            (false, false, _) if has("QSD") => "",
            (false, false, _) => "$query",
        };
        let text = format!("{}{query}", text.trim_end_matches('?'));
        crate::nginx::safe_target(&text)
            .map_err(|_| "the client would choose the host of the redirect".to_owned())?;
        route.table.set("redirect", crate::nginx::redirect(&text, status, node.origin), node.origin);
        Ok(Some(route))
    }
}

/// `RewriteCond %{REQUEST_FILENAME} !-f` and a script.
fn is_front_controller(target: &str, conditions: &[&Node]) -> bool {
    let script = target.split('?').next().unwrap_or("").split("/$1").next().unwrap_or("");
    let all_files = conditions.iter().all(|condition| {
        let (subject, pattern) = (condition.arg(0), condition.arg(1));
        let is_file = subject.contains("REQUEST_FILENAME") || subject.contains("DOCUMENT_ROOT");
        (is_file && pattern.trim_start_matches('!').starts_with('-'))
            || (subject.contains("REQUEST_URI") && pattern.starts_with('!'))
    });
    (script.ends_with(".php") && all_files && !conditions.is_empty())
        || target == "-" && !conditions.is_empty() && all_files
}

/// A condition on the path: whether it is negated, and its expression.
fn path_condition(condition: &Node) -> Result<(bool, String), String> {
    let (pattern, flags) = (condition.arg(1), condition.arg(2));
    if flags.contains("OR") {
        return Err("conditions of which one is enough".to_owned());
    }
    let (is_negated, plain) = pattern.strip_prefix('!').map_or((false, pattern), |rest| (true, rest));
    match plain.starts_with(['=', '<', '>', '-']) {
        true => Err("a condition on REQUEST_URI without a regular expression".to_owned()),
        false => Ok((is_negated, expression::check(plain, flags.contains("NC"))?)),
    }
}

fn set_condition(table: &mut Table, condition: &Node) -> Result<(), String> {
    let (subject, pattern) = (condition.arg(0), condition.arg(1));
    let ignore_case = condition.arg(2).contains("NC");
    if condition.arg(2).contains("OR") {
        return Err("conditions of which one is enough".to_owned());
    }
    let (sign, plain) = pattern.strip_prefix('!').map_or(("", pattern), |rest| ("!", rest));
    let name = subject.trim_start_matches("%{").trim_end_matches('}');
    let negated = sign == "!";
    let value = |text: &str| -> Result<String, String> {
        match text.strip_prefix('=') {
            Some(exact) => Ok(format!("{sign}{exact}")),
            None => Ok(format!("{sign}~{}", expression::check(text, ignore_case)?)),
        }
    };
    match name {
        "HTTPS" => {
            let is_on = plain.trim_matches(['=', '^', '$']).eq_ignore_ascii_case("on");
            table.set("scheme", if is_on != negated { "https" } else { "http" }, condition.origin);
        }
        "SERVER_PORT" => {
            let is_tls = plain.contains("443");
            table.set("scheme", if is_tls != negated { "https" } else { "http" }, condition.origin);
        }
        "REQUEST_SCHEME" | "HTTP:X-Forwarded-Proto" => {
            let is_tls = plain.contains("https");
            table.set("scheme", if is_tls != negated { "https" } else { "http" }, condition.origin);
        }
        "HTTP_HOST" | "SERVER_NAME" => {
            let literal = plain.trim_start_matches('^').trim_end_matches('$').replace("\\.", ".");
            let is_literal = plain.starts_with('^')
                && plain.ends_with('$')
                && !literal.contains(['*', '(', '[', '+', '?', '\\', '|']);
            let text = match is_literal || plain.starts_with('=') {
                true => format!("{sign}{}", literal.trim_start_matches('=').to_lowercase()),
                false => format!("{sign}~{}", expression::check(plain, true)?),
            };
            table.set("host", text, condition.origin);
        }
        "HTTP_USER_AGENT" => table.set_in(&["header"], "User-Agent", value(plain)?, condition.origin),
        "HTTP_REFERER" => table.set_in(&["header"], "Referer", value(plain)?, condition.origin),
        "REQUEST_METHOD" => {
            let list = plain.trim_matches(['^', '$', '(', ')']);
            let methods: Vec<String> = list.split('|').map(|method| format!("{sign}{method}")).collect();
            if !list.bytes().all(|b| b.is_ascii_uppercase() || b == b'|') {
                return Err("a pattern of methods".to_owned());
            }
            table.set("method", crate::table::one_or_list(methods), condition.origin);
        }
        "REMOTE_ADDR" => {
            let address = plain.trim_start_matches('^').trim_end_matches('$').replace("\\.", ".");
            if !crate::cidr::is_address(&address) {
                return Err("a pattern of addresses".to_owned());
            }
            table.set("client", format!("{sign}{address}"), condition.origin);
        }
        name => return Err(format!("a condition on {name}")),
    }
    Ok(())
}

fn template(text: &str, captures: bool) -> Option<String> {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(['%', '$']) {
        let (before, after) = rest.split_at(at);
        out.push_str(before);
        if let Some((name, behind)) = after.strip_prefix("%{").and_then(|inside| inside.split_once('}')) {
            out.push_str(match name {
                "HTTP_HOST" => "$host",
                "SERVER_NAME" => "$host_name",
                "REQUEST_URI" => "$path",
                "QUERY_STRING" => "$args",
                "REQUEST_SCHEME" => "$scheme",
                _ => return None,
            });
            rest = behind;
            continue;
        }
        let mut chars = after.chars();
        match (chars.next(), chars.next()) {
            (Some('$'), Some(digit)) if digit.is_ascii_digit() && captures && digit != '0' => {
                out.push('$');
                out.push(digit);
            }
            // `%1` is a group of a condition.
            _ => return None,
        }
        rest = after.get(2..)?;
    }
    out.push_str(rest);
    // `/$1` of a pattern whose group has the slash already.
    Some(out)
}
