//! The pages as a browser without a script uses them: reading, the form, conflicts, signing in.

use crate::support::browser::Browser;
use crate::support::gateway::Gateway;
use crate::support::{Answer, Plane, TOKEN, call, config, eventually, policy, policy_file};
use serde_json::json;
use wire::stream::proto::Compartment;

const FORM: (&str, &str) = ("content-type", "application/x-www-form-urlencoded");

/// What a browser sends along.
fn own(plane: &Plane) -> Vec<(String, String)> {
    vec![
        ("authorization".to_owned(), format!("Bearer {TOKEN}")),
        ("origin".to_owned(), format!("http://{}", plane.address)),
        ("sec-fetch-site".to_owned(), "same-origin".to_owned()),
    ]
}

pub(crate) fn get(plane: &Plane, path: &str) -> Answer {
    let bearer = format!("Bearer {TOKEN}");
    call(
        plane.address,
        "GET",
        path,
        &[("authorization", bearer.as_str())],
        b"",
    )
}

/// Sends the form of a compartment with these fields.
pub(crate) fn send(plane: &Plane, key: &str, fields: &[(&str, &str)]) -> Answer {
    let path = format!("/compartments/{}", key.replace('/', "%2F"));
    send_to(plane, &path, fields)
}

/// Sends a form to a page.
pub(crate) fn send_to(plane: &Plane, path: &str, fields: &[(&str, &str)]) -> Answer {
    let own = own(plane);
    let mut headers: Vec<_> = own.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
    headers.push(FORM);
    call(
        plane.address,
        "POST",
        path,
        &headers,
        encoded(fields).as_bytes(),
    )
}

fn encoded(fields: &[(&str, &str)]) -> String {
    let byte = |b: u8| match b {
        b if b.is_ascii_alphanumeric() => char::from(b).to_string(),
        b => format!("%{b:02X}"),
    };
    let text = |text: &str| text.bytes().map(byte).collect::<String>();
    let pairs: Vec<_> = fields
        .iter()
        .map(|(n, v)| format!("{}={}", text(n), text(v)))
        .collect();
    pairs.join("&")
}

fn limit(plane: &Plane, route: usize) -> serde_json::Value {
    plane.policy().0["routes"][route]["compartment"]["limit"].clone()
}

fn figures(key: &str, in_flight: u32, limit: u32) -> Compartment {
    Compartment {
        key: key.to_owned(),
        level: "route".to_owned(),
        limit: Some(limit),
        in_flight,
        peak: in_flight,
        admitted: u64::from(in_flight),
        ..Default::default()
    }
}

#[test]
fn the_overview_renders_with_its_policy_of_content() {
    let plane = Plane::start();
    let page = get(&plane, "/");
    assert_eq!(
        (page.status, page.header("cache-control")),
        (200, Some("no-store"))
    );
    let policy = page.header("content-security-policy").unwrap();
    assert!(policy.starts_with("default-src 'none';") && policy.contains("form-action 'self'"));
    assert!(!policy.contains("unsafe"));
    let html = page.text();
    assert!(
        html.contains("generation 1, no gateway connected"),
        "{html}"
    );
    for asset in ["style.css", "live.js", "icon.svg"] {
        let address = html.split('"').find(|text| text.ends_with(asset)).unwrap();
        let answer = call(plane.address, "GET", address, &[], b"");
        assert_eq!(answer.status, 200, "{address} needs no token");
        assert!(
            answer
                .header("cache-control")
                .unwrap()
                .contains("immutable")
        );
    }
    for (path, status) in [("/nothing", 404), ("/compartments/route%2Fnone", 404)] {
        let answer = get(&plane, path);
        assert_eq!(answer.status, status, "{path}");
        let id = answer.header("x-request-id").unwrap().to_owned();
        assert!(
            answer.text().contains(&id),
            "an error page carries its request id"
        );
    }
}

