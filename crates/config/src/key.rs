//! The definition of a key: one [`Key`] value has everything that the parser and the documentation need.

mod ambiguous_variable;

use crate::checker::Checker;
use crate::description::{Describe, Description, KeyInfo, join, nearest_in_sections};
use crate::json::Json;
use crate::nearest::{nearest, or_list};
use crate::raw::{Directive, Entry, Table, Value};

pub(crate) use crate::description::{DefaultValue, Reload};

/// A key of the section that fills a `T`.
///
/// A definition begins from [`Key::LIVE`], [`Key::RECYCLE`] or [`Key::RESTART`]: `Key { name: …, ..Key::LIVE }`.
pub(crate) struct Key<T: 'static> {
    pub(crate) name: &'static str,
    /// One line without a full stop.
    pub(crate) brief: &'static str,
    /// Facts that help to choose a value: the reason, the attack or memory that it limits, precedents. May be empty.
    pub(crate) long: &'static str,
    pub(crate) default: DefaultValue,
    /// An example of a right value, as a line of the file.
    pub(crate) right: &'static str,
    /// An example of a wrong value, as a line of the file.
    pub(crate) wrong: &'static str,
    pub(crate) reload: Reload,
    /// The release that introduced the key.
    pub(crate) since: &'static str,
    pub(crate) value: &'static dyn Field<T>,
}

/// The keys of a table that fills a `T`.
pub(crate) struct Section<T: 'static> {
    pub(crate) keys: &'static [Key<T>],
}

/// A field of `T`: reads the value of a key into it.
pub(crate) trait Field<T>: Sync {
    fn set(&self, target: &mut T, directive: &Directive, cx: &mut Checker<'_>);
    fn describe(&self) -> &dyn Describe;
}

/// A kind of value that can be read.
pub(crate) trait Shape: Describe {
    type Out;
    /// The value, or `None` after a problem was reported.
    fn read(&self, directive: &Directive, cx: &mut Checker<'_>) -> Option<Self::Out>;
}

/// A field that reads a shape and stores its value.
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

/// A field that is a table with keys of its own: `[server.log]`.
pub(crate) struct Subtable<T: 'static, U: 'static>(
    pub(crate) &'static Section<U>,
    pub(crate) fn(&mut T) -> &mut U,
);

impl<T, U> Field<T> for Subtable<T, U> {
    fn set(&self, target: &mut T, directive: &Directive, cx: &mut Checker<'_>) {
        if let Some(table) = cx.table(directive) {
            self.0.read((self.1)(target), &table, cx);
        }
    }

