//! The list of compartments and the Advice page: filters, order, files, and what a page costs.

use std::time::Instant;

use serde_json::{Value, json};
use wire::stream::proto::{Compartment, Rejected};

use super::pages::get;
use super::support::gateway::Gateway;
use super::support::{Plane, eventually};

fn compartment(key: &str, in_flight: u32, rejected: u64) -> Compartment {
    let level = key.parse::<compartment::Key>().unwrap().level();
    Compartment {
        key: key.to_owned(),
        level: level.as_str().to_owned(),
        limit: Some(20),
        in_flight,
        peak: in_flight,
        admitted: u64::from(in_flight),
        rejected: [("route_full".to_owned(), rejected)].into(),
        mode: "enforce".to_owned(),
        ..Default::default()
    }
}

async fn reporting(plane: &Plane, compartments: Vec<Compartment>) -> Gateway {
    let one = Gateway::connect(plane, "one").await;
    one.report(1, compartments).await;
    eventually("a report", || {
        plane.api("GET", "/compartments", None).json()["reporting"] == json!("1 of 1")
    });
    one
}

/// The keys of the rows, in their order.
fn keys(html: &str) -> Vec<String> {
    let rows = html.split("<tr class=").skip(1);
    let key = |row: &str| {
        row.split("data-key=\"")
            .nth(1)?
            .split('"')
            .next()
            .map(str::to_owned)
    };
    rows.filter_map(key).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_list_is_filtered_sorted_and_exported_by_its_address() {
    let plane = Plane::start();
    let _one = reporting(
        &plane,
        vec![
            compartment("route/a", 20, 7),
            compartment("route/b", 1, 900),
            compartment("route/a/tenant/acme", 3, 0),
            compartment("tenant/acme", 4, 0),
            compartment("tenant/other", 0, 0),
        ],
    )
    .await;
    let list = |query: &str| keys(&get(&plane, &format!("/compartments{query}")).text());
    assert_eq!(list("").first().unwrap(), "route/a", "problems first");
    assert_eq!(list("?state=full"), ["route/a"]);
    assert_eq!(
        list("?tenant=acme&sort=key"),
        ["route/a/tenant/acme", "tenant/acme"]
    );
    assert_eq!(list("?sort=rejected").first().unwrap(), "route/b");
    assert_eq!(
        list("?level=tenant&sort=fullest"),
        ["tenant/acme", "tenant/other"]
    );
    assert_eq!(list("?find=nothing"), Vec::<String>::new());
    for sort in [
        "full_5m", "full_1h", "full_24h", "hold", "waiting", "nonsense",
    ] {
        assert_eq!(list(&format!("?sort={sort}&page=99")).len(), 5, "{sort}");
    }
    let csv = get(&plane, "/compartments.csv?tenant=acme&sort=key");
    assert_eq!(
        csv.header("content-type").unwrap(),
        "text/csv; charset=utf-8"
    );
    assert!(
        csv.header("content-disposition")
            .unwrap()
            .contains("compartments.csv")
    );
    assert_eq!(csv.header("x-left-out").unwrap(), "0");
    let text = csv.text();
    let lines: Vec<&str> = text.split("\r\n").collect();
    assert!(
        lines[0].starts_with("key,level,state,mode,limit,in_flight"),
        "{text}"
    );
    assert!(lines[1].starts_with("route/a/tenant/acme,tenant-route,in use,enforce,20,3,3,"));
    let columns = |line: &str| line.split(',').count();
    assert_eq!(columns(lines[1]), columns(lines[0]));
    let json: Value = get(&plane, "/compartments.json?state=full").json();
    assert_eq!(json["left_out"], json!(0));
    let row = &json["compartments"][0];
    assert_eq!(
        (&row["key"], &row["in_flight"]),
        (&json!("route/a"), &json!(20))
    );
    assert_eq!(row["rejected_by_reason"], json!("route_full 7"));
    let live = get(&plane, "/compartments?state=full&fragment=live").text();
    assert!(
        live.contains("id=\"states\"") && !live.contains("<form"),
        "{live}"
    );
}

/// With a thousand compartments a page holds its rows and no more, and no page takes long: the
/// bound leaves room for a build without optimisation on a busy machine.
#[expect(
    clippy::disallowed_methods,
    reason = "how long a page takes is what is asked"
)]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pages_of_a_thousand_compartments_cost_their_rows() {
    let plane = Plane::start();
    let many = (0..1_000_u32).map(|n| {
        let in_flight = (n * 7) % 21;
        compartment(
            &format!("route/service-{n:04}"),
            in_flight,
            u64::from(n % 3 * n),
        )
    });
    let mut all: Vec<Compartment> = many.collect();
    all.push(Compartment {
        level: "gateway".to_owned(),
        ..compartment("gateway", 400, 0)
    });
    let _one = reporting(&plane, all).await;
    for (path, bytes_max, rows) in [
        ("/", 200_000, 100),
        ("/?fragment=live", 200_000, 100),
        ("/compartments", 150_000, 50),
        ("/compartments?sort=hold&page=7", 150_000, 50),
        ("/compartments?fragment=live", 150_000, 50),
        ("/compartments/route%2Fservice-0007", 80_000, 0),
        ("/routes", 60_000, 0),
        ("/advice", 60_000, 0),
        ("/alerts", 60_000, 0),
        ("/shadow", 60_000, 0),
    ] {
        let began = Instant::now();
        let answer = get(&plane, path);
        let took = began.elapsed();
        let html = answer.text();
        println!("{path}: {} bytes, {took:?}", html.len());
        assert_eq!(answer.status, 200, "{path}");
        assert!(html.len() < bytes_max, "{path}: {} bytes", html.len());
        assert!(took.as_secs() < 3, "{path}: {took:?}");
        if rows > 0 {
            assert_eq!(keys(&html).len(), rows, "{path}");
        }
    }
    let csv = get(&plane, "/compartments.csv").text();
    assert_eq!(csv.lines().count(), 1_002);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_page_says_of_another_limit_what_the_api_says() {
    let plane = Plane::start();
    let api: Value = plane
        .api("GET", "/compartments/route%2Fa/what-if?limit=9", None)
        .json();
    let line = api["because"][0].as_str().unwrap();
    for path in [
        "/advice?key=route%2Fa&limit=9",
        "/compartments/route%2Fa?what_if=9",
    ] {
        let html = get(&plane, path).text();
        let (_, answer) = html.split_once("id=\"answer\"").unwrap();
        assert!(answer.contains(line), "{path}: {line} is not in {answer}");
        let sum = &api["sum"];
        let words = format!("{} of {}", sum["guaranteed"], sum["capacity"]);
        assert!(answer.contains(&words), "{path}: {words}");
        assert!(html.contains("value=\"9\""), "what was typed stays");
    }
    let bad = get(&plane, "/advice?key=route%2Fa&limit=%3Cb%3E").text();
    assert!(
        bad.contains("id=\"ask-error\"") && bad.contains("aria-invalid"),
        "{bad}"
    );
    assert!(!bad.contains("<b>\""), "{bad}");
    let unknown = get(&plane, "/advice?key=route%2Fnone&limit=3").text();
    assert!(
        unknown.contains("gives no limit to a compartment"),
        "{unknown}"
    );
    // A page that only shows the compartment asks nothing, and the card of one is worked out now.
    assert!(
        !get(&plane, "/compartments/route%2Fa")
            .text()
            .contains("id=\"answer\"")
    );
    let one = get(&plane, "/advice?key=route%2Fa").text();
    assert!(
        one.contains("too little evidence") && one.contains("id=\"card-1\""),
        "{one}"
    );
    let tenant_on_route = get(&plane, "/compartments/gateway").text();
    assert!(tenant_on_route.contains("id=\"what-if\""));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_newest_rejections_are_on_the_page_and_in_the_api() {
    let plane = Plane::start();
    let one = reporting(&plane, vec![compartment("route/a", 20, 7)]).await;
    let rejected = |request_id: &str, trace_id: &str, reason: &str| Rejected {
        key: "route/a".to_owned(),
        reason: reason.to_owned(),
        tenant: "acme".to_owned(),
        trace_id: trace_id.to_owned(),
        request_id: request_id.to_owned(),
        age_ms: 1_200,
    };
    let trace_id = "4bf92f3577b34da6a3ce929d0e0e4736";
    let told = vec![
        rejected("plain-1", trace_id, "route_full"),
        rejected("<script>alert(1)</script>", "<b>", "route_full"),
        rejected("not-ours", "", "upstream_connect"),
    ];
    one.rejected(1, told).await;
    let path = "/compartments/route%2Fa";
    eventually("the newest rejections", || {
        let body: Value = plane.api("GET", path, None).json();
        body["newest_rejections"].as_array().unwrap().len() == 2
    });
    let body: Value = plane.api("GET", path, None).json();
    let mut rows = body["newest_rejections"].as_array().unwrap().iter();
    let row = rows
        .find(|row| row["request_id"] == json!("plain-1"))
        .unwrap();
    assert_eq!(row["trace_id"], json!(trace_id));
    assert_eq!(
        (&row["reason"], &row["tenant"]),
        (&json!("route_full"), &json!("acme"))
    );
    assert_eq!(row["gateway"], json!("one"));
    let html = get(&plane, path).text();
    let (_, newest) = html.split_once("id=\"newest\"").unwrap();
    let (newest, _) = newest.split_once("</table>").unwrap();
    for text in [
        trace_id,
        "plain-1",
        "route full",
        "/compartments/tenant%2Facme",
        "no trace",
    ] {
        assert!(newest.contains(text), "{text} is not in {newest}");
    }
    assert!(
        !newest.contains("<script") && !newest.contains("not-ours"),
        "{newest}"
    );
    assert!(
        get(&plane, &format!("{path}?fragment=live"))
            .text()
            .contains("id=\"newest\"")
    );
}
