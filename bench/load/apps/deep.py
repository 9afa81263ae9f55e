def deep(depth):
    return sum(range(200_000)) if depth == 0 else deep(depth - 1)


def wsgi(environ, start_response):
    body = b"%d" % deep(int(environ["QUERY_STRING"]))
    start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", str(len(body)))])
    return [body]
