//! Real sites of classic PHP, from Debian's packages, installed for real: log in, write a page, upload a file, read both back.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use keepwarm_tests::tools::{run, run_ok};
use keepwarm_tests::{Server, get};
use serde_json::Value;

/// Both sites boot thousands of lines for a page, on a machine that runs the other tests too.
const PATIENCE: Duration = Duration::from_secs(120);
const PASSWORD: &str = "kept-Warm-1!";

/// A site in `site/` of the server's folder: files before scripts.
const CONFIG: &str = r#"
[listen.main]
bind = "127.0.0.1:0"
[[listen.main.route]]
app = "site"
try_files = "@DIR@/site"
[app.site]
kind = "fastcgi"
entry = "index.php"
directory = "@DIR@/site"
interpreter = "@INTERPRETER@"
workers = 2
request_timeout = "120s"
"#;

/// A picture of one pixel.
const PIXEL: &[u8] = &[
    0x89, b'P', b'N', b'G', 0x0d, 0x0a, 0x1a, 0x0a, 0, 0, 0, 0x0d, b'I', b'H', b'D', b'R', 0, 0, 0, 1, 0, 0,
    0, 1, 8, 6, 0, 0, 0, 0x1f, 0x15, 0xc4, 0x89, 0, 0, 0, 0x0d, b'I', b'D', b'A', b'T', 0x78, 0xda, 0x63,
    0x64, 0xf8, 0xcf, 0x50, 0x0f, 0, 0x03, 0x86, 0x01, 0x80, 0x5a, 0x34, 0x7d, 0x6b, 0, 0, 0, 0, b'I', b'E',
    b'N', b'D', 0xae, 0x42, 0x60, 0x82,
];

/// `curl` with a jar of cookies: what a person's browser does.
struct Browser<'s> {
    server: &'s Server,
    jar: PathBuf,
}

impl<'s> Browser<'s> {
    fn new(server: &'s Server) -> Self {
        Self { server, jar: server.folder().join("cookies") }
    }

    /// The body of the page that a request leads to, redirects followed.
    #[track_caller]
    fn open(&self, path: &str, arguments: &[&str]) -> String {
        let mut curl = Command::new("curl");
        curl.args(["-sS", "-L", "--max-time", "100"]).arg("-b").arg(&self.jar).arg("-c").arg(&self.jar);
        run_ok(curl.args(arguments).arg(self.server.url(path)), PATIENCE)
    }

    #[track_caller]
    fn json(&self, path: &str, arguments: &[&str]) -> Value {
        let text = self.open(path, arguments);
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{path}: not JSON ({error}): {text}"))
    }
}

/// Copies a package's site, the targets of its links in their place: a site may not lead out of its root.
#[track_caller]
fn copy_site(from: &str, leave_out: &[&str], to: &Path) {
    assert!(Path::new(from).is_dir(), "{from} is missing: scripts/setup test installs it");
    fs::create_dir_all(to).expect("a folder");
    let exclude: String = leave_out.iter().map(|name| format!(" --exclude='{name}'")).collect();
    // A link of the package that leads nowhere before it is configured is no fault.
    let script = format!("tar -C {from} -chf -{exclude} . 2>/dev/null | tar -C {} -xf -", to.display());
    run_ok(Command::new("sh").arg("-c").arg(script), PATIENCE);
}

fn start(interpreter: &str, prepare: impl FnOnce(&Path)) -> Server {
    let config = CONFIG.replace("@INTERPRETER@", interpreter);
    Server::start_with(&config, |command| prepare(command.get_current_dir().expect("a folder")))
}

