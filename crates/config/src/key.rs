//! What a key is: one [`Key`] value holds everything anybody wants to know of it. The parser, `keepwarm explain`, the
//! reference page and the JSON schema are all made from these.

mod misread;

use crate::checker::Checker;
use crate::explain::nearest_elsewhere;
use crate::json::Json;
use crate::nearest::{nearest, or_list};
use crate::raw::{Directive, Entry, Table, Value};

/// One configuration key of the section that fills a `T`.
pub(crate) struct Key<T: 'static> {
    pub(crate) name: &'static str,
    /// One line, no full stop.
    pub(crate) brief: &'static str,
    /// What one has to know to choose a value: reason, attack or memory bounded, precedents. May be empty.
    pub(crate) long: &'static str,
    pub(crate) default: Preset,
    /// An example of a right value, as it stands behind the `=`.
    pub(crate) right: &'static str,
    /// An example of a wrong one.
    pub(crate) wrong: &'static str,
    pub(crate) reload: Reload,
    pub(crate) since: &'static str,
    pub(crate) value: &'static dyn Field<T>,
}

/// What holds when a key is not set.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Preset {
    /// This value, as it stands behind the `=`. A test holds it against the struct's own default.
    Value(&'static str),
    /// What these words say.
    Words(&'static str),
    /// Nothing: the key must be set.
    Required,
}

/// What a reload has to do for a changed value to count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reload {
    /// It counts from the next connection or request on.
    Live,
    /// The app's workers are replaced, one by one.
    Recycle,
    /// Only a new start takes it up; a reload says so.
    Restart,
}

/// The keys of a table that fills a `T`.
pub(crate) struct Section<T: 'static> {
    pub(crate) keys: &'static [Key<T>],
}

/// How a key's value gets into a `T`.
pub(crate) trait Field<T>: Sync {
    fn set(&self, target: &mut T, directive: &Directive, cx: &mut Checker<'_>);
    fn describe(&self) -> &dyn Describe;
}

/// What a value looks like, for people and for machines.
pub(crate) trait Describe: Sync {
    /// "a time from 1ms to 24h with a unit (ms, s, m, h)"
    fn expected(&self) -> String;
    /// "time", for the reference.
    fn type_name(&self) -> String;
    fn schema(&self) -> Json;
    /// The keys of a table below this one, whose path is `path`.
    fn children(&self, _path: &str) -> Vec<Info> {
        Vec::new()
    }
    /// Whether this version knows the key, and refuses it.
    fn later(&self) -> bool {
        false
    }
}

/// A kind of value that can be read.
pub(crate) trait Shape: Describe {
    type Out;
    /// The value; `None` after the fault has been given to `cx`.
    fn read(&self, directive: &Directive, cx: &mut Checker<'_>) -> Option<Self::Out>;
}

/// A field that reads a shape and stores what came out.
pub(crate) struct Set<S, T, O>(pub(crate) S, pub(crate) fn(&mut T, O));

impl<S: Shape<Out = O>, T, O> Field<T> for Set<S, T, O> {
    fn set(&self, target: &mut T, directive: &Directive, cx: &mut Checker<'_>) {
        if let Some(value) = self.0.read(directive, cx) {
            (self.1)(target, value);
        }
    }

    fn describe(&self) -> &dyn Describe {
        &self.0
    }
}

/// A field that is a table of its own keys: `[server.log]`.
pub(crate) struct Sub<T: 'static, U: 'static>(
    pub(crate) &'static Section<U>,
    pub(crate) fn(&mut T) -> &mut U,
);

impl<T, U> Field<T> for Sub<T, U> {
    fn set(&self, target: &mut T, directive: &Directive, cx: &mut Checker<'_>) {
        if let Some(table) = cx.table(directive) {
            self.0.read((self.1)(target), &table, cx);
        }
    }

    fn describe(&self) -> &dyn Describe {
        self.0
    }
}

/// A key that the design knows and this version does not serve.
pub(crate) struct Later;

impl<T> Field<T> for Later {
    fn set(&self, _target: &mut T, directive: &Directive, cx: &mut Checker<'_>) {
        let name = cx.name();
        cx.not_served(directive, &format!("`{name}`"));
    }

    fn describe(&self) -> &dyn Describe {
        self
    }
}

impl Describe for Later {
    fn expected(&self) -> String {
        "nothing: not supported yet".to_owned()
    }

    fn type_name(&self) -> String {
        "not supported yet".to_owned()
    }

    fn schema(&self) -> Json {
        Json::Flag(false)
    }

    fn later(&self) -> bool {
        true
    }
}

impl<T> Key<T> {
    /// A key of a later version.
    pub(crate) const fn later(name: &'static str, brief: &'static str) -> Key<T> {
        Key {
            name,
            brief,
            long: "",
            default: Preset::Words("-"),
            right: "",
            wrong: "",
            reload: Reload::Restart,
            since: "",
            value: &Later,
        }
    }

    fn apply(&'static self, target: &mut T, directive: &Directive, cx: &mut Checker<'_>) {
        cx.enter(self.name, self.name, self.value.describe(), self.right);
        self.value.set(target, directive, cx);
        cx.leave();
    }

