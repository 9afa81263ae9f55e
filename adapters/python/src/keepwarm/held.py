"""The containers that can be reached by a name: from modules, classes, functions and the objects in them, and how many elements each has.

No code of the application runs for it: no `__len__`, `__getattr__` or property. What would need that is not looked into.
"""

import _thread
import array
import functools
import os
import sys
import types
from collections import deque
from queue import SimpleQueue

from keepwarm import log

MOST_THREADS = 1_000  # whose own values are compared
_MOST_OBJECTS = 30_000  # that are looked into: a bound on the time, those nearest to the application's modules first
_DEPTH = 7  # attributes, elements and cells from a module
_ELEMENTS = 50  # of a container that are looked into; those of a larger one are its data
_KEY = 40  # characters

# Of the standard library, whose other modules keep little for an application: `logging.root.handlers`, `sys.path`, `os.environ`.
_LIBRARY_ROOTS = ("logging", "sys", "os", "warnings")

_local = _thread._local
_lru_cache = type(functools.lru_cache(None)(lambda: None))
_NAMED_MODULES = getattr(sys, "stdlib_module_names", None) or frozenset(sys.builtin_module_names)  # since Python 3.10
_LIBRARY = os.path.dirname(os.__file__) + os.sep


def type_name(kind):
    """The name of a type with its module, which no metaclass can change."""
    try:
        name = _qualname(kind)
        module = kind.__module__ if type(kind) is type else _module_of(kind)
    except Exception:  # a type that is half made
        return "?"
    if not isinstance(module, str) or module == "builtins":
        return name
    return f"{module}.{name}"


_qualname, _module_of, _class_dict = (type.__dict__[name].__get__ for name in ("__qualname__", "__module__", "__dict__"))


def cleaned(name):
    """Without what has a meaning on the wire."""
    return name.replace(";", ",").replace("\0", " ")


