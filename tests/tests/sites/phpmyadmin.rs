//! phpMyAdmin, beside a MariaDB of its own.

use std::fs;
use std::path::Path;

use keepwarm_tests::{Server, get};

use crate::apache::Apache;
use crate::mariadb::MariaDb;
use crate::{BY_DEFAULT, PASSWORD, compare, copy_site, start};

/// As the package has it, with its configuration in the site's directory.
fn install(site: &Path, socket: &Path) {
    copy_site("/usr/share/phpmyadmin", &["./doc"], site);
    let file = site.join("libraries/vendor_config.php");
    let text = fs::read_to_string(&file).expect("phpMyAdmin's");
    let here = |text: String, from: &str, to: &str| {
        assert!(text.contains(from), "{from}: {text}");
        text.replace(from, to)
    };
    let text = here(text, "'/etc/phpmyadmin/config.inc.php'", "ROOT_PATH . 'config.inc.php'");
    let text = here(text, "'/var/lib/phpmyadmin/tmp/'", "ROOT_PATH . 'tmp/'");
    fs::write(file, text).expect("written");
    fs::create_dir_all(site.join("tmp")).expect("a folder");
    let settings = format!(
        "<?php\n$cfg['blowfish_secret'] = '0123456789abcdef0123456789abcdef';\n$cfg['Servers'][1] = ['auth_type' => 'cookie', 'host' => 'localhost', 'socket' => '{}'];\n\
         $cfg['VersionCheck'] = false;\n$cfg['SendErrorReports'] = 'never';\n$cfg['PmaNoRelation_DisableWarning'] = true;\n",
        socket.display()
    );
    fs::write(site.join("config.inc.php"), settings).expect("written");
}

#[test]
fn phpmyadmin_serves_the_same_site_as_behind_apache() {
    let mut others = None;
    let server = start(BY_DEFAULT, |folder| {
        let database = MariaDb::start(&folder.join("db"));
        database.run(&format!(
            "CREATE USER ann@localhost IDENTIFIED BY '{PASSWORD}'; GRANT ALL ON kept.* TO ann@localhost; CREATE DATABASE kept; CREATE TABLE kept.notes (id INT)"
        ));
        install(&folder.join("site"), &database.socket);
        others = Some((Apache::start(&folder.join("apache"), &folder.join("site")), database));
    });
    let (apache, _database) = others.as_ref().expect("started");
    compare(&server, apache, "phpmyadmin_visit.py");
    for secret in ["/config.inc.php", "/libraries/vendor_config.php"] {
        let response = server.ask(get(secret));
        assert!(!response.text().contains("blowfish"), "{secret}: {}", response.text());
    }
}

/// Debian's jQuery is another package's, which the site only links to.
#[test]
fn a_package_is_served_from_where_it_is() {
    let server = Server::start(
        "[listen.main]\nbind = \"127.0.0.1:0\"\n[app.site]\nkind = \"fastcgi\"\nentry = \"/usr/share/phpmyadmin/index.php\"\nworkers = 1\n",
    );
    let script = server.ask(get("/js/vendor/jquery/jquery.min.js"));
    let file = fs::read("/usr/share/phpmyadmin/js/vendor/jquery/jquery.min.js").expect("Debian's");
    assert_eq!((script.status, script.body.as_slice()), (200, file.as_slice()));
    assert!(server.ask(get("/")).text().contains("phpMyAdmin"));
    assert!(!server.log().contains("leads out of the site"), "{}", server.log());
}
