//! A request as the parameters of a script: RFC 3875 §4.1, and what PHP's servers add to it.

use std::os::unix::ffi::OsStrExt;

use keepwarm_http1::{HopByHop, Version, percent_decode};
use keepwarm_net::{Scheme, ServerHandshake};
use keepwarm_serve::{FieldNames, Request};
use keepwarm_wire::encode::EncodeError;
use keepwarm_wire::fastcgi::encode::ParamsWriter;
use keepwarm_wire::fastcgi::record::MAX_CONTENT;

use super::script::{Script, ScriptRoot};
use crate::dispatch::request::split_authority;

/// Whether a request might have a parameter that no record holds; [`encode_params`] tells.
pub(super) fn may_be_too_long(request: &Request) -> bool {
    // Lists are joined: each line costs its separator, too.
    let fields = request.head.fields.iter().chain(request.extra_fields.iter());
    let lines: usize = fields.map(|(name, value)| name.len() + value.len() + 4).sum();
    lines + request.path().len() + request.head.query().unwrap_or_default().len() > MAX_CONTENT / 2
}

/// Appends the parameters as a stream of records. `length`: of the body, measured where it was not declared; `None`: there is no body.
///
/// # Errors
/// One is longer than a record.
pub(super) fn encode_params(
    out: &mut Vec<u8>,
    id: u16,
    request: &Request,
    (root, script): (&ScriptRoot, &Script),
    length: Option<u64>,
) -> Result<(), EncodeError> {
    let mut params = ParamsWriter::begin(out, id);
    encode_script(&mut params, request, root, script);
    encode_request(&mut params, request, script, length);
    encode_ends(&mut params, request);
    encode_fields(&mut params, request);
    params.finish()
}

fn encode_script(params: &mut ParamsWriter<'_>, request: &Request, root: &ScriptRoot, script: &Script) {
    let folder = root.path().as_os_str().as_bytes();
    let mut scratch = Vec::new();
    let mount = request.path().get(..request.mount()).unwrap_or_default();
    // `/blog/index.php`, behind the route's prefix.
    let name: [&[u8]; 3] = [percent_decode(mount, &mut scratch), b"/", &script.name];
    let [before, slash, file] = name;

    params.pair_of(b"SCRIPT_FILENAME", &[folder, slash, file]);
    params.pair_of(b"SCRIPT_NAME", &name);
    params.pair(b"DOCUMENT_ROOT", folder);
    params.pair_of(b"DOCUMENT_URI", &[before, slash, file, &script.path_info]);
    if !script.path_info.is_empty() {
        params.pair(b"PATH_INFO", &script.path_info);
        params.pair_of(b"PATH_TRANSLATED", &[folder, &script.path_info]);
    }
}

fn encode_request(params: &mut ParamsWriter<'_>, request: &Request, script: &Script, length: Option<u64>) {
    let head = &request.head;
    let query = head.query();
    params.pair(b"REQUEST_METHOD", head.method.as_str().as_bytes());
    match query {
        // The path as routes match it, and the query as it came.
        Some(query) => params.pair_of(b"REQUEST_URI", &[request.path(), b"?", query]),
        None => params.pair(b"REQUEST_URI", request.path()),
    }
    let query = query.unwrap_or_default();
    match &script.query {
        None => params.pair(b"QUERY_STRING", query),
        Some(rewritten) => {
            let clients = if rewritten.with_clients { query } else { b"" };
            let both = !rewritten.front.is_empty() && !clients.is_empty();
            let separator: &[u8] = if both { b"&" } else { b"" };
            params.pair_of(b"QUERY_STRING", &[&rewritten.front, separator, clients]);
        }
    }
    params.pair(b"CONTENT_TYPE", head.fields.first("content-type").unwrap_or_default());
    match length {
        Some(length) => params.pair(b"CONTENT_LENGTH", length.to_string().as_bytes()),
        None => params.pair(b"CONTENT_LENGTH", b""),
    }
    let protocol: &[u8] = match head.version {
        // As nginx and Apache name it.
        _ if request.is_http2() => b"HTTP/2.0",
        Version::Http10 => b"HTTP/1.0",
        Version::Http11 => b"HTTP/1.1",
    };
    params.pair(b"SERVER_PROTOCOL", protocol);
    params.pair(b"REQUEST_SCHEME", request.scheme().as_str().as_bytes());
    if request.scheme() == Scheme::Https {
        params.pair(b"HTTPS", b"on");
    }
    if let Some(tls) = &request.peer().tls {
        encode_tls(params, tls);
    }
    params.pair(b"GATEWAY_INTERFACE", b"CGI/1.1");
    params.pair(b"SERVER_SOFTWARE", concat!("keepwarm/", env!("CARGO_PKG_VERSION")).as_bytes());
    // Without it, a php-cgi that was built with `cgi.force_redirect` refuses every request.
    params.pair(b"REDIRECT_STATUS", b"200");
}

