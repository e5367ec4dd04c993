//! Alerts from a gateway's reports to the receiver of a webhook, at a fraction of the time.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use control_plane::alerts::{AlertConfig, Rules, SIGNATURE, Webhook};
use control_plane::{Config, Secret};
use serde_json::Value;
use wire::stream::proto::{Compartment, Report, from_gateway};

use crate::support::gateway::Gateway;
use crate::support::{Plane, TOKEN, call, config, eventually, policy, policy_file};

const SECRET: &str = "canary-of-the-webhook-0123456789-abcdef";
/// Two minutes last three seconds here.
pub(crate) const WINDOW_MS: u64 = 3_000;

/// One request that a receiver got: its head and its body.
type Got = (String, Value);

/// A receiver of notices that first answers with these statuses, then with 200.
pub(crate) struct Receiver {
    address: SocketAddr,
    got: Arc<Mutex<Vec<Got>>>,
}

impl Receiver {
    pub(crate) fn start(statuses: &'static [&'static str]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let got = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&got);
        // Ends with the test's process.
        std::thread::spawn(move || {
            let mut statuses = statuses.iter().chain(std::iter::repeat(&"200 OK"));
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                stream
                    .set_read_timeout(Some(Duration::from_secs(10)))
                    .unwrap();
                let (mut bytes, mut part) = (Vec::new(), [0_u8; 4096]);
                let request = loop {
                    let n = stream.read(&mut part).unwrap_or(0);
                    bytes.extend_from_slice(&part[..n]);
                    match whole(&bytes) {
                        Some(request) => break Some(request),
                        None if n == 0 => break None,
                        None => {}
                    }
                };
                let Some((head, body)) = request else {
                    continue;
                };
                // A sink for the redirect that nobody may follow.
                let status = statuses.next().unwrap();
                seen.lock()
                    .unwrap()
                    .push((head, serde_json::from_slice(&body).unwrap()));
                let answer = format!(
                    "HTTP/1.1 {status}\r\nlocation: http://{address}/elsewhere\r\n\
                     content-length: 0\r\nconnection: close\r\n\r\n"
                );
                let _gone = stream.write_all(answer.as_bytes());
            }
        });
        Self { address, got }
    }

    fn got(&self) -> Vec<Got> {
        self.got.lock().unwrap().clone()
    }

    pub(crate) fn statuses(&self) -> Vec<String> {
        let all = self.got();
        all.iter()
            .map(|(_, body)| body["status"].as_str().unwrap().to_owned())
            .collect()
    }

    pub(crate) fn config(&self) -> AlertConfig {
        let url = format!("http://{}/hidden-path", self.address);
        let secret = Secret::new(SECRET).unwrap();
        AlertConfig {
            rules: Rules {
                window_ms: WINDOW_MS,
                ..Rules::default()
            },
            pages: Some(Webhook::new(&url, Some(secret), false).unwrap()),
            tickets: None,
        }
    }
}

fn whole(bytes: &[u8]) -> Option<(String, Vec<u8>)> {
    let end = bytes.windows(4).position(|four| four == b"\r\n\r\n")?;
    let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
    let length = head
        .lines()
        .find_map(|line| line.strip_prefix("content-length: "));
    let length: usize = length?.parse().unwrap();
    let body = bytes.get(end + 4..end + 4 + length)?;
    Some((head, body.to_vec()))
}

fn plane(receiver: &Receiver) -> Plane {
    let folder = tempfile::tempdir().unwrap();
    let import = Some(policy_file(folder.path(), &policy()));
    let config = Config {
        import,
        alerts: receiver.config(),
        ..config(folder.path())
    };
    Plane::start_with(folder, config).unwrap()
}

fn again(plane: Plane, receiver: &Receiver) -> Plane {
    let Plane {
        running, folder, ..
    } = plane;
    drop(running);
    let config = Config {
        alerts: receiver.config(),
        ..config(folder.path())
    };
    Plane::start_with(folder, config).unwrap()
}

/// A process whose counters go on, whatever it is connected to.
pub(crate) struct Counted {
    key: &'static str,
    began: std::time::Instant,
    sequence: u64,
    saturated_us: u64,
    admitted: u64,
    rejected: u64,
    last_us: u64,
}

