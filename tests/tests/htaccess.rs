//! Files of a PHP site that are not for clients: those that its `.htaccess` files deny, copies that people leave, Composer's packages.

use std::path::Path;
use std::time::Duration;

use keepwarm_tests::process::wait_until;
use keepwarm_tests::{Server, get};

const LONG: Duration = Duration::from_secs(60);

/// As DokuWiki and others write it, for Apache 2.2 and 2.4.
const DENIED: &str = "<IfModule mod_authz_core.c>\n    Require all denied\n</IfModule>\n<IfModule !mod_authz_core.c>\n    Order allow,deny\n    Deny from all\n</IfModule>\n";
/// As WordPress has it, and something that is not honored in its fourth line.
const FRONT: &str = "RewriteEngine On\nRewriteRule ^index\\.php$ - [L]\nRewriteCond %{REQUEST_FILENAME} !-f\nRewriteRule ^feed/(.*) /rss/$1 [R=301]\nRewriteCond %{REQUEST_FILENAME} !-f\nRewriteRule . /index.php [L]\n\
                     <FilesMatch \"\\.(sql|ini)$\">\nRequire all denied\n</FilesMatch>\n";

fn lay_out(site: &Path) {
    let files = [
        ("index.php", "<?php echo 'front ', $_SERVER['REQUEST_URI'];"),
        (".htaccess", FRONT),
        ("style.css", "shown"),
        ("page.php", "<?php echo 'page';"),
        ("dump.sql", "secret"),
        ("dump.SQL.bak", "secret"),
        ("notes.txt~", "secret"),
        ("composer.json", "secret"),
        ("sub/composer.lock", "secret"),
        ("sub/app.ini", "secret"),
        ("conf/.htaccess", DENIED),
        ("conf/users.txt", "secret"),
        ("conf/users.auth.php", "<?php echo 'secret';"),
        ("conf/deep/index.php", "<?php echo 'secret';"),
        ("conf/public/.htaccess", "Require all granted"),
        ("conf/public/logo.txt", "shown"),
        ("vendor/autoload.php", "<?php echo 'secret';"),
        ("vendor/composer.json", "secret"),
        ("vendor/theme/style.css", "theme"),
        ("vendor/phpunit/eval-stdin.php", "<?php echo 'secret';"),
        ("js/vendor/jquery.js", "shown"),
        ("uploads/a.txt", "shown"),
    ];
    for (name, text) in files {
        let file = site.join(name);
        std::fs::create_dir_all(file.parent().expect("a folder")).expect("the folder");
        std::fs::write(file, text).expect("the file");
    }
}

#[track_caller]
fn responds(server: &Server, path: &str, status: u16, body: &str) {
    let response = server.ask(get(path));
    let text = String::from_utf8_lossy(&response.body).into_owned();
    assert_eq!((response.status, text.contains(body)), (status, true), "{path}: {text}");
    assert!(!text.contains("secret"), "{path}: {text}");
}

/// The app of a configuration whose site is laid out before it starts.
fn serve(app: &str) -> Server {
    let config = format!(
        "[listen.main]\nbind = \"127.0.0.1:0\"\n[[listen.main.route]]\napp = \"site\"\ntry_files = \"@DIR@/site\"\n\
         [app.site]\ndirectory = \"@DIR@/site\"\nworkers = 1\n{app}\n"
    );
    let lay = |command: &mut std::process::Command| {
        lay_out(&command.get_current_dir().expect("its folder").join("site"))
    };
    Server::start_with(&config, lay).warm("/")
}

#[track_caller]
fn keeps_from_clients(server: &Server) {
    for path in [
        "/dump.sql",
        "/dump.SQL.bak",
        "/notes.txt~",
        "/composer.json",
        "/sub/composer.lock",
        "/sub/app.ini",
        "/conf/users.txt",
        "/conf/%75sers.txt",
    ] {
        responds(server, path, 403, "");
    }
    responds(server, "/style.css", 200, "shown");
    responds(server, "/js/vendor/jquery.js", 200, "shown");
    responds(server, "/conf/public/logo.txt", 200, "shown");
}

