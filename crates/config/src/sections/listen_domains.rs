//! `domains` and `redirect_to_https`: HTTPS without further keys.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

use super::listen::ListenDraft;
use super::listen_tls::{TlsDraft, add_names};
use crate::checker::Checker;
use crate::description::Describe;
use crate::key::{Field, Shape};
use crate::model::{Action, Bind, Limits, Redirect, Route, Template, TemplatePiece, Variable};
use crate::raw::{Directive, Span, Table};
use crate::shape::CERTIFICATE_NAMES;

const HTTP: u16 = 80;
const HTTPS: u16 = 443;

/// `domains`
pub(super) struct Domains;

impl Field<ListenDraft> for Domains {
    fn set(&self, listen: &mut ListenDraft, directive: &Directive, cx: &mut Checker<'_>) {
        listen.domains = CERTIFICATE_NAMES.read(directive, cx).map(|names| (names, directive.span));
    }

    fn describe(&self) -> &dyn Describe {
        &CERTIFICATE_NAMES
    }
}

/// Applies `domains` when the whole listener has been read, and checks what it needs.
pub(super) fn finish(listen: &mut ListenDraft, table: &Table, cx: &mut Checker<'_>) {
    if let Some((names, span)) = &listen.domains {
        let tls = listen.tls.get_or_insert_with(TlsDraft::default);
        add_names(&mut tls.acme, names.clone());
        if table.entry("bind").is_none() {
            listen.bind = everywhere(HTTPS, *span);
        }
    } else if table.entry("bind").is_none() && table.entry("domains").is_none() {
        cx.missing(listen.span, "bind = \"0.0.0.0:8080\"").report(cx);
    }
    if let (Some(tls), Some(entry)) = (&listen.tls, table.entry("tls")) {
        tls.check_any(entry, cx);
    }
    let redirects = table.entry("redirect_to_https").filter(|_| listen.redirect_to_https.is_some());
    if let Some(entry) = redirects.filter(|_| listen.tls.is_some()) {
        cx.problem(entry.key_span, format!("`{}` has TLS, and redirects to HTTPS", cx.name()))
            .key("listen.NAME.redirect_to_https")
            .expected("a listener without TLS, beside the one with TLS")
            .report(cx);
    }
}

fn everywhere(port: u16, span: Span) -> Vec<(Bind, Span)> {
    let bind = |address: SocketAddr| (Bind::Tcp(address), span);
    vec![bind((Ipv4Addr::UNSPECIFIED, port).into()), bind((Ipv6Addr::UNSPECIFIED, port).into())]
}

/// The listeners that redirect HTTP to those with `domains`, unless another one has port 80.
pub(crate) fn implied(listeners: &[ListenDraft], limits: &Limits) -> Vec<ListenDraft> {
    let port = |bind: &Bind| match bind {
        Bind::Tcp(address) => Some(address.port()),
        Bind::Host { port, .. } => Some(*port),
        Bind::Unix(_) => None,
    };
    if listeners.iter().flat_map(|listen| &listen.bind).any(|(bind, _)| port(bind) == Some(HTTP)) {
        return Vec::new();
    }
    let mut taken: Vec<Bind> = Vec::new();
    let mut implied = Vec::new();
    for listen in listeners {
        let Some((_, span)) = listen.domains else { continue };
        let to_http = |(bind, _): &(Bind, Span)| match bind {
            Bind::Tcp(address) if address.port() == HTTPS => {
                Some(Bind::Tcp(SocketAddr::new(address.ip(), HTTP)))
            }
            Bind::Host { host, port: HTTPS } => Some(Bind::Host { host: host.clone(), port: HTTP }),
            _ => None,
        };
        let binds = listen.bind.iter().filter_map(to_http).filter(|bind| !taken.contains(bind));
        let binds: Vec<Bind> = binds.collect();
        if binds.is_empty() {
            continue;
        }
        taken.extend(binds.iter().cloned());
        let mut http = ListenDraft::new(&http_name(&listen.name), listen.span, limits.clone());
        http.bind = binds.into_iter().map(|bind| (bind, span)).collect();
        http.access_log.clone_from(&listen.access_log);
        http.redirect_to_https = Some(HTTPS);
        implied.push(http);
    }
    implied
}

/// Not a name that a section can have.
fn http_name(name: &str) -> String {
    format!("{name}:http")
}

/// The route of a listener that redirects, after its own.
pub(crate) fn redirect(port: u16, body: Option<u64>) -> Route {
    let text = |text: String| TemplatePiece::Text(text);
    let port = if port == HTTPS { String::new() } else { format!(":{port}") };
    let to = vec![
        text("https://".to_owned()),
        TemplatePiece::Variable(Variable::HostName),
        text(port),
        TemplatePiece::Variable(Variable::Path),
        TemplatePiece::Variable(Variable::Query),
    ];
    let to = to.into_iter().filter(|piece| *piece != text(String::new())).collect();
    Route::to(Action::Redirect(Redirect { to: Template(to), status: 308 }), body)
}
