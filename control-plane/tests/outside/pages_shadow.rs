//! The way from shadow to enforce as a browser without a script walks it. Separate because it goes
//! over two pages: the one that tells, and the form that its button sends.

use crate::pages::{get, send};
use crate::support::gateway::Gateway;
use crate::support::{Plane, eventually, policy};
use serde_json::{Value, json};
use wire::stream::proto::Compartment;

fn compartment(plane: &Plane, route: usize) -> Value {
    plane.policy().0["routes"][route]["compartment"].clone()
}

/// A plane whose route `b` is in shadow, `c` has a candidate, and `a` judges nothing.
fn start() -> Plane {
    let plane = Plane::start();
    let mut document = policy();
    document["routes"][0]["compartment"]["mode"] = json!("off");
    document["routes"][1]["compartment"]["mode"] = json!("shadow");
    document["routes"][2]["compartment"]["candidate"] = json!(2);
    let put = plane.api_with("PUT", "/policy", Some(&document), &[("if-match", "1")]);
    assert_eq!(put.status, 200, "{}", put.text());
    plane
}

fn judged(key: &str, level: &str, calls: u64, would: u64) -> Compartment {
    Compartment {
        key: key.to_owned(),
        level: level.to_owned(),
        mode: if key == "route/c" {
            "enforce"
        } else {
            "shadow"
        }
        .to_owned(),
        limit: Some(3),
        candidate: (key == "route/c").then_some(2),
        candidate_rejected: would,
        in_flight: 4,
        peak: 9,
        admitted: calls,
        completed: calls - 4,
        busy_us: 7_500_000_000,
        shadow_rejected: [("route_full".to_owned(), would)].into(),
        ..Default::default()
    }
}

