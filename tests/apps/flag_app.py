"""An application that cannot be started while the file named by FLAG_FILE exists; each attempt is noted in COUNT_FILE."""

import os

from wsgi_app import append, application  # noqa: F401

append(f"start {os.getpid()}\n")
if os.path.exists(os.environ["FLAG_FILE"]):
    raise RuntimeError("the flag is up")
