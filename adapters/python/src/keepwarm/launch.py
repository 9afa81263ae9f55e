"""`python -m keepwarm COMMAND …`: replaces this process by the program `keepwarm`, whose workers run with this interpreter.

A worker never imports this module: it is what `python -m keepwarm` does without `KEEPWARM_FD`.
"""

import os
import shutil
import signal
import sys
import sysconfig

VARIABLE = "KEEPWARM_BIN"
PLATFORMS = ("x86_64", "aarch64")  # Linux; those that have a wheel


def main():
    """Does not return, unless there is no program to run: then it gives the exit status."""
    try:
        program = find_program()
        environment = worker_environment(os.environ)
        # Python ignores these two; the program's children would inherit that.
        for number in (signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_DFL)
        sys.stderr.flush()
        os.execve(program, [program, *sys.argv[1:]], environment)
    except NotFound as error:
        print(f"keepwarm: {error}", file=sys.stderr)
    except OSError as error:
        print(f"keepwarm: {program} cannot be run: {error.strerror}; {cause(error)}", file=sys.stderr)
    return 1


class NotFound(Exception):
    """There is no program `keepwarm`; the text says what to do."""


def find_program():
    """The path of the program: `KEEPWARM_BIN`, else the one that was installed with this package, else one in PATH."""
    if chosen := os.environ.get(VARIABLE):
        if not is_program(chosen):
            raise NotFound(f"{VARIABLE}={chosen} is not an executable program; set it to the path of the program `keepwarm`, or unset it")
        return os.path.abspath(chosen)
    directories = install_directories()
    for directory in [*directories, *os.environ.get("PATH", "").split(os.pathsep)]:
        program = os.path.join(directory, "keepwarm")
        if directory and is_program(program):
            return os.path.abspath(program)
    raise NotFound(missing(directories))


def install_directories():
    """Where installers put the programs of this package, the nearest first."""
    package = os.path.dirname(os.path.abspath(__file__))
    library = os.path.dirname(package)
    found = [os.path.join(library, "bin")]  # `pip install --target`
    above, python = os.path.split(os.path.dirname(library))
    if os.path.basename(above) == "lib" and python.startswith("python"):
        found.append(os.path.join(os.path.dirname(above), "bin"))  # `--prefix`, and the environment that this package is in
    found.append(sysconfig.get_path("scripts"))
    found.append(os.path.join(sys.prefix, "bin"))
    found.append(sysconfig.get_path("scripts", "posix_user"))
    return list(dict.fromkeys(found))


def is_program(path):
    """Whether this is the program itself: a script of this name, which installers write for the source distribution, runs this module again."""
    try:
        with open(path, "rb") as file:
            return file.read(4) == b"\x7fELF" and os.access(path, os.X_OK)
    except OSError:
        return False


def missing(directories):
    system = os.uname()
    where = ", ".join(directories)
    if system.sysname == "Linux" and system.machine in PLATFORMS:
        advice = "install the wheel, which has it (`pip install --force-reinstall --only-binary keepwarm keepwarm`)"
    else:
        advice = "build it from source (there are wheels for Linux on " + " and ".join(PLATFORMS) + ")"
    return (
        f"program `keepwarm` not found for {system.sysname} on {system.machine}: it is neither in PATH nor in {where}; "
        f"{advice}, or set {VARIABLE} to its path"
    )


def cause(error):
    """What to do when the program exists and does not start."""
    if isinstance(error, FileNotFoundError):
        return f"the loader that it is linked to is missing on this system; set {VARIABLE} to a static program"
    return f"set {VARIABLE} to one that this system ({os.uname().machine}) can run"


def worker_environment(environment):
    """The variables with which the program starts workers by this interpreter, unless its configuration names another.

    It takes the one of `VIRTUAL_ENV`, else the `.venv` beside the app, else `python3` in PATH.
    """
    environment = dict(environment)
    if not sys.executable:
        return environment  # embedded: there is no interpreter to name
    if sys.prefix != sys.base_prefix:
        environment["VIRTUAL_ENV"] = sys.prefix
        return environment
    environment.pop("VIRTUAL_ENV", None)  # active, and not the one that runs this
    path = environment.get("PATH", os.defpath)
    if not is_this(shutil.which("python3", path=path)):
        directory = os.path.dirname(sys.executable)
        environment["PATH"] = os.pathsep.join([directory, path])
        if sys.argv[1:2] == ["run"] and not is_this(os.path.join(directory, "python3")):
            print(
                f"keepwarm: {directory}/python3 is not {sys.executable}, which runs this command; "
                "to run workers with it, set the key `interpreter` of the app, or use a virtual environment",
                file=sys.stderr,
            )
    return environment


def is_this(interpreter):
    """Whether a program is the interpreter that runs this."""
    try:
        return interpreter is not None and os.path.samefile(interpreter, sys.executable)
    except OSError:
        return False
