use super::*;
use crate::folder::Rules;

/// A site that has these, directories with a trailing slash.
struct TestSite(&'static [&'static str]);

impl SiteFiles for TestSite {
    fn root(&self) -> &str {
        "/srv/site"
    }

    async fn is(&self, name: &str, folder: bool) -> std::io::Result<bool> {
        let wanted = if folder { format!("{}/", name.trim_end_matches('/')) } else { name.to_owned() };
        Ok(self.0.contains(&wanted.as_str()))
    }
}

const SITE: TestSite = TestSite(&[
    "index.php",
    "doku.php",
    "about.php",
    "lib/",
    "lib/exe/fetch.php",
    "style.css",
    "blog/",
    "blog/index.php",
]);

/// The rewrite of `name` by the rules of the directory `above`, with its query; `+` stands for the client's.
fn leads(text: &str, above: &str, name: &str) -> String {
    let rules = Rules::parse(&format!("RewriteEngine On\n{text}"));
    assert!(rules.ignored.is_empty(), "{:?}", rules.ignored);
    let rewriting = rules.rewriting().expect("rules");
    let mut address = Address { name: name.to_owned(), query: RewrittenQuery::default() };
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    for _ in 0..10 {
        match runtime.block_on(rewriting.pass(&SITE, above, &mut address)).unwrap() {
            PassResult::Changed => {}
            PassResult::Same | PassResult::End => break,
        }
    }
    let query = String::from_utf8(address.query.front).unwrap();
    format!("{}?{query}{}", address.name, if address.query.with_clients { "+" } else { "" })
}

const DOKUWIKI: &str = "RewriteRule ^_media/(.*) lib/exe/fetch.php?media=$1 [QSA,L]\n\
    RewriteRule ^_export/([^/]+)/(.*) doku.php?do=export_$1&id=$2 [QSA,L]\n\
    RewriteRule ^$ doku.php [L]\n\
    RewriteCond %{REQUEST_FILENAME} !-f\nRewriteCond %{REQUEST_FILENAME} !-d\n\
    RewriteRule (.*) doku.php?id=$1 [QSA,L]\n\
    RewriteRule ^index.php$ doku.php";

#[test]
fn dokuwiki() {
    for (name, leads_to) in [
        ("", "doku.php?+"),
        ("start", "doku.php?id=start+"),
        ("wiki/syntax", "doku.php?id=wiki/syntax+"),
        ("_media/wiki/logo.png", "lib/exe/fetch.php?media=wiki/logo.png+"),
        ("_export/pdf/a/b", "doku.php?do=export_pdf&id=a/b+"),
        ("index.php", "doku.php?+"),
        ("doku.php", "doku.php?+"),
        ("style.css", "style.css?+"),
        ("lib/", "lib/?+"),
        ("A&B+C 50%?#", "doku.php?id=A%26B%2BC%2050%25%3F%23+"),
        ("grüße", "doku.php?id=gr%C3%BC%C3%9Fe+"),
    ] {
        assert_eq!(leads(DOKUWIKI, "", name), leads_to, "{name}");
    }
}

#[test]
fn queries() {
    let of = |flags: &str, target: &str| leads(&format!("RewriteRule ^a/(.*) {target} {flags}"), "", "a/b");
    assert_eq!(of("", "x.php"), "x.php?+");
    assert_eq!(of("[L]", "x.php?p=$1"), "x.php?p=b");
    assert_eq!(of("[L,QSA]", "x.php?p=$1"), "x.php?p=b+");
    assert_eq!(of("[QSD]", "x.php"), "x.php?");
    assert_eq!(of("[L]", "x.php?"), "x.php?");
    let both = "RewriteRule ^a/(.*) b/$1/x.php?one=1 [QSA]\nRewriteRule ^b/(.*)/x.php x.php?two=$1 [QSA,L]";
    assert_eq!(leads(both, "", "a/c"), "x.php?two=c&one=1+");
}

