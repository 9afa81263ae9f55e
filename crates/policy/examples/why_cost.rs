//! What a second of `keepwarm why` costs the control thread: `cargo run --release -p keepwarm-policy --example why_cost [SECONDS]`.
//!
//! 200 apps, 2,000 workers (half of them of one app), 256 routes and 50 upstreams, all with requests in each second, for an hour; then the histories are
//! saved and restored.

#![expect(
    clippy::disallowed_methods,
    clippy::expect_used,
    reason = "a program that measures time, for a developer"
)]

use std::time::{Duration, Instant};

use keepwarm_policy::why::{
    AppSample, AppStep, MachineStep, ROUTES_MAX, RouteSample, RouteStep, Sample, Times, UpstreamSample,
    UpstreamStep, Why, WorkerSample,
};

const APPS: usize = 200;
const WORKERS: u32 = 5;
const WORKERS_OF_FIRST: u32 = 1000;
const UPSTREAMS: usize = 50;

fn main() {
    let seconds: u32 =
        std::env::args().nth(1).map_or(3600, |seconds| seconds.parse().expect("a number of seconds"));
    let mut why = Why::default();
    let mut spent: Vec<(u32, Duration)> = Vec::new();
    for second in 1..=seconds {
        let sample = sample(second);
        let begun = Instant::now();
        why.handle_sample(&sample);
        spent.push((second, begun.elapsed()));
    }
    // What it takes when the histories are full.
    let last: Vec<_> = spent.iter().rev().take(300).collect();
    let of = |is_ten: bool| {
        last.iter().filter(move |(second, _)| second.is_multiple_of(10) == is_ten).map(|(_, time)| *time)
    };
    println!("a second: {:?}", median(of(false)));
    println!("a second that ends 10 s: {:?}, at most {:?}", median(of(true)), of(true).max());
    let begun = Instant::now();
    let saved = why.save();
    println!("saved: {:?}, {} bytes", begun.elapsed(), saved.len());
    let begun = Instant::now();
    let back = Why::restore(&saved).expect("it was just saved");
    println!("restored: {:?}, {} apps", begun.elapsed(), back.apps().len());
}

fn median(times: impl Iterator<Item = Duration>) -> Option<Duration> {
    let mut times: Vec<Duration> = times.collect();
    times.sort_unstable();
    times.get(times.len() / 2).copied()
}

fn sample(second: u32) -> Sample {
    let mut times = Times::default();
    (1..20).for_each(|ms| times.observe(Duration::from_millis(ms)));
    let apps = (0..APPS).map(|app| AppSample {
        name: format!("app-{app:03}").into(),
        step: AppStep { times, app_us: times.sum_us, held: 1, ..AppStep::default() },
        routes: (0..ROUTES_MAX)
            .filter(|route| route % APPS == app)
            .map(|route| route_sample(route, times))
            .collect(),
        generation: 1,
        workers: (0..if app == 0 { WORKERS_OF_FIRST } else { WORKERS })
            .map(|number| worker(app, number, second))
            .collect(),
        ..AppSample::default()
    });
    let upstreams = (0..UPSTREAMS).map(|upstream| UpstreamSample {
        name: format!("upstream-{upstream}").into(),
        step: UpstreamStep { calls: times, in_flight: 1, ..UpstreamStep::default() },
        endpoints: 3,
        available: 3,
        ..UpstreamSample::default()
    });
    let machine = MachineStep { seconds: 1, cores: 4, busy: 0.5, ours: 0.4, ..MachineStep::default() };
    Sample {
        machine,
        apps: apps.collect(),
        upstreams: upstreams.collect(),
        blocked: None,
        spill_full: 0,
        spill_failed: None,
    }
}

fn route_sample(route: usize, times: Times) -> RouteSample {
    RouteSample { route: format!("/route-{route}/*").into(), step: RouteStep { times, failed: 0 } }
}

fn worker(app: usize, number: u32, second: u32) -> WorkerSample {
    WorkerSample {
        number,
        pid: WORKERS_OF_FIRST * (app > 0) as u32 + app as u32 * WORKERS + number,
        generation: 1,
        age: Duration::from_secs(second.into()),
        memory: Some(100 << 20),
    }
}
