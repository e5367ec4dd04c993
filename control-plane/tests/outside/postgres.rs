//! What only a server can do to us: hold another program's tables, refuse us, go away.

use control_plane::store::{Store, StoreError, Written};
use control_plane::{Config, StartError};
use serde_json::json;
use sqlx::{Connection as _, Executor as _, Row as _};

use crate::contract::new;
use crate::support::{Plane, config, eventually, policy, policy_file, postgres};

#[tokio::test(flavor = "multi_thread")]
async fn newer_and_foreign_databases_are_refused_and_left_alone() {
    let Some(database) = postgres::Database::new().await else {
        return;
    };
    let mut connection = database.connect().await;
    connection
        .execute("CREATE TABLE songs (title TEXT)")
        .await
        .unwrap();
    let error = Store::open(&database.url).await.unwrap_err();
    assert!(matches!(error, StoreError::Foreign { .. }), "{error}");
    assert!(error.to_string().contains("public.songs"), "{error}");
    assert!(!has_schema(&mut connection).await, "nothing was made");

    connection.execute("DROP TABLE songs").await.unwrap();
    connection
        .execute("CREATE SCHEMA bulkhead; CREATE TABLE bulkhead.meta (ship TEXT)")
        .await
        .unwrap();
    let error = Store::open(&database.url).await.unwrap_err();
    assert!(error.to_string().contains("bulkhead.meta"), "{error}");

    connection
        .execute("DROP SCHEMA bulkhead CASCADE")
        .await
        .unwrap();
    let store = Store::open(&database.url).await.unwrap();
    store.append(new("kept"), 0).await.unwrap();
    store.close().await;
    // What another program puts beside a store of ours keeps nobody from starting.
    connection
        .execute("CREATE TABLE songs (title TEXT)")
        .await
        .unwrap();
    Store::open(&database.url).await.unwrap();
    let sql = "INSERT INTO bulkhead._sqlx_migrations \
               (version, description, success, checksum, execution_time) \
               VALUES (999, 'later', TRUE, '', 1)";
    connection.execute(sql).await.unwrap();
    let error = Store::open(&database.url).await.unwrap_err();
    let newer = matches!(error, StoreError::Newer { found: 999, known, .. } if known >= 3);
    assert!(newer, "{error}");
    let kept = "SELECT COUNT(*) FROM bulkhead.generations";
    let kept = connection.fetch_one(kept).await.unwrap();
    assert_eq!(kept.get::<i64, _>(0), 1);
}

async fn has_schema(connection: &mut sqlx::PgConnection) -> bool {
    let sql = "SELECT to_regnamespace('bulkhead') IS NOT NULL";
    connection.fetch_one(sql).await.unwrap().get(0)
}

/// A start on tables that are as they should be needs no right to make any.
#[tokio::test(flavor = "multi_thread")]
async fn an_account_that_may_only_use_the_tables_is_enough() {
    let Some(database) = postgres::Database::new().await else {
        return;
    };
    Store::open(&database.url).await.unwrap().close().await;
    let mut connection = database.connect().await;
    let role = format!("role_{}", uuid::Uuid::now_v7().simple());
    let sql = format!(
        "CREATE ROLE {role} LOGIN; GRANT USAGE ON SCHEMA bulkhead TO {role}; \
         GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA bulkhead TO {role}"
    );
    connection.execute(sqlx::AssertSqlSafe(sql)).await.unwrap();
    let url = database
        .url
        .replace("postgres://postgres@", &format!("postgres://{role}@"));
    let store = Store::open(&url).await.unwrap();
    let written = store.append(new("allowed"), 0).await.unwrap();
    assert_eq!(written, Written::Stored(1));
    store.close().await;
    let sql = format!("REVOKE SELECT ON bulkhead.generations FROM {role}");
    connection.execute(sqlx::AssertSqlSafe(sql)).await.unwrap();
    let store = Store::open(&url).await.unwrap();
    let error = store.newest_number().await.unwrap_err();
    assert!(matches!(error, StoreError::Refused(_)), "{error:?}");
    store.close().await;
    let sql = format!("DROP OWNED BY {role}; DROP ROLE {role}");
    connection.execute(sqlx::AssertSqlSafe(sql)).await.unwrap();
}

