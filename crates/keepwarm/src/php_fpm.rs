//! Which php-fpm runs classic scripts where no interpreter is configured: the one of the same version as `php`.

use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Where systems put it beside what `PATH` names.
const FOLDERS: [&str; 2] = ["/usr/sbin", "/usr/local/sbin"];

/// `php-fpm`, `php-fpm8.2`, `php-fpm83`, `php-fpm-8.2`.
pub(crate) fn is_fpm(program: &Path) -> bool {
    name(program).is_some_and(|name| name.starts_with("php-fpm"))
}

/// The php-fpm that this `PATH` leads to.
pub(crate) fn find(path: Option<&OsStr>) -> Option<PathBuf> {
    let folders: Vec<PathBuf> = path.iter().flat_map(std::env::split_paths).collect();
    let php = folders.iter().map(|folder| folder.join("php")).find(|file| is_program(file));
    find_beside(php.as_deref(), folders.into_iter().chain(FOLDERS.map(PathBuf::from)))
}

fn find_beside(php: Option<&Path>, folders: impl Iterator<Item = PathBuf>) -> Option<PathBuf> {
    let wanted = php.and_then(|php| version(php, "php"));
    // `/usr/local/bin/php` and `/usr/local/sbin/php-fpm` were installed together.
    let prefix = php.and_then(|php| php.parent()?.parent());
    let rank = |file: &PathBuf| {
        let found = version(file, "php-fpm");
        let is_same = wanted.is_some() && found == wanted;
        let is_beside = prefix.is_some() && file.parent().and_then(Path::parent) == prefix;
        (is_same, is_beside, found.is_none(), found)
    };
    let programs = folders.flat_map(|folder| {
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).filter(|file| is_ours(file)).collect::<Vec<_>>()
    });
    // The first of equals.
    programs.fold(None, |best, file| match best {
        Some(best) if rank(&best) >= rank(&file) => Some(best),
        _ => Some(file),
    })
}

/// Its name has nothing but a version behind `php-fpm`: no `php-fpm.conf`, no `php-fpm-wrapper`.
fn is_ours(file: &Path) -> bool {
    let rest = name(file).and_then(|name| name.strip_prefix("php-fpm"));
    let is_version = |rest: &str| rest.is_empty() || parse(rest).is_some();
    rest.is_some_and(is_version) && is_program(file)
}

fn is_program(file: &Path) -> bool {
    std::fs::metadata(file).is_ok_and(|it| it.is_file() && it.permissions().mode() & 0o111 != 0)
}

/// That in the name of a program, or of what its links lead to: Debian's `php` is a link to `php8.2`.
fn version(file: &Path, stem: &str) -> Option<(u32, u32)> {
    let of = |file: &Path| parse(name(file)?.strip_prefix(stem)?);
    of(file).or_else(|| of(&file.canonicalize().ok()?))
}

/// `8.2`, `-8.2`, `82`.
fn parse(version: &str) -> Option<(u32, u32)> {
    let version = version.strip_prefix('-').unwrap_or(version);
    let (major, minor) = match version.split_once('.') {
        Some(parts) => parts,
        None => version.split_at_checked(1)?,
    };
    let number =
        |digits: &str| digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok())?;
    Some((number(major)?, number(minor)?))
}

fn name(file: &Path) -> Option<&str> {
    file.file_name()?.to_str()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_their_versions() {
        for (name, expected) in [
            ("php-fpm8.2", Some((8, 2))),
            ("php-fpm8.10", Some((8, 10))),
            ("php-fpm83", Some((8, 3))),
            ("php-fpm-8.1", Some((8, 1))),
            ("php-fpm7.4", Some((7, 4))),
            ("php-fpm", None),
            ("php-fpm.conf", None),
            ("php-fpm8.x", None),
        ] {
            assert_eq!(version(Path::new(name), "php-fpm"), expected, "{name}");
        }
    }

    /// A directory with these programs; `name -> target` is a link.
    fn folder(name: &str, programs: &[&str]) -> PathBuf {
        let root = std::env::temp_dir().join(format!("keepwarm-fpm-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&root);
        for program in programs {
            let (file, target) = program.split_once(" -> ").map_or((*program, None), |(a, b)| (a, Some(b)));
            let file = root.join(file);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            match target {
                Some(target) => std::os::unix::fs::symlink(target, file).unwrap(),
                None => {
                    std::fs::write(&file, "").unwrap();
                    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).unwrap();
                }
            }
        }
        root
    }

    #[test]
    fn the_one_of_the_same_version_as_php_is_preferred() {
        for (number, (programs, expected)) in
            [
                (
                    &[
                        "usr/bin/php8.1",
                        "usr/bin/php -> php8.1",
                        "usr/sbin/php-fpm8.1",
                        "usr/sbin/php-fpm8.2",
                    ][..],
                    Some("usr/sbin/php-fpm8.1"),
                ),
                (
                    &["usr/bin/php", "usr/sbin/php-fpm8.9", "usr/sbin/php-fpm8.10"],
                    Some("usr/sbin/php-fpm8.10"),
                ),
                (
                    &["usr/bin/php8.4", "usr/bin/php -> php8.4", "usr/sbin/php-fpm8.2"],
                    Some("usr/sbin/php-fpm8.2"),
                ),
                (
                    &["usr/local/bin/php", "usr/local/sbin/php-fpm", "usr/sbin/php-fpm8.2"],
                    Some("usr/local/sbin/php-fpm"),
                ),
                (&["usr/sbin/php-fpm8.2"], Some("usr/sbin/php-fpm8.2")),
                (
                    &["usr/bin/php83", "usr/bin/php -> php83", "usr/sbin/php-fpm82", "usr/sbin/php-fpm83"],
                    Some("usr/sbin/php-fpm83"),
                ),
                (&["usr/bin/php", "usr/bin/php-cgi", "usr/sbin/php-fpm-wrapper"], None),
            ]
            .into_iter()
            .enumerate()
        {
            let root = folder(&number.to_string(), programs);
            let folders =
                ["usr/local/bin", "usr/bin", "usr/sbin", "usr/local/sbin"].map(|name| root.join(name));
            let php = folders.iter().map(|folder| folder.join("php")).find(|file| is_program(file));
            let found = find_beside(php.as_deref(), folders.into_iter());
            assert_eq!(found, expected.map(|name| root.join(name)), "{programs:?}");
            std::fs::remove_dir_all(root).unwrap();
        }
    }

    #[test]
    fn what_cannot_be_run_is_not_found() {
        let root = folder("mode", &["sbin/php-fpm8.2"]);
        let file = root.join("sbin/php-fpm8.2");
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
        assert_eq!(find_beside(None, [root.join("sbin")].into_iter()), None);
        std::fs::remove_dir_all(root).unwrap();
    }
}
