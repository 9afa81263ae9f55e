//! The denials of an Apache `.htaccess`: the part of the format that sites use to keep their own files from clients.
//!
//! Honored, as Apache 2.4 has it: `Require all`, `Order`, `Deny from`, `Allow from`, `<Files>`, `<FilesMatch>`, and `RewriteRule` with `[F]` or `[G]` whose
//! conditions can be evaluated here. What takes scripts from PHP (`php_flag engine off`, another handler), as in directories for uploads, keeps them from running. Rules that limit access to some clients (`Require ip`, `Allow from 192.0.2.1`, a password) deny it to all: no client gets in that Apache would have kept
//! out. `RedirectMatch` with 403, 404 or 410 is such a denial, too. Rewrites that lead to scripts are `rewrite`'s. All else is named, with its line ([`Rules::ignored`]).

use regex_lite::{Regex, RegexBuilder};

use super::rewrite::{Condition, Forbidding, Rewriting};
use super::script_handling::ScriptHandling;

/// The rules of one file for its directory and everything below.
#[derive(Debug, Default)]
pub struct Rules {
    /// For every file: denied or granted.
    folder: Option<bool>,
    /// For files whose last part matches: denied or granted. The last match decides.
    files: Vec<(Pattern, bool)>,
    /// Paths, relative to this directory, that a rewrite forbids.
    forbidden: Vec<Pattern>,
    /// The same with a slash in front, by `RedirectMatch`.
    forbidden_addresses: Vec<Pattern>,
    /// The same with conditions.
    forbidding: Vec<Forbidding>,
    /// Scripts whose last part matches are not run.
    stopped: Vec<Pattern>,
    /// `RewriteEngine On`, and what follows.
    rewriting: Option<Rewriting>,
    /// Lines that deny, limit or rewrite, and are not honored: their numbers and text.
    pub ignored: Vec<(usize, String)>,
}

#[derive(Debug, Clone)]
enum Pattern {
    Any,
    /// `*` and `?` are wildcards.
    Glob(Vec<u8>),
    Expression {
        regex: Regex,
        /// It had `(?!well-known)`: certificates are proved by files in `/.well-known/`.
        spares_well_known: bool,
    },
}

/// The access rules of one section.
#[derive(Debug, Default)]
struct Access {
    granted: bool,
    denied: bool,
    /// `Require` of a particular client: an address, a user.
    limited: bool,
    allow_first: Option<bool>,
    allow_all: bool,
    deny_all: bool,
}

#[derive(Debug)]
enum Section {
    /// Its lines count as if the section were not there.
    Open,
    /// For a module that is missing, or for methods.
    Skipped,
    Files(Pattern, Access),
}

impl Rules {
    /// The rules of an unreadable file, as in Apache.
    pub(super) fn denying() -> Self {
        Self { folder: Some(true), ..Self::default() }
    }

    /// Parses the file. No line is an error: an unknown one is ignored, and named if it could have denied something.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let mut reader = Reader::default();
        let mut lines = text.lines().enumerate();
        while let Some((number, line)) = lines.next() {
            let mut whole = line.trim().to_owned();
            while whole.ends_with('\\') {
                whole.pop();
                whole.push_str(lines.next().map_or("", |(_, next)| next.trim()));
            }
            if !whole.is_empty() && !whole.starts_with('#') {
                reader.line(number + 1, &whole);
            }
        }
        reader.finish()
    }

    /// Whether the whole directory is denied.
    #[must_use]
    pub fn denies_all(&self) -> bool {
        self.folder == Some(true) && !self.files.iter().any(|(_, denied)| !denied)
    }

    /// Whether anything is denied.
    #[must_use]
    pub fn denies_some(&self) -> bool {
        self.folder == Some(true)
            || !self.forbidden.is_empty()
            || !self.forbidden_addresses.is_empty()
            || !self.forbidding.is_empty()
            || !self.stopped.is_empty()
            || self.files.iter().any(|(_, denied)| *denied)
    }

    pub(super) fn of_folder(&self) -> Option<bool> {
        self.folder
    }

    /// The verdict for a file with that last part.
    pub(super) fn of_file(&self, last: &[u8]) -> Option<bool> {
        self.files.iter().rev().find(|(pattern, _)| pattern.fits(last)).map(|(_, denied)| *denied)
    }

    /// Whether a path that begins in this directory is forbidden.
    pub(super) fn forbids(&self, path: &[u8]) -> bool {
        let address = || [b"/", path].concat();
        self.forbidden.iter().any(|pattern| pattern.fits(path))
            || self.forbidden_addresses.iter().any(|pattern| pattern.fits(&address()))
    }

    /// Rules that forbid a path under conditions.
    pub(super) fn forbidding(&self) -> &[Forbidding] {
        &self.forbidding
    }

    /// Whether a file with that last part is a script that does not run.
    pub(super) fn stops(&self, last: &[u8]) -> bool {
        last.ends_with(b".php") && self.stopped.iter().any(|pattern| pattern.fits(last))
    }

    pub(super) fn rewriting(&self) -> Option<&Rewriting> {
        self.rewriting.as_ref()
    }
}

