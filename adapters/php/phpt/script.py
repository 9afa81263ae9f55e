"""A `.phpt` file: its sections, what it sends, what it expects (https://qa.php.net/phpt_details.php)."""

import re

UNSUPPORTED = {"ARGS", "STDIN", "XFAIL", "XLEAK", "REDIRECTTEST", "PHPDBG", "GZIP_POST", "DEFLATE_POST", "FILE_EXTERNAL", "EXPECT_EXTERNAL", "EXPECTF_EXTERNAL", "EXPECTREGEX_EXTERNAL"}
PATTERNS = {
    "%e": "/", "%s": r"[^\r\n]+", "%S": r"[^\r\n]*", "%a": r".+?", "%A": r".*?", "%w": r"\s*", "%i": r"[+-]?\d+", "%d": r"\d+",
    "%x": r"[0-9a-fA-F]+", "%f": r"[+-]?\.?\d+\.?\d*(?:[Ee][+-]?\d+)?", "%c": r".", "%0": r"\x00", "%%": "%",
}  # fmt: skip


class Script:
    def __init__(self, path):
        self.path = path
        self.sections = {}
        name = None
        for line in path.read_text("latin-1").splitlines(keepends=True):
            found = re.fullmatch(r"--([_A-Z]+)--\s*", line)
            if found:
                name = found.group(1)
                self.sections[name] = ""
            elif name is not None:
                self.sections[name] += line

    def text(self, name):
        return self.sections.get(name, "")

    @property
    def supported(self):
        return not UNSUPPORTED & set(self.sections) and ("FILE" in self.sections or "FILEEOF" in self.sections)

    @property
    def source(self):
        return self.sections["FILE"] if "FILE" in self.sections else self.sections["FILEEOF"].rstrip("\r\n")

    def settings(self, folder):
        """Those of its INI section, with the places that it names."""
        lines = [line.strip() for line in self.text("INI").splitlines()]
        pairs = [line.split("=", 1) for line in lines if "=" in line and not line.startswith(";")]
        return [(name.strip(), value.strip().replace("{PWD}", str(self.path.parent)).replace("{TMP}", folder)) for name, value in pairs]

    def environment(self):
        return dict(line.strip().split("=", 1) for line in self.text("ENV").splitlines() if "=" in line)

    def request(self):
        """Method, query, headers and body."""
        headers = {}
        if self.text("COOKIE").strip():
            headers["cookie"] = self.text("COOKIE").strip()
        method, body = "GET", b""
        for name, its_method in (("POST_RAW", "POST"), ("PUT", "PUT")):
            if name in self.sections:
                method = its_method
                lines = self.sections[name].strip().split("\n")
                rest = []
                for line in lines:
                    found = re.match(r"Content-Type:(.*)", line, re.I) if "content-type" not in headers else None
                    if found:
                        headers["content-type"] = found.group(1).strip()
                    else:
                        rest.append(line)
                body = "\n".join(rest).encode("latin-1")
        if "POST" in self.sections:
            method, body = "POST", self.sections["POST"].strip().encode("latin-1")
            headers["content-type"] = "application/x-www-form-urlencoded"
        if body or method != "GET":
            headers["content-length"] = str(len(body))
        return method, self.text("GET").strip(), headers, body

    def accepts(self, output, headers):
        """Whether a body (bytes) and headers (a list of pairs) are what it expects."""
        output = output.decode("latin-1").replace("\r\n", "\n").strip()
        for line in self.text("EXPECTHEADERS").splitlines():
            if ":" in line:
                name, value = line.split(":", 1)
                if name.strip().lower() == "status":
                    value = value.strip()[:3]
                if (name.strip().lower(), value.strip()) not in [(one.lower(), other.strip()) for one, other in headers]:
                    return False
        if "EXPECT" in self.sections:
            return output == self.sections["EXPECT"].replace("\r\n", "\n").strip()
        if "EXPECTF" in self.sections:
            return re.fullmatch(pattern(self.sections["EXPECTF"].replace("\r\n", "\n").strip()), output, re.S) is not None
        if "EXPECTREGEX" in self.sections:
            return re.search("^" + self.sections["EXPECTREGEX"].replace("\r\n", "\n").strip() + "$", output, re.S) is not None
        return False


def pattern(expected):
    """The regular expression that an EXPECTF stands for."""
    text = ""
    for piece in re.split(r"(%r.*?%r)", expected, flags=re.S):
        if piece.startswith("%r") and piece.endswith("%r") and len(piece) > 3:
            text += "(?:" + piece[2:-2] + ")"
        else:
            text += "".join(PATTERNS[part] if part in PATTERNS else re.escape(part) for part in re.split(r"(%[esSaAwidxfc0%])", piece))
    return text
