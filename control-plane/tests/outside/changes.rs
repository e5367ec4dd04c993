//! Changes with a second person, on one gateway first, and back by themselves: on both databases,
//! as people and gateways see them.

use std::time::Duration;

use control_plane::Config;
use serde_json::{Value, json};
use wire::stream::proto::{Compartment, Report, from_gateway};

use crate::replicas::replica_with;
use crate::support::gateway::{Gateway, Runs};
use crate::support::{Answer, Plane, call, config, eventually, policy, policy_file, postgres};

/// Long enough for a push that should not come to be seen.
const QUIET: Duration = Duration::from_millis(300);

/// A store, for as long as this lives, and the control plane on it.
enum Place {
    Folder,
    Database(postgres::Database),
}

impl Place {
    fn plane(&self) -> Plane {
        match self {
            Self::Folder => {
                let folder = tempfile::tempdir().unwrap();
                let config = Config {
                    import: Some(policy_file(folder.path(), &policy())),
                    no_login: true,
                    ..config(folder.path())
                };
                Plane::start_with(folder, config).unwrap()
            }
            Self::Database(database) => replica_with(database, |config| config.no_login = true),
        }
    }

    /// The same after its end.
    fn again(&self, plane: Plane) -> Plane {
        match self {
            Self::Folder => {
                let Plane {
                    running, folder, ..
                } = plane;
                drop(running);
                let config = Config {
                    no_login: true,
                    ..config(folder.path())
                };
                Plane::start_with(folder, config).unwrap()
            }
            Self::Database(_) => {
                drop(plane);
                self.plane()
            }
        }
    }
}

macro_rules! on_both {
    ($($name:ident),+ $(,)?) => {
        mod on_sqlite {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                super::$name(&super::Place::Folder).await;
            })+
        }
        mod on_postgres {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                if let Some(database) = super::postgres::Database::new().await {
                    super::$name(&super::Place::Database(database)).await;
                }
            })+
        }
    };
}

on_both!(
    a_change_goes_from_a_draft_to_its_effect_and_back,
    every_door_waits_for_a_second_person,
    one_alone_takes_back_only_what_its_own_watch_may,
    nobody_approves_what_he_wrote,
    of_two_who_race_one_wins,
    what_others_changed_meanwhile_is_shown_and_never_overwritten,
    nobody_keeps_it_and_it_goes_through_a_restart_too,
    what_somebody_else_did_later_is_never_taken_back,
    a_guard_takes_back_what_hurts,
    one_of_four_runs_what_is_staged,
);

/// A second person: nobody's token, let in without a login.
fn other(plane: &Plane, method: &str, path: &str, body: Option<&Value>) -> Answer {
    let path = format!("/api/v1{path}");
    let headers: &[(&str, &str)] = match body {
        Some(_) => &[("content-type", "application/json")],
        None => &[],
    };
    let body = body.map(Value::to_string).unwrap_or_default();
    call(plane.address, method, &path, headers, body.as_bytes())
}

#[track_caller]
fn good(answer: Answer) -> Value {
    assert!(
        (200..300).contains(&answer.status),
        "{}: {}",
        answer.status,
        answer.text()
    );
    answer.json()
}

fn proposal(route: &str, limit: u32, comment: &str) -> Value {
    let key = format!("route/{route}");
    json!({"comment": comment, "compartments": {key: {"limit": limit}}})
}

fn propose(plane: &Plane, route: &str, limit: u32) -> u64 {
    let asked = proposal(route, limit, "why");
    let answer = plane.api("POST", "/changes", Some(&asked));
    assert_eq!(answer.status, 201, "{}", answer.text());
    answer.json()["number"].as_u64().unwrap()
}

fn step(plane: &Plane, number: u64, step: &str, body: &Value) -> Answer {
    plane.api("POST", &format!("/changes/{number}/{step}"), Some(body))
}

fn change(plane: &Plane, number: u64) -> Value {
    good(plane.api("GET", &format!("/changes/{number}"), None))
}

fn limit(plane: &Plane, at: usize) -> Value {
    plane.policy().0["routes"][at]["compartment"]["limit"].clone()
}

fn approvals(plane: &Plane, approvals: &str) {
    let set = json!({ "approvals": approvals });
    good(plane.api("PATCH", "/settings", Some(&set)));
}

