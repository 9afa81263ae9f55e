//! Records of a form of one's own.

use std::io::Write;

use keepwarm_serve::Request;
use keepwarm_telemetry::escape::{push_json, push_text};
use keepwarm_telemetry::{AccessRecord, timestamp};

use crate::template::{Template, TemplatePiece, Values, Variable};

/// The form of a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RecordTemplate {
    /// A line of text. Bytes of the client are escaped; an absent value is `-`.
    Line(Template),
    /// A JSON object with these members. An absent value is left out.
    Object(Vec<(String, Template)>),
}

impl RecordTemplate {
    /// Appends the record and a line end.
    pub(super) fn write(&self, request: &Request, record: &AccessRecord<'_>, out: &mut Vec<u8>) {
        match self {
            Self::Line(template) => write_line(template, request, record, out),
            Self::Object(members) => write_object(members, request, record, out),
        }
        out.push(b'\n');
    }
}

fn write_line(template: &Template, request: &Request, record: &AccessRecord<'_>, out: &mut Vec<u8>) {
    let mut value = Vec::new();
    for piece in &template.0 {
        match piece {
            TemplatePiece::Text(text) => out.extend_from_slice(text.as_bytes()),
            TemplatePiece::Variable(variable) => {
                value.clear();
                push(variable, request, record, &mut value);
                match value.as_slice() {
                    [] => out.push(b'-'),
                    value => push_text(out, value),
                }
            }
        }
    }
}

fn write_object(
    members: &[(String, Template)],
    request: &Request,
    record: &AccessRecord<'_>,
    out: &mut Vec<u8>,
) {
    out.push(b'{');
    let mut value = Vec::new();
    let mut separator: &[u8] = b"\"";
    for (name, template) in members {
        value.clear();
        for piece in &template.0 {
            match piece {
                TemplatePiece::Text(text) => value.extend_from_slice(text.as_bytes()),
                TemplatePiece::Variable(variable) => push(variable, request, record, &mut value),
            }
        }
        if value.is_empty() {
            continue;
        }
        out.extend_from_slice(separator);
        separator = b",\"";
        push_json(out, name.as_bytes());
        out.extend_from_slice(b"\":");
        match template.0.as_slice() {
            [TemplatePiece::Variable(Variable::Status | Variable::Bytes | Variable::Seconds)] => {
                out.extend_from_slice(&value);
            }
            _ => {
                out.push(b'"');
                push_json(out, &value);
                out.push(b'"');
            }
        }
    }
    out.push(b'}');
}

/// Appends a value as it is.
fn push(variable: &Variable, request: &Request, record: &AccessRecord<'_>, out: &mut Vec<u8>) {
    // Writing into memory cannot fail.
    let _ = match variable {
        Variable::Status if record.status == 0 => Ok(()),
        Variable::Status => write!(out, "{}", record.status),
        Variable::Bytes => write!(out, "{}", record.body_bytes),
        Variable::Seconds => {
            write!(out, "{}.{:06}", record.elapsed.as_secs(), record.elapsed.subsec_micros())
        }
        Variable::Time => out.write_all(&timestamp(record.time)),
        Variable::Target => out.write_all(record.target),
        Variable::Version => out.write_all(record.version.as_bytes()),
        Variable::Route => out.write_all(record.route.unwrap_or_default().as_bytes()),
        Variable::Reason => out.write_all(record.reason.unwrap_or_default().as_bytes()),
        Variable::User => out.write_all(record.user.unwrap_or_default().as_bytes()),
        Variable::Method => out.write_all(record.method.as_bytes()),
        // Empty on a Unix socket, as in the other formats.
        Variable::Client => out.write_all(record.client.as_bytes()),
        other => {
            other.push(Values { request, captures: &[] }, out);
            Ok(())
        }
    };
}
