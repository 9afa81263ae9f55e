"""docs/doctor-matrix.md."""

import dataclasses

import explained
from agree import answer, seconds

MARKS = {"good": "good", "could not tell": "?", "warning": "warning", "bad": "**bad**"}

HEAD = """# What `keepwarm check` says of other servers

Made by `scripts/doctor-matrix`, which starts each server as its package gives it, with a page that says hello, asks `keepwarm check --intrusive` about it, and has `curl`, `ab`, `tcpdump` and a plain socket
look at the same questions. It fails when they disagree. Nothing here is a defect that keeps a server from doing what it was made for; some are made for development only.

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
    return [finding for probe in report["probes"] for finding in probe["findings"] if finding["verdict"] in ("warning", "bad")]


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
    """Each thing that was found, with who has it and why."""
    by_id = {}
    for one in examined:
        for finding in worse(one.report):
            by_id.setdefault(finding["id"], []).append((one, finding))
    text = "## What was found, and why\n"
    for id, those in sorted(by_id.items()):
        text += f"\n### `{id}`\n\n"
        told = []
        for one, finding in those:
            text += f"* **{one.peer.name}**, {finding['verdict']}: {finding['evidence']}\n"
            why = explained.why(id, one.peer.name)
            if why and why not in told:
                told.append(why)
        text += "".join(f"\n{why}\n" for why in told)
    return text + "\n"


def seen(examined):
    text = "## The independent look\n\n"
    text += "`ab` for HTTP/1.0, `curl` for the rest, `tcpdump` for the segments of one answer.\n\n"
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
    agreed = sum(len(one.compared) for one in examined)
    return text + f"\n{agreed} answers were compared with the doctor's.\n\n"


def malformed(examined):
    names = list(examined[0].look.malformed)
    text = "## What malformed requests get\n\nBy a plain socket: the status, or what happened instead.\n\n" + row("server", *names) + row(*["---"] * (len(names) + 1))
    for one in examined:
        text += row(one.peer.name, *(one.look.malformed[name] for name in names))
    return text


def row(*cells):
    return "| " + " | ".join(map(str, cells)) + " |\n"
