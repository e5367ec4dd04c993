//! The Routes page: what surrounds each route, and a request that is tried without being sent.

use serde_json::json;
use wire::stream::proto::{Breaker, Compartment, Endpoint, Endpoints, FallbackStep, Retry};

use super::pages::get;
use super::support::gateway::Gateway;
use super::support::{Plane, eventually};

fn policy() -> serde_json::Value {
    json!({
        "schema": 1,
        "gateway": {"capacity": 500},
        "identify": {"by": [{"api_key": {"header": "x-api-key"}}, {"host": {}}],
                     "unknown": "reject"},
        "plans": {"small": {"limit": 9, "class": "sheddable", "routes": {"a": 2}}},
        "tenants": {
            "acme": {"plan": "small", "api_keys": [format!("sha256:{}", "ab".repeat(32))],
                     "hosts": ["acme.example"]},
            "gone": {"plan": "small", "suspended": true},
        },
        "upstreams": {
            "main": {"endpoints": ["http://127.0.0.1:9"], "limit": 3, "breaker": {}},
            "other": {"endpoints": ["http://127.0.0.1:10"]},
        },
        "routes": [
            {"id": "a", "path": "/a", "methods": ["GET"], "upstream": "main",
             "compartment": {"limit": 5},
             "retry": {"attempts": 2, "budget": 0.2},
             "fallback": [{"kind": "stale", "max_age": "5m"},
                          {"kind": "static", "status": 200, "body": "[]"}]},
            {"id": "all", "path": "/", "methods": ["GET", "PUT"], "upstream": "other",
             "compartment": {"limit": 4}},
            {"id": "post", "path": "/a", "methods": ["POST"], "upstream": "main",
             "compartment": {"limit": 4}},
        ],
    })
}

fn row(key: &str, in_flight: u32, limit: u32) -> Compartment {
    let level = key.parse::<compartment::Key>().unwrap().level();
    Compartment {
        key: key.to_owned(),
        level: level.as_str().to_owned(),
        limit: Some(limit),
        in_flight,
        peak: in_flight,
        admitted: u64::from(in_flight),
        mode: "enforce".to_owned(),
        ..Default::default()
    }
}

fn told() -> Vec<Compartment> {
    let breaker = Breaker {
        state: "open".to_owned(),
        since_ms: 4_000,
        opened: 3,
        failure_rate: 0.75,
        calls: 20,
        ..Breaker::default()
    };
    let retry = Retry {
        budget_left: 7,
        retries: 11,
        refused: [("method".to_owned(), 13)].into(),
    };
    let step = FallbackStep {
        kind: "stale".to_owned(),
        answers: 812,
        last_answer_ms: Some(180_000),
        ..FallbackStep::default()
    };
    vec![
        Compartment {
            retry: Some(retry),
            fallbacks: vec![step],
            ..row("route/a", 5, 5)
        },
        Compartment {
            breaker: Some(breaker),
            ..row("upstream/main", 3, 3)
        },
        row("route/all", 1, 4),
        row("route/a/tenant/acme", 1, 2),
        row("tenant/acme", 1, 9),
    ]
}

async fn shown() -> (Plane, Gateway) {
    let plane = Plane::start();
    let put = plane.api_with("PUT", "/policy", Some(&policy()), &[("if-match", "1")]);
    assert!(put.status < 300, "{}", put.text());
    let one = Gateway::connect(&plane, "one").await;
    one.report(2, told()).await;
    eventually("a report", || {
        plane.api("GET", "/compartments", None).json()["reporting"] == json!("1 of 1")
    });
    (plane, one)
}

