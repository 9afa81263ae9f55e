//! `keepwarm convert --verify`: what was converted responds as the real old server does.

use std::fs;
use std::path::Path;
use std::process::Command;

use keepwarm_tests::daemon::Daemon;
use keepwarm_tests::{Client, Server, keepwarm, process, root, tools};

use super::{BOUND, Directory, said};

/// A site of files for the old server.
fn site(directory: &Path) {
    let www = directory.join("www");
    fs::create_dir_all(www.join("docs")).expect("a directory");
    fs::create_dir_all(directory.join("other")).expect("a directory");
    let page = "<a href='/docs/a.html'>a</a> <a href='/old'>old</a> <a href='/files/f.txt'>f</a> <a href='/api/x?y=1'>x</a> \
                <a href='/hello'>h</a> <a href='/key.secret'>s</a> <a href='/none'>n</a> <img src=\"/i.png\">";
    fs::write(www.join("index.html"), page).expect("a page");
    fs::write(www.join("docs/a.html"), "<a href='../index.html'>up</a> <a href='/docs/'>index</a>")
        .expect("a page");
    fs::write(www.join("docs/index.html"), "docs").expect("a page");
    fs::write(www.join("i.png"), [0u8, 1, 2, 255]).expect("a file");
    fs::write(www.join("key.secret"), "secret").expect("a file");
    fs::write(directory.join("other/f.txt"), "file").expect("a file");
}

/// Serves what files of a server that runs on a port become.
#[track_caller]
fn converted(files: &[&Path], port: u16) -> (Server, String) {
    let output = tools::run(Command::new(keepwarm()).arg("convert").args(files), BOUND);
    assert!(matches!(output.status.code(), Some(0 | 1)), "{}", said(&output));
    let toml = String::from_utf8_lossy(&output.stdout);
    let here = toml
        .replace(&format!("0.0.0.0:{port}"), "127.0.0.1:0")
        .replace(&format!("127.0.0.1:{port}\""), "127.0.0.1:0\"");
    (Server::start(&here), here)
}

/// Converts files of a server that runs on a port, serves the result, and compares both.
#[track_caller]
fn same_as_converted(files: &[&Path], port: u16) -> String {
    let (server, here) = converted(files, port);
    let old = format!("http://127.0.0.1:{port}/");
    let compared =
        tools::run(Command::new(keepwarm()).args(["convert", "--verify", &old, &server.url("/")]), BOUND);
    assert_eq!(compared.status.code(), Some(0), "{}\n{here}", said(&compared));
    said(&compared)
}

#[test]
fn a_converted_site_responds_as_nginx_does() {
    let directory = Directory::new("nginx");
    site(&directory.0);
    let (upstream, upstream_port) =
        Daemon::nginx("", "default_type text/plain; location / { return 200 \"$request_uri\"; }");
    let block = format!(
        "include /etc/nginx/mime.types; root {0}/www; add_header X-Site one always;\n\
         location / {{ try_files $uri $uri/ =404; }}\n\
         location = /old {{ return 301 /docs/a.html; }}\n\
         location /files/ {{ alias {0}/other/; }}\n\
         location /api/ {{ proxy_pass http://127.0.0.1:{upstream_port}/v1/; }}\n\
         location ~ \\.secret$ {{ deny all; }}\n\
         location = /hello {{ default_type text/plain; return 200 \"hi\"; }}\n",
        directory.0.display()
    );
    let (nginx, port) = Daemon::nginx("", &block);
    let said = same_as_converted(&[&nginx.directory().join("conf")], port);
    // Every link of the pages was followed.
    assert!(said.contains("11 paths, 0 differences"), "{said}");
    drop(upstream);
}

#[test]
fn a_converted_site_of_scripts_responds_as_nginx_with_php_fpm_does() {
    let directory = Directory::new("php");
    let (www, socket) = (directory.0.join("www"), directory.0.join("fpm.sock"));
    let fpm = scripts(&directory.0);
    let block = format!(
        "include /etc/nginx/mime.types; root {}; index index.php;\n\
         location / {{ try_files $uri $uri/ /index.php?$args; }}\n\
         location ~ \\.php$ {{ include /etc/nginx/fastcgi.conf; fastcgi_pass unix:{}; }}\n",
        www.display(),
        socket.display()
    );
    let (nginx, port) = Daemon::nginx("", &block);
    let said = same_as_converted(&[&nginx.directory().join("conf"), &fpm.directory().join("conf")], port);
    assert!(said.contains("4 paths, 0 differences"), "{said}");
}

