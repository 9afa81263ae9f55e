//! The servers behind, asked directly, against what passes the server in front of each.

use super::{InformationalExchange, page, rules};
use crate::context::ProbeContext;
use crate::finding::Finding;
use crate::reach::reach;
use crate::settings::Settings;

/// Two findings for each hop; `outermost` is the exchange through all of them.
pub(super) async fn examine(context: &ProbeContext, outermost: InformationalExchange) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut outer = (context.target.to_string(), outermost);
    for target in &context.settings.via {
        let name = target.to_string();
        let settings = Settings { via: Vec::new(), ..context.settings.clone() };
        let behind = match reach(target, &settings, &context.watcher).await {
            Ok(reached) => page(&reached.context).await.map_err(|failure| failure.to_string()),
            Err(unreached) => Err(unreached.finding.evidence),
        };
        let inner = match behind {
            Ok(inner) => inner,
            Err(why) => {
                findings.push(Finding::unknown(rules::VIA_HINTS, why.clone()));
                findings.push(Finding::unknown(rules::VIA_TRAILERS, why));
                break;
            }
        };
        let names = (name.as_str(), outer.0.as_str());
        findings.push(rules::via_hints(&inner, &outer.1, names));
        findings.push(rules::via_trailers(&inner, &outer.1, names));
        outer = (name, inner);
    }
    findings
}
