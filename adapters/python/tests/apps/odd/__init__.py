"""A package with applications in odd places."""
