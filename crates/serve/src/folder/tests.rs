use std::os::unix::fs::{PermissionsExt, symlink};
use std::sync::atomic::{AtomicU32, Ordering};

use super::*;

/// A temporary directory for each test, removed at the end.
struct TempDirectory(PathBuf);

impl TempDirectory {
    fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("keepwarm-folder-{}-{number}", std::process::id()));
        std::fs::create_dir_all(path.join("root/inner")).unwrap();
        std::fs::write(path.join("secret"), "secret").unwrap();
        std::fs::write(path.join("root/a.txt"), "abc").unwrap();
        std::fs::write(path.join("root/inner/b"), "inner").unwrap();
        Self(path)
    }

    fn folder(&self) -> Folder {
        Folder::new(self.0.join("root"))
    }
}

impl Drop for TempDirectory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

async fn found(folder: &Folder, name: &str) -> String {
    match folder.open(name.as_bytes()).await.unwrap() {
        FileLookup::File(file) => {
            let mut text = Vec::new();
            file.read(&mut text, 0, 100).await.unwrap();
            String::from_utf8(text).unwrap()
        }
        FileLookup::Folder => "folder".to_owned(),
        FileLookup::Nothing => "nothing".to_owned(),
        FileLookup::Outside => "outside".to_owned(),
        FileLookup::Denied => "denied".to_owned(),
    }
}

#[tokio::test]
async fn what_names_lead_to() {
    let temp = TempDirectory::new();
    let root = temp.0.join("root");
    symlink("a.txt", root.join("within")).unwrap();
    symlink("inner/../a.txt", root.join("within-by-dots")).unwrap();
    symlink("../secret", root.join("out")).unwrap();
    symlink(temp.0.join("secret"), root.join("absolute")).unwrap();
    symlink("..", root.join("up")).unwrap();
    symlink("/proc/self/root", root.join("magic")).unwrap();
    symlink("loop", root.join("loop")).unwrap();
    rustix::fs::mknodat(CWD, root.join("pipe"), rustix::fs::FileType::Fifo, Mode::RUSR, 0).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(root.join("socket")).unwrap();
    for (name, expected) in [
        ("a.txt", "abc"),
        ("inner/b", "inner"),
        ("within", "abc"),
        ("within-by-dots", "abc"),
        ("", "folder"),
        ("inner", "folder"),
        ("inner/", "folder"),
        ("a.txt/", "nothing"),
        ("a.txt/b", "nothing"),
        ("gone", "nothing"),
        ("out", "outside"),
        ("absolute", "outside"),
        ("up/secret", "outside"),
        ("../secret", "outside"),
        ("inner/../../secret", "outside"),
        ("/etc/passwd", "outside"),
        ("magic/etc/passwd", "outside"),
        ("loop", "nothing"),
        ("pipe", "nothing"),
        ("socket", "nothing"),
        (&"x".repeat(5000), "nothing"),
    ] {
        // Twice: as it comes, and from the kernel's caches.
        for _ in 0..2 {
            assert_eq!(found(&temp.folder(), name).await, expected, "{name:.40}");
        }
    }
    assert_eq!(found(&Folder::new(temp.0.join("none")), "a").await, "nothing");
}

#[tokio::test]
async fn what_may_not_be_read_is_told_from_what_is_not_there() {
    let temp = TempDirectory::new();
    let file = temp.0.join("root/a.txt");
    std::fs::set_permissions(&file, PermissionsExt::from_mode(0o0)).unwrap();
    // Nothing is denied to root.
    let expected = if rustix::process::geteuid().is_root() { "abc" } else { "denied" };
    assert_eq!(found(&temp.folder(), "a.txt").await, expected);
}

#[tokio::test]
async fn a_folder_can_be_exchanged_by_moving_a_link() {
    let temp = TempDirectory::new();
    let current = temp.0.join("current");
    symlink("root", &current).unwrap();
    let folder = Folder::new(&current);
    assert_eq!(found(&folder, "a.txt").await, "abc");
    std::fs::create_dir(temp.0.join("next")).unwrap();
    std::fs::write(temp.0.join("next/a.txt"), "next").unwrap();
    symlink("next", temp.0.join("moving")).unwrap();
    std::fs::rename(temp.0.join("moving"), &current).unwrap();
    assert_eq!(found(&folder, "a.txt").await, "next");
}

#[tokio::test]
async fn a_file_is_read_in_parts_and_ends() {
    let temp = TempDirectory::new();
    let FileLookup::File(file) = temp.folder().open(b"a.txt").await.unwrap() else { panic!("a file") };
    assert_eq!((file.len(), file.is_empty()), (3, false));
    let mut part = b"before".to_vec();
    for (at, max, expected) in [(0, 2, "ab"), (2, 2, "c"), (3, 2, ""), (9, 2, "")] {
        file.read(&mut part, at, max).await.unwrap();
        assert_eq!(part, expected.as_bytes(), "{at}");
    }
}

