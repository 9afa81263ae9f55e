"""Datasette with one database, as an ASGI application. `DATA` names its folder."""

import os
import sqlite3

from datasette.app import Datasette

file = os.path.join(os.environ["DATA"], "stalls.db")
if not os.path.exists(file):
    with sqlite3.connect(file) as database:
        database.execute("CREATE TABLE stalls (id INTEGER PRIMARY KEY, name TEXT, milliseconds INTEGER)")
        database.executemany("INSERT INTO stalls (name, milliseconds) VALUES (?, ?)", [(f"stall {n} caf\u00e9", n % 7) for n in range(1_000)])

datasette = Datasette([file], secret="not a secret", settings={"max_csv_mb": 0}, metadata={"databases": {"stalls": {"allow": True}}, "allow": True})
datasette._root_token = "sesame"
datasette.root_enabled = True
app = datasette.app()
