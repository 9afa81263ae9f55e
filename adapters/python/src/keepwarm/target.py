"""From a TARGET on the command line to the application, and to its kind."""

import ast
import difflib
import importlib
import inspect
import os

from keepwarm import usual
from keepwarm.errors import LoadError

WSGI, ASGI = "wsgi", "asgi"


def load(target):
    """Imports what `target` names: `module:attribute`, `module:factory`, `module:factory("argument", name=1)`, `module`, `dir/file.py[:attribute]`, or a directory.

    An exception of the application's own code passes through; `LoadError` says in one sentence what else is wrong.
    """
    where, attribute = _split(target)
    if not attribute and usual.is_folder(where):
        return _application(target, usual.in_folder(where))
    module = importlib.import_module(module_name(where))
    usual.check_hidden(module)
    if not attribute:
        return _application(target, usual.of_module(module, where))
    name, arguments = _call(target, attribute)
    found = _attribute(module, where, name)
    if arguments is not None:
        if not callable(found):
            raise LoadError(f"{target!r} calls {name}, which is {_described(found)} and cannot be called")
        positional, named = arguments
        return _made(target, found(*positional, **named))
    if not callable(found):
        raise LoadError(f"{target!r} is {_described(found)}, not a WSGI or ASGI application: it cannot be called")
    return _application(target, found)


def _application(target, found):
    """What was found, or what it makes."""
    return _made(target, found()) if _is_factory(found) else found


def _made(target, application):
    if not callable(application):
        made = "nothing" if application is None else _described(application)
        raise LoadError(f"{target!r} returned {made}, not a WSGI or ASGI application: it cannot be called")
    return application


def _is_factory(found):
    """Whether it can be called without arguments, and so is not an application: those need two or three arguments."""
    if not _is_function(found) or inspect.iscoroutinefunction(found):
        return False
    count = _positional(found)
    return count is not None and 0 in count and 99 not in count


def kind_of(application):
    """WSGI or ASGI, according to the signature."""
    if type(application).__module__.startswith("aiohttp."):
        raise LoadError(
            f"{_described(application)} is not a WSGI or ASGI application but one for aiohttp's own server. "
            "Run that server: 'keepwarm run -- python app.py'; it must listen on the port in the environment variable PORT"
        )
    call = application if _is_function(application) else getattr(application, "__call__", application)
    if inspect.isclass(application):
        call = application
    count = _positional(call)
    if inspect.iscoroutinefunction(application) or inspect.iscoroutinefunction(call):
        if count is not None and 3 not in count:
            raise LoadError(
                f"{_described(application)} is asynchronous but does not take (scope, receive, send): not an ASGI 3 application"
            )
        return ASGI
    if count is None or 2 in count:
        return WSGI
    if 3 in count:
        return ASGI  # a plain callable that returns the coroutine
    if 1 in count:
        raise LoadError(
            f"{_described(application)} takes one argument, like an ASGI 2 application (scope) -> (receive, send). "
            "Only ASGI 3 is supported; asgiref.compatibility.guarantee_single_callable converts ASGI 2 applications. "
            "If it is a factory, pass its argument in the target: 'module:factory(\"argument\")'"
        )
    raise LoadError(
        f"{_described(application)} takes neither (environ, start_response) nor (scope, receive, send): "
        "it is neither a WSGI nor an ASGI application. If it is a factory, call it in the target: 'module:factory()'"
    )


def _split(target):
    """`module:attribute`; a colon within a path's directory, or within the arguments of a factory, is not taken for the separator."""
    before = target.index("(") if target.endswith(")") and "(" in target else len(target)
    where, colon, attribute = target[:before].rpartition(":")
    if not colon or os.sep in attribute:
        return target, ""
    return where, attribute + target[before:]


def _call(target, attribute):
    """The name, and the arguments after it, which are Python literals; None if it is not called."""
    if not attribute.endswith(")"):
        return attribute, None
    try:
        call = ast.parse(attribute, mode="eval").body
        if not isinstance(call, ast.Call) or any(one.arg is None for one in call.keywords):
            raise ValueError
        positional = [ast.literal_eval(one) for one in call.args]
        named = {one.arg: ast.literal_eval(one.value) for one in call.keywords}
    except (SyntaxError, ValueError):
        raise LoadError(f"{target!r}: factory arguments must be Python literals, as in 'module:factory(\"shop\", debug=True)'") from None
    return attribute[: attribute.index("(")], (positional, named)


def missing(target, error):
    """A sentence about a module that was not found while `target` was imported."""
    where, _ = _split(target)
    own = module_name(where)
    absent = error.name or ""
    if absent and (own == absent or own.startswith(absent + ".")):
        return usual.no_target(where, absent)
    return f"module {absent!r} not found among the packages of {usual.interpreter()}; install it there, or set the app's `interpreter`"


def module_name(where):
    """The name to import; for a path, the directory above the outermost package is added to `sys.path`."""
    if not (where.endswith(".py") or os.sep in where):
        return where
    if os.path.isdir(where):
        return usual.package_name(os.path.abspath(where))
    path = os.path.abspath(where if where.endswith(".py") else where + ".py")
    if not os.path.isfile(path):
        raise LoadError(f"file {where!r} not found in {os.getcwd()}")
    folder, name = os.path.split(path)
    names = [] if name == "__init__.py" else [name[:-3]]
    return usual.package_name(folder, *names)


def _attribute(module, where, dotted):
    found = module
    for name in dotted.split("."):
        try:
            found = getattr(found, name)
        except AttributeError:
            near = difflib.get_close_matches(name, [one for one in dir(found) if not one.startswith("__")], n=3)
            hint = f"; similar names: {', '.join(near)}" if near else usual.elsewhere(module)
            raise LoadError(f"{where!r} has no attribute {name!r}{hint}") from None
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
