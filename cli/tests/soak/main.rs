//! Random traffic and random policies against the real binary, with the upstream as the judge.
//!
//! `BULKHEAD_SOAK_SECONDS` says how long, `BULKHEAD_SOAK_SEED` what; the seed is printed. At the
//! end no limit was ever passed, every count is 0 and adds up, nothing leaked, memory and
//! descriptors came back, and the log holds no panic.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a failed step fails the test"
)]
#![expect(
    clippy::disallowed_methods,
    reason = "a test's deadline is on the real clock"
)]

mod ledger;
mod random;
mod stub;
#[path = "../support/mod.rs"]
mod support;
mod traffic;
mod troubled;

use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::ledger::{Ledger, policy};
use crate::random::Random;
use crate::support::{Process, eventually, get};
use crate::traffic::Ends;
use crate::troubled::Troubled;

const SECONDS: u64 = 20;
/// What the gateway may grow by after its first seconds: buffers of every connection that a
/// random moment has open.
const GROWTH_KIB_MAX: u64 = 48 * 1024;
/// Descriptors that may stay beyond those at the start: idle connections to the upstream.
const DESCRIPTORS_MAX: usize = 256;

fn setting(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(
        text.parse()
            .unwrap_or_else(|_| panic!("{name}={text}: a number")),
    )
}

/// The running gateway and what it was given.
struct Soak {
    process: Process,
    folder: tempfile::TempDir,
    ledger: Arc<Ledger>,
    upstream: String,
    troubled: Troubled,
    random: Random,
    pushes: u32,
}

impl Soak {
    fn start(seed: u64, record: &Arc<Mutex<stub::Record>>) -> Self {
        let (ledger, mut random) = (Arc::<Ledger>::default(), Random::new(seed));
        let upstream = stub::start(Arc::clone(&ledger), Arc::clone(record));
        let upstream = format!("http://{upstream}");
        let folder = tempfile::tempdir().unwrap();
        let troubled = Troubled::start();
        let first = policy(&mut random, &upstream, &troubled);
        ledger.begin(&first.limits);
        std::fs::write(folder.path().join("policy.toml"), first.text).unwrap();
        let args = [
            "gateway",
            "--policy",
            "policy.toml",
            "--listen",
            "127.0.0.1:0",
            "--admin",
            "127.0.0.1:0",
            "--workers",
            "2",
            "--drain-timeout",
            "5s",
        ];
        let process = Process::start(folder.path(), "gateway", &args, &[]);
        Self {
            process,
            folder,
            ledger,
            upstream,
            troubled,
            random,
            pushes: 0,
        }
    }

    fn running(&self) -> Value {
        get(self.process.admin(), "/policy").json()
    }

    /// A new policy, in force when this returns.
    fn push(&mut self) {
        let next = policy(&mut self.random, &self.upstream, &self.troubled);
        let before = self.running();
        self.ledger.begin(&next.limits);
        replace(self.folder.path(), &next.text);
        self.process.signal("-HUP");
        eventually("the new policy", || {
            (self.running() != before).then_some(())
        });
        self.ledger.confirm();
        self.pushes += 1;
    }

    fn compartments(&self) -> Vec<Value> {
        let all = get(self.process.admin(), "/compartments").json();
        all["compartments"].as_array().unwrap().clone()
    }

    fn memory_kib(&self) -> u64 {
        let text = std::fs::read_to_string(format!("/proc/{}/status", self.process.id())).unwrap();
        let line = text
            .lines()
            .find(|line| line.starts_with("VmRSS:"))
            .unwrap();
        line.split_whitespace().nth(1).unwrap().parse().unwrap()
    }

    fn descriptors(&self) -> usize {
        std::fs::read_dir(format!("/proc/{}/fd", self.process.id()))
            .unwrap()
            .count()
    }

    fn compartment(&self, key: &str) -> Value {
        let mut all = self.compartments().into_iter();
        all.find(|one| one["key"] == key).unwrap()
    }

    /// The storm ran into its budget and never beyond; the breaker opened and closed, and is not
    /// stuck now that all is well.
    fn got_over_trouble(&self, seed: u64) {
        let verdict = self.troubled.judge();
        let retry = self.compartment("route/storm")["retry"].clone();
        println!(
            "  storm: {} requests, {} answered, {} sent again ({:.1} % of what was answered; \
             {:.0} allowed), at most {} times; {} kept by the budget",
            verdict.requests,
            verdict.answered,
            verdict.retries(),
            100.0 * verdict.retries() / verdict.answered.max(1.0),
            verdict.allowed(),
            verdict.most,
            retry["refused"]["budget"]
        );
        let breaker = self.compartment("upstream/flap")["breaker"].clone();
        println!("  flap: {breaker}");
        assert!(
            verdict.retries() <= verdict.allowed(),
            "seed {seed}: beyond the budget"
        );
        assert!(
            verdict.most <= 3,
            "seed {seed}: sent {} times",
            verdict.most
        );
        assert!(
            verdict.retries() > 0.0,
            "seed {seed}: nothing was sent again"
        );
        let count = |of: &Value| of.as_u64().unwrap_or(0);
        assert!(
            count(&retry["refused"]["budget"]) > 0,
            "seed {seed}: no storm"
        );
        let sent = retry["retries"].as_f64().unwrap();
        assert!(verdict.retries() <= sent, "seed {seed}: {sent} counted");
        for change in ["opened", "half_opened"] {
            assert!(count(&breaker[change]) > 0, "seed {seed}: never {change}");
        }
        eventually("the breaker to close", || {
            let answer = get(self.process.gateway(), "/flap");
            let is_closed = self.compartment("upstream/flap")["breaker"]["state"] == "closed";
            (is_closed && answer.status == 200).then_some(())
        });
        assert!(count(&self.compartment("upstream/flap")["breaker"]["closed"]) > 0);
    }

