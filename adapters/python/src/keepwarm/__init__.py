"""Keepwarm's adapter for Python: runs a WSGI or ASGI application inside a worker process.

Keepwarm starts it as `python -m keepwarm TARGET`; an application never has to import it. What an
application may want from it is `ClientDisconnected`, to tell a lost client from other `OSError`s.
"""

from keepwarm.errors import ClientDisconnected

__version__ = "0.1.0"
__all__ = ["ClientDisconnected", "__version__"]
