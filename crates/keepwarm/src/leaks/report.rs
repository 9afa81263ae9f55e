//! What a person reads: the verdict first, then a table for each route.

use serde_json::Value;

use super::request::LeaksRequest;
use super::totals::ENOUGH;
use crate::named::counted;

/// Rows of a route's table. `--json` has all.
const ROWS: usize = 12;

/// What the instance responds.
#[derive(Debug)]
pub(super) struct Report {
    app: String,
    seconds: f64,
    requests: u64,
    other_requests: u64,
    measurement: f64,
    workers: Vec<String>,
    pub(super) notes: Vec<String>,
    routes: Vec<Route>,
    response: Value,
}

#[derive(Debug)]
struct Route {
    name: String,
    requests: u64,
    counted: u64,
    enough: bool,
    kept: Vec<Kept>,
}

#[derive(Debug)]
struct Kept {
    form: String,
    name: String,
    total: i64,
    grew: u64,
}

impl Report {
    /// `None`: something is missing.
    pub(super) fn of(response: &Value) -> Option<Self> {
        let routes = response.get("routes")?.as_array()?.iter();
        Some(Self {
            app: text(response, "app")?,
            seconds: response.get("seconds")?.as_f64()?,
            requests: number(response, "requests")?,
            other_requests: number(response, "other_requests")?,
            measurement: number(response, "measurement_microseconds")? as f64 / 1e3,
            workers: texts(response, "workers")?,
            notes: texts(response, "notes")?,
            routes: routes.map(Route::of).collect::<Option<_>>()?,
            response: response.clone(),
        })
    }

    /// Whether something can be told of at least one route.
    pub(super) fn has_verdict(&self) -> bool {
        self.routes.iter().any(|route| route.enough)
    }

    pub(super) fn keeps_something(&self) -> bool {
        self.routes.iter().any(|route| !route.kept.is_empty())
    }

    pub(super) fn json(&self) -> String {
        let mut response = self.response.clone();
        if let Some(object) = response.as_object_mut() {
            object.remove("ok");
        }
        serde_json::to_string_pretty(&response).unwrap_or_default()
    }

    /// Why nothing can be told.
    pub(super) fn too_few(&self, request: &LeaksRequest) -> String {
        let of_route = request.route.as_ref().map(|route| format!(" of route {route}")).unwrap_or_default();
        let needed = 3 + ENOUGH;
        match self.requests {
            0 => format!(
                "no requests: the measured worker of app {} got none{of_route} in {:.0} s; run it while the app has requests, or for longer (--seconds)",
                self.app, self.seconds
            ),
            requests => format!(
                "too few requests: {requests}{of_route} in {:.0} s, and a route needs {needed}; run it while the app has more, or for longer (--seconds)",
                self.seconds
            ),
        }
    }

    pub(super) fn text(&self) -> String {
        let mut routes: Vec<&Route> = self.routes.iter().collect();
        routes.sort_by_key(|route| (route.kept.is_empty(), std::cmp::Reverse(route.counted)));
        let mut text = String::new();
        match self.keeps_something() {
            true => routes.iter().filter(|route| !route.kept.is_empty()).for_each(|route| {
                text += &format!("{}\n", route.verdict());
            }),
            false => text += &format!("app {} keeps nothing\n", self.app),
        }
        for route in routes {
            text.push('\n');
            text += &route.table();
        }
        text + &self.footer()
    }

    fn footer(&self) -> String {
        let others = match self.other_requests {
            0 => String::new(),
            others => format!(", and {others} of other routes"),
        };
        format!(
            "\nmeasured {}{others} of {} in {:.1} s; a measurement took {:.1} ms\n",
            counted(self.requests as usize, "request"),
            named_workers(&self.workers),
            self.seconds,
            self.measurement
        )
    }
}

fn named_workers(workers: &[String]) -> String {
    match workers {
        [one] => format!("worker {one}"),
        several => format!("workers {}", several.join(", ")),
    }
}

impl Route {
    fn of(value: &Value) -> Option<Self> {
        let kept = value.get("kept")?.as_array()?.iter();
        Some(Self {
            name: text(value, "route")?,
            requests: number(value, "requests")?,
            counted: number(value, "counted")?,
            enough: value.get("enough")?.as_bool()?,
            kept: kept.map(Kept::of).collect::<Option<_>>()?,
        })
    }

