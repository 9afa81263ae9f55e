"""Compares the results of the doctor and of the independent look, where both settle the same question."""

import dataclasses
import re
import typing

from look import BOOT, DELAYED, PATIENCE, STALL


@dataclasses.dataclass
class Question:
    """A yes-or-no question that both can settle."""

    what: str
    # What the look says: yes, no, or nothing where it cannot tell; and the words for it.
    seen: typing.Callable
    words: typing.Callable
    # What the doctor says.
    said: typing.Callable


def questions():
    return [
        Question(
            "does an HTTP/1.0 client wait for the close",
            lambda look: look.old is None or look.old > STALL,
            lambda look: f"ab without -k: {seconds(look.old)} a request",
            is_worse("persistence.http10", "bad"),
        ),
        Question(
            "is HTTP/1.0 with keep-alive kept",
            lambda look: look.old_kept > 0,
            lambda look: f"ab -k: {look.old_kept} of 10 requests",
            says("persistence.http10_keep_alive", "second request: 200"),
        ),
        Question(
            "does each response close its connection",
            lambda look: not look.kept,
            lambda look: f"curl: the second request {'uses the same' if look.kept else 'opens another'} connection",
            says("persistence.reuse", "the connection closes after every response"),
        ),
        Question(
            "does a body come with HEAD",
            lambda look: look.head > 0,
            lambda look: f"a plain socket: {look.head} bytes after the head",
            is_worse("persistence.head", "warning"),
        ),
        Question(
            "does a body come with 304",
            lambda look: None if look.conditional is None else look.conditional > 0,
            lambda look: f"a plain socket: {look.conditional} bytes after the head",
            is_worse("persistence.not_modified", "warning"),
        ),
        Question(
            "does a client that expects 100 lose its second",
            lambda look: look.expect[2] > STALL,
            lambda look: f"curl -X OPTIONS -H 'Expect: 100-continue': {'100, then ' if look.expect[0] else ''}{status_in_time(look.expect[1:])}",
            is_worse("expect.continue", "bad"),
        ),
        Question(
            "does Nagle's algorithm wait for a delayed acknowledgement",
            lambda look: None if look.further is None else look.further > DELAYED,
            lambda look: f"curl on a persistent connection: {seconds(look.further)} a request",
            is_worse("writes.nagle", "bad"),
        ),
        Question(
            "is a response sent in needless pieces",
            lambda look: look.segments > 3,
            lambda look: f"tcpdump: {look.segments} segments with data in response to one request",
            is_worse("writes.", "warning", but="writes.nagle"),
        ),
        Question(
            "does the page boot for each request",
            lambda look: look.fresh > BOOT,
            lambda look: f"curl: {seconds(look.fresh)} on a new connection",
            is_worse("boot.every", "warning"),
        ),
        Question(
            "would HAProxy's check take it out",
            lambda look: look.check_options[0] in ("000", "400", "426", "505"),
            lambda look: f"curl -0 -X OPTIONS without Host: {status_in_time(look.check_options)}",
            is_worse("health.haproxy_default", "warning"),
        ),
        Question(
            "does one read miss the status line",
            lambda look: not look.one_read,
            lambda look: f"a plain socket, one read: {'a' if look.one_read else 'no'} status line",
            is_worse("health.one_read", "warning"),
        ),
        Question(
            "is the absolute form rejected",
            lambda look: look.absolute[0] != "200",
            lambda look: f"curl --request-target URL: {status_in_time(look.absolute)}",
            is_worse("framing.absolute_form", "warning"),
        ),
        *(
            Question(
                f"is a request accepted that has: {name}",
                lambda look, name=name: look.malformed[name] == "200",
                lambda look, name=name: f"a plain socket: {look.malformed[name]}",
                is_worse(id, "warning"),
            )
            for name, id in MALFORMED.items()
        ),
    ]


# Which finding is about which malformed request of the look.
MALFORMED = {
    "both lengths": "framing.both_lengths",
    "two lengths": "framing.differing_lengths",
    "bare LF": "framing.bare_lf",
    "space before the colon": "framing.space_before_colon",
    "folded line": "framing.folding",
    "no Host": "framing.no_host",
    "two Hosts": "framing.two_hosts",
}


def compare(look, reports):
    """(question, words of the look, words of the doctor, whether they agree), for each question that both can settle."""
    findings = {finding["id"]: finding for report in reports for probe in report["probes"] for finding in probe["findings"]}
    rows = []
    for question in questions():
        seen, said = question.seen(look), question.said(findings)
        if seen is None or said is None:
            continue
        yes, words = said
        rows.append((question.what, question.words(look), words, yes == seen))
    rows.extend(segments(look, findings))
    return rows


def is_worse(prefix, least, but=None):
    """Whether one of the findings with these ids is that bad; nothing where there is none, or none that could tell."""
    ranks = ["good", "warning", "bad"]

    def said(findings):
        those = [finding for id, finding in findings.items() if (id == prefix or prefix.endswith(".") and id.startswith(prefix)) and id != but]
        told = [finding for finding in those if finding["verdict"] in ranks]
        if not told:
            return None
        worst = max(told, key=lambda finding: ranks.index(finding["verdict"]))
        return ranks.index(worst["verdict"]) >= ranks.index(least), words(worst)

    return said


def says(id, part):
    """Whether the evidence has these words."""

    def said(findings):
        finding = findings.get(id)
        return None if finding is None else (part in finding["evidence"], words(finding))

    return said


def words(finding):
    return f"{finding['verdict']}, {finding['id']}: {finding['evidence']}"


def segments(look, findings):
    """The number itself."""
    finding = findings.get("writes.segments", {"evidence": ""})
    found = re.search(r"\b(one|\d+) segments?\b", finding["evidence"])
    if found:
        number = 1 if found.group(1) == "one" else int(found.group(1))
        yield ("how many segments a response takes", f"tcpdump: {look.segments}", words(finding), number == look.segments)


def seconds(time):
    if time is None:
        return f"more than {PATIENCE} s"
    return f"{time:.2f} s" if time >= 1 else f"{time * 1000:.0f} ms" if time >= 0.01 else f"{time * 1000:.1f} ms"


def status_in_time(timed):
    """`200 in 1.2 ms`"""
    return "-" if timed is None else f"{'nothing' if timed[0] == '000' else timed[0]} in {seconds(timed[1])}"
