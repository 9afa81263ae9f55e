//! DokuWiki, whose addresses are made by an `.htaccess`.

use std::fs;
use std::path::Path;
use std::process::Command;

use keepwarm_tests::get;
use keepwarm_tests::tools::run_ok;

use crate::apache::Apache;
use crate::{BY_DEFAULT, PASSWORD, PATIENCE, compare, copy_site, start};

const DENIED: &str = "<IfModule mod_authz_core.c>\nRequire all denied\n</IfModule>\n<IfModule !mod_authz_core.c>\nOrder allow,deny\nDeny from all\n</IfModule>\n";

/// As its installer leaves it, with the nice addresses of its `.htaccess` switched on.
fn install(site: &Path) {
    copy_site("/usr/share/dokuwiki", &["./.htaccess", "./inc/preload.php", "./install.php"], site);
    copy_site("/etc/dokuwiki", &["./*.auth.php", "./local.php", "./htaccess"], &site.join("conf"));
    for folder in [
        "attic",
        "cache",
        "index",
        "locks",
        "log",
        "media",
        "media_attic",
        "media_meta",
        "meta",
        "pages",
        "tmp",
    ] {
        fs::create_dir_all(site.join("data").join(folder)).expect("a folder");
    }
    let rules = fs::read_to_string("/etc/dokuwiki/htaccess").expect("DokuWiki's");
    let rules: String = rules
        .lines()
        .map(|line| format!("{}\n", if line.starts_with("#Rewrite") { &line[1..] } else { line }))
        .collect();
    // What would need the address that the package is configured for.
    let rules = rules
        .replace("RewriteBase", "#RewriteBase")
        .replace("RewriteCond %{HTTPS}", "#")
        .replace("RewriteRule ^lib/exe/xmlrpc", "#");
    assert!(rules.contains("\nRewriteRule ^_media/"), "{rules}");
    let hash = run_ok(
        Command::new("php").args(["-r", "echo password_hash($argv[1], PASSWORD_BCRYPT);", PASSWORD]),
        PATIENCE,
    );
    let settings = "<?php\n$conf['title'] = 'Kept';\n$conf['useacl'] = 1;\n$conf['superuser'] = '@admin';\n$conf['userewrite'] = 1;\n$conf['useslash'] = 1;\n\
                    $conf['savedir'] = './data';\n$conf['updatecheck'] = 0;\n$conf['send404'] = 1;\n";
    for (file, text) in [
        (".htaccess", rules.as_str()),
        ("data/.htaccess", DENIED),
        ("conf/.htaccess", DENIED),
        ("inc/.htaccess", DENIED),
        ("conf/local.php", settings),
        ("conf/acl.auth.php", "# <?php exit()?>\n*\t@ALL\t1\n*\t@admin\t16\n"),
        ("conf/users.auth.php", &format!("# <?php exit()?>\nadmin:{hash}:Admin:a@example.com:admin,user\n")),
    ] {
        fs::write(site.join(file), text).expect("written");
    }
}

#[test]
fn dokuwiki_serves_the_same_site_as_behind_apache() {
    let mut apache = None;
    let server = start(BY_DEFAULT, |folder| {
        install(&folder.join("site"));
        apache = Some(Apache::start(&folder.join("apache"), &folder.join("site")));
    });
    compare(&server, apache.as_ref().expect("started"), "dokuwiki_visit.py");
    for secret in
        ["/conf/users.auth.php", "/data/pages/notes/stalls.txt", "/inc/init.php", "/conf/acl.auth.php/x"]
    {
        assert_eq!(server.ask(get(secret)).status, 403, "{secret}");
    }
    assert!(!server.log().contains("RewriteRule"), "{}", server.log());
}
