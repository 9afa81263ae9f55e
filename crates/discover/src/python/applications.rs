//! The applications that modules make, and which of them is served.

use std::collections::HashMap;

use super::module::{Module, call, is_dotted};
use crate::framework::{
    self, AIOHTTP, ASGI, BLACKSHEEP, BOTTLE, CHERRYPY, CONNEXION, DASH, DATASETTE, DJANGO, FALCON, FASTAPI,
    FLASK, Framework, LITESTAR, MCP, PYRAMID, QUART, SANIC, SHINY, STARLETTE, TORNADO, WSGI,
};
use crate::procfile::WebCommand;
use crate::project::shortened;
use crate::{Candidate, Evidence, Start};

/// What makes an application, by its full name.
const MAKERS: &[(&str, &Framework)] = &[
    ("flask.Flask", &FLASK),
    ("flask.app.Flask", &FLASK),
    ("apiflask.APIFlask", &FLASK),
    ("flask_openapi3.OpenAPI", &FLASK),
    ("quart.Quart", &QUART),
    ("dash.Dash", &DASH),
    ("fastapi.FastAPI", &FASTAPI),
    ("fastapi.applications.FastAPI", &FASTAPI),
    ("starlette.applications.Starlette", &STARLETTE),
    ("litestar.Litestar", &LITESTAR),
    ("litestar.app.Litestar", &LITESTAR),
    ("starlite.Starlite", &LITESTAR),
    ("sanic.Sanic", &SANIC),
    ("bottle.Bottle", &BOTTLE),
    ("bottle.default_app", &BOTTLE),
    ("bottle.app", &BOTTLE),
    ("falcon.App", &FALCON),
    ("falcon.API", &FALCON),
    ("falcon.asgi.App", &FALCON),
    ("blacksheep.Application", &BLACKSHEEP),
    ("blacksheep.server.Application", &BLACKSHEEP),
    ("connexion.FlaskApp", &CONNEXION),
    ("connexion.AsyncApp", &CONNEXION),
    ("connexion.App", &CONNEXION),
    ("datasette.app.Datasette", &DATASETTE),
    ("aiohttp.web.Application", &AIOHTTP),
    ("tornado.web.Application", &TORNADO),
    ("django.core.wsgi.get_wsgi_application", &DJANGO),
    ("django.core.asgi.get_asgi_application", &DJANGO),
    ("channels.routing.ProtocolTypeRouter", &DJANGO),
    ("eve.Eve", &FLASK),
    ("shiny.App", &SHINY),
    ("cherrypy.Application", &CHERRYPY),
    ("socketio.ASGIApp", &ASGI),
    ("engineio.ASGIApp", &ASGI),
    ("ariadne.asgi.GraphQL", &ASGI),
    ("strawberry.asgi.GraphQL", &ASGI),
    ("socketio.WSGIApp", &WSGI),
    ("engineio.WSGIApp", &WSGI),
    ("mercurial.hgweb.hgweb", &WSGI),
    ("wsgidav.wsgidav_app.WsgiDAVApp", &WSGI),
];

/// What makes an object, of which a method gives an application.
const METHODS: &[(&str, &[&str], &Framework)] = &[
    ("fastmcp.FastMCP", &MCP_METHODS, &MCP),
    ("mcp.server.fastmcp.FastMCP", &MCP_METHODS, &MCP),
    ("mcp.server.mcpserver.MCPServer", &MCP_METHODS, &MCP),
    ("mcp.server.MCPServer", &MCP_METHODS, &MCP),
    ("web.application", &["wsgifunc"], &WSGI),
];
const MCP_METHODS: [&str; 3] = ["http_app", "streamable_http_app", "sse_app"];

/// A call with an application among its arguments makes an application of it if its own name says so; most others are extensions, which keep it and serve
/// nothing: `db = SQLAlchemy(app)`.
const WRAPPERS: [&str; 7] =
    ["ProxyFix", "WhiteNoise", "WsgiToAsgi", "WSGIToASGI", "AsgiToWsgi", "ASGIApp", "WSGIApp"];
