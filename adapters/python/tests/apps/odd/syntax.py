def application(environ, start_response)
    return []