    /// `GET /cart keeps 1 shop.models.Item and 1.2 KiB a request: shop.cache grows by 1, made at shop/cart.py:41`
    fn verdict(&self) -> String {
        let of_form = |form: &'static str| self.kept.iter().filter(move |kept| kept.form == form);
        let object = of_form("object").find(|kept| !is_of_language(&kept.name));
        let object = object.or_else(|| of_form("object").next());
        let memory = of_form("memory").next();
        let what: Vec<String> = [
            object.map(|kept| format!("{} {}", self.each(kept), kept.name)),
            memory.map(|kept| self.each(kept)),
        ]
        .into_iter()
        .flatten()
        .collect();
        let where_: Vec<String> = [
            of_form("held").next().map(|kept| format!("{} grows by {}", kept.name, self.each(kept))),
            of_form("made").next().map(|kept| match memory {
                Some(_) => format!("made at {}", kept.name),
                None => format!("{} made at {}", self.each(kept), kept.name),
            }),
        ]
        .into_iter()
        .flatten()
        .collect();
        match (what.is_empty(), where_.is_empty()) {
            (false, false) => {
                format!("{} keeps {} a request: {}", self.name, what.join(" and "), where_.join(", "))
            }
            (false, true) => format!("{} keeps {} a request", self.name, what.join(" and ")),
            (true, _) => format!("{}: {} a request", self.name, where_.join(", ")),
        }
    }

    /// What each request keeps, on average.
    fn each(&self, kept: &Kept) -> String {
        let mean = kept.total as f64 / self.counted.max(1) as f64;
        if kept.is_bytes() { bytes(mean) } else { plain(mean) }
    }

    fn table(&self) -> String {
        let requests = counted(self.requests as usize, "request");
        if !self.enough {
            return format!("{}  {requests}: too few to tell ({} are needed)\n", self.name, 3 + ENOUGH);
        }
        if self.kept.is_empty() {
            return format!("{}  {requests}: nothing kept\n", self.name);
        }
        let mut text =
            format!("{}  {requests}, the first {} left out\n", self.name, self.requests - self.counted);
        text += &format!("{:>10}  {:>10}  {:>9}  {:<6}  NAME\n", "A REQUEST", "IN ALL", "GREW IN", "FORM");
        for kept in self.kept.iter().take(ROWS) {
            let total = if kept.is_bytes() { bytes(kept.total as f64) } else { plain(kept.total as f64) };
            let grew = format!("{}/{}", kept.grew, self.counted);
            let line =
                format!("{:>10}  {total:>10}  {grew:>9}  {:<6}  {}", self.each(kept), kept.form, kept.name);
            text += line.trim_end();
            text.push('\n');
        }
        if self.kept.len() > ROWS {
            text += &format!("{:>10}  and {} more: see --json\n", "", self.kept.len() - ROWS);
        }
        text
    }
}

impl Kept {
    fn of(value: &Value) -> Option<Self> {
        Some(Self {
            form: text(value, "form")?,
            name: text(value, "name")?,
            total: value.get("total")?.as_i64()?,
            grew: number(value, "grew")?,
        })
    }

    fn is_bytes(&self) -> bool {
        matches!(self.form.as_str(), "memory" | "made")
    }
}

/// The verdict of a route of the response; none: it keeps nothing.
pub(super) fn verdict(route: &Value) -> Option<String> {
    Route::of(route).filter(|route| !route.kept.is_empty()).map(|route| route.verdict())
}

/// Whether a type is one of the language itself, which says less than one of the app: `dict`, `Array`, `Closure`.
fn is_of_language(name: &str) -> bool {
    const CORE: [&str; 16] = [
        "Array",
        "Closure",
        "Float",
        "Generator",
        "Hash",
        "Integer",
        "MatchData",
        "Method",
        "Object",
        "Proc",
        "Regexp",
        "String",
        "Struct",
        "Symbol",
        "Time",
        "stdClass",
    ];
    // Python's own have no module; classes of an app there always do.
    CORE.contains(&name) || (!name.contains(['.', ':', '\\']) && name.starts_with(|c: char| c.is_lowercase()))
}

fn bytes(number: f64) -> String {
    const KIB: f64 = 1024.0;
    match number {
        small if small < KIB => format!("{small:.0} B"),
        medium if medium < KIB * KIB => format!("{:.1} KiB", medium / KIB),
        large => format!("{:.1} MiB", large / KIB / KIB),
    }
}

fn plain(number: f64) -> String {
    if number.fract() < 0.05 || number >= 100.0 { format!("{number:.0}") } else { format!("{number:.1}") }
}

/// Names of an app must not steer a terminal.
fn text(value: &Value, key: &str) -> Option<String> {
    let text = value.get(key)?.as_str()?;
    Some(text.chars().map(|c| if c.is_control() { '?' } else { c }).collect())
}

fn texts(value: &Value, key: &str) -> Option<Vec<String>> {
    value.get(key)?.as_array()?.iter().map(|one| one.as_str().map(str::to_owned)).collect()
}

