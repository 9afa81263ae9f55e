<?php

declare(strict_types=1);

namespace Keepwarm;

/** What `mb_*` functions set, as it was when this was made. */
final class Multibyte
{
    private readonly string $encoding;
    private readonly string|int $substitute;
    private readonly string $language;
    private readonly string $output;
    private readonly string $regex;
    private readonly string $options;
    /** @var list<string> */
    private readonly array $order;

    public function __construct()
    {
        $this->encoding = (string) \mb_internal_encoding();
        $this->substitute = \mb_substitute_character();
        $this->language = (string) \mb_language();
        $this->output = (string) \mb_http_output();
        $this->order = \mb_detect_order();
        $this->regex = \function_exists('mb_regex_encoding') ? (string) \mb_regex_encoding() : '';
        $this->options = $this->regex === '' ? '' : \mb_regex_set_options();
    }

    public function reset(): void
    {
        if (\mb_internal_encoding() !== $this->encoding) {
            Reset::say('mbstring encoding');
            \mb_internal_encoding($this->encoding);
        }
        if (\mb_substitute_character() !== $this->substitute) {
            \mb_substitute_character($this->substitute);
        }
        if (\mb_language() !== $this->language) {
            \mb_language($this->language);
        }
        if (\mb_http_output() !== $this->output) {
            \mb_http_output($this->output);
        }
        if (\mb_detect_order() !== $this->order) {
            \mb_detect_order($this->order);
        }
        if ($this->regex !== '') {
            if (\mb_regex_encoding() !== $this->regex) {
                \mb_regex_encoding($this->regex);
            }
            if (\mb_regex_set_options() !== $this->options) {
                \mb_regex_set_options($this->options);
            }
        }
    }
}