class Search:
    """`lengths`: elements by name. `local_lengths`: those that are this thread's own. `is_complete`: everything was looked into."""

    def __init__(self):
        self.lengths = {}
        self.local_lengths = {}
        self.is_complete = True
        self._seen = set()
        self._own = frozenset()  # names of the application's modules
        self._kinds = dict(_KINDS)  # type -> the method that looks into one; new types are of this search alone
        self._attributes = {}  # type -> how its instances' attributes are read
        self._libraries = {}  # name of a module -> whether it is the standard library's, or the adapter's
        self._waiting = deque()  # the method, name, object, depth, whether it is a thread's own
        self._run()
        del self._seen, self._own, self._kinds, self._attributes, self._libraries, self._waiting

    def _run(self):
        waiting = self._waiting
        own, others = _modules()
        self._own = frozenset(name for name, _ in own)
        for name, names in own + others:
            self._namespace(names.items(), name, 0, False)
        looked = 0
        while waiting:
            looked += 1
            if looked > _MOST_OBJECTS:
                self.is_complete = False
                return
            look, name, value, depth, is_local = waiting.popleft()
            try:
                look(self, name, value, depth, is_local)
            except Exception:  # an object of a class that is unlike what it is derived from
                pass

    # While memory is traced, each object that is made here costs as much as ten lines of code: nothing is, not even a name, for what need not be looked into.

    def _look(self, value):
        """The method that looks into an object. None: it was, nothing can be in it, or it is unlike what it is derived from."""
        try:
            return self._look_of(value)
        except Exception:
            return None

    def _look_of(self, value):
        kind = type(value)
        look = self._kinds.get(kind, self)
        if look is self:
            look = self._kinds[kind] = self._way_of(kind)
        if look is None:
            return None
        if kind is types.FunctionType:
            if not self._has_values(value):
                return None
        elif look is _LOOK_WRAPPER or look is _LOOK_PROPERTY:
            function = value.fget if look is _LOOK_PROPERTY else value.__func__
            if type(function) is types.FunctionType and not self._has_values(function):
                return None
        elif look is _LOOK_CLASS:
            module = value.__module__ if kind is type else _module_of(value)
            if not isinstance(module, str) or self._is_library(module):
                return None
        return None if id(value) in self._seen else look

    def _add(self, name, value, depth, is_local):
        """To be looked into, if there is something to look into."""
        look = self._look(value)
        if look is not None and depth <= _DEPTH:
            self._seen.add(id(value))
            self._waiting.append((look, name, value, depth, is_local))

    def _is_library(self, module):
        known = self._libraries.get(module)
        if known is None:
            known = self._libraries[module] = _is_library_name(module) or module.partition(".")[0] == "keepwarm"
        return known

    def _way_of(self, kind):
        """How an object of a type is looked into that is met for the first time."""
        for base, look in _BASES:
            if issubclass(kind, base):
                return look
        if type_name(kind).startswith("keepwarm."):
            return None
        readers = _readers(kind)
        if not readers[0] and not readers[1]:
            return None
        self._attributes[kind] = readers
        return Search._instance

    # -- what there is to look into -----------------------------------------------------------------------------------

    def _count(self, name, number, is_local):
        (self.local_lengths if is_local else self.lengths)[name] = number

    def _namespace(self, items, prefix, depth, is_local):
        """`items`: those of a dictionary."""
        if depth > _DEPTH:
            return
        kinds = self._kinds
        try:
            for name, value in items:
                if kinds.get(type(value), self) is None:
                    continue
                look = self._look(value)
                if look is not None and isinstance(name, str) and not (name.startswith("__") and name.endswith("__")):
                    self._seen.add(id(value))
                    self._waiting.append((look, f"{prefix}.{name}", value, depth, is_local))
        except RuntimeError:  # another thread has changed it
            pass

    def _has_values(self, function):
        """Whether there can be something in a function. Nearly all have nothing. The dictionary of one is made when it is asked for, so only the application's are."""
        if function.__closure__ is not None or self._is_own(function):
            return True
        kinds = self._kinds
        for value in function.__defaults__ or ():
            if kinds.get(type(value), self) is not None:
                return True
        named = function.__kwdefaults__
        if named is not None:
            for value in named.values():
                if kinds.get(type(value), self) is not None:
                    return True
        return False

    def _mapping(self, name, value, depth, is_local):
        size = dict.__len__(value)
        self._count(name, size, is_local)
        if size <= _ELEMENTS:
            try:
                for key, element in dict.items(value):
                    if (type(key) is str or type(key) is int) and self._look(element) is not None:
                        self._add(f"{name}[{key[:_KEY] if type(key) is str else key!r}]", element, depth + 1, is_local)
            except RuntimeError:
                pass
        if type(value) is not dict:
            self._instance(name, value, depth, is_local)

    def _list(self, name, value, depth, is_local):
        size = list.__len__(value)
        self._count(name, size, is_local)
        if size <= _ELEMENTS:
            for position, element in enumerate(list.__iter__(value)):
                if self._look(element) is not None:
                    self._add(f"{name}[{position}]", element, depth + 1, is_local)
        if type(value) is not list:
            self._instance(name, value, depth, is_local)

    def _tuple(self, name, value, depth, is_local):
        if tuple.__len__(value) <= _ELEMENTS:
            for position, element in enumerate(tuple.__iter__(value)):
                if self._look(element) is not None:
                    self._add(f"{name}[{position}]", element, depth + 1, is_local)

    def _sized(base):
        size = base.__len__

        def count(self, name, value, depth, is_local):
            self._count(name, size(value), is_local)
            if type(value) is not base:
                self._instance(name, value, depth, is_local)

        return count

    def _queue(self, name, value, depth, is_local):
        self._count(name, SimpleQueue.qsize(value), is_local)

    def _cache(self, name, value, depth, is_local):
        self._count(f"{name} (lru_cache)", _lru_cache.cache_info(value).currsize, is_local)
        self._instance(name, value, depth, is_local)
        wrapped = _lru_cache.__dict__["__dict__"].__get__(value).get("__wrapped__")
        if wrapped is not None:
            self._add(name, wrapped, depth + 1, is_local)

    def _function(self, name, value, depth, is_local):
        name = _own_name(value, name)
        code = value.__code__
        defaults = value.__defaults__ or ()
        for argument, default in zip(code.co_varnames[code.co_argcount - len(defaults) : code.co_argcount], defaults):
            self._add(f"{name}({argument}=)", default, depth + 1, is_local)
        for argument, default in (value.__kwdefaults__ or {}).items():
            self._add(f"{name}({argument}=)", default, depth + 1, is_local)
        for variable, cell in zip(code.co_freevars, value.__closure__ or ()):
            try:
                element = cell.cell_contents
            except ValueError:  # an empty one
                continue
            if self._look(element) is not None:
                self._add(f"{name} (variable {variable})", element, depth + 1, is_local)
        if value.__closure__ is not None or self._is_own(value):
            attributes = value.__dict__
            self._namespace(dict.items(attributes), name, depth + 1, is_local)
            if "__wrapped__" in attributes:
                self._add(name, attributes["__wrapped__"], depth + 1, is_local)

    def _is_own(self, function):
        """Whether it is the application's, and not of a package."""
        module = function.__module__
        return isinstance(module, str) and module in self._own

    def _class(self, name, value, depth, is_local):
        self._namespace(_class_dict(value).items(), type_name(value), depth + 1, is_local)

    def _wrapper(self, name, value, depth, is_local):
        self._add(name, value.__func__, depth, is_local)

    def _method(self, name, value, depth, is_local):
        self._add(name, value.__func__, depth + 1, is_local)
        self._add(f"{name}.__self__", value.__self__, depth + 1, is_local)

    def _property(self, name, value, depth, is_local):
        if value.fget is not None:
            self._add(name, value.fget, depth, is_local)

    def _partial(self, name, value, depth, is_local):
        function, arguments, keywords = (functools.partial.__dict__[part].__get__(value) for part in ("func", "args", "keywords"))
        self._add(name, function, depth + 1, is_local)
        self._add(f"{name} (arguments)", arguments, depth + 1, is_local)
        self._add(f"{name} (arguments)", keywords, depth + 1, is_local)

    def _thread_local(self, name, value, depth, is_local):
        # A subclass may have an `__init__`, which would run here.
        if type(value) is _local:
            self._namespace(dict.items(_local.__getattribute__(value, "__dict__")), name, depth + 1, True)

    def _instance(self, name, value, depth, is_local):
        kind = type(value)
        readers = self._attributes.get(kind)
        if readers is None:
            readers = self._attributes[kind] = _readers(kind)
        dictionary, slots = readers
        if dictionary is not None:
            attributes = dictionary(value)
            if type(attributes) is dict:
                self._namespace(dict.items(attributes), name, depth + 1, is_local)
        for slot, read in slots:
            try:
                element = read(value)
            except AttributeError:  # it is not set
                continue
            if self._look(element) is not None:
                self._add(f"{name}.{slot}", element, depth + 1, is_local)

    _KINDS_OF = {
        dict: _mapping,
        list: _list,
        tuple: _tuple,
        set: _sized(set),
        deque: _sized(deque),
        bytearray: _sized(bytearray),
        array.array: _sized(array.array),
        SimpleQueue: _queue,
        _lru_cache: _cache,
        types.FunctionType: _function,
        type: _class,
        staticmethod: _wrapper,
        classmethod: _wrapper,
        types.MethodType: _method,
        property: _property,
        functools.partial: _partial,
        _local: _thread_local,
    }
    del _sized


