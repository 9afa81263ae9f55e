//! The rewrites of an `.htaccess` that lead to a script: the part of Apache's `mod_rewrite` that sites of PHP use for their addresses.
//!
//! As in a folder's context there: rules are tried in their order on the path behind the folder; a rule that fits and whose conditions hold changes the path, and
//! the query where its target has one; after `[L]`, or the last rule, all begins anew with the new path, until it stays as it is. What a rule takes from the
//! path is percent-encoded where it gets into the query (Apache has the flag `B` for that).

use regex_lite::{Regex, RegexBuilder};

/// How long a path may become.
const MAX_PATH: usize = 8 * 1024;

/// What rules one file has.
#[derive(Debug, Default)]
pub(super) struct Rewriting {
    rules: Vec<Rule>,
    /// `RewriteBase`, with a slash at its end.
    base: Option<String>,
    /// A rule does something else than to lead what is no file to `index.php`.
    pub(super) matters: bool,
}

#[derive(Debug)]
struct Rule {
    pattern: Regex,
    negated: bool,
    conditions: Vec<Condition>,
    /// `None`: the path stays as it is.
    target: Option<Target>,
    flags: Flags,
}

#[derive(Debug)]
struct Target {
    path: Vec<Piece>,
    query: Option<Vec<Piece>>,
}

/// A part of a target, or of what a condition tests.
#[derive(Debug, PartialEq)]
enum Piece {
    Text(String),
    /// `$1`: what the rule's pattern has caught.
    Caught(usize),
    /// `%1`: what the last condition's has.
    CaughtByCondition(usize),
    Filename,
    Root,
    Uri,
}

#[derive(Debug)]
pub(super) struct Condition {
    subject: Vec<Piece>,
    test: Test,
    negated: bool,
    or_next: bool,
}

#[derive(Debug)]
enum Test {
    File,
    Folder,
    /// Never: links are followed.
    Link,
    Matches(Regex),
    Is(String),
}

#[derive(Debug, Default)]
struct Flags {
    last: bool,
    end: bool,
    appends: bool,
    discards: bool,
    ignores_case: bool,
}

/// The query of a rewritten request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RewrittenQuery {
    /// What the rules say.
    pub front: Vec<u8>,
    /// The client's own follows.
    pub with_clients: bool,
}

/// A path and a query on their way through the rules.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Address {
    /// Relative to the site's root, decoded.
    pub(super) name: String,
    pub(super) query: RewrittenQuery,
}

/// What one pass through the rules has made of an address.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Pass {
    Same,
    Changed,
    /// Nothing else is tried.
    End,
}

/// What is there, for conditions.
pub(super) trait Site {
    /// The site's root, as its scripts know it.
    fn root(&self) -> &str;
    /// Whether a name (relative to the root) is one of a file, or of a folder.
    async fn is(&self, name: &str, folder: bool) -> std::io::Result<bool>;
}

impl Default for RewrittenQuery {
    fn default() -> Self {
        Self { front: Vec::new(), with_clients: true }
    }
}

impl Rewriting {
    pub(super) fn set_base(&mut self, base: &str) {
        self.base = Some(format!("{}/", base.trim_end_matches('/')));
    }

    /// Takes a `RewriteRule`. `Err`: it is not honoured.
    pub(super) fn take(&mut self, words: &[String], conditions: Option<Vec<Condition>>) -> Result<(), ()> {
        let [pattern, target, rest @ ..] = words else { return Ok(()) };
        let flags = Flags::parse(rest.first().map_or("", String::as_str))?;
        let plain = target == "-" || is_front(target);
        // A rule whose condition nobody can judge does nothing; one that only leads to the front is not missed.
        let Some(conditions) = conditions else { return if plain { Ok(()) } else { Err(()) } };
        let (negated, pattern) = match pattern.strip_prefix('!') {
            Some(pattern) => (true, pattern),
            None => (false, pattern.as_str()),
        };
        let runs = [pattern, target].iter().any(|text| text.contains(".php"));
        if !(plain || runs) || target.contains("://") {
            return Err(());
        }
        let regex = expression(pattern, flags.ignores_case)?;
        let target = match target.as_str() {
            "-" => None,
            target => Some(Target::parse(target.strip_prefix("%{ENV:BASE}").unwrap_or(target))?),
        };
        self.matters |= !plain;
        self.rules.push(Rule { pattern: regex, negated, conditions, target, flags });
        Ok(())
    }