#[test]
fn classic_php_neither_sends_nor_runs_denied_files() {
    let server = serve("entry = \"index.php\"\nkind = \"fastcgi\"");
    keeps_from_clients(&server);
    for path in [
        "/conf/users.auth.php",
        "/conf/users.auth.php/more",
        "/conf/deep/",
        "/vendor/phpunit/eval-stdin.php",
        "/vendor/autoload.php",
    ] {
        responds(&server, path, 403, "");
    }
    responds(&server, "/page.php", 200, "page");
    responds(&server, "/any/where", 200, "front /any/where");
    responds(&server, "/vendor/of/the/month", 200, "front /vendor/of/the/month");
}

/// A directory for uploads, as Drupal and MediaWiki keep scripts in it from running, and Drupal's rule for all scripts but its own.
#[test]
fn scripts_that_an_htaccess_takes_from_php_are_not_run() {
    let server = serve("entry = \"index.php\"\nkind = \"fastcgi\"");
    let site = server.folder().join("site");
    let rule = "RewriteEngine on\nRewriteCond %{REQUEST_URI} !/drupal/core/[^/]*\\.php$\nRewriteRule \"^(.+/.*|autoload)\\.php($|/)\" - [F]\n\
                RewriteRule !^open/|\\.php$ - [F]\n";
    for (name, text) in [
        ("files/.htaccess", "SetHandler Drupal_Security_Do_Not_Remove_See_SA_2006_006\n"),
        ("files/a.php", "<?php echo 'secret';"),
        ("files/a.txt", "shown"),
        ("images/.htaccess", "<IfModule mod_php7.c>\nphp_flag engine off\n</IfModule>\n"),
        ("images/deep/a.php", "<?php echo 'secret';"),
        ("drupal/.htaccess", rule),
        ("drupal/autoload.php", "<?php echo 'secret';"),
        ("drupal/sites/default/settings.php", "<?php echo 'secret';"),
        ("drupal/core/install.php", "<?php echo 'shown';"),
        ("drupal/index.php", "<?php echo 'shown';"),
        ("drupal/closed/a.txt", "secret"),
        ("drupal/open/a.txt", "shown"),
    ] {
        let file = site.join(name);
        std::fs::create_dir_all(file.parent().expect("a folder")).expect("the folder");
        std::fs::write(file, text).expect("the file");
    }
    for path in [
        "/files/a.php",
        "/files/a.php/more",
        "/images/deep/a.php",
        "/drupal/autoload.php",
        "/drupal/sites/default/settings.php",
        "/drupal/closed/a.txt",
    ] {
        responds(&server, path, 403, "");
    }
    for path in ["/files/a.txt", "/drupal/core/install.php", "/drupal/", "/drupal/open/a.txt"] {
        responds(&server, path, 200, "shown");
    }
}

/// Styles and pictures, where a site wants that.
#[test]
fn vendor_files_are_sent_if_configured_and_its_scripts_are_not_run() {
    let server = serve("entry = \"index.php\"\nkind = \"fastcgi\"\nserve_vendor = true");
    keeps_from_clients(&server);
    for path in ["/vendor/phpunit/eval-stdin.php", "/vendor/autoload.php", "/vendor/composer.json"] {
        responds(&server, path, 403, "");
    }
    responds(&server, "/vendor/theme/style.css", 200, "theme");
    let server = serve("entry = \"index.php\"\nkind = \"fastcgi\"");
    responds(&server, "/vendor/theme/style.css", 403, "");
}

#[test]
fn warm_php_does_not_send_denied_files() {
    let server = Server::start_with(
        "[listen.main]\nbind = \"127.0.0.1:0\"\n[[listen.main.route]]\napp = \"site\"\ntry_files = \"@DIR@/site\"\n\
         [app.site]\ndirectory = \"@APPS@/failing\"\nworkers = 1\nentry = \"app.php\"\nkind = \"php\"\n",
        |command| lay_out(&command.get_current_dir().expect("its folder").join("site")),
    );
    keeps_from_clients(&server.warm("/"));
}