async fn a_change_goes_from_a_draft_to_its_effect_and_back(place: &Place) {
    let plane = place.plane();
    let number = propose(&plane, "a", 5);
    let draft = change(&plane, number);
    assert_eq!(
        (draft["state"].as_str(), draft["author"].as_str()),
        (Some("draft"), Some("admin token"))
    );
    assert_eq!(draft["keys"], json!(["route/a"]));
    let differs = &draft["differences"][0];
    assert_eq!(differs["pointer"], "/routes/0/compartment/limit");
    assert_eq!(
        (&differs["old"], &differs["new"]),
        (&json!("2"), &json!("5"))
    );
    assert!(draft["findings"].is_array() && draft["dangers"] == json!([]));
    assert_eq!(
        (limit(&plane, 0), plane.generation()),
        (json!(2), 1),
        "not in force"
    );
    let approved = good(other(
        &plane,
        "POST",
        "/changes/1/approve",
        Some(&json!({})),
    ));
    assert_eq!(approved["state"], "approved");
    let published = good(step(&plane, number, "publish", &json!({"comment": "go"})));
    assert_eq!((limit(&plane, 0), plane.generation()), (json!(5), 2));
    assert_eq!(
        (&published["published"], &published["before"]),
        (&json!(2), &json!(1))
    );
    // Somebody changes something else; what goes back is this change alone.
    good(plane.patch("route/b", &json!({"limit": 9})));
    let reverted = good(step(&plane, number, "revert", &json!({})));
    assert_eq!((limit(&plane, 0), limit(&plane, 1)), (json!(2), json!(9)));
    assert_eq!(
        (&reverted["state"], &reverted["reverted"]),
        (&json!("reverted"), &json!(4))
    );
    let steps = reverted["steps"].as_array().unwrap().iter();
    let steps: Vec<_> = steps
        .map(|one| (one["step"].as_str().unwrap(), one["by"].as_str().unwrap()))
        .collect();
    assert_eq!(
        steps,
        [
            ("open", "admin token"),
            ("approve", "operator"),
            ("publish", "admin token"),
            ("revert", "admin token"),
        ]
    );
    // Steps that cannot follow say what it is.
    for name in ["approve", "publish", "keep", "revert", "abandon", "rebase"] {
        let refused = step(&plane, number, name, &json!({}));
        assert_eq!(
            (refused.status, &refused.json()["state"]),
            (409, &json!("reverted")),
            "{name}"
        );
    }
    let list = good(plane.api("GET", "/changes?state=reverted", None));
    assert_eq!(
        (list.as_array().unwrap().len(), &list[0]["number"]),
        (1, &json!(number))
    );
    assert_eq!(plane.api("GET", "/changes?state=live", None).status, 400);
    assert_eq!(plane.api("GET", "/changes/77", None).status, 404);
    for (body, pointer) in [
        (json!({}), ""),
        (json!({"compartments": {}}), "/compartments"),
        (json!({"compartments": {"route/a": 3}}), "/compartments"),
        (
            json!({"document": {"schema": 1}, "compartments": {"route/a": {}}}),
            "/document",
        ),
        (json!({"else": 1}), "/else"),
        (
            json!({"compartments": {"route/a": {"limit": -1}}}),
            "/routes/0/compartment/limit",
        ),
        (json!({"compartments": {"route/a": {"limit": 2}}}), ""),
    ] {
        let refused = plane.api("POST", "/changes", Some(&body));
        assert_eq!(refused.status, 422, "{body}: {}", refused.text());
        assert_eq!(refused.pointers(), [pointer], "{body}");
    }
}