/// A site of scripts in `www`, and the php-fpm that runs them, on `fpm.sock`.
fn scripts(directory: &Path) -> Daemon {
    let www = directory.join("www");
    fs::create_dir_all(&www).expect("a directory");
    let script = "<?php header('X-Script: ' . $_SERVER['SCRIPT_NAME']); echo $_SERVER['REQUEST_URI'], ' ', $_GET['q'] ?? '-', ' ', ini_get('memory_limit'); \
                  if ($_SERVER['REQUEST_URI'] === '/') { echo \"<a href='/page/one?q=1'>1</a><a href='/other.php?q=2'>2</a><a href='/style.css'>c</a>\"; }";
    fs::write(www.join("index.php"), script).expect("a script");
    fs::write(www.join("other.php"), script).expect("a script");
    fs::write(www.join("style.css"), "a{}").expect("a file");
    let socket = directory.join("fpm.sock");
    let pool = format!(
        "[global]\nerror_log = /dev/null\ndaemonize = no\n[site]\nuser = nobody\ngroup = nogroup\nlisten = {}\nlisten.mode = 0666\npm = static\n\
         pm.max_children = 2\nphp_admin_value[memory_limit] = 99M\n",
        socket.display()
    );
    let fpm = Daemon::start("php-fpm8.2", &pool, &["-y", "@CONF@", "-F"]);
    process::wait_until("php-fpm listens", BOUND, || socket.exists());
    fpm
}

#[test]
fn a_converted_site_responds_as_haproxy_does() {
    let (one, first) = Daemon::nginx(
        "",
        "default_type text/html; location / { return 200 \"<a href='/api/x'>x</a><a href='/old/y'>y</a><a href='/none'>n</a>\"; }",
    );
    let (two, second) = Daemon::nginx("", "default_type text/plain; location / { return 200 \"two $uri\"; }");
    let port = tools::free_port();
    let config = format!(
        "defaults\n  mode http\n  timeout connect 5s\n  timeout client 5s\n  timeout server 5s\n\
         frontend in\n  bind 127.0.0.1:{port}\n  acl old path_beg /old/\n  http-request redirect code 301 location /new if old\n  \
         http-request deny if {{ path /none }}\n  http-response set-header X-From proxy\n  use_backend api if {{ path_beg /api/ }}\n  default_backend web\n\
         backend web\n  server a 127.0.0.1:{first}\nbackend api\n  server b 127.0.0.1:{second}\n"
    );
    let haproxy = Daemon::start("haproxy", &config, &["-db", "-f", "@CONF@"]);
    haproxy.wait_for_port(port);
    let said = same_as_converted(&[&haproxy.directory().join("conf")], port);
    assert!(said.contains("5 paths, 0 differences"), "{said}");
    drop((one, two));
}

#[test]
fn a_converted_site_responds_as_apache_does() {
    let directory = Directory::new("apache");
    site(&directory.0);
    let port = tools::free_port();
    let host = format!(
        "DocumentRoot {0}/www\nRedirect permanent /old http://127.0.0.1:{port}/docs/a.html\nAlias /files/ {0}/other/\n\
         Header always set X-Site one\n<Directory {0}/www>\nRequire all granted\n</Directory>\n<Directory {0}/other>\nRequire all granted\n</Directory>\n\
         <FilesMatch \"\\.secret$\">\nRequire all denied\n</FilesMatch>\n",
        directory.0.display()
    );
    let apache = apache(port, &host);
    let said = same_as_converted(&[&apache.directory().join("conf")], port);
    assert!(said.contains(" 0 differences"), "{said}");
}

/// An Apache with one virtual host.
fn apache(port: u16, host: &str) -> Daemon {
    let modules: String = [
        "mpm_event",
        "authz_core",
        "authz_host",
        "mime",
        "dir",
        "alias",
        "headers",
        "proxy",
        "proxy_http",
        "proxy_fcgi",
    ]
    .iter()
    .map(|name| format!("LoadModule {name}_module /usr/lib/apache2/modules/mod_{name}.so\n"))
    .collect();
    let config = format!(
        "{modules}ServerRoot @DIR@\nPidFile @DIR@/pid\nDefaultRuntimeDir @DIR@\nErrorLog @DIR@/errors\nServerName localhost\nUser nobody\nGroup nogroup\n\
         Listen 127.0.0.1:{port}\nTypesConfig /etc/mime.types\nDirectoryIndex index.html\n\
         <VirtualHost 127.0.0.1:{port}>\n{host}</VirtualHost>\n"
    );
    let apache = Daemon::start("apache2", &config, &["-X", "-f", "@CONF@"]);
    apache.wait_for_port(port);
    apache
}

