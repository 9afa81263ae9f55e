"""A factory with a name of its own."""


def make_shop_app(config=None):
    pass