fn mediawiki(interpreter: &str) {
    let server = start(interpreter, |folder| {
        let site = folder.join("site");
        // Every message in four hundred languages is most of the package.
        let languages =
            ["i18n/*[!n].json", "i18n/*[!e]n.json", "./extensions", "./LocalSettings.php", "*/tests"];
        copy_site("/usr/share/mediawiki", &languages, &site);
        fs::create_dir_all(site.join("extensions")).expect("a folder");
        let mut install = Command::new("php");
        install.current_dir(&site).arg("maintenance/install.php").args(["--dbtype", "sqlite", "--dbpath"]);
        install.arg(folder.join("data")).args(["--dbname", "wiki", "--scriptpath", "", "--pass", PASSWORD]);
        run_ok(install.args(["--server", "http://127.0.0.1", "Kept", "Admin"]), PATIENCE);
        let settings = site.join("LocalSettings.php");
        let mut text = fs::read_to_string(&settings).expect("installed");
        text.push_str("\n$wgServer = WebRequest::detectServer();\n$wgEnableUploads = true;\n");
        // The installer keeps sessions in APCu, which processes of php-cgi do not share.
        assert!(text.contains("$wgMainCacheType = CACHE_ACCEL;"), "the installer has not found php-apcu");
        if !interpreter.contains("fpm") {
            text.push_str("$wgMainCacheType = CACHE_NONE;\n$wgSessionCacheType = CACHE_DB;\n");
        }
        fs::write(settings, text).expect("written");
    });
    let browser = Browser::new(&server);

    let token = |kind: &str| {
        let answer = browser.json(&format!("/api.php?action=query&meta=tokens&type={kind}&format=json"), &[]);
        answer["query"]["tokens"][format!("{kind}token")].as_str().expect("a token").to_owned()
    };
    let field = |name: &str, value: &str| format!("{name}={value}");
    let (login, password) = (field("lgtoken", &token("login")), field("lgpassword", PASSWORD));
    let answer = browser.json(
        "/api.php?action=login&format=json",
        &["-d", "lgname=Admin", "--data-urlencode", &password, "--data-urlencode", &login],
    );
    assert_eq!(answer["login"]["result"], "Success", "{answer}");

    let csrf = field("token", &token("csrf"));
    let answer = browser.json(
        "/api.php?action=edit&title=Stalls&format=json",
        &["--data-urlencode", "text=The ''five'' stalls, '''gone'''.", "--data-urlencode", &csrf],
    );
    assert_eq!(answer["edit"]["result"], "Success", "{answer}");

    let file = server.folder().join("pixel.png");
    fs::write(&file, PIXEL).expect("written");
    let upload = format!("file=@{};type=image/png", file.display());
    let form =
        ["-F", "action=upload", "-F", "format=json", "-F", "filename=Pixel.png", "-F", &csrf, "-F", &upload];
    let answer = browser.json("/api.php", &[form.as_slice(), &["-F", "ignorewarnings=1"]].concat());
    assert_eq!(answer["upload"]["result"], "Success", "{answer}");

    // Read back: the page by its path info, the file as a file.
    let page = browser.open("/index.php/Stalls", &[]);
    assert!(page.contains("The <i>five</i> stalls, <b>gone</b>."), "{page}");
    let image = answer["upload"]["imageinfo"]["url"].as_str().expect("an address").to_owned();
    let path =
        image.split_once("127.0.0.1").and_then(|(_, rest)| rest.split_once('/')).expect("an address").1;
    let read = server.ask(get(&format!("/{path}")));
    assert_eq!((read.status, read.body.as_slice()), (200, PIXEL), "{image}");
    assert_eq!(read.field("content-type"), Some("image/png"));
    // What a browser loads beside the page: its styles by a script, a file of the skin, none of the secrets.
    let styles = browser.open("/load.php?lang=en&modules=site.styles&only=styles&skin=vector", &[]);
    assert!(!styles.contains("Fatal error"), "{styles}");
    assert_eq!(server.ask(get("/resources/assets/licenses/public-domain.png")).status, 200);
    for secret in [
        "/LocalSettings.php",
        "/images/.htaccess",
        "/../data/wiki.sqlite",
        "/composer.json/../LocalSettings.php",
    ] {
        let answer = server.ask(get(secret));
        assert!(!answer.text().contains("wgDBname") && !answer.text().contains("SQLite format"), "{secret}");
    }
}

#[test]
fn mediawiki_on_php_cgi() {
    mediawiki("php-cgi");
}

#[test]
fn mediawiki_on_php_fpm() {
    mediawiki(&php_fpm());
}

#[test]
fn wordpress_on_php_fpm() {
    let mut database = None;
    let server = start(&php_fpm(), |folder| {
        let site = folder.join("site");
        copy_site("/usr/share/wordpress", &["./wp-config.php"], &site);
        let running = MariaDb::start(&folder.join("db"));
        running.run("CREATE DATABASE wp; CREATE USER wp@localhost IDENTIFIED BY 'wp'; GRANT ALL ON wp.* TO wp@localhost");
        fs::write(site.join("wp-config.php"), wp_config(&running.socket)).expect("written");
        database = Some(running);
    });
    let browser = Browser::new(&server);

    let both = [format!("admin_password={PASSWORD}"), format!("admin_password2={PASSWORD}")];
    let page = browser.open(
        "/wp-admin/install.php?step=2",
        &[
            "-d",
            "weblog_title=Kept",
            "-d",
            "user_name=admin",
            "--data-urlencode",
            &both[0],
            "--data-urlencode",
            &both[1],
            "-d",
            "pw_weak=on",
            "-d",
            "admin_email=a@example.com",
            "-d",
            "blog_public=0",
        ],
    );
    assert!(page.contains("Success!"), "{page}");

    browser.open("/wp-login.php", &[]);
    let password = format!("pwd={PASSWORD}");
    let page = browser.open(
        "/wp-login.php",
        &["-d", "log=admin", "--data-urlencode", &password, "-d", "testcookie=1", "-d", "wp-submit=1"],
    );
    assert!(page.contains("Dashboard"), "{page}");

    // The folder's address without its slash, as people type it.
    assert!(browser.open("/wp-admin", &[]).contains("Dashboard"));
    let nonce = format!("X-WP-Nonce: {}", browser.open("/wp-admin/admin-ajax.php?action=rest-nonce", &[]));
    let post = browser.json(
        "/index.php?rest_route=/wp/v2/posts",
        &[
            "-H",
            &nonce,
            "-d",
            "title=Stalls",
            "-d",
            "status=publish",
            "--data-urlencode",
            "content=<p>The <em>five</em>, gone.</p>",
        ],
    );
    let id = post["id"].as_u64().unwrap_or_else(|| panic!("no post: {post}"));

    let file = server.folder().join("pixel.png");
    fs::write(&file, PIXEL).expect("written");
    let upload = format!("file=@{};type=image/png", file.display());
    let media = browser.json("/index.php?rest_route=/wp/v2/media", &["-H", &nonce, "-F", &upload]);
    let image = media["source_url"].as_str().unwrap_or_else(|| panic!("no upload: {media}")).to_owned();

    let page = browser.open(&format!("/?p={id}"), &[]);
    assert!(page.contains("The <em>five</em>, gone."), "{page}");
    let (_, path) = image.split_once("/wp-content").expect("an address beneath wp-content");
    let read = server.ask(get(&format!("/wp-content{path}")));
    assert_eq!((read.status, read.body.as_slice()), (200, PIXEL), "{image}");
    assert_eq!(
        server.ask(get("/wp-includes/css/dashicons.min.css")).field("content-type"),
        Some("text/css; charset=utf-8")
    );
    for secret in ["/wp-config.php", "/wp-config.php/", "/readme.html/../wp-config.php"] {
        assert!(!server.ask(get(secret)).text().contains("DB_PASSWORD"), "{secret}");
    }
    drop(server);
    drop(database);
}

