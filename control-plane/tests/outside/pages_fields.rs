//! The form beyond the limit, undoing, who holds what: as a browser without a script uses them.
//! Separate from the other pages because these are about everything else a compartment can do.

use crate::pages::{get, send, send_to};
use crate::support::gateway::Gateway;
use crate::support::{Plane, eventually, policy};
use serde_json::{Value, json};
use wire::stream::proto::Compartment;

fn compartment(plane: &Plane, route: usize) -> Value {
    plane.policy().0["routes"][route]["compartment"].clone()
}

#[test]
fn several_fields_change_at_once_and_empty_ones_go_back_to_the_default() {
    let plane = Plane::start();
    let fields = [
        ("generation", "1"),
        ("limit", "40"),
        ("reserved", "10"),
        ("queue", "4"),
        ("queue_wait", "20ms"),
        ("class_reserve", "2"),
        ("tenant_limit", "unlimited"),
        ("tenant_share", "0.5"),
        ("candidate", ""),
        ("comment", "a queue"),
    ];
    let answer = send(&plane, "route/b", &fields);
    assert_eq!(answer.status, 303, "{}", answer.text());
    let stored = json!({"limit": 40, "reserved": 10, "queue": 4, "queue_wait": "20ms",
                        "class_reserve": 2, "tenant_limit": "unlimited", "tenant_share": 0.5});
    assert_eq!(compartment(&plane, 1), stored);
    // What is not sent stays; what is sent empty goes.
    let fields = [("generation", "2"), ("queue", " "), ("queue_wait", "")];
    let answer = send(&plane, "route/b", &fields);
    assert_eq!(answer.status, 303, "{}", answer.text());
    let own = compartment(&plane, 1);
    assert_eq!(
        (&own["queue"], &own["queue_wait"]),
        (&Value::Null, &Value::Null)
    );
    assert_eq!(own["reserved"], json!(10));
    let fields = [("generation", "3"), ("limit", "450"), ("spare", "3")];
    assert_eq!(send(&plane, "gateway", &fields).status, 303);
    assert_eq!(
        plane.policy().0["gateway"],
        json!({"capacity": 450, "spare": 3})
    );
}

#[test]
fn each_field_has_its_own_error() {
    let plane = Plane::start();
    for (field, typed, words) in [
        ("limit", "1.5", "whole number from 0 to 1000000"),
        ("reserved", "4", "at most the limit 3"),
        ("reserved", "x", "whole number"),
        ("queue", "10001", "10000"),
        ("class_reserve", "3", "below the limit 3"),
        ("tenant_limit", "-1", "whole number"),
        ("tenant_share", "0", "above 0"),
        ("tenant_share", "1e3", "number"),
        ("queue_wait", "20", "a time above 0"),
    ] {
        let fields = [("generation", "1"), (field, typed), ("comment", "kept")];
        let answer = send(&plane, "route/b", &fields);
        let html = answer.text();
        assert_eq!(answer.status, 422, "{field} {typed}: {html}");
        let error = format!("id=\"{field}-error\">");
        let said = html.split(error.as_str()).nth(1).unwrap_or_default();
        let said = said.split('<').next().unwrap_or_default();
        assert!(said.contains(words), "{field} {typed}: {said:?}");
        assert!(
            html.contains("value=\"kept\""),
            "{field}: what was typed is gone"
        );
        assert!(
            html.contains(&format!("value=\"{typed}\"")),
            "{field} {typed}"
        );
        let others = html.matches("-error\">").count();
        assert_eq!(others, 1, "{field} {typed}: one field is wrong");
    }
    // A wait that lacks is said at the wait, not at the queue.
    let answer = send(&plane, "route/b", &[("generation", "1"), ("queue", "2")]);
    assert!(
        answer
            .text()
            .contains("id=\"queue_wait-error\">is required"),
        "{}",
        answer.text()
    );
    assert!(
        answer.text().contains("id=\"more-fields\" open"),
        "what is wrong is shown"
    );
    // The sum over all routes is no field's: it stands above them.
    let answer = send(&plane, "route/b", &[("generation", "1"), ("limit", "495")]);
    let html = answer.text();
    assert_eq!(answer.status, 422);
    assert!(
        html.contains("gateway.capacity = 500") && html.contains("2 + 495 + 4"),
        "{html}"
    );
    assert_eq!(plane.generation(), 1, "nothing was stored");
}

#[test]
fn a_conflict_keeps_both_changes_apart_field_by_field() {
    let plane = Plane::start();
    let theirs = json!({"limit": 30, "reserved": 3});
    assert_eq!(plane.patch("route/b", &theirs).status, 200);
    // The whole form of generation 1, in which one field was touched.
    let fields = [
        ("generation", "1"),
        ("limit", "3"),
        ("reserved", ""),
        ("class_reserve", "1"),
    ];
    let html = send(&plane, "route/b", &fields).text();
    assert!(html.contains("id=\"versus-class_reserve\"") && !html.contains("versus-limit"));
    assert!(html.contains("They left this value as it was"), "{html}");
    assert!(
        html.contains("name=\"limit\" type=\"text\" value=\"30\""),
        "{html}"
    );
    let fields = [
        ("generation", "2"),
        ("limit", "30"),
        ("reserved", "3"),
        ("class_reserve", "1"),
    ];
    assert_eq!(send(&plane, "route/b", &fields).status, 303);
    let both = json!({"limit": 30, "reserved": 3, "class_reserve": 1});
    assert_eq!(compartment(&plane, 1), both);
}

