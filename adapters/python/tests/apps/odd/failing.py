def deeper():
    """Fails when it is imported."""
    return 1 / 0


application = deeper()
