//! Tests of the parser against the definitions of the keys.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::golden::{compare_parts, folder};
use super::memory_sources::{MemorySources, ROOT};
use crate::description::{DefaultValue, KeyInfo, Reload};
use crate::explain::explain;
use crate::sections::all_keys;
use crate::{Config, load};

/// Every supported key; the limits, which a listener repeats, only once.
fn supported_keys() -> Vec<KeyInfo> {
    all_keys().iter().filter(|info| info.is_supported && !info.is_repeated()).cloned().collect()
}

/// A valid configuration with `line`, which sets the key `path`, or without the key if `line` is empty.
fn around(path: &str, line: &str) -> String {
    let path = path
        .replace("listen.NAME", "listen.public")
        .replace("app.NAME", "app.shop")
        .replace("process.NAME", "process.mail")
        .replace("upstream.NAME", "upstream.search")
        .replace("rate_limit.NAME", "rate_limit.api")
        .replace("map.NAME", "map.tenant");
    let Some((section, key)) = path.rsplit_once('.') else {
        let listen = "[listen.public]\nbind = \"127.0.0.1:8080\"\n\n[app.shop]\nentry = \"shop:app\"\n";
        return match path.as_str() {
            "listen" => format!("{line}\n\n[app.shop]\nentry = \"shop:app\"\n"),
            "app" => format!(
                "{line}\n\n[listen.public]\nbind = \"127.0.0.1:8080\"\nroute = [{{ respond = 200 }}]\n"
            ),
            _ => format!("{line}\n\n{listen}"),
        };
    };
    let mut text = String::new();
    if section.starts_with("server") {
        let _ = write!(text, "[{section}]\n{line}\n\n");
    }
    if section == "listen.public" && key == "proxy_protocol" {
        text.push_str("[server]\ntrusted_proxies = [\"10.0.0.5\"]\n\n");
    }
    if section.starts_with("acme") {
        let _ = write!(text, "[{section}]\n{line}\n");
        match key {
            "id" => text.push_str("key = \"zWNDZM6eQGHWpSRT\"\n"),
            "key" if section.ends_with("external_account") => text.push_str("id = \"kid-1\"\n"),
            _ => {}
        }
        text.push('\n');
    }
    if section == "admin" {
        let bind = if key == "bind" { "" } else { "bind = \"127.0.0.1:9090\"\n" };
        let _ = write!(text, "[admin]\n{bind}{line}\n\n");
    }
    if section.starts_with("otlp") {
        push_otlp(&mut text, section, key, line);
    }
    if section == "map.tenant" {
        push_map(&mut text, key, line);
    }
    push_listen(&mut text, section, key, line);
    push_app(&mut text, section, key, line);
    push_process(&mut text, section, key, line);
    push_upstream(&mut text, section, key, line);
    text
}

fn push_otlp(text: &mut String, section: &str, key: &str, line: &str) {
    text.push_str("[otlp]\n");
    if key != "upstream" {
        text.push_str("upstream = \"search\"\n");
    }
    if section == "otlp" {
        let _ = writeln!(text, "{line}");
    }
    match section == "otlp" {
        true if !["traces", "metrics"].contains(&key) => text.push_str("[otlp.traces]\n"),
        true => {}
        false => _ = writeln!(text, "[{section}]\n{line}"),
    }
    text.push('\n');
}

fn push_map(text: &mut String, key: &str, line: &str) {
    let _ = writeln!(text, "[map.tenant]\n{line}");
    let others = [("source", "source = \"$host_name\""), ("values", "values = { a = \"b\" }")];
    others.iter().filter(|(other, _)| key != *other).for_each(|(_, line)| _ = writeln!(text, "{line}"));
    text.push('\n');
}

