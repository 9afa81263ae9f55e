use crate::harness::{Bench, SERVE, printed, records, sh, until, wait_printed};

#[tokio::test]
async fn output_lines_are_tagged() {
    let mut spec = sh("tags", &format!("echo out $$; echo err $$ >&2; {SERVE}"));
    spec.workers = 2;
    let bench = Bench::start_ready(vec![spec]).await;
    let workers = bench.wait_ready("tags", 2).await;
    until("four lines", async || (printed("tags").len() == 4).then_some(())).await;
    for worker in workers {
        let (number, pid) = (worker.number.to_string(), worker.pid.unwrap().to_string());
        for (stream, word) in [("stdout", "out"), ("stderr", "err")] {
            let is_it = |record: &crate::fake::Record| {
                record.target == "keepwarm::worker"
                    && record.field("worker") == Some(&number)
                    && record.field("pid") == Some(&pid)
                    && record.field("stream") == Some(stream)
                    && record.message() == format!("{word} {pid}")
            };
            assert_eq!(records("tags").into_iter().filter(is_it).count(), 1, "{stream} of worker {number}");
        }
    }
    bench.stop().await;
}

#[tokio::test]
async fn a_last_line_without_an_end_and_bytes_that_are_no_text_are_logged() {
    let script = format!(r"printf 'caf\351\n'; {SERVE}; printf 'last words'");
    let bench = Bench::start_ready(vec![sh("bytes", &script)]).await;
    wait_printed("bytes", "caf\u{fffd}").await;
    bench.stop().await;
    assert_eq!(printed("bytes"), ["caf\u{fffd}", "last words"]);
}

#[tokio::test]
async fn a_worker_that_prints_very_much_holds_up_nobody() {
    let flood = format!("yes flood & {SERVE}");
    let bench =
        Bench::start_ready(vec![sh("flood", &flood), sh("flood-sibling", &format!("echo hello; {SERVE}"))])
            .await;
    wait_printed("flood-sibling", "hello").await;
    wait_printed("flood", "flood").await;
    let report = bench.supervisor.reload(vec![sh("flood-sibling", SERVE)]).await.unwrap();
    assert_eq!(report.removed, ["flood".into()]);
    bench.stop().await;
}
