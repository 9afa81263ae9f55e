//! Redmine from Debian's package, visited as its user would, and compared with what it returns behind Puma: two instances of one copy of its code.

use std::path::Path;
use std::process::Command;

use keepwarm_tests::{Server, apps, tools};

use super::{BOUND, Puma, visit};

const CONFIG: &str = r#"
[listen.main]
bind = "127.0.0.1:0"
[[listen.main.route]]
app = "redmine"
via = false
[app.redmine]
entry = "config.ru"
directory = "@DIR@/redmine"
workers = 1
threads = 3
user = "root"
boot_timeout = "120s"
request_timeout = "120s"
env = { RAILS_ENV = "production", REDMINE_INSTANCE = "keepwarm" }
"#;
const INSTANCES: [&str; 2] = ["keepwarm", "puma"];

/// A copy of the code, which Rails takes for its root, with instances of its own in place of those of the machine, and one database, made once.
fn lay_out(redmine: &Path) {
    let script = r#"
        mkdir "$1" && cd "$1"
        for part in /usr/share/redmine/*; do
            case ${part##*/} in
                # Links to what is the machine's.
                config | instances | Gemfile.lock) ;;
                # The JavaScript of other packages is linked to by relative paths.
                *) cp -rLp "$part" . ;;
            esac
        done
        cp -rp /usr/share/redmine/config config
        rm -f config/database.yml
        cp /var/lib/redmine/Gemfile.lock .
        # Debian's Gemfile takes the database's gem from the machine's instances.
        echo 'gem "sqlite3"' >Gemfile.local
    "#;
    tools::run_ok(Command::new("sh").args(["-ec", script, "lay_out"]).arg(redmine), BOUND);
    for instance in INSTANCES {
        let folder = redmine.join("instances").join(instance);
        for part in ["config", "files", "log", "public", "tmp"] {
            std::fs::create_dir_all(folder.join(part)).expect("a folder");
        }
        std::fs::write(folder.join("config/secret_key.txt"), "0".repeat(64)).expect("written");
        let database = folder.join("redmine.sqlite3");
        let text = format!("production:\n  adapter: sqlite3\n  database: {}\n", database.display());
        std::fs::write(folder.join("config/database.yml"), text).expect("written");
    }
    let mut prepare = Command::new("ruby");
    prepare.arg(apps().join("redmine_site/prepare.rb")).current_dir(redmine);
    tools::run_ok(prepare.env("REDMINE_INSTANCE", INSTANCES[0]), BOUND * 5);
    let [database, copy] = INSTANCES.map(|name| redmine.join("instances").join(name).join("redmine.sqlite3"));
    std::fs::copy(database, copy).expect("copied");
}

#[test]
fn redmine_serves_the_same_site_as_behind_puma() {
    let server = Server::spawn(CONFIG, |command| {
        lay_out(&command.get_current_dir().expect("a folder").join("redmine"))
    });
    let server = server.listening().warm("/login");
    let puma = Puma::serve(
        &server.folder().join("redmine"),
        &[("RAILS_ENV", "production"), ("REDMINE_INSTANCE", "puma")],
    );
    for part in ["before", "after"] {
        let look =
            |address: &str, jar: &str| visit("redmine_site", address, part, &server.folder().join(jar));
        let ours = look(&server.address().to_string(), "cookies");
        let theirs = look(&format!("127.0.0.1:{}", puma.1), "puma-cookies");
        assert_eq!(ours.len(), theirs.len(), "{part}");
        for (our, their) in ours.iter().zip(&theirs) {
            assert_eq!(our, their, "{part}");
        }
        server.reload();
    }
}
