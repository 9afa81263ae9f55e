"""A small shop with a route for each common task of a web application."""
