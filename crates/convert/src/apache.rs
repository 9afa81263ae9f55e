//! Apache HTTP Server: virtual hosts, or fragments of `conf-available`.

mod rewrite;
mod site;
mod syntax;

use std::path::PathBuf;

use self::syntax::{Node, parse};
use crate::Error;
use crate::files::Files;
use crate::fpm::Pool;
use crate::ledger::Ledger;
use crate::model::Model;

/// Directives that have no meaning for Keepwarm.
const IGNORED: &[&str] = &[
    "loadmodule",
    "mutex",
    "pidfile",
    "user",
    "group",
    "hostnamelookups",
    "loglevel",
    "serverroot",
    "servertokens",
    "serversignature",
    "traceenable",
    "defaultruntimedir",
    "accessfilename",
    "serveradmin",
    "usecanonicalname",
    "keepalive",
    "startservers",
    "minsparethreads",
    "maxsparethreads",
    "threadlimit",
    "threadsperchild",
    "maxrequestworkers",
    "maxconnectionsperchild",
    "minspareservers",
    "maxspareservers",
    "serverlimit",
    "maxclients",
    "maxrequestsperchild",
    "typesconfig",
    "addtype",
    "addencoding",
    "addlanguage",
    "addcharset",
    "adddefaultcharset",
    "languagepriority",
    "forcelanguagepriority",
    "defaulticon",
    "addicon",
    "addiconbytype",
    "addiconbyencoding",
    "indexoptions",
    "readmename",
    "headername",
    "indexignore",
    "addoutputfilter",
    "addhandler",
    "browsermatch",
    "browsermatchnocase",
    "sslsessioncache",
    "sslsessioncachetimeout",
    "sslciphersuite",
    "sslhonorcipherorder",
    "sslrandomseed",
    "sslpassphrasedialog",
    "ssloptions",
    "sslcompression",
    "sslsessiontickets",
    "ssluserstapling",
    "sslstaplingcache",
    "rewriteengine",
    "rewritelogfile",
    "rewritebase",
    "allowoverride",
    "mimemagicfile",
    "setenvifnocase",
    "proxyrequests",
    "proxyvia",
    "enablesendfile",
    "enablemmap",
    "contentdigest",
    "extendedstatus",
    "statusreadlimit",
    "deflatecompressionlevel",
    "deflatememlevel",
    "deflatewindowsize",
    "deflatefilternote",
    "protocols",
    "h2push",
    "h2direct",
    "h2upgrade",
    "listenbacklog",
    "acceptfilter",
    "acceptpathinfo",
    "directoryslash",
    "fileetag",
    "allowencodedslashes",
    "scriptsock",
    "sslverifydepth",
    "sslstaplingresponsemaxage",
    "define",
    "undefine",
    "removetype",
    "removehandler",
    "removeencoding",
    "proxystatus",
    "sslopensslconfcmd",
    "h2maxsessionstreams",
    "deflatebuffersize",
];

pub(crate) fn read(
    paths: &[PathBuf],
    files: &Files,
    pools: &[Pool],
    model: &mut Model,
    ledger: &mut Ledger,
) -> Result<(), Error> {
    let mut nodes = Vec::new();
    for path in paths {
        nodes.extend(parse(path, files, ledger)?);
    }
    let before = model.sites.len();
    let reader = site::Reader { files, pools, model, ledger, global: &nodes };
    reader.read();
    if model.sites.len() == before {
        let names: Vec<String> = paths.iter().map(|path| files.shown(path)).collect();
        return Err(Error::new(format!(
            "{}: there is no <VirtualHost>, DocumentRoot, Alias, ProxyPass or Redirect, so there is nothing to serve",
            names.join(", ")
        )));
    }
    settle_rest(&nodes, ledger);
    Ok(())
}

/// Settles what no code has looked at.
fn settle_rest(nodes: &[Node], ledger: &mut Ledger) {
    for node in nodes {
        let name = node.name.as_str();
        if !ledger.is_settled(node.origin) {
            match name {
                "errorlog" | "errorlogformat" => ledger
                    .differs(node.origin, "Keepwarm logs to standard error; `server.log.file` changes that"),
                "customlog" | "logformat" | "transferlog" => ledger.differs(
                    node.origin,
                    "requests are logged to standard output (`access_log` of the listener)",
                ),
                "timeout" | "keepalivetimeout" | "maxkeepaliverequests" | "requestreadtimeout" => {
                    ledger.differs(node.origin, "Keepwarm's own limits apply (`limits` of the listener)");
                }
                "setenv" | "passenv" | "envvars" | "setenvif" | "unsetenv" => ledger
                    .differs(node.origin, "apps have variables of the environment (`env`), and no others"),
                "expiresactive" | "expiresbytype" | "expiresdefault" => {
                    ledger.dropped(
                        node.origin,
                        "`Cache-Control` of files is `file_headers` or `immutable`",
                        "set them on the route",
                    );
                }
                "options"
                | "directoryindex"
                | "documentroot"
                | "servername"
                | "serveralias"
                | "listen"
                | "sslprotocol"
                | "order"
                | "satisfy"
                | "alias"
                | "virtualhost"
                | "directory"
                | "ifmodule"
                | "ifdefine"
                | "ifversion"
                | "files"
                | "filesmatch"
                | "location"
                | "locationmatch"
                | "directorymatch"
                | "sslengine"
                | "sslcertificatefile"
                | "sslcertificatekeyfile"
                | "php_value"
                | "php_flag"
                | "php_admin_value"
                | "php_admin_flag"
                | "sethandler"
                | "namevirtualhost"
                | "addoutputfilterbytype"
                | "authname"
                | "authtype"
                | "authuserfile"
                | "authbasicprovider"
                | "errordocument"
                | "limitrequestbody"
                | "proxypreservehost"
                | "proxyset"
                | "proxytimeout" => {
                    ledger.ignored(node.origin, "nothing that was converted is affected by it");
                }
                "require" if node.arg(1).eq_ignore_ascii_case("granted") => {
                    ledger.ignored(node.origin, "nothing that was converted is affected by it");
                }
                "allow" if node.arg(1).eq_ignore_ascii_case("all") => {
                    ledger.ignored(node.origin, "nothing that was converted is affected by it");
                }
                "require" | "requireall" | "requireany" | "requirenone" | "allow" | "deny" | "header" => {
                    ledger.lost(node.origin, "its section is not converted", "set it on the route by hand");
                }
                _ if IGNORED.contains(&name) => ledger.ignored(node.origin, "Keepwarm's own settings apply"),
                _ => {}
            }
        }
        settle_rest(&node.inner, ledger);
    }
}