impl Counted {
    fn new() -> Self {
        Self::of("route/a")
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "a test's time is of the real clock"
    )]
    pub(crate) fn of(key: &'static str) -> Self {
        Self {
            key,
            began: std::time::Instant::now(),
            sequence: 0,
            saturated_us: 0,
            admitted: 0,
            rejected: 0,
            last_us: 0,
        }
    }

    /// The next report: all the while at the limit and refusing, or calm.
    fn next(&mut self, full: bool, refused: u64) -> Report {
        let uptime_us = u64::try_from(self.began.elapsed().as_micros()).unwrap();
        let passed = uptime_us - self.last_us;
        self.last_us = uptime_us;
        self.sequence += 1;
        self.saturated_us += if full { passed } else { 0 };
        self.admitted += 10;
        self.rejected += refused;
        let own = |key: &str, level: &str| Compartment {
            key: key.to_owned(),
            level: level.to_owned(),
            limit: Some(2),
            ..Default::default()
        };
        let route = Compartment {
            admitted: self.admitted,
            completed: self.admitted,
            rejected: [("route_full".to_owned(), self.rejected)].into(),
            saturated_us: self.saturated_us,
            ..own(self.key, "route")
        };
        Report {
            generation: 1,
            boot_id: "boot".to_owned(),
            sequence: self.sequence,
            uptime_us,
            compartments: vec![own("gateway", "gateway"), route],
            ..Default::default()
        }
    }

    /// Reports for so long.
    pub(crate) async fn report(&mut self, gateway: &Gateway, ms: u64, full: bool, refused: u64) {
        let until = self.last_us + ms * 1_000;
        while self.last_us < until {
            tokio::time::sleep(Duration::from_millis(100)).await;
            let report = self.next(full, refused);
            gateway.say(from_gateway::Message::Report(report)).await;
        }
    }
}

pub(crate) fn alerts(plane: &Plane, query: &str) -> Value {
    let answer = plane.api("GET", &format!("/alerts{query}"), None);
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.json()
}

