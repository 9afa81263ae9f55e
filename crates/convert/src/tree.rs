//! YAML and JSON, with the line of every value, and an entry in the ledger for each.

use std::path::Path;

use saphyr::{LoadableYamlNode, MarkedYamlOwned, ScalarOwned, YamlDataOwned};

use crate::Error;
use crate::files::Files;
use crate::ledger::{Ledger, Origin};

#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) data: Data,
    /// That of a scalar, or of a list of scalars; tables have entries for what is in them.
    pub(crate) origin: Origin,
    path: String,
    file: String,
    line: usize,
}

#[derive(Clone, Debug)]
pub(crate) enum Data {
    Scalar(String),
    List(Vec<Node>),
    Map(Vec<(String, Node)>),
}

/// Loads a file; JSON is a part of YAML, but has errors of its own.
pub(crate) fn load(path: &Path, files: &Files, ledger: &mut Ledger) -> Result<Node, Error> {
    let (text, shown) = (files.read(path)?, files.shown(path));
    if text.trim_start().starts_with('{') {
        serde_json::from_str::<serde_json::Value>(&text)
            .map_err(|error| Error::at(&shown, error.line(), format!("is not JSON: {error}")))?;
    }
    let documents = MarkedYamlOwned::load_from_str(&text).map_err(|error| {
        Error::at(&shown, error.marker().line(), format!("is not YAML: {}", error.info()))
    })?;
    let Some(document) = documents.first() else {
        return Err(Error::new(format!("{shown}: is empty")));
    };
    Ok(Loader { file: &shown, ledger }.node(document, String::new()))
}

struct Loader<'a> {
    file: &'a str,
    ledger: &'a mut Ledger,
}

impl Loader<'_> {
    fn node(&mut self, yaml: &MarkedYamlOwned, path: String) -> Node {
        let line = yaml.span.start.line();
        let data = match &yaml.data {
            YamlDataOwned::Sequence(list) => {
                let is_plain = !list.is_empty() && list.iter().all(|item| scalar(item).is_some());
                let items: Vec<Node> = match is_plain {
                    true => list
                        .iter()
                        .map(|item| self.hidden(scalar(item).unwrap_or_default(), &path, line))
                        .collect(),
                    false => list
                        .iter()
                        .enumerate()
                        .map(|(index, item)| self.node(item, format!("{path}[{index}]")))
                        .collect(),
                };
                Data::List(items)
            }
            YamlDataOwned::Mapping(map) => {
                let entries = map.iter().map(|(key, value)| {
                    let key = scalar(key).unwrap_or_default();
                    let inner = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                    (key, self.node(value, inner))
                });
                Data::Map(entries.collect())
            }
            YamlDataOwned::Tagged(_, inner) => return self.node(inner, path),
            _ => Data::Scalar(scalar(yaml).unwrap_or_default()),
        };
        let origin = match &data {
            Data::Scalar(text) => self.ledger.open(self.file, line, &format!("{path}: {text}")),
            Data::List(list) if list.iter().all(|item| matches!(item.data, Data::Scalar(_))) => {
                let texts: Vec<&str> = list.iter().map(Node::text).collect();
                self.ledger.open(self.file, line, &format!("{path}: [{}]", texts.join(", ")))
            }
            Data::Map(map) if map.is_empty() => self.ledger.open(self.file, line, &format!("{path}: {{}}")),
            Data::List(_) | Data::Map(_) => self.ledger.open_hidden(),
        };
        Node { data, origin, path, file: self.file.to_owned(), line }
    }

    /// An item of a list of scalars, which has an entry as a whole.
    fn hidden(&mut self, text: String, path: &str, line: usize) -> Node {
        let origin = self.ledger.open_hidden();
        Node { data: Data::Scalar(text), origin, path: path.to_owned(), file: self.file.to_owned(), line }
    }
}

