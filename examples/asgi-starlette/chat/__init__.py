"""A small asynchronous application with a route for each common task."""
