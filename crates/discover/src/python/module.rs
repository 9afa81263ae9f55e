//! What a Python module imports, assigns and defines.

use std::collections::HashMap;

use super::source::{Level, Statement, statements};

/// A module of the project.
#[derive(Debug)]
pub(super) struct Module {
    /// `shop/wsgi.py`
    pub(super) file: String,
    /// As an import names it: `shop.wsgi`; of a package, the package's name.
    pub(super) name: String,
    /// Whether it is the `__init__.py` of a package.
    pub(super) is_package: bool,
    /// Local names by where they come from: `F` -> `flask.Flask`. Everywhere in the file.
    pub(super) imports: HashMap<String, Origin>,
    /// Assignments that an import runs, in order.
    pub(super) assigned: Vec<Assignment>,
    /// Functions at the module's level.
    pub(super) functions: Vec<Function>,
}

/// Where a name comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Origin {
    pub(super) dotted: String,
    pub(super) line: usize,
    /// The import.
    pub(super) text: String,
    /// An import of the module runs it.
    pub(super) is_of_module: bool,
}

/// `name = value`
#[derive(Debug)]
pub(super) struct Assignment {
    pub(super) name: String,
    pub(super) value: String,
    pub(super) line: usize,
}

/// A `def`.
#[derive(Debug)]
pub(super) struct Function {
    pub(super) name: String,
    pub(super) line: usize,
    pub(super) is_async: bool,
    /// Arguments that a call must give, by name.
    pub(super) required: Vec<String>,
    /// The statements in it: each with its line.
    pub(super) body: Vec<(usize, String)>,
}

impl Module {
    pub(super) fn read(file: &str, name: &str, text: &str) -> Self {
        let is_package = file.ends_with("__init__.py");
        let all = statements(text);
        let mut module = Self {
            file: file.to_owned(),
            name: name.to_owned(),
            is_package,
            imports: HashMap::new(),
            assigned: Vec::new(),
            functions: Vec::new(),
        };
        for (index, statement) in all.iter().enumerate() {
            module.take(statement, index, &all);
        }
        module
    }

    fn take(&mut self, statement: &Statement, index: usize, all: &[Statement]) {
        let is_of_module = statement.level == Level::Module;
        if let Some(names) = imported(&statement.text, &self.package()) {
            for (local, dotted) in names {
                let text = statement.text.clone();
                let origin = Origin { dotted, line: statement.line, text, is_of_module };
                self.imports.entry(local).or_insert(origin);
            }
            return;
        }
        if !is_of_module {
            return;
        }
        if let Some(function) = function(statement, index, all) {
            self.functions.push(function);
        } else if let Some((name, value)) = assignment(&statement.text) {
            let (name, value) = (name.to_owned(), value.to_owned());
            self.assigned.push(Assignment { name, value, line: statement.line });
        }
    }

    /// The package that relative imports begin in.
    fn package(&self) -> String {
        match (self.is_package, self.name.rsplit_once('.')) {
            (true, _) => self.name.clone(),
            (false, Some((package, _))) => package.to_owned(),
            (false, None) => String::new(),
        }
    }

    /// The dotted origin of a dotted name: `web.Application` with `from aiohttp import web` is `aiohttp.web.Application`.
    pub(super) fn origin(&self, dotted: &str) -> Option<(String, usize)> {
        let (first, rest) = dotted.split_once('.').map_or((dotted, ""), |(first, rest)| (first, rest));
        let origin = self.imports.get(first)?;
        let dotted =
            if rest.is_empty() { origin.dotted.clone() } else { format!("{}.{rest}", origin.dotted) };
        Some((dotted, origin.line))
    }

    pub(super) fn function(&self, name: &str) -> Option<&Function> {
        self.functions.iter().find(|function| function.name == name)
    }

    /// The last part of its name: `wsgi` of `shop.wsgi`.
    pub(super) fn stem(&self) -> &str {
        self.name.rsplit('.').next().unwrap_or(&self.name)
    }
}

/// `name = value` or `name: type = value`.
fn assignment(text: &str) -> Option<(&str, &str)> {
    let name_end = text.find(|c: char| !(c.is_alphanumeric() || c == '_'))?;
    let (name, rest) = text.split_at_checked(name_end)?;
    let rest = rest.trim_start();
    let value = match rest.strip_prefix(':') {
        Some(annotated) => annotated.split_once('=')?.1,
        None => rest.strip_prefix('=')?,
    };
    (!name.is_empty() && !value.starts_with('=')).then(|| (name, value.trim()))
}

/// The local names of an import, with what they stand for; `None`: it is not an import.
fn imported(text: &str, package: &str) -> Option<Vec<(String, String)>> {
    if let Some(modules) = text.strip_prefix("import ") {
        let one = |module: &str| {
            let module = module.trim();
            match module.split_once(" as ") {
                Some((dotted, local)) => (local.trim().to_owned(), dotted.trim().to_owned()),
                // `import a.b` makes the name `a`.
                None => {
                    let first = module.split('.').next().unwrap_or(module);
                    (first.to_owned(), first.to_owned())
                }
            }
        };
        return Some(modules.split(',').map(one).collect());
    }
    let (from, names) = text.strip_prefix("from ")?.split_once(" import ")?;
    let from = absolute(from.trim(), package);
    let one = |name: &str| {
        let name = name.trim().trim_matches(|c| matches!(c, '(' | ')')).trim();
        let (imported, local) = name.split_once(" as ").unwrap_or((name, name));
        (local.trim().to_owned(), format!("{from}.{}", imported.trim()))
    };
    let names = names.split(',').map(one).filter(|(local, _)| !local.is_empty() && local != "*");
    Some(names.collect())
}

