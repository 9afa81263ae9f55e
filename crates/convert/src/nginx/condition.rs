//! `if`, in the forms that only return.

use super::Reader;
use super::action::Place;
use super::syntax::Directive;
use crate::ledger::Origin;
use crate::model::{PathMatch, Route};
use crate::table::Table;

const TODO: &str = "write a route with the condition by hand, before the others";
const CLOSED: &str = "what it may refuse gets 501; write a route with the condition by hand instead";

impl<'d> Reader<'d, '_> {
    /// The routes of an `if`: none where it is dropped.
    pub(super) fn condition(&mut self, place: &Place<'_, 'd>, block: &'d Directive) -> Vec<Route> {
        if is_missing_script(block) && place.scope.own_one("fastcgi_pass").is_some() {
            let how = "the entry script handles requests for scripts that do not exist";
            self.ledger.differs(block.origin, how);
            block.children().iter().for_each(|inner| self.ledger.carried(inner.origin));
            return Vec::new();
        }
        if is_missing_file(block) {
            return self.front_controller(place, block);
        }
        let conditions = match self.conditions(place, block) {
            Ok(conditions) => conditions,
            Err(why) => return self.drop_condition(place, block, &why),
        };
        let mut routes = Vec::new();
        for inner in block.children() {
            match inner.name.as_str() {
                "return" => {
                    if is_without_head(block) {
                        let mut head = conditions.clone();
                        head.set("method", "HEAD", block.origin);
                        routes.extend(self.returned(place, inner, &head));
                    }
                    routes.extend(self.returned(place, inner, &conditions));
                    break;
                }
                "rewrite" if is_redirect(inner) => {
                    routes.extend(self.conditional_redirect(place, inner, &conditions))
                }
                "break" if block.children().len() > 1 => self.ledger.carried(inner.origin),
                name => {
                    let why = format!("`{name}` within `if` has no counterpart");
                    return self.drop_condition(place, block, &why);
                }
            }
        }
        self.ledger.carried(block.origin);
        routes
    }

    /// An `if` that refuses requests must not leave its paths open.
    fn drop_condition(&mut self, place: &Place<'_, 'd>, block: &Directive, why: &str) -> Vec<Route> {
        let refuses = block.children().iter().any(is_refusal);
        super::drop_block(block, why, if refuses { CLOSED } else { TODO }, self.ledger);
        if refuses { vec![place.closed(block.origin)] } else { Vec::new() }
    }

    fn conditional_redirect(
        &mut self,
        place: &Place<'_, 'd>,
        inner: &'d Directive,
        conditions: &Table,
    ) -> Vec<Route> {
        let mut routes = self.rewrite(place, inner);
        for route in &mut routes {
            route.table.items.extend(conditions.items.iter().cloned());
        }
        routes
    }

    /// The conditions of a route for those of an `if`.
    fn conditions(&mut self, place: &Place<'_, 'd>, block: &Directive) -> Result<Table, String> {
        let origin = block.origin;
        let text = block.args.join(" ");
        let inside = text.trim();
        let inside = inside.strip_prefix('(').unwrap_or(inside);
        let inside = inside.strip_suffix(')').unwrap_or(inside).trim().to_owned();
        let words: Vec<&str> = inside.split_whitespace().collect();
        let mut table = Table::default();
        let (variable, operator, value) = match words.as_slice() {
            [variable] if variable.starts_with('$') => (*variable, "!=", ""),
            [variable, operator] if variable.starts_with('$') => (*variable, *operator, ""),
            [variable, operator, rest @ ..] if variable.starts_with('$') => {
                let at = inside.find(rest.first().copied().unwrap_or("")).unwrap_or(0);
                (*variable, *operator, inside.get(at..).unwrap_or("").trim())
            }
            _ => return Err("its condition has no counterpart".to_owned()),
        };
        let value = value.trim_matches(['"', '\'']);
        let name = variable.trim_start_matches('$').trim_matches(['{', '}']);
        let pattern = match operator {
            "=" | "!=" => {
                let constant = place.variables.constant(value).or_else(|| {
                    let name = &place.server.variables.server_name;
                    (value == "$server_name" && !name.is_empty()).then(|| name.clone())
                });
                let Some(value) = constant else {
                    return Err(format!("`{value}` depends on the request"));
                };
                format!("{}{}", if operator == "=" { "" } else { "!" }, literal(&value))
            }
            "~" | "~*" | "!~" | "!~*" => {
                let pattern = self.expression(value, operator.ends_with('*'))?;
                format!("{}~{pattern}", if operator.starts_with('!') { "!" } else { "" })
            }
            _ => return Err(format!("`{operator}` has no counterpart")),
        };
        match name {
            "invalid_referer" => self.invalid_referer(place, &pattern, &mut table, origin)?,
            _ => set_condition(&mut table, name, &pattern, origin)?,
        }
        Ok(table)
    }
}

