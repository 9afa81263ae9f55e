//! Templates and header rules.

use std::sync::Arc;

use keepwarm_config as config;
use keepwarm_edge::{HeaderRules, RecordTemplate, Template, TemplatePiece, Variable};

use super::Maps;

pub(super) fn template(template: &config::Template, maps: &Maps) -> Template {
    Template(template.0.iter().filter_map(|of| piece(of, maps)).collect())
}

/// `None`: a map that does not exist; the configuration has checked that all do.
fn piece(piece: &config::TemplatePiece, maps: &Maps) -> Option<TemplatePiece> {
    Some(match piece {
        config::TemplatePiece::Text(text) => TemplatePiece::Text(text.clone()),
        config::TemplatePiece::Variable(of) => TemplatePiece::Variable(variable(of, maps)?),
    })
}

fn variable(variable: &config::Variable, maps: &Maps) -> Option<Variable> {
    Some(match variable {
        config::Variable::Host => Variable::Host,
        config::Variable::HostName => Variable::HostName,
        config::Variable::Path => Variable::Path,
        config::Variable::Query => Variable::Query,
        config::Variable::Args => Variable::Args,
        config::Variable::Method => Variable::Method,
        config::Variable::Scheme => Variable::Scheme,
        config::Variable::Client => Variable::Client,
        config::Variable::RequestId => Variable::RequestId,
        config::Variable::Capture(number) => Variable::Capture(*number),
        config::Variable::Header(name) => Variable::Header(name.clone()),
        config::Variable::Argument(name) => Variable::Argument(name.clone()),
        config::Variable::Cookie(name) => Variable::Cookie(name.clone()),
        config::Variable::Status => Variable::Status,
        config::Variable::Bytes => Variable::Bytes,
        config::Variable::Seconds => Variable::Seconds,
        config::Variable::Time => Variable::Time,
        config::Variable::Target => Variable::Target,
        config::Variable::Version => Variable::Version,
        config::Variable::Route => Variable::Route,
        config::Variable::Reason => Variable::Reason,
        config::Variable::User => Variable::User,
        config::Variable::Map(name) => Variable::Map(Arc::clone(maps.get(name)?)),
    })
}

pub(super) fn record(record: &config::RecordTemplate, maps: &Maps) -> RecordTemplate {
    match record {
        config::RecordTemplate::Line(line) => RecordTemplate::Line(template(line, maps)),
        config::RecordTemplate::Object(members) => RecordTemplate::Object(
            members.iter().map(|(name, value)| (name.clone(), template(value, maps))).collect(),
        ),
    }
}

/// `None`: there are none.
pub(super) fn header_rules(rules: &config::HeaderRules, maps: &Maps) -> Option<HeaderRules> {
    if *rules == config::HeaderRules::default() {
        return None;
    }
    let fields = |rules: &[(String, config::Template)]| {
        rules.iter().map(|(name, value)| (name.clone(), template(value, maps))).collect()
    };
    Some(HeaderRules {
        remove: rules.remove.clone(),
        set: fields(&rules.set),
        add: fields(&rules.add),
        if_missing: fields(&rules.if_missing),
    })
}
