use crate::key::{DefaultValue, Key, Section, Set};
use crate::model::{Compression, CompressionLevel, ContentCoding};
use crate::shape::{EmptyList, Flag, ListOf, MEDIA_TYPES, Size, TableShape, ValueOrTable, Words, no_check};

/// `compress` of a listener or a route.
pub(crate) const COMPRESSION: ValueOrTable<Flag, Compression> = ValueOrTable {
    plain: Flag,
    from_plain: |enabled, _, _| Some(Compression { enabled, ..Compression::default() }),
    table: TableShape { section: &TABLE, check: no_check },
};

static TABLE: Section<Compression> = Section {
    keys: &[
        Key {
            name: "codings",
            brief: "Codings to offer, the preferred one first",
            long: "A client's own preferences (`q` in `Accept-Encoding`) come first. zstd needs less CPU time than gzip for smaller responses, and current browsers support it.",
            default: DefaultValue::Literal("[\"zstd\", \"br\", \"gzip\"]"),
            right: "codings = [\"br\", \"gzip\"]",
            wrong: "codings = [\"deflate\"]",
            value: &Set(CODING_LIST, |compression: &mut Compression, codings| {
                compression.codings = codings;
            }),
            ..Key::LIVE
        },
        Key {
            name: "level",
            brief: "How much CPU time a smaller response may cost",
            long: "`\"fast\"` costs a third of `\"balanced\"` for responses that are a twentieth larger. `\"small\"` costs two to four times as much for responses that are a twentieth smaller: for slow links, or a cache in front.",
            default: DefaultValue::Literal("\"balanced\""),
            right: "level = \"fast\"",
            wrong: "level = 9",
            value: &Set(Words(LEVELS), |compression: &mut Compression, level| compression.level = level),
            ..Key::LIVE
        },
        Key {
            name: "min_size",
            brief: "Size from which a response is compressed",
            long: "A response that fits into one packet gains nothing. A response of unknown length is compressed whatever its size turns out to be.",
            default: DefaultValue::Literal("\"1KiB\""),
            right: "min_size = \"256B\"",
            wrong: "min_size = \"1kb\"",
            value: &Set(Size(0..=1 << 30), |compression: &mut Compression, size| compression.min_size = size),
            ..Key::LIVE
        },
        Key {
            name: "types",
            brief: "Media types to compress",
            long: "The `Content-Type` of a response without its parameters: `\"text/css\"`, `\"text/*\"`, `\"*+json\"` or `\"*/*\"`. The default is text, JSON, XML, JavaScript, WebAssembly, SVG, uncompressed fonts and icons.",
            default: DefaultValue::Words("text and other formats without a compression of their own"),
            right: "types = [\"text/*\", \"application/json\"]",
            wrong: "types = [\"html\"]",
            value: &Set(MEDIA_TYPES, |compression: &mut Compression, types| compression.types = Some(types)),
            ..Key::LIVE
        },
        Key {
            name: "set_cookie",
            brief: "Compress responses that set cookies over TLS too",
            long: "Off, because of BREACH (CVE-2013-3587): if a page holds a secret and repeats something that an attacker can choose, its compressed length shows the secret, byte by byte. Pages that set cookies are where sessions and their CSRF tokens begin. Switch it on if no page repeats input, or its tokens differ in every response, as those of Django, Rails and Symfony do.",
            default: DefaultValue::Literal("false"),
            right: "set_cookie = true",
            wrong: "set_cookie = \"session\"",
            value: &Set(Flag, |compression: &mut Compression, yes| compression.set_cookie = yes),
            ..Key::LIVE
        },
    ],
};

const CODING_LIST: ListOf<Words<ContentCoding>> = ListOf {
    one: Words(CODINGS),
    expected: "a list of \"zstd\", \"br\" and \"gzip\"",
    type_name: "word or list of words",
    empty: EmptyList::Rejected(Some("to compress nothing, write compress = false")),
};

const CODINGS: &[(&str, ContentCoding)] =
    &[("zstd", ContentCoding::Zstd), ("br", ContentCoding::Brotli), ("gzip", ContentCoding::Gzip)];

const LEVELS: &[(&str, CompressionLevel)] = &[
    ("fast", CompressionLevel::Fast),
    ("balanced", CompressionLevel::Balanced),
    ("small", CompressionLevel::Small),
];