#[test]
fn nothing_in_shadow_says_how_to_begin() {
    let plane = Plane::start();
    let html = get(&plane, "/shadow").text();
    assert!(
        html.contains("No limit is in shadow") && html.contains("--shadow"),
        "{html}"
    );
    assert!(
        !html.contains("<form method=\"post\" action=\"/compartments"),
        "{html}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_limit_in_shadow_is_told_by_tenant_and_enforced_by_its_button() {
    let plane = start();
    let mut gateway = Gateway::connect(&plane, "gw-one").await;
    let pushed = gateway.policy().await;
    gateway.running(pushed.generation).await;
    // What was counted before this limit was in shadow: it says nothing about it.
    let before = vec![
        judged("route/b", "route", 900, 400),
        judged("route/b/tenant/acme", "tenant-route", 500, 400),
        judged("route/c", "route", 10, 4),
    ];
    let before = before
        .into_iter()
        .map(|one| Compartment { busy_us: 0, ..one });
    gateway.report(pushed.generation, before.collect()).await;
    let list = vec![
        judged("route/b", "route", 20_900, 413),
        judged("route/b/tenant/acme", "tenant-route", 4_500, 412),
        judged("route/b/tenant/zeta", "tenant-route", 16_000, 1),
        judged("route/c", "route", 100, 44),
    ];
    gateway.report(pushed.generation, list).await;
    let plain = |path: &str| get(&plane, path).text().replace('\u{a0}', " ");
    eventually("the figures", || {
        plain("/shadow?fragment=live").contains("13 of 20,000")
    });
    let html = plain("/shadow");
    for words in [
        "Its limit of 3 would have refused 0.1 % of its calls: 13 of 20,000 in 2 h 5 min.",
        "0.3 % of its calls (12 of 4,000)",
        "Ready: within 0.1 %",
        "A limit of 2 would have refused 44 % of its calls: 40 of 90",
        "Too small for its traffic",
        "route/a</a>",
        "Enforce 3</button>",
        "Make 2 the limit</button>",
    ] {
        assert!(html.contains(words), "{words} in {html}");
    }
    assert!(html.contains("Counted since <time"), "{html}");
    let api = plane.api("GET", "/compartments/route%2Fb", None).json();
    let told = &api["watched"][0];
    assert_eq!(
        (&told["calls"], &told["would_reject"], &told["says"]),
        (&json!(20_000), &json!(13), &json!("ready")),
        "{told}"
    );
    let (acme, zeta) = (html.find(">acme</a>"), html.find(">zeta</a>"));
    assert!(
        acme < zeta,
        "of whom most would have been refused comes first"
    );
    let overview = plain("/");
    assert!(
        overview.contains("1 route in shadow, 1 candidate"),
        "{overview}"
    );
    let page = plain("/compartments/route%2Fb");
    assert!(page.contains("In shadow: it decides and counts"), "{page}");

    // What the button sends. More is in flight than the limit: the page asks first.
    let step = [
        ("generation", "2"),
        ("mode", "enforce"),
        ("comment", "watched"),
    ];
    let asked = send(&plane, "route/b", &step);
    assert_eq!(asked.status, 422);
    assert!(
        asked.text().contains("below the 4 in flight"),
        "{}",
        asked.text()
    );
    assert_eq!(compartment(&plane, 1)["mode"], json!("shadow"));
    let confirmed = [&step[..], &[("confirm", "route/b")]].concat();
    let answer = send(&plane, "route/b", &confirmed);
    assert_eq!(answer.status, 303, "{}", answer.text());
    assert_eq!(
        compartment(&plane, 1),
        json!({"limit": 3, "mode": "enforce"})
    );

    let step = [("generation", "3"), ("limit", "2"), ("candidate", "")];
    assert_eq!(
        send(&plane, "route/c", &step).status,
        422,
        "below what is in flight"
    );
    let confirmed = [&step[..], &[("confirm", "route/c"), ("comment", "smaller")]].concat();
    assert_eq!(send(&plane, "route/c", &confirmed).status, 303);
    assert_eq!(compartment(&plane, 2), json!({"limit": 2}));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_changed_limit_is_never_called_ready_on_figures_of_another() {
    let plane = start();
    let mut gateway = Gateway::connect(&plane, "gw-one").await;
    let pushed = gateway.policy().await;
    gateway.running(pushed.generation).await;
    let route = |calls, would| vec![judged("route/b", "route", calls, would)];
    let young = Compartment {
        busy_us: 0,
        ..judged("route/b", "route", 4, 0)
    };
    gateway.report(pushed.generation, vec![young]).await;
    gateway.report(pushed.generation, route(20_004, 0)).await;
    let plain = || get(&plane, "/shadow").text().replace('\u{a0}', " ");
    eventually("ready", || plain().contains("Ready: within 0.1 %"));
    let patch = json!({"limit": 1});
    let answer = plane.api("PATCH", "/compartments/route%2Fb", Some(&patch));
    assert_eq!(answer.status, 200, "{}", answer.text());
    let html = plain();
    assert!(
        html.contains("No gateway runs it as it is now yet"),
        "{html}"
    );
    assert!(!html.contains("Ready: within"), "{html}");
    let pushed = gateway.policy().await;
    gateway.running(pushed.generation).await;
    gateway.report(pushed.generation, route(20_010, 0)).await;
    eventually("none yet", || {
        plain().contains("Its limit of 1 has seen no call yet")
    });
    gateway.report(pushed.generation, route(20_020, 9)).await;
    eventually("counted anew", || plain().contains("9 of 10 in"));
    let html = plain();
    assert!(
        html.contains("Watch on.") && !html.contains("Ready: within"),
        "{html}"
    );
}

#[test]
fn leaving_enforcement_is_confirmed_and_a_wrong_mode_is_said() {
    let plane = Plane::start();
    let step = [
        ("generation", "1"),
        ("mode", "shadow"),
        ("comment", "too many refused"),
    ];
    let asked = send(&plane, "route/b", &step);
    assert_eq!(asked.status, 422);
    assert!(
        asked.text().contains("It leaves enforcement"),
        "{}",
        asked.text()
    );
    let confirmed = [&step[..], &[("confirm", "route/b")]].concat();
    assert_eq!(send(&plane, "route/b", &confirmed).status, 303);
    let back = [("generation", "2"), ("mode", "enforce")];
    assert_eq!(
        send(&plane, "route/b", &back).status,
        303,
        "nothing in flight: no question"
    );
    for (field, typed, words) in [
        ("mode", "on", "must be"),
        ("candidate", "1000001", "whole number from 0 to 1000000"),
        ("candidate", "many", "whole number"),
    ] {
        let answer = send(&plane, "route/b", &[("generation", "3"), (field, typed)]);
        assert_eq!(answer.status, 422, "{field} {typed}");
        let error = format!("id=\"{field}-error\">");
        let html = answer.text();
        let said = html.split(error.as_str()).nth(1).unwrap_or_default();
        assert!(
            said.starts_with(words) || said[..120].contains(words),
            "{field}: {html}"
        );
    }
    let unlimited = [
        ("generation", "3"),
        ("limit", "unlimited"),
        ("candidate", "4"),
    ];
    let html = send(&plane, "route/b", &unlimited).text();
    assert!(html.contains("id=\"candidate-error\""), "{html}");
}