fn set_condition(table: &mut Table, name: &str, pattern: &str, origin: Origin) -> Result<(), String> {
    // An absent value is empty: `= ""` is "there is none", `!= ""` is "there is one".
    let presence = match pattern {
        "" => "!*",
        "!" => "*",
        pattern => pattern,
    };
    match name {
        "host" | "http_host" => table.set("host", host(pattern), origin),
        "request_method" => table.set("method", methods(pattern)?, origin),
        "scheme" => table.set("scheme", scheme(pattern)?, origin),
        "https" if pattern.is_empty() || pattern == "!on" => table.set("scheme", "http", origin),
        "https" => table.set("scheme", "https", origin),
        "server_port" if pattern == "80" || pattern == "!443" => table.set("scheme", "http", origin),
        "server_port" if pattern == "443" || pattern == "!80" => table.set("scheme", "https", origin),
        "http_x_forwarded_proto" => table.set("scheme", scheme(pattern)?, origin),
        "remote_addr" if crate::cidr::is_address(pattern.trim_start_matches('!')) => {
            table.set("client", pattern, origin)
        }
        "request_uri" | "uri" | "document_uri" => {
            return Err("a condition on the path is that of a location".to_owned());
        }
        name => {
            let keyed = [("http_", "header"), ("arg_", "query"), ("cookie_", "cookie")];
            let found = keyed.iter().find_map(|(start, key)| Some((*key, name.strip_prefix(start)?)));
            let Some((key, name)) = found else {
                return Err(format!("Keepwarm has no condition on ${name}"));
            };
            let name = if key == "header" { super::settings::header_name(name) } else { name.to_owned() };
            table.set_in(&[key], &name, presence, origin);
        }
    }
    Ok(())
}

/// A text of which no character is a pattern.
fn literal(text: &str) -> String {
    match text.contains('*') || text.starts_with(['!', '~']) {
        true => format!("~^{}$", crate::model::escape(text)),
        false => text.to_owned(),
    }
}

/// Hosts are in lower case; letters of an expression can be classes.
fn host(pattern: &str) -> String {
    match pattern.trim_start_matches('!').strip_prefix('~') {
        Some(expression) => {
            let not = if pattern.starts_with('!') { "!" } else { "" };
            format!("{not}~(?i){}", expression.trim_start_matches("(?i)"))
        }
        None => pattern.to_lowercase(),
    }
}

/// Methods of an expression such as `^(GET|HEAD|POST)$`.
fn methods(pattern: &str) -> Result<crate::table::Value, String> {
    let (negated, plain) = match pattern.strip_prefix('!') {
        Some(rest) => ("!", rest),
        None => ("", pattern),
    };
    let word = |word: &str| {
        !word.is_empty() && word.bytes().all(|b| b.is_ascii_uppercase() || matches!(b, b'-' | b'_'))
    };
    let words: Vec<&str> = match plain.strip_prefix('~') {
        None => vec![plain],
        Some(expression) => {
            let expression = expression.trim_start_matches("(?i)");
            let whole = expression.strip_prefix('^').and_then(|rest| rest.strip_suffix('$'));
            let list = whole.unwrap_or(expression);
            let group = list.strip_prefix('(').and_then(|rest| rest.strip_suffix(')'));
            let list = group.map_or(list, |group| group.strip_prefix("?:").unwrap_or(group));
            let words: Vec<&str> = list.split('|').collect();
            // Without anchors, an expression also matches longer words: those that there are.
            let is_exact = match (whole, group) {
                (Some(_), Some(_)) => true,
                (Some(_), None) => words.len() == 1,
                (None, _) => words.iter().all(|word| {
                    METHODS.contains(word)
                        && !METHODS.iter().any(|other| other != word && other.contains(word))
                }),
            };
            if !is_exact {
                return Err(format!("`{plain}` is not a list of methods"));
            }
            words
        }
    };
    if !words.iter().all(|text| word(text)) {
        return Err(format!("`{plain}` is not a list of methods"));
    }
    // `GET` includes `HEAD`.
    let has_get = words.contains(&"GET");
    let has_head = words.contains(&"HEAD");
    let mut list: Vec<String> = words
        .iter()
        .filter(|word| !(has_get && **word == "HEAD"))
        .map(|word| format!("{negated}{word}"))
        .collect();
    if has_get && !has_head && negated.is_empty() {
        list.push("!HEAD".to_owned());
    }
    Ok(crate::table::one_or_list(list))
}

