use super::{Template, TemplatePiece, ValuePattern, Variable};

/// `[map.NAME]`: a variable whose value is looked up by another text.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct VariableMap {
    /// NAME; the variable is `$map_NAME`.
    pub name: String,
    /// The text that is looked up.
    pub source: Template,
    /// Patterns, each with the value for texts that match it: `$1` to `$9` are its `*` or groups. Exact texts come first, then patterns
    /// with `*`, longer ones first, then regular expressions in this order. Case of ASCII letters matters to the last only.
    pub values: Vec<(ValuePattern, Template)>,
    /// The value for all other texts.
    pub default: Template,
    /// Some of its texts may be secret: no message shows its values.
    pub is_secret: bool,
}

impl VariableMap {
    /// Every value that the variable can have.
    pub fn results(&self) -> impl Iterator<Item = &Template> {
        self.values.iter().map(|(_, value)| value).chain([&self.default])
    }

    /// The maps that it uses, which may be named several times.
    pub fn uses(&self) -> impl Iterator<Item = &str> {
        self.results().chain([&self.source]).flat_map(Template::maps)
    }
}

impl Template {
    /// The maps that it uses.
    pub fn maps(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter_map(|piece| match piece {
            TemplatePiece::Variable(Variable::Map(name)) => Some(name.as_str()),
            TemplatePiece::Variable(_) | TemplatePiece::Text(_) => None,
        })
    }
}

impl ValuePattern {
    /// How many of `$1` to `$9` a match has: one for each `*` or group.
    pub fn captures(&self) -> usize {
        match self {
            ValuePattern::Exact(_) => 0,
            ValuePattern::Glob(glob) => stars(glob),
            ValuePattern::Regex(regex) => groups(regex),
        }
    }
}

/// The `*` of a pattern.
pub(super) fn stars(glob: &str) -> usize {
    glob.bytes().filter(|&byte| byte == b'*').count()
}

/// The groups of a regular expression, which was compiled when it was read.
pub(super) fn groups(regex: &str) -> usize {
    let built = regex::bytes::RegexBuilder::new(regex).unicode(false).build();
    built.map_or(0, |regex| regex.captures_len() - 1)
}