/// The module that `from` names: `..app` in the package `shop.web` is `shop.app`.
fn absolute(from: &str, package: &str) -> String {
    let dots = from.bytes().take_while(|byte| *byte == b'.').count();
    let rest = from.get(dots..).unwrap_or_default();
    if dots == 0 {
        return from.to_owned();
    }
    let mut parts: Vec<&str> = package.split('.').filter(|part| !part.is_empty()).collect();
    parts.truncate((parts.len() + 1).saturating_sub(dots));
    parts.extend(rest.split('.').filter(|part| !part.is_empty()));
    parts.join(".")
}

fn function(statement: &Statement, index: usize, all: &[Statement]) -> Option<Function> {
    let text = statement.text.as_str();
    let (is_async, rest) = match text.strip_prefix("async ") {
        Some(rest) => (true, rest.trim_start()),
        None => (false, text),
    };
    let (name, rest) = rest.strip_prefix("def ")?.split_once('(')?;
    let body = all.iter().filter(|one| one.level == Level::Function(index));
    Some(Function {
        name: name.trim().to_owned(),
        line: statement.line,
        is_async,
        required: required(rest),
        body: body.map(|one| (one.line, one.text.clone())).collect(),
    })
}

/// The parameters without a default, from the text after the opening parenthesis.
fn required(text: &str) -> Vec<String> {
    let (mut depth, mut parameters, mut current) = (0_usize, Vec::new(), String::new());
    for c in text.chars() {
        match c {
            ')' if depth == 0 => break,
            ',' if depth == 0 => parameters.push(std::mem::take(&mut current)),
            _ => {
                match c {
                    '(' | '[' | '{' => depth += 1,
                    ')' | ']' | '}' => depth = depth.saturating_sub(1),
                    _ => {}
                }
                current.push(c);
            }
        }
    }
    parameters.push(current);
    let names = parameters.iter().map(|parameter| parameter.trim());
    let needed = names.filter(|parameter| {
        !parameter.is_empty() && !parameter.contains('=') && !parameter.starts_with(['*', '/'])
    });
    needed.map(|parameter| parameter.split(':').next().unwrap_or(parameter).trim().to_owned()).collect()
}

/// The dotted name that an expression calls, and its arguments: `falcon.asgi.App(x)` is `falcon.asgi.App` and `x)`.
pub(super) fn call(expression: &str) -> Option<(&str, &str)> {
    let (callee, arguments) = expression.split_once('(')?;
    let callee = callee.trim();
    is_dotted(callee).then_some((callee, arguments))
}

/// Whether this is a name, or names with dots between.
pub(super) fn is_dotted(text: &str) -> bool {
    let is_name = |part: &str| {
        !part.is_empty()
            && part.chars().all(|c| c.is_alphanumeric() || c == '_')
            && !part.starts_with(|c: char| c.is_ascii_digit())
    };
    text.split('.').all(is_name)
}

#[cfg(test)]
mod tests {
    use super::{Module, absolute, assignment, required};

    #[test]
    fn imports_are_resolved() {
        let module = Module::read(
            "shop/web/app.py",
            "shop.web.app",
            "from flask import Flask as F, request\nimport falcon.asgi\nimport x.y as z\nfrom ..core import (\n  db,\n)\nfrom . import views\nfrom q import *\n",
        );
        let origin = |name: &str| module.origin(name).map(|(dotted, _)| dotted);
        assert_eq!(origin("F").as_deref(), Some("flask.Flask"));
        assert_eq!(origin("falcon.asgi.App").as_deref(), Some("falcon.asgi.App"));
        assert_eq!(origin("z").as_deref(), Some("x.y"));
        assert_eq!(origin("db").as_deref(), Some("shop.core.db"));
        assert_eq!(origin("views").as_deref(), Some("shop.web.views"));
        assert_eq!(origin("nothing"), None);
        assert_eq!(absolute("....", "a.b"), "");
    }

    #[test]
    fn assignments_are_those_of_names() {
        assert_eq!(assignment("app = Flask(__name__)"), Some(("app", "Flask(__name__)")));
        assert_eq!(assignment("app: FastAPI = FastAPI()"), Some(("app", "FastAPI()")));
        for text in ["app == 1", "app.x = 1", "app[1] = 2", "app += 1", "f(a=1)", "= 1", "app"] {
            assert_eq!(assignment(text), None, "{text}");
        }
    }

    #[test]
    fn required_parameters_are_those_without_a_default() {
        for (text, expected) in [
            ("):", vec![]),
            ("config=None, *args, **kwargs) -> Flask:", vec![]),
            ("environ, start_response):", vec!["environ", "start_response"]),
            ("a: dict[str, int], b=(1, 2)):", vec!["a"]),
            ("a, /, *, b):", vec!["a", "b"]),
        ] {
            assert_eq!(required(text), expected, "{text}");
        }
    }
}