/// Methods that clients use.
const METHODS: [&str; 9] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT"];

fn scheme(pattern: &str) -> Result<&'static str, String> {
    match pattern {
        "http" | "!https" => Ok("http"),
        "https" | "!http" => Ok("https"),
        _ => Err(format!("`{pattern}` is not a scheme")),
    }
}

/// `if (!-e $request_filename)`: what try_files does.
fn is_missing_file(block: &Directive) -> bool {
    let text: String = block.args.concat();
    matches!(text.as_str(), "(!-e$request_filename)" | "(!-f$request_filename)")
}

/// Whether a condition refuses `HEAD`, but not `GET`, which includes it in a route.
fn is_without_head(block: &Directive) -> bool {
    let text = block.args.join(" ");
    let is_negated = text.contains("!=") || text.contains("!~");
    text.contains("$request_method") && is_negated && text.contains("GET") && !text.contains("HEAD")
}

/// `if (!-f $document_root$fastcgi_script_name) { return 404; }`
fn is_missing_script(block: &Directive) -> bool {
    let text: String = block.args.concat();
    let is_script = ["$document_root$fastcgi_script_name", "$request_filename"]
        .iter()
        .any(|name| text == format!("(!-f{name})") || text == format!("(!-e{name})"));
    is_script && block.children().iter().all(|inner| inner.name == "return" && inner.arg(0) == "404")
}

/// `return 403` and the like.
fn is_refusal(directive: &Directive) -> bool {
    directive.name == "return"
        && directive.arg(0).parse::<u16>().is_ok_and(|status| (400..500).contains(&status))
}

fn is_redirect(rewrite: &Directive) -> bool {
    matches!(rewrite.arg(2), "permanent" | "redirect")
        || rewrite.arg(1).starts_with("http")
        || rewrite.arg(1).starts_with("$scheme")
}

impl<'d> Reader<'d, '_> {
    /// `if (!-e …) { rewrite ^ /index.php last; }`: everything without a file goes to a script.
    fn front_controller(&mut self, place: &Place<'_, 'd>, block: &'d Directive) -> Vec<Route> {
        let rewrite = block.children().iter().find(|inner| inner.name == "rewrite");
        let to = rewrite.map_or("", |rewrite| rewrite.arg(1));
        let script = to.split('?').next().unwrap_or("").replace("$1", "");
        let is_all = rewrite.is_some_and(|rewrite| {
            ["^", ".", ".*", "^.*$", "(.*)", "^(.*)$", "^/(.*)$", "^(.+)$", "^/(.+)$"]
                .contains(&rewrite.arg(0))
        });
        let (Some(rewrite), true, true) = (rewrite, is_all, script.ends_with(".php")) else {
            super::drop_block(block, "its condition has no counterpart", TODO, self.ledger);
            return Vec::new();
        };
        self.ledger.carried(block.origin);
        match to.contains('$') {
            true => self
                .ledger
                .differs(rewrite.origin, "the script finds the path in REQUEST_URI, not in the query"),
            false => self.ledger.carried(rewrite.origin),
        }
        // `/` is all paths.
        let path =
            if place.path == PathMatch::Begin("/".to_owned()) { PathMatch::Any } else { place.path.clone() };
        let within = Place {
            server: place.server,
            scope: place.scope.clone(),
            outer: place.outer.clone(),
            path,
            except: place.except.clone(),
            variables: place.variables.clone(),
            origin: place.origin,
        };
        // Before locations only where it stands in one; in a server it applies to what has no location.
        match place.path {
            PathMatch::Any => {
                self.pending_front = Some(script);
                Vec::new()
            }
            _ => self.pass_to_script(&within, &script, block.origin),
        }
    }
}
