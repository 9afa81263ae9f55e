//! `workers`: the number of worker processes.

use std::time::Duration;

use super::{Count, Time, WordOr, is_table_like};
use crate::checker::Checker;
use crate::description::{Describe, Description, KeyInfo};
use crate::json::Json;
use crate::key::{DefaultValue, Key, Section, Set, Shape};
use crate::model::Workers;
use crate::raw::Directive;

/// `workers`: a number, `"auto"`, or a table.
pub(crate) struct WorkerCount;

const NUMBER: Count = Count(1..=1024);
const AUTO: WordOr<Count> = WordOr("auto", NUMBER);

struct WorkerRange {
    min: u32,
    max: Option<u32>,
    idle: Duration,
}

impl Default for WorkerRange {
    fn default() -> Self {
        Self { min: 1, max: None, idle: Duration::from_secs(60) }
    }
}

static WORKER_RANGE: Section<WorkerRange> = Section {
    keys: &[
        Key {
            name: "min",
            brief: "Minimum number of workers",
            long: "The app starts with this number.",
            default: DefaultValue::Literal("1"),
            right: "min = 2",
            wrong: "min = 0",
            value: &Set(NUMBER, |range: &mut WorkerRange, min| range.min = min),
            ..Key::RECYCLE
        },
        Key {
            name: "max",
            brief: "Maximum number of workers",
            long: "Each worker needs memory: none is started while the machine lacks memory for it.",
            default: DefaultValue::Words("one per core, at least `min`"),
            right: "max = 8",
            wrong: "max = \"many\"",
            value: &Set(NUMBER, |range: &mut WorkerRange, max| range.max = Some(max)),
            ..Key::RECYCLE
        },
        Key {
            name: "idle",
            brief: "Time after which a worker that was not needed is stopped",
            long: "The number that is needed is the number of workers that the requests in progress would fill, one worker after the other. A short time saves memory; a long time saves the starts after each pause.",
            default: DefaultValue::Literal("\"60s\""),
            right: "idle = \"5m\"",
            wrong: "idle = 60",
            value: &Set(
                Time(Duration::from_secs(1)..=Duration::from_secs(24 * 3600)),
                |range: &mut WorkerRange, idle| range.idle = idle,
            ),
            ..Key::RECYCLE
        },
    ],
};

impl Describe for WorkerCount {
    fn description(&self) -> Description {
        Description::new(
            "a whole number from 1 to 1024, \"auto\", or a table { min, max, idle }",
            "whole number, \"auto\" or table",
            Json::any(vec![AUTO.schema(), WORKER_RANGE.schema()]),
        )
    }

    fn children(&self, path: &str) -> Vec<KeyInfo> {
        WORKER_RANGE.infos(path)
    }
}

impl Shape for WorkerCount {
    type Out = Workers;

    fn read(&self, directive: &Directive, cx: &mut Checker<'_>) -> Option<Workers> {
        if !is_table_like(directive) {
            return AUTO.read(directive, cx).map(|number| number.map_or(Workers::Auto, Workers::Fixed));
        }
        let mut range = WorkerRange::default();
        WORKER_RANGE.read(&mut range, &*cx.table(directive)?, cx);
        let WorkerRange { min, max, idle } = range;
        if let Some(max) = max.filter(|&max| max < min) {
            let message = format!("`{}` has a `max` of {max}, which is below its `min` of {min}", cx.name());
            return cx.problem(directive.span, message).expected("a `max` of at least `min`").reject(cx);
        }
        Some(Workers::Dynamic { min, max, idle })
    }
}