# In which nothing can be, or nothing of the application's.
_EMPTY = (
    type(None), bool, int, float, complex, str, bytes, frozenset, range, slice, type(Ellipsis), type(NotImplemented), memoryview,
    types.ModuleType, types.CodeType, types.FrameType, types.TracebackType, types.BuiltinFunctionType, types.GetSetDescriptorType,
    types.MemberDescriptorType, types.MethodDescriptorType, types.WrapperDescriptorType, types.MethodWrapperType,
    types.ClassMethodDescriptorType, types.GeneratorType, types.CoroutineType, types.MappingProxyType,
)  # fmt: skip
_LOOK_WRAPPER, _LOOK_PROPERTY, _LOOK_CLASS = Search._wrapper, Search._property, Search._class
_KINDS = {**dict.fromkeys(_EMPTY), **Search._KINDS_OF}
_BASES = (*((base, None) for base in (types.ModuleType, str, int, float, bytes, frozenset)), *Search._KINDS_OF.items())


def _readers(kind):
    """How attributes of a type's instances are read without running code: a function for the dictionary, and pairs of a slot's name and its function."""
    dictionary, slots = None, []
    for base in type.__dict__["__mro__"].__get__(kind):
        own = _class_dict(base)
        entry = own.get("__dict__")
        if entry is not None and dictionary is None:
            if type(entry) is not types.GetSetDescriptorType:
                return None, []  # it shows something else than what it has, as a proxy does
            dictionary = entry.__get__
        for name, member in own.items():
            if type(member) is types.MemberDescriptorType and not name.startswith("__") and base.__flags__ & _HEAP_TYPE:
                slots.append((name, member.__get__))
    return dictionary, slots


_HEAP_TYPE = 1 << 9  # Py_TPFLAGS_HEAPTYPE: made by a `class` statement, or like one


_names_of = types.ModuleType.__dict__["__dict__"].__get__


def _own_name(function, name):
    """The name of a function that is its own: others may have it, too."""
    module = function.__module__
    return f"{module}.{function.__qualname__}" if isinstance(module, str) and isinstance(function.__qualname__, str) else name


def _modules():
    """Names and namespaces of the application's modules; and of those of packages, then some of the standard library."""
    own, packages, library = [], [], []
    for name, module in list(sys.modules.items()):
        if type(module) is not types.ModuleType or name.partition(".")[0] in ("keepwarm", "__main__"):
            continue
        names = _names_of(module)
        if name in _LIBRARY_ROOTS:
            library.append((name, names))
        elif not _is_library(name, module):
            file = names.get("__file__")
            (packages if isinstance(file, str) and "-packages/" in file else own).append((name, names))
    return own, packages + library


def _is_library_name(name):
    top = name.partition(".")[0]
    if top in _NAMED_MODULES:
        return True
    module = sys.modules.get(top)
    return module is not None and _is_library(top, module)


def _is_library(name, module):
    """Whether a module is the standard library's."""
    if name.partition(".")[0] in _NAMED_MODULES:
        return True
    if type(module) is not types.ModuleType:
        return False
    file = _names_of(module).get("__file__")
    if not isinstance(file, str):
        return False
    return log.is_own(file) or (file.startswith(_LIBRARY) and "-packages/" not in file)
