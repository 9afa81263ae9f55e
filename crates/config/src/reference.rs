//! The reference page and the JSON schema, generated from the keys.

use crate::description::{Describe, KeyInfo, header};
use crate::json::Json;
use crate::sections::ROOT;

/// `docs/reference/configuration.md`.
pub fn reference_markdown() -> String {
    let mut out = INTRODUCTION.to_owned();
    let top = ROOT.infos("");
    if let Some(include) = top.iter().find(|info| info.name == "include") {
        out.push_str("\n## Before any section\n");
        key(&mut out, include);
    }
    // In the order of a typical file; then what this list does not have.
    let order =
        ["server", "admin", "listen", "app", "process", "upstream", "rate_limit", "map", "acme", "otlp"];
    let mut sections: Vec<_> = top.iter().filter(|info| info.name != "include").collect();
    sections.sort_by_key(|info| order.iter().position(|name| *name == info.name).unwrap_or(order.len()));
    for info in sections {
        section(&mut out, info);
    }
    out
}

/// `docs/reference/keepwarm.schema.json`, in JSON Schema 2020-12, for checks and completion in editors. It accepts
/// more than Keepwarm where a schema cannot express a rule.
pub fn json_schema() -> String {
    ROOT.schema()
        .with("title", Json::text("keepwarm.toml"))
        .with("$schema", Json::text("https://json-schema.org/draft/2020-12/schema"))
        .pretty()
}

const INTRODUCTION: &str = r#"# Configuration

<!-- Made by `keepwarm reference` from crates/config; changes here are lost. -->

The configuration is one file in TOML, `keepwarm.toml`. `keepwarm run --config FILE --dry-run` checks it and starts
nothing. `keepwarm explain KEY` prints the text of this page in a terminal.

* **Times** are strings with a unit: `"250ms"`, `"30s"`, `"5m"`, `"1h"`.
* **Sizes** are strings with a unit, `"512B"`, `"8KiB"`, `"10MiB"`, `"1GiB"`, or a plain number of bytes.
* **Rates** are sizes per second: `"500B"` or `"500B/s"`. Rates of requests have a unit of time: `"100/s"`, `"6000/m"`,
  `"10/h"`.
* **Percentages** are whole numbers: `"20%"`.
* **Lists** of strings may be a single string.
* **Relative paths** are resolved against the directory of the main configuration file.
* **Placeholders** in strings are `${VARIABLE}`, `${VARIABLE:-default}` (the default is also used if the variable is
  empty) and `${file:/path}`, whose last line break is dropped. For a literal `${`, write `$${`. Messages never show the
  value of a placeholder.
* **Variables** override the file: `KEEPWARM_SERVER__THREADS=2`, `KEEPWARM_APP__SHOP__WORKERS=4`. They are in upper
  case, with `__` between the parts and `_` for a `-` in a NAME. Write a list or a table as TOML. Routes can only be set
  as one list. Names inside `env` keep their case.
* **Everything is checked before anything starts or reloads**: unknown keys, types, units, bounds, files that must
  exist, addresses that two listeners share, routes to apps and upstreams that do not exist. All errors are reported at
  once.
* **Reload** says how `keepwarm reload` (SIGHUP) applies a changed value. *live*: it applies from the next connection or
  request. *recycle*: the app's workers, or the processes, are replaced. *restart*: it takes effect only after a restart.

```toml
[server]
threads = 2

[listen.public]
bind = "0.0.0.0:8080"

[[listen.public.route]]
path = "/ping"
respond = { body = "pong" }

[[listen.public.route]]                  # no path: everything else
app = "shop"

[app.shop]
entry = "shop.wsgi:application"
workers = 4
```
"#;

/// A section with its keys, then its subsections.
fn section(out: &mut String, info: &KeyInfo) {
    let named = info.children.iter().any(|child| child.path.starts_with(&format!("{}.NAME.", info.path)));
    let path = if named { format!("{}.NAME", info.path) } else { info.path.clone() };
    out.push_str(&format!("\n## `{}`\n\n{}.\n", header(&path), info.brief));
    if !info.long.is_empty() {
        out.push_str(&format!("{}\n", info.long));
    }
    if info.is_repeated() {
        out.push_str("The keys are the same as in `[server.limits]`.\n");
        return;
    }
    for child in info.children.iter().filter(|child| child.is_supported) {
        key(out, child);
    }
    let later: Vec<String> = info
        .children
        .iter()
        .filter(|child| !child.is_supported)
        .map(|child| format!("`{}`", child.name))
        .collect();
    if !later.is_empty() {
        out.push_str(&format!("\nNot supported by this version yet: {}.\n", later.join(", ")));
    }
    for child in info.children.iter().filter(|child| !child.children.is_empty()) {
        section(out, child);
    }
}

fn key(out: &mut String, info: &KeyInfo) {
    out.push_str(&format!("\n### `{}`\n\n{}.", info.path, info.brief));
    if !info.long.is_empty() && info.children.is_empty() {
        out.push_str(&format!(" {}", info.long));
    }
    out.push_str(&format!("\n\n* Type: {}\n* Default: {}\n", info.value.expected, info.default));
    out.push_str(&format!("* Example: `{}`\n", info.right));
    if let Some(variable) = info.variable() {
        out.push_str(&format!("* Variable: `{variable}`\n"));
    }
    if !info.children.is_empty() {
        out.push_str(&format!("* Keys: see `{}`\n", header(&info.path)));
    }
    out.push_str(&format!("* Reload: {}\n* Since: {}\n", info.reload, info.since));
}
