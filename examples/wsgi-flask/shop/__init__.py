"""A small shop: the things a web application does, each on a route of its own."""
