"""PHP: Keepwarm's workers, and the servers they are compared with. Opcache is on everywhere, and so many processes run PHP everywhere."""

import os
import pathlib
import shlex
import shutil

from servers import APPS

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
PATH = os.environ["PATH"] + ":/usr/sbin:/sbin"

NGINX = """
daemon off;
worker_processes 1;
pid {folder}/nginx.pid;
error_log stderr;
events {{ worker_connections 1024; }}
http {{
    access_log /dev/null combined;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    upstream php {{ server unix:{folder}/php.sock; keepalive 16; }}
    server {{
        listen 127.0.0.1:{port};
        location / {{
            fastcgi_pass php;
            fastcgi_keep_conn on;
            fastcgi_param SCRIPT_FILENAME {script};
            fastcgi_param SCRIPT_NAME /{name};
            fastcgi_param REQUEST_METHOD $request_method;
            fastcgi_param REQUEST_URI $request_uri;
            fastcgi_param QUERY_STRING $query_string;
            fastcgi_param CONTENT_TYPE $content_type;
            fastcgi_param CONTENT_LENGTH $content_length;
            fastcgi_param SERVER_PROTOCOL $server_protocol;
            fastcgi_param SERVER_NAME $server_name;
            fastcgi_param SERVER_PORT $server_port;
            fastcgi_param REMOTE_ADDR $remote_addr;
            fastcgi_param DOCUMENT_ROOT {apps};
        }}
    }}
}}
"""

FPM = """
[global]
daemonize = no
error_log = /dev/stderr
[www]
user = {user}
group = {user}
listen = {folder}/php.sock
listen.mode = 0666
pm = static
pm.max_children = {processes}
clear_env = no
"""


def keepwarm(processes, entry, directory=APPS):
    def command(keepwarm_binary, port, folder, _target):
        file = folder / "keepwarm.toml"
        file.write_text(
            f'[server]\nthreads = 1\n\n[listen.public]\nbind = "127.0.0.1:{port}"\n\n'
            f'[app.php]\nentry = "{entry}"\ndirectory = "{directory}"\nworkers = {processes}\n'
            f'env = {{ APP_ENV = "prod", APP_CACHE_DIR = "{folder}/cache" }}\n'
        )
        return [keepwarm_binary, "run", "--config", file]

    return command


def classic(processes, script):
    """Keepwarm in front of the same php-fpm."""

    def command(keepwarm_binary, port, folder, _target):
        file = folder / "keepwarm.toml"
        file.write_text(
            f'[server]\nthreads = 1\n\n[listen.public]\nbind = "127.0.0.1:{port}"\n\n'
            # Without `try_files`: nginx is not asked to look for files either.
            f'[[listen.public.route]]\napp = "php"\n\n'
            f'[app.php]\nkind = "fastcgi"\nentry = "{script}"\ndirectory = "{APPS}"\nworkers = {processes}\n'
            f'interpreter = "{newest("php-fpm")}"\noptions = ["-d", "opcache.enable=1"]\n'
        )
        return [keepwarm_binary, "run", "--config", file]

    return command


def fpm(processes, script):
    """nginx in front of php-fpm, with kept connections between them."""

    def command(_keepwarm_binary, port, folder, _target):
        (folder / "cache").mkdir()
        (folder / "cache").chmod(0o777)
        (folder / "nginx.conf").write_text(NGINX.format(port=port, folder=folder, script=APPS / script, name=script, apps=APPS))
        user = "root" if os.getuid() == 0 else "nobody"
        (folder / "fpm.conf").write_text(FPM.format(folder=folder, processes=processes, user=user))
        run_as_root = ["-R"] if os.getuid() == 0 else []
        php = [newest("php-fpm"), "-F", *run_as_root, "-y", folder / "fpm.conf", "-d", "opcache.enable=1"]
        nginx = [shutil.which("nginx", path=PATH) or "nginx", "-p", folder, "-c", folder / "nginx.conf"]
        lines = " & ".join(shlex.join(map(str, one)) for one in (php, nginx))
        return ["sh", "-c", f"export APP_ENV=prod APP_CACHE_DIR={folder}/cache; trap 'kill 0' TERM; {lines} & wait"]

    return command


def built_in(processes, script):
    """`php -S`, PHP's own server for development."""

    def command(_keepwarm_binary, port, folder, _target):
        workers = f"PHP_CLI_SERVER_WORKERS={processes}" if processes > 1 else ""
        php = shlex.join(["php", "-d", "opcache.enable_cli=1", "-S", f"127.0.0.1:{port}", str(APPS / script)])
        return ["sh", "-c", f"export APP_ENV=prod APP_CACHE_DIR={folder}/cache {workers}; exec {php}"]

    return command


def newest(program):
    """`php-fpm8.2` where there is no `php-fpm`."""
    found = [one for folder in PATH.split(":") for one in pathlib.Path(folder or ".").glob(program + "*") if os.access(one, os.X_OK)]
    return max(found, key=lambda one: one.name) if found else program