async fn every_door_waits_for_a_second_person(place: &Place) {
    let plane = place.plane();
    good(plane.patch("route/c", &json!({"limit": 6})));
    approvals(&plane, "all");
    let before = plane.policy();
    let (mut document, etag) = plane.policy();
    document["routes"][0]["compartment"]["limit"] = json!(7);
    let version = [("if-match", etag.as_str())];
    let fields = "generation=2&limit=7&comment=x".to_owned();
    let key = "/compartments/route%2Fa";
    let form = [("content-type", "application/x-www-form-urlencoded")];
    let doors: Vec<(&str, Answer)> = vec![
        (
            "put",
            plane.api_with("PUT", "/policy", Some(&document), &version),
        ),
        ("patch", plane.patch("route/a", &json!({"limit": 7}))),
        ("restore", plane.api("POST", "/generations/1/restore", None)),
        (
            "breaker",
            plane.api(
                "POST",
                "/upstreams/main/breaker",
                Some(&json!({"state": "closed"})),
            ),
        ),
        (
            "form",
            call(plane.address, "POST", key, &form, fields.as_bytes()),
        ),
        (
            "undo",
            call(
                plane.address,
                "POST",
                "/compartments/route%2Fc/undo",
                &form,
                b"generation=2",
            ),
        ),
    ];
    for (at, (door, answer)) in doors.iter().enumerate() {
        let opened = at as u64 + 1;
        match *door {
            "form" | "undo" => {
                assert_eq!(answer.status, 303, "{door}: {}", answer.text());
                let location = answer.header("location").unwrap();
                assert_eq!(location, format!("/changes/{opened}"), "{door}");
            }
            // This policy has none: refused like before.
            "breaker" if answer.status == 404 || answer.status == 422 => continue,
            _ => {
                assert_eq!(answer.status, 202, "{door}: {}", answer.text());
                let body = answer.json();
                assert_eq!(
                    (&body["stored"], &body["generation"]),
                    (&json!(false), &json!(2))
                );
                let number = &body["change"];
                let location = format!("/api/v1/changes/{number}");
                assert_eq!(answer.header("location"), Some(location.as_str()), "{door}");
            }
        }
    }
    assert_eq!(plane.policy(), before, "nothing is stored");
    let opened = good(plane.api("GET", "/changes?state=draft", None));
    let opened = opened.as_array().unwrap();
    assert!(opened.len() >= 5, "{opened:?}");
    // What differs in nothing, and a dry run, open nothing.
    assert_eq!(plane.patch("route/a", &json!({"limit": 2})).status, 200);
    let dry = plane.api(
        "PATCH",
        &format!("{key}?dry_run=true"),
        Some(&json!({"limit": 8})),
    );
    assert_eq!(dry.status, 200);
    let still = good(plane.api("GET", "/changes?state=draft", None));
    assert_eq!(still.as_array().unwrap().len(), opened.len());
    // Not without somebody else, and neither on one gateway.
    let refused = step(&plane, 1, "publish", &json!({}));
    assert_eq!(
        (refused.status, &refused.json()["change"]),
        (409, &json!(1))
    );
    good(other(
        &plane,
        "POST",
        "/changes/1/approve",
        Some(&json!({"comment": "seen"})),
    ));
    good(step(&plane, 1, "publish", &json!({})));
    assert_eq!(limit(&plane, 0), 7);
    // One that was kept goes back like any other change: as a draft.
    good(step(&plane, 1, "keep", &json!({})));
    let opened = step(&plane, 1, "revert", &json!({}));
    assert_eq!(opened.status, 202, "{}", opened.text());
    assert_eq!(opened.json()["state"], "draft");
    assert_eq!(limit(&plane, 0), 7);
    // Off again: everything as before.
    approvals(&plane, "off");
    assert_eq!(plane.patch("route/a", &json!({"limit": 3})).status, 200);
    for bad in [
        json!({"approvals": "some"}),
        json!({"approvals": 1}),
        json!({"else": 1}),
    ] {
        assert_eq!(
            plane.api("PATCH", "/settings", Some(&bad)).status,
            422,
            "{bad}"
        );
    }
}