#[test]
fn a_database_that_does_not_exist_is_one_clear_line_without_the_password() {
    let Some(server) = postgres::shared() else {
        return;
    };
    let place = server
        .strip_prefix("postgres://")
        .and_then(|rest| rest.split(['@', '/']).nth(1))
        .unwrap();
    let url = format!("postgres://postgres:hunter2hunter2@{place}/no_such_database");
    let folder = tempfile::tempdir().unwrap();
    let config = Config {
        database_url: url.into(),
        ..config(folder.path())
    };
    let shown = format!("{config:?}");
    let error = control_plane::start(config).err().unwrap();
    let StartError::Store(error @ StoreError::Refused(_)) = &error else {
        unreachable!("{error:?}");
    };
    let source = std::error::Error::source(error).unwrap().to_string();
    assert!(source.contains("no_such_database"), "{source}");
    for text in [shown, error.to_string(), source, format!("{error:?}")] {
        assert!(!text.contains("hunter2"), "{text}");
    }
}

/// A control plane on a database of its own.
pub(crate) fn plane(url: &str) -> Plane {
    let folder = tempfile::tempdir().unwrap();
    let import = Some(policy_file(folder.path(), &policy()));
    let config = Config {
        database_url: url.into(),
        import,
        ..config(folder.path())
    };
    Plane::start_with(folder, config).unwrap()
}

/// The server goes down and comes back: changes are refused and told so, everything else goes on
/// from memory, and what was acknowledged is there afterwards.
#[test]
fn a_server_that_goes_away_takes_only_changes_with_it() {
    let mut server = match postgres::Server::start() {
        Ok(server) => server,
        Err(why) => return postgres::missing(&why),
    };
    let plane = plane(&server.url);
    assert_eq!(plane.patch("route/a", &json!({"limit": 7})).status, 200);
    for (order, answer) in [("stop", "stopped"), ("crash", "crashed")] {
        let generation = plane.generation();
        server.order(order, answer);
        let refused = plane.patch("route/a", &json!({"limit": 8}));
        assert_eq!(refused.status, 503, "{}", refused.text());
        assert_eq!(refused.header("retry-after"), Some("1"));
        assert!(refused.text().contains("store-away"), "{}", refused.text());
        assert_eq!(plane.generation(), generation, "the policy is in memory");
        for path in [
            "/",
            "/routes",
            "/compartments",
            "/compartments/route%2Fa",
            "/advice",
            "/gateways",
            "/alerts",
        ] {
            let page = crate::support::call(
                plane.address,
                "GET",
                path,
                &[(
                    "authorization",
                    &format!("Bearer {}", crate::support::TOKEN),
                )],
                b"",
            );
            assert_eq!(page.status, 200, "{}", page.text());
            assert!(
                page.text()
                    .contains("id=\"trouble\">The store does not answer"),
                "{path}"
            );
        }
        server.order("start", "started");
        eventually("changes are taken again", || {
            plane
                .patch("route/a", &json!({"limit": generation + 90}))
                .status
                == 200
        });
        let generations = plane.api("GET", "/generations", None).json();
        assert_eq!(generations[0]["number"], json!(plane.generation()));
        assert_eq!(
            generations.as_array().unwrap().len(),
            usize::try_from(plane.generation()).unwrap(),
            "no gap"
        );
    }
    // Cut off by the server while nothing is under way: the next call does not notice.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let mut connection = sqlx::PgConnection::connect(&server.url).await.unwrap();
        let sql = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
                   WHERE application_name = 'bulkhead'";
        assert!(!connection.fetch_all(sql).await.unwrap().is_empty());
    });
    assert_eq!(plane.patch("route/a", &json!({"limit": 99})).status, 200);
}