    /// Tries the rules once. `above`: the folder they are of, empty or with a slash at its end; the address lies in it.
    pub(super) async fn pass(
        &self,
        site: &impl Site,
        above: &str,
        address: &mut Address,
    ) -> std::io::Result<Pass> {
        let before = address.clone();
        for rule in &self.rules {
            let below = address.name.strip_prefix(above).unwrap_or(&address.name).to_owned();
            let caught = match (rule.pattern.captures(&below), rule.negated) {
                (Some(found), false) => texts(&found),
                (None, true) => Vec::new(),
                _ => continue,
            };
            let scope = Scope { root: site.root(), uri: &before.name, name: &address.name, caught: &caught };
            let Some(by_condition) = rule.holds(site, &scope).await? else { continue };
            if let Some(target) = &rule.target {
                let path = scope.expand(&target.path, &by_condition, None);
                let query = target.query.as_ref().map(|query| scope.expand(query, &by_condition, Some(args)));
                let name = self.place(above, &path);
                if name.len() > MAX_PATH {
                    return Ok(Pass::End);
                }
                address.name = name;
                rule.flags.apply(&mut address.query, query);
            }
            if rule.flags.end {
                return Ok(Pass::End);
            }
            if rule.flags.last {
                break;
            }
        }
        Ok(if *address == before { Pass::Same } else { Pass::Changed })
    }

    /// Where a target lies, from the site's root on.
    fn place(&self, above: &str, path: &str) -> String {
        let based = self.base.as_ref().and_then(|base| path.strip_prefix(base.as_str()));
        match (based, path.strip_prefix('/')) {
            (Some(rest), _) => format!("{above}{rest}"),
            (None, Some(rest)) => rest.to_owned(),
            (None, None) => format!("{above}{}", path.strip_prefix("./").unwrap_or(path)),
        }
    }
}

impl Rule {
    /// Whether the conditions hold, and what the last expression among them has caught.
    async fn holds(&self, site: &impl Site, scope: &Scope<'_>) -> std::io::Result<Option<Vec<String>>> {
        let mut caught = Vec::new();
        let mut conditions = self.conditions.iter();
        while let Some(condition) = conditions.next() {
            if condition.holds(site, scope, &mut caught).await? {
                // The rest of what is tied to it by [OR] is left out.
                let mut tied = condition.or_next;
                while tied {
                    tied = conditions.next().is_some_and(|next| next.or_next);
                }
            } else if !condition.or_next {
                return Ok(None);
            }
        }
        Ok(Some(caught))
    }
}

impl Condition {
    /// `None`: it is one that nobody can judge here.
    pub(super) fn parse(words: &[String]) -> Option<Self> {
        let [subject, test, rest @ ..] = words else { return None };
        let flags = rest.first().map_or("", String::as_str).trim_matches(['[', ']']).to_ascii_lowercase();
        let (mut or_next, mut ignores_case) = (false, false);
        for flag in flags.split(',').map(str::trim) {
            match flag {
                "or" | "ornext" => or_next = true,
                "nc" | "nocase" => ignores_case = true,
                "" | "nv" | "novary" => {}
                _ => return None,
            }
        }
        let subject = pieces(subject, true).ok()?;
        let (negated, test) = match test.strip_prefix('!') {
            Some(test) => (true, test),
            None => (false, test.as_str()),
        };
        let test = match test {
            "-f" | "-s" | "-F" => Test::File,
            "-d" => Test::Folder,
            "-l" | "-L" | "-h" => Test::Link,
            _ if test.starts_with(['-', '<', '>']) => return None,
            _ => match test.strip_prefix('=') {
                Some(text) => Test::Is(text.trim_matches('"').to_owned()),
                None => Test::Matches(expression(test, ignores_case).ok()?),
            },
        };
        Some(Self { subject, test, negated, or_next })
    }

