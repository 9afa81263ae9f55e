//! Names of files that hold PHP source, and so passwords: those that a server for PHP runs, and the copies of them that editors, people and backups leave
//! beside them.

use super::types;

/// Whether a file of that name holds PHP source, so that it is never sent as it is.
///
/// Extensions are read from the last to the first. One that browsers load shows that the file does not hold source (`list.php.html` of a mirror, `logo.php.png`);
/// any other is skipped, because names of copies cannot be listed: `.php.bak`, `.php.orig`, `.php.2024-06-01`, `.php.gz`.
pub(super) fn holds_source(name: &[u8]) -> bool {
    let file = name.rsplit(|&byte| byte == b'/').next().unwrap_or(name);
    let endings = file.iter().filter(|&&byte| byte == b'.').count();
    for ending in file.rsplit(|&byte| byte == b'.').take(endings) {
        if is_source(ending) {
            return true;
        }
        if types::of_ending(ending).is_some() && !is_archive(ending) {
            return false;
        }
    }
    false
}

/// php, php3 … php8, phps, phtml, phar, pht, inc; and with a mark after it, as of `x.php~`, `#x.php#`, `x.php_old`, `x.php (1)`, `x.php%20`.
fn is_source(ending: &[u8]) -> bool {
    let word = ending.split(|byte| !byte.is_ascii_alphanumeric()).next().unwrap_or_default();
    match word.split_at_checked(3) {
        Some((front, back)) if front.eq_ignore_ascii_case(b"php") => {
            matches!(back, [] | [b'0'..=b'9'] | [b's' | b'S'])
        }
        _ => [b"phtml".as_slice(), b"phar", b"pht", b"inc"]
            .iter()
            .any(|known| word.eq_ignore_ascii_case(known)),
    }
}

/// Which says nothing of what is in it.
fn is_archive(ending: &[u8]) -> bool {
    [b"7z".as_slice(), b"bz2", b"gz", b"tar", b"xz", b"zip", b"zst"]
        .iter()
        .any(|known| ending.eq_ignore_ascii_case(known))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_hold_source() {
        for name in [
            "a.php",
            "x/A.PHP",
            "a.phtml",
            "a.Phar",
            "a.php7",
            "a.phps",
            "a.pht",
            ".php",
            "a.jpg.php",
            "a.inc",
            "a.INC",
            "a.class.inc",
        ] {
            assert!(holds_source(name.as_bytes()), "{name}");
        }
        for name in [
            "php",
            "a.php.jpg",
            "a.phpx",
            "a.html",
            "php/a",
            "a.php/b",
            "a.php/",
            "a.php.txt",
            "x.ph",
            "inc",
            "a.income",
            "Acme.Inc.pdf",
            "a.php.html",
            "php-8.2.tar.gz",
            "a.tar.gz",
            "inc.css",
            "a.",
            "",
        ] {
            assert!(!holds_source(name.as_bytes()), "{name}");
        }
    }

    #[test]
    fn copies_of_scripts_hold_source_too() {
        for name in [
            "a.php~",
            "a.php.bak",
            "a.php.BAK",
            "a.php.",
            "a.php..",
            "a.php ",
            "a.php\t",
            "a.php.old",
            "a.php.orig",
            "a.php.save",
            "a.php.swp",
            "a.php_old",
            "a.php-dist",
            "a.php.1",
            "a.php.~1~",
            "#a.php#",
            "a.php (1)",
            "a.php.2024-06-01",
            "a.php.gz",
            "a.php.tar.gz",
            "a.inc~",
            "a.inc.bak",
            "a.phtml.bak",
            "x/a.php.bak~",
            "a.php\u{a0}",
        ] {
            assert!(holds_source(name.as_bytes()), "{name}");
        }
    }
}