#[test]
fn paths_that_name_files_and_paths_that_never_do() {
    let cases = [
        ("/a.txt", Some("a.txt")),
        ("/", Some("")),
        ("/a/", Some("a/")),
        ("/a/b%20c", Some("a/b c")),
        ("/%C3%A4", Some("\u{e4}")),
        ("/.well-known/acme-challenge/x", Some(".well-known/acme-challenge/x")),
        ("/a..b/c.", Some("a..b/c.")),
        ("/.git/config", None),
        ("/a/.env", None),
        ("/a/.well-known/x", None),
        ("/%2ehtaccess", None),
        ("/keepwarm.toml", None),
        ("/a/keepwarm%2etoml", None),
        ("/keepwarm.toml.txt", Some("keepwarm.toml.txt")),
        ("/a%2Fb", None),
        ("/..%2F..%2Fetc/passwd", None),
        ("//a", None),
        ("/a//b", None),
        ("/a%00.txt", None),
        ("*", None),
        ("", None),
    ];
    for (path, expected) in cases {
        assert_eq!(file_name(path.as_bytes()), expected.map(|name| name.as_bytes().to_vec()), "{path}");
    }
}

/// As in Debian: jQuery belongs to another package, and files that the site changes are elsewhere.
#[tokio::test]
async fn a_packages_links_are_followed_to_the_places_of_packages() {
    let temp = TempDirectory::new();
    let base = temp.0.canonicalize().unwrap();
    for folder in ["usr/share/site/js", "usr/share/javascript", "var/lib/site/uploads", "var/lib/other"] {
        std::fs::create_dir_all(base.join(folder)).unwrap();
    }
    for (file, text) in [
        ("usr/share/javascript/jquery.js", "jquery"),
        ("var/lib/site/uploads/a", "upload"),
        ("var/lib/other/b", "secret"),
        ("usr/share/site/own", "own"),
    ] {
        std::fs::write(base.join(file), text).unwrap();
    }
    let root = base.join("usr/share/site");
    for (name, target) in [
        ("js/jquery.js", "../../javascript/jquery.js"),
        ("js/vendor", base.join("usr/share/javascript").to_str().unwrap()),
        ("uploads", base.join("var/lib/site/uploads").to_str().unwrap()),
        ("other", base.join("var/lib/other").to_str().unwrap()),
        ("secret", "../../../secret"),
        ("all", "../../.."),
        ("gone", "../javascript/gone.js"),
    ] {
        symlink(target, root.join(name)).unwrap();
    }
    let places = package::places(&root, &base);
    let folder = Folder { places, ..Folder::new(root) };
    for (name, text) in [
        ("own", "own"),
        ("js/jquery.js", "jquery"),
        ("js/vendor/jquery.js", "jquery"),
        ("js/vendor", "folder"),
        ("uploads/a", "upload"),
        ("other/b", "outside"),
        ("secret", "outside"),
        ("all/secret", "outside"),
        ("all/usr/share/javascript/jquery.js", "jquery"),
        ("js/vendor/../../../../secret", "outside"),
        ("gone", "nothing"),
    ] {
        assert_eq!(found(&folder, name).await, text, "{name}");
    }
    // A user's own site has none of that, and neither have the places themselves.
    for own in ["home/site", "usr/share", "var/www/site"] {
        assert_eq!(package::places(&base.join(own), &base), Vec::<PathBuf>::new(), "{own}");
    }
}

/// Whatever the file system: on one in memory everything is always there.
#[tokio::test]
async fn what_was_read_is_in_memory() {
    let temp = TempDirectory::new();
    std::fs::write(temp.0.join("root/big"), vec![7; 300_000]).unwrap();
    let FileLookup::File(file) = temp.folder().open(b"big").await.unwrap() else { panic!("a file") };
    file.file().sync_all().unwrap();
    rustix::fs::fadvise(file.file(), 0, None, Advice::DontNeed).unwrap();
    file.warm(1, 299_999).await.unwrap();
    assert_ne!(file.is_cached(0, 300_000), Some(false));
    assert_ne!(file.is_cached(299_999, 1), Some(false));
    assert_ne!(file.is_cached(300_000, 5), Some(false), "there is nothing to wait for after its end");
    file.warm(300_000, 5).await.unwrap();
}

#[tokio::test]
async fn a_listing_has_what_names_lead_to() {
    let temp = TempDirectory::new();
    let root = temp.0.join("root");
    symlink("../a.txt", root.join("inner/within")).unwrap();
    symlink("../../secret", root.join("inner/out")).unwrap();
    symlink("../..", root.join("inner/up")).unwrap();
    symlink("gone", root.join("inner/dangling")).unwrap();
    std::fs::write(root.join("inner/.hidden"), "x").unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(root.join("inner/socket")).unwrap();
    let listed = async |name: &str| {
        let listing = temp.folder().list(name.as_bytes()).await.unwrap()?;
        let mut names: Vec<String> = listing
            .entries
            .iter()
            .map(|entry| {
                format!("{} {} {}", String::from_utf8_lossy(&entry.name), entry.is_folder, entry.length)
            })
            .collect();
        names.sort();
        Some(names.join(", "))
    };
    assert_eq!(listed("inner/").await.as_deref(), Some("b false 5, within false 3"));
    assert_eq!(listed("").await.as_deref(), Some("a.txt false 3, inner true 0"));
    for name in ["a.txt", "a.txt/", "gone/", "../", "inner/up/", "inner/out"] {
        assert_eq!(listed(name).await, None, "{name}");
    }
}