    async fn holds(
        &self,
        site: &impl Site,
        scope: &Scope<'_>,
        caught: &mut Vec<String>,
    ) -> std::io::Result<bool> {
        let subject = scope.expand(&self.subject, caught, None);
        let of_site =
            |text: &str| text.strip_prefix(site.root()).map(|name| name.trim_start_matches('/').to_owned());
        let holds = match &self.test {
            Test::File | Test::Folder => match of_site(&subject) {
                Some(name) => site.is(&name, matches!(self.test, Test::Folder)).await?,
                None => false,
            },
            Test::Link => false,
            Test::Is(text) => subject == *text,
            Test::Matches(regex) => match regex.captures(&subject) {
                Some(found) => {
                    *caught = texts(&found);
                    true
                }
                None => false,
            },
        };
        Ok(holds != self.negated)
    }
}

impl Target {
    fn parse(text: &str) -> Result<Self, ()> {
        let (path, query) = match text.split_once('?') {
            Some((path, query)) => (path, Some(pieces(query, false)?)),
            None => (text, None),
        };
        Ok(Self { path: pieces(path, false)?, query })
    }
}

impl Flags {
    /// `Err`: one that is not honoured.
    fn parse(text: &str) -> Result<Self, ()> {
        let mut flags = Self::default();
        for flag in text.trim_matches(['[', ']']).split(',').map(|flag| flag.trim().to_ascii_lowercase()) {
            match flag.as_str() {
                "l" | "last" => flags.last = true,
                "end" => flags.end = true,
                "qsa" | "qsappend" => flags.appends = true,
                "qsd" | "qsdiscard" => flags.discards = true,
                "nc" | "nocase" => flags.ignores_case = true,
                "" | "b" | "bnp" | "ne" | "noescape" | "pt" | "passthrough" | "ns" | "nosubreq" | "dpi"
                | "discardpath" => {}
                _ if flag.starts_with("e=") || flag.starts_with("env=") => {}
                _ => return Err(()),
            }
        }
        Ok(flags)
    }

    fn apply(&self, query: &mut RewrittenQuery, new: Option<String>) {
        if self.discards {
            *query = RewrittenQuery { front: Vec::new(), with_clients: false };
        }
        let Some(new) = new else { return };
        let old = std::mem::replace(query, RewrittenQuery { front: new.into_bytes(), with_clients: false });
        if self.appends {
            query.with_clients = old.with_clients;
            if !query.front.is_empty() && !old.front.is_empty() {
                query.front.push(b'&');
            }
            query.front.extend_from_slice(&old.front);
        }
    }
}

/// What the pieces of a target stand for.
struct Scope<'s> {
    root: &'s str,
    /// Of the pass: what `REQUEST_URI` says, without its slash.
    uri: &'s str,
    /// At this rule.
    name: &'s str,
    caught: &'s [String],
}

impl Scope<'_> {
    fn expand(
        &self,
        pieces: &[Piece],
        by_condition: &[String],
        encode: Option<fn(&str) -> String>,
    ) -> String {
        let mut text = String::new();
        for piece in pieces {
            let from = match piece {
                // The administrator's, and as it is to be.
                Piece::Text(piece) => {
                    text.push_str(piece);
                    continue;
                }
                Piece::Caught(number) => self.caught.get(*number).cloned().unwrap_or_default(),
                Piece::CaughtByCondition(number) => by_condition.get(*number).cloned().unwrap_or_default(),
                Piece::Filename => format!("{}/{}", self.root, self.name),
                Piece::Root => self.root.to_owned(),
                Piece::Uri => format!("/{}", self.uri),
            };
            match encode {
                Some(encode) => text.push_str(&encode(&from)),
                None => text.push_str(&from),
            }
        }
        text
    }
}

