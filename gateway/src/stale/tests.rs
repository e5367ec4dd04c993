//! Pairs of callers, over everything that two requests can differ in.

use compartment::policy::{Identify, Tenant, Unknown};
use compartment::{Limit, Name};
use proptest::prelude::*;

use super::*;
use crate::testing::{policy, route};

/// One request, whoever sends it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Call {
    owner: Option<Owner>,
    path: &'static str,
    host: &'static str,
    fields: Vec<(&'static str, &'static str)>,
}

/// What it is answered.
#[derive(Clone, Debug)]
struct Answer {
    vary: &'static str,
    is_public: bool,
    age_s: u64,
}

fn tenant(id: &str, keys: &[[u8; 32]]) -> Tenant {
    Tenant {
        id: Name::new(id).unwrap(),
        plan: None,
        limit: Limit::UNLIMITED,
        api_keys: keys.to_vec(),
        expiring: Vec::new(),
        hosts: Vec::new(),
        suspended: false,
    }
}

fn owners(tenants: &[Tenant]) -> Owners {
    let mut one = route("a", "/a");
    one.fallback = vec![compartment::policy::Fallback::Stale {
        age_max: std::time::Duration::from_secs(60),
    }];
    let mut policy = policy(&[one]);
    policy.tenants = tenants.to_vec();
    policy.identify = Some(Identify {
        by: Vec::new(),
        unknown: Unknown::Reject,
    });
    Owners::of(&policy)
}

fn headers(call: &Call) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(HOST, HeaderValue::from_static(call.host));
    for (name, value) in &call.fields {
        headers.append(*name, HeaderValue::from_static(value));
    }
    headers
}

fn asked(call: &Call, method: &Method) -> Option<Asked> {
    let (headers, uri) = (headers(call), call.path.parse().unwrap());
    let sent = Sent {
        method,
        uri: &uri,
        headers: &headers,
    };
    let slot = Slot {
        owner: call.owner.clone()?,
        target: target(&begins("r", "u", &[]), sent),
        is_only_owner: false,
    };
    let allows = Allows::of(method, &headers, false);
    Some(Asked::at(slot, method, allows, 60 * SECOND_US))
}

fn call_of(owner: Option<Owner>) -> Call {
    Call {
        owner,
        path: "/a",
        host: "h",
        fields: Vec::new(),
    }
}

/// What one caller spelt otherwise is the same place; another host or port is not.
#[test]
fn one_host_has_one_place_however_it_is_spelt() {
    let place = |host: &'static str, secure: bool| {
        let mut call = call_of(Some(std::sync::Arc::from(b"one".as_slice())));
        call.host = host;
        if secure {
            call.fields.push(("x-forwarded-proto", "https"));
        }
        asked(&call, &Method::GET).unwrap().slot.target
    };
    for same in ["H", "h.", "h:80", "H.:80"] {
        assert_eq!(place(same, false), place("h", false), "{same}");
    }
    assert_eq!(place("H:443", true), place("h", true));
    for other in ["h:81", "h:443", "hh"] {
        assert_ne!(place(other, false), place("h", false), "{other}");
    }
    assert_ne!(place("h:80", true), place("h", true));
}

fn private(vary: &'static str, age_s: u64) -> Answer {
    Answer {
        vary,
        is_public: false,
        age_s,
    }
}

fn store_it(store: &Store, call: &Call, answer: &Answer, body: &str) {
    let mut head = Response::new(()).into_parts().0;
    let length = HeaderValue::from(body.len());
    head.headers.insert(CONTENT_LENGTH, length);
    let control = if answer.is_public {
        "public"
    } else {
        "max-age=1"
    };
    head.headers
        .insert("cache-control", HeaderValue::from_static(control));
    head.headers.insert(AGE, HeaderValue::from(answer.age_s));
    if !answer.vary.is_empty() {
        head.headers
            .insert("vary", HeaderValue::from_static(answer.vary));
    }
    let came = Came {
        head_us: SECOND_US,
        took_us: 0,
        unix_us: 0,
    };
    let Some(asked) = asked(call, &Method::GET) else {
        return;
    };
    let begun = asked.begin(&head, &headers(call), Version::HTTP_11, came);
    let copy = begun
        .and_then(|begun| begun.copy(StatusCode::OK, &head.headers, || "then".to_owned(), store));
    if let Some(mut copy) = copy {
        copy.take(&Bytes::copy_from_slice(body.as_bytes()));
        copy.end(store);
    }
}

