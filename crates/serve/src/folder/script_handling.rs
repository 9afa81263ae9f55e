//! The directives of an `.htaccess` that say who runs its scripts. Directories for uploads have them, so that nothing runs what visitors put there.

/// What a directive says of who runs scripts.
pub(super) enum ScriptHandling {
    /// `php_flag engine off`, `SetHandler none`.
    Stops,
    /// `RemoveHandler .php`, `AddType text/plain .php`: until another line gives them back.
    Removes,
    /// `AddHandler application/x-httpd-php .php`.
    Gives,
}

impl ScriptHandling {
    pub(super) fn of(name: &str, rest: &[String]) -> Option<Self> {
        let first = rest.first()?.to_ascii_lowercase();
        let is_php = ["php", "cgi", "lsapi", "proxy:"].iter().any(|part| first.contains(part));
        let names_php = |words: &[String]| {
            words.iter().any(|word| word.trim_start_matches('.').eq_ignore_ascii_case("php"))
        };
        let off = |word: &String| ["off", "0", "false"].iter().any(|off| word.eq_ignore_ascii_case(off));
        match name {
            "php_flag" | "php_admin_flag" => {
                (first == "engine" && rest.get(1).is_some_and(off)).then_some(Self::Stops)
            }
            "sethandler" => (!is_php).then_some(Self::Stops),
            "removehandler" | "removetype" => names_php(rest).then_some(Self::Removes),
            "addtype" | "addhandler" if names_php(rest.get(1..)?) => {
                Some(if is_php { Self::Gives } else { Self::Removes })
            }
            _ => None,
        }
    }
}
