//! What the machine does: its cores, and who else uses them.

use super::percent;
use crate::why::catalog::{CPU_LIMIT, NOISY_NEIGHBOUR, TOO_FEW_CORES};
use crate::why::history::AppHistory;
use crate::why::{Finding, Subject, Why};

/// Seconds that count. Requests have waited for longer, so what was before they came is not among them.
const WINDOW: usize = 5;
const STEAL: f64 = 0.1;
const OTHERS: f64 = 0.5;
const PRESSURE: f64 = 0.2;
const THROTTLED: f64 = 0.25;
/// Seconds in which the control group is stopped that often, of those that are looked at.
const STOPPED: (usize, usize) = (8, 10);

/// The share of all cores that is not idle.
pub(super) fn busy(why: &Why) -> f64 {
    let recent = why.machine.recent(WINDOW);
    recent.share(recent.busy)
}

/// Whether others have half of the processors, or the hypervisor a tenth.
pub(super) fn is_taken_by_others(why: &Why) -> bool {
    let recent = why.machine.recent(WINDOW);
    recent.share(recent.steal) >= STEAL || others(why) >= OTHERS
}

/// The share of other programs in all cores.
fn others(why: &Why) -> f64 {
    let recent = why.machine.recent(WINDOW);
    recent.share(recent.busy - recent.steal - recent.ours).max(0.0)
}

/// Whether the control group was stopped often lately: then neither its queue nor its processors say anything of workers and cores.
pub(super) fn is_throttled(why: &Why) -> bool {
    let recent = why.machine.recent(WINDOW);
    recent.share(recent.throttled) >= THROTTLED
}

/// While there are requests to be held up.
pub(super) fn cpu_limit(why: &Why) -> Option<Finding> {
    let stopped = why.machine.last(STOPPED.1).filter(|second| second.throttled >= THROTTLED).count();
    let is_used = |app: &AppHistory| {
        let recent = app.series.recent(STOPPED.1);
        recent.times.count() > 0 || recent.held > 0 || recent.waiting > 0
    };
    if stopped < STOPPED.0 || !why.apps.values().any(is_used) {
        return None;
    }
    let recent = why.machine.recent(STOPPED.1);
    let (throttled, limit) = (recent.share(recent.throttled), f64::from(recent.limit) / 1e3);
    let evidence = format!(
        "the control group may use {} of {}, and is stopped in {} of its periods",
        number(limit),
        if recent.cores == 1 { "1 core".to_owned() } else { format!("{} cores", recent.cores) },
        percent(throttled)
    );
    let figures = [("throttled", throttled), ("limit_cores", limit), ("cores", recent.cores.into())];
    Some(Finding::new(&CPU_LIMIT, Subject::default(), evidence, &figures))
}

/// `2`, `1.5`, `0.25`.
fn number(cores: f64) -> String {
    let text = format!("{cores:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// `symptom`: what it causes here.
pub(super) fn noisy_neighbour(why: &Why, symptom: &str) -> Option<Finding> {
    let recent = why.machine.recent(WINDOW);
    let (steal, others) = (recent.share(recent.steal), others(why));
    let pressure = recent.pressure.map(|sum| recent.share(sum));
    if !is_taken_by_others(why) || pressure.is_some_and(|pressure| pressure < PRESSURE) {
        return None;
    }
    let taken = if steal >= STEAL {
        format!("the hypervisor takes {} of the processor time", percent(steal))
    } else {
        format!("other programs use {} of the processors", percent(others))
    };
    let pressed = pressure
        .map_or(String::new(), |share| format!(", tasks wait for one {} of the time", percent(share)));
    let figures = [("steal", steal), ("others", others), ("pressure", pressure.unwrap_or(f64::NAN))];
    let figures: Vec<_> = figures.into_iter().filter(|(_, value)| value.is_finite()).collect();
    Some(Finding::new(&NOISY_NEIGHBOUR, Subject::default(), format!("{taken}{pressed}; {symptom}"), &figures))
}

pub(super) fn too_few_cores(why: &Why, symptom: &str, demand: f64) -> Finding {
    let (busy, cores) = (busy(why), why.machine.recent(WINDOW).cores);
    let evidence = format!(
        "{symptom}; its workers want a processor for {} of the time, and all {cores} cores are {} busy",
        percent(demand),
        percent(busy)
    );
    let figures = [("machine_busy", busy), ("processor_demand", demand), ("cores", cores.into())];
    Finding::new(&TOO_FEW_CORES, Subject::default(), evidence, &figures)
}
