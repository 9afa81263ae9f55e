"""Where the doctor and the independent look answer the same question: do they say the same?"""

import dataclasses
import re
import typing

from look import DELAYED, PATIENCE, STALL


@dataclasses.dataclass
class Question:
    """A question that both can answer, by yes or no."""

    what: str
    # What the look says: yes, no, or nothing where it cannot tell; and the words for it.
    seen: typing.Callable
    words: typing.Callable
    # What the doctor says.
    said: typing.Callable


def questions():
    return [
        Question(
            "does a client of HTTP/1.0 wait for the close",
            lambda look: look.old is None or look.old > STALL,
            lambda look: f"ab without -k: {seconds(look.old)} a request",
            is_bad("persistence.http10"),
        ),
        Question(
            "does HEAD stall",
            lambda look: stalls(look.head),
            lambda look: f"curl -0 -I: {answer(look.head)}",
            is_bad("persistence.head"),
        ),
        Question(
            "does 304 stall",
            lambda look: stalls(look.conditional) if look.conditional else None,
            lambda look: f"curl with a condition: {answer(look.conditional)}",
            is_bad("persistence.not_modified"),
        ),
        Question(
            "does a client that expects 100 lose its second",
            lambda look: look.expect[2] > STALL,
            lambda look: f"curl -X OPTIONS -H 'Expect: 100-continue': {'100, then ' if look.expect[0] else ''}{answer(look.expect[1:])}",
            is_bad("expect.continue"),
        ),
        Question(
            "does Nagle's algorithm wait for a delayed acknowledgement",
            lambda look: None if look.further is None else look.further > DELAYED,
            lambda look: f"curl on a kept connection: {seconds(look.further)} a request",
            is_bad("writes.nagle"),
        ),
        Question(
            "is the head in pieces",
            lambda look: look.segments > 2,
            lambda look: f"tcpdump: {look.segments} segments with data in answer to one request",
            is_bad("writes.head"),
        ),
        Question(
            "does the page boot for each request",
            lambda look: look.fresh > 0.05,
            lambda look: f"curl: {seconds(look.fresh)} on a new connection",
            is_bad("boot."),
        ),
    ]


def compare(look, report):
    """(question, words of the look, words of the doctor, whether they agree), for each question that the look can answer."""
    findings = {finding["id"]: finding for probe in report["probes"] for finding in probe["findings"]}
    rows = []
    for question in questions():
        seen, said = question.seen(look), question.said(findings)
        if seen is None or said is None:
            continue
        bad, words = said
        rows.append((question.what, question.words(look), words, bad == seen))
    rows.extend(segments(look, findings))
    return rows


def is_bad(prefix):
    """Whether one of the findings with these ids is bad; nothing where there is none, or none that could tell."""

    def said(findings):
        those = [finding for id, finding in findings.items() if id == prefix or prefix.endswith(".") and id.startswith(prefix)]
        told = [finding for finding in those if finding["verdict"] != "could not tell"]
        if not told:
            return None
        bad = [finding for finding in told if finding["verdict"] == "bad"]
        chief = (bad or told)[0]
        return bool(bad), f"{chief['verdict']}, {chief['id']}: {chief['evidence']}"

    return said


def segments(look, findings):
    """The number itself."""
    finding = findings.get("writes.segments", {"evidence": ""})
    found = re.search(r"\b(one|\d+) segments?\b", finding["evidence"])
    if found:
        number = 1 if found.group(1) == "one" else int(found.group(1))
        yield ("how many segments an answer takes", f"tcpdump: {look.segments}", f"writes.segments: {finding['evidence']}", number == look.segments)


def stalls(timed):
    return timed[0] == "000" or timed[1] > STALL


def seconds(time):
    if time is None:
        return f"more than {PATIENCE} s"
    return f"{time:.2f} s" if time >= 1 else f"{time * 1000:.0f} ms" if time >= 0.01 else f"{time * 1000:.1f} ms"


def answer(timed):
    """`200 in 1.2 ms`"""
    return "-" if timed is None else f"{'nothing' if timed[0] == '000' else timed[0]} in {seconds(timed[1])}"
