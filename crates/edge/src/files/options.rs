//! How the files of a directory are served.

use super::fingerprint::is_fingerprinted;
use super::name_pattern::NamePattern;

/// A name and its value.
pub type FileField = (Box<[u8]>, Box<[u8]>);

/// How the files of a directory are served.
#[derive(Debug, Clone)]
pub struct FileOptions {
    /// Names that a request for a directory stands for, in order of precedence.
    pub index: Vec<String>,
    /// A directory without an index is listed.
    pub listing: bool,
    /// Files that clients may keep for a year.
    pub immutable: ImmutableNames,
    /// Headers of the files that match. Later ones replace earlier ones of the same name.
    pub headers: Vec<(NamePattern, Vec<FileField>)>,
}

/// Names of files whose content never changes.
#[derive(Debug, Clone)]
pub enum ImmutableNames {
    /// None.
    None,
    /// Those with a fingerprint.
    Fingerprinted,
    /// Those that match one of the patterns.
    Matching(Vec<NamePattern>),
}

impl Default for FileOptions {
    fn default() -> Self {
        Self {
            index: vec!["index.html".to_owned()],
            listing: false,
            immutable: ImmutableNames::None,
            headers: Vec::new(),
        }
    }
}

const FOR_A_YEAR: (&[u8], &[u8]) = (b"Cache-Control", b"public, max-age=31536000, immutable");

impl FileOptions {
    /// The headers of the file of that name, relative to its directory.
    pub(super) fn fields(&self, name: &[u8]) -> Vec<(&[u8], &[u8])> {
        let mut fields: Vec<(&[u8], &[u8])> = Vec::new();
        if self.is_immutable(name) {
            fields.push(FOR_A_YEAR);
        }
        for (_, set) in self.headers.iter().filter(|(glob, _)| glob.matches(name)) {
            fields.retain(|(name, _)| !set.iter().any(|(own, _)| own.eq_ignore_ascii_case(name)));
            fields.extend(set.iter().map(|(name, value)| (&**name, &**value)));
        }
        fields
    }

    fn is_immutable(&self, name: &[u8]) -> bool {
        match &self.immutable {
            ImmutableNames::None => false,
            ImmutableNames::Fingerprinted => is_fingerprinted(name),
            ImmutableNames::Matching(globs) => globs.iter().any(|glob| glob.matches(name)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(options: &FileOptions, name: &str) -> String {
        let fields = options.fields(name.as_bytes());
        let lines = fields.iter().map(|(name, value)| {
            format!("{}: {}", String::from_utf8_lossy(name), String::from_utf8_lossy(value))
        });
        lines.collect::<Vec<_>>().join("; ")
    }

    #[test]
    fn later_patterns_replace_headers_of_earlier_ones() {
        let set = |pattern: &str, fields: &[(&str, &str)]| {
            let fields = fields.iter().map(|(name, value)| (name.as_bytes().into(), value.as_bytes().into()));
            (NamePattern::new(pattern).unwrap(), fields.collect())
        };
        let options = FileOptions {
            immutable: ImmutableNames::Fingerprinted,
            headers: vec![
                set("*.html", &[("Cache-Control", "no-cache"), ("X-A", "1")]),
                set("docs/**", &[("cache-control", "no-store"), ("X-B", "2"), ("X-B", "3")]),
                set("service-12ab34cd.js", &[("Cache-Control", "no-cache")]),
            ],
            ..FileOptions::default()
        };
        for (name, expected) in [
            ("a.html", "Cache-Control: no-cache; X-A: 1"),
            ("docs/a.html", "X-A: 1; cache-control: no-store; X-B: 2; X-B: 3"),
            ("a.js", ""),
            ("app-3f2a91bc.js", "Cache-Control: public, max-age=31536000, immutable"),
            ("service-12ab34cd.js", "Cache-Control: no-cache"),
        ] {
            assert_eq!(fields(&options, name), expected, "{name}");
        }
        let matching = ImmutableNames::Matching(vec![NamePattern::new("assets/**").unwrap()]);
        let options = FileOptions { immutable: matching, ..FileOptions::default() };
        assert!(options.is_immutable(b"assets/x/y.js") && !options.is_immutable(b"app-3f2a91bc.js"));
    }
}
