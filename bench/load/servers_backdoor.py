"""The back door: origins, the proxies that are compared before them, and the application of the article that calls through them."""

import os
import pathlib
import shutil
import subprocess

import servers
from servers import BIN, PATH, nginx_with
from servers_php import php_fpm, together

NAME = "origin.test"  # the origin's name in its certificate
DOCUMENT = b'{"session":"5f0c7d2a9b","user":41,"language":"en","groups":["user","autoconfirmed"],"touched":1605000000}'

ORIGIN = """
    keepalive_requests 1000000;
    default_type application/json;
    ssl_certificate {certificates}/origin.pem;
    ssl_certificate_key {certificates}/origin.key;
    ssl_protocols TLSv1.2 TLSv1.3;
    server {{
        listen 127.0.0.1:{port} backlog=4096;
        listen 127.0.0.1:{tls_port} ssl backlog=4096;
        root {folder}/files;
        location = / {{ try_files /document.json =404; }}
    }}
"""

NGINX = """
    upstream origin {{ server {address}; keepalive 256; keepalive_requests 1000000; }}
    server {{
        listen 127.0.0.1:{port} backlog=4096;
        keepalive_requests 1000000;
        location / {{
            proxy_pass {scheme}://origin;
            proxy_http_version 1.1;
            proxy_set_header Connection "";
            proxy_set_header Host {name};
            proxy_ssl_server_name on;
            proxy_ssl_name {name};
            proxy_ssl_verify on;
            proxy_ssl_trusted_certificate {certificates}/ca.pem;
        }}
    }}
"""

HAPROXY = """
global
    nbthread 1
    maxconn 8192
    log stderr format raw local0 info
    stats socket {folder}/stats
defaults
    mode http
    log global
    option httplog
    timeout connect 5s
    timeout client 60s
    timeout server 60s
    http-reuse always
frontend door
    bind 127.0.0.1:{port} backlog 4096
    default_backend origin
backend origin
    http-request set-header Host {name}
    server origin {address}{tls}
"""

HAPROXY_TLS = " ssl verify required ca-file {certificates}/ca.pem sni str({name}) verifyhost {name}"

ENVOY = """
admin: {{ address: {{ pipe: {{ path: {folder}/admin.sock }} }} }}
static_resources:
  listeners:
  - name: door
    address: {{ socket_address: {{ address: 127.0.0.1, port_value: {port} }} }}
    filter_chains:
    - filters:
      - name: envoy.filters.network.http_connection_manager
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
          stat_prefix: door
          access_log:
          - name: envoy.access_loggers.file
            typed_config: {{ "@type": type.googleapis.com/envoy.extensions.access_loggers.file.v3.FileAccessLog, path: {folder}/access.log }}
          http_filters:
          - name: envoy.filters.http.router
            typed_config: {{ "@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router }}
          route_config:
            virtual_hosts:
            - name: origin
              domains: ["*"]
              routes:
              - match: {{ prefix: "/" }}
                route: {{ cluster: origin, host_rewrite_literal: {name} }}
  clusters:
  - name: origin
    connect_timeout: 5s
    circuit_breakers: {{ thresholds: [{{ max_connections: 4096, max_requests: 8192, max_pending_requests: 8192 }}] }}
    load_assignment:
      cluster_name: origin
      endpoints: [{{ lb_endpoints: [{{ endpoint: {{ address: {{ socket_address: {{ address: {host}, port_value: {origin_port} }} }} }} }}] }}]
{tls}
"""

ENVOY_TLS = """    transport_socket:
      name: envoy.transport_sockets.tls
      typed_config:
        "@type": type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext
        sni: {name}
        common_tls_context:
          validation_context:
            trusted_ca: {{ filename: {certificates}/ca.pem }}
            match_typed_subject_alt_names: [{{ san_type: DNS, matcher: {{ exact: {name} }} }}]
"""

KEEPWARM = """
[server]
threads = 1
log = {{ file = "{folder}/log" }}

[admin]
bind = "unix:{folder}/admin.sock"

[upstream.origin]
url = "{scheme}://{address}"
host = "{name}"
bind = "127.0.0.1:{port}"
access_log = {{ file = "{folder}/access.log" }}
{tls}
"""

FRONT = """
    keepalive_requests 1000000;
    upstream php {{ server unix:{folder}/php.sock; keepalive {children}; }}
    server {{
        listen 127.0.0.1:{port} backlog=4096;
        location / {{
            fastcgi_pass php;
            fastcgi_keep_conn on;
            fastcgi_param SCRIPT_FILENAME {script};
            fastcgi_param REQUEST_METHOD $request_method;
            fastcgi_param QUERY_STRING $query_string;
        }}
    }}
"""