#[test]
fn methods_and_referers_are_refused_as_nginx_does() {
    let directory = Directory::new("methods");
    site(&directory.0);
    let (upstream, upstream_port) =
        Daemon::nginx("", "default_type text/plain; location / { return 200 \"$request_method\"; }");
    let block = format!(
        "server_name localhost; root {0}/www;\n\
         location /docs/ {{\n\
         valid_referers none server_names *.example.org partner.example/galleries/ ~\\.search\\.;\n\
         if ($invalid_referer) {{ return 403; }}\n}}\n\
         location /i.png {{\nvalid_referers blocked none server_names;\nif ($invalid_referer) {{ return 403; }}\n}}\n\
         location /read/ {{ limit_except GET {{ deny all; }} proxy_pass http://127.0.0.1:{upstream_port}; }}\n\
         location /far/ {{ limit_except GET {{ allow 10.9.8.7; deny all; }} proxy_pass http://127.0.0.1:{upstream_port}; }}\n\
         location /near/ {{ deny all; limit_except POST {{ allow 127.0.0.1; deny all; }} proxy_pass http://127.0.0.1:{upstream_port}; }}\n",
        directory.0.display()
    );
    let (nginx, port) = Daemon::nginx("", &block);
    let (server, here) = converted(&[&nginx.directory().join("conf")], port);
    let old = std::net::SocketAddr::from(([127, 0, 0, 1], port));
    for path in ["/docs/a.html", "/i.png"] {
        for (referer, is_valid) in [
            (None, [true, true]),
            (Some("http://localhost/"), [true, true]),
            (Some("https://LOCALHOST:8443/x"), [true, true]),
            (Some("http://localhost.evil.example/"), [false, false]),
            (Some("https://www.example.org/"), [true, false]),
            (Some("https://example.org/"), [false, false]),
            (Some("http://partner.example/galleries/1"), [true, false]),
            (Some("http://partner.example/other"), [false, false]),
            (Some("https://www.search.example/?q=1"), [true, false]),
            (Some("removed by a proxy"), [false, true]),
        ] {
            let line = referer.map(|referer| format!("Referer: {referer}\r\n")).unwrap_or_default();
            let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n{line}\r\n");
            let expected = if is_valid[usize::from(path == "/i.png")] { 200 } else { 403 };
            assert_eq!(Client::connect(old).ask(&request).status, expected, "nginx: {request}");
            assert_eq!(server.ask(&request).status, expected, "{request}\n{here}");
        }
    }
    for (path, allowed) in [("/read/", "GET HEAD"), ("/far/", "GET HEAD"), ("/near/", "GET HEAD PUT DELETE")]
    {
        for method in ["GET", "HEAD", "POST", "PUT", "DELETE"] {
            let request = format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n");
            let expected = if allowed.split(' ').any(|known| known == method) { 200 } else { 403 };
            for address in [old, server.address()] {
                let mut client = Client::connect(address);
                client.send(&request);
                assert_eq!(client.response(method).status, expected, "{address}: {request}\n{here}");
            }
        }
    }
    drop(upstream);
}

#[test]
fn a_converted_page_with_an_api_responds_as_nginx_does() {
    let directory = Directory::new("page");
    site(&directory.0);
    let (upstream, upstream_port) = Daemon::nginx(
        "",
        "default_type text/plain; location / { return 200 \"$request_uri $http_x_tenant\"; }",
    );
    let block = format!(
        "include /etc/nginx/mime.types; default_type application/octet-stream; root {0}/www;\n\
         location / {{ try_files $uri /index.html; }}\n\
         location /api/ {{ rewrite ^/api/(.*)$ /v2/$1 break; proxy_set_header X-Tenant shop; proxy_pass http://127.0.0.1:{upstream_port}; }}\n\
         location ^~ /files/ {{ alias {0}/other/; add_header Cache-Control max-age=60; }}\n\
         location ~ ^/o(ld)$ {{ return 302 /docs/a.html?from=$1; }}\n\
         if ($http_user_agent ~* badbot) {{ return 403; }}\n",
        directory.0.display()
    );
    let (nginx, port) = Daemon::nginx("", &block);
    let said = same_as_converted(&[&nginx.directory().join("conf")], port);
    assert!(said.contains(" 0 differences"), "{said}");
    drop(upstream);
}