async fn one_alone_takes_back_only_what_its_own_watch_may(place: &Place) {
    let plane = place.plane();
    // Nobody was asked when this was published, and nothing takes it back by itself.
    let early = propose(&plane, "a", 5);
    good(step(&plane, early, "publish", &json!({})));
    approvals(&plane, "all");
    let agreed = |number: u64| {
        let path = format!("/changes/{number}/approve");
        good(other(&plane, "POST", &path, Some(&json!({}))));
    };
    let waits = |number: u64| {
        let opened = step(&plane, number, "revert", &json!({}));
        assert_eq!(opened.status, 202, "{}", opened.text());
        let opened = opened.json();
        assert_eq!(opened["state"], "draft", "{opened}");
        assert_eq!(change(&plane, number)["state"], "published");
        opened["number"].as_u64().unwrap()
    };
    let back = waits(early);
    let plain = propose(&plane, "b", 6);
    agreed(plain);
    good(step(&plane, plain, "publish", &json!({})));
    waits(plain);
    assert_eq!((limit(&plane, 0), limit(&plane, 1)), (json!(5), json!(6)));
    assert_eq!(step(&plane, back, "publish", &json!({})).status, 409);
    agreed(back);
    good(step(&plane, back, "publish", &json!({})));
    assert_eq!(limit(&plane, 0), 2);
    // While its deadline or its guard may take it back, so may anybody who could have published it.
    for terms in [
        json!({"confirm_within": "5m"}),
        json!({"guard_percent": 50}),
    ] {
        let number = propose(&plane, "a", 7);
        agreed(number);
        good(step(&plane, number, "publish", &terms));
        let gone = step(&plane, number, "revert", &json!({}));
        assert_eq!(
            (gone.status, &gone.json()["state"]),
            (200, &json!("reverted")),
            "{terms}"
        );
        assert_eq!(limit(&plane, 0), 2, "{terms}");
    }
}

async fn nobody_approves_what_he_wrote(place: &Place) {
    let plane = place.plane();
    approvals(&plane, "all");
    let number = propose(&plane, "a", 5);
    let approve = format!("/changes/{number}/approve");
    let own = step(&plane, number, "approve", &json!({}));
    assert_eq!(own.status, 403, "{}", own.text());
    good(other(&plane, "POST", &approve, Some(&json!({}))));
    // Who edits it voids what was agreed to, and has written it too.
    let edited = other(
        &plane,
        "PATCH",
        &format!("/changes/{number}"),
        Some(&proposal("a", 6, "rather six")),
    );
    let edited = good(edited);
    assert_eq!(
        (&edited["state"], &edited["approvals"]),
        (&json!("draft"), &json!([]))
    );
    assert_eq!(edited["contributors"], json!(["admin token", "operator"]));
    assert_eq!(step(&plane, number, "approve", &json!({})).status, 403);
    assert_eq!(
        other(&plane, "POST", &approve, Some(&json!({}))).status,
        403
    );
    assert_eq!(step(&plane, number, "publish", &json!({})).status, 409);
    assert_eq!(limit(&plane, 0), 2);
    good(step(&plane, number, "abandon", &json!({"comment": "no"})));
    // What somebody looked at is what he agrees to.
    let number = propose(&plane, "a", 5);
    let path = format!("/changes/{number}/approve");
    good(plane.api(
        "PATCH",
        &format!("/changes/{number}"),
        Some(&proposal("a", 9, "")),
    ));
    let headers = [("content-type", "application/json"), ("if-match", "\"1\"")];
    let late = call(
        plane.address,
        "POST",
        &format!("/api/v1{path}"),
        &headers,
        b"{}",
    );
    assert_eq!((late.status, &late.json()["current"]), (412, &json!(2)));
}

async fn of_two_who_race_one_wins(place: &Place) {
    let plane = place.plane();
    for round in 0..5_u32 {
        let number = propose(&plane, "a", 20 + round);
        let generation = plane.generation();
        let statuses: Vec<u16> = std::thread::scope(|scope| {
            let racers: Vec<_> = ["publish", "abandon", "publish", "abandon"]
                .into_iter()
                .map(|name| {
                    let plane = &plane;
                    scope.spawn(move || step(plane, number, name, &json!({})).status)
                })
                .collect();
            racers.into_iter().map(|one| one.join().unwrap()).collect()
        });
        let won = statuses.iter().filter(|status| **status == 200).count();
        assert_eq!(won, 1, "{statuses:?}");
        assert!(
            statuses.iter().all(|status| [200, 409].contains(status)),
            "{statuses:?}"
        );
        let after = change(&plane, number);
        let made = u64::from(after["state"] == "published");
        assert_eq!(plane.generation(), generation + made, "{after}");
        let steps = after["steps"].as_array().unwrap().len();
        assert_eq!(
            (steps, &after["version"]),
            (2, &json!(2)),
            "one step was taken"
        );
    }
}