#[test]
fn a_form_stores_a_generation_and_sends_the_browser_on() {
    let plane = Plane::start();
    let page = get(&plane, "/compartments/route%2Fb").text();
    assert!(page.contains("name=\"generation\" value=\"1\""), "{page}");
    let fields = [("generation", "1"), ("limit", " 5 "), ("comment", "more")];
    let answer = send(&plane, "route/b", &fields);
    assert_eq!(answer.status, 303, "{}", answer.text());
    let next = answer.header("location").unwrap();
    assert_eq!(next, "/compartments/route%2Fb?saved=2");
    assert_eq!((limit(&plane, 1), plane.generation()), (json!(5), 2));
    let page = get(&plane, next).text();
    assert!(
        page.contains("Generation 2 is stored") && page.contains("value=\"5\""),
        "{page}"
    );
    let made_up = get(&plane, "/compartments/route%2Fb?saved=99").text();
    assert!(
        !made_up.contains("id=\"saved\""),
        "an address cannot claim a change"
    );
    let overview = get(&plane, "/").text();
    assert!(
        overview.contains("more") && overview.contains("Generation 2"),
        "{overview}"
    );
    // The same again changes nothing and makes no generation.
    let fields = [("generation", "2"), ("limit", "5"), ("comment", "")];
    assert_eq!(send(&plane, "route/b", &fields).status, 303);
    assert_eq!(plane.generation(), 2);
}

#[test]
fn what_was_typed_comes_back_with_what_is_wrong() {
    let plane = Plane::start();
    for bad in [
        "-7",
        "1.5",
        "",
        "1e9",
        "1000001",
        "<script>alert(1)</script>",
    ] {
        let fields = [
            ("generation", "1"),
            ("limit", bad),
            ("comment", "kept comment"),
        ];
        let answer = send(&plane, "route/b", &fields);
        assert_eq!(answer.status, 422, "{bad}");
        let html = answer.text();
        assert!(
            html.contains("id=\"limit-error\"") && html.contains("kept comment"),
            "{bad}"
        );
        assert!(html.contains("aria-invalid=\"true\"") && !html.contains("<script>alert"));
        assert!(html.contains("whole number from 0 to 1000000"), "{html}");
    }
    let long = "x".repeat(501);
    let fields = [
        ("generation", "1"),
        ("limit", "5"),
        ("comment", long.as_str()),
    ];
    let answer = send(&plane, "route/b", &fields);
    assert_eq!(answer.status, 422);
    assert!(answer.text().contains("id=\"comment-error\""));
    assert_eq!(plane.generation(), 1, "nothing was stored");
}

#[test]
fn a_policy_that_would_break_a_rule_is_shown_line_by_line() {
    let plane = Plane::start();
    let change = json!({"limit": 9, "reserved": 9});
    assert_eq!(plane.patch("route/c", &change).status, 200);
    let fields = [("generation", "2"), ("limit", "8")];
    let answer = send(&plane, "route/c", &fields);
    let html = answer.text();
    assert_eq!(answer.status, 422, "{html}");
    assert!(
        html.contains("id=\"refusals\"") && html.contains("routes[2].compartment"),
        "{html}"
    );
    assert_eq!(plane.generation(), 2);
}

#[test]
fn somebody_elses_change_is_shown_and_not_overwritten() {
    let plane = Plane::start();
    assert_eq!(
        plane
            .patch("route/b", &json!({"limit": 6, "comment": "theirs"}))
            .status,
        200
    );
    let fields = [("generation", "1"), ("limit", "4"), ("comment", "mine")];
    let answer = send(&plane, "route/b", &fields);
    let html = answer.text();
    assert_eq!(answer.status, 412, "{html}");
    assert!(
        html.contains("class=\"theirs\">6<") && html.contains("class=\"yours\">4<"),
        "{html}"
    );
    assert!(html.contains("“theirs”") && html.contains("They changed this very limit"));
    assert!(
        html.contains("name=\"generation\" value=\"2\""),
        "it can be sent again"
    );
    assert_eq!(limit(&plane, 1), json!(6));
    // On top of what is shown now, it is taken.
    let fields = [("generation", "2"), ("limit", "4"), ("comment", "mine")];
    assert_eq!(send(&plane, "route/b", &fields).status, 303);
    assert_eq!(limit(&plane, 1), json!(4));
    // A change elsewhere is a conflict too, and is told apart.
    assert_eq!(plane.patch("route/a", &json!({"limit": 7})).status, 200);
    let answer = send(&plane, "route/b", &[("generation", "3"), ("limit", "5")]);
    assert_eq!(answer.status, 412);
    assert!(answer.text().contains("They left this limit as it was"));
}

