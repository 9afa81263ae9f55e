//! Common parts of the plans of all worlds: how the sockets behave, how a plan becomes smaller, and how a client may end.

use std::sync::Arc;
use std::time::Duration;

use keepwarm_net::simulation::{Faults, Rng, Settings, on_thread};
use keepwarm_net::{ListeningSocket, Remote};
use keepwarm_serve::{ListenerContext, StopListening, serve, stop_listening};

use crate::client::{BodyPlan, ClientPlan, Disconnect, RequestPlan};
use crate::response::{Broken, Pace};
use crate::sizes::near_boundary;
use crate::worker::Observations;

/// Pipes of a few bytes, of a page or two, and of a kernel's size; with the largest body that gets through them in a world's time.
const PIPES: [((usize, usize), usize); 5] = [
    ((1, 16), 600),
    ((1, 512), 8 * 1024),
    ((512, 8 * 1024), 100 * 1024),
    ((8 * 1024, 256 * 1024), 700 * 1024),
    ((64 * 1024, 512 * 1024), 700 * 1024),
];

/// Pipes of at least this hold a tunnel's megabyte in a few turns.
pub(crate) const WIDE: usize = 8 * 1024;

/// How the sockets and the disk of a world behave, and the size of its largest body. In a clean world they only delay; in the others some of `may_fail` happens, at
/// the rates in it.
pub(crate) fn settings(rng: &mut Rng, clean: bool, may_fail: &Faults) -> (Settings, usize) {
    let (capacity, most) = *rng.pick(&PIPES);
    // A pipe of a few bytes passes those once each latency.
    let latency = if capacity.0 <= 512 { 0 } else { *rng.pick(&[0, 0, 1, 5]) };
    let delays = Faults {
        short_send: *rng.pick(&[0, 0, 300]),
        spurious: *rng.pick(&[0, 0, 100]),
        no_copy: *rng.pick(&[0, 0, 0, 300]),
        ..Faults::default()
    };
    let mut some = |rate: u32| *rng.pick(&[0, 0, rate]);
    let faults = match clean {
        true => delays,
        false => Faults {
            no_buffers: some(may_fail.no_buffers),
            no_descriptor: some(may_fail.no_descriptor),
            reset: some(may_fail.reset),
            refused: some(may_fail.refused),
            silent: some(may_fail.silent),
            disk_full: some(may_fail.disk_full),
            ..delays
        },
    };
    let jumps = !clean && rng.chance(100);
    let jump = jumps.then(|| {
        let by = *rng.pick(&[1_000, 6_000, 61_000, 3_600_000]);
        (Duration::from_millis(rng.size(3000) as u64), Duration::from_millis(by))
    });
    let settings = Settings {
        capacity,
        latency: Duration::from_millis(latency),
        in_pieces: rng.chance(600),
        faults,
        jump,
    };
    (settings, most)
}

/// How many data-plane threads there are.
pub(crate) fn threads(rng: &mut Rng) -> usize {
    *rng.pick(&[1, 1, 2, 3])
}

/// That many.
pub(crate) fn remotes(threads: usize) -> Vec<Remote> {
    (0..threads).map(Remote::here).collect()
}

/// Serves on each of them.
pub(crate) fn serve_all(
    remotes: &[Remote],
    bound: &ListeningSocket,
    context: &Arc<ListenerContext>,
) -> Vec<StopListening> {
    let serve_one = |remote: &Remote| {
        let (stop, signal) = stop_listening();
        let serve = serve(copy(bound), Arc::clone(context), signal);
        tokio::task::spawn_local(on_thread(remote.index, serve));
        stop
    };
    remotes.iter().map(serve_one).collect()
}

/// Another descriptor of the socket, as soon as there is one.
pub(crate) fn copy(bound: &ListeningSocket) -> ListeningSocket {
    loop {
        if let Ok(copy) = bound.try_clone() {
            return copy;
        }
    }
}