fn push_listen(text: &mut String, section: &str, key: &str, line: &str) {
    text.push_str("[listen.public]\n");
    let in_listen = section == "listen.public";
    if !(in_listen && key == "bind") {
        text.push_str("bind = \"127.0.0.1:8080\"\n");
    }
    if in_listen {
        let _ = writeln!(text, "{line}");
    }
    for table in [
        "listen.public.access_log",
        "listen.public.compress",
        "listen.public.forward_proxy",
        "listen.public.headers",
        "listen.public.request_headers",
    ] {
        if section.starts_with(table) {
            let _ = write!(text, "\n[{section}]\n{line}\n");
        }
    }
    push_listen_tls(text, section, key, line);
    let in_route = section.starts_with("listen.public.route");
    if in_listen && key == "route" {
        return;
    }
    text.push_str("\n[[listen.public.route]]\n");
    if in_route && key != "path" {
        text.push_str("path = \"/x/*\"\n");
    }
    let ends = |end: &str| key == end || section.ends_with(end);
    let in_auth_request = section.ends_with("auth_request");
    let in_split = section.ends_with("split") || section.ends_with("mirror");
    if in_split
        || in_auth_request
        || !(in_route && ["app", "upstream", "files", "respond", "redirect"].iter().any(|end| ends(end)))
    {
        text.push_str("app = \"shop\"\n");
    }
    if in_route && ["index", "listing", "immutable", "file_headers"].contains(&key) {
        text.push_str("try_files = \"public\"\n");
    }
    if in_route && key == "split_by" {
        text.push_str("split = [{ app = \"shop\", share = \"5%\" }]\n");
    }
    if section == "listen.public.route" {
        let _ = writeln!(text, "{line}");
    } else if in_route {
        let _ = write!(text, "\n[{section}]\n{line}\n");
        if in_split {
            let names_one = key == "app" || key == "upstream";
            text.push_str(if names_one { "share = \"5%\"\n" } else { "app = \"shop\"\n" });
        }
        if in_auth_request {
            for (other, line) in [("app", "app = \"shop\"\n"), ("path", "path = \"/verify\"\n")] {
                let is_there = key == other || (other == "app" && key == "upstream");
                text.push_str(if is_there { "" } else { line });
            }
        }
        if section.ends_with("basic_auth") && !matches!(key, "users" | "file") {
            text.push_str("file = \"htpasswd\"\n");
        }
        if section.ends_with("concurrency") && key != "total" {
            text.push_str("total = 10\n");
        }
        if section.ends_with("redirect") && key != "to" {
            text.push_str("to = \"/y\"\n");
        }
    }
}

/// The other keys that a certificate needs.
fn push_listen_tls(text: &mut String, section: &str, key: &str, line: &str) {
    if !section.starts_with("listen.public.tls") {
        return;
    }
    let header =
        if section.ends_with("certificates") { format!("[[{section}]]") } else { format!("[{section}]") };
    let _ = write!(text, "\n{header}\n{line}\n");
    if section.ends_with("hsts") {
        text.push_str("[listen.public.tls]\n");
    }
    let (cert, its_key) = ("cert = \"/etc/ssl/shop.pem\"\n", "key = \"/etc/ssl/shop.key\"\n");
    match key {
        "cert" => text.push_str(its_key),
        "key" => text.push_str(cert),
        "certificates" | "on_demand" => {}
        _ => text.extend([cert, its_key]),
    }
    if key == "client_auth" || key == "client_crl" {
        text.push_str("client_ca = \"/etc/ssl/internal-ca.pem\"\n");
    }
}

fn push_app(text: &mut String, section: &str, key: &str, line: &str) {
    text.push_str("\n[app.shop]\n");
    match (section, key) {
        ("app.shop", "entry") => {}
        ("app.shop", "command") => {}
        ("app.shop", "health" | "protocol" | "proxy_protocol") => {
            text.push_str("command = [\"node\", \"server.js\"]\n")
        }
        ("app.shop", "address") => text.push_str("entry = \"public\"\n"),
        ("app.shop", "puma_config") => text.push_str("entry = \"config.ru\"\n"),
        ("app.shop", "serve_vendor") => text.push_str("entry = \"index.php\"\nkind = \"php\"\n"),
        _ => text.push_str("entry = \"shop:app\"\n"),
    }
    if section == "app.shop" {
        let _ = writeln!(text, "{line}");
    } else if section.starts_with("app.shop.") {
        let _ = write!(text, "\n[{section}]\n{line}\n");
    }
}

fn push_process(text: &mut String, section: &str, key: &str, line: &str) {
    match section {
        "process.mail" if key == "command" => {
            let _ = write!(text, "\n[process.mail]\n{line}\n");
        }
        "process.mail" => {
            let _ = write!(text, "\n[process.mail]\ncommand = \"worker\"\n{line}\n");
        }
        _ if section.starts_with("process.mail.") => {
            let _ = write!(text, "\n[process.mail]\ncommand = \"worker\"\n\n[{section}]\n{line}\n");
        }
        _ => {}
    }
}