#[test]
fn a_dangerous_change_is_typed_twice_and_explained() {
    let plane = Plane::start();
    let before = limit(&plane, 2);
    let first = send(&plane, "route/c", &[("generation", "1"), ("limit", "0")]);
    let html = first.text();
    assert_eq!(first.status, 422, "{html}");
    assert!(
        html.contains("id=\"danger\"") && html.contains("closes the compartment"),
        "{html}"
    );
    assert!(
        !html.contains("id=\"confirm-error\""),
        "nobody was asked before"
    );
    for (confirm, comment, missing) in [
        ("route/b", "why", "confirm-error"),
        ("", "why", "confirm-error"),
        ("route/c", " ", "comment-error"),
    ] {
        let fields = [
            ("generation", "1"),
            ("limit", "0"),
            ("comment", comment),
            ("confirm", confirm),
        ];
        let answer = send(&plane, "route/c", &fields);
        assert_eq!(answer.status, 422, "{confirm:?} {comment:?}");
        let expected = format!("id=\"{missing}\"");
        assert!(
            answer.text().contains(&expected),
            "{confirm:?}: no {missing}"
        );
    }
    assert_eq!(limit(&plane, 2), before);
    let fields = [
        ("generation", "1"),
        ("limit", "0"),
        ("comment", "closed"),
        ("confirm", "route/c"),
    ];
    assert_eq!(send(&plane, "route/c", &fields).status, 303);
    assert_eq!(limit(&plane, 2), json!(0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn live_figures_and_gateways_are_on_the_pages() {
    let plane = Plane::start();
    let mut gateway = Gateway::connect(&plane, "gw-one").await;
    let pushed = gateway.policy().await;
    gateway.running(pushed.generation).await;
    gateway
        .report(pushed.generation, vec![figures("route/c", 3, 4)])
        .await;
    eventually("the figures on the page", || {
        get(&plane, "/?fragment=live").text().contains("<b>3</b>")
    });
    let fragment = get(&plane, "/?fragment=live").text();
    assert!(
        fragment.contains("1 of 1 gateway runs generation 1"),
        "{fragment}"
    );
    assert!(
        fragment.contains("gw-one") && !fragment.contains("<html"),
        "{fragment}"
    );
    let page = get(&plane, "/compartments/route%2Fc").text();
    assert!(page.contains("3 of 4 slots taken on 1 gateway"), "{page}");
    // Below what is in flight needs a confirmation, however small the step.
    let answer = send(&plane, "route/c", &[("generation", "1"), ("limit", "2")]);
    assert_eq!(answer.status, 422);
    assert!(
        answer.text().contains("below the 3 in flight"),
        "{}",
        answer.text()
    );
    drop(gateway);
    eventually("the gateway is shown as gone", || {
        let page = get(&plane, "/compartments/route%2Fc").text();
        page.contains("0 of 1 reporting") && page.contains("gone")
    });
    let page = get(&plane, "/").text();
    assert!(
        page.contains("<b>3</b>"),
        "the last figures stay, they do not become 0: {page}"
    );
}

#[test]
fn a_change_of_another_site_or_by_get_does_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let import = Some(policy_file(folder.path(), &policy()));
    let open = control_plane::Config {
        no_login: true,
        import,
        ..config(folder.path())
    };
    let plane = Plane::start_with(folder, open).unwrap();
    let path = "/compartments/route%2Fb";
    let body = encoded(&[("generation", "1"), ("limit", "5"), ("comment", "x")]);
    let origin = format!("http://{}", plane.address);
    for (headers, status) in [
        (vec![FORM, ("origin", "http://evil.example")], 403),
        (vec![FORM, ("sec-fetch-site", "cross-site")], 403),
        (
            vec![
                FORM,
                ("host", "evil.example"),
                ("origin", "http://evil.example"),
            ],
            403,
        ),
        (
            vec![("origin", origin.as_str()), ("content-type", "text/plain")],
            415,
        ),
        (vec![("origin", origin.as_str())], 415),
    ] {
        let answer = call(plane.address, "POST", path, &headers, body.as_bytes());
        assert_eq!(answer.status, status, "{headers:?}: {}", answer.text());
    }
    let answer = call(plane.address, "GET", &format!("{path}?{body}"), &[], b"");
    assert_eq!(answer.status, 200);
    let large = "x".repeat(70_000);
    let headers = [FORM, ("origin", origin.as_str())];
    assert_eq!(
        call(plane.address, "POST", path, &headers, large.as_bytes()).status,
        413
    );
    assert_eq!(plane.generation(), 1);
    assert_eq!(
        call(plane.address, "POST", path, &headers, body.as_bytes()).status,
        303
    );
    assert_eq!(
        plane.generation(),
        2,
        "our own page's form is taken without a login"
    );
}

#[test]
fn a_browser_signs_in_with_the_admin_token_and_out_again() {
    let plane = Plane::start();
    let call = |method: &str, path: &str, cookie: &str, body: &str| {
        let origin = format!("http://{}", plane.address);
        let headers = [FORM, ("origin", origin.as_str()), ("cookie", cookie)];
        call(plane.address, method, path, &headers, body.as_bytes())
    };
    let closed = call("GET", "/compartments/route%2Fb?x=1", "", "");
    assert_eq!(closed.status, 303);
    let login = closed.header("location").unwrap().to_owned();
    assert_eq!(login, "/login?next=%2Fcompartments%2Froute%252Fb%3Fx%3D1");
    let form = call("GET", &login, "", "").text();
    assert!(
        form.contains("value=\"/compartments/route%2Fb?x=1\""),
        "{form}"
    );
    let mut browser = Browser::new(&plane);
    let wrong = browser.send("/login", "/login", "token=wrong-token&next=/");
    assert_eq!((wrong.status, wrong.header("set-cookie")), (401, None));
    assert!(
        !wrong.text().contains("wrong-token"),
        "what was typed is not repeated"
    );
    for (next, goes) in [
        ("%2F%2Fevil.example", "/"),
        ("%2Fcompartments%2Fgateway", "/compartments/gateway"),
    ] {
        let form = format!("token={TOKEN}&next={next}");
        let right = Browser::new(&plane).send("/login", "/login", &form);
        assert_eq!((right.status, right.header("location")), (303, Some(goes)));
    }
    let right = browser.send("/login", "/login", &format!("token={TOKEN}"));
    let set = right.header("set-cookie").unwrap();
    assert!(
        set.starts_with("bulkhead=") && set.contains("HttpOnly; SameSite=Strict"),
        "{set}"
    );
    assert!(!set.contains(TOKEN));
    let cookie = set.split(';').next().unwrap();
    assert_eq!(call("GET", "/", cookie, "").status, 200);
    assert_eq!(call("GET", "/api/v1/policy", cookie, "").status, 200);
    let page = "/compartments/route%2Fb";
    assert_eq!(browser.send(page, page, "generation=1&limit=5").status, 303);
    assert_eq!(browser.send("/", "/logout", "").status, 303);
    assert_eq!(call("GET", "/api/v1/policy", cookie, "").status, 401);
    assert_eq!(call("GET", "/", cookie, "").status, 303);
}