/// Or if the name that it is given does.
const WRAPPED_NAMES: [&str; 4] = ["asgi", "wsgi", "asgi_app", "wsgi_app"];

/// Names of an application in its module, the usual ones first.
const NAMES: [&str; 2] = ["application", "app"];
const FACTORIES: [&str; 3] = ["create_app", "make_app", "get_app"];
/// Modules in which a server looks for one, the first that has it.
const USUAL: [&str; 7] = ["wsgi", "asgi", "app", "main", "application", "api", "server"];

/// Something in a module that can be served.
#[derive(Debug, Clone)]
struct Served {
    module: usize,
    name: String,
    framework: &'static Framework,
    is_factory: bool,
    line: usize,
    /// The line that imports what makes it.
    shown_by: Option<usize>,
    /// What it is made of, or imported from.
    made_of: Option<(usize, String)>,
}

/// The applications of these modules: one, or equal ones.
pub(super) fn find(modules: &[Module], web: Option<&WebCommand>) -> Vec<Candidate> {
    let all = Analysis::of(modules).served;
    let named = all.iter().find(|one| {
        web.is_some_and(|web| {
            modules.get(one.module).is_some_and(|module| web.names_target(&target(module, one)))
        })
    });
    if let Some(named) = named {
        return vec![candidate(modules, named)];
    }
    let left = preferred(modules, all.iter().filter(|one| !is_made_into_another(one, &all)).collect());
    left.into_iter().map(|one| candidate(modules, one)).collect()
}

/// Every target in these modules.
pub(super) fn targets(modules: &[Module]) -> Vec<String> {
    let served = Analysis::of(modules).served;
    served.iter().filter_map(|one| Some(target(modules.get(one.module)?, one))).collect()
}

/// Whether another application is this one, with something around it or under a usual name.
fn is_made_into_another(one: &Served, all: &[Served]) -> bool {
    all.iter().any(|other| {
        other.made_of.as_ref().is_some_and(|(module, name)| *module == one.module && *name == one.name)
    })
}

/// The rules among the applications of Python: a usual name before others in a module, an application before a factory, a usual module before others,
/// one near the root before one further down, `wsgi` before `asgi` where both make the same.
fn preferred<'a>(modules: &[Module], mut left: Vec<&'a Served>) -> Vec<&'a Served> {
    let module = |one: &Served| modules.get(one.module);
    for number in 0..modules.len() {
        let of_module: Vec<&Served> = left.iter().copied().filter(|one| one.module == number).collect();
        if let Some(best) = of_module.iter().map(|one| name_rank(one)).min()
            && of_module.len() > 1
        {
            left.retain(|one| one.module != number || name_rank(one) == best);
        }
    }
    let is_usual =
        |one: &Served| module(one).is_some_and(|module| USUAL.contains(&module.stem()) || module.is_package);
    if left.iter().any(|one| is_usual(one)) {
        left.retain(|one| is_usual(one));
    }
    // What serves a project is above what it consists of.
    let depth = |one: &Served| {
        module(one).map_or(0, |module| module.file.trim_end_matches("/__init__.py").matches('/').count())
    };
    let nearest = left.iter().map(|one| depth(one)).min().unwrap_or_default();
    left.retain(|one| depth(one) == nearest);
    let stem = |one: &Served| module(one).map_or("", Module::stem);
    let of_servers: Vec<&Served> =
        left.iter().copied().filter(|one| matches!(stem(one), "wsgi" | "asgi")).collect();
    if let Some(first) = of_servers.iter().copied().min_by_key(|one| std::cmp::Reverse(stem(one)))
        && of_servers.iter().all(|one| one.made_of == first.made_of && one.framework == first.framework)
    {
        return vec![first];
    }
    left
}

