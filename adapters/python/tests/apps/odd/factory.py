"""A factory and nothing else."""


def create_app():
    return lambda environ, start_response: []
