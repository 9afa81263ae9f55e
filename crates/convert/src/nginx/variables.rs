//! Texts of nginx with variables, as templates of keepwarm.toml.

use std::collections::BTreeMap;

/// What variables stand for in a place.
#[derive(Clone, Debug, Default)]
pub(super) struct Variables {
    /// Values of `set`, which are texts with variables.
    pub(super) set: BTreeMap<String, String>,
    /// Sources of `map`, by the variable.
    pub(super) maps: Vec<String>,
    /// Names of the groups of a regular expression, in their order.
    pub(super) groups: Vec<Option<String>>,
    pub(super) server_name: String,
    pub(super) port: String,
    pub(super) root: String,
}

/// A piece of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Piece<'a> {
    Text(&'a str),
    Variable(&'a str),
}

/// The pieces of a text with variables.
pub(super) fn pieces(text: &str) -> Vec<Piece<'_>> {
    let mut out = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        let (before, after) = (rest.get(..at).unwrap_or(""), rest.get(at + 1..).unwrap_or(""));
        let (name, behind) = match after.strip_prefix('{').and_then(|inside| inside.split_once('}')) {
            Some((name, behind)) => (name, behind),
            None => {
                let is_digit = after.starts_with(|c: char| c.is_ascii_digit());
                let end = match is_digit {
                    true => 1,
                    false => {
                        after.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(after.len())
                    }
                };
                after.split_at(end)
            }
        };
        match name.is_empty() {
            true => out.push(Piece::Text(rest.get(..=at).unwrap_or(""))),
            false => {
                if !before.is_empty() {
                    out.push(Piece::Text(before));
                }
                out.push(Piece::Variable(name));
            }
        }
        rest = behind;
    }
    if !rest.is_empty() {
        out.push(Piece::Text(rest));
    }
    out
}

/// Values of `set` within values of `set`.
const DEPTH_LIMIT: usize = 8;

impl Variables {
    /// The text as a template; an error names the variable that has no counterpart.
    pub(super) fn template(&self, text: &str) -> Result<String, String> {
        self.read(text, &|name| self.variable(name), 0)
    }

    /// The same for the access log, which has more variables.
    pub(super) fn log(&self, text: &str) -> Result<String, String> {
        self.read(
            text,
            &|name| logged(name).map_or_else(|| self.variable(name), |known| Some(known.to_owned())),
            0,
        )
    }

    /// The text if it has no variables but constants.
    pub(super) fn constant(&self, text: &str) -> Option<String> {
        let mut out = String::new();
        for piece in pieces(text) {
            match piece {
                Piece::Text(text) => out.push_str(text),
                Piece::Variable("document_root" | "realpath_root") => out.push_str(&self.root),
                Piece::Variable(name) => out.push_str(&self.constant(self.set.get(name)?)?),
            }
        }
        Some(out)
    }

    fn read(&self, text: &str, of: &dyn Fn(&str) -> Option<String>, depth: usize) -> Result<String, String> {
        let mut out = String::new();
        let mut pieces = pieces(text).into_iter().peekable();
        while let Some(piece) = pieces.next() {
            match piece {
                Piece::Text(text) => out.push_str(&text.replace('$', "$$")),
                // `?` and the arguments, or nothing.
                Piece::Variable("is_args") => match pieces.peek() {
                    Some(Piece::Variable("args" | "query_string")) => {
                        pieces.next();
                        out.push_str("$query");
                    }
                    _ => return Err("is_args".to_owned()),
                },
                Piece::Variable(name) => match self.set.get(name) {
                    Some(value) if depth < DEPTH_LIMIT => out.push_str(&self.read(value, of, depth + 1)?),
                    _ => out.push_str(&of(name).ok_or_else(|| name.to_owned())?),
                },
            }
        }
        Ok(out)
    }

    fn variable(&self, name: &str) -> Option<String> {
        if let Some(number) = self.groups.iter().position(|group| group.as_deref() == Some(name)) {
            return Some(format!("${}", number + 1));
        }
        if let Ok(number) = name.parse::<usize>() {
            return (1..=self.groups.len()).contains(&number).then(|| format!("${number}"));
        }
        if self.maps.iter().any(|map| map == name) {
            return Some(format!("$map_{name}"));
        }
        Some(match name {
            "host" => "$host_name".to_owned(),
            "http_host" => "$host".to_owned(),
            "request_uri" => "$path$query".to_owned(),
            "uri" | "document_uri" => "$path".to_owned(),
            "args" | "query_string" => "$args".to_owned(),
            "scheme" => "$scheme".to_owned(),
            "request_method" => "$method".to_owned(),
            "remote_addr" | "realip_remote_addr" | "proxy_protocol_addr" => "$client".to_owned(),
            "request_id" => "$request_id".to_owned(),
            "server_name" if !self.server_name.is_empty() => self.server_name.replace('$', "$$"),
            "server_port" if !self.port.is_empty() => self.port.clone(),
            "document_root" if !self.root.is_empty() => self.root.replace('$', "$$"),
            name => {
                let known = [("http_", "header_"), ("arg_", "arg_"), ("cookie_", "cookie_")];
                let (start, ours) = known.into_iter().find(|(start, _)| name.starts_with(start))?;
                format!("${ours}{}", name.strip_prefix(start)?)
            }
        })
    }
}

/// Variables of log formats only.
fn logged(name: &str) -> Option<&'static str> {
    Some(match name {
        "status" => "$status",
        "body_bytes_sent" | "bytes_sent" => "$bytes",
        "request_time" => "$seconds",
        "time_local" | "time_iso8601" | "msec" => "$time",
        "request" => "$method $target $version",
        "request_uri" => "$target",
        "server_protocol" => "$version",
        "remote_user" => "$user",
        _ => return None,
    })
}

/// Names of the groups of a regular expression.
pub(super) fn groups(pattern: &str) -> Vec<Option<String>> {
    regex::bytes::RegexBuilder::new(pattern)
        .unicode(false)
        .build()
        .map(|regex| regex.capture_names().skip(1).map(|name| name.map(str::to_owned)).collect())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_become_templates() {
        let variables = Variables {
            set: BTreeMap::from([("backend".to_owned(), "http://$host".to_owned())]),
            maps: vec!["tenant".to_owned()],
            groups: vec![None, Some("page".to_owned())],
            server_name: "example.com".to_owned(),
            ..Variables::default()
        };
        for (text, expected) in [
            ("https://$host$request_uri", "https://$host_name$path$query"),
            ("/x$is_args$args", "/x$query"),
            ("${scheme}s://$server_name/$1?p=$page", "$schemes://example.com/$1?p=$2"),
            ("$backend/$http_x_user", "http://$host_name/$header_x_user"),
            ("$tenant costs 5$", "$map_tenant costs 5$$"),
        ] {
            assert_eq!(variables.template(text).as_deref(), Ok(expected), "{text}");
        }
        assert_eq!(variables.template("$geoip_country"), Err("geoip_country".to_owned()));
        assert_eq!(variables.template("$3"), Err("3".to_owned()));
        assert_eq!(
            variables.log("$remote_addr [$time_local] \"$request\""),
            Ok("$client [$time] \"$method $target $version\"".to_owned())
        );
    }
}