#[test]
fn a_converted_site_of_scripts_responds_as_apache_with_php_fpm_does() {
    let directory = Directory::new("apache-fpm");
    let fpm = scripts(&directory.0);
    let host = format!(
        "DocumentRoot {0}/www\nDirectoryIndex index.php\nFallbackResource /index.php\n<Directory {0}/www>\nRequire all granted\n</Directory>\n\
         <FilesMatch \"\\.php$\">\nSetHandler \"proxy:unix:{0}/fpm.sock|fcgi://localhost/\"\n</FilesMatch>\n",
        directory.0.display()
    );
    let port = tools::free_port();
    let apache = apache(port, &host);
    let said = same_as_converted(&[&apache.directory().join("conf"), &fpm.directory().join("conf")], port);
    assert!(said.contains("4 paths, 0 differences"), "{said}");
}

/// An application that links what it has.
const LINKS: &str =
    "<a href='/api/x?y=1'>x</a><a href='/old/y'>y</a><a href='/none'>n</a><a href='/deep/a/b'>d</a>";

#[test]
fn a_converted_proxy_responds_as_apache_does() {
    let (web, first) =
        Daemon::nginx("", &format!("default_type text/html; location / {{ return 200 \"{LINKS}\"; }}"));
    let (api, second) =
        Daemon::nginx("", "default_type text/plain; location / { return 200 \"two $request_uri\"; }");
    let host = format!(
        "ProxyPass /api/ http://127.0.0.1:{second}/v1/\nProxyPassReverse /api/ http://127.0.0.1:{second}/v1/\n\
         ProxyPass /old/ !\nProxyPass /none !\nRedirectMatch 302 ^/old/([a-z]+)$ /new/$1\nRedirect gone /none\n\
         ProxyPass / http://127.0.0.1:{first}/\nProxyPassReverse / http://127.0.0.1:{first}/\n"
    );
    let port = tools::free_port();
    let apache = apache(port, &host);
    let said = same_as_converted(&[&apache.directory().join("conf")], port);
    assert!(said.contains(" 0 differences"), "{said}");
    drop((web, api));
}

#[test]
fn a_converted_listen_section_responds_as_haproxy_does() {
    let (web, first) =
        Daemon::nginx("", &format!("default_type text/html; location / {{ return 200 \"{LINKS}\"; }}"));
    let port = tools::free_port();
    let config = format!(
        "defaults\n  mode http\n  timeout connect 5s\n  timeout client 5s\n  timeout server 5s\n\
         listen web\n  bind 127.0.0.1:{port}\n  http-request return status 200 content-type text/plain string \"fixed\" if {{ path /deep/a/b }}\n  \
         http-request redirect prefix http://127.0.0.1:{port}/new code 302 if {{ path_beg /old/ }}\n  \
         http-request deny deny_status 404 if {{ path_beg /api/ }}\n  http-response set-header X-From listen\n  server a 127.0.0.1:{first}\n"
    );
    let haproxy = Daemon::start("haproxy", &config, &["-db", "-f", "@CONF@"]);
    haproxy.wait_for_port(port);
    let said = same_as_converted(&[&haproxy.directory().join("conf")], port);
    assert!(said.contains(" 0 differences"), "{said}");
    drop(web);
}

#[test]
fn a_converted_application_responds_as_under_gunicorn() {
    let directory = Directory::new("gunicorn");
    let app = format!(
        "def app(environ, start_response):\n    path = environ['PATH_INFO'] + '|' + environ['QUERY_STRING']\n    \
         status = '404 Not Found' if path.startswith('/none') else '200 OK'\n    \
         body = (path + \"{LINKS}\").encode()\n    \
         start_response(status, [('Content-Type', 'text/html'), ('Content-Length', str(len(body)))])\n    return [body]\n"
    );
    fs::write(directory.0.join("shop.py"), app).expect("an application");
    let port = tools::free_port();
    let config = format!(
        "bind = '127.0.0.1:{port}'\nworkers = 1\nthreads = 2\nwsgi_app = 'shop:app'\nchdir = '{}'\n",
        directory.0.display()
    );
    let file = directory.0.join("gunicorn.conf.py");
    fs::write(&file, config).expect("a configuration");
    let gunicorn = root().join(".venv/bin/gunicorn");
    let old =
        Daemon::start("env", "", &[gunicorn.to_str().expect("UTF-8"), "-c", file.to_str().expect("UTF-8")]);
    old.wait_for_port(port);
    let said = same_as_converted(&[&file], port);
    assert!(said.contains("5 paths, 0 differences"), "{said}");
}

