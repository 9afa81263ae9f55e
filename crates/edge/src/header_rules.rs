//! Header rules of a route: changes to requests that are passed on, and to responses.

use std::sync::Arc;

use keepwarm_http1::BadField;
use keepwarm_serve::{FieldEdits, Request};

use crate::template::{Template, Values};

/// Changes to the fields of a message, in the order of these fields.
#[derive(Debug, Clone, Default)]
pub struct HeaderRules {
    /// Names to remove.
    pub remove: Vec<String>,
    /// Fields that replace all of their name.
    pub set: Vec<(String, Template)>,
    /// Fields that are added.
    pub add: Vec<(String, Template)>,
    /// Fields that are added where there is none of their name.
    pub if_missing: Vec<(String, Template)>,
}

impl HeaderRules {
    fn templates(&self) -> impl Iterator<Item = &Template> {
        self.set.iter().chain(&self.add).chain(&self.if_missing).map(|(_, value)| value)
    }

    pub(crate) fn uses_captures(&self) -> bool {
        self.templates().any(Template::uses_captures)
    }

    /// The changes, unless something in them depends on the request; or the first field that cannot be sent.
    pub fn fixed(&self) -> Option<Result<FieldEdits, BadField>> {
        let is_fixed = self.templates().all(|template| template.fixed().is_some());
        let value = |template: &Template| template.fixed().unwrap_or_default().as_bytes().to_vec();
        is_fixed.then(|| self.made_with(value))
    }

    /// The changes for this request's response.
    pub(crate) fn edits(&self, values: Values<'_>) -> Arc<FieldEdits> {
        // Names are checked when the rules are made, and a value of a template can always be sent.
        Arc::new(self.made_with(|template| template.field_value(values)).unwrap_or_default())
    }

    fn made_with(&self, value: impl Fn(&Template) -> Vec<u8>) -> Result<FieldEdits, BadField> {
        let fields = |rules: &[(String, Template)]| -> Vec<(String, Vec<u8>)> {
            rules.iter().map(|(name, template)| (name.clone(), value(template))).collect()
        };
        FieldEdits::new(self.remove.iter().cloned(), fields(&self.set))?
            .adding(fields(&self.add))?
            .filling_in(fields(&self.if_missing))
    }

    /// Changes the request that an app or upstream gets. A field that is set is not subject to the client's `Connection`.
    pub(crate) fn apply_to_request(&self, request: &mut Request, captures: &[Vec<u8>]) {
        let mut fields: Vec<(String, Vec<u8>)> = Vec::new();
        let values = Values { request, captures };
        let mut withheld: Vec<Box<[u8]>> =
            self.remove.iter().map(|name| name.to_ascii_lowercase().into_bytes().into()).collect();
        for (name, template) in &self.set {
            let lower = name.to_ascii_lowercase();
            withheld.push(lower.clone().into_bytes().into());
            fields.push((lower, template.field_value(values)));
        }
        for (name, template) in &self.add {
            let lower = name.to_ascii_lowercase();
            // As one list (RFC 9110 §5.3): an environment has one variable for all lines.
            let separator: &[u8] = if lower == "cookie" { b"; " } else { b", " };
            let is_gone = withheld.iter().any(|gone| **gone == *lower.as_bytes());
            let mut lines: Vec<Vec<u8>> = Vec::new();
            if !is_gone {
                lines.extend(request.head.fields.all(&lower).map(<[u8]>::to_vec));
                withheld.push(lower.clone().into_bytes().into());
            }
            fields.retain(|(name, value)| {
                let same = *name == lower;
                if same {
                    lines.push(value.clone());
                }
                !same
            });
            lines.push(template.field_value(values));
            fields.push((lower, lines.join(separator)));
        }
        for (name, template) in &self.if_missing {
            let lower = name.to_ascii_lowercase();
            let is_gone = withheld.iter().any(|gone| **gone == *lower.as_bytes());
            let is_there = (!is_gone && request.head.fields.first(&lower).is_some())
                || fields.iter().any(|(name, _)| *name == lower);
            if !is_there {
                fields.push((lower, template.field_value(values)));
            }
        }
        for (name, value) in &fields {
            request.extra_fields.push(name.as_bytes(), value);
        }
        request.notes.routed.withheld = Some(withheld.into());
    }
}
