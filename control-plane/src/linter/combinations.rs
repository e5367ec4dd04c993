//! One route's own numbers against each other, at the border of each rule. Separate because the
//! table outgrew the other cases; a row must never look at more than the findings.

use super::tests::{IDENTIFY, check, policy, policy_with};
use super::{Severity, lint};

/// More keys of the compartment | more lines of the route | severity, rule and path below
/// `routes[0]`, or how many findings | words of the first one's message, by commas.
const COMBINATIONS: &str = r#"
 | timeout={ attempt="9s", total="1s" } | warning bounds timeout.attempt | 9 s, 1 s
 | timeout={ attempt="1s", total="1s" } | |
max_hold = "1s" | | warning bounds compartment.max_hold | 1 s, 15 s
max_hold = "15s" | | |
queue=1, queue_wait="2s" | timeout={ attempt="1s", total="1s" } | 1 | 2 s, 1 s
queue=1, queue_wait="61s" | | error bounds compartment.queue_wait | 61 s, 60 s
queue=1, queue_wait="60s" | timeout.attempt="1ms" | 2 | 60 s, 1 ms
queue=1, queue_wait="3.75s" | | |
queue=1, queue_wait="3.751s" | | warning L7 compartment.queue_wait | 3.751 s, 15 s, 3.75 s
queue=1, queue_wait="1s" | timeout={ attempt="4s", total="5s" } | |
queue=1, queue_wait="1s" | timeout={ attempt="4s", total="4.9s" } | 1 | 1 x attempt 4 s = 5 s
queue_wait="20ms" | | warning effect compartment.queue_wait | queue is 0
 | retry = { attempts = 4, budget = 0.1 } | |
 | retry = { attempts = 5, budget = 0.1 } | warning L8 timeout.total | 5 x attempt 15 s = 75 s, 60 s
tenant_limit = 30 | identify | |
tenant_limit = 31 | identify | warning effect compartment.tenant_limit | 31, 30
stream = { limit = 140, idle="60s", max_age="60s" } | | |
stream = { limit = 141, idle="60s" } | | warning L12 compartment.stream.limit | 141, 140 spare
stream = { limit = 2, idle="61s", max_age="60s" } | | 1 | 61 s, 60 s
stream = { limit = 0 } | | |
mode = "off", candidate = 20 | | warning effect compartment.candidate | limit = 20, shadow
mode = "off" | | |
mode = "shadow", candidate = 20 | | |
stream = { limit = 2, grpc = true } | | warning protocol compartment.stream.grpc | http2 = true
class_reserve = 2 | | warning effect compartment.class_reserve | standard, sheddable
class_reserve = 2 | identify | |
class_reserve = 2 | class = "sheddable" | warning effect compartment.class_reserve | 30 - 2 = 28
"#;

/// Every combination of one route's own numbers, at its border.
#[test]
fn combinations_are_judged_at_their_border() {
    for row in COMBINATIONS.lines().filter(|row| !row.is_empty()) {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let [compartment, route, said, words] = cells[..] else {
            panic!("{row}")
        };
        let (route, identify) = match route {
            "identify" => ("", IDENTIFY),
            route => (route, ""),
        };
        let findings = lint(&policy_with(identify, "", compartment, route));
        let seen: Vec<String> = findings
            .iter()
            .map(|f| format!("{} {} {}", f.severity.as_str(), f.rule, f.path))
            .map(|said| said.replace("routes[0].", ""))
            .collect();
        match said.parse::<usize>() {
            Ok(count) => assert_eq!(seen.len(), count, "{row}: {findings:#?}"),
            Err(_) => assert_eq!(seen.join(" + "), said, "{row}: {findings:#?}"),
        }
        for word in words.split(", ").filter(|word| !word.is_empty()) {
            assert!(
                findings[0].message.contains(word),
                "{word} in {}",
                findings[0]
            );
        }
    }
}

/// Places to wait where nobody ever waits.
#[test]
fn a_queue_that_nobody_can_stand_in_is_told() {
    let with = |limit: compartment::Limit| {
        let mut policy = policy("", "queue = 4, queue_wait = \"20ms\"", "");
        policy.routes[0].compartment.limit = limit;
        policy
    };
    let path = "routes[0].compartment.queue";
    check(
        &with(compartment::Limit::UNLIMITED),
        &[(
            Severity::Warning,
            "effect",
            path,
            &["4 places", "unlimited"],
        )],
    );
    check(
        &with(compartment::Limit::CLOSED),
        &[(
            Severity::Warning,
            "effect",
            path,
            &["4 places", "limit 0 closes"],
        )],
    );
    check(&with(compartment::Limit::new(30).unwrap()), &[]);
}

/// gRPC over HTTP/1.1 is told in the table of combinations; this is the other way round.
#[test]
fn what_http2_to_the_upstream_takes_away_is_told() {
    let path = "routes[0].compartment.stream";
    check(
        &policy("http2 = true", "stream = { limit = 2 }", ""),
        &[(
            Severity::Info,
            "protocol",
            path,
            &["WebSocket", "grpc = true"],
        )],
    );
    check(
        &policy("http2 = true", "stream = { limit = 2, grpc = true }", ""),
        &[],
    );
    check(&policy("http2 = true", "", ""), &[]);
}
