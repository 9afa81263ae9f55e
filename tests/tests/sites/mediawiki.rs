//! MediaWiki on SQLite, by php-cgi and by the php-fpm that is the default.

use std::fs;
use std::path::Path;
use std::process::Command;

use keepwarm_tests::get;
use keepwarm_tests::tools::run_ok;

use crate::{BY_DEFAULT, Browser, PASSWORD, PATIENCE, PIXEL, copy_site, start};

/// A wiki with its database in `data`, whose scripts have this path.
pub fn install(site: &Path, data: &Path, script_path: &str) {
    // Every message in four hundred languages is most of the package.
    let languages = ["i18n/*[!n].json", "i18n/*[!e]n.json", "./extensions", "./LocalSettings.php", "*/tests"];
    copy_site("/usr/share/mediawiki", &languages, site);
    fs::create_dir_all(site.join("extensions")).expect("a folder");
    let mut install = Command::new("php");
    install.current_dir(site).arg("maintenance/install.php").args(["--dbtype", "sqlite", "--dbpath"]);
    install.arg(data).args(["--dbname", "wiki", "--scriptpath", script_path, "--pass", PASSWORD]);
    run_ok(install.args(["--server", "http://127.0.0.1", "Kept", "Admin"]), PATIENCE);
}

fn mediawiki(interpreter: &str) {
    let server = start(interpreter, |folder| {
        let site = folder.join("site");
        install(&site, &folder.join("data"), "");
        let settings = site.join("LocalSettings.php");
        let mut text = fs::read_to_string(&settings).expect("installed");
        text.push_str("\n$wgServer = WebRequest::detectServer();\n$wgEnableUploads = true;\n");
        // The installer keeps sessions in APCu, which processes of php-cgi do not share.
        assert!(text.contains("$wgMainCacheType = CACHE_ACCEL;"), "the installer has not found php-apcu");
        if interpreter == "php-cgi" {
            text.push_str("$wgMainCacheType = CACHE_NONE;\n$wgSessionCacheType = CACHE_DB;\n");
        }
        fs::write(settings, text).expect("written");
    });
    let browser = Browser::new(&server);

    let token = |kind: &str| {
        let response =
            browser.json(&format!("/api.php?action=query&meta=tokens&type={kind}&format=json"), &[]);
        response["query"]["tokens"][format!("{kind}token")].as_str().expect("a token").to_owned()
    };
    let field = |name: &str, value: &str| format!("{name}={value}");
    let (login, password) = (field("lgtoken", &token("login")), field("lgpassword", PASSWORD));
    let response = browser.json(
        "/api.php?action=login&format=json",
        &["-d", "lgname=Admin", "--data-urlencode", &password, "--data-urlencode", &login],
    );
    assert_eq!(response["login"]["result"], "Success", "{response}");

    let csrf = field("token", &token("csrf"));
    let response = browser.json(
        "/api.php?action=edit&title=Stalls&format=json",
        &["--data-urlencode", "text=The ''five'' stalls, '''gone'''.", "--data-urlencode", &csrf],
    );
    assert_eq!(response["edit"]["result"], "Success", "{response}");

    let file = server.folder().join("pixel.png");
    fs::write(&file, PIXEL).expect("written");
    let upload = format!("file=@{};type=image/png", file.display());
    let form =
        ["-F", "action=upload", "-F", "format=json", "-F", "filename=Pixel.png", "-F", &csrf, "-F", &upload];
    let response = browser.json("/api.php", &[form.as_slice(), &["-F", "ignorewarnings=1"]].concat());
    assert_eq!(response["upload"]["result"], "Success", "{response}");

    // Read back: the page by its path info, the file as a file.
    let page = browser.open("/index.php/Stalls", &[]);
    assert!(page.contains("The <i>five</i> stalls, <b>gone</b>."), "{page}");
    let image = response["upload"]["imageinfo"]["url"].as_str().expect("an address").to_owned();
    let path =
        image.split_once("127.0.0.1").and_then(|(_, rest)| rest.split_once('/')).expect("an address").1;
    let read = server.ask(get(&format!("/{path}")));
    assert_eq!((read.status, read.body.as_slice()), (200, PIXEL), "{image}");
    assert_eq!(read.field("content-type"), Some("image/png"));
    // A browser also loads these: the page's styles by a script, a file of the skin, none of the secrets.
    let styles = browser.open("/load.php?lang=en&modules=site.styles&only=styles&skin=vector", &[]);
    assert!(!styles.contains("Fatal error"), "{styles}");
    assert_eq!(server.ask(get("/resources/assets/licenses/public-domain.png")).status, 200);
    for secret in [
        "/LocalSettings.php",
        "/images/.htaccess",
        "/../data/wiki.sqlite",
        "/composer.json/../LocalSettings.php",
    ] {
        let response = server.ask(get(secret));
        assert!(
            !response.text().contains("wgDBname") && !response.text().contains("SQLite format"),
            "{secret}"
        );
    }
}

#[test]
fn mediawiki_on_php_cgi() {
    mediawiki("php-cgi");
}

#[test]
fn mediawiki_by_default() {
    mediawiki(BY_DEFAULT);
}