fn name_rank(one: &Served) -> usize {
    let usual = NAMES.iter().chain(&FACTORIES).position(|name| *name == one.name);
    usual.unwrap_or(NAMES.len() + FACTORIES.len() + usize::from(one.is_factory))
}

fn candidate(modules: &[Module], one: &Served) -> Candidate {
    let Some(module) = modules.get(one.module) else {
        return Candidate::new(one.framework, Start::Entry(String::new()), Vec::new());
    };
    let evidence = evidence(modules, one);
    if std::ptr::eq(one.framework, &AIOHTTP) || std::ptr::eq(one.framework, &TORNADO) {
        let words = vec!["python3".to_owned(), module.file.clone()];
        let mut found = Candidate::new(one.framework, Start::Command { words, build: None }, evidence);
        found.advice.push(format!(
            "{} runs a server of its own: have it listen on 127.0.0.1 and the port in PORT, and name the Python of your virtual environment",
            one.framework.name
        ));
        return found;
    }
    Candidate::new(one.framework, Start::Entry(target(module, one)), evidence)
}

fn evidence(modules: &[Module], one: &Served) -> Vec<Evidence> {
    let at = |module: usize, line: usize, text: &str| {
        let file = modules.get(module)?.file.clone();
        Some(Evidence { file, line, text: shortened(text) })
    };
    let import = |module: usize, line: Option<usize>| {
        let line = line?;
        let mut imports = modules.get(module)?.imports.values();
        at(module, line, &imports.find(|origin| origin.line == line)?.text)
    };
    let mut lines = vec![import(one.module, one.shown_by), at(one.module, one.line, &text_of(modules, one))];
    if let Some((module, name)) = &one.made_of
        && let Some(made) = modules.get(*module)
        && let Some(function) = made.function(name)
    {
        let makes = |dotted: &str| {
            MAKERS.iter().any(|(maker, framework)| *maker == dotted && *framework == one.framework)
        };
        let line = made.imports.values().find(|origin| makes(&origin.dotted)).map(|origin| origin.line);
        lines.push(at(*module, function.line, &format!("def {name}")));
        lines.push(import(*module, line));
    }
    lines.into_iter().flatten().collect()
}

fn text_of(modules: &[Module], one: &Served) -> String {
    let Some(module) = modules.get(one.module) else { return String::new() };
    if let Some(assigned) = module.assigned.iter().find(|assigned| assigned.line == one.line) {
        return format!("{} = {}", assigned.name, assigned.value);
    }
    match module.function(&one.name) {
        Some(function) if function.is_async => format!("async def {}", one.name),
        Some(_) => format!("def {}", one.name),
        None => one.name.clone(),
    }
}

/// `shop.wsgi:application`; a file beneath a directory that is not imported from is named by its path.
fn target(module: &Module, one: &Served) -> String {
    let name = match () {
        () if std::ptr::eq(one.framework, &DASH) => format!("{}.server", one.name),
        () if one.is_factory => format!("{}()", one.name),
        () => one.name.clone(),
    };
    let place = match module.file.split_once('/') {
        Some(("src" | "lib" | "python", _)) => module.file.clone(),
        _ => module.name.clone(),
    };
    format!("{place}:{name}")
}

/// The applications of all modules, found one from another until there is nothing new.
struct Analysis<'a> {
    modules: &'a [Module],
    by_name: HashMap<&'a str, usize>,
    served: Vec<Served>,
}

/// Rounds: an application is made by a factory, which is imported, and wrapped.
const ROUNDS: usize = 4;

impl<'a> Analysis<'a> {
    fn of(modules: &'a [Module]) -> Self {
        let by_name =
            modules.iter().enumerate().map(|(number, module)| (module.name.as_str(), number)).collect();
        let mut analysis = Self { modules, by_name, served: Vec::new() };
        for _ in 0..ROUNDS {
            let before = analysis.served.len();
            for number in 0..modules.len() {
                analysis.look(number);
            }
            if analysis.served.len() == before {
                break;
            }
        }
        analysis
    }