async fn what_others_changed_meanwhile_is_shown_and_never_overwritten(place: &Place) {
    let plane = place.plane();
    let (same, apart) = (propose(&plane, "a", 5), propose(&plane, "b", 6));
    good(plane.patch("route/a", &json!({"limit": 9})));
    // Values of others stay: only what this one changes is put on top.
    good(step(&plane, apart, "publish", &json!({})));
    assert_eq!((limit(&plane, 0), limit(&plane, 1)), (json!(9), json!(6)));
    let refused = step(&plane, same, "publish", &json!({}));
    assert_eq!(refused.status, 409, "{}", refused.text());
    let clash = refused.json()["clashes"][0].clone();
    assert_eq!(
        (
            &clash["base"],
            &clash["mine"],
            &clash["theirs"],
            clash["path"].as_str()
        ),
        (
            &json!(2),
            &json!(5),
            &json!(9),
            Some("routes[0].compartment.limit")
        )
    );
    assert_eq!(
        change(&plane, same)["clashes"][0]["theirs"],
        9,
        "and on its page"
    );
    assert_eq!(step(&plane, same, "rebase", &json!({})).status, 409);
    let rebased = good(step(&plane, same, "rebase", &json!({"prefer": "mine"})));
    assert_eq!(rebased["base"], json!(plane.generation()));
    assert_eq!(rebased["differences"][0]["old"], "9");
    good(step(&plane, same, "publish", &json!({})));
    assert_eq!(limit(&plane, 0), 5);
}

async fn nobody_keeps_it_and_it_goes_through_a_restart_too(place: &Place) {
    let plane = place.plane();
    let terms = json!({"confirm_within": "2s"});
    let (goes, stays) = (propose(&plane, "a", 5), propose(&plane, "b", 6));
    good(step(&plane, goes, "publish", &terms));
    good(step(&plane, stays, "publish", &terms));
    good(step(&plane, stays, "keep", &json!({"comment": "fine"})));
    for bad in [json!("0s"), json!("25h"), json!(5), json!("soon")] {
        let refused = step(&plane, goes, "publish", &json!({"confirm_within": bad}));
        assert_eq!(refused.pointers(), ["/confirm_within"], "{bad}");
    }
    let plane = place.again(plane);
    eventually("it goes by itself", || limit(&plane, 0) == 2);
    let gone = change(&plane, goes);
    assert_eq!(
        (&gone["state"], &change(&plane, stays)["state"]),
        (&json!("reverted"), &json!("kept"))
    );
    let last = gone["steps"].as_array().unwrap().last().unwrap().clone();
    assert_eq!(
        (&last["by"], &last["step"]),
        (&json!("control plane"), &json!("revert"))
    );
    assert!(
        last["comment"].as_str().unwrap().contains("nobody kept it"),
        "{last}"
    );
    assert_eq!(limit(&plane, 1), 6);
}

async fn what_somebody_else_did_later_is_never_taken_back(place: &Place) {
    let plane = place.plane();
    // What was undone by hand goes back no second time.
    let undone = propose(&plane, "b", 7);
    good(step(
        &plane,
        undone,
        "publish",
        &json!({"confirm_within": "1s"}),
    ));
    good(plane.patch("route/b", &json!({"limit": 3})));
    let generation = plane.generation();
    eventually("it is gone", || {
        change(&plane, undone)["state"] == "reverted"
    });
    assert_eq!(
        (limit(&plane, 1), plane.generation()),
        (json!(3), generation)
    );
    let number = propose(&plane, "a", 5);
    good(step(
        &plane,
        number,
        "publish",
        &json!({"confirm_within": "1s"}),
    ));
    good(plane.patch("route/a", &json!({"limit": 8, "comment": "mine"})));
    let generation = plane.generation();
    eventually("it gives up", || change(&plane, number)["state"] == "kept");
    assert_eq!(
        (limit(&plane, 0), plane.generation()),
        (json!(8), generation)
    );
    let steps = change(&plane, number)["steps"].clone();
    let said = steps.as_array().unwrap().last().unwrap()["comment"].clone();
    let said = said.as_str().unwrap();
    assert!(
        said.contains("not taken back") && said.contains("routes[0].compartment.limit"),
        "{said}"
    );
}