/// Upstreams and rate limits, with the key if it is one of theirs.
fn push_upstream(text: &mut String, section: &str, key: &str, line: &str) {
    let in_limit = section == "rate_limit.api";
    if in_limit || key == "rate_limit" {
        text.push_str("\n[rate_limit.api]\n");
        if !(in_limit && key == "rate") {
            text.push_str("rate = \"10/s\"\n");
        }
        if key == "store_ca" {
            text.push_str("store = \"rediss://127.0.0.1\"\n");
        }
        if key == "on_store_failure" || key == "store_timeout" {
            text.push_str("store = \"redis://127.0.0.1\"\n");
        }
        if in_limit {
            let _ = writeln!(text, "{line}");
        }
    }
    if !section.starts_with("upstream.search") && !section.starts_with("otlp") && key != "upstream" {
        return;
    }
    text.push_str("\n[upstream.search]\n");
    let in_upstream = section == "upstream.search";
    let says_where = section.ends_with(".endpoints") || (in_upstream && matches!(key, "url" | "endpoints"));
    if !says_where {
        text.push_str("url = \"https://search.internal\"\n");
    }
    if in_upstream {
        text.push_str(match key {
            "ca_system" => "ca = \"/etc/ssl/internal-ca.pem\"\n",
            "cert" => "key = \"/etc/ssl/client.key\"\n",
            "key" => "cert = \"/etc/ssl/client.pem\"\n",
            _ => "",
        });
        let _ = writeln!(text, "{line}");
        return;
    }
    let Some(table) = section.strip_prefix("upstream.search.") else { return };
    let header = if table == "endpoints" { format!("[[{section}]]") } else { format!("[{section}]") };
    let _ = write!(text, "\n{header}\n{line}\n");
    text.push_str(match (table, key) {
        ("endpoints", "weight" | "priority") => "url = \"http://10.0.0.1\"\n",
        ("health", "tcp" | "path") => "",
        ("health", _) => "path = \"/healthz\"\n",
        ("balance", "by") => "hash = \"header:X-User\"\n",
        ("balance", "hash") => "by = \"ring_hash\"\n",
        _ => "",
    });
}

/// Every key with a configuration that sets it to its wrong value, in the order of the definition.
pub(super) fn wrong_values() -> Vec<(KeyInfo, String)> {
    supported_keys().into_iter().map(|info| (info.clone(), around(&info.path, info.wrong))).collect()
}

#[test]
fn wrong_values_get_these_reports() {
    let mut sections: BTreeMap<String, Vec<(String, String)>> = BTreeMap::new();
    for (info, text) in wrong_values() {
        let section = info.path.rsplit_once('.').map_or("root", |(section, _)| section).to_owned();
        let report = load(&MemorySources::of(&text), ROOT).expect_err(&text).to_string();
        sections.entry(section).or_default().push((info.path, report));
    }
    let mut faults = String::new();
    for (section, reports) in &sections {
        compare_parts(&folder("wrong").join(format!("{section}.txt")), reports, &mut faults);
    }
    assert!(faults.is_empty(), "{faults}");
    let snapshots = std::fs::read_dir(folder("wrong")).expect("the golden folder").count();
    assert_eq!(snapshots, sections.len(), "a snapshot of a section that does not exist");
}

#[test]
fn every_example_of_a_wrong_value_is_rejected() {
    for (info, text) in wrong_values() {
        let report = load(&MemorySources::of(&text), ROOT).expect_err(&text);
        let about = report.problems().iter().all(|problem| problem.key.as_ref() == Some(&info.path));
        assert!(about, "{}\n{text}\n{report}", info.path);
    }
}

#[test]
fn every_example_of_a_right_value_is_accepted() {
    for info in supported_keys() {
        let mut text = around(&info.path, info.right);
        if info.path == "include" {
            text.push_str("#% file conf.d/a.toml\n");
        }
        if let Err(report) = load(&MemorySources::of(&text), ROOT) {
            panic!("{}\n{text}\n{report}", info.path);
        }
    }
}

/// The values without the list of keys that are set.
fn values(mut config: Config) -> Config {
    config.apps.iter_mut().for_each(|app| app.keys.clear());
    config
}