#[test]
fn conditions() {
    let without_ending = "RewriteCond %{REQUEST_FILENAME} !-d\nRewriteCond %{REQUEST_FILENAME}.php -f\nRewriteRule ^(.*)$ $1.php [L]";
    assert_eq!(leads(without_ending, "", "about"), "about.php?+");
    assert_eq!(leads(without_ending, "", "gone"), "gone?+");
    let by_root = "RewriteCond %{DOCUMENT_ROOT}/$1.php -f\nRewriteRule ^(.*)/?$ /$1.php";
    assert_eq!(leads(by_root, "", "about"), "about.php?+");
    let either = "RewriteCond %{REQUEST_FILENAME} -f [OR]\nRewriteCond %{REQUEST_FILENAME} -d\nRewriteRule ^ - [L]\nRewriteRule ^(.*) index.php?q=$1 [L]";
    assert_eq!(leads(either, "", "style.css"), "style.css?+");
    assert_eq!(leads(either, "", "lib"), "lib?+");
    assert_eq!(leads(either, "", "node/1"), "index.php?q=node/1");
    let not_icons = "RewriteCond %{REQUEST_URI} !=/favicon.ico\nRewriteCond %{REQUEST_URI} !^/api/ [NC]\nRewriteCond %{REQUEST_FILENAME} !\\.(gif|png)$\nRewriteRule ^(?!x).*$ index.php?q=$0 [L]";
    // A lookahead is not supported in a rule: it is named.
    assert_eq!(Rules::parse(&format!("RewriteEngine On\n{not_icons}")).ignored.len(), 1);
    let not_icons = not_icons.replace("(?!x)", "");
    for (name, leads_to) in [
        ("favicon.ico", "favicon.ico?+"),
        ("API/x", "API/x?+"),
        ("a.png", "a.png?+"),
        ("n/1", "index.php?q=n/1"),
    ] {
        assert_eq!(leads(&format!("RewriteRule ^index.php$ - [END]\n{not_icons}"), "", name), leads_to);
    }
    let caught =
        "RewriteCond %{REQUEST_URI} ^/(..)/\nRewriteRule ^../(.*) index.php?language=%1&page=$1 [END]";
    assert_eq!(leads(caught, "", "de/start"), "index.php?language=de&page=start");
    assert_eq!(leads("RewriteRule !\\.css$ index.php?all=1 [END]", "", "a.css"), "a.css?+");
    assert_eq!(leads("RewriteRule !\\.css$ index.php?all=1 [END]", "", "a"), "index.php?all=1");
}

#[test]
fn folders_and_bases() {
    let wordpress = "RewriteBase /blog/\nRewriteRule ^index\\.php$ - [L]\nRewriteCond %{REQUEST_FILENAME} !-f\nRewriteCond %{REQUEST_FILENAME} !-d\nRewriteRule . /blog/index.php [L]";
    assert_eq!(leads(wordpress, "blog/", "blog/2024/post"), "blog/index.php?+");
    assert_eq!(leads(wordpress, "blog/", "blog/"), "blog/?+");
    // The site is mounted there.
    assert_eq!(
        leads("RewriteBase /wiki\nRewriteRule ^(.*)$ /wiki/index.php?t=$1 [END]", "", "a"),
        "index.php?t=a"
    );
    assert_eq!(leads("RewriteRule ^(.*)$ ./index.php/$1 [END]", "blog/", "blog/a/b"), "blog/index.php/a/b?+");
}

#[test]
fn what_never_stays_as_it_is_ends() {
    let text = "RewriteRule ^(.*)$ a.php/$1?p=$1 [QSA,L]";
    let end = leads(text, "", "x");
    assert!(end.starts_with("a.php/a.php/") && end.len() < 3 * MAX_PATH, "{end}");
}

#[test]
fn what_is_not_honored() {
    for line in [
        "RewriteRule ^a x.php [R=301,L]",
        "RewriteRule ^a https://example.com/x.php [L]",
        "RewriteRule ^a x.php [P]",
        "RewriteRule ^a x.php [S=2]",
        "RewriteRule ^a/(.*) public/$1 [L]",
        "RewriteRule ^a x.php?h=%{HTTP_HOST}",
        "RewriteCond %{HTTP_HOST} ^www\nRewriteRule ^a x.php",
        "RewriteCond %{TIME_HOUR} >12\nRewriteRule ^a x.php",
    ] {
        let rules = Rules::parse(&format!("RewriteEngine On\n{line}"));
        assert_eq!(rules.ignored.len(), 1, "{line}");
    }
    for front in [
        "RewriteRule ^index\\.php$ - [L]\nRewriteCond %{REQUEST_FILENAME} !-f\nRewriteRule . /index.php [L]",
        "RewriteCond %{HTTP:Authorization} .\nRewriteRule .* - [E=HTTP_AUTHORIZATION:%{HTTP:Authorization}]\nRewriteRule ^ index.php [L]",
    ] {
        let rules = Rules::parse(&format!("RewriteEngine On\n{front}"));
        assert!(rules.ignored.is_empty() && !rules.rewriting().expect("there").matters, "{front}");
    }
}

#[test]
fn paths_are_encoded() {
    assert_eq!(path_of("a b/ü%.php/x?y"), b"/a%20b/%C3%BC%25.php/x%3Fy");
}
