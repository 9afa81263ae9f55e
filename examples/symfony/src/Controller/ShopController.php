<?php

declare(strict_types=1);

namespace App\Controller;

use Symfony\Component\HttpFoundation\BinaryFileResponse;
use Symfony\Component\HttpFoundation\Cookie;
use Symfony\Component\HttpFoundation\File\UploadedFile;
use Symfony\Component\HttpFoundation\JsonResponse;
use Symfony\Component\HttpFoundation\RedirectResponse;
use Symfony\Component\HttpFoundation\Request;
use Symfony\Component\HttpFoundation\Response;
use Symfony\Component\HttpFoundation\StreamedResponse;

/** A small shop with the features of a typical web application. */
final class ShopController
{
    private const PRODUCTS = [['id' => 1, 'name' => 'kettle', 'price' => 39], ['id' => 2, 'name' => 'teapot', 'price' => 25], ['id' => 3, 'name' => 'cup', 'price' => 6]];

    public function home(): Response
    {
        $rows = '';
        foreach (self::PRODUCTS as $product) {
            $rows .= sprintf('<tr><td>%s</td><td>%d</td></tr>', htmlspecialchars($product['name']), $product['price']);
        }
        return new Response("<!doctype html><title>Shop</title><h1>Shop</h1><table>$rows</table>");
    }

    public function products(): Response
    {
        return new JsonResponse(self::PRODUCTS);
    }

    public function order(Request $request): Response
    {
        return new JsonResponse($request->request->all());
    }

    /** Size and digest of the body, or of each uploaded file. */
    public function upload(Request $request): Response
    {
        if ($request->files->count() === 0) {
            $context = hash_init('sha256');
            $size = hash_update_stream($context, $request->getContent(true));
            return new JsonResponse(['size' => $size, 'sha256' => hash_final($context)]);
        }
        return new JsonResponse(['fields' => $request->request->all(), 'files' => self::described($request->files->all())]);
    }

    public function stream(Request $request): Response
    {
        $parts = $request->query->getInt('parts', 3);
        $pause = (float) $request->query->get('pause', '0');
        return new StreamedResponse(static function () use ($parts, $pause): void {
            for ($number = 0; $number < $parts; $number++) {
                echo "line $number\n";
                flush();
                usleep((int) ($pause * 1e6));
            }
        }, 200, ['Content-Type' => 'text/plain']);
    }

    /** A page with `?count=N` small pictures, each a request of its own. */
    public function gallery(Request $request): Response
    {
        $pictures = '';
        for ($number = 0; $number < $request->query->getInt('count', 20); $number++) {
            $pictures .= sprintf('<img src="/pictures/%d.svg" alt="">', $number);
        }
        return new Response("<!doctype html><title>Gallery</title><h1>Gallery</h1>$pictures");
    }

    public function picture(int $number): Response
    {
        $svg = '<svg xmlns="http://www.w3.org/2000/svg" width="8" height="8"><rect width="8" height="8" fill="hsl(%d 80%% 50%%)"/></svg>';
        return new Response(sprintf($svg, $number * 7 % 360), 200, ['Content-Type' => 'image/svg+xml']);
    }

    public function cookies(Request $request): Response
    {
        $response = new JsonResponse($request->cookies->all());
        foreach (['basket' => '42', 'theme' => 'dark', 'seen' => 'yes'] as $name => $value) {
            $response->headers->setCookie(Cookie::create($name, $value));
        }
        return $response;
    }

    /** Counts a visitor's visits in the session. */
    public function basket(Request $request): Response
    {
        $session = $request->getSession();
        $session->set('visits', $session->get('visits', 0) + 1);
        return new JsonResponse(['id' => $session->getId(), 'visits' => $session->get('visits')]);
    }

    public function error(): Response
    {
        throw new \RuntimeException('an error on demand');
    }

    public function errorLate(): Response
    {
        return new StreamedResponse(static function (): void {
            echo 'the beginning';
            flush();
            throw new \RuntimeException('an error on demand, late');
        });
    }

    public function leave(): never
    {
        echo 'printed before exit()';
        exit;
    }

    public function fatal(): never
    {
        eval('function on_demand() {} function on_demand() {}');
    }

    public function big(Request $request): Response
    {
        $size = $request->query->getInt('bytes', 1_000_000);
        return new Response(substr(str_repeat('0123456789abcdef', intdiv($size, 16) + 1), 0, $size), 200, ['Content-Type' => 'text/plain', 'Content-Length' => (string) $size]);
    }

    public function file(): Response
    {
        return new BinaryFileResponse(__FILE__, 200, ['Content-Type' => 'text/plain']);
    }

    /** Rejects a body without reading it: with `Expect: 100-continue` it is never sent. */
    public function early(): Response
    {
        return new Response('too large', 413, ['Connection' => 'close']);
    }

    public function whoami(Request $request): Response
    {
        return new JsonResponse([
            'process' => getmypid(), 'method' => $request->getMethod(), 'uri' => $request->getUri(), 'path' => $request->getPathInfo(), 'base' => $request->getBaseUrl(),
            'query' => $request->query->all(), 'client' => $request->getClientIp(), 'secure' => $request->isSecure(), 'thing' => $request->headers->get('x-thing'),
            'protocol' => $request->getProtocolVersion(),
        ]);
    }

    public function pong(): Response
    {
        return new Response('pong', 200, ['Content-Type' => 'text/plain']);
    }

    public function moved(): Response
    {
        return new RedirectResponse('/', 303);
    }

    /**
     * @param array<array-key, mixed> $files
     * @return array<array-key, mixed>
     */
    private static function described(array $files): array
    {
        return array_map(static fn (mixed $file): mixed => $file instanceof UploadedFile ? [
            'size' => $file->getSize(), 'sha256' => hash_file('sha256', $file->getPathname()), 'filename' => $file->getClientOriginalName(),
        ] : self::described($file), $files);
    }
}