    fn look(&mut self, number: usize) {
        let Some(module) = self.modules.get(number) else { return };
        for function in &module.functions {
            if let Some(framework) = plain(function.is_async, &function.name, &function.required) {
                self.add(Served {
                    module: number,
                    name: function.name.clone(),
                    framework,
                    is_factory: false,
                    line: function.line,
                    shown_by: None,
                    made_of: None,
                });
            } else if function.required.is_empty() && !function.is_async && is_factory_name(&function.name) {
                let made = function.body.iter().find_map(|(_, text)| self.made_in(number, text));
                if let Some((framework, _, shown_by)) = made {
                    self.add(Served {
                        module: number,
                        name: function.name.clone(),
                        framework,
                        is_factory: true,
                        line: function.line,
                        shown_by,
                        made_of: None,
                    });
                }
            }
        }
        for assigned in &module.assigned {
            let made = self.wrapped(number, &assigned.name, &assigned.value);
            if let Some((framework, made_of, shown_by)) = made.or_else(|| self.value(number, &assigned.value))
            {
                // A name that is assigned again keeps what it was made of first.
                let made_of = made_of.filter(|made| *made != (number, assigned.name.clone()));
                let name = assigned.name.clone();
                self.add(Served {
                    module: number,
                    name,
                    framework,
                    is_factory: false,
                    line: assigned.line,
                    shown_by,
                    made_of,
                });
            }
        }
        self.reexported(number, module);
    }

    fn add(&mut self, new: Served) {
        if !self.served.iter().any(|one| one.module == new.module && one.name == new.name) {
            self.served.push(new);
        }
    }

    /// `from shop import app` in a module that a server looks in.
    fn reexported(&mut self, number: usize, module: &Module) {
        if !USUAL.contains(&module.stem()) && !module.is_package {
            return;
        }
        for (local, origin) in &module.imports {
            if origin.is_of_module
                && NAMES.contains(&local.as_str())
                && let Some(found) = self.elsewhere(&origin.dotted).cloned()
                && !found.is_factory
                && (found.module, &found.name) != (number, local)
            {
                self.add(Served {
                    module: number,
                    name: local.clone(),
                    framework: found.framework,
                    is_factory: false,
                    line: origin.line,
                    shown_by: None,
                    made_of: Some((found.module, found.name)),
                });
            }
        }
    }

    /// The application of another module, by its full name.
    fn elsewhere(&self, dotted: &str) -> Option<&Served> {
        let (module, name) = dotted.rsplit_once('.')?;
        let number = *self.by_name.get(module).or_else(|| {
            // Beneath `src`, imports begin there.
            self.by_name
                .iter()
                .find(|(known, _)| known.strip_prefix("src.") == Some(module))
                .map(|(_, number)| number)
        })?;
        self.served.iter().find(|one| one.module == number && one.name == name)
    }

    /// What a value is: its framework, what it is made of, and the line that imports what makes it.
    fn value(&self, number: usize, value: &str) -> Option<Made> {
        let module = self.modules.get(number)?;
        if is_dotted(value) {
            let found = self.named(number, value)?;
            return Some((found.framework, Some((found.module, found.name.clone())), None));
        }
        let (callee, _) = call(value)?;
        if let Some((origin, line)) = module.origin(callee) {
            if let Some((_, framework)) = MAKERS.iter().find(|(maker, _)| *maker == origin) {
                return Some((framework, None, Some(line)));
            }
            if let Some(factory) = self.elsewhere(&origin).filter(|one| one.is_factory) {
                return Some((factory.framework, Some((factory.module, factory.name.clone())), None));
            }
        }
        if let Some(factory) =
            self.served.iter().find(|one| one.module == number && one.name == callee && one.is_factory)
        {
            return Some((factory.framework, Some((number, factory.name.clone())), None));
        }
        if callee.ends_with(".make_wsgi_app") {
            let line = module
                .imports
                .values()
                .find(|origin| origin.dotted.starts_with("pyramid."))
                .map(|origin| origin.line)?;
            return Some((&PYRAMID, None, Some(line)));
        }
        let (object, method) = callee.rsplit_once('.').unwrap_or(("", callee));
        if let Some(made) = of_method(module, object, method) {
            return Some(made);
        }
        // `datasette.app()`
        if NAMES.contains(&method)
            && let Some(found) = self.named(number, object).filter(|found| !found.is_factory)
        {
            return Some((found.framework, Some((found.module, found.name.clone())), None));
        }
        None
    }

