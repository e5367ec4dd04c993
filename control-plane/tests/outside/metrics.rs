//! The control plane's own figures. Separate because they are about gateways and the store, not
//! about compartments: what nobody heard of, and who is behind.

use wire::stream::proto::{Compartment, Report, from_gateway};

use crate::pages::get;
use crate::support::gateway::Gateway;
use crate::support::{Plane, eventually};

async fn report(gateway: &Gateway, sequence: u64, second: u64, calls: u64) {
    let unix_s = std::time::UNIX_EPOCH.elapsed().unwrap().as_secs();
    let one = Compartment {
        key: "route/a".to_owned(),
        level: "route".to_owned(),
        admitted: calls,
        completed: calls,
        ..Default::default()
    };
    let report = Report {
        generation: 1,
        compartments: vec![one],
        boot_id: "one".to_owned(),
        sequence,
        uptime_us: second * 1_000_000,
        // Its clock is 90 seconds behind.
        at_unix_ms: i64::try_from((unix_s - 90) * 1_000).unwrap(),
        ..Default::default()
    };
    gateway.say(from_gateway::Message::Report(report)).await;
}

/// The figure behind a line's name and labels.
fn figure(plane: &Plane, line: &str) -> Option<f64> {
    let page = get(plane, "/metrics").text();
    let rest = page.lines().find_map(|one| one.strip_prefix(line))?;
    rest.trim().parse().ok()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_nobody_heard_of_and_who_is_behind_is_in_the_figures() {
    let plane = Plane::start();
    let mut gateway = Gateway::connect(&plane, "gw-a").await;
    let pushed = gateway.policy().await;
    gateway.running(pushed.generation).await;
    report(&gateway, 1, 1, 10).await;
    // Twenty-nine seconds of silence with 25 calls: a gap, and in no reading.
    report(&gateway, 2, 30, 35).await;
    eventually("the gap", || {
        figure(&plane, "bulkhead_readings_gaps_total") == Some(1.0)
    });
    for (line, want) in [
        ("bulkhead_readings_gap_time_seconds_total", 29.0),
        ("bulkhead_readings_missed_total", 25.0),
        ("bulkhead_policy_generation{kind=\"newest\"}", 1.0),
        ("bulkhead_control_gateways{state=\"running\"}", 1.0),
        ("bulkhead_control_lag", 0.0),
        ("bulkhead_history_lost_total", 0.0),
        ("bulkhead_history_failing", 0.0),
        ("bulkhead_alert_notices_total{outcome=\"taken\"}", 0.0),
    ] {
        assert_eq!(figure(&plane, line), Some(want), "{line}");
    }
    let skew_s = figure(&plane, "bulkhead_control_clock_skew_seconds").unwrap();
    assert!((85.0..=95.0).contains(&skew_s), "{skew_s}");
    let bytes = figure(&plane, "bulkhead_store_size{kind=\"policy\"}").unwrap();
    assert!(bytes >= 4_096.0, "{bytes}");
    // A change that the gateway does not take: one generation behind.
    assert_eq!(
        plane
            .patch("route/a", &serde_json::json!({"limit": 9}))
            .status,
        200
    );
    eventually("one is behind", || {
        figure(&plane, "bulkhead_control_lag") == Some(1.0)
            && figure(&plane, "bulkhead_control_gateways{state=\"lagging\"}") == Some(1.0)
    });
    let page = get(&plane, "/metrics").text();
    assert!(
        page.contains("http_server_request_duration_seconds_count"),
        "{page}"
    );
}
