//! Directives that change what handlers do: header fields, passwords, limits.

use super::proxy::url;
use super::{Applied, Chains, State, Step, template};
use crate::ledger::Origin;
use crate::model::add;
use crate::table::{Table, Value};
use crate::units::size;

impl<'a> Chains<'_, '_> {
    /// Directives that change requests or responses, and pass the requests on.
    pub(super) fn setting(&mut self, step: &Step<'a>, state: &State<'a>) -> Applied<'a> {
        let (line, origin) = (step.line, step.line.origin);
        let mut changed = state.clone();
        match line.name() {
            "root" => {
                changed.context.root = Some((step.args.last().cloned().unwrap_or_default(), origin));
                self.reader.ledger.carried(origin);
            }
            "encode" => self.encode(step, &mut changed),
            "header" => self.header(step, &mut changed),
            "request_header" => {
                let mut own = std::mem::take(&mut changed.context.request_headers);
                self.header_rule(&step.args, origin, &mut own, &state.reach);
                changed.context.request_headers = own;
            }
            "request_body" => match line
                .child("max_size")
                .and_then(|limit| Some((humane(limit.arg(0))?, limit.origin)))
            {
                Some((bytes, limit)) => {
                    changed.context.table.set("max_body", size(bytes), limit);
                    self.reader.ledger.carried(origin);
                    line.settle_inner(self.reader.ledger);
                }
                None => {
                    self.reader.ledger.lost(origin, "it has no `max_size`", "set `max_body` of the routes");
                    line.settle_inner(self.reader.ledger);
                }
            },
            "basic_auth" | "basicauth" => return self.basic_auth(step, changed),
            "forward_auth" => return self.forward_auth(step, changed),
            "rewrite" => return self.rewrite(step, state),
            "uri" => return self.uri(step, state),
            "try_files" => return self.try_files(step, state),
            "push" => self.reader.ledger.dropped(
                origin,
                "HTTP/2 push is gone from browsers",
                "let the app send 103 Early Hints",
            ),
            "vars" | "tracing" | "log_skip" | "skip_log" | "log_append" | "log_name" | "fs" => {
                self.reader.ledger.ignored(origin, "it makes no difference here");
                line.settle_inner(self.reader.ledger);
            }
            "method" | "invoke" => {
                self.reader.ledger.lost(
                    origin,
                    "it has no counterpart",
                    "its requests get 501; write the routes by hand",
                );
                return Applied::Lost;
            }
            _ => {
                self.reader.ledger.lost(
                    origin,
                    "it has no counterpart",
                    "set `rewrite`, `rate_limit` or `error_pages` of a route by hand",
                );
                line.settle_inner(self.reader.ledger);
            }
        }
        Applied::Changed(vec![changed])
    }

    fn encode(&mut self, step: &Step<'a>, state: &mut State<'a>) {
        let (line, origin) = (step.line, step.line.origin);
        let is_coding = |word: &&str| matches!(*word, "gzip" | "zstd" | "br");
        let inner = line.inner.iter().map(|inner| inner.name());
        let codings: Vec<String> =
            step.args.iter().map(String::as_str).chain(inner).filter(is_coding).map(str::to_owned).collect();
        match codings.is_empty() || codings.len() == 3 {
            true => state.context.table.set("compress", true, origin),
            false => {
                let mut table = Table::default();
                table.set("codings", codings, origin);
                state.context.table.set("compress", table, origin);
            }
        }
        line.settle_inner(self.reader.ledger);
        self.reader.ledger.carried(origin);
    }

    fn header(&mut self, step: &Step<'a>, state: &mut State<'a>) {
        let line = step.line;
        let reach = state.reach.clone();
        let mut own = std::mem::take(state.context.table.within(&["headers"], line.origin));
        if !step.args.is_empty() {
            self.header_rule(&step.args, line.origin, &mut own, &reach);
        }
        for inner in &line.inner {
            let words: Vec<String> =
                std::iter::once(inner.name().to_owned()).chain(inner.args().iter().cloned()).collect();
            match inner.name() {
                "defer" => self.reader.ledger.ignored(inner.origin, "headers are set when the response is"),
                "match" => {
                    self.reader.ledger.lost(
                        inner.origin,
                        "headers for some responses only",
                        "set `headers` of a route",
                    );
                    inner.settle_inner(self.reader.ledger);
                }
                _ => self.header_rule(&words, inner.origin, &mut own, &reach),
            }
        }
        match own.is_empty() {
            true => _ = state.context.table.remove("headers"),
            false => *state.context.table.within(&["headers"], line.origin) = own,
        }
        self.reader.ledger.carried(line.origin);
    }

    /// `Name value`, `-Name`, `+Name value`, `?Name value`.
    pub(super) fn header_rule(
        &mut self,
        words: &[String],
        origin: Origin,
        table: &mut Table,
        reach: &super::Reach,
    ) {
        let Some(name) = words.first() else { return };
        let (kind, name) = match name.split_at_checked(1) {
            Some(("-", name)) => ("remove", name),
            Some(("+", name)) => ("add", name),
            Some(("?", name)) => ("if_missing", name),
            Some((">", name)) => ("set", name),
            _ => ("set", name.as_str()),
        };
        let name = name.trim_end_matches(':');
        if kind == "remove" {
            match name.contains('*') {
                true => self.reader.ledger.lost(
                    origin,
                    "a pattern of header names",
                    "list them in `headers.remove`",
                ),
                false => {
                    forget(table, name);
                    table.push_in(&[], "remove", name, origin);
                }
            }
            return;
        }
        if words.len() > 2 {
            self.reader.ledger.lost(
                origin,
                "a part of a header's value is not replaced",
                "let the app set it",
            );
            return;
        }
        match template(words.get(1).map_or("", String::as_str), "", reach) {
            Some(value) if name.eq_ignore_ascii_case("server") && value.is_empty() => {
                self.reader.ledger.ignored(origin, "nothing to hide")
            }
            Some(value) => {
                if kind == "set" {
                    forget(table, name);
                }
                table.set_in(&[kind], name, value, origin);
            }
            None => self.reader.ledger.lost(
                origin,
                "its value has a placeholder without a counterpart",
                "set `headers` by hand",
            ),
        }
    }

    fn basic_auth(&mut self, step: &Step<'a>, mut state: State<'a>) -> Applied<'a> {
        let line = step.line;
        let mut users = Table::default();
        for inner in &line.inner {
            users.set(inner.name(), inner.arg(0), inner.origin);
        }
        let is_known = step.args.first().is_none_or(|hash| matches!(hash.as_str(), "bcrypt" | "argon2id"));
        if users.is_empty() || !is_known || line.inner.iter().any(|inner| !inner.arg(0).starts_with('$')) {
            self.reader.ledger.lost(
                line.origin,
                "its passwords have no counterpart: hashes are those of bcrypt and argon2, as they are",
                "set `basic_auth` of the routes by hand; these requests get 501",
            );
            return Applied::Lost;
        }
        if state.context.table.has("basic_auth") {
            self.reader.ledger.lost(
                line.origin,
                "a second `basic_auth` for the same requests",
                "set `basic_auth` of the routes by hand; these requests get 501",
            );
            return Applied::Lost;
        }
        let mut table = Table::default();
        table.set("users", users, line.origin);
        if let Some(realm) = step.args.get(1) {
            table.set("realm", realm.as_str(), line.origin);
        }
        state.context.table.set("basic_auth", table, line.origin);
        self.reader.ledger.carried(line.origin);
        Applied::Changed(vec![state])
    }

    fn forward_auth(&mut self, step: &Step<'a>, mut state: State<'a>) -> Applied<'a> {
        let line = step.line;
        let has_other = line
            .inner
            .iter()
            .any(|inner| !matches!(inner.name(), "uri" | "copy_headers" | "header_up" | "transport"));
        let is_fixed = |text: &str| !text.contains(['{', '%']) && !text.is_empty();
        let (Some(address), Some(path), false) = (
            step.args.first().filter(|address| step.args.len() == 1 && is_fixed(address)),
            line.child("uri").filter(|uri| is_fixed(uri.arg(0))),
            has_other || state.context.table.has("auth_request"),
        ) else {
            self.reader.ledger.lost(
                line.origin,
                "it needs one address and `uri`, and nothing else of `reverse_proxy`",
                "set `auth_request` of the routes by hand; these requests get 501",
            );
            return Applied::Lost;
        };
        for inner in line.inner.iter().filter(|inner| matches!(inner.name(), "header_up" | "transport")) {
            self.reader.ledger.lost(
                inner.origin,
                "the request to the service has headers and a transport of its own",
                "set them in its `[upstream.NAME]` by hand",
            );
            inner.settle_inner(self.reader.ledger);
        }
        let mut upstream = Table::default();
        upstream.set("url", url(address, false), line.origin);
        let name = add(&mut self.reader.model.upstreams, address, upstream, line.origin, self.reader.ledger);
        let mut table = Table::default();
        table.set("upstream", name, line.origin);
        table.set("path", path.arg(0), path.origin);
        let mut names: Vec<String> = Vec::new();
        for copy in line.inner.iter().filter(|inner| inner.name() == "copy_headers") {
            names.extend(copy.args().iter().cloned());
            names.extend(copy.inner.iter().map(|inner| inner.name().to_owned()));
            self.reader.ledger.carried(copy.origin);
            copy.inner.iter().for_each(|inner| self.reader.ledger.carried(inner.origin));
            if names.iter().any(|name| name.contains('>'))
                || copy.inner.iter().any(|inner| !inner.args().is_empty())
            {
                self.reader.ledger.lost(
                    copy.origin,
                    "headers get no other names",
                    "let the app read those of the service",
                );
                names.retain(|name| !name.contains('>'));
            }
        }
        if !names.is_empty() {
            table.set("headers", names, line.origin);
        }
        state.context.table.set("auth_request", table, line.origin);
        self.reader.ledger.carried(line.origin);
        Applied::Changed(vec![state])
    }
}

