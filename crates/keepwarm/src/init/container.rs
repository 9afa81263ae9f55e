//! The text of a Containerfile: the language's own image, the app's packages, and the program `keepwarm` from a build context of that name.

use keepwarm_discover::{Language, Start};

use super::Plan;

/// The directory that this program is in.
pub(super) fn program_directory() -> String {
    let program = std::env::current_exe().ok();
    let directory = program.as_deref().and_then(std::path::Path::parent);
    directory.map_or_else(|| "/usr/local/bin".to_owned(), |directory| directory.display().to_string())
}

pub(super) fn yaml_string(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

pub(super) fn build_command(plan: &Plan<'_>) -> String {
    let directory = program_directory();
    format!(
        "podman build --build-context keepwarm={directory} -t {name} . && podman run --rm -p 8080:8080 {name}",
        name = plan.app
    )
}

pub(super) fn text(plan: &Plan<'_>) -> String {
    let stage = stage(plan);
    format!(
        "# Written by `keepwarm init`. The build context `keepwarm` is a directory with the program, for this architecture and\n\
         # linked statically or to this image's libc:\n\
         #   {build}\n\
         {before}\
         FROM {image}\n\
         {packages}\
         WORKDIR /app\n\
         {install}\
         COPY . .\n\
         {after}\
         COPY --from=keepwarm --chmod=755 keepwarm /usr/local/bin/keepwarm\n\
         {owned}\
         USER 10001\n\
         # Every network of the container, whatever keepwarm.toml says.\n\
         ENV KEEPWARM_LISTEN__PUBLIC__BIND=0.0.0.0:8080{environment}\n\
         EXPOSE 8080\n\
         CMD [\"keepwarm\", \"run\"]\n",
        build = build_command(plan),
        before = stage.before,
        image = stage.image,
        packages = stage.packages,
        install = stage.install,
        after = stage.after,
        owned = owned(plan),
        environment = stage.environment,
    )
}

/// Directories that apps write to belong to the user that runs them.
fn owned(plan: &Plan<'_>) -> String {
    let written: Vec<String> =
        ["var", "storage", "bootstrap/cache", "tmp", "log", "data", "db", "media", "wp-content/uploads"]
            .into_iter()
            .filter(|name| plan.has(name))
            .map(|name| plan.path(name))
            .collect();
    if written.is_empty() { String::new() } else { format!("RUN chown -R 10001 {}\n", written.join(" ")) }
}

#[derive(Default)]
struct Stage {
    before: String,
    image: String,
    packages: String,
    /// Before the sources are copied, so that a change of them does not install again.
    install: String,
    after: String,
    environment: String,
}

fn stage(plan: &Plan<'_>) -> Stage {
    match plan.chosen.framework.language {
        Language::Python => python(plan),
        Language::Ruby => ruby(plan),
        Language::Php => php(plan),
        Language::Node => node(plan),
        Language::Deno => Stage { image: "docker.io/denoland/deno:debian".to_owned(), ..Stage::default() },
        Language::Go => go(plan),
        Language::Rust => rust(plan),
        Language::Any => any(plan),
        Language::Files => {
            Stage { image: "docker.io/library/debian:stable-slim".to_owned(), ..Stage::default() }
        }
    }
}

/// By the files that name packages: a command of a Procfile is of any language.
fn any(plan: &Plan<'_>) -> Stage {
    match () {
        () if plan.has("requirements.txt") || plan.has("pyproject.toml") => python(plan),
        () if plan.has("Gemfile") => ruby(plan),
        () if plan.has("package.json") => node(plan),
        () => Stage { image: "docker.io/library/debian:stable-slim".to_owned(), ..Stage::default() },
    }
}

fn python(plan: &Plan<'_>) -> Stage {
    let version = first_version(plan, ".python-version").unwrap_or_else(|| "3.13".to_owned());
    let copy = |name: &str| copied(plan, &[name]);
    let path = plan.path("");
    let (install, after) = match () {
        () if plan.has("uv.lock") => (
            format!(
                "RUN pip install --no-cache-dir uv\n{}RUN {}uv sync --frozen --no-dev --no-install-project\n",
                copied(plan, &["pyproject.toml", "uv.lock"]),
                inside(&path)
            ),
            String::new(),
        ),
        () if plan.has("poetry.lock") => (
            format!(
                "RUN pip install --no-cache-dir poetry\n{}RUN {}POETRY_VIRTUALENVS_IN_PROJECT=1 poetry install --only main --no-root\n",
                copied(plan, &["pyproject.toml", "poetry.lock"]),
                inside(&path)
            ),
            String::new(),
        ),
        () if plan.has("requirements.txt") => (
            format!(
                "{}RUN pip install --no-cache-dir -r {}\n",
                copy("requirements.txt"),
                plan.path("requirements.txt")
            ),
            String::new(),
        ),
        () if plan.has("pyproject.toml") || plan.has("setup.py") => {
            (String::new(), format!("RUN pip install --no-cache-dir ./{path}\n"))
        }
        () => (
            "# No requirements.txt or pyproject.toml: install the app's packages here.\n".to_owned(),
            String::new(),
        ),
    };
    Stage {
        image: format!("docker.io/library/python:{version}-slim"),
        install,
        after,
        environment: " PYTHONUNBUFFERED=1".to_owned(),
        ..Stage::default()
    }
}

fn ruby(plan: &Plan<'_>) -> Stage {
    let version =
        first_version(plan, ".ruby-version").map(|text| text.trim_start_matches("ruby-").to_owned());
    let install = match plan.has("Gemfile") {
        true => {
            let files: Vec<&str> =
                ["Gemfile", "Gemfile.lock"].into_iter().filter(|name| plan.has(name)).collect();
            format!(
                "{}RUN {}bundle config set --local without development:test && bundle install\n",
                copied(plan, &files),
                inside(&plan.path(""))
            )
        }
        false => "# No Gemfile: install the app's gems here.\n".to_owned(),
    };
    let after = match plan.chosen.framework.slug {
        "rails" if plan.has("Gemfile") => format!(
            "RUN {}SECRET_KEY_BASE_DUMMY=1 RAILS_ENV=production bundle exec rails assets:precompile\n",
            inside(&plan.path(""))
        ),
        _ => String::new(),
    };
    Stage {
        image: format!("docker.io/library/ruby:{}-slim", version.unwrap_or_else(|| "3.4".to_owned())),
        packages: "RUN apt-get update && apt-get install -y --no-install-recommends build-essential git libyaml-dev && rm -rf /var/lib/apt/lists/*\n".to_owned(),
        install,
        after,
        ..Stage::default()
    }
}

fn php(plan: &Plan<'_>) -> Stage {
    // With php-fpm, which classic scripts need; its command line serves apps that are kept warm.
    let mut stage = Stage {
        image: "docker.io/library/php:8.4-fpm".to_owned(),
        packages: "# Extensions that the app needs, for example: RUN docker-php-ext-install pdo_mysql\nRUN docker-php-ext-install opcache\n".to_owned(),
        ..Stage::default()
    };
    if plan.has("composer.json") {
        "COPY --from=docker.io/library/composer:2 /usr/bin/composer /usr/bin/composer\n\
         RUN apt-get update && apt-get install -y --no-install-recommends git unzip && rm -rf /var/lib/apt/lists/*\n"
            .clone_into(&mut stage.install);
        stage.after = format!(
            "RUN {}composer install --no-dev --optimize-autoloader --no-interaction\n",
            inside(&plan.path(""))
        );
    }
    stage
}

fn node(plan: &Plan<'_>) -> Stage {
    let version = first_version(plan, ".nvmrc").map(|text| text.trim_start_matches('v').to_owned());
    let files: Vec<&str> = ["package.json", "package-lock.json", "pnpm-lock.yaml", "yarn.lock"]
        .into_iter()
        .filter(|name| plan.has(name))
        .collect();
    let builds = matches!(&plan.chosen.start, Start::Command { build: Some(_), .. });
    let (install, build) = match () {
        () if plan.has("pnpm-lock.yaml") => {
            ("corepack enable && pnpm install --frozen-lockfile", "pnpm run build")
        }
        () if plan.has("yarn.lock") => {
            ("corepack enable && yarn install --frozen-lockfile", "yarn run build")
        }
        () if plan.has("package-lock.json") && builds => ("npm ci", "npm run build"),
        () if plan.has("package-lock.json") => ("npm ci --omit=dev", ""),
        () => ("npm install", "npm run build"),
    };
    let inner = inside(&plan.path(""));
    Stage {
        image: format!("docker.io/library/node:{}-slim", version.unwrap_or_else(|| "22".to_owned())),
        install: format!("{}RUN {inner}{install}\n", copied(plan, &files)),
        after: if builds { format!("RUN {inner}{build}\n") } else { String::new() },
        environment: " NODE_ENV=production".to_owned(),
        ..Stage::default()
    }
}

fn go(plan: &Plan<'_>) -> Stage {
    let Start::Command { words, build } = &plan.chosen.start else { return Stage::default() };
    let name = words.first().map_or("app", |word| word.trim_start_matches("./"));
    let build = build.clone().unwrap_or_else(|| format!("go build -o {name} ."));
    Stage {
        before: format!(
            "FROM docker.io/library/golang:1 AS build\nWORKDIR /app\nCOPY . .\nRUN {}CGO_ENABLED=0 {build}\n\n",
            inside(&plan.path(""))
        ),
        image: "docker.io/library/debian:stable-slim".to_owned(),
        after: format!("COPY --from=build /app/{0} {0}\n", plan.path(name)),
        ..Stage::default()
    }
}

fn rust(plan: &Plan<'_>) -> Stage {
    let Start::Command { words, .. } = &plan.chosen.start else { return Stage::default() };
    let binary = plan.path(words.first().map_or("target/release/app", String::as_str));
    Stage {
        before: format!(
            "FROM docker.io/library/rust:1 AS build\nWORKDIR /app\nCOPY . .\nRUN {}cargo build --release\n\n",
            inside(&plan.path(""))
        ),
        image: "docker.io/library/debian:stable-slim".to_owned(),
        after: format!("COPY --from=build /app/{binary} {binary}\n"),
        ..Stage::default()
    }
}

/// `COPY a b ./`, into the app's own directory.
fn copied(plan: &Plan<'_>, names: &[&str]) -> String {
    let paths: Vec<String> = names.iter().map(|name| plan.path(name)).collect();
    format!("COPY {} ./{}\n", paths.join(" "), plan.path(""))
}

fn inside(path: &str) -> String {
    if path.is_empty() { String::new() } else { format!("cd {path} && ") }
}

/// The first word of a file that names a version.
fn first_version(plan: &Plan<'_>, name: &str) -> Option<String> {
    let text = std::fs::read_to_string(plan.root.join(plan.path(name))).ok()?;
    let word = text.split_whitespace().next()?.to_owned();
    let is_version = word.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-'))
        && word.contains(|c: char| c.is_ascii_digit());
    is_version.then_some(word)
}

/// What stays out of the image: what is installed there, and secrets.
pub(super) fn ignored(plan: &Plan<'_>) -> String {
    let of_language: &[&str] = match plan.chosen.framework.language {
        Language::Python => &[".venv", "venv", "**/__pycache__"],
        Language::Ruby => &["vendor/bundle", ".bundle", "log", "tmp"],
        Language::Php => &["vendor", "var/cache", "var/log"],
        Language::Node | Language::Deno => &["node_modules"],
        Language::Rust => &["target"],
        Language::Go | Language::Any | Language::Files => &[],
    };
    let mut lines = vec![".git", ".env", "*.service", "Containerfile", "compose.yaml"];
    lines.extend(of_language);
    lines.join("\n") + "\n"
}
