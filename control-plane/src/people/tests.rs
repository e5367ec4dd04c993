//! Users, tokens and sessions over a store, at any moment and from two processes.

use zeroize::Zeroizing;

use super::*;
use crate::access::Role;
use crate::auth::Scopes;

const PASSWORD: &str = "a long pass phrase of 2026";
const MINUTE_MS: i64 = 60_000;

fn author(name: &str) -> Author {
    Author {
        name: name.to_owned(),
        origin: "192.0.2.1".to_owned(),
        ..Author::default()
    }
}

fn password(text: &str) -> Password {
    Zeroizing::new(text.to_owned())
}

async fn people(folder: &tempfile::TempDir) -> People {
    let url = format!("sqlite://{}/store.db", folder.path().display());
    People::open(Store::open(&url).await.unwrap())
        .await
        .unwrap()
}

async fn first(people: &People, name: &str) {
    let code = people.invite_first(0).unwrap().unwrap();
    let (code, author) = (code.expose().to_owned(), author("anybody"));
    let set = people.set_up(&code, name, password(PASSWORD), &author, 0);
    set.await.unwrap();
}

async fn sign_in(
    people: &People,
    name: &str,
    text: &str,
    now_ms: i64,
) -> Result<Secret, PeopleError> {
    let author = author("anybody");
    let asked = SignIn {
        name,
        password: password(text),
        source: Source::of("192.0.2.1".parse().ok()),
        author: &author,
        now_ms,
    };
    people.sign_in(asked).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_ends_idle_and_old() {
    let folder = tempfile::tempdir().unwrap();
    let people = people(&folder).await;
    first(&people, "ann").await;
    let secret = sign_in(&people, "ann", PASSWORD, 0).await.unwrap();
    let lasts = async |now_ms| people.session(secret.expose(), now_ms).await.is_some();
    assert!(
        lasts(30 * MINUTE_MS - 1).await && !lasts(30 * MINUTE_MS).await,
        "idle"
    );
    let id = people.session(secret.expose(), 0).await.unwrap().id;
    for step in 1..=36 {
        people.used_session(&id, step * 20 * MINUTE_MS);
    }
    let age = 12 * 60 * MINUTE_MS;
    assert!(
        lasts(age - 1).await && !lasts(age).await,
        "old, although it was used"
    );
    // Who signs in next sweeps what has ended, and nobody has more than a few.
    for number in 0..15 {
        sign_in(&people, "ann", PASSWORD, age + number)
            .await
            .unwrap();
    }
    assert_eq!(people.sessions().len(), 10);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_work_is_done_for_a_name_that_nobody_has() {
    let folder = tempfile::tempdir().unwrap();
    let people = people(&folder).await;
    first(&people, "ann").await;
    for name in ["ann", "nobody", "=1+1|cmd"] {
        let before = people.hasher.made();
        let refused = sign_in(&people, name, "wrong wrong wrong", 0).await;
        assert!(matches!(refused, Err(PeopleError::Wrong)), "{name}");
        assert_eq!(people.hasher.made(), before + 1, "{name}");
    }
    for _ in 0..3 {
        let _wrong = sign_in(&people, "ann", "wrong wrong wrong", 0).await;
    }
    let before = people.hasher.made();
    let waits = sign_in(&people, "ann", PASSWORD, 0).await;
    assert!(
        matches!(waits, Err(PeopleError::TooMany(_))),
        "also with the right one"
    );
    assert_eq!(people.hasher.made(), before, "no work for whoever waits");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_code_ends_and_a_token_ends() {
    let folder = tempfile::tempdir().unwrap();
    let people = people(&folder).await;
    let code = people.invite_first(0).unwrap().unwrap();
    assert!(people.invited(code.expose(), users::SETUP_MS - 1).is_some());
    assert!(people.invited(code.expose(), users::SETUP_MS).is_none());
    first(&people, "ann").await;
    assert!(people.invite_first(0).unwrap().is_none());
    assert!(
        people.invited(code.expose(), 0).is_none(),
        "there is somebody"
    );
    let wanted = Wanted {
        person: None,
        maker: Some("ann".to_owned()),
        name: "deploy".to_owned(),
        role: Role::Operator,
        scopes: Scopes { emergency: true },
        days: 1,
    };
    let made = people.create_token(&wanted, &author("ann"), 0).await;
    let (token, secret) = made.unwrap();
    let day_ms = 24 * 60 * MINUTE_MS;
    assert!(people.token(secret.expose(), day_ms - 1).is_some());
    assert!(people.token(secret.expose(), day_ms).is_none());
    people.used_token(&token.id, 5 * MINUTE_MS);
    people.used_token(&token.id, 5 * MINUTE_MS + 1);
    assert_eq!(people.tokens()[0].used_ms, 5 * MINUTE_MS, "once a minute");
    assert!(!format!("{people:?}").contains(secret.expose()));
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_processes_none_undoes_what_the_other_did() {
    let folder = tempfile::tempdir().unwrap();
    let one = people(&folder).await;
    let two = people(&folder).await;
    // Both invited somebody: one of them is first.
    let late = two.invite_first(0).unwrap().unwrap();
    first(&one, "ann").await;
    let anybody = author("anybody");
    let second = two.set_up(late.expose(), "eve", password(PASSWORD), &anybody, 0);
    assert!(matches!(second.await, Err(PeopleError::Code)));
    let (bob, _) = two
        .create_user("bob", Role::Admin, &author("ann"), 0)
        .await
        .unwrap();
    assert_eq!(bob.name, "bob");
    let secret = sign_in(&one, "ann", PASSWORD, 0).await.unwrap();
    two.look().await.unwrap();
    assert!(
        two.session(secret.expose(), 0).await.is_some(),
        "opened elsewhere"
    );
    let change = UserChange {
        role: Some(Role::Viewer),
        ..UserChange::default()
    };
    let last = two.change_user("ann", change, &author("bob"), 0).await;
    assert!(
        matches!(last, Err(PeopleError::LastAdmin)),
        "bob has no password yet"
    );
    let disable = UserChange {
        disabled: Some(true),
        ..UserChange::default()
    };
    two.change_user("bob", disable, &author("ann"), 0)
        .await
        .unwrap();
    let again = one.create_user("bob", Role::Admin, &author("ann"), 0).await;
    assert!(matches!(again, Err(PeopleError::Taken)), "made elsewhere");
    one.look().await.unwrap();
    assert!(one.user("bob").unwrap().disabled);
    let id = two.session(secret.expose(), 0).await.unwrap().id;
    two.end_session(&id, None, &author("ann")).await.unwrap();
    one.look().await.unwrap();
    assert!(
        one.session(secret.expose(), 0).await.is_none(),
        "ended elsewhere"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_is_known_is_known_without_the_store() {
    let folder = tempfile::tempdir().unwrap();
    let people = people(&folder).await;
    first(&people, "ann").await;
    let secret = sign_in(&people, "ann", PASSWORD, 0).await.unwrap();
    people.store.close().await;
    assert!(people.look().await.is_err());
    assert!(people.session(secret.expose(), MINUTE_MS).await.is_some());
    assert!(people.user("ann").is_some());
    let refused = sign_in(&people, "ann", PASSWORD, 0).await;
    assert!(
        matches!(refused, Err(PeopleError::Store(_))),
        "a new one is not"
    );
}