/// The addresses that a site has by its own rules, and by those of a directory.
#[test]
fn rewrites_lead_to_scripts_with_their_query() {
    let server = Server::start_with(
        "[listen.main]\nbind = \"127.0.0.1:0\"\n[[listen.main.route]]\npath = \"/shop/*\"\nstrip_prefix = true\napp = \"site\"\n\
         [[listen.main.route]]\napp = \"site\"\ntry_files = \"@DIR@/site\"\n\
         [app.site]\ndirectory = \"@DIR@/site\"\nworkers = 1\nentry = \"index.php\"\nkind = \"fastcgi\"\n",
        |command| {
            let site = command.get_current_dir().expect("its folder").join("site");
            let shows = "<?php echo basename(__DIR__), '/', basename(__FILE__), ' ', json_encode($_GET, JSON_UNESCAPED_SLASHES), ' ', $_SERVER['REQUEST_URI'], ' ', \
                         $_SERVER['PATH_INFO'] ?? '-', ' ', $_SERVER['QUERY_STRING'], ' ', $_SERVER['PHP_SELF'];";
            let files = [
                ("index.php", shows),
                ("item.php", shows),
                ("item.txt", "shown"),
                ("blog/index.php", shows),
                ("conf/a.php", "<?php echo 'secret';"),
                ("conf/.htaccess", DENIED),
                (
                    ".htaccess",
                    "RewriteEngine On\nRewriteRule ^item/([0-9]+)/(.*)$ item.php?id=$1&name=$2 [L,QSA,NC]\n\
                     RewriteRule ^c/(.*) conf/$1.php\nRewriteRule ^x/(.*) index.php/$1?own=1 [L]\n",
                ),
                (
                    "blog/.htaccess",
                    "<IfModule mod_rewrite.c>\nRewriteEngine On\nRewriteBase /blog/\nRewriteCond %{REQUEST_FILENAME} !-f\nRewriteCond %{REQUEST_FILENAME} !-d\n\
                     RewriteRule . /blog/index.php [L]\n</IfModule>",
                ),
            ];
            for (name, text) in files {
                let file = site.join(name);
                std::fs::create_dir_all(file.parent().expect("a folder")).expect("the folder");
                std::fs::write(file, text).expect("the file");
            }
        },
    )
    .warm("/");
    for (path, body) in [
        (
            "/item/7/red",
            "site/item.php {\"id\":\"7\",\"name\":\"red\"} /item/7/red - id=7&name=red /item.php",
        ),
        (
            "/ITEM/7/a%26b%20c?size=1",
            "site/item.php {\"id\":\"7\",\"name\":\"a&b c\",\"size\":\"1\"} /ITEM/7/a%26b%20c?size=1 - id=7&name=a%26b%20c&size=1 /item.php",
        ),
        ("/item/x", "site/index.php [] /item/x -  /index.php"),
        ("/item.php?id=8", "site/item.php {\"id\":\"8\"} /item.php?id=8 - id=8 /item.php"),
        ("/x/a/b?theirs=1", "site/index.php {\"own\":\"1\"} /x/a/b?theirs=1 /a/b own=1 /index.php/a/b"),
        ("/item.txt", "shown"),
        ("/blog/2024/post?p=1", "blog/index.php {\"p\":\"1\"} /blog/2024/post?p=1 - p=1 /blog/index.php"),
        ("/blog/", "blog/index.php [] /blog/ -  /blog/index.php"),
        (
            "/shop/item/9/x",
            "site/item.php {\"id\":\"9\",\"name\":\"x\"} /shop/item/9/x - id=9&name=x /shop/item.php",
        ),
    ] {
        let response = server.ask(get(path));
        assert_eq!(String::from_utf8_lossy(&response.body), body, "{path}");
    }
    // No rewrite leads to a denied path, or out.
    responds(&server, "/c/a", 403, "");
    responds(&server, "/c/..%2f..%2fetc/passwd", 200, "site/index.php");
    assert!(!server.log().contains("unsupported line of an .htaccess file"), "{}", server.log());
}

#[test]
fn the_start_log_lists_denied_paths_and_ignored_directives() {
    let server = serve("entry = \"index.php\"\nkind = \"fastcgi\"");
    let log = server.wait_for_log("paths denied by .htaccess files", LONG);
    assert!(log.contains("folders=\"/ (in part), /conf\""), "{log}");
    let ignored = server.wait_for_log("unsupported line of an .htaccess file", LONG);
    assert!(ignored.contains("site/.htaccess line=4 ") && ignored.contains("^feed/(.*)"), "{ignored}");
    assert_eq!(server.log().matches("unsupported line of an .htaccess file").count(), 1, "{}", server.log());
}

#[test]
fn an_htaccess_that_comes_later_counts_within_seconds() {
    let server = serve("entry = \"index.php\"\nkind = \"fastcgi\"");
    responds(&server, "/uploads/a.txt", 200, "shown");
    std::fs::write(server.folder().join("site/uploads/.htaccess"), "deny from all\n").expect("the file");
    wait_until("it counts", LONG, || server.ask(get("/uploads/a.txt")).status == 403);
}