    /// `ProxyFix(app, x_for=1)`, `ASGIApp(sio, app)`: something around an application.
    fn wrapped(&self, number: usize, name: &str, value: &str) -> Option<Made> {
        let (callee, arguments) = call(value)?;
        let maker = self.modules.get(number)?.origin(callee).map(|(origin, _)| origin).unwrap_or_default();
        if MAKERS.iter().any(|(name, framework)| *name == maker && *framework != &ASGI && *framework != &WSGI)
        {
            return None; // `Starlette(routes=[Mount("/api", app=api)])`
        }
        let wrapper = callee.rsplit('.').next()?;
        let wraps = WRAPPERS.contains(&wrapper) || wrapper.ends_with("Middleware");
        if !wraps && !NAMES.contains(&name) && !WRAPPED_NAMES.contains(&name) {
            return None;
        }
        arguments.split([',', ')']).find_map(|argument| {
            let argument = argument.rsplit_once('=').map_or(argument, |(_, value)| value).trim();
            let found = is_dotted(argument).then(|| self.named(number, argument))??;
            (!found.is_factory).then(|| (found.framework, Some((found.module, found.name.clone())), None))
        })
    }

    /// The application that a name stands for in a module.
    fn named(&self, number: usize, name: &str) -> Option<&Served> {
        let own = self.served.iter().find(|one| one.module == number && one.name == name);
        own.or_else(|| self.elsewhere(&self.modules.get(number)?.origin(name)?.0))
    }

    /// What a statement in a function makes: `app = Flask(__name__)`, `return FastAPI()`, `return ProxyFix(app)`.
    fn made_in(&self, number: usize, text: &str) -> Option<Made> {
        let (name, value) = match text.strip_prefix("return ") {
            Some(value) => (NAMES[0], value.trim()),
            None => text.split_once('=').map(|(name, value)| (name.trim(), value.trim()))?,
        };
        self.wrapped(number, name, value).or_else(|| self.value(number, value))
    }
}

/// `mcp.http_app()` of `mcp = FastMCP("x")`: what a method gives, of an object that serves nothing by itself.
fn of_method(module: &Module, object: &str, method: &str) -> Option<Made> {
    let made = module.assigned.iter().find(|assigned| assigned.name == object)?;
    let (origin, line) = module.origin(call(&made.value)?.0)?;
    let (_, _, framework) =
        METHODS.iter().find(|(maker, methods, _)| *maker == origin && methods.contains(&method))?;
    Some((framework, None, Some(line)))
}

type Made = (&'static Framework, Option<(usize, String)>, Option<usize>);

/// A function that is an application itself.
fn plain(is_async: bool, name: &str, required: &[String]) -> Option<&'static Framework> {
    let is_named = NAMES.contains(&name);
    match required.len() {
        2 if is_named && !is_async => Some(&framework::WSGI),
        3 if is_named && is_async => Some(&framework::ASGI),
        _ => None,
    }
    .filter(|framework| {
        let first = required.first().map_or("", String::as_str);
        match (std::ptr::eq(*framework, &WSGI), std::ptr::eq(*framework, &ASGI)) {
            (true, _) => first.starts_with("env"),
            (_, true) => first == "scope",
            _ => true,
        }
    })
}

/// Functions that make an application are named for it.
fn is_factory_name(name: &str) -> bool {
    !name.starts_with('_') && (FACTORIES.contains(&name) || name.contains("app"))
}
