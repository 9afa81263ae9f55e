//! Levels of blocks, from the outermost to the innermost.

use super::syntax::Directive;
use crate::ledger::Origin;

#[derive(Clone, Debug)]
pub(super) struct Scope<'d> {
    levels: Vec<&'d [Directive]>,
    /// Rules of `limit_except`.
    rules: &'d [Directive],
}

impl<'d> Scope<'d> {
    pub(super) fn of(directives: &'d [Directive]) -> Scope<'d> {
        Scope { levels: vec![directives], rules: &[] }
    }

    pub(super) fn within(&self, directives: &'d [Directive]) -> Scope<'d> {
        let mut levels = self.levels.clone();
        levels.push(directives);
        Scope { levels, rules: &[] }
    }

    /// The scope with rules of its own, which come before those of all levels; the innermost level stays the same.
    pub(super) fn with_rules(&self, rules: &'d [Directive]) -> Scope<'d> {
        Scope { rules, ..self.clone() }
    }

    /// Whether it is that of `limit_except`.
    pub(super) fn is_limited(&self) -> bool {
        !self.rules.is_empty()
    }

    /// The directives of the innermost level.
    pub(super) fn own(&self) -> &'d [Directive] {
        self.levels.last().copied().unwrap_or(&[])
    }

    /// A directive of the innermost level.
    pub(super) fn own_one(&self, name: &str) -> Option<&'d Directive> {
        self.own().iter().find(|directive| directive.name == name)
    }

    /// Directives of a name at the innermost level that has any: that is how nginx inherits lists.
    pub(super) fn all(&self, name: &str) -> Vec<&'d Directive> {
        self.any_of(&[name])
    }

    /// The same for directives that inherit together, as `allow` and `deny`.
    pub(super) fn any_of(&self, names: &[&str]) -> Vec<&'d Directive> {
        for level in [self.rules].iter().chain(self.levels.iter().rev()) {
            let found: Vec<&Directive> =
                level.iter().filter(|directive| names.contains(&directive.name.as_str())).collect();
            if !found.is_empty() {
                return found;
            }
        }
        Vec::new()
    }

    /// The directive of a name that is in force.
    pub(super) fn one(&self, name: &str) -> Option<&'d Directive> {
        self.all(name).first().copied()
    }

    /// The directive of a name that is in force, unless it is of the outermost level.
    pub(super) fn inner(&self, name: &str) -> Option<&'d Directive> {
        let levels = self.levels.get(1..).unwrap_or(&[]).iter().rev();
        levels.flat_map(|level| level.iter()).find(|directive| directive.name == name)
    }

    /// Which directives of some names are in force.
    pub(super) fn origins(&self, names: &[&str]) -> Vec<Origin> {
        self.any_of(names).iter().map(|directive| directive.origin).collect()
    }

    /// Whether a flag is on.
    pub(super) fn is_on(&self, name: &str) -> bool {
        self.one(name).is_some_and(|directive| directive.arg(0) == "on")
    }

    /// All directives of a name at all levels, the outermost first.
    pub(super) fn every(&self, name: &str) -> Vec<&'d Directive> {
        self.levels.iter().flat_map(|level| level.iter()).filter(|directive| directive.name == name).collect()
    }
}
