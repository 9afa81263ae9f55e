//! `RewriteCond`: what must hold for a rule to be used.

use regex_lite::Regex;

use super::template::{Scope, TemplatePart, pieces};
use super::{SiteFiles, expression, texts};

#[derive(Debug)]
pub(in crate::folder) struct Condition {
    subject: Vec<TemplatePart>,
    test: ConditionTest,
    negated: bool,
    pub(super) or_next: bool,
}

#[derive(Debug)]
enum ConditionTest {
    File,
    Folder,
    /// Never: links are followed.
    Link,
    Matches(Regex),
    Is(String),
}

impl Condition {
    /// `None`: a condition that cannot be evaluated here.
    pub(in crate::folder) fn parse(words: &[String]) -> Option<Self> {
        let [subject, test, rest @ ..] = words else { return None };
        let flags = rest.first().map_or("", String::as_str).trim_matches(['[', ']']).to_ascii_lowercase();
        let (mut or_next, mut ignores_case) = (false, false);
        for flag in flags.split(',').map(str::trim) {
            match flag {
                "or" | "ornext" => or_next = true,
                "nc" | "nocase" => ignores_case = true,
                "" | "nv" | "novary" => {}
                _ => return None,
            }
        }
        let subject = pieces(subject, true).ok()?;
        let (negated, test) = match test.strip_prefix('!') {
            Some(test) => (true, test),
            None => (false, test.as_str()),
        };
        let test = match test {
            "-f" | "-s" | "-F" => ConditionTest::File,
            "-d" => ConditionTest::Folder,
            "-l" | "-L" | "-h" => ConditionTest::Link,
            _ if test.starts_with(['-', '<', '>']) => return None,
            _ => match test.strip_prefix('=') {
                Some(text) => ConditionTest::Is(text.trim_matches('"').to_owned()),
                None => ConditionTest::Matches(expression(test, ignores_case).ok()?),
            },
        };
        Some(Self { subject, test, negated, or_next })
    }

    pub(super) async fn holds(
        &self,
        site: &impl SiteFiles,
        scope: &Scope<'_>,
        caught: &mut Vec<String>,
    ) -> std::io::Result<bool> {
        let subject = scope.expand(&self.subject, caught, None);
        let of_site =
            |text: &str| text.strip_prefix(site.root()).map(|name| name.trim_start_matches('/').to_owned());
        let holds = match &self.test {
            ConditionTest::File | ConditionTest::Folder => match of_site(&subject) {
                Some(name) => site.is(&name, matches!(self.test, ConditionTest::Folder)).await?,
                None => false,
            },
            ConditionTest::Link => false,
            ConditionTest::Is(text) => subject == *text,
            ConditionTest::Matches(regex) => match regex.captures(&subject) {
                Some(found) => {
                    *caught = texts(&found);
                    true
                }
                None => false,
            },
        };
        Ok(holds != self.negated)
    }
}
