"""What holds for the whole worker process: its descriptor, its signals, its children."""

import faulthandler
import gc
import os
import signal
import socket
import sys
import threading
import _thread

from keepwarm import stacks

_start_new_thread = _thread.start_new_thread  # the system's: gevent and eventlet replace it by one for which the main thread must come round


def start_thread(function, arguments=(), name=None):
    """Runs `function(*arguments)` in a thread of the system, also where the application has put something else in place of threads."""
    if _thread.start_new_thread is _start_new_thread:
        threading.Thread(target=function, args=arguments, name=name, daemon=True).start()
    else:
        _start_new_thread(function, arguments)


def take_socket():
    """The wire's socket, from `KEEPWARM_FD`, made private to this process (spec/wire.md §1)."""
    number = os.environ.pop("KEEPWARM_FD", "")
    if not number.isdigit():
        raise SystemExit(f"keepwarm: KEEPWARM_FD={number!r} is not the descriptor of a worker; start workers with `keepwarm run`, which sets it")
    descriptor = int(number)
    os.set_inheritable(descriptor, False)
    return socket.socket(fileno=descriptor)


def keep_from_children(descriptor, connection):
    """Makes a forked child lose the wire at once, so that it can never write to it.

    The number stays in use, as `/dev/null`: were it free, the child's next file would get it, and what still refers to
    the socket would write there. `connection.on_fork()` is called in the child.
    """

    def in_child():
        null = os.open(os.devnull, os.O_RDWR)
        os.dup2(null, descriptor, inheritable=False)
        os.close(null)
        connection.on_fork()

    os.register_at_fork(after_in_child=in_child)


def prepare_signals():
    """Ctrl-C reaches the whole group and is Keepwarm's to coordinate; a stuck worker shows its stacks on SIGQUIT.

    SIGINT gets a handler that does nothing: ignored, it would be ignored in the programs that the application starts.
    """
    signal.signal(signal.SIGINT, lambda number, frame: None)
    faulthandler.enable(file=sys.__stderr__, all_threads=True)
    on_quit(stacks.write_threads)


def on_quit(action):
    """Calls `action()` on SIGQUIT, in the main thread and when that comes to it. The main thread's own stack is shown before, in any case.

    `faulthandler` does not show the other threads here: it would read their stacks while they run, which can crash the process.
    """
    faulthandler.unregister(signal.SIGQUIT)
    signal.signal(signal.SIGQUIT, lambda number, frame: action())
    faulthandler.register(signal.SIGQUIT, file=sys.__stderr__, all_threads=False, chain=True)


def on_signals(actions):
    """Calls `actions[number]()` for each signal, in a thread of its own.

    The main thread would do so only when it comes to it, and it may just have begun to wait for the wire.
    """
    receiver, sender = os.pipe()
    os.set_blocking(sender, False)
    # The thread shows the main thread's stack, too, and under the interpreter's lock.
    faulthandler.unregister(signal.SIGQUIT)
    for number in actions:
        signal.signal(number, lambda number, frame: None)
    signal.set_wakeup_fd(sender, warn_on_full_buffer=False)
    # The signals of a child are not this process's.
    os.register_at_fork(after_in_child=lambda: signal.set_wakeup_fd(-1))

    def listen():
        while True:
            action = actions.get(os.read(receiver, 1)[0])
            if action is not None:
                action()

    start_thread(listen, name="keepwarm-signals")


def on_terminate(action):
    """Calls `action()` on SIGTERM, in the main thread."""
    signal.signal(signal.SIGTERM, lambda number, frame: action())


def settle_memory():
    """What is loaded now stays: the collector need not walk through it again and again."""
    gc.collect()
    gc.freeze()
