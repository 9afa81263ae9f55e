"""Runs a gunicorn.conf.py and prints what it sets: a JSON list of [name, value, line]. Needs no gunicorn."""

import ast
import json
import os
import sys

path = sys.argv[1]
with open(path, encoding="utf-8") as file:
    text = file.read()
os.chdir(os.path.dirname(os.path.abspath(path)))
sys.path.insert(0, os.getcwd())
names = {"__builtins__": __builtins__, "__name__": "__config__", "__file__": path, "__doc__": None, "__package__": None}
known = set(names)
exec(compile(text, path, "exec"), names)

lines = {}
for node in ast.walk(ast.parse(text)):
    if isinstance(node, ast.Assign):
        targets = [target for target in node.targets if isinstance(target, ast.Name)]
    elif isinstance(node, (ast.AnnAssign, ast.AugAssign)) and isinstance(node.target, ast.Name):
        targets = [node.target]
    else:
        targets = []
    for target in targets:
        lines[target.id] = node.lineno
    if isinstance(node, ast.FunctionDef):
        lines[node.name] = node.lineno


def plain(value):
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, (list, tuple)):
        return [str(item) for item in value]
    return str(value)


SETTINGS = """
accesslog access_log_format backlog bind ca_certs capture_output cert_reqs certfile chdir check_config ciphers config daemon
default_proc_name dirty_workers do_handshake_on_connect dogstatsd_tags enable_stdio_inheritance errorlog forwarded_allow_ips
graceful_timeout group initgroups keepalive keyfile limit_request_field_size limit_request_fields limit_request_line logconfig
logconfig_dict logger_class loglevel max_requests max_requests_jitter paste pidfile preload_app print_config proc_name
proxy_allow_ips proxy_protocol pythonpath raw_env reload reload_engine reload_extra_files reuse_port secure_scheme_headers
sendfile spew ssl_version statsd_host statsd_prefix strip_header_spaces suppress_ragged_eofs syslog syslog_addr
syslog_facility syslog_prefix threads timeout tmp_upload_dir umask user worker_class worker_connections worker_tmp_dir
workers wsgi_app when_ready on_starting on_reload pre_fork post_fork post_worker_init worker_int worker_abort pre_exec
pre_request post_request child_exit worker_exit nworkers_changed on_exit forwarder_headers header_map
""".split()
found = [[name, True if callable(value) else plain(value), lines.get(name, 1)]
         for name, value in names.items() if name in SETTINGS and name not in known]
print()
print(json.dumps(found))
