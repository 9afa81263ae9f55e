<?php

declare(strict_types=1);

namespace Keepwarm;

/**
 * What an application returned, in whichever form, on its way to the `Response`: here join the fields that it returned, those of
 * `header()` and `setcookie()`, the session's, and what it printed.
 */
final class Reply
{
    private readonly bool $sessions;
    /** Begins the response of an application that prints it. */
    private readonly \Closure $start;

    public function __construct(public readonly Response $response)
    {
        $this->sessions = \extension_loaded('session');
        $this->start = function (): void {
            $status = $this->printedStatus();
            $this->response->head($status, $this->printedFields());
            Output::pass($this->response);
        };
    }

    /**
     * A response that is all here.
     *
     * @param list<string> $flat names and values in turn
     */
    public function whole(int $status, array $flat, string $body): void
    {
        if ($this->response->begun && $status >= 500) {
            // An error in the middle of the output: the error page does not complete that response.
            Output::discard();
            $this->response->abort(Wire::APP_ERROR, 'an error after the response had begun');
            return;
        }
        if ($this->response->begun) {
            $this->finishPrinted($body); // the application has printed before, and sent that
            return;
        }
        $printed = Output::held();
        if (Shutdown::$request !== []) {
            Shutdown::request();
            $more = Output::held();
            $body .= $more;
            $flat = $more === '' ? $flat : self::without($flat, 'content-length');
        }
        $body = $this->head($status, $flat, $printed) . $body;
        $this->closeSession();
        $this->response->whole($body);
    }

    /**
     * A response in pieces, each of which leaves as it comes.
     *
     * @param list<string> $flat
     * @param iterable<string> $pieces
     */
    public function pieces(int $status, array $flat, iterable $pieces): void
    {
        if ($this->response->begun) {
            Output::end();
            $printed = '';
        } else {
            $printed = $this->head($status, $flat, Output::held());
        }
        $going = $printed === '' || $this->response->write($printed);
        if ($going) {
            foreach ($pieces as $piece) {
                if ($piece !== '' && !$this->response->write($piece)) {
                    break;
                }
            }
        }
        if (Shutdown::$request !== []) {
            Output::begin();
            Shutdown::request();
            $this->response->write(Output::held());
        }
        $this->closeSession();
        $this->response->finish();
    }

    /**
     * A response whose body `$print` prints.
     *
     * @param list<string> $flat
     */
    public function printed(int $status, array $flat, callable $print): void
    {
        if ($this->response->over) {
            $print();
            return;
        }
        $printed = $this->response->begun ? '' : $this->head($status, $flat, Output::held());
        Output::pass($this->response);
        if ($printed !== '') {
            $this->response->write($printed);
        }
        $print();
        if (Shutdown::$request !== []) {
            Shutdown::request();
        }
        Output::end();
        $this->closeSession();
        $this->response->finish();
    }

    /** From now on what the application prints is the response, with what it gave to `header()` as its head. */
    public function prints(): void
    {
        Output::startWith($this->start);
    }

    /**
     * The end of a response that was printed, followed by `$more`. `$status`: instead of the application's. `$last`: the application does no
     * more for this request.
     */
    public function finishPrinted(string $more = '', ?int $status = null, bool $last = true): void
    {
        if ($last && Shutdown::$request !== []) {
            echo $more;
            $more = '';
            Shutdown::request();
        }
        if ($last) {
            $this->closeSession();
        }
        if ($this->response->begun) {
            Output::end();
            if ($more !== '' && !$this->response->over) {
                $this->response->write($more);
            }
            $this->response->finish();
            return;
        }
        $this->page(Output::held() . $more, $status ?? $this->printedStatus());
    }

    /** A whole page that was printed. */
    public function page(string $body, int $status): void
    {
        $this->response->head($status, $this->printedFields());
        $this->response->whole($body);
    }

    /** What the visitor's next request will read is written before this one has its response: not every save handler locks. */
    private function closeSession(): void
    {
        if ($this->sessions && isset($_SESSION) && session_status() === \PHP_SESSION_ACTIVE) {
            session_commit();
        }
    }

    /**
     * Gives the head; `$printed`, which was printed until now, is the result, and goes before the body.
     *
     * @param list<string> $flat
     */
    private function head(int $status, array $flat, string $printed): string
    {
        $session = isset($_SESSION) && $this->sessions;
        if ($session || Web::$headers !== [] || Web::$callback !== null) {
            $given = Web::takeHeaders();
            if ($given !== []) {
                $flat = self::joined($session ? Session::withoutRemoval($given) : $given, $flat);
            }
            if ($session || isset($_SESSION)) { // a callback of header_register_callback() may have opened one
                array_push($flat, ...Session::fields($flat));
            }
        }
        if ($printed !== '') {
            $flat = self::without($flat, 'content-length');
        }
        $this->response->head($status, $flat);
        return $printed;
    }

    private function printedStatus(): int
    {
        return Web::$status === false ? 200 : Web::$status;
    }

    /** @return list<string> */
    private function printedFields(): array
    {
        $flat = Web::takeHeaders();
        if ($this->sessions && isset($_SESSION)) {
            array_push($flat, ...Session::fields($flat));
        }
        return $flat;
    }

    /**
     * `header()`'s fields and a response's own, of which Content-Type and Content-Length count.
     *
     * @param list<string> $given
     * @param list<string> $flat
     * @return list<string>
     */
    private static function joined(array $given, array $flat): array
    {
        foreach (['content-type', 'content-length'] as $name) {
            for ($at = 0; $at < \count($flat); $at += 2) {
                if (strcasecmp($flat[$at], $name) === 0) {
                    $given = self::without($given, $name);
                    break;
                }
            }
        }
        return [...$given, ...$flat];
    }

    /**
     * @param list<string> $flat
     * @return list<string>
     */
    private static function without(array $flat, string $name): array
    {
        $kept = array_filter(array_chunk($flat, 2), static fn (array $pair): bool => strcasecmp($pair[0], $name) !== 0);
        return array_merge(...array_values($kept));
    }
}
