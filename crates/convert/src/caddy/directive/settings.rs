//! Directives that change what handlers do: header fields, passwords, limits.

use super::matcher::path_of;
use super::proxy::url;
use super::{Context, TODO, template};
use crate::caddy::Reader;
use crate::caddy::syntax::Line;
use crate::model::{PathMatch, Route, add};
use crate::table::Table;
use crate::units::size;

impl Reader<'_> {
    /// Directives that are settings of the routes of their block.
    pub(super) fn setting(&mut self, line: &Line, lines: &[Line], context: &mut Context) {
        let origin = line.origin;
        let has_matcher = line.arg(0).starts_with('/') || line.arg(0).starts_with('@');
        match line.name() {
            "root" => {
                let path = line.args().last().cloned().unwrap_or_default();
                match has_matcher && line.args().len() > 1 {
                    true => self.ledger.lost(
                        origin,
                        "a root for some paths only",
                        "write a route for them by hand",
                    ),
                    false => {
                        context.root = Some((path, origin));
                        self.ledger.carried(origin);
                    }
                }
            }
            "encode" if has_matcher => self.ledger.differs(origin, "all routes are compressed"),
            "encode" => {
                let codings: Vec<String> = line
                    .args()
                    .iter()
                    .filter(|word| matches!(word.as_str(), "gzip" | "zstd" | "br"))
                    .cloned()
                    .collect();
                match codings.is_empty() || codings.len() == 3 {
                    true => context.table.set("compress", true, origin),
                    false => {
                        let mut table = Table::default();
                        table.set("codings", codings, origin);
                        context.table.set("compress", table, origin);
                    }
                }
                line.settle_inner(self.ledger);
                self.ledger.carried(origin);
            }
            "header" => self.header(line, lines, context, has_matcher),
            "request_header" => {
                let args = if line.arg(0) == "*" { line.args().get(1..).unwrap_or(&[]) } else { line.args() };
                match has_matcher {
                    true => self.ledger.lost(origin, "headers for some requests only", TODO),
                    false => self.header_rule(args, origin, &mut context.request_headers),
                }
            }
            "request_body" => match line.child("max_size").and_then(|limit| {
                Some((crate::units::bytes(&limit.arg(0).replace("iB", "").replace('B', ""))?, limit.origin))
            }) {
                Some((bytes, limit)) => {
                    context.table.set("max_body", size(bytes), limit);
                    self.ledger.carried(origin);
                    line.settle_inner(self.ledger);
                }
                None => self.ledger.lost(origin, "it has no `max_size`", "set `max_body` of the routes"),
            },
            "basic_auth" | "basicauth" => self.basic_auth(line, context, has_matcher),
            "forward_auth" => self.forward_auth(line, context, has_matcher),
            "uri" if line.arg(0) == "strip_prefix" => {
                context.strip = Some(line.arg(1).to_owned());
                self.ledger.carried(origin);
            }
            "handle_errors" => {
                self.ledger.dropped(
                    origin,
                    "pages of errors are `error_pages`",
                    "set `error_pages` to files, or to { app, path }",
                );
                line.settle_inner(self.ledger);
            }
            "import" | "try_files" | "vars" | "tracing" | "metrics" | "log_skip" | "skip_log"
            | "log_append" | "log_name" | "push" | "invoke" | "fs" => match line.name() {
                "try_files" => {}
                "push" => self.ledger.dropped(
                    origin,
                    "HTTP/2 push is gone from browsers",
                    "let the app send 103 Early Hints",
                ),
                _ => self.ledger.ignored(origin, "it makes no difference here"),
            },
            "log" => {}
            "rewrite"
            | "uri"
            | "method"
            | "map"
            | "templates"
            | "acme_server"
            | "copy_response"
            | "copy_response_headers"
            | "intercept"
            | "mercure"
            | "rate_limit" => {
                self.ledger.lost(
                    origin,
                    "it has no counterpart",
                    "set `rewrite`, `rate_limit` or `error_pages` of a route by hand",
                );
                line.settle_inner(self.ledger);
            }
            _ => {}
        }
    }

    fn header(&mut self, line: &Line, lines: &[Line], context: &mut Context, has_matcher: bool) {
        if has_matcher {
            let pattern = if line.arg(0).starts_with('/') {
                Some(line.arg(0).to_owned())
            } else {
                self.named(line.arg(0), lines).and_then(|tables| path_of(&tables))
            };
            let (Some(pattern), [name, value]) = (
                pattern.filter(|pattern| pattern.starts_with("/") || pattern.starts_with('*')),
                line.args().get(1..).unwrap_or(&[]),
            ) else {
                self.ledger.lost(
                    line.origin,
                    "headers for some requests only",
                    "set `headers` of a route, or `file_headers`",
                );
                line.settle_inner(self.ledger);
                return;
            };
            // Headers of files by name.
            let name_pattern = pattern.trim_start_matches('/').replace('*', "**").replace("****", "**");
            context.table.set_in(
                &["file_headers", &name_pattern],
                name,
                value.replace('$', "$$"),
                line.origin,
            );
            return;
        }
        let args = if line.arg(0) == "*" { line.args().get(1..).unwrap_or(&[]) } else { line.args() };
        if !args.is_empty() {
            let table = context.table.within(&["headers"], line.origin);
            let mut own = std::mem::take(table);
            self.header_rule(args, line.origin, &mut own);
            *context.table.within(&["headers"], line.origin) = own;
        }
        for inner in &line.inner {
            let words: Vec<String> =
                std::iter::once(inner.name().to_owned()).chain(inner.args().iter().cloned()).collect();
            let mut own = std::mem::take(context.table.within(&["headers"], line.origin));
            match inner.name() {
                "defer" => self.ledger.ignored(inner.origin, "headers are set when the response is"),
                _ => self.header_rule(&words, inner.origin, &mut own),
            }
            *context.table.within(&["headers"], line.origin) = own;
        }
        self.ledger.carried(line.origin);
    }

    /// `Name value`, `-Name`, `+Name value`, `?Name value`.
    pub(super) fn header_rule(&mut self, words: &[String], origin: crate::ledger::Origin, table: &mut Table) {
        let Some(name) = words.first() else { return };
        let (kind, name) = match name.split_at_checked(1) {
            Some(("-", name)) => ("remove", name),
            Some(("+", name)) => ("add", name),
            Some(("?", name)) => ("if_missing", name),
            Some((">", name)) => ("set", name),
            _ => ("set", name.as_str()),
        };
        if kind == "remove" {
            match name.contains('*') {
                true => {
                    self.ledger.lost(origin, "a pattern of header names", "list them in `headers.remove`")
                }
                false => table.push_in(&[], "remove", name, origin),
            }
            return;
        }
        if words.len() > 2 {
            self.ledger.lost(origin, "a part of a header's value is not replaced", "let the app set it");
            return;
        }
        match template(words.get(1).map_or("", String::as_str)) {
            Some(value) if name.eq_ignore_ascii_case("server") && value.is_empty() => {
                self.ledger.ignored(origin, "nothing to hide")
            }
            Some(value) => table.set_in(&[kind], name, value, origin),
            None => self.ledger.lost(
                origin,
                "its value has a placeholder without a counterpart",
                "set `headers` by hand",
            ),
        }
    }

    fn basic_auth(&mut self, line: &Line, context: &mut Context, has_matcher: bool) {
        let mut users = Table::default();
        for inner in &line.inner {
            users.set(inner.name(), inner.arg(0), inner.origin);
        }
        if has_matcher || users.is_empty() {
            self.close(line, context);
            self.ledger.lost(
                line.origin,
                "passwords for some paths only",
                "set `basic_auth` of a route for these paths",
            );
            line.settle_inner(self.ledger);
            return;
        }
        let mut table = Table::default();
        table.set("users", users, line.origin);
        context.table.set("basic_auth", table, line.origin);
    }

    /// Responds with 501 to what a rule was for.
    fn close(&mut self, line: &Line, context: &mut Context) {
        let path = match line.arg(0) {
            path if path.starts_with('/') => PathMatch::Patterns(vec![path.to_owned()]),
            _ => PathMatch::Any,
        };
        context.closed.push(Route::status(line.origin, path, 501));
    }

    fn forward_auth(&mut self, line: &Line, context: &mut Context, has_matcher: bool) {
        let address = line.args().iter().find(|word| !word.starts_with(['/', '@', '*'])).cloned();
        let path = line.child("uri");
        let (Some(address), Some(path), false) = (address, path, has_matcher) else {
            self.close(line, context);
            self.ledger.lost(
                line.origin,
                "it needs an address and `uri`, and all paths",
                "set `auth_request` of the routes",
            );
            line.settle_inner(self.ledger);
            return;
        };
        let mut upstream = Table::default();
        upstream.set("url", url(&address, false), line.origin);
        let name = add(&mut self.model.upstreams, &address, upstream, line.origin, self.ledger);
        let mut table = Table::default();
        table.set("upstream", name, line.origin);
        table.set("path", path.arg(0), path.origin);
        if let Some(copy) = line.child("copy_headers") {
            let names: Vec<String> = copy
                .args()
                .iter()
                .cloned()
                .chain(copy.inner.iter().map(|inner| inner.name().to_owned()))
                .collect();
            table.set("headers", names, copy.origin);
        }
        context.table.set("auth_request", table, line.origin);
    }
}

/// Headers that apply to all responses are those of redirects and fixed responses too.
pub(super) fn add_headers(route: &mut Route, context: &Context) {
    if let Some(headers) = context.table.items.iter().find(|item| item.key == "headers") {
        route.table.items.push(headers.clone());
    }
}