/// The size of a response: where pipes are large and quick sometimes one that a slow client has kept for it on the disk.
pub(crate) fn response_size(rng: &mut Rng, settings: &Settings, most: usize) -> usize {
    match large(settings) {
        0 => near_boundary(rng, most),
        _ if rng.chance(800) => near_boundary(rng, most),
        large => large / 2 + near_boundary(rng, large / 2),
    }
}

/// A size that gets through quick pipes, and is more than memory holds of one message; 0: the pipes are not quick.
pub(crate) fn large(settings: &Settings) -> usize {
    if settings.capacity.0 >= 8 * 1024 && settings.latency.is_zero() { 1536 * 1024 } else { 0 }
}

/// Quick pipes that hold little beside the largest bodies: a slow client delays its sender, or its response is kept on a disk, which may fail. Returns the size of
/// the largest body.
pub(crate) fn crowd(settings: &mut Settings, disk_full: u32) -> usize {
    settings.capacity = (WIDE, 64 * 1024);
    settings.latency = Duration::ZERO;
    settings.faults.disk_full = disk_full;
    700 * 1024
}

/// The responses of a client become larger than what memory holds of one, and it reads them slowly: `body(response, size)` makes one so large.
pub(crate) fn read_slowly<R>(
    rng: &mut Rng,
    large: usize,
    (client, responses): &mut (ClientPlan, Vec<R>),
    body: impl Fn(&mut R, usize),
) {
    client.requests.truncate(2);
    responses.truncate(2);
    for (request, response) in client.requests.iter_mut().zip(responses) {
        if request.method == "HEAD" {
            request.method = "GET";
        }
        body(response, large * 2 / 3 + near_boundary(rng, large / 3));
    }
    let pause = Duration::from_millis(rng.between(10, 80) as u64);
    client.pace = Pace { piece: large / 100, every: large / (2 + rng.below(6)), pause };
    if client.leave != Disconnect::AfterBrokenBody {
        client.leave = Disconnect::Never;
    }
}

/// The space that the largest message of each client may take of a disk, which is in memory here.
pub(crate) fn on_disk<R>(clients: &[(ClientPlan, Vec<R>)], body: impl Fn(&R) -> usize) -> usize {
    let largest = |(client, responses): &(ClientPlan, Vec<R>)| {
        let requests = client.requests.iter().map(|request| request.body.size());
        requests.chain(responses.iter().map(&body)).max().unwrap_or(0)
    };
    clients.iter().map(largest).sum()
}

/// Request bodies become larger than what memory holds of one that is read whole.
pub(crate) fn spill<R>(rng: &mut Rng, large: usize, clients: &mut [(ClientPlan, Vec<R>)]) {
    for (client, _) in clients.iter_mut().filter(|_| large > 0) {
        let mut bytes = 0;
        for request in &mut client.requests {
            if let BodyPlan::Length(size) | BodyPlan::Chunked { size, .. } = &mut request.body
                && rng.chance(500)
            {
                *size = large / 4 + near_boundary(rng, large / 2);
            }
            if let BodyPlan::Chunked { size, chunk, .. } = &mut request.body {
                *chunk = (*chunk).max(*size / 300);
            }
            bytes += request.body.size();
        }
        client.piece = client.piece.max(bytes / 500);
        client.every = client.every.max(bytes / 8);
    }
}

/// Checks a client's end: in a clean world one that stays has every response, unless a response that `may_end` the connection announces it.
pub(crate) fn judge(number: usize, plan: &ClientPlan, broken: Option<Broken>, clean: bool, may_end: bool) {
    match broken {
        Some(Broken::Wrong(wrong)) => panic!("client {number}: {wrong}"),
        Some(Broken::Announced) if may_end => {}
        Some(broken) if clean && matches!(plan.leave, Disconnect::Never | Disconnect::HalfCloses) => {
            panic!("client {number}: no whole response to every request: {broken:?}")
        }
        _ => {}
    }
}

/// The client and the request that a path says.
pub(crate) fn place(path: &str) -> Option<(usize, usize)> {
    let (client, request) = path.strip_prefix("/")?.split_once('/')?;
    Some((client.parse().ok()?, request.parse().ok()?))
}

