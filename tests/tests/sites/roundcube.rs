//! Roundcube's front page, on SQLite, without a mail server.

use std::fs;
use std::path::Path;

use keepwarm_tests::get;

use crate::apache::Apache;
use crate::{BY_DEFAULT, compare, copy_site, start};

/// As the package has it, with the links of its layout in place.
fn install(site: &Path) {
    copy_site("/var/lib/roundcube", &["./config", "./logs", "./temp", "./public_html", "./.htaccess"], site);
    copy_site(
        "/etc/roundcube",
        &["./config.inc.php", "./debian-db*", "./apache.conf", "./lighttpd.conf", "./htaccess"],
        &site.join("config"),
    );
    fs::copy("/etc/roundcube/htaccess", site.join(".htaccess")).expect("Roundcube's");
    let settings = "<?php\n$config['db_dsnw'] = 'sqlite:///' . dirname(__DIR__) . '/temp/db?mode=0600';\n$config['imap_host'] = '127.0.0.1:1';\n\
                    $config['des_key'] = '0123456789abcdef01234567';\n$config['skin'] = 'elastic';\n$config['log_driver'] = 'stdout';\n$config['enable_spellcheck'] = false;\n";
    fs::write(site.join("config/config.inc.php"), settings).expect("written");
    let file = site.join("program/include/iniset.php");
    let text = fs::read_to_string(&file).expect("Roundcube's");
    let here = text.replace("'/var/lib/roundcube/'", "dirname(__DIR__, 2) . '/'");
    assert_ne!(text, here, "the package's folder stands in it");
    fs::write(file, here).expect("written");
    for folder in ["temp", "logs"] {
        fs::create_dir_all(site.join(folder)).expect("a folder");
    }
}

#[test]
fn roundcube_serves_the_same_front_page_as_behind_apache() {
    let mut apache = None;
    let server = start(BY_DEFAULT, |folder| {
        install(&folder.join("site"));
        apache = Some(Apache::start(&folder.join("apache"), &folder.join("site")));
    });
    compare(&server, apache.as_ref().expect("started"), "roundcube_visit.py");
    for secret in [
        "/config/config.inc.php",
        "/config/defaults.inc.php",
        "/temp/db",
        "/SQL/sqlite.initial.sql",
        "/README.md",
        "/bin/update.sh",
    ] {
        let response = server.ask(get(secret));
        let text = response.text();
        assert!(
            response.status >= 400
                || !(text.contains("des_key") || text.contains("CREATE TABLE") || text.contains("#!")),
            "{secret}: {text}"
        );
    }
}