fn given(store: &Store, call: &Call, now_us: u64) -> Option<Response<Bytes>> {
    let asked = asked(call, &Method::GET)?;
    let given = asked.give(store, &headers(call), now_us, &mut HeaderMap::new());
    given.ok()
}

fn any_call() -> impl Strategy<Value = Call> {
    const NAMES: [&str; 4] = ["accept-language", "accept", "cookie", "authorization"];
    let field = (
        prop::sample::select(&NAMES[..]),
        prop::sample::select(&["", "a", "b"][..]),
    );
    let tenants = owners(&[
        tenant("a", &[[1; 32]]),
        tenant("a.b", &[[2; 32]]),
        tenant("b", &[[3; 32]]),
    ]);
    let mut all = tenants.tenants;
    all.push(None);
    (
        prop::sample::select(all),
        prop::sample::select(&["/", "/a", "/a?b", "/a?b=1", "/a/b"][..]),
        prop::sample::select(&["h", "h:81", "h.example"][..]),
        prop::collection::vec(field, 0..3),
    )
        .prop_map(|(owner, path, host, fields)| Call {
            owner,
            path,
            host,
            fields,
        })
}

fn any_answer() -> impl Strategy<Value = Answer> {
    let varies = [
        "",
        "accept",
        "Accept-Language, accept",
        "cookie",
        "authorization",
        "*",
    ];
    (
        prop::sample::select(varies.to_vec()),
        any::<bool>(),
        0_u64..90,
    )
        .prop_map(|(vary, is_public, age_s)| Answer {
            vary,
            is_public,
            age_s,
        })
}

proptest! {
    /// Whatever was stored by whomever, what a caller is given is an answer to a request of its
    /// own tenant, to the same target, the same in every field that the answer depends on, no
    /// older than the bound, and public wherever either request says who is asking.
    #[test]
    fn no_tenant_ever_sees_the_answer_of_another(
        stored in prop::collection::vec((any_call(), any_answer()), 1..30),
        callers in prop::collection::vec((any_call(), 0_u64..120), 1..20),
    ) {
        let store = Store::default();
        for (at, (call, answer)) in stored.iter().enumerate() {
            store_it(&store, call, answer, &at.to_string());
        }
        for (caller, later_s) in callers {
            let Some(answer) = given(&store, &caller, (1 + later_s) * SECOND_US) else {
                continue;
            };
            let at: usize = std::str::from_utf8(answer.body()).unwrap().parse().unwrap();
            let (call, said) = &stored[at];
            prop_assert!(caller.owner.is_some() && caller.owner == call.owner);
            prop_assert_eq!((caller.path, caller.host), (call.path, call.host));
            let names = said.vary.split(',').map(|name| name.trim().to_ascii_lowercase());
            for name in names.filter(|name| !name.is_empty()) {
                let of = |call: &Call| {
                    let headers = headers(call);
                    let values = headers.get_all(name.as_str()).iter().cloned();
                    values.collect::<Vec<_>>()
                };
                prop_assert_eq!(of(&caller), of(call), "{}", name);
            }
            prop_assert!(said.vary != "*");
            let is_personal = |call: &Call| {
                call.fields.iter().any(|(name, _)| ["cookie", "authorization"].contains(name))
            };
            prop_assert!(said.is_public || !(is_personal(&caller) || is_personal(call)));
            prop_assert!(said.age_s + later_s <= 60, "{} + {later_s}", said.age_s);
            let told: u64 = answer.headers()[AGE].to_str().unwrap().parse().unwrap();
            prop_assert_eq!(told, said.age_s + later_s);
        }
    }
}

