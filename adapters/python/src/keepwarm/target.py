"""From a TARGET on the command line to the application, and to its kind."""

import difflib
import importlib
import inspect
import os
import sys

from keepwarm.errors import LoadError

WSGI, ASGI = "wsgi", "asgi"
_USUAL_NAMES = ("application", "app")


def load(target):
    """Imports what `target` names: `module:attribute`, `module:factory()`, `module`, or `dir/file.py[:attribute]`.

    An exception of the application's own code passes through; `LoadError` says in one sentence what else is wrong.
    """
    where, _, attribute = _split(target)
    module = importlib.import_module(_module_name(where))
    if not attribute:
        return _usual(module, where)
    called = attribute.endswith("()")
    found = _attribute(module, where, attribute[:-2] if called else attribute)
    if called:
        if not callable(found):
            raise LoadError(f"{target!r} calls {attribute[:-2]}, which is {_described(found)} and cannot be called.")
        found = found()
    if not callable(found):
        raise LoadError(f"{target!r} is {_described(found)}, not a WSGI or ASGI application: it cannot be called.")
    return found


def kind_of(application):
    """WSGI or ASGI, told apart by the signature."""
    call = application if _is_function(application) else getattr(application, "__call__", application)
    if inspect.isclass(application):
        call = application
    count = _positional(call)
    if inspect.iscoroutinefunction(application) or inspect.iscoroutinefunction(call):
        if count is not None and 3 not in count:
            raise LoadError(
                f"{_described(application)} is asynchronous but does not take (scope, receive, send): not an ASGI 3 application."
            )
        return ASGI
    if count is None or 2 in count:
        return WSGI
    if 3 in count:
        return ASGI  # a plain callable that returns the coroutine
    if 1 in count:
        raise LoadError(
            f"{_described(application)} takes one argument, like an ASGI 2 application (scope) -> (receive, send). "
            "Only ASGI 3 is served; asgiref.compatibility.guarantee_single_callable turns one into the other."
        )
    raise LoadError(
        f"{_described(application)} takes neither (environ, start_response) nor (scope, receive, send): "
        "it is no WSGI and no ASGI application. If it is a factory, call it in the target: 'module:factory()'."
    )


def _split(target):
    """`module:attribute`; a colon within a path's directory is not taken for the separator."""
    where, colon, attribute = target.rpartition(":")
    if not colon or os.sep in attribute:
        return target, "", ""
    return where, colon, attribute


def _module_name(where):
    """The name to import; for a path, the folder above the outermost package is put on `sys.path`."""
    if not (where.endswith(".py") or os.sep in where):
        return where
    path = os.path.abspath(where if where.endswith(".py") else where + ".py")
    if not os.path.isfile(path):
        raise LoadError(f"There is no file {where!r} in {os.getcwd()}.")
    folder, name = os.path.split(path)
    names = [] if name == "__init__.py" else [name[:-3]]
    while os.path.isfile(os.path.join(folder, "__init__.py")):
        folder, package = os.path.split(folder)
        names.insert(0, package)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    return ".".join(names)


def _usual(module, where):
    for name in _USUAL_NAMES:
        if callable(getattr(module, name, None)):
            return getattr(module, name)
    factories = [name for name in ("create_app", "make_app", "get_app") if callable(getattr(module, name, None))]
    hint = f" It has {factories[0]}: write '{where}:{factories[0]}()'." if factories else ""
    raise LoadError(f"{where!r} has neither 'application' nor 'app'; name the application: '{where}:NAME'.{hint}")


def _attribute(module, where, dotted):
    found = module
    for name in dotted.split("."):
        try:
            found = getattr(found, name)
        except AttributeError:
            near = difflib.get_close_matches(name, [one for one in dir(found) if not one.startswith("__")], n=3)
            hint = f" Near names: {', '.join(near)}." if near else ""
            raise LoadError(f"{where!r} has no attribute {name!r}.{hint}") from None
    return found


def _is_function(application):
    return inspect.isroutine(application) or inspect.isclass(application)


def _positional(call):
    """How many positional arguments a callable takes, as a range; None when Python cannot say."""
    try:
        parameters = inspect.signature(call).parameters.values()
    except (TypeError, ValueError):
        return None
    least = most = 0
    for one in parameters:
        if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD):
            most += 1
            least += one.default is one.empty
        elif one.kind == one.VAR_POSITIONAL:
            most = 99
        elif one.kind == one.KEYWORD_ONLY and one.default is one.empty:
            return range(0)
    return range(least, most + 1)


def _described(thing):
    name = getattr(thing, "__qualname__", None)
    return f"{name!r}" if name else f"an object of {type(thing).__module__}.{type(thing).__qualname__}"
