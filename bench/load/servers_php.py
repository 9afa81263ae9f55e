"""PHP: Keepwarm's workers, and the servers they are compared with. Opcache is on everywhere, and so many processes run PHP everywhere."""

import os
import pathlib
import shlex

from servers import APPS, PATH, nginx_with

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent

NGINX = """
    upstream php {{ server unix:{folder}/php.sock; {keep} }}
    server {{
        listen 127.0.0.1:{port};
        root {apps};
        location / {{
            fastcgi_pass php;
            fastcgi_keep_conn {kept};
            # nginx's own fastcgi.conf
            fastcgi_param SCRIPT_FILENAME $document_root/{script};
            fastcgi_param QUERY_STRING $query_string;
            fastcgi_param REQUEST_METHOD $request_method;
            fastcgi_param CONTENT_TYPE $content_type;
            fastcgi_param CONTENT_LENGTH $content_length;
            fastcgi_param SCRIPT_NAME /{script};
            fastcgi_param REQUEST_URI $request_uri;
            fastcgi_param DOCUMENT_URI $document_uri;
            fastcgi_param DOCUMENT_ROOT $document_root;
            fastcgi_param SERVER_PROTOCOL $server_protocol;
            fastcgi_param REQUEST_SCHEME $scheme;
            fastcgi_param HTTPS $https if_not_empty;
            fastcgi_param GATEWAY_INTERFACE CGI/1.1;
            fastcgi_param SERVER_SOFTWARE nginx/$nginx_version;
            fastcgi_param REMOTE_ADDR $remote_addr;
            fastcgi_param REMOTE_PORT $remote_port;
            fastcgi_param SERVER_ADDR $server_addr;
            fastcgi_param SERVER_PORT $server_port;
            fastcgi_param SERVER_NAME $server_name;
            fastcgi_param REDIRECT_STATUS 200;
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
    """Keepwarm in front of a php-fpm that runs already: the same as nginx has."""

    def command(keepwarm_binary, port, folder, _target):
        file = classic_config(port, folder, script, processes, f'address = "unix:{folder}/php.sock"\n')
        return together(folder, php_fpm(folder, processes), [keepwarm_binary, "run", "--config", file])

    return command


def classic_own(processes, script):
    """Keepwarm with a php-fpm of its own, as it configures it."""

    def command(keepwarm_binary, port, folder, _target):
        more = f'interpreter = "{newest("php-fpm")}"\noptions = ["-d", "opcache.enable=1"]\n'
        return [keepwarm_binary, "run", "--config", classic_config(port, folder, script, processes, more)]

    return command


def classic_config(port, folder, script, processes, more):
    file = folder / "keepwarm.toml"
    file.write_text(
        f'[server]\nthreads = 1\n\n[listen.public]\nbind = "127.0.0.1:{port}"\n\n'
        # Without `try_files`: nginx is not asked to look for files either.
        f'[[listen.public.route]]\napp = "php"\n\n'
        f'[app.php]\nkind = "fastcgi"\nentry = "{script}"\ndirectory = "{APPS}"\nworkers = {processes}\n{more}'
    )
    return file


def fpm(processes, script, kept=True):
    """nginx in front of php-fpm, and the parameters that nginx's own `fastcgi.conf` names. `kept`: with kept connections between them, of which each holds a
    process: clients beyond those have to wait for as long as the others go on. Else, as nginx does unless it is told, with a connection for each request."""

    def command(_keepwarm_binary, port, folder, _target):
        keep, on = (f"keepalive {processes};", "on") if kept else ("", "off")
        config = NGINX.format(port=port, folder=folder, script=script, apps=APPS, keep=keep, kept=on)
        return together(folder, php_fpm(folder, processes), nginx_with(folder, config))

    return command


def php_fpm(folder, processes):
    (folder / "cache").mkdir()
    (folder / "cache").chmod(0o777)
    user = "root" if os.getuid() == 0 else "nobody"
    (folder / "fpm.conf").write_text(FPM.format(folder=folder, processes=processes, user=user))
    run_as_root = ["-R"] if os.getuid() == 0 else []
    return [newest("php-fpm"), "-F", *run_as_root, "-y", folder / "fpm.conf", "-d", "opcache.enable=1"]


def together(folder, *commands):
    """Servers as one process with children, which ends them by their ids: php-fpm leads a session of its own."""
    lines = " ".join(f"{shlex.join(map(str, one))} & all=\"$all $!\";" for one in commands)
    return ["sh", "-c", f"export APP_ENV=prod APP_CACHE_DIR={folder}/cache; {lines} trap 'kill $all' TERM; wait"]


def built_in(processes, script):
    """`php -S`, PHP's own server for development."""

    def command(_keepwarm_binary, port, folder, _target):
        # Its first process serves beside those that it forks, and it forks none or at least two.
        workers = f"PHP_CLI_SERVER_WORKERS={processes - 1}" if processes > 1 else ""
        php = shlex.join(["php", "-d", "opcache.enable_cli=1", "-S", f"127.0.0.1:{port}", str(APPS / script)])
        return ["sh", "-c", f"export APP_ENV=prod APP_CACHE_DIR={folder}/cache {workers}; exec {php}"]

    return command


def newest(program):
    """`php-fpm8.2` where there is no `php-fpm`."""
    found = [one for folder in PATH.split(":") for one in pathlib.Path(folder or ".").glob(program + "*") if os.access(one, os.X_OK)]
    return max(found, key=lambda one: one.name) if found else program