    /// Every count is 0 and adds up; no peak was above any limit that was ever in force.
    fn is_at_rest(&self) {
        eventually("every count to be 0", || {
            let all = self.compartments();
            let busy = all
                .iter()
                .any(|one| one["in_flight"] != 0 || one["queued"] != 0);
            (!busy).then_some(())
        });
        for one in self.compartments() {
            let number = |field: &str| one[field].as_u64().unwrap();
            let rejected = one["rejected"].as_object().unwrap().values();
            let rejected: u64 = rejected.map(|count| count.as_u64().unwrap()).sum();
            assert_eq!(number("admitted"), number("completed"), "{one}");
            let decided = number("admitted") + rejected + number("left_queue");
            assert_eq!(number("arrived"), decided, "{one}");
            assert_eq!(
                (number("leaked"), number("oldest_permit_ms")),
                (0, 0),
                "{one}"
            );
            for endpoint in one["endpoints"]["list"].as_array().into_iter().flatten() {
                let in_flight = endpoint["in_flight"].as_u64();
                assert_eq!(in_flight.unwrap_or(0), 0, "{one}");
            }
            let key = one["key"].as_str().unwrap();
            if let Some(most) = self.ledger.ever(key) {
                assert!(number("peak") <= u64::from(most), "{most} at most: {one}");
            }
        }
    }
}

/// At once: the gateway never reads half of it.
fn replace(folder: &Path, text: &str) {
    std::fs::write(folder.join("next.toml"), text).unwrap();
    std::fs::rename(folder.join("next.toml"), folder.join("policy.toml")).unwrap();
}

#[test]
fn random_traffic_and_policies_pass_no_limit_and_leave_nothing_behind() {
    let seconds = setting("BULKHEAD_SOAK_SECONDS").unwrap_or(SECONDS);
    let seed = setting("BULKHEAD_SOAK_SEED").unwrap_or_else(|| u64::from(std::process::id()));
    println!("BULKHEAD_SOAK_SEED={seed} BULKHEAD_SOAK_SECONDS={seconds}");
    let record = Arc::<Mutex<stub::Record>>::default();
    let mut soak = Soak::start(seed, &record);
    let descriptors = soak.descriptors();
    let ends = Arc::<Ends>::default();
    let clients = traffic::start(
        soak.process.gateway(),
        soak.random.fork(),
        Arc::clone(&ends),
    );
    let (start, length) = (Instant::now(), Duration::from_secs(seconds));
    let mut warm_kib = None;
    while start.elapsed() < length {
        soak.push();
        std::thread::sleep(Duration::from_millis(soak.random.between(0, 300)));
        if start.elapsed() >= length / 4 {
            warm_kib.get_or_insert_with(|| soak.memory_kib());
        }
        let verdicts = record.lock().unwrap().verdicts.clone();
        assert!(verdicts.is_empty(), "seed {seed}: {verdicts:#?}");
    }
    ends.stop.store(true, Ordering::Relaxed);
    soak.troubled.end();
    clients.join().unwrap();
    soak.is_at_rest();
    let (warm_kib, end_kib) = (warm_kib.unwrap(), soak.memory_kib());
    let more = soak.descriptors().saturating_sub(descriptors);
    summary(&soak, &record.lock().unwrap(), &ends);
    soak.got_over_trouble(seed);
    soak.is_at_rest();
    println!("  memory: {warm_kib} KiB after a quarter, {end_kib} KiB at the end");
    println!("  descriptors: {more} more than at the start");
    assert!(record.lock().unwrap().verdicts.is_empty());
    assert_eq!(
        ends.wrong.load(Ordering::Relaxed),
        0,
        "answers that were not their own, or hung"
    );
    assert!(
        ends.whole.load(Ordering::Relaxed) > 100 * seconds / 20,
        "hardly any traffic"
    );
    assert!(end_kib <= warm_kib + GROWTH_KIB_MAX, "memory grows");
    assert!(
        more <= DESCRIPTORS_MAX,
        "{more} descriptors more than at the start"
    );
    soak.process.signal("-TERM");
    assert_eq!(soak.process.wait().code(), Some(0));
    let log = soak.process.text();
    let panics: Vec<&str> = log.lines().filter(|line| is_panic(line)).collect();
    assert!(panics.is_empty(), "{panics:#?}");
}

/// h2 asserts in debug builds alone that no stream outlives its connection, which a client that
/// leaves with streams open brings about. What such a stream held is back: the counts say so.
fn is_panic(line: &str) -> bool {
    let of_h2 = line.contains("/h2-") && line.contains("streams/counts.rs");
    line.contains("panicked at") && !of_h2
}

fn summary(soak: &Soak, record: &stub::Record, ends: &Ends) {
    let count = |count: &std::sync::atomic::AtomicU64| count.load(Ordering::Relaxed);
    println!(
        "{} policies; {} calls upstream, {} of them left; \
         answers: {} whole, {} refused, {} cut, {} left, {} wrong",
        soak.pushes,
        record.calls,
        record.left,
        count(&ends.whole),
        count(&ends.refused),
        count(&ends.cut),
        count(&ends.left),
        count(&ends.wrong),
    );
    for (key, peak) in &record.peaks {
        if let Some(most) = soak.ledger.ever(key) {
            println!("  {key}: peak {peak}, highest limit {most}");
        }
    }
}