#[derive(Default)]
struct Reader {
    rules: Rules,
    access: Access,
    sections: Vec<Section>,
    /// The conditions before the next rewrite; `None` in it: a condition that cannot be evaluated here.
    conditions: Vec<Option<Condition>>,
    rewriting: Rewriting,
    rewrites: bool,
    /// The last line about the handler of scripts removes it.
    removes_php: bool,
}

impl Reader {
    fn line(&mut self, number: usize, line: &str) {
        let words = words(line);
        let Some(name) = words.first().map(|word| word.to_ascii_lowercase()) else { return };
        let rest = words.get(1..).unwrap_or_default();
        if let Some(section) = name.strip_prefix('<') {
            return match section.strip_prefix('/') {
                Some(_) => self.end(),
                None => self.begin(number, line, section.trim_end_matches('>')),
            };
        }
        match ScriptHandling::of(&name, rest) {
            // Also where the section is for another PHP, as `<IfModule mod_php7.c>`: nobody writes it of scripts that should run.
            Some(ScriptHandling::Stops) => {
                let pattern = self.sections.iter().rev().find_map(|section| match section {
                    Section::Files(pattern, _) => Some(pattern.clone()),
                    _ => None,
                });
                return self.rules.stopped.push(pattern.unwrap_or(Pattern::Any));
            }
            Some(ScriptHandling::Removes) => self.removes_php = true,
            Some(ScriptHandling::Gives) => self.removes_php = false,
            None => {}
        }
        if self.sections.iter().any(|section| matches!(section, Section::Skipped)) {
            return;
        }
        let all = rest.iter().any(|word| word.eq_ignore_ascii_case("all"));
        let mut ignore = false;
        let access = match self
            .sections
            .iter_mut()
            .rev()
            .find_map(|it| if let Section::Files(_, access) = it { Some(access) } else { None })
        {
            Some(access) => access,
            None => &mut self.access,
        };
        match name.as_str() {
            "require" => match rest.first().map(|word| word.to_ascii_lowercase()).as_deref() {
                Some("all") if rest.iter().any(|word| word.eq_ignore_ascii_case("granted")) => {
                    access.granted = true
                }
                Some("all") => access.denied = true,
                Some("not") => ignore = true,
                _ => (access.limited, ignore) = (true, true),
            },
            "order" => access.allow_first = Some(rest.concat().to_ascii_lowercase().starts_with("allow")),
            "deny" if all => access.deny_all = true,
            "allow" if all => access.allow_all = true,
            "deny" | "allow" | "authtype" | "authuserfile" => ignore = true,
            "redirectmatch"
                if matches!(rest.first().map(String::as_str), Some("403" | "404" | "410" | "gone")) =>
            {
                let pattern = Pattern::expression(rest.get(1).map_or("", String::as_str));
                self.rules.forbidden_addresses.push(pattern);
            }
            "redirect" | "redirectmatch" | "redirectpermanent" | "php_value" | "php_flag"
            | "php_admin_value" | "setenvif" | "sethandler" | "addhandler" | "directoryindex"
            | "errordocument" => ignore = true,
            "rewriteengine" => {
                self.rewrites = rest.first().is_some_and(|word| word.eq_ignore_ascii_case("on"))
            }
            "rewritebase" => self.rewriting.set_base(rest.first().map_or("/", String::as_str)),
            "rewritecond" => self.conditions.push(Condition::parse(rest)),
            "rewriterule" => ignore = self.rewrite(rest).is_err(),
            _ => {}
        }
        if ignore {
            self.rules.ignored.push((number, line.to_owned()));
        }
    }