fn page(plane: &Plane, path: &str) -> String {
    let bearer = format!("Bearer {TOKEN}");
    let headers = [("authorization", bearer.as_str())];
    let answer = call(plane.address, "GET", path, &headers, b"");
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.text()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_outage_is_one_page_over_a_restart_and_a_receiver_that_fails_at_first() {
    let receiver = Receiver::start(&["503 Service Unavailable"]);
    let plane = plane(&receiver);
    let gateway = Gateway::connect(&plane, "gw-a").await;
    let mut counted = Counted::new();
    counted.report(&gateway, 3_000, false, 0).await;
    assert!(page(&plane, "/alerts").contains("No alert fires."));
    counted.report(&gateway, 2 * WINDOW_MS, true, 10).await;
    let firing = alerts(&plane, "?state=firing");
    let first = &firing["alerts"][0];
    assert_eq!(first["compartment"], "route/a", "{firing}");
    assert_eq!(
        (&first["severity"], &first["gateways"][0]["id"]),
        (&"page".into(), &"gw-a".into())
    );
    eventually("the retry is taken", || receiver.got().len() == 2);
    assert_eq!(
        receiver.statuses(),
        ["firing", "firing"],
        "one, tried twice"
    );
    let (first_try, retry) = (&receiver.got()[0].1, &receiver.got()[1].1);
    for name in ["fingerprint", "startsAt"] {
        let of = |body: &Value| body["alerts"][0][name].clone();
        assert_eq!(of(first_try), of(retry), "the same alert: {name}");
    }
    assert_eq!(first_try["groupKey"], retry["groupKey"]);
    let html = page(&plane, "/alerts");
    assert!(
        html.contains("1\u{a0}alert fires, a page.") && html.contains("On gw-a"),
        "{html}"
    );
    assert!(page(&plane, "/").contains("id=\"alert-count\""));
    let metrics = page(&plane, "/metrics");
    let line = "bulkhead_alert_active{alert=\"BulkheadCompartmentRefusing\",severity=\"page\"} 1";
    assert!(metrics.contains(line), "{metrics}");

    drop(gateway);
    let plane = again(plane, &receiver);
    let gateway = Gateway::connect(&plane, "gw-a").await;
    counted.report(&gateway, WINDOW_MS, true, 10).await;
    assert_eq!(
        alerts(&plane, "?state=firing")["alerts"][0]["id"],
        first["id"]
    );
    assert_eq!(receiver.got().len(), 2, "a restart tells nothing anew");
    counted.report(&gateway, 4 * WINDOW_MS, false, 0).await;
    eventually("the end is told", || receiver.got().len() == 3);
    assert_eq!(receiver.statuses()[2], "resolved");
    let over = alerts(&plane, "?state=resolved");
    assert_eq!(over["alerts"][0]["ended"], "quiet", "{over}");
    assert_eq!(over["alerts"][0]["id"], first["id"]);
    assert!(page(&plane, "/alerts").contains("without trouble"));
    check_notice(&receiver.got()[0]);
}

/// The form of Alertmanager's webhook, signed.
fn check_notice((head, body): &Got) {
    assert!(head.starts_with("POST /hidden-path HTTP/1.1\r\n"), "{head}");
    let signature = head
        .lines()
        .find_map(|line| line.strip_prefix(&format!("{SIGNATURE}: ")));
    let signature = signature.unwrap();
    assert!(
        signature.starts_with("t=") && signature.contains(",v1="),
        "{signature}"
    );
    assert!(!head.contains(SECRET) && !body.to_string().contains(SECRET));
    assert_eq!(
        (&body["version"], &body["receiver"]),
        (&"4".into(), &"bulkhead".into())
    );
    assert_eq!(body["groupKey"], "page/route/a");
    assert_eq!(body["groupLabels"]["compartment"], "route/a");
    let alert = &body["alerts"][0];
    assert_eq!(alert["labels"]["alertname"], "BulkheadCompartmentRefusing");
    assert_eq!(alert["labels"]["severity"], "page");
    assert_eq!(alert["endsAt"], "0001-01-01T00:00:00Z");
    assert!(
        alert["annotations"]["description"]
            .as_str()
            .unwrap()
            .contains("refused")
    );
    assert_eq!(alert["annotations"]["gateways"], "gw-a");
}

#[tokio::test(flavor = "multi_thread")]
async fn full_without_refusals_is_a_ticket_and_a_redirect_is_not_followed() {
    let receiver = Receiver::start(&["307 Temporary Redirect"]);
    let plane = plane(&receiver);
    let gateway = Gateway::connect(&plane, "gw-a").await;
    let mut counted = Counted::new();
    counted.report(&gateway, 2 * WINDOW_MS, true, 0).await;
    let firing = alerts(&plane, "");
    assert_eq!(firing["alerts"][0]["severity"], "ticket", "{firing}");
    assert_eq!(receiver.got().len(), 0, "a ticket pages nobody");
    // Now it refuses: a page, which the receiver wants elsewhere.
    counted.report(&gateway, 2 * WINDOW_MS, true, 10).await;
    eventually("one try", || receiver.got().len() == 1);
    counted.report(&gateway, WINDOW_MS, true, 10).await;
    assert_eq!(receiver.got().len(), 1, "nor is it asked again");
    assert!(page(&plane, "/metrics").contains("bulkhead_alert_notices_total{outcome=\"lost\"} 1"));
    let narrow = alerts(&plane, "?severity=ticket&compartment=route%2Fa");
    let all = narrow["alerts"].as_array().unwrap();
    assert!(all.iter().all(|alert| alert["severity"] == "ticket") && !all.is_empty());
    assert_eq!(
        alerts(&plane, "?compartment=route%2Fnone")["alerts"]
            .as_array()
            .unwrap()
            .len(),
        0
    );
    for bad in [
        "?state=loud",
        "?severity=1",
        "?count=0",
        "?count=501",
        "?before=x",
        "?x=1",
    ] {
        assert_eq!(
            plane.api("GET", &format!("/alerts{bad}"), None).status,
            400,
            "{bad}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_silenced_alert_stays_on_the_page_and_tells_nobody() {
    let receiver = Receiver::start(&["503 a", "503 b", "503 c", "503 d"]);
    let plane = plane(&receiver);
    let gateway = Gateway::connect(&plane, "gw-a").await;
    let mut counted = Counted::new();
    counted.report(&gateway, 2 * WINDOW_MS, true, 10).await;
    eventually("it fires", || !receiver.got().is_empty());
    let id = alerts(&plane, "?state=firing")["alerts"][0]["id"].clone();
    let bearer = format!("Bearer {TOKEN}");
    let post = |body: &str| {
        let headers = [
            ("authorization", bearer.as_str()),
            ("content-type", "application/x-www-form-urlencoded"),
        ];
        call(
            plane.address,
            "POST",
            "/alerts/silence",
            &headers,
            body.as_bytes(),
        )
        .status
    };
    assert_eq!(post(&format!("id={id}&hours=1")), 303);
    // A try that was under way may still arrive.
    counted.report(&gateway, 500, true, 10).await;
    let told = receiver.got().len();
    counted.report(&gateway, WINDOW_MS, true, 10).await;
    assert_eq!(receiver.got().len(), told, "its retries end");
    assert!(page(&plane, "/alerts").contains("Silenced until"));
    assert!(!alerts(&plane, "?state=firing")["alerts"][0]["silenced_until"].is_null());
    assert_eq!(
        (post("id=999&hours=1"), post(&format!("id={id}&hours=99"))),
        (404, 422)
    );
    assert_eq!(post(&format!("id={id}&hours=0")), 303);
    eventually("it is told again", || receiver.got().len() > told);
}