#[test]
fn the_documented_default_is_the_default() {
    let mut held = 0;
    for info in supported_keys() {
        let value = match info.default {
            DefaultValue::Literal(value) => value,
            // A literal at the beginning of the words: "`"auto"`: one per core"
            DefaultValue::Words(words)
                if ["`\"", "`false`;", "`1`;"].iter().any(|start| words.starts_with(start)) =>
            {
                words.split('`').nth(1).expect("a value in back quotes")
            }
            DefaultValue::Words(_) | DefaultValue::Required => continue,
        };
        if info.name == "content_type" {
            continue; // Only of a body.
        }
        let set = around(&info.path, &format!("{} = {value}", info.name));
        let unset = around(&info.path, "");
        let set =
            load(&MemorySources::of(&set), ROOT).unwrap_or_else(|report| panic!("{}\n{report}", info.path));
        let unset =
            load(&MemorySources::of(&unset), ROOT).unwrap_or_else(|report| panic!("{}\n{report}", info.path));
        assert_eq!(values(set.0), values(unset.0), "{}", info.path);
        held += 1;
    }
    assert!(held > 30, "only {held} defaults were held against the values");
}

/// Whether a version is the current one, or an earlier one in the changelog.
fn is_release(version: &str) -> bool {
    let changelog = include_str!("../../../../CHANGELOG.md");
    version == env!("CARGO_PKG_VERSION") || changelog.contains(&format!("\n## [{version}]"))
}

#[test]
fn every_key_is_documented() {
    for info in supported_keys() {
        let of_section = info.children.is_empty();
        assert!(!info.brief.is_empty() && !info.brief.ends_with('.'), "{}", info.path);
        assert!(!of_section || (!info.right.is_empty() && !info.wrong.is_empty()), "{}", info.path);
        assert!(is_release(info.since), "{}: {}", info.path, info.since);
        let text = explain(&info.path).expect("every key is explained");
        assert!(text.contains(info.brief), "{text}");
    }
}

#[test]
fn unsupported_keys_are_rejected_by_name() {
    let later: Vec<&KeyInfo> = all_keys().iter().filter(|info| !info.is_supported).collect();
    assert!(!later.is_empty());
    for info in later {
        let line = if info.path.contains('.') {
            format!("{} = \"x\"", info.name)
        } else {
            format!("[{}.x]\ny = 1", info.name)
        };
        let text = around(&info.path, &line);
        let report = load(&MemorySources::of(&text), ROOT).expect_err(&text).to_string();
        assert!(report.contains("is not supported by this version yet"), "{report}");
        assert!(!report.contains("unknown"), "{report}");
    }
}

#[test]
fn a_reload_reports_keys_that_need_a_restart() {
    let (old, _) = load(&MemorySources::of(&around("server.threads", "")), ROOT).expect("a good file");
    assert_eq!(old.restart_keys(&old), Vec::<&str>::new());
    for info in supported_keys() {
        if info.reload == Reload::Restart {
            let (new, _) =
                load(&MemorySources::of(&around(&info.path, info.right)), ROOT).expect("a good value");
            assert_eq!(old.restart_keys(&new), [info.path.as_str()]);
        }
    }
}

#[test]
fn every_key_that_names_a_variable_can_be_set_by_it() {
    let mut held = 0;
    for info in supported_keys() {
        let Some(variable) = info.variable() else { continue };
        let (_, value) = info.right.split_once(" = ").expect("an example of one line");
        // In a shell, a string is given without quotes, any other value as TOML.
        let plain = value.strip_prefix('"').and_then(|value| value.strip_suffix('"')).unwrap_or(value);
        let name = variable
            .replace("APP__NAME", "APP__SHOP")
            .replace("LISTEN__NAME", "LISTEN__PUBLIC")
            .replace("PROCESS__NAME", "PROCESS__MAIL")
            .replace("UPSTREAM__NAME", "UPSTREAM__SEARCH")
            .replace("RATE_LIMIT__NAME", "RATE_LIMIT__API")
            .replace("MAP__NAME", "MAP__TENANT");
        // Placeholders are replaced in files only.
        if value.contains("${") {
            continue;
        }
        let mut world = MemorySources::of(&around(&info.path, ""));
        world.env.insert(name.clone(), plain.to_owned());
        let by_variable = load(&world, ROOT).unwrap_or_else(|report| panic!("{name}={plain}\n{report}"));
        let by_file = load(&MemorySources::of(&around(&info.path, info.right)), ROOT).expect("a good file");
        assert_eq!(by_variable.0, by_file.0, "{name}={plain}");
        held += 1;
    }
    assert!(held > 45, "only {held} variables were tried");
}
