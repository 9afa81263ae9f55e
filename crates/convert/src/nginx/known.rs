//! Directives of nginx, and what becomes of those that no code looks at.

/// What becomes of a directive.
pub(super) enum Disposition {
    /// It has no meaning for Keepwarm, or Keepwarm does so anyway.
    Ignored(&'static str),
    Differs(&'static str),
    /// No access rule, limit, rewrite or certificate: why, and what to do.
    Dropped(&'static str, &'static str),
    /// What may be one.
    Lost(&'static str, &'static str),
    /// It is converted where it has an effect.
    Converted,
    Unknown,
}

use Disposition::{Converted, Differs, Dropped, Ignored, Lost};

const PROCESS: &str = "processes and their limits are Keepwarm's own";
const BUFFERS: &str = "Keepwarm sizes its buffers itself";
const SOCKETS: &str = "Keepwarm sets the options of its sockets itself";
const TLS: &str = "Keepwarm's TLS settings are those of Mozilla's recommendations (`tls.profile`)";
const NO_CACHE: &str = "Keepwarm has no cache";
const CACHE_TODO: &str = "let clients cache by `Cache-Control`, or keep a cache in front";

/// The disposition of a directive by its name.
pub(super) fn disposition(name: &str) -> Disposition {
    match name {
        "worker_processes"
        | "worker_connections"
        | "worker_cpu_affinity"
        | "worker_rlimit_nofile"
        | "pid"
        | "daemon"
        | "master_process"
        | "events"
        | "use"
        | "multi_accept"
        | "accept_mutex"
        | "accept_mutex_delay"
        | "worker_priority"
        | "worker_shutdown_timeout"
        | "worker_rlimit_core"
        | "working_directory"
        | "thread_pool"
        | "lock_file"
        | "pcre_jit"
        | "debug_connection"
        | "timer_resolution"
        | "worker_aio_requests"
        | "env" => Ignored(PROCESS),
        "user" => Ignored(
            "Keepwarm keeps the user that it was started as; `user` of an app or `server.user` is that of workers",
        ),
        "load_module" => Ignored("Keepwarm has no modules; directives of the module are reported"),
        "sendfile"
        | "sendfile_max_chunk"
        | "aio"
        | "aio_write"
        | "directio"
        | "directio_alignment"
        | "output_buffers"
        | "postpone_output"
        | "read_ahead"
        | "open_file_cache"
        | "open_file_cache_valid"
        | "open_file_cache_min_uses"
        | "open_file_cache_errors"
        | "disable_symlinks" => Ignored("Keepwarm reads and sends files in its own way"),
        "tcp_nopush"
        | "tcp_nodelay"
        | "reset_timedout_connection"
        | "lingering_close"
        | "lingering_time"
        | "lingering_timeout"
        | "keepalive_disable"
        | "proxy_socket_keepalive"
        | "fastcgi_socket_keepalive"
        | "keepalive_min_timeout" => Ignored(SOCKETS),
        "client_body_buffer_size"
        | "client_header_buffer_size"
        | "client_body_in_file_only"
        | "client_body_in_single_buffer"
        | "client_body_temp_path"
        | "proxy_buffers"
        | "proxy_buffer_size"
        | "proxy_busy_buffers_size"
        | "proxy_temp_path"
        | "proxy_temp_file_write_size"
        | "proxy_max_temp_file_size"
        | "proxy_headers_hash_max_size"
        | "proxy_headers_hash_bucket_size"
        | "fastcgi_buffers"
        | "fastcgi_buffer_size"
        | "fastcgi_busy_buffers_size"
        | "fastcgi_temp_path"
        | "fastcgi_temp_file_write_size"
        | "fastcgi_max_temp_file_size"
        | "uwsgi_temp_path"
        | "scgi_temp_path"
        | "types_hash_max_size"
        | "types_hash_bucket_size"
        | "server_names_hash_bucket_size"
        | "server_names_hash_max_size"
        | "variables_hash_max_size"
        | "variables_hash_bucket_size"
        | "map_hash_bucket_size"
        | "map_hash_max_size"
        | "gzip_buffers"
        | "large_client_header_buffers_size"
        | "connection_pool_size"
        | "request_pool_size"
        | "subrequest_output_buffer_size"
        | "grpc_buffer_size"
        | "http2_max_concurrent_streams"
        | "http2_body_preread_size"
        | "http2_chunk_size"
        | "http2_recv_buffer_size"
        | "proxy_http_version"
        | "fastcgi_keep_conn"
        | "zone"
        | "hash_max_size" => Ignored(BUFFERS),
        "server_tokens"
        | "server_name_in_redirect"
        | "port_in_redirect"
        | "absolute_redirect"
        | "log_not_found"
        | "log_subrequest"
        | "open_log_file_cache"
        | "rewrite_log"
        | "uninitialized_variable_warn"
        | "msie_padding"
        | "msie_refresh"
        | "max_ranges"
        | "chunked_transfer_encoding"
        | "charset"
        | "charset_types"
        | "override_charset"
        | "source_charset"
        | "chunkin"
        | "recursive_error_pages"
        | "auth_delay"
        | "keepalive_time" => Ignored("it makes no difference here"),
        "default_type" | "types" => {
            Ignored("Keepwarm knows the types of files by their extensions; `file_headers` sets others")
        }
        "merge_slashes" => {
            Ignored("`//` stays as it is; where it could lead to another route, the response is 400")
        }
        "resolver_timeout" => Ignored("lookups are made in advance"),
        "gzip_vary" | "gzip_http_version" | "gzip_proxied" | "gzip_disable" | "gzip_static"
        | "gzip_window" | "gzip_hash" | "gzip_no_buffer" | "gunzip" | "brotli_static" | "brotli_window"
        | "brotli_buffers" | "zstd_static" => {
            Ignored("Keepwarm does what is right for each client (docs/guide/compression.md)")
        }
        "ssl_session_cache"
        | "ssl_session_timeout"
        | "ssl_session_tickets"
        | "ssl_session_ticket_key"
        | "ssl_buffer_size"
        | "ssl_dhparam"
        | "ssl_ecdh_curve"
        | "ssl_prefer_server_ciphers"
        | "ssl_verify_depth"
        | "ssl_early_data"
        | "ssl_conf_command"
        | "proxy_ssl_session_reuse"
        | "proxy_ssl_verify_depth"
        | "ssl_trusted_certificate"
        | "ssl_ocsp"
        | "ssl" => Ignored(TLS),
        "ssl_ciphers" | "proxy_ssl_ciphers" => Differs(
            "cipher suites are those of `tls.profile`: forward secrecy and authenticated encryption only",
        ),
        "ssl_stapling" | "ssl_stapling_verify" | "ssl_stapling_file" | "ssl_stapling_responder" => {
            Differs("responses of OCSP are stapled from a file (`tls.ocsp`), not fetched")
        }
        "error_log" => {
            Differs("Keepwarm logs to standard error; `server.log.file` and `server.log.level` change that")
        }
        "client_body_timeout" => {
            Differs("slow bodies are limited by their rate (`limits.body_rate`, 500 bytes a second)")
        }
        "ssl_handshake_timeout" => Ignored(TLS),
        "proxy_send_timeout" | "fastcgi_send_timeout" | "fastcgi_connect_timeout" | "grpc_send_timeout" => {
            Ignored(
                "`timeouts.idle` of the upstream bounds both directions, `request_timeout` an app's requests",
            )
        }
        "proxy_cache"
        | "proxy_cache_path"
        | "proxy_cache_key"
        | "proxy_cache_valid"
        | "proxy_cache_bypass"
        | "proxy_no_cache"
        | "proxy_cache_use_stale"
        | "proxy_cache_lock"
        | "proxy_cache_lock_timeout"
        | "proxy_cache_background_update"
        | "proxy_cache_revalidate"
        | "proxy_cache_min_uses"
        | "proxy_cache_methods"
        | "proxy_cache_lock_age"
        | "proxy_cache_purge"
        | "fastcgi_cache"
        | "fastcgi_cache_path"
        | "fastcgi_cache_key"
        | "fastcgi_cache_valid"
        | "fastcgi_cache_bypass"
        | "fastcgi_no_cache"
        | "fastcgi_cache_use_stale"
        | "fastcgi_cache_lock"
        | "fastcgi_cache_background_update"
        | "fastcgi_cache_min_uses"
        | "fastcgi_cache_methods"
        | "fastcgi_cache_purge"
        | "fastcgi_cache_revalidate" => Dropped(NO_CACHE, CACHE_TODO),
        "proxy_ignore_headers" | "fastcgi_ignore_headers" | "proxy_pass_header" | "fastcgi_pass_header" => {
            Ignored("Keepwarm has no cache, and `X-Accel-*` of upstreams has no effect")
        }
        "stub_status" => {
            Dropped("Keepwarm has its own metrics", "set `admin.bind` and read /metrics or `keepwarm status`")
        }
        "etag" | "if_modified_since" => Differs("files always have validators"),
        "proxy_cookie_path" | "proxy_cookie_domain" | "proxy_cookie_flags" => {
            Dropped("Keepwarm passes cookies on unchanged", "let the app set the right path and domain")
        }
        "sub_filter"
        | "sub_filter_once"
        | "sub_filter_types"
        | "sub_filter_last_modified"
        | "add_before_body"
        | "add_after_body"
        | "ssi"
        | "ssi_types"
        | "image_filter"
        | "xslt_stylesheet"
        | "slice"
        | "mp4"
        | "flv"
        | "random_index"
        | "empty_gif"
        | "concat"
        | "fancyindex"
        | "fancyindex_exact_size" => Dropped("Keepwarm does not change bodies", "let the app do it"),
        "autoindex_exact_size" | "autoindex_localtime" | "autoindex_format" => {
            Ignored("listings are HTML, or JSON for clients that prefer it")
        }
        "http3" | "http3_hq" | "quic_retry" | "quic_gso" | "http3_stream_buffer_size" => {
            Dropped("Keepwarm has no HTTP/3", "nothing: clients use HTTP/2")
        }
        "proxy_bind" | "fastcgi_bind" | "proxy_store" | "proxy_store_access" | "proxy_method"
        | "proxy_force_ranges" => Dropped("Keepwarm has no such setting", "find out whether it is needed"),
        "mirror" | "mirror_request_body" => {
            Dropped("copies of requests are `mirror` of a route", "write it by hand (docs/guide/canary.md)")
        }
        "proxy_set_body"
        | "add_trailer"
        | "proxy_pass_request_body"
        | "proxy_pass_request_headers"
        | "fastcgi_pass_request_headers" => {
            Dropped("Keepwarm passes requests and responses on as they are", "let the app do it")
        }
        "post_action" => Dropped("Keepwarm has no such setting", "let the app do it"),
        "limit_rate" | "limit_rate_after" | "proxy_limit_rate" => Lost(
            "Keepwarm does not limit the speed of responses",
            "limit it in the network, or the requests by `concurrency`",
        ),
        "stream" => {
            Lost("Keepwarm serves HTTP, and no other streams", "keep nginx or HAProxy for these ports")
        }
        "mail" => Lost("Keepwarm serves HTTP only", "keep nginx for mail"),
        "perl" | "perl_set" | "perl_modules" | "js_import" | "js_content" | "js_set" | "js_access" => Lost(
            "programs in the configuration are not run",
            "move it into the app, or into a service for `auth_request`",
        ),
        "valid_referers" | "secure_link" | "secure_link_md5" | "secure_link_secret" => Lost(
            "Keepwarm has no condition on signed links, nor on referers but by `if ($invalid_referer)`",
            "let the app, or `auth_request`, decide",
        ),
        "dav_methods" | "dav_access" | "dav_ext_methods" | "create_full_put_path" | "min_delete_depth" => {
            Lost("Keepwarm does not write files for clients", "use an app for WebDAV")
        }
        "geo" | "split_clients" => Lost("Keepwarm has no such variable", "use `client` or `split` of routes"),
        name if name.ends_with("_by_lua_block")
            || name.ends_with("_by_lua_file")
            || name.ends_with("_by_lua") =>
        {
            Lost(
                "programs in the configuration are not run",
                "move it into the app, or into a service for `auth_request`",
            )
        }
        name if name.starts_with("lua_") || name.starts_with("init_by") => Ignored("there is no Lua here"),
        "http"
        | "server"
        | "location"
        | "upstream"
        | "listen"
        | "server_name"
        | "root"
        | "alias"
        | "index"
        | "try_files"
        | "fastcgi_pass"
        | "fastcgi_param"
        | "fastcgi_index"
        | "fastcgi_split_path_info"
        | "fastcgi_read_timeout"
        | "fastcgi_intercept_errors"
        | "fastcgi_hide_header"
        | "fastcgi_buffering"
        | "fastcgi_request_buffering"
        | "fastcgi_next_upstream"
        | "fastcgi_ignore_client_abort"
        | "proxy_pass"
        | "proxy_set_header"
        | "proxy_read_timeout"
        | "proxy_connect_timeout"
        | "proxy_redirect"
        | "proxy_hide_header"
        | "proxy_intercept_errors"
        | "proxy_next_upstream"
        | "proxy_next_upstream_tries"
        | "proxy_next_upstream_timeout"
        | "proxy_buffering"
        | "proxy_request_buffering"
        | "proxy_ssl_verify"
        | "proxy_ssl_trusted_certificate"
        | "proxy_ssl_certificate"
        | "proxy_ssl_certificate_key"
        | "proxy_ssl_server_name"
        | "proxy_ssl_name"
        | "proxy_ssl_protocols"
        | "proxy_ignore_client_abort"
        | "grpc_pass"
        | "grpc_set_header"
        | "grpc_read_timeout"
        | "grpc_connect_timeout"
        | "grpc_ssl_verify"
        | "grpc_ssl_trusted_certificate"
        | "uwsgi_pass"
        | "scgi_pass"
        | "memcached_pass"
        | "uwsgi_param"
        | "uwsgi_read_timeout"
        | "return"
        | "rewrite"
        | "if"
        | "set"
        | "break"
        | "map"
        | "limit_req_zone"
        | "limit_req"
        | "limit_req_status"
        | "limit_req_log_level"
        | "limit_req_dry_run"
        | "limit_conn_zone"
        | "limit_conn"
        | "limit_conn_status"
        | "limit_conn_log_level"
        | "limit_except"
        | "client_max_body_size"
        | "allow"
        | "deny"
        | "satisfy"
        | "auth_basic"
        | "auth_basic_user_file"
        | "auth_request"
        | "auth_request_set"
        | "error_page"
        | "add_header"
        | "expires"
        | "gzip"
        | "gzip_types"
        | "gzip_min_length"
        | "gzip_comp_level"
        | "brotli"
        | "brotli_types"
        | "brotli_comp_level"
        | "brotli_min_length"
        | "zstd"
        | "ssl_certificate"
        | "ssl_certificate_key"
        | "ssl_protocols"
        | "ssl_client_certificate"
        | "ssl_verify_client"
        | "ssl_crl"
        | "ssl_password_file"
        | "ssl_reject_handshake"
        | "http2"
        | "access_log"
        | "log_format"
        | "client_header_timeout"
        | "send_timeout"
        | "keepalive_timeout"
        | "keepalive_requests"
        | "large_client_header_buffers"
        | "resolver"
        | "autoindex"
        | "set_real_ip_from"
        | "real_ip_header"
        | "real_ip_recursive"
        | "underscores_in_headers"
        | "ignore_invalid_headers"
        | "internal"
        | "keepalive"
        | "ip_hash"
        | "least_conn"
        | "hash"
        | "random" => Converted,
        _ => Disposition::Unknown,
    }
}
