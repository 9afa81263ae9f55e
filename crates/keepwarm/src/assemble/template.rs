//! Templates and header rules.

use keepwarm_config as config;
use keepwarm_edge::{HeaderRules, RecordTemplate, Template, TemplatePiece, Variable};

pub(super) fn template(template: &config::Template) -> Template {
    Template(template.0.iter().map(piece).collect())
}

fn piece(piece: &config::TemplatePiece) -> TemplatePiece {
    match piece {
        config::TemplatePiece::Text(text) => TemplatePiece::Text(text.clone()),
        config::TemplatePiece::Variable(of) => TemplatePiece::Variable(variable(of)),
    }
}

fn variable(variable: &config::Variable) -> Variable {
    match variable {
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
    }
}

pub(super) fn record(record: &config::RecordTemplate) -> RecordTemplate {
    match record {
        config::RecordTemplate::Line(line) => RecordTemplate::Line(template(line)),
        config::RecordTemplate::Object(members) => RecordTemplate::Object(
            members.iter().map(|(name, value)| (name.clone(), template(value))).collect(),
        ),
    }
}

/// `None`: there are none.
pub(super) fn header_rules(rules: &config::HeaderRules) -> Option<HeaderRules> {
    if *rules == config::HeaderRules::default() {
        return None;
    }
    let fields = |rules: &[(String, config::Template)]| {
        rules.iter().map(|(name, value)| (name.clone(), template(value))).collect()
    };
    Some(HeaderRules {
        remove: rules.remove.clone(),
        set: fields(&rules.set),
        add: fields(&rules.add),
        if_missing: fields(&rules.if_missing),
    })
}