    fn begin(&mut self, number: usize, line: &str, section: &str) {
        let inside = line.trim_start_matches('<').trim_end_matches('>');
        let arguments = words(inside);
        let argument = arguments.get(1).map_or("", String::as_str);
        let section = match section {
            "ifmodule" => {
                if has_module(argument) {
                    Section::Open
                } else {
                    Section::Skipped
                }
            }
            "ifversion" => match argument.starts_with('<') {
                true => Section::Skipped,
                false => Section::Open,
            },
            "files" if argument == "~" => Section::Files(
                Pattern::expression(arguments.get(2).map_or("", String::as_str)),
                Access::default(),
            ),
            "files" => Section::Files(Pattern::Glob(argument.as_bytes().to_vec()), Access::default()),
            "filesmatch" => Section::Files(Pattern::expression(argument), Access::default()),
            "requireall" | "requireany" => Section::Open,
            _ => {
                self.rules.ignored.push((number, line.to_owned()));
                Section::Skipped
            }
        };
        self.sections.push(section);
    }

    fn end(&mut self) {
        if let Some(Section::Files(pattern, access)) = self.sections.pop()
            && let Some(denied) = access.verdict()
        {
            self.rules.files.push((pattern, denied));
        }
    }

    /// `Err`: it is not honored.
    fn rewrite(&mut self, words: &[String]) -> Result<(), ()> {
        let conditions = std::mem::take(&mut self.conditions);
        let flags = words.get(2).map_or("", String::as_str).trim_matches(['[', ']']).to_ascii_lowercase();
        let has = |names: &[&str]| flags.split(',').any(|flag| names.contains(&flag.trim()));
        if !has(&["f", "forbidden", "g", "gone"]) {
            return self.rewriting.take(words, conditions.into_iter().collect());
        }
        let Some(pattern) = words.first() else { return Ok(()) };
        let ignores_case = has(&["nc", "nocase"]);
        if conditions.is_empty() && !pattern.starts_with('!') && !ignores_case {
            self.rules.forbidden.push(Pattern::expression(pattern));
            return Ok(());
        }
        let conditions: Option<Vec<Condition>> = conditions.into_iter().collect();
        self.rules.forbidding.push(Forbidding::parse(pattern, ignores_case, conditions.ok_or(())?)?);
        Ok(())
    }

    fn finish(mut self) -> Rules {
        while !self.sections.is_empty() {
            self.end();
        }
        if self.removes_php {
            self.rules.stopped.push(Pattern::Any);
        }
        self.rules.folder = self.access.verdict();
        self.rules.rewriting = self.rewrites.then_some(self.rewriting);
        self.rules
    }
}

impl Access {
    /// `Some(true)`: denied.
    fn verdict(&self) -> Option<bool> {
        if self.limited {
            return Some(true);
        }
        if self.granted || self.denied {
            return Some(!self.granted);
        }
        match self.allow_first {
            Some(true) => Some(self.deny_all || !self.allow_all),
            _ if self.deny_all => Some(!self.allow_all),
            _ => self.allow_all.then_some(false),
        }
    }
}

impl Pattern {
    /// Lookaround is removed, so that more matches. An expression that still cannot be parsed matches everything: it was meant to deny.
    fn expression(text: &str) -> Self {
        let build = |text: &str| RegexBuilder::new(text).size_limit(1 << 20).build();
        match build(text).or_else(|_| build(&without_looks(text))) {
            Ok(regex) => Self::Expression { regex, spares_well_known: text.contains("(?!well-known") },
            Err(_) => Self::Any,
        }
    }

    fn fits(&self, name: &[u8]) -> bool {
        match self {
            Self::Any => true,
            Self::Glob(pattern) => fits_glob(pattern, name),
            Self::Expression { regex, spares_well_known } => {
                let name = String::from_utf8_lossy(name);
                regex.is_match(&name) && !(*spares_well_known && name.starts_with(".well-known"))
            }
        }
    }
}

/// The expression without its groups `(?=…)`, `(?!…)`, `(?<=…)` and `(?<!…)`.
fn without_looks(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let looks = ["(?=", "(?!", "(?<=", "(?<!"].iter().any(|look| rest.starts_with(look));
        let length = match (looks, first) {
            (true, _) => group_length(rest),
            (false, '\\') => 1 + rest.chars().nth(1).map_or(0, char::len_utf8),
            _ => first.len_utf8(),
        };
        let (piece, tail) = rest.split_at_checked(length).unwrap_or((rest, ""));
        if !looks {
            kept.push_str(piece);
        }
        rest = tail;
    }
    kept
}

/// The length of the group that begins the text, in bytes.
fn group_length(text: &str) -> usize {
    let (mut depth, mut escaped) = (0, false);
    for (at, char) in text.char_indices() {
        match char {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '(' => depth += 1,
            ')' if depth == 1 => return at + 1,
            ')' => depth -= 1,
            _ => {}
        }
    }
    text.len()
}

