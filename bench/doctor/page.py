"""docs/doctor-matrix.md."""

import dataclasses

import explained
from agree import answer, seconds

MARKS = {"good": "good", "could not tell": "?", "warning": "warning", "bad": "**bad**"}

HEAD = """# What `keepwarm check` says of other servers

Made by `scripts/doctor-matrix`, which starts each server as its package gives it, with a page that says hello, runs `keepwarm check` on it, and has `curl`, `ab`, `tcpdump` and a plain socket
look at the same questions. It fails when they disagree, and when something is found that is not explained here. Nothing here is a defect that keeps a server from doing what it was made for; some are made for development only.

"""


@dataclasses.dataclass
class Examined:
    """A server, what the doctor said of it, and what else was seen."""

    peer: object
    version: str
    report: dict
    # The same for malformed requests.
    intrusive: dict
    look: object
    compared: list


def worse(report):
    """Everything that is a warning or bad."""
    return [finding for probe in report["probes"] for finding in probe["findings"] if worse_than_good(finding)]


def write(examined):
    return HEAD + verdicts(examined) + found(examined) + malformed(examined) + seen(examined)


def verdicts(examined):
    probes = [probe["id"] for probe in examined[0].report["probes"] if probe["id"] != "reach"]
    text = "## The verdicts\n\n" + row("server", *(f"`{probe}`" for probe in probes)) + row(*["---"] * (len(probes) + 1))
    for one in examined:
        said = {probe["id"]: probe["verdict"] for probe in one.report["probes"]}
        text += row(f"{one.peer.name} {one.version}", *(MARKS[said.get(probe, "could not tell")] for probe in probes))
    return text + "\n`?`: could not tell; a page that says hello has no trailers to send, and no back end to tell apart.\n\n"


def found(examined):
    """Each thing that was found politely, with who has it and why."""
    by_id = {}
    for one in examined:
        for finding in worse(one.report):
            by_id.setdefault(finding["id"], []).append((one.peer.name, finding))
    text = "## What was found, and why\n"
    for id, those in sorted(by_id.items()):
        text += f"\n### `{id}`\n\n"
        text += "".join(f"* **{name}**, {finding['verdict']}: {finding['evidence']}\n" for name, finding in those)
        told = dict.fromkeys(explained.why(id, name) for name, _ in those)
        text += "".join(f"\n{why}\n" for why in told if why)
    return text + "\n"


def seen(examined):
    text = "## The independent look\n\n"
    text += "`ab` for HTTP/1.0, `curl` for the rest, `tcpdump` for the segments of one response. Half-closed: a client that closes its side behind its request, as `nc -N` does; nginx before FastCGI, Puma and Granian take it for gone, which they may.\n\n"
    text += row("server", "`ab`", "`ab -k`, kept of 10", "1.1 kept", "`Expect` with `OPTIONS`", "segments", "new connection", "kept connection", "1.0 without `Host`: `GET`", "`OPTIONS`", "half-closed", "absolute form")
    text += row(*["---"] * 12)
    for one in examined:
        look = one.look
        text += row(
            one.peer.name,
            seconds(look.old),
            look.old_kept,
            "yes" if look.kept else "no",
            ("100, " if look.expect[0] else "") + answer(look.expect[1:]),
            look.segments,
            seconds(look.fresh),
            "-" if look.further is None else seconds(look.further),
            look.check_get[0],
            look.check_options[0],
            look.half_closed,
            look.absolute[0],
        )
    malformed = list(examined[0].look.malformed)
    text += "\nThe status that malformed requests get from a plain socket:\n\n" + row("server", *malformed) + row(*["---"] * (len(malformed) + 1))
    for one in examined:
        text += row(one.peer.name, *(one.look.malformed[name] for name in malformed))
    agreed = sum(same for one in examined for *_, same in one.compared)
    asked = sum(len(one.compared) for one in examined)
    return text + f"\nOf {asked} answers to the same question {agreed} agree with the doctor's.\n"


def malformed(examined):
    """What each takes, as the doctor sees it with --intrusive."""
    findings = {}
    for one in examined:
        for probe in one.intrusive["probes"]:
            for finding in probe["findings"]:
                findings.setdefault(finding["id"], {})[one.peer.name] = finding
    rows = {id: those for id, those in sorted(findings.items()) if any(worse_than_good(finding) for finding in those.values())}
    text = "## Malformed requests\n\n`keepwarm check --intrusive --only framing`. *taken*: a warning; **taken**: bad, since a request can hide, or what must be refused is not.\n\n"
    names = [one.peer.name for one in examined]
    text += row("finding", *names) + row(*["---"] * (len(names) + 1))
    for id, those in rows.items():
        text += row(f"`{id.partition('.')[2]}`", *(TAKEN[those[name]["verdict"]] if name in those else "?" for name in names))
    text += "\n"
    for id, those in rows.items():
        told = dict.fromkeys(explained.why(id, name) for name, finding in those.items() if worse_than_good(finding))
        text += "".join(f"* `{id}`: {why}\n" for why in told if why)
    return text + "\n"


TAKEN = {"good": "", "could not tell": "?", "warning": "*taken*", "bad": "**taken**"}


def worse_than_good(finding):
    return finding["verdict"] in ("warning", "bad")


def row(*cells):
    return "| " + " | ".join(map(str, cells)) + " |\n"