fn plain(html: &str) -> String {
    html.replace('\u{a0}', " ")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_row_says_what_surrounds_its_route() {
    let (plane, _one) = shown().await;
    let html = plain(&get(&plane, "/routes").text());
    for words in [
        "breaker open",
        "opened 3 times, 75 % of the last 20 calls failed",
        "7 retries left in the budget, 11 made",
        "method not safe to repeat",
        "answered 812 times, last 3 min ago",
        "http://127.0.0.1:9",
        "limit first: 3, below its own 5",
        "5 of 5 in flight",
    ] {
        assert!(html.contains(words), "{words}: {html}");
    }
    let keys = |html: &str| html.matches("data-key=\"route/").count();
    assert_eq!(keys(&html), 3);
    let narrow = |query: &str| keys(&get(&plane, &format!("/routes{query}")).text());
    assert_eq!(narrow("?upstream=other"), 1);
    assert_eq!(narrow("?find=%2Fa"), 2);
    assert_eq!(
        narrow("?state=problems"),
        2,
        "both routes of the open breaker"
    );
    assert_eq!(narrow("?find=nothing"), 0);
    let live = get(&plane, "/routes?fragment=live&path=%2Fa").text();
    assert!(live.contains("id=\"rows\"") && !live.contains("<form"));
    for key in ["route%2Fa", "upstream%2Fmain"] {
        let page = get(&plane, &format!("/compartments/{key}")).text();
        assert!(page.contains("breaker open"), "{key}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_is_tried_without_being_sent() {
    let (plane, _one) = shown().await;
    let verdict = |query: &str| {
        let html = plain(&get(&plane, &format!("/routes?{query}")).text());
        let after = html.split_once("id=\"try-title\"").unwrap().1.to_owned();
        assert!(!after.contains("<script"), "{after}");
        after
    };
    for (query, words) in [
        (
            "method=GET&path=/a/7&tenant=acme",
            "by upstream/main. It goes to",
        ),
        ("method=GET&path=/a/7&tenant=acme", "breaker_open"),
        (
            "method=GET&path=/a/7&tenant=acme",
            "route all, because its path is longer",
        ),
        ("method=GET&path=/a/7&tenant=acme", "1 of 2 in flight"),
        (
            "method=GET&path=/a/7&tenant=acme",
            "Its class would be sheddable, because its plan",
        ),
        (
            "method=GET&path=/a/7&tenant=acme",
            "a stored answer, the fixed answer, the error",
        ),
        ("method=PUT&path=/a&tenant=acme", "Would be admitted now"),
        (
            "method=DELETE&path=/a&tenant=acme",
            "No route takes it: 404",
        ),
        (
            "method=DELETE&path=/a&tenant=acme",
            "route a, which asks for the method GET",
        ),
        (
            "method=PUT&path=/a&host=acme.example",
            "of tenant acme (by its host)",
        ),
        (
            "method=PUT&path=/a",
            "nothing says which tenant calls (401)",
        ),
        (
            "method=PUT&path=/a&tenant=gone",
            "tenant gone is suspended (403)",
        ),
        (
            "method=PUT&path=/a&tenant=%3Cscript%3E",
            "There is no tenant",
        ),
        (
            "method=GET&path=a&tenant=acme",
            "The path must begin with /",
        ),
        ("method=GET&path=/a&host=a%20b", "is no host such as"),
    ] {
        let said = verdict(query);
        assert!(said.contains(words), "{query}: {words} is not in {said}");
    }
    // Nothing was taken, nothing was stored.
    let now = plane.api("GET", "/compartments/route%2Fa", None).json();
    assert_eq!(now["in_flight"], json!(5));
    let html = verdict("method=GET&path=/a/7&tenant=acme");
    assert!(!html.contains("abab"), "no digest of a key is shown");
}

/// The endpoints of `main`, the second of which is ejected or not.
fn endpoints(ejected: bool) -> Compartment {
    let one = |port: u16, state: &str| Endpoint {
        url: format!("http://127.0.0.1:{port}"),
        state: state.to_owned(),
        in_flight: Some(1),
        failures: 2,
        ejections_in_a_row: Some(u32::from(state == "ejected")),
        ejected_for_ms: Some(if state == "ejected" { 20_000 } else { 0 }),
        ..Endpoint::default()
    };
    let second = if ejected { "ejected" } else { "in_use" };
    let list = vec![one(9, "in_use"), one(10, second), one(11, "in_use")];
    let out = u32::from(ejected);
    Compartment {
        endpoints: Some(Endpoints {
            in_use: 3 - out,
            ejected: out,
            list,
            ..Endpoints::default()
        }),
        ..row("upstream/main", 0, 3)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn endpoints_stand_on_pages_and_api_as_where_they_stand_worst() {
    let plane = Plane::start();
    let mut policy = policy();
    let all = [
        "http://127.0.0.1:9",
        "http://127.0.0.1:10",
        "http://127.0.0.1:11",
    ];
    policy["upstreams"]["main"]["endpoints"] = json!(all);
    policy["upstreams"]["other"]["endpoints"] = json!(["http://127.0.0.1:12"]);
    let put = plane.api_with("PUT", "/policy", Some(&policy), &[("if-match", "1")]);
    assert!(put.status < 300, "{}", put.text());
    let (one, two) = (
        Gateway::connect(&plane, "g1").await,
        Gateway::connect(&plane, "g2").await,
    );
    one.report(2, vec![endpoints(true)]).await;
    two.report(2, vec![endpoints(false)]).await;
    let list = || plane.api("GET", "/compartments", None).json();
    eventually("both reports", || list()["reporting"] == json!("2 of 2"));
    let own = plane
        .api("GET", "/compartments/upstream%2Fmain", None)
        .json();
    let told = &own["endpoints"];
    assert_eq!((&told["in_use"], &told["ejected"]), (&json!(2), &json!(1)));
    let second = &told["list"][1];
    assert_eq!(second["url"], json!(all[1]));
    assert_eq!(
        (&second["state"], &second["in_flight"]),
        (&json!("ejected"), &json!(2))
    );
    let seen = json!({"gateways": 2, "out": 1, "worst": "g1"});
    assert_eq!(second["seen"], seen);
    assert_eq!(
        own["gateways"][0]["endpoints"]["list"][1]["state"],
        "ejected"
    );
    assert_eq!(
        own["gateways"][1]["endpoints"]["list"][1]["state"],
        "in_use"
    );
    // A list has the numbers alone.
    let all = list()["compartments"].as_array().unwrap().clone();
    let main = all
        .iter()
        .find(|one| one["key"] == "upstream/main")
        .unwrap();
    assert_eq!(main["endpoints"]["ejected"], 1);
    assert!(main["endpoints"]["list"].is_null(), "{main}");
    assert!(main["gateways"][0]["endpoints"]["list"].is_null(), "{main}");
    let words = "http://127.0.0.1:10 ejected for 20 s more since 5 consecutive failures on \
                 gateway g1, 1 of 2";
    for page in [
        "/routes",
        "/compartments/upstream%2Fmain",
        "/compartments/route%2Fa",
    ] {
        let html = plain(&get(&plane, page).text());
        assert!(html.contains("2 of 3 endpoints in use"), "{page}: {html}");
        assert!(html.contains(words), "{page}: {html}");
    }
    let page = plain(&get(&plane, "/compartments/upstream%2Fmain").text());
    let row = "data-key=\"http://127.0.0.1:11\"";
    assert!(page.contains(row) && page.contains("20 s more, on 1 of 2 gateways"));
}
