"""The same bytes to a worker and to php-cgi: what a script finds of a request is the same in both."""

import os
import random
import subprocess
import tempfile
import unittest

from tests.driver import APPS, Worker

CGI = os.environ.get("PHP_CGI", "php-cgi")
SETTINGS = (
    "post_max_size=300K", "upload_max_filesize=100K", "max_input_vars=60", "max_file_uploads=5", "variables_order=EGPCS", "request_order=GP",
    "error_reporting=0", "display_errors=0",
)  # fmt: skip
FORM = "application/x-www-form-urlencoded"
END = "--x--\r\n"


def part(disposition, content="v", more="", boundary="x"):
    return f"--{boundary}\r\nContent-Disposition: {disposition}\r\n{more}\r\n{content}\r\n"


def file(name, content="c", filename="f", more=""):
    return part(f'form-data; name="{name}"; filename="{filename}"', content, more)


def field(name, content="v"):
    return part(f'form-data; name="{name}"', content)


class Same(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        options = [part for setting in SETTINGS for part in ("-d", setting)]
        cls.folder = tempfile.TemporaryDirectory()
        cls.worker = Worker("dump.php", *options, "-d", f"upload_tmp_dir={cls.folder.name}")
        cls.command = [CGI, "-n", *options, str(APPS / "dump.php")]

    @classmethod
    def tearDownClass(cls):
        cls.worker.stop()
        cls.folder.cleanup()

    def of_cgi(self, method, query, fields, body):
        env = {
            "PATH": os.environ["PATH"], "GATEWAY_INTERFACE": "CGI/1.1", "REDIRECT_STATUS": "200", "REQUEST_METHOD": method, "QUERY_STRING": query,
            "SCRIPT_FILENAME": self.command[-1],
        }  # fmt: skip
        for name, value in fields:
            name = name.upper().replace("-", "_")
            env[name if name.startswith("CONTENT_") else f"HTTP_{name}"] = value
        env = {name.encode(): value.encode("latin-1") for name, value in env.items()}
        return subprocess.run(self.command, input=body, env=env, stdout=subprocess.PIPE, check=True).stdout.split(b"\r\n\r\n", 1)[1]

    def same(self, method="GET", query="", fields=(), body=b""):
        body = body.encode("latin-1") if isinstance(body, str) else body
        fields = [*fields, ("content-length", str(len(body)))] if body or method == "POST" else list(fields)
        expected = self.of_cgi(method, query, fields, body)
        for pieces in (None, 4_999):
            more = {"method": method, "query": query, "fields": fields}
            if pieces is None or not body:
                response = self.worker.get("/", body=body, **more) if len(body) <= 60_000 else None
            else:
                stream = self.worker.request("/", length=len(body), flags=0, **more)
                for start in range(0, len(body), pieces):
                    self.worker.data(stream, body[start : start + pieces], end=start + pieces >= len(body))
                response = self.worker.response(stream)
            if response is not None:
                self.assertEqual(response.body.decode(), expected.decode(), (method, query, fields, body[:2_000]))

    def form(self, *parts, kind="multipart/form-data; boundary=x"):
        self.same("POST", fields=[("content-type", kind)], body="".join(parts))

    def test_queries_and_urlencoded_forms(self):
        for text in (
            "a=1&b=2", "a[]=1&a[]=2", "a[b][c]=1&a[b][]=2", "a.b=1&c d=2", "a+b=1", "=x&&a&b=", "a=1;b=2", "[a]=1", "a[=1", "a[b=1", "a]b=1", "a[b]c=1", "a[[b]]=1",
            "a[b][=1", " a=1", "%20a=1", "a%00b=1&c=%00", "a=%&b=%zz&c=%4", "0=1&1=2&-1=3&01=4", "a[0]=1&a[-5]=2&a[]=3", "a=1&a[]=2", "a[]=1&a=2", "a[ b]=1&a[ ]=2",
            "%E9=%FF", "a=b=c", "GLOBALS[x]=1&_SERVER[x]=1&this=1", "a..b=1&.a=1&a.[b.c]=1", "a" + "[x]" * 70 + "=1", "a%5Bb%5D=1", "9999999999999999999=1",
            "a[9223372036854775807]=1&a[]=2", "a=1?b=2", "__Host-a=1&_.Host-b=2",
        ):  # fmt: skip
            self.same(query=text)
            self.same("POST", text, [("content-type", FORM)], text)

    def test_types_and_methods(self):
        for kind in (
            f"{FORM}; charset=utf-8", FORM.upper(), f"{FORM},text/plain", f"{FORM} foo", f"{FORM}x", "application/json", "text/plain", "multipart/form-data",
            "multipart/mixed; boundary=x", "*/*",
        ):  # fmt: skip
            self.same("POST", fields=[("content-type", kind)], body="a=1&b=2")
        self.same("POST", body="a=1")
        for method in ("PUT", "PATCH", "DELETE", "FOO"):
            self.same(method, fields=[("content-type", FORM)], body="a=1")
            self.same(method, fields=[("content-type", "multipart/form-data; boundary=x")], body=field("a") + END)
        self.same("POST", fields=[("content-type", FORM)], body="a=" + "x" * 250_000)
        self.same("POST", fields=[("content-type", FORM)], body="a=1\0&b=2\r\n&c=3\r\n")

    def test_more_than_post_max_size(self):
        self.same("POST", fields=[("content-type", FORM)], body="a=" + "x" * 310_000)
        self.form(file("u", "x" * 310_000), END)

    def test_cookies(self):
        for text in (
            "a=1; b=2", "a=1;b=2;;", "a = 1", "a=1 ; b=2", "=1; a", "a[]=1; a[]=2", "a[x]=1; a[x]=2; a[y]=3", "a.b=1; a_b=2", "a b=1; a_b=2", "a=%41%2B+", 'a="q;r"', "a=1; a=2",
            "%61=1; a=2", "a%5Bx%5D=1; a%2Eb=2", "__Host-a=1; __Secure-b=2", "_.Host-a=1; _ Secure-b=2; _[Host-c=3; __Host%2Dd=4", "..Host-a=1; .a=2", "a=%00b", "a\x80=\xff",
            "0=1; 1=2", "a=b=c", "a[=1; a[=2", "[a]=1", "a[b=1", "\ta=1;\tb=2", "a=1; a[x]=2", "a[x]=1; a=2", "a[ x]=1; b[ ]=2; b[%20]=3", "+a=1; a+b=2",
        ):  # fmt: skip
            self.same(fields=[("cookie", text)])

    def test_what_is_in_REQUEST(self):
        form = [("content-type", FORM), ("cookie", "c=1; a=cookie; l[y]=3; l[z]=4")]
        for order in ("GP", "PG", "GPC", "CGP", "P", "", None):
            with self.subTest(order=order):
                options = ["-n"] if order is None else ["-d", f"request_order={order}"]
                kept = self.worker, self.command
                self.worker, self.command = Worker("dump.php", *options), [CGI, "-n", *options, self.command[-1]]
                try:
                    self.same("POST", "g=1&a=get&l[x]=1&l[y]=2&n[]=1&0=g", form, "p=1&a=post&l[y]=5&l[w]=6&n[]=2&n[]=3&0=p")
                    self.same("GET", "a=1&l=2", form)
                finally:
                    self.worker.stop()
                    self.worker, self.command = kept

    def test_credentials(self):
        for text in ("Basic dXNlcjpwYTpzcw==", "Basic !!", "Basic dXNlcg==", "basic dXNlcjpw", "Bearer x", 'Digest username="a"', "Basic", "BASIC OnA="):
            self.same(fields=[("authorization", text)])

    def test_dispositions(self):
        for text in (
            'form-data; name="a"', "form-data; name=a", 'form-data;name="a"', 'form-data; name = "a"', "form-data; name='a'", 'FORM-DATA; NAME="a"', "form-data", 'form-data; name=""',
            'form-data; name="a%22b"', 'form-data; name="a\\"b"', 'form-data; name="a\\\\b"', 'form-data; name="a;b"', 'form-data; name="a', "form-data; name=a b",
            "form-data; name*=utf-8''a", 'attachment; name="a"', 'name="a"', 'form-data; name="a"; name="b"', 'form-data; name="\xe9"', 'form-data; x=";name=z"; name="a"',
            'form-data; name="a\\', "form-data; name=a;x", 'form-data; name="a"x', 'form-data; name="a\0b"', 'form-data;\r\n name="a"', 'form-data; name="' + "n" * 9_000 + '"',
        ):  # fmt: skip
            self.form(part(text), field("last"), END)
            self.form(part(text + '; filename="f.txt"', "v", "Content-Type: text/plain\r\n"), field("last"), END)

    def test_names_of_files(self):
        for text in (
            '"f.txt"', "f.txt", "'f.txt'", '""', '"a/b.txt"', '"a\\\\b.txt"', '"C:\\x\\y.txt"', '"../../x"', '"x/"', '"a\\"b"', '"a%22b"', '"\xe9\xff"', '"a;b"', '"a', '"a\0b"',
            '" a"', '".."', '"a\\', "\"f.txt\"; filename*=UTF-8''n.txt", '"a\\/b"', "\"a'b\"", "'a\"b'", '"a\r\n b"', '"' + 'n\\"' * 3_000 + '"',
        ):  # fmt: skip
            self.form(part(f'form-data; name="u"; filename={text}', "content", "Content-Type: text/plain\r\n"), END)
        self.form(part("form-data; name=\"u\"; filename*=UTF-8''f.txt"), part('form-data; filename="f"'), part('form-data; filename="g"'), END)

    def test_names_of_fields_and_uploads(self):
        for name in (
            "a[]", "a[b][c]", "a b", "a.b", "0", "[a]", "a[", " a", "a[b]c", "a[b", "a]b", "a[b]]", "a[][b]", "a[ b]", "a[\tb]", "a[ ]", "a.b[c]", "a b[c]", "a[b.c]", "a[[b]]", "",
            "a" + "[b]" * 70, "a]", "a[b][", "a[b]x[c]", "a[name]", "a[b][name]", "_FILES[x]", "a..", "_.Host-a",
        ):  # fmt: skip
            self.form(field(name), END)
            self.form(file(name), file("behind"), END)
        self.form(*(file(name, name) for name in ("a[b][c]", "a[b][d]", "a[x]", "a[]", "a[]")), END)
        self.form(file("u[tmp_name]"), file("u"), file("u[tmp_name]"), END)
        self.form(field("u[tmp_name]", "/etc/passwd"), file("u"), field("u[tmp_name]", "/etc/passwd"), END)

    def test_types_of_files(self):
        for kind in ("text/plain; charset=utf-8", "", " x ", 'text/plain;x="y"', "a\r\nContent-Type: b", "a/\r\n b;c"):
            self.form(file("u", more=f"Content-Type: {kind}\r\n"), END)

    def test_delimiters(self):
        one = field("a")
        for body in (
            "pre\r\n" + one + END, "pre" + one + END, "\n" + one + END, one + END + "behind\r\n" + field("b") + END, one, one[:-2], one + "--x", one + "--x\r\n", one + "--x--",
            "", END, "garbage", part('form-data; name="a"', boundary="xy") + "--xy--", field("a", "a\r\n--xy\r\nb") + END, field("a", "a--x") + END, field("a", "a\n--x") + END,
            one.replace("--x", "--x  ") + END, (one + field("b") + END).replace("\r\n", "\n"), f"--x\r\n\r\nv\r\n{END}", f"--x\r\nX: y\r\n\r\nv\r\n{END}",
            one.replace("Disposition:", "Disposition :") + END, one.replace("Content-D", " Content-D") + END, field("a", "\r\n\r\n") + field("b", "\r") + field("c", "\n--") + END,
            '--x\r\nContent-Disposition: form-data; name="a"\r\n\r\n--x--\r\n', "--x\0junk\r\n" + one[5:] + END, "\r\n" * 5_000 + one + END, file("u", "abc")[:-2], file("u", "abc") + "--",
            one + '--x\r\nContent-Disposition: form-data; name="b"\r\n\r\nvvv', f"--x\r\nX-Pad: {'p' * 10_000}\r\n{one[5:]}{END}",
        ):  # fmt: skip
            self.form(body)
        for boundary, kind in (
            ("x", '; boundary="x"'), ("x", ";boundary=x"), ("x", "; charset=utf-8; Boundary=x"), ("x", "; boundary=x,y"), ("x", ", boundary=x"), ("x", "; boundary = x"),
            ("x y", '; boundary="x y"'), ("x y", "; boundary=x y"), ("'x'", "; boundary='x'"), ("x", '; boundary="x'), ("x", "; xboundary=z; boundary=x"), ("x", "; boundary=y; boundary=x"),
            ("b" * 5_000, "; boundary=" + "b" * 5_000), ("x", " boundary=x"), ("x", "boundary=x"), ("x", "; boundary=y"), ("--x", "; boundary=--x"),
        ):  # fmt: skip
            body = part('form-data; name="a"', boundary=boundary) + part('form-data; name="u"; filename="f"', boundary=boundary) + f"--{boundary}--\r\n"
            self.form(body, kind="multipart/form-data" + kind)

    def test_limits(self):
        self.form(*(file(f"u{number}") for number in range(8)), field("behind"), END)
        self.form(*(file(f"u{number}", filename="" if number % 2 else "f") for number in range(14)), END)
        self.form(*(field(f"v{number}") for number in range(70)), END)
        self.form(file("u", "x" * 110_000), file("exact", "x" * 102_400), END)
        self.form(field("max_file_size", "2x"), file("u", "ccc"), file("v", "cc"), END)
        self.form(field("MAX_FILE_SIZE", "-1"), file("u", "ccc"), END)

    def test_what_nobody_thought_of(self):
        seed = int(os.environ.get("SEED", "7"))
        chance = random.Random(seed)
        tokens = [
            "--x", "--x--", "\r\n", "\r\n", "\n", "\r", 'Content-Disposition: form-data; name="a"', 'Content-Disposition: form-data; name="u[]"; filename="f"',
            "content-disposition:form-data;name=b", "Content-Disposition: form-data; name='c'; filename=g", "Content-Type: text/plain", "\r\n\r\n", "\r\n\r\n", "v", " ", "--", '"', ";",
            '; name="z"', '; filename="h"', "\0", ":", "a[b][]", "\\", "'", "\r\n--x\r\n", "\r\n--x\r\n", "\r\n--x--\r\n",
        ]  # fmt: skip
        for number in range(int(os.environ.get("KEEPWARM_CASES", "40"))):
            with self.subTest(seed=seed, number=number):
                self.form('--x\r\nContent-Disposition: form-data; name="a"\r\n\r\n', *chance.choices(tokens, k=chance.randint(3, 40)))


if __name__ == "__main__":
    unittest.main()
