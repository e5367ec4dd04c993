//! What must hold for both databases and can only be seen from inside: statements that are all
//! known and all good, migrations that are the same.

use std::path::Path;

use sqlx::{Connection as _, Executor as _};

use super::{Store, figures, open, postgres, sqlite, test_postgres};
use crate::history::Step;

#[tokio::test(flavor = "multi_thread")]
async fn every_statement_is_prepared_on_sqlite() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite://{}/store.db", folder.path().display());
    let _store = Store::open(&url).await.unwrap();
    let mut connection = sqlx::SqliteConnection::connect(&url).await.unwrap();
    assert!(sqlite::ALL.len() > 15);
    for (name, sql) in sqlite::ALL {
        let prepared = sqlx::AssertSqlSafe(*sql);
        let prepared = connection
            .prepare(sqlx::SqlSafeStr::into_sql_str(prepared))
            .await;
        assert!(prepared.is_ok(), "{name}: {prepared:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_statement_is_prepared_on_postgres() {
    let Some(database) = test_postgres::Database::new().await else {
        return;
    };
    let _store = Store::open(&database.url).await.unwrap();
    let place = super::history_of(&database.url).unwrap();
    let _figures = figures::Figures::open(&place).await.unwrap();
    let mut connection = database.connect().await;
    let mut all: Vec<(&str, &str)> = postgres::ALL.to_vec();
    all.extend(figures::ALL_ON_POSTGRES);
    for (name, of) in figures::BY_STEP_ON_POSTGRES {
        all.extend(Step::ALL.map(|step| (*name, of(step))));
    }
    assert!(all.len() > 80, "{}", all.len());
    for (name, sql) in &all {
        let prepared = sqlx::AssertSqlSafe(*sql);
        let prepared = connection
            .prepare(sqlx::SqlSafeStr::into_sql_str(prepared))
            .await;
        assert!(prepared.is_ok(), "{name}: {prepared:?}");
    }
}

/// The two tests above see every statement: none is written where it is used.
#[test]
fn no_statement_stands_outside_the_tables() {
    fn walk(folder: &Path, found: &mut Vec<String>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if path.is_dir() {
                walk(&path, found);
            } else if name != "sql.rs" && !name.contains("tests") {
                let text: String = std::fs::read_to_string(&path).unwrap();
                let text: String = text.split_whitespace().collect();
                for call in ["query(\"", ".execute(\"", ".fetch_one(\"", ".fetch_all(\""] {
                    let in_a_test = text.find("#[cfg(test)]").unwrap_or(text.len());
                    if text[..in_a_test].contains(call) {
                        found.push(format!("{}: {call}", path.display()));
                    }
                }
            }
        }
    }
    let mut found = Vec::new();
    walk(
        &Path::new(env!("CARGO_MANIFEST_DIR")).join("src/store"),
        &mut found,
    );
    // What a file is; and the history's file, where every statement is run by its own tests.
    found.retain(|line| !line.contains("store/open.rs") && !line.contains("figures/sqlite"));
    assert!(found.is_empty(), "{found:#?}");
}

#[test]
fn migrations_have_equal_numbers_and_names() {
    let of = |migrations: &[(i64, &'static str, &'static str)]| {
        let pair = |(number, name, _): &(i64, &'static str, &'static str)| (*number, *name);
        migrations.iter().map(pair).collect::<Vec<_>>()
    };
    let store = of(&open::MIGRATIONS);
    assert_eq!(store, of(&postgres::MIGRATIONS));
    let history = of(&figures::MIGRATIONS_ON_SQLITE);
    assert_eq!(history, of(&figures::MIGRATIONS_ON_POSTGRES));
    assert!(store.is_sorted_by(|one, next| one.0 < next.0), "they rise");
    for (folder, here) in [
        ("sqlite", &store),
        ("postgres", &store),
        ("sqlite-history", &history),
        ("postgres-history", &history),
    ] {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../migrations")
            .join(folder);
        let mut files: Vec<_> = std::fs::read_dir(&folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        files.sort();
        let named = here
            .iter()
            .map(|(number, name)| format!("{number:04}_{name}.sql"));
        assert_eq!(files, named.collect::<Vec<_>>(), "{}", folder.display());
    }
}
