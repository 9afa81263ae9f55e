//! Applications in PHP: by the files of their framework, else by the front controller.

use crate::framework::{DRUPAL, LARAVEL, MEDIAWIKI, PHP, SLIM, SYMFONY, WORDPRESS};
use crate::{Candidate, Evidence, Project, Start};

/// Front controllers, that of a directory of its own first: the files around it are not for visitors.
const FRONT_CONTROLLERS: [&str; 6] = [
    "public/index.php",
    "web/index.php",
    "webroot/index.php",
    "docroot/index.php",
    "pub/index.php",
    "index.php",
];
/// The directories of those.
const SITES: [&str; 7] = ["", "public/", "web/", "webroot/", "docroot/", "pub/", "html/"];

pub(crate) fn find(project: &Project) -> Vec<Candidate> {
    let finders: [fn(&Project) -> Option<Candidate>; 7] =
        [laravel, wordpress, mediawiki, drupal, symfony, slim, plain];
    finders.iter().find_map(|find| find(project)).into_iter().collect()
}

/// What `keepwarm.php` has: docs/guide/laravel.md.
const LARAVEL_ENTRY: &str = "<?php\n\n\
    // The entry of Keepwarm's workers: loads the application once. `public/index.php` would load it for each request.\n\
    require __DIR__ . '/vendor/autoload.php';\n\n\
    return require __DIR__ . '/bootstrap/app.php';\n";

fn laravel(project: &Project) -> Option<Candidate> {
    let artisan = project.there("artisan")?;
    let bootstrap =
        project.line_with("bootstrap/app.php", "return").or_else(|| project.there("bootstrap/app.php"))?;
    let composer = project.line_with("composer.json", "\"laravel/framework\"");
    let evidence = composer.into_iter().chain([artisan, bootstrap]).collect();
    let mut found = Candidate::new(&LARAVEL, Start::Entry("keepwarm.php".to_owned()), evidence);
    found.try_files = project.is_directory("public").then(|| "public".to_owned());
    if !project.is_file("keepwarm.php") {
        found.own_file = Some(("keepwarm.php".to_owned(), LARAVEL_ENTRY.to_owned()));
    }
    Some(found)
}

fn wordpress(project: &Project) -> Option<Candidate> {
    let (site, evidence) = in_site(project, "wp-load.php")?;
    let entry = format!("{site}index.php");
    if !project.is_file(&entry) {
        return None;
    }
    let config = project.there(&format!("{site}wp-config.php"));
    let mut found =
        Candidate::new(&WORDPRESS, Start::Entry(entry), vec![evidence].into_iter().chain(config).collect());
    advise_of_fpm(&mut found);
    found
        .advice
        .push("set DISABLE_WP_CRON and run its jobs from a timer (docs/guide/wordpress.md)".to_owned());
    Some(found)
}

fn mediawiki(project: &Project) -> Option<Candidate> {
    let (site, evidence) = in_site(project, "includes/WebStart.php").or_else(|| {
        in_site(project, "LocalSettings.php").filter(|(site, _)| project.is_file(&format!("{site}api.php")))
    })?;
    let entry = format!("{site}index.php");
    if !project.is_file(&entry) {
        return None;
    }
    let mut found = Candidate::new(&MEDIAWIKI, Start::Entry(entry), vec![evidence]);
    advise_of_fpm(&mut found);
    Some(found)
}

fn drupal(project: &Project) -> Option<Candidate> {
    let (site, evidence) = in_site(project, "core/lib/Drupal.php")?;
    let mut found = Candidate::new(&DRUPAL, Start::Entry(format!("{site}index.php")), vec![evidence]);
    advise_of_fpm(&mut found);
    Some(found)
}

fn symfony(project: &Project) -> Option<Candidate> {
    let entry = "public/index.php";
    project.there(entry)?;
    let bundle = project.line_with("composer.json", "\"symfony/framework-bundle\"");
    let kernel =
        project.line(entry, |line| line.contains("autoload_runtime.php") || line.contains("use App\\Kernel"));
    let evidence: Vec<Evidence> = bundle.into_iter().chain(kernel).collect();
    if evidence.is_empty() || !(project.is_file("bin/console") || project.is_file("src/Kernel.php")) {
        return None;
    }
    let mut found = Candidate::new(&SYMFONY, Start::Entry(entry.to_owned()), evidence);
    found.env.push(("APP_ENV".to_owned(), "prod".to_owned()));
    Some(found)
}

fn slim(project: &Project) -> Option<Candidate> {
    let entry = FRONT_CONTROLLERS.into_iter().find(|entry| project.is_file(entry))?;
    let uses = |line: &str| {
        let line = line.trim_start();
        !line.starts_with("//") && (line.starts_with("use Slim\\") || line.contains("\\Slim\\App"))
    };
    let line = project
        .line_with("composer.json", "\"slim/slim\"")
        .into_iter()
        .chain(project.line(entry, uses))
        .next()?;
    let runs = project.line(entry, |line| line.trim() == "$app->run();");
    let mut found = Candidate::new(&SLIM, Start::Entry(entry.to_owned()), vec![line, Evidence::file(entry)]);
    if let Some(runs) = runs {
        found.advice.push(format!(
            "each request loads the application: to keep it warm, end {entry} with `return $app;` instead of line {}",
            runs.line
        ));
    }
    Some(found)
}

fn plain(project: &Project) -> Option<Candidate> {
    let Some(entry) = FRONT_CONTROLLERS.into_iter().find(|entry| project.is_file(entry)) else {
        return by_its_door(project);
    };
    Some(Candidate::new(&PHP, Start::Entry(entry.to_owned()), vec![Evidence::file(entry)]))
}

/// The site itself, where no script of it serves all requests.
const SITE: &str = ".";

/// `<meta http-equiv="refresh" content="1;URL=./start.php">` of an `index.html`: the script beside it, or the site if the script lies further down.
fn by_its_door(project: &Project) -> Option<Candidate> {
    let door = project.line_with("index.html", ".php")?;
    let (front, _) = door.text.split_once(".php")?;
    let name = front.rsplit(|char: char| !(char.is_alphanumeric() || "_-./".contains(char))).next()?;
    let entry = format!("{}.php", name.trim_start_matches("./"));
    // The directory of the entry is the site: a script further down would leave out what is beside the page.
    let site = if entry.contains('/') { SITE.to_owned() } else { entry.clone() };
    project.is_file(&entry).then(|| Candidate::new(&PHP, Start::Entry(site), vec![door]))
}

fn in_site(project: &Project, file: &str) -> Option<(&'static str, Evidence)> {
    SITES.into_iter().find_map(|site| Some((site, project.there(&format!("{site}{file}"))?)))
}

fn advise_of_fpm(found: &mut Candidate) {
    found.advice.push("install php-fpm: its processes share one opcache".to_owned());
}