    pub(crate) fn info(&self, parent: &str) -> Info {
        let path = join(parent, self.name);
        let describe = self.value.describe();
        Info {
            children: describe.children(&path),
            name: self.name,
            path,
            brief: self.brief,
            long: self.long,
            default: self.default,
            right: self.right,
            wrong: self.wrong,
            reload: self.reload,
            since: self.since,
            type_name: describe.type_name(),
            expected: describe.expected(),
            schema: describe.schema(),
            served: !describe.later(),
        }
    }
}

impl<T> Section<T> {
    /// Reads every entry of the table: known ones in the order of the definition, then complains of the others.
    pub(crate) fn read(&'static self, target: &mut T, table: &Table, cx: &mut Checker<'_>) {
        for key in self.keys {
            if let Some(entry) = table.entry(key.name) {
                key.apply(target, &entry.value, cx);
            }
        }
        self.unknown_entries(table, cx);
    }

    /// Complains of what the section does not have.
    pub(crate) fn unknown_entries(&self, table: &Table, cx: &mut Checker<'_>) {
        for entry in table.entries.iter().filter(|entry| !self.has(&entry.key)) {
            match misread::problems(self, entry, cx) {
                problems if problems.is_empty() => self.unknown(entry, cx),
                problems => problems.into_iter().for_each(|problem| cx.push(problem)),
            }
        }
    }

    /// Whether the section is there only because variables were misread.
    pub(crate) fn is_misread(&self, table: &Table, cx: &Checker<'_>) -> bool {
        let misread = |entry: &Entry| !self.has(&entry.key) && !misread::problems(self, entry, cx).is_empty();
        !table.entries.is_empty() && table.entries.iter().all(misread)
    }

    pub(crate) fn has(&self, key: &str) -> bool {
        self.keys.iter().any(|known| known.name == key)
    }

    fn unknown(&self, entry: &Entry, cx: &mut Checker<'_>) {
        let section = cx.name();
        let is_section = section.is_empty() && matches!(entry.value.value, Value::Table(_));
        let message = match (is_section, section.is_empty()) {
            (true, _) => format!("unknown section `[{}]`", entry.key),
            (_, true) => format!("unknown key `{}` outside of any section", entry.key),
            _ => format!("unknown key `{}` in `{section}`", entry.key),
        };
        let served: Vec<&str> =
            self.keys.iter().filter(|key| !key.value.describe().later()).map(|key| key.name).collect();
        let near = nearest(&entry.key, served.iter().copied());
        let elsewhere = nearest_elsewhere(&entry.key);
        let mut problem = cx.problem(entry.key_span, message).key(cx.doc());
        // The very word in another section says more than a word like it in this one.
        problem = match elsewhere {
            Some((key, home)) if key == entry.key => problem.help(format!("`{key}` is a key of {home}")),
            _ if !near.is_empty() => problem.help(format!("did you mean {}?", or_list(&near))),
            Some((key, home)) => problem.help(format!("did you mean `{key}` of {home}?")),
            None => problem.expected(format!("one of {}", or_list(&served))),
        };
        cx.push(problem);
    }

    /// What is to be known of the keys, for the documentation; `path` is the section's.
    pub(crate) fn infos(&self, path: &str) -> Vec<Info> {
        self.keys.iter().map(|key| key.info(path)).collect()
    }
}

impl<T> Describe for Section<T> {
    fn expected(&self) -> String {
        "a table".to_owned()
    }

    fn type_name(&self) -> String {
        "table".to_owned()
    }

    fn schema(&self) -> Json {
        let members = self.infos("").iter().filter(|info| info.served).map(Info::member).collect();
        Json::object([
            ("type", Json::text("object")),
            ("additionalProperties", Json::Flag(false)),
            ("properties", Json::Object(members)),
        ])
    }

    fn children(&self, path: &str) -> Vec<Info> {
        self.infos(path)
    }
}

/// A key without its type: what the documentation needs.
#[derive(Debug, Clone)]
pub(crate) struct Info {
    pub(crate) name: &'static str,
    /// `app.NAME.workers`
    pub(crate) path: String,
    pub(crate) brief: &'static str,
    pub(crate) long: &'static str,
    pub(crate) default: Preset,
    pub(crate) right: &'static str,
    pub(crate) wrong: &'static str,
    pub(crate) reload: Reload,
    pub(crate) since: &'static str,
    pub(crate) type_name: String,
    pub(crate) expected: String,
    pub(crate) schema: Json,
    pub(crate) served: bool,
    pub(crate) children: Vec<Info>,
}

impl Info {
    fn member(&self) -> (String, Json) {
        (self.name.to_owned(), self.schema.clone().with("description", Json::text(self.brief)))
    }
}

impl std::fmt::Display for Preset {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Preset::Value(value) => write!(f, "`{value}`"),
            Preset::Words(words) => f.write_str(words),
            Preset::Required => f.write_str("none (required)"),
        }
    }
}

impl std::fmt::Display for Reload {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Reload::Live => "live: applies from the next connection or request",
            Reload::Recycle => "recycle: the app's workers are replaced",
            Reload::Restart => "restart: takes effect only after a restart",
        })
    }
}

/// `a.b`, or `b` when there is no `a`.
pub(crate) fn join(parent: &str, name: &str) -> String {
    if parent.is_empty() { name.to_owned() } else { format!("{parent}.{name}") }
}
