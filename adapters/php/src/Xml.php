<?php

declare(strict_types=1);

namespace Keepwarm;

/** libxml's state: whether it collects errors, the loader of external entities, the context in which it opens streams. */
final class Xml
{
    /** Loaders can be asked for: PHP 8.2. */
    private static bool $tells = false;
    private static bool $errors = false;
    private static mixed $loader = null;
    /** @var resource|null that of `libxml_set_streams_context()`; null where it is not known */
    private static mixed $context = null;
    /** `libxml_disable_entity_loader()` is in force. */
    private static bool $disabled = false;
    /** The loader before that. */
    private static mixed $replaced = null;

    public static function settle(): void
    {
        self::$errors = \libxml_use_internal_errors();
        self::$tells = \function_exists('libxml_get_external_entity_loader');
        self::$loader = self::loader();
        self::$context = self::context();
        self::$disabled = false;
    }

    public static function reset(): void
    {
        if (\libxml_use_internal_errors() !== self::$errors) {
            \libxml_use_internal_errors(self::$errors);
        }
        \libxml_clear_errors();
        if (self::$tells ? \libxml_get_external_entity_loader() !== self::$loader : self::$disabled) {
            libxml_set_external_entity_loader(self::$loader);
        }
        self::$disabled = false;
        self::$replaced = null;
        if (self::$context !== null) {
            \libxml_set_streams_context(self::$context); // nothing tells whether it was set
        }
    }

    /** `libxml_disable_entity_loader()`, of which PHP does not tell whether it is in force. */
    public static function disable(bool $disable): bool
    {
        Diagnostics::raise(\E_DEPRECATED, 'Function libxml_disable_entity_loader() is deprecated');
        $before = self::$disabled;
        if ($disable && !$before) {
            self::$replaced = self::loader();
            libxml_set_external_entity_loader(static fn (): ?string => null);
        } elseif (!$disable && $before) {
            libxml_set_external_entity_loader(self::$replaced);
            self::$replaced = null;
        }
        self::$disabled = $disable;
        return $before;
    }

    private static function loader(): mixed
    {
        return \function_exists('libxml_get_external_entity_loader') ? \libxml_get_external_entity_loader() : null;
    }

    /**
     * The context in which libxml opens streams, the default one or what the application has set: one that is opened knows it.
     *
     * @return resource|null
     */
    private static function context(): mixed
    {
        if (!\function_exists('simplexml_load_file')) {
            return null;
        }
        return Log::quietly(static function (): mixed {
            XmlProbe::$seen = null;
            stream_wrapper_register('keepwarm-xml', XmlProbe::class);
            \libxml_use_internal_errors(true);
            if (self::$loader !== null) {
                libxml_set_external_entity_loader(null);
            }
            @simplexml_load_file('keepwarm-xml://probe');
            if (self::$loader !== null) {
                libxml_set_external_entity_loader(self::$loader);
            }
            \libxml_use_internal_errors(self::$errors);
            stream_wrapper_unregister('keepwarm-xml');
            return XmlProbe::$seen;
        });
    }
}