#[test]
fn a_converted_application_responds_as_under_puma() {
    let directory = Directory::new("puma");
    fs::create_dir_all(directory.0.join("config")).expect("a directory");
    let app = format!(
        "run lambda {{ |env|\n  path = env['PATH_INFO'] + '|' + env['QUERY_STRING']\n  \
         [path.start_with?('/none') ? 404 : 200, {{ 'Content-Type' => 'text/html' }}, [path + \"{LINKS}\"]]\n}}\n"
    );
    fs::write(directory.0.join("config.ru"), app).expect("an application");
    let port = tools::free_port();
    let file = directory.0.join("config/puma.rb");
    let config =
        format!("directory '{}'\nbind 'tcp://127.0.0.1:{port}'\nthreads 1, 2\n", directory.0.display());
    fs::write(&file, config).expect("a configuration");
    let old = Daemon::start("puma", "", &["-C", file.to_str().expect("UTF-8")]);
    old.wait_for_port(port);
    let said = same_as_converted(&[&file], port);
    assert!(said.contains("5 paths, 0 differences"), "{said}");
}

#[test]
fn a_converted_site_responds_as_caddy_does() {
    let directory = Directory::new("caddy");
    site(&directory.0);
    let (api, upstream_port) =
        Daemon::nginx("", "default_type text/plain; location / { return 200 \"$request_uri\"; }");
    let port = tools::free_port();
    let config = format!(
        "{{\n\tadmin off\n\tauto_https off\n}}\n\nhttp://127.0.0.1:{port} {{\n\troot * {0}/www\n\theader X-Site one\n\t\
         redir /old /docs/a.html 301\n\thandle /hello {{\n\t\trespond \"hi\" 200\n\t}}\n\t@secret path *.secret\n\thandle @secret {{\n\t\trespond 403\n\t}}\n\t\
         handle_path /files/* {{\n\t\troot * {0}/other\n\t\tfile_server\n\t}}\n\t\
         handle /api/* {{\n\t\treverse_proxy 127.0.0.1:{upstream_port}\n\t}}\n\thandle {{\n\t\tfile_server\n\t}}\n}}\n",
        directory.0.display()
    );
    let caddy = caddy(&config);
    caddy.wait_for_port(port);
    let said = same_as_converted(&[&caddy.directory().join("Caddyfile")], port);
    assert!(said.contains("11 paths, 0 differences"), "{said}");
    drop(api);
}

/// A Caddy with a Caddyfile.
fn caddy(config: &str) -> Daemon {
    let program = root().join(".venv/bin/caddy");
    Daemon::start_with(
        "env",
        config,
        &[
            "XDG_DATA_HOME=@DIR@",
            "XDG_CONFIG_HOME=@DIR@",
            program.to_str().expect("UTF-8"),
            "run",
            "--adapter",
            "caddyfile",
            "--config",
            "@DIR@/Caddyfile",
        ],
        |own| fs::write(own.join("Caddyfile"), config).expect("a configuration"),
    )
}