/// What earlier rules say of a header.
fn forget(table: &mut Table, name: &str) {
    for item in &mut table.items {
        match &mut item.value {
            Value::Table(inner) => inner.items.retain(|known| !known.key.eq_ignore_ascii_case(name)),
            Value::List(list) => {
                list.retain(|known| !matches!(known, Value::Text(text) if text.eq_ignore_ascii_case(name)))
            }
            Value::Text(text) if text.eq_ignore_ascii_case(name) => text.clear(),
            _ => {}
        }
    }
    table.items.retain(|item| match &item.value {
        Value::Table(inner) => !inner.is_empty(),
        Value::List(list) => !list.is_empty(),
        Value::Text(text) => !text.is_empty(),
        _ => true,
    });
}

/// `10MB` is 10,000,000 bytes, `10MiB` is 10,485,760.
fn humane(text: &str) -> Option<u64> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let number: u64 = text.get(..end)?.parse().ok()?;
    let factor = match text.get(end..)?.trim().to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "kb" => 1000,
        "m" | "mb" => 1_000_000,
        "g" | "gb" => 1_000_000_000,
        "ki" | "kib" => 1 << 10,
        "mi" | "mib" => 1 << 20,
        "gi" | "gib" => 1 << 30,
        _ => return None,
    };
    number.checked_mul(factor)
}
