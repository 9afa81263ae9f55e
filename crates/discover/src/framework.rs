//! The frameworks that are known, by name.

/// A language, or none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Language {
    /// CPython.
    Python,
    /// Ruby.
    Ruby,
    /// PHP.
    Php,
    /// Node.
    Node,
    /// Deno.
    Deno,
    /// Go.
    Go,
    /// Rust.
    Rust,
    /// A command of any language.
    Any,
    /// No program.
    Files,
}

/// How much a framework says about the directory it is in ([`mod@crate::choice`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rank {
    /// It accompanies other things.
    Companion,
    /// It serves, and its directory may serve more than that.
    App,
    /// It lays out its whole directory.
    Project,
}

/// What an application is written with.
#[derive(Debug, PartialEq, Eq)]
pub struct Framework {
    /// As its authors write it.
    pub name: &'static str,
    /// As a word of the command line.
    pub slug: &'static str,
    /// Its language.
    pub language: Language,
    /// What it says of its directory.
    pub rank: Rank,
}

macro_rules! frameworks {
    ($($constant:ident $name:literal $slug:literal $language:ident $rank:ident)*) => {
        $(pub(crate) static $constant: Framework =
            Framework { name: $name, slug: $slug, language: Language::$language, rank: Rank::$rank };)*
        #[cfg(test)]
        pub(crate) static ALL: &[&Framework] = &[$(&$constant),*];
    };
}

frameworks! {
    DJANGO "Django" "django" Python Project
    FLASK "Flask" "flask" Python App
    QUART "Quart" "quart" Python App
    DASH "Dash" "dash" Python App
    FASTAPI "FastAPI" "fastapi" Python App
    STARLETTE "Starlette" "starlette" Python App
    LITESTAR "Litestar" "litestar" Python App
    SANIC "Sanic" "sanic" Python App
    BOTTLE "Bottle" "bottle" Python App
    FALCON "Falcon" "falcon" Python App
    BLACKSHEEP "BlackSheep" "blacksheep" Python App
    PYRAMID "Pyramid" "pyramid" Python App
    CONNEXION "Connexion" "connexion" Python App
    DATASETTE "Datasette" "datasette" Python App
    AIOHTTP "aiohttp" "aiohttp" Python App
    TORNADO "Tornado" "tornado" Python App
    CHERRYPY "CherryPy" "cherrypy" Python App
    SHINY "Shiny" "shiny" Python App
    MCP "an MCP server" "mcp" Python App
    WSGI "a WSGI application" "wsgi" Python App
    ASGI "an ASGI application" "asgi" Python App
    RAILS "Rails" "rails" Ruby Project
    HANAMI "Hanami" "hanami" Ruby Project
    SINATRA "Sinatra" "sinatra" Ruby App
    RODA "Roda" "roda" Ruby App
    GRAPE "Grape" "grape" Ruby App
    PADRINO "Padrino" "padrino" Ruby App
    RACK "a Rack application" "rack" Ruby App
    LARAVEL "Laravel" "laravel" Php Project
    SYMFONY "Symfony" "symfony" Php Project
    WORDPRESS "WordPress" "wordpress" Php Project
    MEDIAWIKI "MediaWiki" "mediawiki" Php Project
    DRUPAL "Drupal" "drupal" Php Project
    SLIM "Slim" "slim" Php App
    PHP "PHP" "php" Php App
    NEXT "Next.js" "next" Node App
    NUXT "Nuxt" "nuxt" Node App
    REMIX "Remix" "remix" Node App
    SVELTEKIT "SvelteKit" "sveltekit" Node App
    ASTRO "Astro" "astro" Node App
    NEST "NestJS" "nest" Node App
    EXPRESS "Express" "express" Node App
    FASTIFY "Fastify" "fastify" Node App
    KOA "Koa" "koa" Node App
    HAPI "hapi" "hapi" Node App
    HONO "Hono" "hono" Node App
    NODE "Node" "node" Node App
    DENO "Deno" "deno" Deno App
    GO "Go" "go" Go App
    RUST "Rust" "rust" Rust App
    PROCFILE "the command of a Procfile" "procfile" Any App
    STATIC "a static site" "static" Files Companion
}

#[cfg(test)]
mod tests {
    use super::ALL;

    #[test]
    fn names_on_the_command_line_are_unique_words() {
        let mut slugs: Vec<&str> = ALL.iter().map(|framework| framework.slug).collect();
        slugs.sort_unstable();
        let count = slugs.len();
        slugs.dedup();
        assert_eq!(slugs.len(), count);
        assert!(slugs.iter().all(|slug| slug.bytes().all(|byte| byte.is_ascii_lowercase())));
    }
}
