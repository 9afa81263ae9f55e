"""A small asynchronous application: the things one does, each on a route of its own."""
