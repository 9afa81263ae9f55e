//! PHP: mod_php, and php-fpm behind mod_proxy_fcgi.

use super::{Host, Reader};
use crate::apache::syntax::Node;
use crate::php::Scripts;

impl<'a> Reader<'a> {
    /// The scripts of a directory, if PHP runs them.
    pub(super) fn php(
        &mut self,
        host: &Host<'a>,
        directory: &str,
        sections: &[&'a Node],
        is_mount_of_php: bool,
    ) -> Option<Scripts> {
        let mut scripts = Scripts::default();
        let mut is_php = false;
        let nodes: Vec<&Node> =
            sections.iter().flat_map(|section| &section.inner).chain(host.all.iter().copied()).collect();
        let mut handlers: Vec<&Node> = Vec::new();
        for node in &nodes {
            match node.name.as_str() {
                "sethandler" => handlers.push(node),
                "filesmatch" | "files" if node.arg(0).contains("ph") || node.arg(1).contains("ph") => {
                    let inner: Vec<&Node> =
                        node.inner.iter().filter(|inner| inner.name == "sethandler").collect();
                    if !inner.is_empty() {
                        self.ledger.carried(node.origin);
                        handlers.extend(inner);
                    }
                }
                "addtype" | "addhandler" if node.args.iter().any(|arg| arg.contains("x-httpd-php")) => {
                    is_php = true;
                    self.ledger.carried(node.origin);
                }
                "loadmodule" if node.arg(0).starts_with("php") => is_php = true,
                "directoryindex"
                    if node.args.iter().any(|name| name.ends_with(".php"))
                        && sections
                            .iter()
                            .any(|section| section.inner.iter().any(|inner| inner.origin == node.origin)) =>
                {
                    is_php = true
                }
                "proxypassmatch"
                    if node.arg(1).starts_with("fcgi://") || node.arg(1).contains("|fcgi://") =>
                {
                    is_php = true;
                    let address =
                        node.arg(1).split("|fcgi://").next().unwrap_or("").trim_start_matches("fcgi://");
                    scripts.address = Some(
                        address
                            .split('/')
                            .next()
                            .filter(|_| !address.starts_with("unix:"))
                            .unwrap_or(address)
                            .to_owned(),
                    );
                    self.ledger.carried(node.origin);
                }
                "php_value" | "php_flag" | "php_admin_value" | "php_admin_flag" => {
                    is_php = true;
                    let value = match (node.name.ends_with("flag"), node.arg(1).to_ascii_lowercase().as_str())
                    {
                        (true, "on") => "1".to_owned(),
                        (true, "off") => "0".to_owned(),
                        _ => node.arg(1).to_owned(),
                    };
                    scripts.settings.push((format!("{}={value}", node.arg(0)), node.origin));
                    if node.name.starts_with("php_admin") {
                        self.ledger.differs(node.origin, "scripts can change it by ini_set(); for values that they cannot, see docs/guide/classic-php.md");
                    }
                }
                // Sections come first, and what they set counts there.
                "setenv" if !scripts.env.iter().any(|(name, ..)| name == node.arg(0)) => {
                    scripts.env.push((node.arg(0).to_owned(), node.arg(1).to_owned(), node.origin));
                }
                _ => {}
            }
        }
        for handler in handlers {
            let text = handler.arg(0);
            if let Some(proxy) = text.strip_prefix("proxy:") {
                is_php = true;
                let address = proxy.split("|fcgi://").next().unwrap_or(proxy).trim_start_matches("fcgi://");
                scripts.address = Some(address.to_owned());
                self.ledger.carried(handler.origin);
            } else if text.contains("x-httpd-php") && !text.contains("source") {
                is_php = true;
                self.ledger.carried(handler.origin);
            } else if text.eq_ignore_ascii_case("none") || text.contains("source") {
                self.ledger.ignored(handler.origin, "source is never shown");
            }
        }
        if !is_mount_of_php && !sections.iter().flat_map(|section| &section.inner).any(is_php_directive) {
            // A handler for all of the server says nothing of a directory beside the site.
            is_php = false;
        }
        let has_index = self.files.here(&std::path::Path::new(directory).join("index.php")).is_file();
        (is_php || has_index).then_some(scripts)
    }
}

/// The script of a directory: the first of DirectoryIndex.
pub(super) fn script_of(host: &Host<'_>, sections: &[&Node]) -> String {
    let own = sections.iter().flat_map(|section| &section.inner).find(|node| node.name == "directoryindex");
    let all = own.or_else(|| host.each("directoryindex").next());
    all.and_then(|node| node.args.iter().find(|name| name.ends_with(".php")))
        .cloned()
        .unwrap_or_else(|| "index.php".to_owned())
}

/// Whether a directive of a directory says that PHP runs its scripts.
fn is_php_directive(node: &Node) -> bool {
    node.name.starts_with("php_")
        || (node.name == "directoryindex" && node.args.iter().any(|name| name.ends_with(".php")))
        || (node.name == "sethandler" && node.arg(0).contains("php"))
        || (matches!(node.name.as_str(), "addtype" | "addhandler")
            && node.args.iter().any(|arg| arg.contains("x-httpd-php")))
        || node.inner.iter().any(is_php_directive)
}
