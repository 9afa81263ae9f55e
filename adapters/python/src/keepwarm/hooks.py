"""What an application with `preload` does around the fork of a worker.

    from keepwarm.hooks import after_fork

    @after_fork
    def connect():
        ...

`before_fork` runs in the template before each fork, in reverse order; `after_fork` in the new worker before it takes requests,
in order. One that raises in the worker ends it as a failed start. Without `preload`, `after_fork` runs when a worker starts.
"""


class _Hooks:
    """A decorator that remembers what it decorates."""

    def __init__(self, backwards):
        self._backwards = backwards
        self._functions = []

    def __call__(self, function):
        self._functions.append(function)
        return function

    def call(self):
        """Calls them all."""
        for function in reversed(self._functions) if self._backwards else list(self._functions):
            function()


before_fork = _Hooks(backwards=True)
after_fork = _Hooks(backwards=False)