fn scalar(yaml: &MarkedYamlOwned) -> Option<String> {
    match &yaml.data {
        YamlDataOwned::Value(value) => Some(match value {
            ScalarOwned::Null => String::new(),
            ScalarOwned::Boolean(flag) => flag.to_string(),
            ScalarOwned::Integer(number) => number.to_string(),
            ScalarOwned::FloatingPoint(number) => number.to_string(),
            ScalarOwned::String(text) => text.to_string(),
        }),
        YamlDataOwned::Representation(text, ..) => Some(text.to_string()),
        YamlDataOwned::Tagged(_, inner) => scalar(inner),
        _ => None,
    }
}

impl Node {
    pub(crate) fn get(&self, key: &str) -> Option<&Node> {
        self.entries().iter().find(|(known, _)| known == key).map(|(_, node)| node)
    }

    /// A value at a path of keys.
    pub(crate) fn at(&self, path: &[&str]) -> Option<&Node> {
        path.iter().try_fold(self, |node, key| node.get(key))
    }

    pub(crate) fn entries(&self) -> &[(String, Node)] {
        match &self.data {
            Data::Map(map) => map,
            Data::Scalar(_) | Data::List(_) => &[],
        }
    }

    /// The items of a list; a single value is a list of one.
    pub(crate) fn items(&self) -> Vec<&Node> {
        match &self.data {
            Data::List(list) => list.iter().collect(),
            Data::Scalar(_) | Data::Map(_) => vec![self],
        }
    }

    pub(crate) fn is_map(&self) -> bool {
        matches!(self.data, Data::Map(_))
    }

    /// The text of a scalar; empty for others.
    pub(crate) fn text(&self) -> &str {
        match &self.data {
            Data::Scalar(text) => text,
            Data::List(_) | Data::Map(_) => "",
        }
    }

    pub(crate) fn texts(&self) -> Vec<String> {
        self.items().iter().map(|item| item.text().to_owned()).collect()
    }

    pub(crate) fn number(&self) -> Option<i64> {
        self.text().parse().ok()
    }

    pub(crate) fn is_on(&self) -> bool {
        self.text() == "true"
    }

    /// `site.yaml:3`
    pub(crate) fn error(&self, message: &str) -> Error {
        Error::at(&self.file, self.line.max(1), format!("`{}` {message}", self.path))
    }

    /// Opens an entry for a table.
    pub(crate) fn open(&self, ledger: &mut Ledger) -> Origin {
        ledger.open(&self.file, self.line.max(1), &format!("{}:", self.path))
    }

    /// Settles everything in it that is not settled yet as having no effect.
    pub(crate) fn ignore(&self, why: &str, ledger: &mut Ledger) {
        match &self.data {
            Data::Map(map) => map.iter().for_each(|(_, node)| node.ignore(why, ledger)),
            Data::List(list) => list.iter().for_each(|node| node.ignore(why, ledger)),
            Data::Scalar(_) => {}
        }
        if !ledger.is_settled(self.origin) {
            ledger.ignored(self.origin, why);
        }
    }

    fn has_settled(&self, ledger: &Ledger) -> bool {
        match &self.data {
            Data::Map(map) => map.iter().any(|(_, node)| node.has_settled(ledger)),
            Data::List(list) => {
                ledger.is_settled(self.origin) || list.iter().any(|node| node.has_settled(ledger))
            }
            Data::Scalar(_) => ledger.is_settled(self.origin),
        }
    }

    /// Drops it with everything in it.
    pub(crate) fn drop(&self, why: &str, todo: &str, grave: bool, ledger: &mut Ledger) {
        let is_leaf = match &self.data {
            Data::Scalar(_) => true,
            Data::List(list) => list.iter().all(|item| matches!(item.data, Data::Scalar(_))),
            Data::Map(map) => map.is_empty(),
        };
        if !is_leaf && self.has_settled(ledger) {
            // It was dropped before: two parts of the input lead to it.
            return;
        }
        let origin = if is_leaf { self.origin } else { self.open(ledger) };
        match grave {
            true => ledger.lost(origin, why, todo),
            false => ledger.dropped(origin, why, todo),
        }
        if !is_leaf {
            self.ignore("a part of what is not converted", ledger);
        }
    }
}
