//! Detects the kind of a PHP entry from its tokens, without running it.

/// Whether a PHP file returns an application that a long-lived worker can keep: it returns a value at its top level,
/// or includes Symfony's `autoload_runtime.php`, which makes it return one. Any other file is a script, which
/// responds by itself and exits.
///
/// `return;` and the return of a status (`return true;`, `return 1;`) end a script early. Any other value is treated
/// as an application; the worker reports a value that is not one.
pub(crate) fn returns_app(text: &[u8]) -> bool {
    let mut scanner = Scanner { text, at: 0, blocks: Vec::new(), namespace: false, member: false };
    scanner.is_app()
}

const RUNTIME: &[u8] = b"autoload_runtime.php";

struct Scanner<'a> {
    text: &'a [u8],
    at: usize,
    /// The open braces; `true` if the block runs at the top level, as the block of a namespace does.
    blocks: Vec<bool>,
    /// Whether the next brace opens a namespace.
    namespace: bool,
    /// Whether the last token is `->`, `::` or `$`, so that the next word is a name.
    member: bool,
}

impl Scanner<'_> {
    fn is_app(&mut self) -> bool {
        self.skip_past(b"<?");
        while let Some(&byte) = self.text.get(self.at) {
            let rest = self.rest();
            if rest.starts_with(b"?>") {
                self.skip_past(b"<?");
            } else if rest.starts_with(b"//") || (byte == b'#' && !rest.starts_with(b"#[")) {
                self.skip_line();
            } else if rest.starts_with(b"/*") {
                self.at += 2;
                self.skip_past(b"*/");
            } else if rest.starts_with(b"<<<") {
                self.skip_heredoc();
            } else if matches!(byte, b'\'' | b'"' | b'`') {
                if self.string(byte).ends_with(RUNTIME) {
                    return true;
                }
            } else if is_word(byte) {
                if self.word_is_app() {
                    return true;
                }
            } else {
                self.punctuation(byte);
            }
        }
        false
    }

    fn rest(&self) -> &[u8] {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn skip_past(&mut self, mark: &[u8]) {
        let found = self.rest().windows(mark.len()).position(|window| window == mark);
        self.at = found.map_or(self.text.len(), |found| self.at + found + mark.len());
    }

    /// Skips to the end of the line, or of the PHP block.
    fn skip_line(&mut self) {
        let rest = self.rest();
        let line = rest.iter().position(|byte| matches!(byte, b'\n' | b'\r')).unwrap_or(rest.len());
        let end = rest.windows(2).position(|window| window == b"?>").unwrap_or(rest.len());
        self.at += line.min(end);
    }

    fn skip_heredoc(&mut self) {
        self.at += 3;
        let name: Vec<u8> = self
            .rest()
            .iter()
            .copied()
            .skip_while(|byte| matches!(byte, b' ' | b'\t' | b'\'' | b'"'))
            .take_while(|byte| is_word(*byte))
            .collect();
        if name.is_empty() {
            return; // `<<<` of nothing
        }
        self.skip_line();
        while self.at < self.text.len() {
            self.at += 1;
            let line = self.rest();
            let indent = line.iter().take_while(|byte| matches!(byte, b' ' | b'\t')).count();
            let line = line.get(indent..).unwrap_or_default();
            if line.starts_with(&name) && !line.get(name.len()).copied().is_some_and(is_word) {
                self.at += indent + name.len();
                return;
            }
            let rest = self.rest();
            self.at += rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len());
        }
    }

    /// Skips a quoted string, and returns its content.
    fn string(&mut self, quote: u8) -> &[u8] {
        self.at += 1;
        self.member = false;
        let start = self.at;
        while let Some(&byte) = self.text.get(self.at) {
            match byte {
                b'\\' => self.at += 2,
                byte if byte == quote => break,
                _ => self.at += 1,
            }
        }
        let end = self.at.min(self.text.len());
        self.at = end + 1;
        self.text.get(start..end).unwrap_or_default()
    }

    /// Skips a word; `true` if it is the `return` of an application.
    fn word_is_app(&mut self) -> bool {
        let length = self.rest().iter().take_while(|byte| is_word(**byte)).count();
        let word = self.rest().get(..length).unwrap_or_default().to_ascii_lowercase();
        self.at += length;
        let name = std::mem::take(&mut self.member);
        match word.as_slice() {
            _ if name => false,
            b"namespace" => {
                self.namespace = true;
                false
            }
            b"return" => self.blocks.iter().all(|runs| *runs) && self.returned_is_app(),
            b"__halt_compiler" => {
                self.at = self.text.len();
                false
            }
            _ => false,
        }
    }

    /// Whether the value after a `return` is an application.
    fn returned_is_app(&self) -> bool {
        let rest = self.rest().trim_ascii_start();
        let word: Vec<u8> = rest
            .iter()
            .skip_while(|byte| **byte == b'-')
            .take_while(|byte| is_word(**byte))
            .map(u8::to_ascii_lowercase)
            .collect();
        let status = matches!(word.as_slice(), b"true" | b"false" | b"null" | b"0" | b"1");
        !(rest.is_empty() || rest.starts_with(b";") || rest.starts_with(b"?>") || status)
    }

    fn punctuation(&mut self, byte: u8) {
        let rest = self.rest();
        self.member = match byte {
            b'$' => true,
            b'-' if rest.starts_with(b"->") => true,
            b':' if rest.starts_with(b"::") => true,
            b' ' | b'\t' | b'\r' | b'\n' | b'>' | b':' => self.member,
            _ => false,
        };
        match byte {
            b'{' => self.blocks.push(std::mem::take(&mut self.namespace)),
            b'}' => _ = self.blocks.pop(),
            b';' => self.namespace = false,
            _ => {}
        }
        self.at += 1;
    }
}