/// The php-fpm of this machine: Debian names it after its version.
fn php_fpm() -> String {
    let found =
        run_ok(Command::new("sh").arg("-c").arg("ls /usr/sbin/php-fpm* | sort | tail -n 1"), PATIENCE);
    found.trim().to_owned()
}

fn wp_config(socket: &Path) -> String {
    let constant = |name: &str, value: &str| format!("define('{name}', {value});\n");
    let host = format!("'localhost:{}'", socket.display());
    let mut text = "<?php\n".to_owned();
    for (name, value) in [
        ("DB_NAME", "'wp'"),
        ("DB_USER", "'wp'"),
        ("DB_PASSWORD", "'wp'"),
        ("DB_HOST", &host),
        ("DB_CHARSET", "'utf8mb4'"),
        ("DB_COLLATE", "''"),
        ("AUTH_KEY", "'a'"),
        ("SECURE_AUTH_KEY", "'b'"),
        ("LOGGED_IN_KEY", "'c'"),
        ("NONCE_KEY", "'d'"),
        // Nothing outside of this machine is asked.
        ("DISABLE_WP_CRON", "true"),
        ("WP_HTTP_BLOCK_EXTERNAL", "true"),
        ("AUTOMATIC_UPDATER_DISABLED", "true"),
    ] {
        text += &constant(name, value);
    }
    text + "$table_prefix = 'wp_';\ndefined('ABSPATH') || define('ABSPATH', __DIR__ . '/');\nrequire_once ABSPATH . 'wp-settings.php';\n"
}

/// A database of the test's own, on a Unix socket; ended when dropped.
struct MariaDb {
    child: Child,
    socket: PathBuf,
}

impl MariaDb {
    #[track_caller]
    fn start(folder: &Path) -> Self {
        fs::create_dir_all(folder).expect("a folder");
        // It does not run as root.
        let user: &[&str] = if rustix::process::geteuid().is_root() { &["--user=nobody"] } else { &[] };
        if !user.is_empty() {
            run_ok(Command::new("chown").arg("nobody").arg(folder), PATIENCE);
        }
        let data = format!("--datadir={}", folder.display());
        let mut install = Command::new("mariadb-install-db");
        install.arg("--no-defaults").args(user).arg(&data);
        run_ok(install.args(["--auth-root-authentication-method=normal", "--skip-test-db"]), PATIENCE);
        let socket = folder.join("db.sock");
        // A shell that ends it when this process dies, however it does: then its standard input ends.
        let mut server = Command::new("sh");
        server.args(["-c", "\"$@\" </dev/null & read line; kill $!; wait $!", "sh", "/usr/sbin/mariadbd"]);
        server.arg("--no-defaults").args(user).arg(&data).arg(format!("--socket={}", socket.display()));
        server.arg(format!("--pid-file={}", folder.join("pid").display()));
        server.args([
            "--skip-networking",
            "--innodb-buffer-pool-size=16M",
            "--innodb-flush-log-at-trx-commit=0",
        ]);
        server.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let running = Self { child: server.spawn().expect("mariadbd"), socket };
        let deadline = Instant::now() + PATIENCE;
        while !run(&mut running.client("mariadb-admin", &["ping"]), PATIENCE).status.success() {
            assert!(Instant::now() < deadline, "mariadbd does not answer");
            std::thread::sleep(Duration::from_millis(50));
        }
        running
    }

    #[track_caller]
    fn run(&self, statements: &str) {
        run_ok(&mut self.client("mariadb", &["-e", statements]), PATIENCE);
    }

    fn client(&self, program: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new(program);
        command.args(["--no-defaults", "-uroot", "-S"]).arg(&self.socket).args(arguments);
        command
    }
}

impl Drop for MariaDb {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let deadline = Instant::now() + Duration::from_secs(20);
        while self.child.try_wait().is_ok_and(|status| status.is_none()) && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(20));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