fn number(value: &Value, key: &str) -> Option<u64> {
    value.get(key)?.as_u64()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn report(routes: Value) -> Report {
        let response = json!({
            "ok": true, "app": "shop", "seconds": 12.34, "requests": 100, "other_requests": 0,
            "measurement_microseconds": 4_100, "workers": ["shop/1"], "notes": [], "routes": routes,
        });
        Report::of(&response).unwrap()
    }

    fn kept(form: &str, name: &str, total: i64, grew: u64) -> Value {
        json!({ "form": form, "name": name, "total": total, "grew": grew })
    }

    fn cart(kept: &[Value]) -> Value {
        json!({ "route": "GET /cart", "requests": 24, "counted": 21, "enough": true, "kept": kept })
    }

    #[test]
    fn the_verdict_stands_first_and_then_the_routes() {
        let report = report(json!([
            { "route": "GET /*", "requests": 73, "counted": 70, "enough": true, "kept": [] },
            { "route": "GET /rare", "requests": 3, "counted": 0, "enough": false, "kept": [] },
            cart(&[
                kept("held", "shop.cache", 21, 21),
                kept("object", "dict", 42, 21),
                kept("object", "shop.models.Item", 21, 21),
                kept("memory", "", 25_805, 20),
                kept("made", "shop/cart.py:41", 23_654, 21),
            ]),
        ]));
        assert!(report.keeps_something() && report.has_verdict());
        assert_eq!(
            report.text(),
            "GET /cart keeps 1 shop.models.Item and 1.2 KiB a request: shop.cache grows by 1, made at shop/cart.py:41

GET /cart  24 requests, the first 3 left out
 A REQUEST      IN ALL    GREW IN  FORM    NAME
         1          21      21/21  held    shop.cache
         2          42      21/21  object  dict
         1          21      21/21  object  shop.models.Item
   1.2 KiB    25.2 KiB      20/21  memory
   1.1 KiB    23.1 KiB      21/21  made    shop/cart.py:41

GET /*  73 requests: nothing kept

GET /rare  3 requests: too few to tell (8 are needed)

measured 100 requests of worker shop/1 in 12.3 s; a measurement took 4.1 ms
"
        );
    }

    #[test]
    fn what_there_is_makes_the_verdict() {
        let verdict = |kept: &[Value]| report(json!([cart(kept)])).text().lines().next().unwrap().to_owned();
        let held = kept("held", "$cache", 42, 21);
        let made = kept("made", "a.rb:1", 4_200, 21);
        assert_eq!(verdict(std::slice::from_ref(&held)), "GET /cart: $cache grows by 2 a request");
        assert_eq!(verdict(std::slice::from_ref(&made)), "GET /cart: 200 B made at a.rb:1 a request");
        assert_eq!(verdict(&[kept("memory", "", 210, 11)]), "GET /cart keeps 10 B a request");
        assert_eq!(
            verdict(&[held, kept("object", "String", 32, 21), kept("object", "Item", 11, 11), made]),
            "GET /cart keeps 0.5 Item a request: $cache grows by 2, 200 B made at a.rb:1"
        );
    }

    #[test]
    fn an_app_that_keeps_nothing_is_told_so() {
        let report = report(json!([cart(&[])]));
        assert!(!report.keeps_something());
        assert!(
            report.text().starts_with("app shop keeps nothing\n\nGET /cart  24 requests: nothing kept\n")
        );
    }

    #[test]
    fn without_enough_requests_it_says_what_to_do() {
        let request = LeaksRequest::parse("100 60 shop /cart").unwrap();
        let mut report = report(
            json!([{ "route": "GET /cart", "requests": 3, "counted": 0, "enough": false, "kept": [] }]),
        );
        assert!(!report.has_verdict());
        report.requests = 3;
        assert!(
            report
                .too_few(&request)
                .starts_with("too few requests: 3 of route /cart in 12 s, and a route needs 8;")
        );
        report.requests = 0;
        assert!(
            report
                .too_few(&request)
                .starts_with("no requests: the measured worker of app shop got none of route /cart in 12 s;")
        );
    }

    #[test]
    fn names_do_not_steer_a_terminal() {
        let text = report(json!([cart(&[kept("held", "\u{1b}[2Jx", 21, 21)])])).text();
        assert!(text.contains("?[2Jx") && !text.contains('\u{1b}'), "{text}");
    }

    #[test]
    fn long_tables_are_cut() {
        let many: Vec<Value> =
            (0..20).map(|number| kept("held", &format!("shop.x{number}"), 21, 21)).collect();
        let report = report(json!([cart(&many)]));
        assert!(report.text().contains("and 8 more: see --json\n"), "{}", report.text());
        assert!(report.json().contains("shop.x19") && !report.json().contains("\"ok\""));
    }
}