/// A byte of a name. For PHP, every byte above ASCII is a letter.
fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80
}

#[cfg(test)]
mod tests {
    use super::returns_app;

    #[test]
    fn entries_that_return_an_application() {
        for text in [
            "<?php return function (array $context) { return new Kernel(); };",
            "<?php\nuse App\\Kernel;\nrequire_once dirname(__DIR__).'/vendor/autoload_runtime.php';\nreturn function () {};",
            "<?php require_once \"../vendor/autoload_runtime.php\"; exit;",
            "<?php $app = AppFactory::create(); RETURN $app;",
            "#!/usr/bin/env php\n<?php declare(strict_types=1);\nreturn new App;",
            "<?php namespace App { return new Handler(); }",
            "<?php namespace App; // return;\nreturn(new Handler());",
            "<?php $x = <<<END\n return; } {\n  END;\nreturn $x;",
            "<?php ?> <?php return [$app, 'handle'];",
            "<?php $a->return; A::return(); return $a;",
            "<?php #[Attribute] class A { function f() { return 1; } } return new A;",
            "<?php return static fn () => 1;",
            "<?php return require 'app.php';",
            "<?php return 42;",
            "<?php return 'no application';",
        ] {
            assert!(returns_app(text.as_bytes()), "{text}");
        }
    }

    #[test]
    fn entries_that_are_scripts() {
        for text in [
            "",
            "no PHP, return $app;",
            "<?php echo 'hello';",
            "<?php phpinfo(); return;",
            "<?php if (is_file('x')) { return false; } require 'y.php'; return true;",
            "<?php return ?>text",
            "<?php if ($x) return -1; run();",
            "<?php return NULL;",
            "<?php function app() { return new App; } app()->run();",
            "<?php // return $app;\n# return $app;\n/* return $app; */ run();",
            "<?php $x = 'return $app;'; $y = \"return \\\" $app;\"; run();",
            "<?php $x = <<<'END'\nreturn $app;\nENDING\nEND;\nrun();",
            "<?php $app->return($x); A::return ($y); $return = 1; run();",
            "<?php class A { const return = 1; function f() { if (1) { return $this; } } } (new A)->f();",
            "<?php run(); __halt_compiler(); return $app;",
            "<?php run(); ?> return $app; <?php more();",
            "<?php run('autoload_runtime.php.bak');",
            "<?php 'unfinished",
            "<?php \"unfinished \\",
            "<?php <<<",
            "<?php <<<A",
            "<?php return",
            "<?php $fn = fn () => 1; $a = function () { return $a; };",
        ] {
            assert!(!returns_app(text.as_bytes()), "{text}");
        }
    }
}