/// Without recursion: a `*` that has matched too little takes one more byte.
fn fits_glob(pattern: &[u8], name: &[u8]) -> bool {
    let (mut p, mut n) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while n < name.len() {
        match pattern.get(p) {
            Some(b'*') => {
                star = Some((p, n));
                p += 1;
            }
            Some(&byte) if byte == b'?' || Some(&byte) == name.get(n) => (p, n) = (p + 1, n + 1),
            _ => match star {
                Some((at, taken)) => {
                    star = Some((at, taken + 1));
                    (p, n) = (at + 1, taken + 1);
                }
                None => return false,
            },
        }
    }
    pattern.get(p..).is_none_or(|rest| rest.iter().all(|&byte| byte == b'*'))
}

/// Whether a common installation of Apache 2.4 has this module; `!` inverts the question.
fn has_module(argument: &str) -> bool {
    let (name, wanted) = argument.strip_prefix('!').map_or((argument, true), |name| (name, false));
    let name = name
        .trim_end_matches(".c")
        .trim_end_matches("_module")
        .trim_start_matches("mod_")
        .to_ascii_lowercase();
    let there = matches!(
        name.as_str(),
        "authz_core"
            | "authz_host"
            | "access_compat"
            | "rewrite"
            | "dir"
            | "alias"
            | "auth_basic"
            | "setenvif"
    );
    there == wanted
}