/// By the names that Apache's mod_ssl gave them.
fn encode_tls(params: &mut ParamsWriter<'_>, tls: &ServerHandshake) {
    params.pair(b"SSL_PROTOCOL", tls.version.as_bytes());
    params.pair(b"SSL_CIPHER", tls.cipher.as_bytes());
    if let Some(name) = &tls.server_name {
        params.pair(b"SSL_TLS_SNI", name.as_bytes());
    }
    if !tls.asks_clients {
        return;
    }
    let Some(client) = &tls.client else { return params.pair(b"SSL_CLIENT_VERIFY", b"NONE") };
    params.pair(b"SSL_CLIENT_VERIFY", b"SUCCESS");
    params.pair(b"SSL_CLIENT_S_DN", client.subject.as_bytes());
    params.pair(b"SSL_CLIENT_I_DN", client.issuer.as_bytes());
    params.pair(b"SSL_CLIENT_M_SERIAL", client.serial.as_bytes());
}

/// The addresses of client and server.
fn encode_ends(params: &mut ParamsWriter<'_>, request: &Request) {
    let (peer_address, peer_port) = request.peer().client_text();
    let believed = request.notes.forwarded.as_ref().map(|forwarded| forwarded.client.to_string());
    let (client, client_port) = match &believed {
        Some(address) => (address.as_str(), "0"),
        None => (peer_address, peer_port),
    };
    params.pair(b"REMOTE_ADDR", client.as_bytes());
    params.pair(b"REMOTE_PORT", client_port.as_bytes());
    if let Some(user) = &request.notes.routed.user {
        // RFC 3875 §4.1.1, §4.1.11.
        if !request.notes.routed.auth_type.is_empty() {
            params.pair(b"AUTH_TYPE", request.notes.routed.auth_type.as_bytes());
        }
        params.pair(b"REMOTE_USER", user.as_bytes());
    }

    let (name, port) = split_authority(request.head.authority());
    let (address, local_port) = request.peer().local_text();
    params.pair(b"SERVER_ADDR", address.as_bytes());
    let name = match (name.is_empty(), address.is_empty()) {
        (false, _) => name,
        (true, false) => address.as_bytes(),
        (true, true) => b"localhost",
    };
    params.pair(b"SERVER_NAME", name);
    let default = match request.scheme() {
        Scheme::Http => "80",
        Scheme::Https => "443",
    };
    let port = match (port.is_empty(), request.head.authority().is_empty() && !local_port.is_empty()) {
        (false, _) => port,
        (true, true) => local_port.as_bytes(),
        (true, false) => default.as_bytes(),
    };
    params.pair(b"SERVER_PORT", port);
}

/// `HTTP_*`, each name once (RFC 3875 §4.1.18).
fn encode_fields(params: &mut ParamsWriter<'_>, request: &Request) {
    let fields = &request.head.fields;
    let hop_by_hop = HopByHop::of(fields);
    let passes = |name: &[u8]| {
        let ours = matches!(name, b"host" | b"expect" | b"content-type" | b"content-length");
        !ours && !hop_by_hop.removes(name) && !request.drops_field(name, FieldNames::Cgi)
    };
    let mut variable = Vec::with_capacity(64);
    let passing = fields.iter().filter(|(name, _)| passes(name));
    match fields.repeats() {
        true => encode_joined(params, passing, &mut variable),
        false => passing.for_each(|(name, value)| params.pair(http_name(name, &mut variable), value)),
    }
    for (name, value) in request.extra_fields.iter() {
        params.pair(http_name(name, &mut variable), value);
    }
    if !request.head.authority().is_empty() || fields.first("host").is_some() {
        params.pair(b"HTTP_HOST", request.head.authority());
    }
}

/// Fields some of whose names come more than once, each where its name came first.
fn encode_joined<'f>(
    params: &mut ParamsWriter<'_>,
    fields: impl Iterator<Item = (&'f [u8], &'f [u8])>,
    variable: &mut Vec<u8>,
) {
    // Sorted, and not searched for each: there may be thousands, where the limits allow that. The sort is stable: lines of one name keep their order.
    let mut lines: Vec<_> = fields.enumerate().collect();
    lines.sort_by_key(|(_, (name, _))| *name);
    let mut names: Vec<_> = lines.chunk_by(|(_, (a, _)), (_, (b, _))| a == b).collect();
    names.sort_unstable_by_key(|same| same.first().map(|(place, _)| *place));
    let mut joined = Vec::new();
    for same in names {
        let Some((_, (name, first))) = same.first() else { continue };
        // Lists are joined by commas (RFC 9110 §5.3); cookies by semicolons (RFC 9113 §8.2.3).
        let separator: &[u8] = if *name == b"cookie" { b"; " } else { b", " };
        joined.clear();
        joined.extend_from_slice(first);
        for (_, (_, value)) in same.iter().skip(1) {
            joined.extend_from_slice(separator);
            joined.extend_from_slice(value);
        }
        params.pair(http_name(name, variable), &joined);
    }
}

/// `accept-language` as `HTTP_ACCEPT_LANGUAGE`.
fn http_name<'v>(name: &[u8], variable: &'v mut Vec<u8>) -> &'v [u8] {
    variable.clear();
    variable.extend_from_slice(b"HTTP_");
    variable.extend(name.iter().map(|&byte| if byte == b'-' { b'_' } else { byte.to_ascii_uppercase() }));
    variable
}
