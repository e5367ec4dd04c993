//! Who is let in, without a server.

use http::Method;

use super::*;
use crate::store::Store;

const TOKEN: &str = "0123456789abcdef0123456789abcdef";
const HERE: &str = "127.0.0.1:8081";

async fn rules(no_login: bool, token: Option<&str>) -> (tempfile::TempDir, Auth) {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite://{}/store.db", folder.path().display());
    let people = People::open(Store::open(&url).await.unwrap())
        .await
        .unwrap();
    let auth = Auth {
        no_login,
        behind_proxy: false,
        admin_token: token.map(|token| Secret::new(token).unwrap()),
        people,
    };
    (folder, auth)
}

async fn admit(auth: &Auth, method: Method, fields: &[(&'static str, &str)]) -> Admitted {
    let mut headers = HeaderMap::new();
    for (name, value) in fields {
        headers.insert(*name, value.parse().unwrap());
    }
    let host = headers.get("host").map(|value| value.to_str().unwrap());
    let asking = Asking {
        method: &method,
        headers: &headers,
        host: Some(host.unwrap_or(HERE)),
        is_plain: true,
        now_ms: crate::clock::unix_ms(),
    };
    auth.admit(asking).await
}

#[tokio::test]
async fn a_token_opens_and_nothing_else_does() {
    let (_folder, auth) = rules(false, Some(TOKEN)).await;
    let bearer = async |token: &str| admit(&auth, Method::GET, &[("authorization", token)]).await;
    assert!(bearer(&format!("Bearer {TOKEN}")).await.is_ok());
    assert!(bearer(&format!("bearer {TOKEN}")).await.is_ok());
    for wrong in [
        &format!("Bearer {TOKEN}x"),
        "Bearer x",
        "Bearer bhk_",
        "Bearer bhk_a_b",
    ] {
        assert_eq!(bearer(wrong).await, Err(Denied::WrongToken), "{wrong}");
    }
    assert_eq!(bearer(TOKEN).await, Err(Denied::NoToken));
    assert_eq!(admit(&auth, Method::GET, &[]).await, Err(Denied::NoToken));
}

#[tokio::test]
async fn nothing_is_open_without_a_token_of_our_own() {
    let (_folder, auth) = rules(false, None).await;
    assert_eq!(admit(&auth, Method::GET, &[]).await, Err(Denied::NoToken));
    let offered = format!("Bearer {TOKEN}");
    let verdict = admit(&auth, Method::GET, &[("authorization", &offered)]).await;
    assert_eq!(verdict, Err(Denied::WrongToken));
}

#[tokio::test]
async fn without_a_login_another_name_is_refused() {
    let (_folder, auth) = rules(true, None).await;
    for (host, fine) in [
        ("127.0.0.1:8081", true),
        ("localhost:9", true),
        ("LOCALHOST", true),
        ("[::1]:8081", true),
        ("127.9.9.9", true),
        ("evil.example", false),
        ("127.0.0.1.evil.example", false),
        ("localhost.evil.example:80", false),
        ("192.168.0.1:8081", false),
        ("[::2]:80", false),
        ("", false),
    ] {
        let verdict = admit(&auth, Method::GET, &[("host", host)]).await;
        assert_eq!(verdict.is_ok(), fine, "{host}");
    }
}

#[tokio::test]
async fn a_change_from_another_site_is_refused() {
    let (_folder, auth) = rules(true, None).await;
    let own = format!("http://{HERE}");
    for (fields, fine) in [
        (vec![], true),
        (vec![("origin", own.as_str())], true),
        (
            vec![("origin", own.as_str()), ("sec-fetch-site", "same-origin")],
            true,
        ),
        (vec![("origin", "http://evil.example")], false),
        (vec![("origin", "http://127.0.0.1:9")], false),
        (vec![("origin", "null")], false),
        (vec![("sec-fetch-site", "cross-site")], false),
        (vec![("sec-fetch-site", "same-site")], false),
    ] {
        let verdict = admit(&auth, Method::POST, &fields).await;
        assert_eq!(verdict.is_ok(), fine, "{fields:?}");
        let reading = admit(&auth, Method::GET, &fields).await;
        assert!(reading.is_ok(), "reading changes nothing");
    }
}

#[tokio::test]
async fn a_session_is_no_excuse_for_another_site() {
    let (_folder, auth) = rules(false, Some(TOKEN)).await;
    let author = Author {
        name: "anybody".to_owned(),
        origin: String::new(),
        ..Author::default()
    };
    let now_ms = crate::clock::unix_ms();
    let wrong = auth.sign_in("wrong", &author, now_ms).await.unwrap();
    assert!(wrong.is_none());
    let id = auth.sign_in(TOKEN, &author, now_ms).await.unwrap().unwrap();
    let cookie = format!("bulkhead={}", id.expose());
    let own = [
        ("cookie", cookie.as_str()),
        ("origin", "http://127.0.0.1:8081"),
    ];
    let caller = admit(&auth, Method::POST, &own).await.unwrap();
    assert!(caller.has_session() && caller.role == Role::Admin);
    let other = [
        ("cookie", cookie.as_str()),
        ("origin", "http://evil.example"),
    ];
    assert_eq!(
        admit(&auth, Method::POST, &other).await,
        Err(Denied::Origin)
    );
    let bearer = format!("Bearer {TOKEN}");
    let fields = [
        ("authorization", bearer.as_str()),
        ("origin", "http://evil.example"),
    ];
    let verdict = admit(&auth, Method::POST, &fields).await;
    assert!(verdict.is_ok(), "no browser adds this by itself");
    let other_token = Auth {
        no_login: false,
        behind_proxy: false,
        admin_token: Some(Secret::random().unwrap()),
        people: auth.people.clone(),
    };
    let verdict = admit(&other_token, Method::GET, &own).await;
    assert_eq!(verdict, Err(Denied::NoToken), "the token was replaced");
    let Via::Session { id, owner } = caller.via else {
        unreachable!("it has one");
    };
    let ended = auth.people.end_session(&id, Some(&owner), &author).await;
    ended.unwrap();
    assert_eq!(admit(&auth, Method::GET, &own).await, Err(Denied::NoToken));
}