class Certificates:
    """A certificate authority, and a certificate for the origin's name, made by openssl."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)

        def openssl(*arguments):
            subprocess.run(["openssl", *arguments], cwd=self.folder, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)

        key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
        openssl("req", "-x509", *key, "-keyout", "ca.key", "-out", "ca.pem", "-days", "30", "-subj", "/CN=Benchmark CA")
        openssl("req", *key, "-keyout", "origin.key", "-out", "origin.csr", "-subj", f"/CN={NAME}")
        (self.folder / "extensions").write_text(f"subjectAltName=DNS:{NAME}\n")
        openssl("x509", "-req", "-in", "origin.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-out", "leaf.pem", "-days", "30",
                "-extfile", "extensions")
        # As a public one is sent: with what signed it.
        (self.folder / "origin.pem").write_bytes((self.folder / "leaf.pem").read_bytes() + (self.folder / "ca.pem").read_bytes())
        for file in self.folder.iterdir():
            file.chmod(0o644)


class Origin(servers.Server):
    """nginx with a small document and a large one, in clear and over TLS."""

    def __init__(self, certificates, processes=1):
        self.tls_port = servers.free_port()

        def command(_keepwarm, port, folder, _target):
            files = folder / "files"
            files.mkdir(mode=0o755)
            (files / "document.json").write_bytes(DOCUMENT)
            (files / "large").write_bytes(os.urandom(1 << 20))
            text = ORIGIN.format(folder=folder, port=port, tls_port=self.tls_port, certificates=certificates.folder)
            return nginx_with(folder, text, "off", processes, 4096)

        super().__init__("origin", command, None, None, DOCUMENT)

    def port_of(self, scheme):
        return self.tls_port if scheme == "https" else self.port


class Relay:
    """Passes bytes to a port of an origin, as late as a distant one would get them."""

    def __init__(self, binary, target, round_trip_ms):
        self.start(target, lambda here, there: [binary, here, there, str(round_trip_ms)])

    def start(self, target, command):
        self.port = servers.free_port()
        self.process = subprocess.Popen(command(f"127.0.0.1:{self.port}", f"127.0.0.1:{target}"), stdin=subprocess.DEVNULL)
        servers.wait_for_port(self.port, self.process)

    def cpu(self):
        return servers.processes_below(self.process.pid)

    def stop(self):
        self.process.terminate()
        self.process.wait(servers.STOP_TIMEOUT)


class Bare(Relay):
    """What the kernel asks of any proxy that lends kept connections, and nothing else: neither HTTP nor TLS."""

    def __init__(self, target):
        self.start(target, lambda here, there: [servers.built("keepwarm-bench-bare"), "proxy", here, there])


class Proxy(servers.Server):
    """One of the proxies, before an origin at this port."""

    def __init__(self, name, scheme, origin_port, certificates, keepwarm_binary):
        def command(keepwarm_binary, port, folder, _target):
            values = {"folder": folder, "port": port, "scheme": scheme, "name": NAME, "host": "127.0.0.1", "origin_port": origin_port,
                      "address": f"127.0.0.1:{origin_port}", "certificates": certificates.folder}
            return PROXIES.get(name, keepwarm)(keepwarm_binary, values)

        super().__init__(name, command, None, keepwarm_binary, DOCUMENT)


class Application(servers.Server):
    """The article's: PHP under php-fpm, that fetches the document with curl from `url`, a new handle for each request as PHP has it."""

    def __init__(self, url, certificates, resolve="", children=100):
        def command(_keepwarm, port, folder, _target):
            script = folder / "fetch.php"
            script.write_text(FETCH)
            script.chmod(0o644)
            front = nginx_with(folder, FRONT.format(folder=folder, port=port, script=script, children=children), "off", connections=4096)
            variables = {"TARGET": url, "RESOLVE": resolve, "CA": f"{certificates.folder}/ca.pem"}
            return ["env", *(f"{name}={value}" for name, value in variables.items()), *together(folder, php_fpm(folder, children), front)]

        super().__init__("application", command, None, None, DOCUMENT)


FETCH = """<?php
$call = curl_init($_SERVER['TARGET']);
curl_setopt_array($call, [CURLOPT_RETURNTRANSFER => true, CURLOPT_CAINFO => $_SERVER['CA'], CURLOPT_TIMEOUT => 20]);
if ($_SERVER['RESOLVE'] !== '') {
    curl_setopt($call, CURLOPT_RESOLVE, [$_SERVER['RESOLVE']]);
}
$body = curl_exec($call);
if ($body === false) {
    http_response_code(502);
    error_log(curl_error($call));
}
header('Content-Type: application/json');
echo $body;
"""


def nginx(_binary, values):
    return nginx_with(values["folder"], NGINX.format(**values), f"{values['folder']}/access.log combined", connections=4096)


def haproxy(_binary, values):
    file = values["folder"] / "haproxy.cfg"
    tls = HAPROXY_TLS.format(**values) if values["scheme"] == "https" else ""
    file.write_text(HAPROXY.format(**values, tls=tls))
    return [shutil.which("haproxy", path=PATH) or "haproxy", "-db", "-f", file]


def envoy(_binary, values):
    file = values["folder"] / "envoy.yaml"
    tls = ENVOY_TLS.format(**values) if values["scheme"] == "https" else ""
    file.write_text(ENVOY.format(**values, tls=tls))
    return [BIN / "envoy", "--concurrency", "1", "--disable-hot-restart", "--log-level", "error", "-c", file]


def keepwarm(binary, values):
    file = values["folder"] / "keepwarm.toml"
    tls = f'ca = "{values["certificates"]}/ca.pem"\nserver_name = "{NAME}"' if values["scheme"] == "https" else ""
    file.write_text(KEEPWARM.format(**values, tls=tls))
    return [binary, "run", "--config", file]


PROXIES = {"keepwarm": keepwarm, "nginx": nginx, "haproxy": haproxy, "envoy": envoy}