/// `Err`: it names a variable that is not known here. `files`: those that say where a file lies are.
fn pieces(text: &str, files: bool) -> Result<Vec<Piece>, ()> {
    let mut pieces = Vec::new();
    let mut plain = String::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let digit =
            rest.as_bytes().get(1).filter(|byte| byte.is_ascii_digit()).map(|byte| usize::from(byte - b'0'));
        let (piece, length) = match (first, digit) {
            ('$', Some(digit)) => (Piece::Caught(digit), 2),
            ('%', Some(digit)) => (Piece::CaughtByCondition(digit), 2),
            ('%', None) if rest.starts_with("%{") => {
                let end = rest.find('}').ok_or(())?;
                let piece = match rest.get(2..end).unwrap_or_default().to_ascii_uppercase().as_str() {
                    "REQUEST_FILENAME" | "SCRIPT_FILENAME" if files => Piece::Filename,
                    "DOCUMENT_ROOT" if files => Piece::Root,
                    "REQUEST_URI" => Piece::Uri,
                    _ => return Err(()),
                };
                (piece, end + 1)
            }
            ('\\', _) => {
                let next = rest.chars().nth(1).unwrap_or('\\');
                (Piece::Text(next.to_string()), 1 + next.len_utf8())
            }
            _ => (Piece::Text(first.to_string()), first.len_utf8()),
        };
        match piece {
            Piece::Text(piece) => plain.push_str(&piece),
            piece => {
                if !plain.is_empty() {
                    pieces.push(Piece::Text(std::mem::take(&mut plain)));
                }
                pieces.push(piece);
            }
        }
        rest = rest.get(length..).unwrap_or_default();
    }
    if !plain.is_empty() {
        pieces.push(Piece::Text(plain));
    }
    Ok(pieces)
}

/// Whether a target is `index.php`, in whatever folder, and nothing else.
fn is_front(target: &str) -> bool {
    target.rsplit('/').next().is_some_and(|last| last == "index.php") && !target.contains(['$', '?'])
}

fn expression(text: &str, ignores_case: bool) -> Result<Regex, ()> {
    RegexBuilder::new(text).case_insensitive(ignores_case).size_limit(1 << 20).build().map_err(drop)
}

fn texts(found: &regex_lite::Captures<'_>) -> Vec<String> {
    found.iter().map(|part| part.map_or_else(String::new, |part| part.as_str().to_owned())).collect()
}

/// What a path has in an argument: as nginx encodes what a `rewrite` has caught.
fn args(text: &str) -> String {
    encode(text, |byte| byte <= b' ' || byte >= 0x7f || b"#%&+?".contains(&byte))
}

/// A name as the path of a request.
pub(super) fn path_of(name: &str) -> Vec<u8> {
    encode(&format!("/{name}"), |byte| {
        !(byte.is_ascii_alphanumeric() || b"/-._~!$&'()*+,;=:@".contains(&byte))
    })
    .into_bytes()
}