/// TLS by a certificate of an authority of our own, and a password that is checked.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_is_believed_by_its_certificate_and_believes_a_password() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    std::fs::write(at("server.crt"), made.cert.pem()).unwrap();
    std::fs::write(at("server.key"), made.signing_key.serialize_pem()).unwrap();
    let other = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    std::fs::write(at("other.crt"), other.cert.pem()).unwrap();
    let tls = folder.path().to_str().unwrap();
    let server = postgres::Server::start_with(&[
        ("BULKHEAD_TEST_POSTGRES_TLS", tls),
        ("BULKHEAD_TEST_POSTGRES_PASSWORD", "hunter2hunter2"),
    ]);
    let server = match server {
        Ok(server) => server,
        Err(why) => return postgres::missing(&why),
    };
    let named = server.url.replace("127.0.0.1", "localhost");
    let root = |name: &str| format!("sslmode=verify-full&sslrootcert={tls}/{name}");
    let open = async |url: &str, query: &str| Store::open(&format!("{url}?{query}")).await;
    let store = open(&named, &root("server.crt")).await.unwrap();
    store.append(new("hidden"), 0).await.unwrap();
    let mut connection = sqlx::PgConnection::connect(&server.url).await.unwrap();
    let sql = "SELECT bool_and(s.ssl) FROM pg_stat_ssl s JOIN pg_stat_activity a USING (pid) \
               WHERE a.application_name = 'bulkhead'";
    let encrypted = connection.fetch_one(sql).await.unwrap();
    assert_eq!(encrypted.get::<Option<bool>, _>(0), Some(true));
    store.close().await;
    for query in ["sslmode=require", "sslmode=prefer", "sslmode=disable"] {
        open(&named, query).await.unwrap().close().await;
    }
    // Another name, another authority, another password: each is refused, and none is told.
    let stranger = named.replace("hunter2hunter2", "hunter3hunter3");
    for (url, query) in [
        (&server.url, root("server.crt")),
        (&named, root("other.crt")),
        (&stranger, root("server.crt")),
    ] {
        let error = open(url, &query).await.unwrap_err();
        let source = std::error::Error::source(&error).map(ToString::to_string);
        let text = format!("{error} {source:?} {error:?}");
        assert!(!text.contains("hunter"), "{text}");
        if url == &stranger {
            assert!(matches!(error, StoreError::Refused(_)), "{text}");
        }
    }
}

/// 200 edits through the API, each on top of what its writer saw: who comes late is told both
/// versions, and the last one that was acknowledged is what is stored.
fn race(plane: &Plane) {
    let edits = |writer: usize| {
        let (mut won, mut last) = (0_usize, 0);
        for edit in 0..50 {
            let (_, seen) = plane.policy();
            let limit = 1 + writer * 50 + edit;
            let key = format!("/compartments/route%2F{}", ["a", "b"][writer % 2]);
            let change = json!({"limit": limit});
            let answer = plane.api_with("PATCH", &key, Some(&change), &[("if-match", &seen)]);
            let seen: u64 = seen.trim_matches('"').parse().unwrap();
            let body = answer.json();
            match answer.status {
                200 => {
                    won += 1;
                    last = body["generation"].as_u64().unwrap();
                    assert_eq!(last, seen + 1);
                }
                412 => {
                    assert_eq!(body["seen"], json!(seen));
                    assert!(body["current"].as_u64().unwrap() > seen, "{body}");
                    assert!(
                        !body["differences"].as_array().unwrap().is_empty(),
                        "{body}"
                    );
                }
                other => unreachable!("{other}: {body}"),
            }
        }
        (won, last)
    };
    let results: Vec<_> = std::thread::scope(|scope| {
        let writers: Vec<_> = (0..4)
            .map(|writer| scope.spawn(move || edits(writer)))
            .collect();
        let done = writers.into_iter().map(|writer| writer.join().unwrap());
        done.collect()
    });
    let won: usize = results.iter().map(|(won, _)| won).sum();
    let last = results.iter().map(|(_, last)| *last).max().unwrap();
    assert_eq!(plane.generation(), last, "the last one acknowledged");
    assert_eq!(u64::try_from(won).unwrap(), last - 1, "one generation each");
    assert!((1..200).contains(&won), "they did race: {won}");
}

#[test]
fn racing_edits_are_told_both_versions() {
    race(&Plane::start());
}

#[test]
fn racing_edits_are_told_both_versions_on_postgres() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    if let Some(database) = runtime.block_on(postgres::Database::new()) {
        race(&plane(&database.url));
    }
}