#[test]
fn a_tenant_that_comes_back_with_other_credentials_is_another_one() {
    let store = Store::default();
    let before = owners(&[tenant("a", &[[1; 32]]), tenant("b", &[[2; 32]])]);
    let mut call = call_of(before.tenants[0].clone());
    let answer = private("", 0);
    store_it(&store, &call, &answer, "of the first");
    assert!(given(&store, &call, SECOND_US).is_some());
    // The same in another order is the same; one key more or less is another tenant.
    let same = owners(&[tenant("b", &[[2; 32]]), tenant("a", &[[1; 32]])]);
    same.keep_only(&store, SECOND_US);
    call.owner = same.tenants[1].clone();
    assert!(given(&store, &call, SECOND_US).is_some());
    for others in [
        owners(&[tenant("a", &[[9; 32]])]),
        owners(&[tenant("a", &[])]),
        owners(&[tenant("a", &[[1; 32], [2; 32]])]),
    ] {
        call.owner = others.tenants[0].clone();
        assert!(given(&store, &call, SECOND_US).is_none());
    }
    // A copy that was under way when its owner went lies where nobody looks, until it is too old.
    let after = owners(&[tenant("a", &[[9; 32]])]);
    after.keep_only(&store, SECOND_US);
    assert_eq!(store.size().0, 0);
    call.owner = before.tenants[0].clone();
    store_it(&store, &call, &answer, "late");
    call.owner = after.tenants[0].clone();
    assert!(given(&store, &call, SECOND_US).is_none());
    // Suspended, it has no place at all.
    let mut suspended = tenant("a", &[[9; 32]]);
    suspended.suspended = true;
    assert!(owners(&[suspended]).tenants[0].is_none());
}

#[test]
fn what_was_changed_is_not_given_again() {
    let store = Store::default();
    let owners = owners(&[tenant("a", &[])]);
    let call = call_of(owners.tenants[0].clone());
    let answer = private("accept", 0);
    let stays = |method: &Method, status: u16| {
        store_it(&store, &call, &answer, "x");
        let asked = asked(&call, method).unwrap();
        asked.answered(&store, StatusCode::from_u16(status).unwrap());
        given(&store, &call, SECOND_US).is_some()
    };
    let changes = [Method::POST, Method::PUT, Method::PATCH, Method::DELETE];
    for method in changes
        .into_iter()
        .chain([Method::from_bytes(b"PURGE").unwrap()])
    {
        for (status, want) in [(500, true), (404, true), (204, false), (303, false)] {
            assert_eq!(stays(&method, status), want, "{method} {status}");
        }
    }
    for method in [Method::GET, Method::HEAD, Method::OPTIONS, Method::TRACE] {
        assert!(stays(&method, 200), "{method}");
    }
    // Another target of the same owner, and the same of another, stay.
    store_it(&store, &call, &answer, "x");
    let mut others = call.clone();
    others.path = "/a/b";
    asked(&others, &Method::POST)
        .unwrap()
        .answered(&store, StatusCode::OK);
    others = call.clone();
    others.owner = Some(Arc::from(b"b".as_slice()));
    asked(&others, &Method::POST)
        .unwrap()
        .answered(&store, StatusCode::OK);
    assert!(given(&store, &call, SECOND_US).is_some());
}

#[test]
fn a_stored_answer_says_how_old_it_is() {
    let store = Store::default();
    let owners = owners(&[tenant("a", &[])]);
    let call = call_of(owners.tenants[0].clone());
    let answer = private("", 3);
    store_it(&store, &call, &answer, "body");
    let given = given(&store, &call, 3 * SECOND_US + 1).unwrap();
    let field = |name: &str| given.headers()[name].to_str().unwrap();
    assert_eq!(
        (field("age"), field("content-length"), field("date")),
        ("5", "4", "then")
    );
    assert_eq!(field("cache-status"), "bulkhead; hit; ttl=-4");
    assert_eq!(given.body().as_ref(), b"body");
}