/// Separated by white space; quotes group words.
fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut rest = line.trim_start();
    while !rest.is_empty() {
        let quote = rest.chars().next().filter(|first| matches!(first, '"' | '\''));
        let (word, tail) = match quote {
            Some(quote) => {
                let inside = rest.get(1..).unwrap_or_default();
                inside.split_once(quote).unwrap_or((inside, ""))
            }
            None => rest.split_once(char::is_whitespace).unwrap_or((rest, "")),
        };
        words.push(word.to_owned());
        rest = tail.trim_start();
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    fn denied(text: &str, name: &str) -> bool {
        let rules = Rules::parse(text);
        let last = name.rsplit('/').next().unwrap_or(name).as_bytes();
        rules.forbids(name.as_bytes()) || rules.of_file(last).or(rules.of_folder()).unwrap_or(false)
    }

    const BOTH: &str = "# no access\n<IfModule mod_authz_core.c>\n  Require all denied\n</IfModule>\n<IfModule !mod_authz_core.c>\n  Order allow,deny\n  Deny from all\n</IfModule>\n";

    #[test]
    fn what_denies_a_folder() {
        for text in [
            BOTH,
            "Deny from all",
            "deny from all\r\n",
            "Order deny,allow\nDeny from all",
            "Order allow,deny",
            "order Allow,Deny\n  DENY from ALL",
            "Require all denied",
            "Require ip 192.0.2.1",
            "AuthType Basic\nRequire valid-user",
            "<RequireAll>\nRequire all granted\nRequire ip 192.0.2.1\n</RequireAll>",
            "<IfVersion >= 2.4>\nRequire all denied\n</IfVersion>\n<IfVersion < 2.4>\nAllow from all\n</IfVersion>",
            "RewriteEngine on\nRewriteRule .* - [F,L]",
            "<FilesMatch \".*\">\nRequire all denied\n</FilesMatch>",
            "<FilesMatch \"(\">\nDeny from all\n</FilesMatch>",
            "Require \\\n  all denied",
        ] {
            assert!(denied(text, "a.txt"), "{text}");
        }
    }

    #[test]
    fn what_denies_nothing() {
        for text in [
            "",
            "Options -Indexes",
            "Require all granted",
            "Order deny,allow\nAllow from all",
            "Order allow,deny\nAllow from all",
            "<IfModule !mod_authz_core.c>\nDeny from all\n</IfModule>",
            "RewriteEngine On\nRewriteBase /\nRewriteRule ^index\\.php$ - [L]\nRewriteCond %{REQUEST_FILENAME} !-f\nRewriteRule . /index.php [L]",
            "RewriteCond %{REQUEST_METHOD} ^TRACE\nRewriteRule .* - [F]",
            "<Limit POST>\nDeny from all\n</Limit>",
            "<Files \"b.*\">\nDeny from all\n</Files>",
        ] {
            assert!(!denied(text, "a.txt"), "{text}");
        }
    }

    #[test]
    fn what_denies_some_files() {
        let text = "<FilesMatch \"\\.(ini|log|sh)$\">\nRequire all denied\n</FilesMatch>\n<Files \"wp-conf*.php\">\norder allow,deny\ndeny from all\n</Files>\n<Files ~ \"^\\.ht\">\nDeny from all\n</Files>";
        for name in ["a.ini", "x/b.log", "wp-config.php", "wp-conf.php", ".htpasswd"] {
            assert!(denied(text, name), "{name}");
        }
        for name in ["a.txt", "wp-conf.txt", "ini"] {
            assert!(!denied(text, name), "{name}");
        }
        let drupal = "<FilesMatch \"\\.(inc|.*sql|yml)(~|\\.sw[op])?$|^(\\.(?!well-known).*|Root|web\\.config)$|^#.*#$\">\nRequire all denied\n</FilesMatch>\n\
                      RewriteRule \"/\\.|^\\.(?!well-known/)\" - [F]\nRewriteRule ^ index.php [L]";
        for name in ["a.yml", "dump.sql~", ".git", "web.config", ".git/config", "a/.git/config", "#x#"] {
            assert!(denied(drupal, name), "{name}");
        }
        for name in ["a.css", ".well-known/acme-challenge/x", "core/misc/drupal.js", "update.php"] {
            assert!(!denied(drupal, name), "{name}");
        }
        for name in [".git/config", "a/.git/config", "private/x"] {
            assert!(denied("RedirectMatch 404 /\\.git\nRedirectMatch 403 ^/private/", name), "{name}");
        }
        assert!(!denied("RedirectMatch 403 ^/private/", "a/private/x"));
        let but = "Deny from all\n<FilesMatch \"\\.(png|css)$\">\nAllow from all\n</FilesMatch>";
        assert!(denied(but, "a.txt") && !denied(but, "a.png"));
        assert!(
            denied("RewriteRule ^(?:cache|tmp)/ - [F]", "cache/a")
                && !denied("RewriteRule ^(?:cache|tmp)/ - [F]", "a/cache/a")
        );
    }

    /// Directories for uploads: those of Drupal, MediaWiki and of advice for WordPress.
    #[test]
    fn what_keeps_scripts_from_running() {
        let drupal = "SetHandler Drupal_Security_Do_Not_Remove_See_SA_2006_006\n<Files *>\nSetHandler Drupal_Security_Do_Not_Remove_See_SA_2013_003\n</Files>";
        for text in [
            drupal,
            "<IfModule mod_php7.c>\nphp_flag engine off\n</IfModule>",
            "php_admin_flag engine Off",
            "SetHandler none",
            "RemoveHandler .php .phtml",
            "RemoveType php",
            "AddType text/plain .html .php",
            "<FilesMatch \"\\.ph(p|ar)$\">\nSetHandler default-handler\n</FilesMatch>",
        ] {
            let rules = Rules::parse(text);
            assert!(rules.stops(b"a.php") && !rules.stops(b"a.jpg") && rules.denies_some(), "{text}");
            assert!(!denied(text, "a.jpg"), "{text}");
        }
        for text in [
            "php_flag engine on",
            "php_flag display_errors off",
            "SetHandler application/x-httpd-php",
            "<FilesMatch \\.php$>\nSetHandler \"proxy:unix:/run/php.sock|fcgi://localhost\"\n</FilesMatch>",
            "AddHandler fcgid-script .php",
            "RemoveHandler .php\nAddType application/x-httpd-php80 .php",
            "AddType image/svg+xml svg svgz",
            "<Files b.php>\nSetHandler none\n</Files>",
        ] {
            assert!(!Rules::parse(text).stops(b"a.php"), "{text}");
        }
    }

    #[test]
    fn what_is_not_honored_is_named_with_its_line() {
        let text = "RewriteEngine On\n\nRewriteRule ^old/(.*) /new/$1 [R=301,L]\nRequire ip 192.0.2.1\n<Limit POST>\nDeny from all\n</Limit>\nphp_value a b\nRewriteRule ^ index.php [L]";
        let ignored: Vec<_> = Rules::parse(text).ignored.into_iter().map(|(line, _)| line).collect();
        assert_eq!(ignored, [3, 4, 5, 8]);
    }

    #[test]
    fn wild_cards() {
        for (pattern, name, fits) in [
            ("*", "", true),
            ("a*b*c", "aXbYbc", true),
            ("a*b", "abc", false),
            ("?", "", false),
            ("a?c", "abc", true),
            ("", "a", false),
            ("*.inc", "a.inc", true),
        ] {
            assert_eq!(fits_glob(pattern.as_bytes(), name.as_bytes()), fits, "{pattern} {name}");
        }
    }
}
