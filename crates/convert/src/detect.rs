//! Which tool a file is of, by its name and content.

use std::path::Path;

use crate::Tool;

/// The tool; `None`: it is not known.
pub(crate) fn tool(path: &Path, text: &str) -> Option<Tool> {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or("").to_ascii_lowercase();
    by_name(&name).or_else(|| by_content(&name, text))
}

fn by_name(name: &str) -> Option<Tool> {
    let stem = name.split('.').next().unwrap_or("");
    match name {
        "procfile" | "procfile.dev" => Some(Tool::Procfile),
        "puma.rb" => Some(Tool::Puma),
        ".rr.yaml" | ".rr.yml" | "rr.yaml" => Some(Tool::RoadRunner),
        "haproxy.cfg" => Some(Tool::Haproxy),
        "supervisord.conf" => Some(Tool::Supervisord),
        "nginx.conf" => Some(Tool::Nginx),
        _ if stem == "procfile" => Some(Tool::Procfile),
        _ if stem == "caddyfile" || name.ends_with(".caddyfile") => Some(Tool::Caddy),
        _ if name.ends_with(".py") => Some(Tool::Gunicorn),
        _ if name.ends_with(".rb") => Some(Tool::Puma),
        _ => None,
    }
}

fn by_content(name: &str, text: &str) -> Option<Tool> {
    let lines: Vec<&str> = text
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty() && !line.starts_with(['#', ';']))
        .collect();
    let begins = |start: &str| lines.iter().any(|line| line.starts_with(start));
    let first_word = |word: &str| lines.iter().any(|line| line.split([' ', '\t']).next() == Some(word));
    let is_yaml = name.ends_with(".yaml") || name.ends_with(".yml") || begins("static_resources:");
    if text.trim_start().starts_with('{') && (name.ends_with(".json") || text.contains("\"listeners\"")) {
        return Some(if text.contains("\"static_resources\"") { Tool::Envoy } else { Tool::Unit });
    }
    if is_yaml {
        return Some(if text.contains("static_resources") { Tool::Envoy } else { Tool::RoadRunner });
    }
    if ["[program:", "[fcgi-program:", "[supervisord]", "[group:", "[unix_http_server]"]
        .iter()
        .any(|start| begins(start))
    {
        return Some(Tool::Supervisord);
    }
    if begins("[")
        && ["pm", "pm.max_children", "listen", "error_log", "pid"]
            .iter()
            .any(|key| lines.iter().any(|line| line.split(['=', ' ']).next() == Some(key)))
    {
        return Some(Tool::PhpFpm);
    }
    let is_nginx = lines.iter().any(|line| line.ends_with(';') || line.contains("; "))
        && [
            "server",
            "http",
            "location",
            "upstream",
            "listen",
            "server_name",
            "worker_processes",
            "include",
            "map",
        ]
        .iter()
        .any(|word| first_word(word) || begins(&format!("{word}{{")));
    if is_nginx {
        return Some(Tool::Nginx);
    }
    let is_apache = lines.iter().any(|line| {
        let lower = line.to_ascii_lowercase();
        [
            "<virtualhost",
            "<directory",
            "<location",
            "<ifmodule",
            "<files",
            "documentroot",
            "serverroot",
            "alias ",
            "proxypass ",
            "loadmodule ",
        ]
        .iter()
        .any(|start| lower.starts_with(start))
    });
    if is_apache {
        return Some(Tool::Apache);
    }
    let has_blocks = text.contains('{');
    let is_haproxy = !has_blocks || !text.contains("};");
    if is_haproxy && ["frontend", "backend", "defaults", "global"].iter().any(|word| first_word(word)) {
        return Some(Tool::Haproxy);
    }
    let is_caddy = [
        "reverse_proxy",
        "php_fastcgi",
        "php_server",
        "file_server",
        "respond",
        "encode",
        "root",
        "redir",
        "handle",
    ]
    .iter()
    .any(|word| first_word(word));
    is_caddy.then_some(Tool::Caddy)
}