#[test]
fn what_was_just_stored_can_be_undone_and_nothing_older() {
    let plane = Plane::start();
    let fields = [
        ("generation", "1"),
        ("limit", "9"),
        ("queue", "2"),
        ("queue_wait", "5ms"),
    ];
    assert_eq!(send(&plane, "route/b", &fields).status, 303);
    let page = get(&plane, "/compartments/route%2Fb?saved=2").text();
    assert!(
        page.contains("action=\"/compartments/route%2Fb/undo\""),
        "{page}"
    );
    let undo = |generation: &str| {
        let path = "/compartments/route%2Fb/undo";
        send_to(&plane, path, &[("generation", generation)])
    };
    let answer = undo("2");
    assert_eq!(answer.status, 303, "{}", answer.text());
    assert_eq!(
        answer.header("location"),
        Some("/compartments/route%2Fb?saved=3")
    );
    assert_eq!(compartment(&plane, 1), json!({"limit": 3}));
    let newest = plane.api("GET", "/generations", None).json()[0]["comment"].clone();
    assert_eq!(newest, json!("undoes generation 2"));
    // Somebody built on it: it is not undone any more, and not offered.
    assert_eq!(undo("2").status, 412);
    let page = get(&plane, "/compartments/route%2Fb?saved=2").text();
    assert!(!page.contains("/undo"), "{page}");
    assert_eq!(undo("x").status, 422);
    assert_eq!(undo("99").status, 412);
    assert_eq!(plane.generation(), 3);
}

fn one(key: &str, level: &str, in_flight: u32) -> Compartment {
    Compartment {
        key: key.to_owned(),
        level: level.to_owned(),
        limit: Some(20),
        in_flight,
        peak: in_flight,
        admitted: u64::from(in_flight),
        ..Default::default()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_holds_what_waits_and_borrows_is_on_the_page() {
    let plane = Plane::start();
    let mut document = policy();
    document["identify"] = json!({"by": [{"host": {}}]});
    document["tenants"] = json!({"acme": {"limit": 9, "hosts": ["acme.example"]}});
    let route = json!({"limit": 20, "reserved": 5, "queue": 3, "queue_wait": "20ms",
                       "class_reserve": 2, "tenant_share": 0.5});
    document["routes"][1]["compartment"] = route;
    let put = plane.api_with("PUT", "/policy", Some(&document), &[("if-match", "1")]);
    assert_eq!(put.status, 200, "{}", put.text());
    let mut gateway = Gateway::connect(&plane, "gw-one").await;
    let pushed = gateway.policy().await;
    gateway.running(pushed.generation).await;
    let mut hold = compartment::Histogram::new();
    hold.record_n(12_000, 50);
    let route = Compartment {
        queued: 2,
        left_queue: 7,
        borrowed: 5,
        credit_slot_ms: Some(3_100),
        credit_max_slot_ms: Some(10_000),
        reserved: 5,
        hold: hold.to_bytes(),
        wait: hold.to_bytes(),
        rejected: [("queue_timeout".to_owned(), 4)].into(),
        ..one("route/b", "route", 10)
    };
    let acme = one("route/b/tenant/acme", "tenant-route", 8);
    let other = one("route/b/tenant/zeta", "tenant-route", 2);
    let list = vec![route, acme, other, one("route/c", "route", 1)];
    gateway.report(pushed.generation, list).await;
    eventually("the figures", || {
        get(&plane, "/compartments/route%2Fb?fragment=live")
            .text()
            .contains("10 of 20 slots")
    });
    let plain = |path: &str| get(&plane, path).text().replace('\u{a0}', " ");
    let html = plain("/compartments/route%2Fb?fragment=live");
    for words in [
        "id=\"waiting\">2 <small>7 left the queue",
        "id=\"waits\">12 ms",
        "p99 12 ms, of 50 that waited",
        "5 borrowed beyond, <span id=\"credit\">credit 3.1 of 10 slot-seconds",
        "at 0 the route borrows no more",
        "484 of 489 spare slots free; 5 borrowed by calls, 0 held by streams",
        "A tenant may hold 5 now on the fullest gateway: 0.5 x 10 free slots",
        "The last 2 slots are kept from sheddable requests",
        "3 places to wait on each gateway, for 20 ms at most",
        ">acme</a>",
    ] {
        assert!(html.contains(words), "{words} in {html}");
    }
    let one = plane.api("GET", "/compartments/route%2Fb", None).json();
    assert_eq!(
        one["hold"],
        json!({"count": 50, "p50_us": 12_288, "p99_us": 12_288})
    );
    assert_eq!(one["credit"], json!({"slot_seconds": 3.1, "max": 10.0}));
    assert_eq!(one["holders"]["list"][0]["name"], json!("acme"));
    assert_eq!(
        one["spare"],
        json!({"slots": 489, "borrowed": 5, "streams": 0, "free": 484})
    );
    let origin = json!({"name": "class_reserve", "value": "2", "from": "route b"});
    assert!(
        one["effective"].as_array().unwrap().contains(&origin),
        "{one}"
    );
    assert_eq!(
        one["findings"][0]["rule"],
        json!("effect"),
        "no plan is sheddable: {one}"
    );
    let list = plane.api("GET", "/compartments", None).json();
    let listed = list["compartments"].as_array().unwrap();
    assert!(
        listed.iter().all(|one| one.get("effective").is_none()),
        "not in the list"
    );
    let (acme, zeta) = (html.find(">acme</a>"), html.find(">zeta</a>"));
    assert!(acme < zeta, "who holds most comes first");
    let tenant = plain("/compartments/tenant%2Facme");
    assert!(tenant.contains("Who holds it <small>by route"), "{tenant}");
    let upstream = plain("/compartments/upstream%2Fmain");
    assert!(
        upstream.contains(">b</a>") && upstream.contains(">c</a>"),
        "{upstream}"
    );
    let ceiling = plain("/compartments/gateway");
    assert!(ceiling.contains("484 of 489 spare slots free"), "{ceiling}");
}