fn encode(text: &str, wants: impl Fn(u8) -> bool) -> String {
    use std::fmt::Write;
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        match wants(byte) {
            // No write to a string fails.
            true => drop(write!(encoded, "%{byte:02X}")),
            false => encoded.push(char::from(byte)),
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::super::Rules;
    use super::*;

    /// A site that has these, folders with a slash at their end.
    struct Having(&'static [&'static str]);

    impl Site for Having {
        fn root(&self) -> &str {
            "/srv/site"
        }

        async fn is(&self, name: &str, folder: bool) -> std::io::Result<bool> {
            let wanted = if folder { format!("{}/", name.trim_end_matches('/')) } else { name.to_owned() };
            Ok(self.0.contains(&wanted.as_str()))
        }
    }

    const SITE: Having = Having(&[
        "index.php",
        "doku.php",
        "about.php",
        "lib/",
        "lib/exe/fetch.php",
        "style.css",
        "blog/",
        "blog/index.php",
    ]);

    /// Where `name` leads by the rules of the folder `above`, with its query; `+` stands for the client's.
    fn leads(text: &str, above: &str, name: &str) -> String {
        let rules = Rules::parse(&format!("RewriteEngine On\n{text}"));
        assert!(rules.ignored.is_empty(), "{:?}", rules.ignored);
        let rewriting = rules.rewriting().expect("rules");
        let mut address = Address { name: name.to_owned(), query: RewrittenQuery::default() };
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        for _ in 0..10 {
            match runtime.block_on(rewriting.pass(&SITE, above, &mut address)).unwrap() {
                Pass::Changed => {}
                Pass::Same | Pass::End => break,
            }
        }
        let query = String::from_utf8(address.query.front).unwrap();
        format!("{}?{query}{}", address.name, if address.query.with_clients { "+" } else { "" })
    }

    const DOKUWIKI: &str = "RewriteRule ^_media/(.*) lib/exe/fetch.php?media=$1 [QSA,L]\n\
        RewriteRule ^_export/([^/]+)/(.*) doku.php?do=export_$1&id=$2 [QSA,L]\n\
        RewriteRule ^$ doku.php [L]\n\
        RewriteCond %{REQUEST_FILENAME} !-f\nRewriteCond %{REQUEST_FILENAME} !-d\n\
        RewriteRule (.*) doku.php?id=$1 [QSA,L]\n\
        RewriteRule ^index.php$ doku.php";

    #[test]
    fn dokuwiki() {
        for (name, leads_to) in [
            ("", "doku.php?+"),
            ("start", "doku.php?id=start+"),
            ("wiki/syntax", "doku.php?id=wiki/syntax+"),
            ("_media/wiki/logo.png", "lib/exe/fetch.php?media=wiki/logo.png+"),
            ("_export/pdf/a/b", "doku.php?do=export_pdf&id=a/b+"),
            ("index.php", "doku.php?+"),
            ("doku.php", "doku.php?+"),
            ("style.css", "style.css?+"),
            ("lib/", "lib/?+"),
            ("A&B+C 50%?#", "doku.php?id=A%26B%2BC%2050%25%3F%23+"),
            ("grüße", "doku.php?id=gr%C3%BC%C3%9Fe+"),
        ] {
            assert_eq!(leads(DOKUWIKI, "", name), leads_to, "{name}");
        }
    }

    #[test]
    fn queries() {
        let of =
            |flags: &str, target: &str| leads(&format!("RewriteRule ^a/(.*) {target} {flags}"), "", "a/b");
        assert_eq!(of("", "x.php"), "x.php?+");
        assert_eq!(of("[L]", "x.php?p=$1"), "x.php?p=b");
        assert_eq!(of("[L,QSA]", "x.php?p=$1"), "x.php?p=b+");
        assert_eq!(of("[QSD]", "x.php"), "x.php?");
        assert_eq!(of("[L]", "x.php?"), "x.php?");
        let both =
            "RewriteRule ^a/(.*) b/$1/x.php?one=1 [QSA]\nRewriteRule ^b/(.*)/x.php x.php?two=$1 [QSA,L]";
        assert_eq!(leads(both, "", "a/c"), "x.php?two=c&one=1+");
    }

    #[test]
    fn conditions() {
        let without_ending = "RewriteCond %{REQUEST_FILENAME} !-d\nRewriteCond %{REQUEST_FILENAME}.php -f\nRewriteRule ^(.*)$ $1.php [L]";
        assert_eq!(leads(without_ending, "", "about"), "about.php?+");
        assert_eq!(leads(without_ending, "", "gone"), "gone?+");
        let by_root = "RewriteCond %{DOCUMENT_ROOT}/$1.php -f\nRewriteRule ^(.*)/?$ /$1.php";
        assert_eq!(leads(by_root, "", "about"), "about.php?+");
        let either = "RewriteCond %{REQUEST_FILENAME} -f [OR]\nRewriteCond %{REQUEST_FILENAME} -d\nRewriteRule ^ - [L]\nRewriteRule ^(.*) index.php?q=$1 [L]";
        assert_eq!(leads(either, "", "style.css"), "style.css?+");
        assert_eq!(leads(either, "", "lib"), "lib?+");
        assert_eq!(leads(either, "", "node/1"), "index.php?q=node/1");
        let not_icons = "RewriteCond %{REQUEST_URI} !=/favicon.ico\nRewriteCond %{REQUEST_URI} !^/api/ [NC]\nRewriteCond %{REQUEST_FILENAME} !\\.(gif|png)$\nRewriteRule ^(?!x).*$ index.php?q=$0 [L]";
        // What looks ahead is no rule here: it is named.
        assert_eq!(Rules::parse(&format!("RewriteEngine On\n{not_icons}")).ignored.len(), 1);
        let not_icons = not_icons.replace("(?!x)", "");
        for (name, leads_to) in [
            ("favicon.ico", "favicon.ico?+"),
            ("API/x", "API/x?+"),
            ("a.png", "a.png?+"),
            ("n/1", "index.php?q=n/1"),
        ] {
            assert_eq!(leads(&format!("RewriteRule ^index.php$ - [END]\n{not_icons}"), "", name), leads_to);
        }
        let caught =
            "RewriteCond %{REQUEST_URI} ^/(..)/\nRewriteRule ^../(.*) index.php?language=%1&page=$1 [END]";
        assert_eq!(leads(caught, "", "de/start"), "index.php?language=de&page=start");
        assert_eq!(leads("RewriteRule !\\.css$ index.php?all=1 [END]", "", "a.css"), "a.css?+");
        assert_eq!(leads("RewriteRule !\\.css$ index.php?all=1 [END]", "", "a"), "index.php?all=1");
    }

    #[test]
    fn folders_and_bases() {
        let wordpress = "RewriteBase /blog/\nRewriteRule ^index\\.php$ - [L]\nRewriteCond %{REQUEST_FILENAME} !-f\nRewriteCond %{REQUEST_FILENAME} !-d\nRewriteRule . /blog/index.php [L]";
        assert_eq!(leads(wordpress, "blog/", "blog/2024/post"), "blog/index.php?+");
        assert_eq!(leads(wordpress, "blog/", "blog/"), "blog/?+");
        // The site is mounted there.
        assert_eq!(
            leads("RewriteBase /wiki\nRewriteRule ^(.*)$ /wiki/index.php?t=$1 [END]", "", "a"),
            "index.php?t=a"
        );
        assert_eq!(
            leads("RewriteRule ^(.*)$ ./index.php/$1 [END]", "blog/", "blog/a/b"),
            "blog/index.php/a/b?+"
        );
    }

    #[test]
    fn what_never_stays_as_it_is_ends() {
        let text = "RewriteRule ^(.*)$ a.php/$1?p=$1 [QSA,L]";
        let end = leads(text, "", "x");
        assert!(end.starts_with("a.php/a.php/") && end.len() < 3 * MAX_PATH, "{end}");
    }

    #[test]
    fn what_is_not_honoured() {
        for line in [
            "RewriteRule ^a x.php [R=301,L]",
            "RewriteRule ^a https://example.com/x.php [L]",
            "RewriteRule ^a x.php [P]",
            "RewriteRule ^a x.php [S=2]",
            "RewriteRule ^a/(.*) public/$1 [L]",
            "RewriteRule ^a x.php?h=%{HTTP_HOST}",
            "RewriteCond %{HTTP_HOST} ^www\nRewriteRule ^a x.php",
            "RewriteCond %{TIME_HOUR} >12\nRewriteRule ^a x.php",
        ] {
            let rules = Rules::parse(&format!("RewriteEngine On\n{line}"));
            assert_eq!(rules.ignored.len(), 1, "{line}");
        }
        for front in [
            "RewriteRule ^index\\.php$ - [L]\nRewriteCond %{REQUEST_FILENAME} !-f\nRewriteRule . /index.php [L]",
            "RewriteCond %{HTTP:Authorization} .\nRewriteRule .* - [E=HTTP_AUTHORIZATION:%{HTTP:Authorization}]\nRewriteRule ^ index.php [L]",
        ] {
            let rules = Rules::parse(&format!("RewriteEngine On\n{front}"));
            assert!(rules.ignored.is_empty() && !rules.rewriting().expect("there").matters, "{front}");
        }
    }

    #[test]
    fn paths_are_encoded() {
        assert_eq!(path_of("a b/ü%.php/x?y"), b"/a%20b/%C3%BC%25.php/x%3Fy");
    }
}
