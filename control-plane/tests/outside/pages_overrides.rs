//! The Overrides page as a browser without a script uses it.

use serde_json::json;

use super::pages::{get, send_to};
use crate::support::{Plane, eventually};

fn limit(plane: &Plane) -> serde_json::Value {
    plane.policy().0["routes"][0]["compartment"]["limit"].clone()
}

#[test]
fn an_override_is_planned_shown_extended_and_ended_by_forms() {
    let plane = Plane::start();
    let before = limit(&plane);
    let page = get(&plane, "/overrides");
    assert_eq!(page.status, 200);
    assert!(page.text().contains("No override runs or is ahead."));
    let own = get(&plane, "/compartments/route%2Fa").text();
    assert!(own.contains("action=\"/overrides\""), "{own}");

    // What is refused keeps what was typed, and nothing is planned.
    let why = "<script>alert(1)</script>\u{202e}";
    let typed = |end: &'static str, value: &'static str| {
        let fields = [
            ("key", "route/a"),
            ("value", value),
            ("end", end),
            ("zone", "Europe/Berlin"),
            ("comment", why),
        ];
        send_to(&plane, "/overrides", &fields)
    };
    for (end, value, says) in [
        ("2020-01-01T10:00", "77", "must be after the start"),
        ("", "77", "must be a moment"),
        ("2027-07-01T18:00", "-1", "routes[0].compartment.limit"),
    ] {
        let refused = typed(end, value);
        let html = refused.text();
        assert_eq!(refused.status, 422, "{html}");
        assert!(html.contains(says), "{html}");
        assert!(html.contains("&#60;script&#62;") && !html.contains("<script>alert"));
    }
    let open = || plane.api("GET", "/overrides?open=true", None).json()["overrides"].clone();
    assert_eq!(open(), json!([]));

    // Planned, running, on both pages.
    let sent = typed("2027-07-01T18:00", "77");
    assert_eq!(
        (sent.status, sent.header("location")),
        (303, Some("/overrides"))
    );
    assert_eq!(open()[0]["end_utc"], "2027-07-01T16:00:00.000Z");
    eventually("it is set", || limit(&plane) == json!(77));
    eventually("it runs", || {
        get(&plane, "/overrides")
            .text()
            .contains("1 running, 0 ahead")
    });
    let html = get(&plane, "/overrides").text();
    assert!(
        html.contains("limit 77") && html.contains("&#60;script&#62;"),
        "{html}"
    );
    let own = get(&plane, "/compartments/route%2Fa").text();
    assert!(
        own.contains("limit 77 until 2027-07-01T18:00[Europe/Berlin]"),
        "{own}"
    );

    // Another end, none before now, and ended.
    let id = open()[0]["id"].to_string();
    let extend = |end: &str| {
        let fields = [("id", id.as_str()), ("end", end), ("zone", "")];
        send_to(&plane, "/overrides/extend", &fields).status
    };
    assert_eq!(
        (extend("2020-01-01T10:00"), extend("2027-08-01T10:00")),
        (422, 303)
    );
    assert_eq!(open()[0]["end_utc"], "2027-08-01T10:00:00.000Z");
    let cancel = || send_to(&plane, "/overrides/cancel", &[("id", id.as_str())]).status;
    assert_eq!(cancel(), 303);
    eventually("it is lifted", || limit(&plane) == before);
    eventually("it is over", || open() == json!([]));
    assert_eq!(cancel(), 409);
    assert_eq!(
        send_to(&plane, "/overrides/cancel", &[("id", "x")]).status,
        404
    );
    assert_eq!(
        send_to(&plane, "/overrides/approve", &[("id", &id)]).status,
        409
    );
    assert!(get(&plane, "/overrides").text().contains("cancelled"));
}
