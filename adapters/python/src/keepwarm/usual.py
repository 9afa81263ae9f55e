"""Where an application stands that its target does not name: usual names in usual modules, Django's `manage.py`, or the only one that a module has."""

import difflib
import importlib
import importlib.util
import inspect
import os
import re
import sys

from keepwarm.errors import LoadError

_NAMES = ("application", "app")
_FACTORIES = ("create_app", "make_app", "get_app")
_MODULES = ("wsgi", "asgi", "app", "main")  # of a package
_FILES = ("wsgi", "asgi", "manage", "app", "main", "application", "api", "server")  # of a directory that is not a package


def of_module(module, where):
    """The application of a module, or its factory; a package has it in a module of its own, a `manage.py` beside its settings."""
    for one in _candidates(module):
        found = _found_in(one)
        if found is not None:
            return found
    raise LoadError(f"{where!r} has neither 'application' nor 'app' nor 'create_app'; name the application: {_suggestion(module, where)}")


def is_folder(where):
    """Whether a target is a directory: a path, or a name that no module has."""
    if not os.path.isdir(where):
        return False
    return os.sep in where or where in (".", "..") or not (_is_package(where) or _exists(where))


def in_folder(where):
    """Like `of_module`, for the first module in the directory that has one."""
    folder = os.path.abspath(where)
    if _is_package(folder):
        return of_module(importlib.import_module(package_name(folder)), where)
    package_name(folder)
    files = [name for name in _FILES if os.path.isfile(os.path.join(folder, name + ".py"))]
    packages = sorted(name for name in os.listdir(folder) if _is_package(os.path.join(folder, name)) and name.isidentifier())
    usual = [name for name in packages if name in _FILES]
    for name in (*files, *usual, *(packages if len(packages) == 1 else ())):
        for one in _candidates(importlib.import_module(name)):
            found = _found_in(one)
            if found is not None:
                return found
    tried = ", ".join(f"{name}.py" for name in files) or "no " + ", ".join(f"{name}.py" for name in _FILES)
    raise LoadError(f"no application found in the directory {folder} ({tried}); name it: 'module:NAME' or 'directory/file.py:NAME'")


def package_name(folder, *names):
    """The dotted name of a directory that is a package, or of a module in one; the directory above the outermost package is added to `sys.path`."""
    names = list(names)
    while _is_package(folder):
        folder, package = os.path.split(folder)
        names.insert(0, package)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    return ".".join(names)


def elsewhere(module):
    """Where the application of a `manage.py` is, as a sentence; "" when that is not known."""
    for name in _django(module):
        if _exists(name):
            return f"; there is {name.replace('.', '/')}.py: try '{name}:application'"
    return ""


def check_hidden(module):
    """Raises `LoadError` for a standard module, already loaded, that hides one of the same name in the directory where imports begin."""
    own = os.path.join(os.getcwd(), module.__name__ + ".py")
    loaded = getattr(module, "__file__", None)
    if os.path.isfile(own) and not (loaded and os.path.exists(loaded) and os.path.samefile(own, loaded)):
        raise LoadError(f"Python's own module {module.__name__!r} ({loaded or 'built in'}) hides {own}; rename that file")


def no_target(where, absent):
    """A sentence about a target whose own module is not there."""
    folder = os.getcwd()
    names = {os.path.splitext(name)[0] for name in os.listdir(folder) if name.endswith(".py") or _is_package(os.path.join(folder, name))}
    near = difflib.get_close_matches(absent.split(".")[0], names, n=3)
    hint = f"; similar names: {', '.join(near)}" if near and near != [absent] else ""
    return f"module {absent!r} not found for {where!r}: not in {folder} or among the packages of {interpreter()}{hint}"


def interpreter():
    """The interpreter and its virtual environment, in words."""
    place = f"the virtual environment {sys.prefix}" if sys.prefix != sys.base_prefix else "no virtual environment"
    return f"{sys.executable} ({place})"


def _candidates(module):
    """The module, then those that it stands for, each imported when it is asked for."""
    yield module
    names = [f"{module.__name__}.{name}" for name in _MODULES] if hasattr(module, "__path__") else _django(module)
    for name in names:
        if _exists(name):
            yield importlib.import_module(name)


def _found_in(module):
    """The application of a module, or its factory, by the names that are usual; else the only application that it has made, whatever its name."""
    for name in (*_NAMES, *_FACTORIES):
        if callable(getattr(module, name, None)):
            return getattr(module, name)
    made = _applications(module)
    return next(iter(made.values())) if len(made) == 1 else None


def _applications(module):
    """The objects of a module that frameworks call applications, by their name."""
    found = {}
    for name, one in vars(module).items():
        is_instance = not (inspect.isroutine(one) or inspect.isclass(one) or inspect.ismodule(one))
        if is_instance and not name.startswith("_") and type(one).__name__ in _CLASSES and callable(one) and not any(one is it for it in found.values()):
            found[name] = one
    return found


# Flask, Quart, FastAPI, Starlette, Litestar, Sanic, Falcon's App, Bottle, …
_CLASSES = frozenset(
    ("Flask", "APIFlask", "OpenAPI", "Quart", "FastAPI", "Starlette", "Litestar", "Sanic", "App", "API", "Bottle", "BlackSheep", "Application", "ASGIApp", "WSGIApp", "AsyncApp", "FlaskApp")
)


def _suggestion(module, where):
    """What to write as a target: what the module has that looks like an application, or else its form."""
    made = list(_applications(module))
    own = [name for name, one in vars(module).items() if inspect.isfunction(one) and one.__module__ == module.__name__ and "app" in name.lower()]
    names = made or [f"{name}()" for name in own]
    return " or ".join(f"'{where}:{name}'" for name in names[:3]) or f"'{where}:NAME'"


def _django(module):
    """The modules of the application of a `manage.py`: beside its settings, `mysite.settings` or `config.settings.local`."""
    try:
        settings = re.search(r"""DJANGO_SETTINGS_MODULE["'],\s*["']([\w.]+)["']""", inspect.getsource(module))
    except (OSError, TypeError):
        return []
    packages = settings[1].split(".")[:-1] if settings else []
    return [".".join([*packages[:count], name]) for count in range(len(packages), 0, -1) for name in ("wsgi", "asgi")]


def _exists(name):
    try:
        return importlib.util.find_spec(name) is not None
    except (ModuleNotFoundError, ValueError):
        return False


def _is_package(folder):
    return os.path.isfile(os.path.join(folder, "__init__.py"))