/// The report of this second: every call so far was refused.
async fn reports(gateway: &Gateway, second: u64, calls: u64) {
    let compartment = Compartment {
        key: "route/a".to_owned(),
        level: "route".to_owned(),
        limit: Some(1),
        rejected: [("route_full".to_owned(), calls)].into(),
        mode: "enforce".to_owned(),
        ..Compartment::default()
    };
    let report = Report {
        generation: 2,
        compartments: vec![compartment],
        boot_id: "boot".to_owned(),
        sequence: second + 1,
        at_unix_ms: i64::MAX,
        uptime_us: (second + 1) * 50_000,
        ..Report::default()
    };
    gateway.say(from_gateway::Message::Report(report)).await;
}

async fn a_guard_takes_back_what_hurts(place: &Place) {
    let plane = place.plane();
    let mut gateway = Gateway::connect(&plane, "gw-0").await;
    let number = propose(&plane, "a", 1);
    good(step(
        &plane,
        number,
        "publish",
        &json!({"guard_percent": 5}),
    ));
    let mut generation = gateway.policy().await.generation;
    while generation < 2 {
        gateway.running(generation).await;
        generation = gateway.policy().await.generation;
    }
    gateway.running(generation).await;
    // Every call of the healthy compartment is refused from now on.
    let mut calls = 0;
    for round in 0..600_u64 {
        calls += 30;
        reports(&gateway, round, calls).await;
        if round > 2 && change(&plane, number)["state"] == "reverted" {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let reverted = change(&plane, number);
    assert_eq!(reverted["state"], "reverted", "{reverted}");
    let steps = reverted["steps"].as_array().unwrap();
    let said = steps.last().unwrap()["comment"].as_str().unwrap();
    assert!(
        said.contains("route/a refused") && said.contains("healthy"),
        "{said}"
    );
    assert_eq!(limit(&plane, 0), 2);
}

/// Waits for a push of this generation; older ones are answered.
async fn gets(gateway: &mut Gateway, generation: u64) {
    loop {
        let push = tokio::time::timeout(Duration::from_secs(10), gateway.policy()).await;
        let number = push.unwrap().generation;
        gateway.running(number).await;
        assert!(
            number <= generation,
            "{number} came instead of {generation}"
        );
        if number == generation {
            return;
        }
    }
}

async fn gets_nothing(gateway: &mut Gateway) {
    let push = tokio::time::timeout(QUIET, gateway.next()).await;
    assert!(push.is_err(), "{push:?}");
}

async fn one_of_four_runs_what_is_staged(place: &Place) {
    let plane = place.plane();
    let mut fleet = Vec::new();
    for n in 0..4 {
        let mut gateway = Gateway::connect(&plane, &format!("gw-{n}")).await;
        gets(&mut gateway, 1).await;
        fleet.push(gateway);
    }
    let number = propose(&plane, "a", 5);
    let nowhere = step(&plane, number, "stage", &json!({"gateway": "gw-9"}));
    assert_eq!(
        (nowhere.status, nowhere.pointers()),
        (422, vec!["/gateway".to_owned()])
    );
    let staged = good(step(&plane, number, "stage", &json!({"gateway": "gw-2"})));
    assert_eq!(
        (&staged["staged"], &staged["gateway"]),
        (&json!(2), &json!("gw-2"))
    );
    gets(&mut fleet[2], 2).await;
    for other in [0, 1, 3] {
        gets_nothing(&mut fleet[other]).await;
    }
    assert_eq!(
        (plane.generation(), limit(&plane, 0)),
        (1, json!(2)),
        "nobody else's policy"
    );
    eventually("it says so", || {
        change(&plane, number)["gateways"]
            == json!([
            {"gateway": "gw-2", "answer": "runs", "generation": 2, "reason": null}])
    });
    let second = propose(&plane, "b", 6);
    assert_eq!(
        step(&plane, second, "stage", &json!({"gateway": "gw-1"})).status,
        409
    );
    // Through a reconnect and a start of the control plane: it still is to run it.
    drop(fleet);
    let plane = place.again(plane);
    let epoch = plane.api("GET", "/generations/2", None).json();
    let runs = Runs {
        generation: 2,
        digest: epoch["digest"].as_str().unwrap().to_owned(),
        epoch: String::new(),
        has_parts: false,
    };
    let token = plane.token();
    let mut apart = Gateway::try_connect(&plane, "gw-2", &token, runs)
        .await
        .unwrap();
    gets(&mut apart, 2).await;
    let mut rest = Gateway::connect(&plane, "gw-0").await;
    gets(&mut rest, 1).await;
    // The policy moves on under it: both values go to that gateway, the new one to the others.
    good(plane.patch("route/c", &json!({"limit": 7})));
    gets(&mut rest, 3).await;
    gets(&mut apart, 4).await;
    let both = good(plane.api("GET", "/generations/4", None));
    assert_eq!(both["source"], "stage");
    let limits = [0, 2].map(|at| both["document"]["routes"][at]["compartment"]["limit"].clone());
    assert_eq!(limits, [json!(5), json!(7)]);
    // Back is a higher number with the policy of all others.
    good(step(&plane, number, "abandon", &json!({})));
    gets(&mut apart, 5).await;
    gets(&mut rest, 5).await;
    assert_eq!(
        (plane.generation(), limit(&plane, 0), limit(&plane, 2)),
        (5, json!(2), json!(7))
    );
    // And another one goes on to everybody.
    good(step(&plane, second, "stage", &json!({"gateway": "gw-2"})));
    gets(&mut apart, 6).await;
    good(step(&plane, second, "publish", &json!({})));
    gets(&mut apart, 7).await;
    gets(&mut rest, 7).await;
    assert_eq!((plane.generation(), limit(&plane, 1)), (7, json!(6)));
}

/// Two control planes on one Postgres: of the same step one is taken; what is staged is sent by
/// whoever holds the gateway's stream; a deadline outlives the one that led.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_control_planes_take_a_step_once_and_any_of_them_keeps_its_deadline() {
    let Some(database) = postgres::Database::new().await else {
        return;
    };
    let place = Place::Database(database);
    let (one, two) = (place.plane(), place.plane());
    for round in 0..3_u32 {
        let number = propose(&one, "a", 20 + round);
        let generation = one.generation();
        let statuses: Vec<u16> = std::thread::scope(|scope| {
            let planes = [
                (&one, "publish"),
                (&two, "publish"),
                (&one, "abandon"),
                (&two, "abandon"),
            ];
            let racers: Vec<_> = planes
                .into_iter()
                .map(|(plane, name)| {
                    scope.spawn(move || step(plane, number, name, &json!({})).status)
                })
                .collect();
            racers.into_iter().map(|one| one.join().unwrap()).collect()
        });
        assert_eq!(
            statuses.iter().filter(|status| **status == 200).count(),
            1,
            "{statuses:?}"
        );
        let after = change(&two, number);
        let made = u64::from(after["state"] == "published");
        assert_eq!(
            (one.generation(), two.generation()),
            (generation + made, generation + made)
        );
        assert_eq!(after["steps"].as_array().unwrap().len(), 2);
    }
    let mut gateway = Gateway::connect(&two, "gw-0").await;
    let newest = two.generation();
    gets(&mut gateway, newest).await;
    let lists = || {
        let list = one.api("GET", "/gateways", None).json();
        let is_it = |one: &Value| one["id"] == "gw-0" && one["connected"] == true;
        list.as_array().unwrap().iter().any(is_it)
    };
    for round in 0.. {
        // What it says is told to the other one once a second.
        gateway.report(newest, Vec::new()).await;
        if lists() {
            break;
        }
        assert!(round < 200, "the other one does not list it");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let number = propose(&one, "b", 7);
    good(step(&one, number, "stage", &json!({"gateway": "gw-0"})));
    gets(&mut gateway, newest + 1).await;
    good(step(
        &one,
        number,
        "publish",
        &json!({"confirm_within": "2s"}),
    ));
    gets(&mut gateway, newest + 2).await;
    drop(one);
    eventually("the other one takes it back", || {
        change(&two, number)["state"] == "reverted"
    });
    assert_eq!(limit(&two, 1), 3);
    gets(&mut gateway, newest + 3).await;
}
