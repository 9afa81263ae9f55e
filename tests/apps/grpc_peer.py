"""gRPC, both ends: `server` prints the port it listens on; `app` is one of Keepwarm's, at PORT; `client ADDRESS` makes a call of every kind and prints what became of each."""

import os
import signal
import sys
import threading
import time
from concurrent import futures

import grpc

LARGE = 3 * 1024 * 1024
cancelled = threading.Event()


def unary(request, context):
    metadata = dict(context.invocation_metadata())
    context.send_initial_metadata((("x-initial", "first"),))
    context.set_trailing_metadata((("x-trailing", "last"), ("x-bytes-bin", b"\x00\xff")))
    return request + metadata.get("x-word", "").encode()


def server_stream(request, context):
    for number in range(int(request)):
        yield b"%d" % number


def client_stream(requests, context):
    return b"%d" % sum(len(request) for request in requests)


def both(requests, context):
    for request in requests:
        yield request[::-1]


def fail(request, context):
    context.set_trailing_metadata((("x-why", "because"),))
    context.abort(grpc.StatusCode.FAILED_PRECONDITION, "not now: \u00fc")


def fail_late(request, context):
    yield b"begun"
    context.abort(grpc.StatusCode.DATA_LOSS, "half")


def slow(request, context):
    context.add_callback(cancelled.set)
    while context.is_active():
        time.sleep(0.01)
    return b""


def was_cancelled(request, context):
    return b"yes" if cancelled.wait(20) else b"no"


def large(request, context):
    return b"x" * LARGE


KINDS = {
    "Unary": grpc.unary_unary_rpc_method_handler(unary),
    "ServerStream": grpc.unary_stream_rpc_method_handler(server_stream),
    "ClientStream": grpc.stream_unary_rpc_method_handler(client_stream),
    "Both": grpc.stream_stream_rpc_method_handler(both),
    "Fail": grpc.unary_unary_rpc_method_handler(fail),
    "FailLate": grpc.unary_stream_rpc_method_handler(fail_late),
    "Slow": grpc.unary_unary_rpc_method_handler(slow),
    "WasCancelled": grpc.unary_unary_rpc_method_handler(was_cancelled),
    "Large": grpc.unary_unary_rpc_method_handler(large),
}


def make():
    server = grpc.server(futures.ThreadPoolExecutor(16))
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("t.Test", KINDS),))
    return server


def serve():
    server = make()
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    print(port, flush=True)
    # Until the test has gone.
    sys.stdin.read()
    server.stop(None)


def serve_app():
    server = make()
    server.add_insecure_port(f"127.0.0.1:{os.environ['PORT']}")
    server.start()
    signal.signal(signal.SIGTERM, lambda *_: server.stop(5))
    server.wait_for_termination()


def status_of(call):
    try:
        call()
    except grpc.RpcError as error:
        return error
    raise AssertionError("it succeeded")


def check(name, condition, told=""):
    if not condition:
        raise SystemExit(f"{name}: {told}")
    print(name, flush=True)


def call_everything(address):
    options = [("grpc.max_receive_message_length", 2 * LARGE), ("grpc.enable_http_proxy", 0)]
    with grpc.insecure_channel(address, options) as channel:
        reply, call = channel.unary_unary("/t.Test/Unary").with_call(b"hello ", metadata=(("x-word", "w"),), timeout=20)
        check("unary", reply == b"hello w", reply)
        check("initial metadata", ("x-initial", "first") in call.initial_metadata(), call.initial_metadata())
        trailing = [tuple(pair) for pair in call.trailing_metadata()]
        check("trailing metadata", ("x-trailing", "last") in trailing and ("x-bytes-bin", b"\x00\xff") in trailing, trailing)
        numbers = list(channel.unary_stream("/t.Test/ServerStream")(b"500", timeout=20))
        check("server stream", numbers == [b"%d" % number for number in range(500)], numbers)
        total = channel.stream_unary("/t.Test/ClientStream")((b"x" * 1000 for _ in range(1000)), timeout=20)
        check("client stream", total == b"1000000", total)
        talk(channel)
        error = status_of(lambda: channel.unary_unary("/t.Test/Fail")(b"", timeout=20))
        check("status", (error.code(), error.details()) == (grpc.StatusCode.FAILED_PRECONDITION, "not now: \u00fc"), error)
        check("metadata of a failure", ("x-why", "because") in [tuple(pair) for pair in error.trailing_metadata()], error)
        error = status_of(lambda: channel.unary_unary("/t.Test/Missing")(b"", timeout=20))
        check("unknown method", error.code() == grpc.StatusCode.UNIMPLEMENTED, error)
        parts = channel.unary_stream("/t.Test/FailLate")(b"", timeout=20)
        check("first part", next(parts) == b"begun")
        error = status_of(lambda: next(parts))
        check("late status", error.code() == grpc.StatusCode.DATA_LOSS, error)
        error = status_of(lambda: channel.unary_unary("/t.Test/Slow")(b"", timeout=0.3))
        check("deadline", error.code() == grpc.StatusCode.DEADLINE_EXCEEDED, error)
        check("deadline ends the call", channel.unary_unary("/t.Test/WasCancelled")(b"", timeout=30) == b"yes")
        large = channel.unary_unary("/t.Test/Large")(b"", timeout=20)
        check("large", len(large) == LARGE, len(large))
        calls = [channel.unary_unary("/t.Test/Unary").future(b"%d" % number, timeout=20) for number in range(200)]
        check("many at once", [call.result() for call in calls] == [b"%d" % number for number in range(200)])
        call = channel.unary_unary("/t.Test/Slow").future(b"", timeout=20)
        call.cancel()
        check("cancel", call.cancelled())


def talk(channel):
    """Question by question: each is sent when the response to the one before is there."""
    turn = threading.Semaphore(1)
    questions = [b"abc", b"", b"y" * 100_000]

    def ask():
        for question in questions:
            turn.acquire(timeout=20)
            yield question

    replies = []
    for reply in channel.stream_stream("/t.Test/Both")(ask(), timeout=20):
        replies.append(reply)
        turn.release()
    check("both streams", replies == [question[::-1] for question in questions], len(replies))


if __name__ == "__main__":
    if sys.argv[1] == "server":
        serve()
    elif sys.argv[1] == "app":
        serve_app()
    else:
        call_everything(sys.argv[2])
