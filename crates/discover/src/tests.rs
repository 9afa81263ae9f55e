//! Directories as people have them, and what is found in each.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::{Candidate, Discovery, Process, Project, Start, discover, nearest_target, processes};

/// A directory with these files, gone afterwards.
struct Directory(PathBuf);

impl Directory {
    fn new(files: &[(&str, &str)]) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("keepwarm-discover-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a directory");
        for (name, text) in files {
            let file = path.join(name);
            std::fs::create_dir_all(file.parent().expect("a parent")).expect("a directory");
            std::fs::write(file, text).expect("a file");
        }
        Self(path)
    }

    fn found(&self) -> Discovery {
        discover(&Project::open(&self.0).expect("a directory"))
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// `Flask app:app`, `Django backend/ mysite.wsgi:application`; several are joined by ` | `.
fn shown(discovery: &Discovery) -> String {
    let one = |candidate: &Candidate| {
        let directory = match candidate.directory.as_str() {
            "" => String::new(),
            directory => format!("{directory}/ "),
        };
        format!("{} {directory}{}", candidate.framework.name, candidate.start.shown())
    };
    match discovery {
        Discovery::Nothing => "nothing".to_owned(),
        Discovery::One { chosen, .. } => one(chosen),
        Discovery::Several(found) => found.iter().map(one).collect::<Vec<_>>().join(" | "),
    }
}

type Case<'a> = (&'a str, &'a [(&'a str, &'a str)]);

#[track_caller]
fn check(cases: &[Case<'_>]) {
    for (expected, files) in cases {
        let directory = Directory::new(files);
        assert_eq!(shown(&directory.found()), *expected, "{files:#?}");
    }
}

const FLASK: &str = "from flask import Flask\n\napp = Flask(__name__)\n";
const FASTAPI: &str = "from fastapi import FastAPI\n\napp = FastAPI()\n";
const FACTORY: &str =
    "import flask\n\ndef create_app(config=None):\n    app = flask.Flask(__name__)\n    return app\n";

/// An extension that is given the application keeps it, and is none itself.
#[test]
fn extensions_of_an_application_are_not_served() {
    for (name, value) in [
        ("db", "SQLAlchemy(app)"),
        ("admin", "Admin(app, name='x')"),
        ("limiter", "Limiter(get_remote_address, app=app)"),
        ("socketio", "SocketIO(app)"),
        ("api", "Api(app)"),
        ("celery_app", "celery_init_app(app)"),
        ("client", "app.test_client()"),
        ("context", "app.app_context()"),
    ] {
        let text = format!("{FLASK}{name} = {value}\n");
        check(&[("Flask app:app", &[("app.py", &text)])]);
    }
    let several = format!("{FLASK}db = SQLAlchemy(app)\nlogin = LoginManager(app)\n");
    check(&[("Flask app:app", &[("app.py", &several)])]);
    let client = format!("{FASTAPI}client = TestClient(app)\nmcp = FastApiMCP(app)\n");
    check(&[("FastAPI app:app", &[("app.py", &client)])]);
}

#[test]
fn what_is_around_an_application_is_served() {
    check(&[
        (
            "FastAPI main:server",
            &[(
                "main.py",
                "import socketio\nfrom fastapi import FastAPI\napp = FastAPI()\nsio = socketio.AsyncServer()\nserver = socketio.ASGIApp(sio, app)\n",
            )],
        ),
        (
            "FastAPI main:app",
            &[(
                "main.py",
                "import socketio\nfrom fastapi import FastAPI\napi = FastAPI()\nsio = socketio.AsyncServer()\napp = socketio.ASGIApp(sio, other_asgi_app=api)\n",
            )],
        ),
        (
            "FastAPI main:app",
            &[(
                "main.py",
                "import gradio as gr\nfrom fastapi import FastAPI\napi = FastAPI()\napp = gr.mount_gradio_app(api, demo, path='/')\n",
            )],
        ),
        (
            "Flask app:asgi_app",
            &[(
                "app.py",
                "from flask import Flask\nfrom asgiref.wsgi import WsgiToAsgi\nflask_app = Flask('x')\nasgi_app = WsgiToAsgi(flask_app)\n",
            )],
        ),
        (
            "Starlette main:app",
            &[(
                "main.py",
                "from fastapi import FastAPI\nfrom starlette.applications import Starlette\napi = FastAPI()\napp = Starlette(routes=[Mount('/api', app=api)])\n",
            )],
        ),
        (
            "Starlette app:served",
            &[(
                "app.py",
                "from starlette.applications import Starlette\napp = Starlette()\nserved = SentryAsgiMiddleware(app)\n",
            )],
        ),
    ]);
}

#[test]
fn python_that_is_no_framework_of_the_web() {
    check(&[
        ("Shiny app:app", &[("app.py", "from shiny import App, ui\napp = App(ui.page_fluid(), server)\n")]),
        (
            "CherryPy app:application",
            &[("app.py", "import cherrypy\napplication = cherrypy.Application(Root(), '')\n")],
        ),
        (
            "an MCP server server:app",
            &[("server.py", "from fastmcp import FastMCP\nmcp = FastMCP('x')\napp = mcp.http_app()\n")],
        ),
        (
            "an MCP server server:app",
            &[(
                "server.py",
                "from mcp.server.fastmcp import FastMCP\nmcp = FastMCP('x')\napp = mcp.streamable_http_app()\n",
            )],
        ),
        ("nothing", &[("server.py", "from fastmcp import FastMCP\nmcp = FastMCP('x')\n")]),
        (
            "an ASGI application app:app",
            &[("app.py", "import socketio\nsio = socketio.AsyncServer()\napp = socketio.ASGIApp(sio)\n")],
        ),
        (
            "a WSGI application hgweb:application",
            &[("hgweb.py", "from mercurial.hgweb import hgweb\napplication = hgweb(b'/etc/hgweb.config')\n")],
        ),
        (
            "a WSGI application app:application",
            &[(
                "app.py",
                "import web\napp = web.application(('/', 'i'), globals())\napplication = app.wsgifunc()\n",
            )],
        ),
    ]);
}

#[test]
fn python_in_one_module() {
    check(&[
        ("Flask app:app", &[("app.py", FLASK)]),
        ("Flask hello:app", &[("hello.py", FLASK)]),
        ("FastAPI main:app", &[("main.py", FASTAPI)]),
        (
            "FastAPI main:app",
            &[("main.py", "import fastapi\napp: fastapi.FastAPI = fastapi.FastAPI(\n    title='x',\n)\n")],
        ),
        ("FastAPI main:api", &[("main.py", "from fastapi import FastAPI as F\napi = F()\n")]),
        ("Flask 'app:create_app()'", &[("app.py", FACTORY)]),
        (
            "Starlette main:app",
            &[("main.py", "from starlette.applications import Starlette\napp = Starlette(routes=[])\n")],
        ),
        ("Quart app:app", &[("app.py", "from quart import Quart\napp = Quart(__name__)\n")]),
        ("Litestar app:app", &[("app.py", "from litestar import Litestar, get\napp = Litestar([])\n")]),
        ("Sanic server:app", &[("server.py", "from sanic import Sanic\napp = Sanic('x')\n")]),
        ("Falcon app:api", &[("app.py", "import falcon\napi = falcon.App()\n")]),
        ("Falcon app:app", &[("app.py", "import falcon.asgi\napp = falcon.asgi.App()\n")]),
        ("Bottle app:app", &[("app.py", "import bottle\napp = bottle.default_app()\n")]),
        ("Dash app:app.server", &[("app.py", "from dash import Dash, html\napp = Dash(__name__)\n")]),
        (
            "Pyramid app:app",
            &[(
                "app.py",
                "from pyramid.config import Configurator\nconfig = Configurator()\napp = config.make_wsgi_app()\n",
            )],
        ),
        ("aiohttp -- python3 app.py", &[("app.py", "from aiohttp import web\napp = web.Application()\n")]),
        (
            "a WSGI application app:application",
            &[("app.py", "def application(environ, start_response):\n    return []\n")],
        ),
        ("an ASGI application app:app", &[("app.py", "async def app(scope, receive, send):\n    pass\n")]),
        // A class of the same name from elsewhere is not the framework's.
        ("nothing", &[("app.py", "from mine import Flask\napp = Flask(__name__)\n")]),
        // Only what an import makes is there to be served.
        (
            "nothing",
            &[("app.py", "from flask import Flask\nif __name__ == '__main__':\n    app = Flask(__name__)\n")],
        ),
        ("nothing", &[("app.py", "'''\nfrom flask import Flask\napp = Flask(__name__)\n'''\n")]),
        ("nothing", &[("app.py", "from flask import Flask\n# app = Flask(__name__)\n")]),
        ("nothing", &[("app.py", "from flask import Flask\nclass A:\n    app = Flask(__name__)\n")]),
        (
            "nothing",
            &[(
                "app.py",
                "def create_app(settings):\n    from flask import Flask\n    return Flask(settings)\n",
            )],
        ),
        // An import in a factory counts.
        (
            "Flask 'app:create_app()'",
            &[("app.py", "def create_app():\n    from flask import Flask\n    return Flask('x')\n")],
        ),
        (
            "Flask app:app",
            &[(
                "app.py",
                "try:\n    from flask import Flask\nexcept ImportError:\n    raise\napp = Flask('x')\n",
            )],
        ),
        // Something around it.
        (
            "Flask app:app",
            &[(
                "app.py",
                "from flask import Flask\nfrom w import ProxyFix\napp = Flask('x')\napp = ProxyFix(app, x_for=1)\n",
            )],
        ),
        (
            "FastAPI main:application",
            &[(
                "main.py",
                "from fastapi import FastAPI\nfrom w import Middleware\napi = FastAPI()\napplication = Middleware(api)\n",
            )],
        ),
        ("Flask app:app", &[("app.py", "\u{feff}from flask import Flask\r\n\r\napp = Flask(__name__)\r\n")]),
    ]);
}

#[test]
fn python_in_packages() {
    check(&[
        (
            "Flask shop.wsgi:application",
            &[
                ("shop/__init__.py", ""),
                ("shop/app.py", FACTORY),
                ("shop/wsgi.py", "from shop.app import create_app\n\napplication = create_app()\n"),
            ],
        ),
        (
            "Flask wsgi:app",
            &[
                ("shop/__init__.py", FACTORY),
                ("wsgi.py", "from shop import create_app\napp = create_app('prod')\n"),
            ],
        ),
        (
            "Flask wsgi:app",
            &[
                ("app.py", FLASK),
                ("wsgi.py", "from app import app\n\nif __name__ == '__main__':\n    app.run()\n"),
            ],
        ),
        ("Flask 'shop:create_app()'", &[("shop/__init__.py", FACTORY), ("shop/views.py", "x = 1\n")]),
        ("Flask shop:app", &[("shop/__init__.py", "from .core import app\n"), ("shop/core.py", FLASK)]),
        (
            "FastAPI app.main:app",
            &[("app/__init__.py", ""), ("app/main.py", FASTAPI), ("app/api/__init__.py", "")],
        ),
        ("FastAPI src/main.py:app", &[("src/main.py", FASTAPI)]),
        ("FastAPI src/shop/main.py:app", &[("src/shop/__init__.py", ""), ("src/shop/main.py", FASTAPI)]),
        (
            "FastAPI main:app",
            &[
                ("main.py", FASTAPI),
                ("tests/main.py", FASTAPI),
                ("test_main.py", FASTAPI),
                ("conftest.py", FASTAPI),
            ],
        ),
        (
            "Flask app:app",
            &[
                ("app.py", FLASK),
                (".venv/lib/app.py", FASTAPI),
                ("own/pyvenv.cfg", ""),
                ("own/x.py", FASTAPI),
            ],
        ),
        // A directory that imports name is a part; one that they do not is another project.
        (
            "FastAPI app.main:app",
            &[("app/main.py", FASTAPI), ("app/api.py", "from app.core import x\n"), ("app/core.py", "")],
        ),
        ("FastAPI app.main:app", &[("app/main.py", FASTAPI), ("run.py", "from app.main import app\n")]),
        (
            "FastAPI app.main:app",
            &[
                ("app/main.py", "from .core import x\nfrom fastapi import FastAPI\napp = FastAPI()\n"),
                ("app/core.py", ""),
            ],
        ),
        ("FastAPI backend/ main:app", &[("backend/main.py", FASTAPI), ("backend/core.py", "")]),
        // A usual name before others; one near the root before one further down.
        ("Flask app:app", &[("app.py", FLASK), ("playground.py", FLASK)]),
        ("FastAPI main:app", &[("main.py", FASTAPI), ("shop/__init__.py", ""), ("shop/app.py", FASTAPI)]),
        // wsgi and asgi of one application.
        (
            "Flask shop.wsgi:app",
            &[
                ("shop/__init__.py", FACTORY),
                ("shop/wsgi.py", "from shop import create_app\napp = create_app()\n"),
                ("shop/asgi.py", "from shop import create_app\napp = create_app()\n"),
            ],
        ),
        // A usual name before others in a module.
        (
            "FastAPI main:app",
            &[(
                "main.py",
                "from fastapi import FastAPI\nv1 = FastAPI()\napp = FastAPI()\napp.mount('/v1', v1)\n",
            )],
        ),
    ]);
}

#[test]
fn equals_are_not_guessed_between() {
    check(&[
        ("Flask app:app | FastAPI main:app", &[("app.py", FLASK), ("main.py", FASTAPI)]),
        ("Flask app:app | Flask main:app", &[("app.py", FLASK), ("main.py", FLASK)]),
        (
            "FastAPI main:public | FastAPI main:admin",
            &[("main.py", "from fastapi import FastAPI\npublic = FastAPI()\nadmin = FastAPI()\n")],
        ),
        (
            "Flask app:app | Express -- node server.js",
            &[
                ("app.py", FLASK),
                ("package.json", r#"{"dependencies": {"express": "5"}}"#),
                ("server.js", "app.listen(process.env.PORT)"),
            ],
        ),
        ("Go -- ./a | Go -- ./b", &[("go.mod", "module m\n"), ("cmd/a/main.go", GO), ("cmd/b/main.go", GO)]),
        ("Django api/ manage.py | Flask web/ app:app", &[("api/manage.py", MANAGE), ("web/app.py", FLASK)]),
        (
            "Django manage.py | Rails config.ru",
            &[("manage.py", MANAGE), ("config.ru", "run X\n"), ("config/application.rb", RAILS)],
        ),
    ]);
}

const MANAGE: &str = "import os\nos.environ.setdefault('DJANGO_SETTINGS_MODULE', 'mysite.settings')\n";
const RAILS: &str = "module Shop\n  class Application < Rails::Application\n  end\nend\n";
const GO: &str = "package main\n\nimport \"net/http\"\n\nfunc main() { http.ListenAndServe(\":\"+os.Getenv(\"PORT\"), nil) }\n";

#[test]
fn django() {
    let wsgi = "application = get_wsgi_application()\n";
    check(&[
        (
            "Django mysite.wsgi:application",
            &[
                ("manage.py", MANAGE),
                ("mysite/settings.py", "WSGI_APPLICATION = 'mysite.wsgi.application'\n"),
            ],
        ),
        (
            "Django mysite.wsgi:application",
            &[("manage.py", MANAGE), ("mysite/settings.py", ""), ("mysite/wsgi.py", wsgi)],
        ),
        (
            "Django mysite.asgi:application",
            &[("manage.py", MANAGE), ("mysite/settings.py", ""), ("mysite/asgi.py", wsgi)],
        ),
        (
            "Django mysite.asgi:application",
            &[
                ("manage.py", MANAGE),
                (
                    "mysite/settings.py",
                    "INSTALLED_APPS = [\n  'daphne',\n]\nWSGI_APPLICATION = 'mysite.wsgi.application'\nASGI_APPLICATION = 'mysite.asgi.application'\n",
                ),
            ],
        ),
        (
            "Django config.wsgi:application",
            &[
                (
                    "manage.py",
                    "os.environ.setdefault(\n    \"DJANGO_SETTINGS_MODULE\", \"config.settings.local\"\n)\n",
                ),
                ("config/settings/base.py", "WSGI_APPLICATION = \"config.wsgi.application\"\n"),
                ("config/settings/local.py", "from .base import *\n"),
                ("package.json", r#"{"scripts": {"start": "node x.js"}, "dependencies": {"express": "5"}}"#),
                ("x.js", "listen(1)"),
            ],
        ),
        ("Django manage.py", &[("manage.py", MANAGE)]),
        (
            "Django backend/ mysite.wsgi:application",
            &[
                ("backend/manage.py", MANAGE),
                ("backend/mysite/wsgi.py", wsgi),
                ("frontend/package.json", "{}"),
            ],
        ),
        // Not Django's: a script of that name.
        ("nothing", &[("manage.py", "print('hello')\n")]),
    ]);
    let directory = Directory::new(&[
        ("manage.py", MANAGE),
        ("mysite/settings.py", "STATIC_URL = 'static/'\nSTATIC_ROOT = BASE_DIR / 'public/assets'\n"),
    ]);
    let Discovery::One { chosen, .. } = directory.found() else { panic!("one") };
    assert_eq!(chosen.assets, [("/static/*".to_owned(), "public/assets".to_owned())]);
    let (first, last) = (&chosen.evidence[0], chosen.evidence.len());
    assert_eq!((first.file.as_str(), first.line, last), ("manage.py", 2, 1));
}

#[test]
fn ruby() {
    check(&[
        (
            "Rails config.ru",
            &[
                ("config.ru", "run Rails.application\n"),
                ("config/application.rb", RAILS),
                ("package.json", r#"{"scripts": {"start": "node a.js"}}"#),
                ("a.js", "x.listen(1)"),
            ],
        ),
        (
            "Sinatra config.ru",
            &[("config.ru", "require './app'\nrun App\n"), ("app.rb", "require 'sinatra/base'\n")],
        ),
        (
            "Sinatra config.ru",
            &[("config.ru", "run App\n"), ("Gemfile", "source 'x'\ngem \"sinatra\", '~> 4'\n")],
        ),
        ("Roda config.ru", &[("config.ru", "require \"roda\"\nrun App.freeze.app\n")]),
        (
            "Hanami config.ru",
            &[("config.ru", "require \"hanami/boot\"\nrun Hanami.app\n"), ("Gemfile", "gem 'hanami'\n")],
        ),
        (
            "a Rack application config.ru",
            &[
                ("config.ru", "# require 'sinatra'\nrun ->(env) { [200, {}, []] }\n"),
                ("Gemfile", "# gem 'roda'\n"),
            ],
        ),
        ("nothing", &[("app.rb", "require 'sinatra'\nget('/') { 'x' }\n")]),
    ]);
    let classic = Directory::new(&[("app.rb", "# x\nrequire 'sinatra'\n")]);
    let line = crate::sinatra_without_rackup(&Project::open(&classic.0).expect("a directory"));
    assert_eq!(line.map(|line| (line.file, line.line)), Some(("app.rb".to_owned(), 2)));
}

#[test]
fn php() {
    let symfony = "<?php\nrequire_once dirname(__DIR__).'/vendor/autoload_runtime.php';\nreturn fn () => new Kernel();\n";
    let composer = |package: &str| format!("{{\n  \"require\": {{\n    \"{package}\": \"^7.0\"\n  }}\n}}\n");
    let (bundle, slim) = (composer("symfony/framework-bundle"), composer("slim/slim"));
    check(&[
        (
            "Symfony public/index.php",
            &[
                ("composer.json", &bundle),
                ("public/index.php", symfony),
                ("src/Kernel.php", ""),
                ("package.json", "{}"),
            ],
        ),
        ("Slim public/index.php", &[("composer.json", &slim), ("public/index.php", "<?php\n$app->run();\n")]),
        ("Slim public/index.php", &[("public/index.php", "<?php\nuse Slim\\App;\nreturn new App();\n")]),
        (
            "Laravel keepwarm.php",
            &[
                ("artisan", ""),
                ("bootstrap/app.php", "<?php\nreturn $app;\n"),
                ("public/index.php", ""),
                ("package.json", "{}"),
            ],
        ),
        ("WordPress index.php", &[("wp-load.php", ""), ("index.php", ""), ("wp-config.php", "")]),
        ("WordPress public/index.php", &[("public/wp-load.php", ""), ("public/index.php", "")]),
        (
            "MediaWiki index.php",
            &[("includes/WebStart.php", ""), ("LocalSettings.php", ""), ("index.php", "")],
        ),
        ("Drupal web/index.php", &[("web/core/lib/Drupal.php", ""), ("web/index.php", "")]),
        ("PHP index.php", &[("index.php", "<?php phpinfo();")]),
        ("PHP public/index.php", &[("index.php", ""), ("public/index.php", "")]),
        ("PHP index.php", &[("index.php", ""), ("index.html", "")]),
        (
            "PHP start.php",
            &[
                ("index.html", "<meta http-equiv=\"refresh\" content=\"1;URL=./start.php\">"),
                ("start.php", ""),
                ("a.php", ""),
            ],
        ),
    ]);
    let laravel = Directory::new(&[("artisan", ""), ("bootstrap/app.php", "<?php\nreturn $app;\n")]);
    let Discovery::One { chosen, .. } = laravel.found() else { panic!("one") };
    let (name, text) = chosen.own_file.expect("a file of its own");
    assert!(
        name == "keepwarm.php" && text.starts_with("<?php\n") && text.contains("return require"),
        "{text}"
    );
}

#[test]
fn node() {
    check(&[
        (
            "Express -- node server.js",
            &[
                (
                    "package.json",
                    r#"{"scripts": {"start": "node server.js"}, "dependencies": {"express": "5"}}"#,
                ),
                ("server.js", ""),
            ],
        ),
        (
            "Express -- node app.js",
            &[
                ("package.json", r#"{"main": "app.js", "dependencies": {"express": "5"}}"#),
                ("app.js", ""),
                ("index.js", ""),
            ],
        ),
        (
            "Fastify -- npm start",
            &[(
                "package.json",
                r#"{"scripts": {"start": "NODE_ENV=x node a.js && b"}, "dependencies": {"fastify": "5"}}"#,
            )],
        ),
        (
            "Next.js -- node_modules/.bin/next start -H 127.0.0.1",
            &[(
                "package.json",
                r#"{"scripts": {"start": "next start", "build": "next build"}, "dependencies": {"next": "15"}}"#,
            )],
        ),
        ("Nuxt -- node .output/server/index.mjs", &[("package.json", r#"{"dependencies": {"nuxt": "4"}}"#)]),
        (
            "SvelteKit -- node build",
            &[(
                "package.json",
                r#"{"scripts": {"build": "vite build"}, "devDependencies": {"@sveltejs/adapter-node": "5", "vite": "7"}}"#,
            )],
        ),
        (
            "Astro -- node dist/server/entry.mjs",
            &[(
                "package.json",
                r#"{"scripts": {"build": "astro build"}, "dependencies": {"astro": "6", "@astrojs/node": "10"}}"#,
            )],
        ),
        (
            "a static site the files in dist",
            &[
                ("package.json", r#"{"scripts": {"build": "vite build"}, "devDependencies": {"vite": "8"}}"#),
                ("index.html", "<script type=module src=/src/main.jsx></script>"),
            ],
        ),
        (
            "NestJS -- node dist/main.js",
            &[(
                "package.json",
                r#"{"scripts": {"start": "node dist/main.js"}, "dependencies": {"@nestjs/core": "11"}}"#,
            )],
        ),
        (
            "Node -- node server.js",
            &[
                ("package.json", "{}"),
                ("server.js", "require('http').createServer(f).listen(process.env.PORT)"),
            ],
        ),
        (
            "nothing",
            &[("package.json", r#"{"scripts": {"start": "vite"}, "devDependencies": {"vite": "7"}}"#)],
        ),
        ("nothing", &[("package.json", r#"{"devDependencies": {"express": "5"}}"#)]),
        (
            "a static site the files in dist",
            &[
                ("package.json", r#"{"scripts": {"start": "vite"}}"#),
                ("dist/index.html", ""),
                ("index.html", ""),
            ],
        ),
        ("nothing", &[("package.json", "{ not JSON")]),
        ("nothing", &[("package.json", "[]")]),
        (
            "Deno -- deno task start",
            &[("deno.json", "{\n  \"tasks\": {\n    \"start\": \"deno run main.ts\"\n  }\n}\n")],
        ),
    ]);
    let fixed = Directory::new(&[
        ("package.json", r#"{"dependencies": {"express": "5"}}"#),
        ("server.js", "const app = 1;\napp.listen(3000);\n"),
    ]);
    let Discovery::One { chosen, .. } = fixed.found() else { panic!("one") };
    assert!(
        chosen.advice.iter().any(|advice| advice.starts_with("server.js:2 listens on a fixed port")),
        "{:?}",
        chosen.advice
    );
}

#[test]
fn go_and_rust() {
    check(&[
        ("Go -- ./site", &[("go.mod", "module example.com/me/site/v2\n\ngo 1.22\n"), ("main.go", GO)]),
        (
            "Go -- ./web",
            &[("go.mod", "module m\n"), ("cmd/web/main.go", GO), ("cmd/tool/main.go", "package main\n")],
        ),
        ("nothing", &[("go.mod", "module m\n"), ("main.go", "package lib\nimport \"net/http\"\n")]),
        ("nothing", &[("go.mod", "module m\n"), ("main_test.go", GO)]),
        (
            "Rust -- target/release/shop",
            &[
                ("Cargo.toml", "[package]\nname = \"shop\"\n[dependencies]\naxum = \"0.8\"\n"),
                ("src/main.rs", ""),
            ],
        ),
        (
            "nothing",
            &[("Cargo.toml", "[package]\nname = \"x\"\n[dependencies]\nclap = \"4\"\n"), ("src/main.rs", "")],
        ),
    ]);
    let Discovery::One { chosen, .. } = Directory::new(&[("go.mod", "module m\n"), ("main.go", GO)]).found()
    else {
        panic!("one")
    };
    assert!(matches!(&chosen.start, Start::Command { build: Some(build), .. } if build == "go build -o m ."));
    let Discovery::One { chosen, .. } =
        Directory::new(&[("go.mod", "module m\n"), ("main.go", GO), ("m", "")]).found()
    else {
        panic!("one")
    };
    assert!(matches!(&chosen.start, Start::Command { build: None, .. }));
}

#[test]
fn a_procfile_decides() {
    check(&[
        (
            "FastAPI main:app",
            &[("Procfile", "web: uvicorn main:app --port $PORT\n"), ("app.py", FLASK), ("main.py", FASTAPI)],
        ),
        (
            "Flask shop.wsgi:application",
            &[
                ("Procfile", "release: x\nweb: gunicorn shop.wsgi\n"),
                ("shop/__init__.py", ""),
                ("shop/wsgi.py", "from flask import Flask\napplication = Flask('x')\n"),
                ("main.py", FASTAPI),
            ],
        ),
        (
            "the command of a Procfile odd.place:thing",
            &[("Procfile", "web: gunicorn odd.place:thing\n"), ("app.py", FLASK)],
        ),
        ("the command of a Procfile -- ./serve --fast", &[("Procfile", "worker: x\nweb: ./serve --fast\n")]),
        (
            "the command of a Procfile -- sh -c 'exec ./serve -p $PORT'",
            &[("Procfile", "web: ./serve -p $PORT\n"), ("index.html", "")],
        ),
        (
            "Rails config.ru",
            &[("Procfile", "web: bundle exec puma\n"), ("config.ru", ""), ("config/application.rb", RAILS)],
        ),
        (
            "Express -- node server.js",
            &[
                ("Procfile", "web: npm start\n"),
                (
                    "package.json",
                    r#"{"scripts": {"start": "node server.js"}, "dependencies": {"express": "5"}}"#,
                ),
                ("app.py", FLASK),
            ],
        ),
        ("nothing", &[("Procfile", "worker: x\n")]),
        ("nothing", &[("Procfile", "web:\n")]),
    ]);
    let directory = Directory::new(&[(
        "Procfile",
        "web: ./serve\n# a comment: no process\nworker: celery -A shop\nworker: again\nbad name: x\nrelease:\n",
    )]);
    let Discovery::One { chosen, .. } = directory.found() else { panic!("one") };
    assert_eq!(chosen.advice, [""; 0]);
    let processes = processes(&Project::open(&directory.0).expect("a directory"), &chosen);
    let expected = Process {
        name: "worker".to_owned(),
        words: ["celery", "-A", "shop"].map(str::to_owned).to_vec(),
        place: "Procfile:3".to_owned(),
    };
    assert_eq!(processes, [expected]);
}

#[test]
fn static_sites_and_nothing() {
    check(&[
        ("a static site the files in .", &[("index.html", "<p>x")]),
        ("a static site the files in public", &[("public/index.html", "<p>x"), ("README.md", "")]),
        ("Flask app:app", &[("index.html", ""), ("app.py", FLASK)]),
        ("nothing", &[]),
        // Not a static site: its scripts would be sent as text.
        (
            "PHP .",
            &[
                ("index.html", "<meta http-equiv=\"refresh\" content=\"0; URL=templates/login.php\">"),
                ("templates/login.php", "<?php"),
                ("config/config.cfg", "password: x"),
            ],
        ),
        ("nothing", &[("README.md", "# from flask import Flask")]),
        ("nothing", &[("app.py", "\0\0\0")]),
        (
            "Flask a/ app:app",
            &[("a/app.py", FLASK), ("node_modules/x/index.html", ""), (".git/index.html", "")],
        ),
    ]);
}

/// What cannot be read, waits or never ends is passed over.
#[test]
fn odd_entries_do_not_matter() {
    let directory = Directory::new(&[("app.py", FLASK), ("sub/x", "")]);
    let link = |to: &str, name: &str| std::os::unix::fs::symlink(to, directory.0.join(name)).expect("a link");
    link("/dev/zero", "main.py");
    link("gone", "wsgi.py");
    link(".", "loop");
    link("..", "sub/up");
    let fifo = directory.0.join("asgi.py");
    let made = std::process::Command::new("mkfifo").arg(&fifo).status().expect("mkfifo");
    assert!(made.success());
    std::fs::write(directory.0.join("large.py"), vec![b'x'; 3_000_000]).expect("a file");
    assert_eq!(shown(&directory.found()), "Flask app:app");
    assert!(Project::open(&directory.0.join("app.py")).is_err());
    assert!(Project::open(Path::new("/nowhere/at/all")).is_err());
}

#[test]
fn one_of_several_has_a_name() {
    let both = Directory::new(&[("app.py", FLASK), ("main.py", FASTAPI)]).found();
    assert_eq!(both.names(), ["flask", "fastapi"]);
    assert_eq!(both.named("FastAPI").map(|one| one.start.shown()), Some("main:app".to_owned()));
    assert_eq!(both.named("app:app").map(|one| one.framework.name), Some("Flask"));
    assert_eq!(both.named("rails"), None);
    let twins = Directory::new(&[("app.py", FLASK), ("main.py", FLASK)]).found();
    assert_eq!(twins.names(), ["app:app", "main:app"]);
    assert_eq!(twins.named("flask"), None);
    let directories = Directory::new(&[("a/app.py", FLASK), ("b/app.py", FLASK)]).found();
    assert_eq!(directories.names(), ["a", "b"]);
    assert_eq!(directories.named("b/").map(|one| one.directory), Some("b".to_owned()));
    // What a rule put after another has a name too.
    let rails =
        Directory::new(&[("config.ru", ""), ("config/application.rb", RAILS), ("app.py", FLASK)]).found();
    assert_eq!(rails.named("flask").map(|one| one.start.shown()), Some("app:app".to_owned()));
}

#[test]
fn a_wrong_target_has_a_nearest_right_one() {
    let nearest = |files: &[(&str, &str)], wrong: &str| {
        let directory = Directory::new(files);
        nearest_target(&Project::open(&directory.0).expect("a directory"), wrong)
    };
    let files = [("app.py", FLASK), ("main.py", FASTAPI)];
    assert_eq!(nearest(&files, "ap:app").as_deref(), Some("app:app"));
    assert_eq!(nearest(&files, "mian:app").as_deref(), Some("main:app"));
    assert_eq!(nearest(&files, "app:application").as_deref(), Some("app:app"));
    assert_eq!(nearest(&files, "nothing.like.it:x"), None);
    assert_eq!(nearest(&[("index.php", "")], "idnex.php").as_deref(), Some("index.php"));
    assert_eq!(nearest(&[("config.ru", "")], "confg.ru").as_deref(), Some("config.ru"));
    assert_eq!(
        nearest(&[("app.py", FLASK)], "shop.wsgi").as_deref(),
        Some("app:app"),
        "the only one there is"
    );
    assert_eq!(nearest(&[], "app:app"), None);
    assert_eq!(nearest(&files, "app:app"), None, "it is there");
    assert_eq!(nearest(&[("app.py", FACTORY)], "app:create_app"), None, "it is there");
}