/// Checks the observations of an app or an origin: a POST is begun once, other requests at most `most` times, and a body that came to its end is the one sent.
/// `request(client, n)`: the plan of a client's nth.
pub(crate) fn judge_observations<'p>(
    seen: &Observations,
    most: usize,
    request: impl Fn(usize, usize) -> &'p RequestPlan,
) {
    let request = |id: u64| request((id >> 16) as usize, (id & 0xffff) as usize);
    for (id, times) in &seen.begun {
        assert!(*times == 1 || request(*id).method != "POST", "POST {id:x} was begun {times} times");
        assert!(*times <= most, "{id:x} was begun {times} times");
    }
    for (id, size) in &seen.whole {
        let request = request(*id);
        assert!(!request.is_broken(), "the body of {id:x}, which broke off, looks whole");
        assert_eq!(*size, request.body.size(), "the body of {id:x} ended elsewhere");
    }
}

/// Collects plans that have less in them than a given one.
pub(crate) struct Smaller<'p, P> {
    from: &'p P,
    pub(crate) plans: Vec<P>,
}

impl<'p, P: Clone> Smaller<'p, P> {
    pub(crate) fn than(from: &'p P) -> Self {
        Self { from, plans: Vec::new() }
    }

    /// The plan with this change; `false`: there was nothing to change.
    pub(crate) fn with(&mut self, change: impl Fn(&mut P) -> bool) {
        let mut plan = self.from.clone();
        if change(&mut plan) {
            self.plans.push(plan);
        }
    }

    /// Without this time.
    pub(crate) fn without_time(&mut self, of: impl Fn(&mut P) -> &mut Duration) {
        self.with(|plan| !std::mem::take(of(plan)).is_zero());
    }

    /// With half of this.
    pub(crate) fn half(&mut self, of: impl Fn(&mut P) -> &mut usize) {
        self.with(|plan| {
            let size = of(plan);
            *size /= 2;
            *size > 0
        });
    }

    /// With less of what the clients do; each is paired with its response.
    pub(crate) fn clients<R: 'static>(
        &mut self,
        of: impl Fn(&mut P) -> &mut Vec<(ClientPlan, Vec<R>)>,
        now: &[(ClientPlan, Vec<R>)],
    ) {
        for (at, (client, _)) in now.iter().enumerate() {
            // Its index stays: paths contain it.
            self.with(|plan| {
                let clients = of(plan);
                clients.len() > 1 && at + 1 == clients.len() && clients.pop().is_some()
            });
            self.with(|plan| {
                let requests = &mut of(plan)[at].0.requests;
                let some = !requests.is_empty();
                requests.clear();
                some
            });
            self.with(|plan| of(plan)[at].0.requests.len() > 1 && of(plan)[at].0.requests.pop().is_some());
            self.with(|plan| std::mem::take(&mut of(plan)[at].0.pipelines));
            self.with(|plan| std::mem::take(&mut of(plan)[at].0.late));
            self.without_time(|plan| &mut of(plan)[at].0.pause);
            self.without_time(|plan| &mut of(plan)[at].0.start);
            self.with(|plan| of(plan)[at].0.pace.becomes_fast());
            for request in 0..client.requests.len() {
                self.with(|plan| of(plan)[at].0.requests[request].body.halve());
            }
        }
    }

    /// With sockets and a disk that do less.
    pub(crate) fn settings(&mut self, of: impl Fn(&mut P) -> &mut Settings) {
        self.with(|plan| std::mem::take(&mut of(plan).in_pieces));
        self.without_time(|plan| &mut of(plan).latency);
        self.with(|plan| of(plan).jump.take().is_some());
        let faults: [fn(&mut Faults) -> &mut u32; 9] = [
            |it| &mut it.spurious,
            |it| &mut it.short_send,
            |it| &mut it.no_descriptor,
            |it| &mut it.no_copy,
            |it| &mut it.no_buffers,
            |it| &mut it.reset,
            |it| &mut it.refused,
            |it| &mut it.silent,
            |it| &mut it.disk_full,
        ];
        for fault in faults {
            self.with(|plan| std::mem::take(fault(&mut of(plan).faults)) > 0);
        }
    }
}