/// Rules that come from several directives: what one of them refuses, no other one serves.
#[test]
fn a_converted_caddyfile_refuses_what_caddy_refuses() {
    let directory = Directory::new("caddy-access");
    site(&directory.0);
    let (api, upstream_port) = Daemon::nginx(
        "",
        "default_type text/plain; location / { return 200 \"$request_method $request_uri\"; }",
    );
    let port = tools::free_port();
    let config = format!(
        "{{\n\tadmin off\n\tauto_https off\n}}\n\nhttp://localhost:{port} {{\n\troot * {0}/www\n\t\
         @write not method GET\n\trespond @write 405\n\t\
         handle_path /files/* {{\n\t\trespond /docs/* 403\n\t\tfile_server\n\t}}\n\t\
         handle /first/* {{\n\t\theader X-Part first\n\t}}\n\t\
         @parts {{\n\t\tpath /api/*\n\t\tnot header X-Key *k*\n\t}}\n\terror @parts 403\n\t\
         respond /first/closed 403\n\thandle /docs/* {{\n\t\tfile_server {{\n\t\t\thide a.html\n\t\t}}\n\t}}\n\t\
         rewrite /docs/b.html /docs/a.html\n\turi strip_prefix /v1\n\t\
         reverse_proxy 127.0.0.1:{upstream_port}\n}}\n",
        directory.0.display()
    );
    let caddy = caddy(&config);
    caddy.wait_for_port(port);
    let (server, here) = converted(&[&caddy.directory().join("Caddyfile")], port);
    let old = std::net::SocketAddr::from(([127, 0, 0, 1], port));
    for (method, path, head, status) in [
        ("GET", "/x", "", 200),
        ("HEAD", "/x", "", 405),
        ("POST", "/x", "", 405),
        ("GET", "/files/index.html", "", 200),
        ("GET", "/files/docs/a.html", "", 403),
        ("GET", "/FILES/Docs/a.html", "", 403),
        ("GET", "/first/x", "", 200),
        ("GET", "/first/closed", "", 403),
        ("GET", "/FIRST/closed", "", 403),
        ("GET", "/api/x", "", 403),
        ("GET", "/v1/api/x", "", 403),
        ("GET", "/api/x", "X-Key: ok\r\n", 200),
        ("GET", "/docs/", "", 200),
        ("GET", "/docs/a.html", "", 404),
        ("GET", "/docs/b.html", "", 404),
    ] {
        let request =
            format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\n{head}Content-Length: 0\r\n\r\n");
        for address in [old, server.address()] {
            let mut client = Client::connect(address);
            client.send(&request);
            assert_eq!(client.response(method).status, status, "{address}: {request}\n{here}");
        }
    }
    drop(api);
}

/// Rules in their order: what one of them refuses, no later one serves.
#[test]
fn a_converted_haproxy_refuses_what_haproxy_refuses() {
    let (app, upstream) = Daemon::nginx(
        "",
        "default_type text/plain; location / { return 200 \"$request_uri $http_x_area\"; }",
    );
    let port = tools::free_port();
    let config = format!(
        "defaults\n  mode http\n  timeout connect 5s\n  timeout client 5s\n  timeout server 5s\n\
         frontend in\n  bind 127.0.0.1:{port}\n  tcp-request connection reject if {{ src 203.0.113.0/24 }}\n  \
         acl admin path_beg /admin /manage\n  http-request allow if {{ path /admin/health }}\n  \
         http-request reject if admin !{{ src 10.0.0.0/8 }}\n  \
         http-request deny unless {{ hdr(X-Role) editor }} or {{ method GET }} or !{{ path_beg /articles }}\n  \
         http-request set-path /v1%[path] if {{ path_beg /items }}\n  http-request deny if {{ path_beg /v1/items/secret }}\n  \
         http-request replace-path ^/old/(.*)$ /new/\\1\n  default_backend app\n\
         backend app\n  http-request deny deny_status 404 if {{ path_beg /x.bak }}\n  server a 127.0.0.1:{upstream}\n"
    );
    let haproxy = Daemon::start("haproxy", &config, &["-db", "-f", "@CONF@"]);
    haproxy.wait_for_port(port);
    let (server, here) = converted(&[&haproxy.directory().join("conf")], port);
    let old = std::net::SocketAddr::from(([127, 0, 0, 1], port));
    for (method, path, head, status, body) in [
        ("GET", "/x", "", 200, "/x "),
        ("GET", "/x.bak", "", 404, ""),
        ("GET", "/admin/health", "", 200, "/admin/health "),
        ("GET", "/articles/1", "", 200, "/articles/1 "),
        ("PUT", "/articles/1", "", 403, ""),
        ("HEAD", "/articles/1", "", 403, ""),
        ("PUT", "/articles/1", "X-Role: editor\r\n", 200, "/articles/1 "),
        ("PUT", "/articles/1", "X-Role: reader, editor\r\n", 200, "/articles/1 "),
        ("GET", "/items/1", "", 200, "/v1/items/1 "),
        ("GET", "/items/secret", "", 403, ""),
        ("GET", "/old/a/b", "", 200, "/new/a/b "),
    ] {
        let request =
            format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\n{head}Content-Length: 0\r\n\r\n");
        for address in [old, server.address()] {
            let mut client = Client::connect(address);
            client.send(&request);
            let response = client.response(method);
            assert_eq!(response.status, status, "{address}: {request}\n{here}");
            if status == 200 {
                assert_eq!(String::from_utf8_lossy(&response.body), body, "{address}: {request}\n{here}");
            }
        }
    }
    // HAProxy closes the connection, Keepwarm refuses.
    assert_eq!(server.ask("GET /manage/x HTTP/1.1\r\nHost: localhost\r\n\r\n").status, 403, "{here}");
    drop(app);
}