    fn describe(&self) -> &dyn Describe {
        self.0
    }
}

/// A subtable with a check of what its keys must be to one another, and to those read before.
pub(crate) struct CheckedSubtable<T: 'static, U: 'static>(
    pub(crate) Subtable<T, U>,
    pub(crate) fn(&T, &Table, &Directive, &mut Checker<'_>),
);

impl<T, U> Field<T> for CheckedSubtable<T, U> {
    fn set(&self, target: &mut T, directive: &Directive, cx: &mut Checker<'_>) {
        if let Some(table) = cx.table(directive) {
            self.0.0.read((self.0.1)(target), &table, cx);
            (self.1)(target, &table, directive, cx);
        }
    }

    fn describe(&self) -> &dyn Describe {
        self.0.0
    }
}

/// A key that the design has and this version does not support.
pub(crate) struct Unsupported;

impl<T> Field<T> for Unsupported {
    fn set(&self, _target: &mut T, directive: &Directive, cx: &mut Checker<'_>) {
        let message = format!("`{}` is not supported by this version yet", cx.name());
        cx.problem(directive.span, message).help("leave it out for now").report(cx);
    }

    fn describe(&self) -> &dyn Describe {
        self
    }
}

impl Describe for Unsupported {
    fn description(&self) -> Description {
        Description::new("nothing: not supported yet", "not supported yet", Json::Boolean(false))
    }

    fn is_supported(&self) -> bool {
        false
    }
}

impl<T> Key<T> {
    /// The base of a key whose changes apply from the next connection or request.
    pub(crate) const LIVE: Key<T> = Key::base(Reload::Live);
    /// The base of a key whose changes replace the workers of the app.
    pub(crate) const RECYCLE: Key<T> = Key::base(Reload::Recycle);
    /// The base of a key whose changes need a restart.
    pub(crate) const RESTART: Key<T> = Key::base(Reload::Restart);

    const fn base(reload: Reload) -> Key<T> {
        Key {
            name: "",
            brief: "",
            long: "",
            default: DefaultValue::Required,
            right: "",
            wrong: "",
            reload,
            since: FIRST_RELEASE,
            value: &Unsupported,
        }
    }

    /// A key of a later version.
    pub(crate) const fn unsupported(name: &'static str, brief: &'static str) -> Key<T> {
        Key { name, brief, default: DefaultValue::Words("-"), since: "", ..Key::RESTART }
    }

    fn apply(&'static self, target: &mut T, directive: &Directive, cx: &mut Checker<'_>) {
        cx.enter(self.name, self.name, self.value.describe(), self.right);
        self.value.set(target, directive, cx);
        cx.leave();
    }

    fn info(&self, parent: &str) -> KeyInfo {
        let path = join(parent, self.name);
        let value = self.value.describe();
        KeyInfo {
            children: value.children(&path),
            name: self.name,
            path,
            brief: self.brief,
            long: self.long,
            default: self.default,
            right: self.right,
            wrong: self.wrong,
            reload: self.reload,
            since: self.since,
            value: value.description(),
            is_supported: value.is_supported(),
        }
    }
}

/// The release of every key that names no other.
const FIRST_RELEASE: &str = "0.1.0";

impl<T> Section<T> {
    /// Reads the entries of a table: its keys in the order of the definition, then the problems of other entries.
    pub(crate) fn read(&'static self, target: &mut T, table: &Table, cx: &mut Checker<'_>) {
        for key in self.keys {
            if let Some(entry) = table.entry(key.name) {
                key.apply(target, &entry.value, cx);
            }
        }
        self.report_unknown(table, cx);
    }

    /// Reports the entries that the section has no key for.
    pub(crate) fn report_unknown(&self, table: &Table, cx: &mut Checker<'_>) {
        for entry in table.entries.iter().filter(|entry| !self.has(&entry.key)) {
            match self.ambiguous_variables(entry, cx) {
                problems if problems.is_empty() => self.report_unknown_key(entry, cx),
                problems => problems.into_iter().for_each(|problem| problem.report(cx)),
            }
        }
    }

    /// Whether the table has only entries that variables with an ambiguous name have made.
    pub(crate) fn is_ambiguous(&self, table: &Table, cx: &Checker<'_>) -> bool {
        let is_ambiguous =
            |entry: &Entry| !self.has(&entry.key) && !self.ambiguous_variables(entry, cx).is_empty();
        !table.entries.is_empty() && table.entries.iter().all(is_ambiguous)
    }

    fn ambiguous_variables(&self, entry: &Entry, cx: &Checker<'_>) -> Vec<crate::report::Problem> {
        ambiguous_variable::problems(&|key| self.has(key), entry, cx)
    }

    pub(crate) fn has(&self, key: &str) -> bool {
        self.key(key).is_some()
    }

    pub(crate) fn key(&self, name: &str) -> Option<&'static Key<T>> {
        self.keys.iter().find(|key| key.name == name)
    }

    fn report_unknown_key(&self, entry: &Entry, cx: &mut Checker<'_>) {
        let section = cx.name();
        let is_section = section.is_empty() && matches!(entry.value.value, Value::Table(_));
        let message = match (is_section, section.is_empty()) {
            (true, _) => format!("unknown section `[{}]`", entry.key),
            (_, true) => format!("unknown key `{}` outside of any section", entry.key),
            _ => format!("unknown key `{}` in `{section}`", entry.key),
        };
        let keys = self.keys.iter().filter(|key| key.value.describe().is_supported());
        let names: Vec<&str> = keys.map(|key| key.name).collect();
        let near = nearest(&entry.key, names.iter().copied());
        let problem = cx.problem(entry.key_span, message);
        // The same word in another section says more than a similar word in this one.
        let problem = match nearest_in_sections(&entry.key, (cx.all_keys)()) {
            Some((key, home)) if key == entry.key => problem.help(format!("`{key}` is a key of {home}")),
            _ if !near.is_empty() => problem.help(format!("did you mean {}?", or_list(&near))),
            similar => {
                let problem = problem.expected(format!("one of {}", or_list(&names)));
                match similar {
                    Some((key, home)) => problem.help(format!("did you mean `{key}` of {home}?")),
                    None => problem,
                }
            }
        };
        problem.report(cx);
    }

    /// The keys of the section, whose path is `path`, for the documentation.
    pub(crate) fn infos(&self, path: &str) -> Vec<KeyInfo> {
        self.keys.iter().map(|key| key.info(path)).collect()
    }
}

impl<T> Describe for Section<T> {
    fn description(&self) -> Description {
        let members = self.infos("").iter().filter(|key| key.is_supported).map(KeyInfo::member).collect();
        let schema = Json::object([
            ("type", Json::text("object")),
            ("additionalProperties", Json::Boolean(false)),
            ("properties", Json::Object(members)),
        ]);
        Description::new("a table", "table", schema)
    }

    fn children(&self, path: &str) -> Vec<KeyInfo> {
        self.infos(path)
    }
}
