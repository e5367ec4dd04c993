//! The audit as somebody finds it who may change tables at will: every row that was edited,
//! deleted, moved, put in or cut off is named, on both databases.

use control_plane::Secret;
use control_plane::store::{AuditRow, How, Store, Verified, verify};
use sha2::{Digest as _, Sha256};
use sqlx::{AssertSqlSafe, Executor as _, PgConnection, SqliteConnection};

use crate::contract::new;
use crate::support::postgres;

/// Rows of the audit in these tests.
const ROWS: u64 = 12;

enum Raw {
    Sqlite(SqliteConnection),
    Postgres(PgConnection),
}

struct Victim {
    url: String,
    raw: Raw,
    key: Option<Secret>,
    _folder: Option<tempfile::TempDir>,
    _database: Option<postgres::Database>,
}

/// One on each database, with rows of both kinds.
async fn victims() -> Vec<Victim> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    let url = format!("sqlite://{}", path.display());
    fill(&url, None).await;
    let raw = Raw::Sqlite(crate::store::raw(&path).await);
    let mut all = vec![Victim {
        url,
        raw,
        key: None,
        _folder: Some(folder),
        _database: None,
    }];
    if let Some(database) = postgres::Database::new().await {
        let key = Some(Secret::new(&"k".repeat(32)).unwrap());
        fill(&database.url, key.clone()).await;
        all.push(Victim {
            url: database.url.clone(),
            raw: Raw::Postgres(database.connect().await),
            key,
            _folder: None,
            _database: Some(database),
        });
    }
    all
}

async fn fill(url: &str, key: Option<Secret>) {
    let store = Store::open_with(url, key).await.unwrap();
    for n in 0..ROWS / 2 {
        store.append(new(&format!("change {n}")), n).await.unwrap();
        let audit = AuditRow {
            action: "drain".to_owned(),
            subject: format!("gateway:{n}"),
            who: "ä\u{202e},12:".to_owned(),
            ..AuditRow::default()
        };
        let name = format!("fact/{n}");
        store.put_meta(name, None, Some(audit)).await.unwrap();
    }
    store.close().await;
}

impl Victim {
    /// Runs statements, with `@` before the names of tables.
    async fn try_run(&mut self, sql: &str) -> Result<(), sqlx::Error> {
        let schema = match self.raw {
            Raw::Sqlite(_) => "",
            Raw::Postgres(_) => "bulkhead.",
        };
        for one in sql.split(';').filter(|one| !one.trim().is_empty()) {
            let one = one.replace("@", schema);
            let one = AssertSqlSafe(one);
            match &mut self.raw {
                Raw::Sqlite(raw) => raw.execute(one).await.map(drop)?,
                Raw::Postgres(raw) => raw.execute(one).await.map(drop)?,
            }
        }
        Ok(())
    }

    async fn run(&mut self, sql: &str) {
        let outcome = self.try_run(sql).await;
        outcome.unwrap_or_else(|error| unreachable!("{sql}: {error}"));
    }

    /// Whoever may change tables takes what protects them away, and keeps a copy for the next try.
    async fn lay_open(&mut self) {
        self.run(match self.raw {
            Raw::Sqlite(_) => "DROP INDEX audit_by_operation",
            Raw::Postgres(_) => "DROP INDEX bulkhead.audit_by_operation",
        })
        .await;
        self.unguard().await;
        self.run(
            "CREATE TABLE @good AS SELECT * FROM @audit; \
                  CREATE TABLE @good_meta AS SELECT * FROM @meta WHERE key = 'audit/head'",
        )
        .await;
    }

    async fn unguard(&mut self) {
        self.run(match self.raw {
            Raw::Sqlite(_) => {
                "DROP TRIGGER audit_is_not_changed; DROP TRIGGER audit_is_not_deleted"
            }
            Raw::Postgres(_) => {
                "ALTER TABLE bulkhead.audit DISABLE TRIGGER audit_is_not_changed; \
                 DROP TRIGGER audit_is_not_emptied ON bulkhead.audit"
            }
        })
        .await;
    }

    async fn repair(&mut self) {
        self.run(
            "DELETE FROM @audit; INSERT INTO @audit SELECT * FROM @good; \
                  DELETE FROM @meta WHERE key = 'audit/head'; \
                  INSERT INTO @meta SELECT * FROM @good_meta",
        )
        .await;
    }

    async fn verified(&self) -> Verified {
        verify(&self.url, self.key.clone(), &[]).await.unwrap()
    }

    /// What is found after these statements, before everything is as it was again.
    async fn after(&mut self, sql: &str) -> Option<(u64, How)> {
        self.run(sql).await;
        let verified = self.verified().await;
        self.repair().await;
        verified.broken.map(|broken| (broken.row, broken.how))
    }

    async fn column(&mut self, name: &str, id: u64) -> String {
        use sqlx::Row as _;
        let sql = |schema: &str| {
            AssertSqlSafe(format!("SELECT {name} FROM {schema}audit WHERE id = {id}"))
        };
        match &mut self.raw {
            Raw::Sqlite(raw) => raw.fetch_one(sql("")).await.unwrap().get(0),
            Raw::Postgres(raw) => raw.fetch_one(sql("bulkhead.")).await.unwrap().get(0),
        }
    }

    /// The digest of a row as anybody can compute it from the documentation, with another `who`.
    async fn digest(&mut self, of: u64, id: u64, previous: &str, who: &str) -> String {
        let mut texts = vec![
            "bulkhead-audit-1".to_owned(),
            previous.to_owned(),
            id.to_string(),
        ];
        for name in [
            "at",
            "action",
            "subject",
            "''",
            "origin",
            "CAST(generation_before AS TEXT)",
            "CAST(generation_after AS TEXT)",
            "differences",
            "comment",
            "request_id",
            "operation",
        ] {
            texts.push(match name {
                "''" => who.to_owned(),
                name => self.column(name, of).await,
            });
        }
        let mut hash = Sha256::new();
        for text in texts {
            hash.update(format!("{}:{text},", text.len()));
        }
        hash.finalize()
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn whatever_is_done_to_a_row_is_named() {
    for mut victim in victims().await {
        let calm = victim.verified().await;
        assert_eq!(
            (calm.rows, calm.signature, calm.broken),
            (ROWS, "good", None)
        );
        victim.lay_open().await;
        for k in 1..=ROWS {
            every_way(&mut victim, k).await;
        }
        let found = victim.verified().await.broken.unwrap();
        assert_eq!(
            (found.row, found.how),
            (ROWS, How::Unguarded),
            "all is as it was again but for the triggers"
        );
        let store = Store::open_with(&victim.url, victim.key.clone()).await;
        store.unwrap().close().await;
        let found = victim.verified().await;
        assert_eq!((found.rows, found.broken), (ROWS + 1, None));
        assert!(found.notes[0].contains("audit-guards: missing, and made anew: audit_is_not"));
        let error = victim.try_run("DELETE FROM @audit").await.unwrap_err();
        assert!(error.to_string().contains("append-only"), "{error}");
    }
}

async fn every_way(victim: &mut Victim, k: u64) {
    for column in [
        "at",
        "action",
        "subject",
        "who",
        "origin",
        "differences",
        "comment",
        "operation",
    ] {
        let found = victim
            .after(&format!("UPDATE @audit SET {column} = 'x' WHERE id = {k}"))
            .await;
        assert_eq!(found, Some((k, How::Edited)), "{column} of {k}");
    }
    let bare = victim
        .after(&format!("UPDATE @audit SET digest = '' WHERE id = {k}"))
        .await;
    assert_eq!(bare, Some((k, How::Unchained)));
    // Edited with the digest that belongs to it: the next row, or the head, gives it away.
    let previous = victim.column("previous", k).await;
    let digest = victim.digest(k, k, &previous, "mallory").await;
    let sql = format!("UPDATE @audit SET who = 'mallory', digest = '{digest}' WHERE id = {k}");
    assert_eq!(
        victim.after(&sql).await,
        Some((k, How::Edited)),
        "{k} with its digest"
    );
    let cut = victim
        .after(&format!("DELETE FROM @audit WHERE id >= {k}"))
        .await;
    assert_eq!(cut, Some((k, How::Truncated)), "from {k}");
    let gone = if k == ROWS {
        How::Truncated
    } else {
        How::Deleted
    };
    let deleted = victim
        .after(&format!("DELETE FROM @audit WHERE id = {k}"))
        .await;
    assert_eq!(deleted, Some((k, gone)), "{k}");
    if k < ROWS {
        let sql = format!(
            "DELETE FROM @audit WHERE id = {k}; UPDATE @audit SET id = -id WHERE id > {k}; \
             UPDATE @audit SET id = -id - 1 WHERE id < 0"
        );
        assert_eq!(
            victim.after(&sql).await,
            Some((k, How::Deleted)),
            "{k}, closed up"
        );
        let next = k + 1;
        let sql = format!(
            "UPDATE @audit SET id = -1 WHERE id = {k}; \
             UPDATE @audit SET id = {k} WHERE id = {next}; \
             UPDATE @audit SET id = {next} WHERE id = -1"
        );
        assert_eq!(
            victim.after(&sql).await,
            Some((k, How::Reordered)),
            "{k} and {next}"
        );
    }
    put_in(victim, k).await;
}

/// A row with a digest of its own, before `k` and after the last.
async fn put_in(victim: &mut Victim, k: u64) {
    let columns = "at, action, subject, origin, generation_before, generation_after, differences, \
                   comment, request_id, operation";
    let previous = victim.column("previous", k).await;
    let digest = victim.digest(k, k, &previous, "mallory").await;
    let sql = format!(
        "UPDATE @audit SET id = -id WHERE id >= {k}; UPDATE @audit SET id = -id + 1 WHERE id < 0; \
         INSERT INTO @audit (id, who, previous, digest, {columns}) \
         SELECT {k}, 'mallory', '{previous}', '{digest}', {columns} FROM @good WHERE id = {k}"
    );
    // What takes the place of the last one is told from it by the head.
    let how = if k == ROWS {
        How::Reordered
    } else {
        How::Inserted
    };
    assert_eq!(victim.after(&sql).await, Some((k, how)), "before {k}");
    let end = ROWS + 1;
    let previous = victim.column("digest", ROWS).await;
    let digest = victim.digest(k, end, &previous, "mallory").await;
    let sql = format!(
        "INSERT INTO @audit (id, who, previous, digest, {columns}) \
         SELECT {end}, 'mallory', '{previous}', '{digest}', {columns} FROM @good WHERE id = {k}"
    );
    assert_eq!(
        victim.after(&sql).await,
        Some((end, How::Inserted)),
        "{k} at the end"
    );
}

/// A tail that was cut off is found by the head, by what is known from elsewhere, and for good
/// once somebody writes on.
#[tokio::test(flavor = "multi_thread")]
async fn a_tail_that_was_cut_off_is_found_whatever_was_done_to_the_head() {
    for mut victim in victims().await {
        let known = victim.column("digest", 9).await;
        let head = victim.column("digest", ROWS).await;
        let wrong = [(9, "0".repeat(64))];
        victim.lay_open().await;
        let found = verify(&victim.url, victim.key.clone(), &wrong)
            .await
            .unwrap();
        assert_eq!(
            found.broken.map(|broken| (broken.row, broken.how)),
            Some((9, How::Edited))
        );
        let back = format!(
            "UPDATE @meta SET value = REPLACE(REPLACE(value, '\"id\":12', '\"id\":9'), \
             '{head}', '{known}') WHERE key = 'audit/head'"
        );
        let cut = "DELETE FROM @audit WHERE id > 9";
        let moved = victim.after(&format!("{cut}; {back}")).await;
        assert_eq!(moved, Some((9, How::Head)), "its mark is not of the key");
        let none = victim
            .after(&format!(
                "{cut}; DELETE FROM @meta WHERE key = 'audit/head'"
            ))
            .await;
        assert_eq!(none, Some((9, How::Head)), "no head at all");
        // Without the key, who knows a later row finds it still.
        victim.run(&format!("{cut}; {back}")).await;
        let other = Some(Secret::new(&"o".repeat(32)).unwrap());
        let found = verify(&victim.url, other, &[]).await.unwrap();
        assert_eq!(found.signature, "another");
        let found = verify(&victim.url, victim.key.clone(), &[(12, head.clone())])
            .await
            .unwrap();
        assert_eq!(
            found.broken.map(|broken| (broken.row, broken.how)),
            Some((10, How::Truncated))
        );
        // The control plane goes on, and says so.
        let store = Store::open_with(&victim.url, victim.key.clone())
            .await
            .unwrap();
        store.append(new("on"), ROWS / 2).await.unwrap();
        let rows = store.audit(3).await.unwrap();
        let actions: Vec<&str> = rows.iter().map(|row| row.action.as_str()).collect();
        assert_eq!(actions, ["put", "audit-guards", "audit-head"]);
        assert_eq!(rows[2].comment, "the head was forged");
        store.close().await;
        let found = victim.verified().await.broken.unwrap();
        assert_eq!((found.row, found.how), (10, How::Head), "{found:?}");
        victim.unguard().await;
        victim.repair().await;
        // With the head left alone, the break stays in the chain.
        victim
            .run(&format!("{cut}; DELETE FROM @generations WHERE number > 6"))
            .await;
        let store = Store::open_with(&victim.url, victim.key.clone())
            .await
            .unwrap();
        let audit = AuditRow {
            action: "drain".to_owned(),
            ..AuditRow::default()
        };
        store
            .put_meta("fact".to_owned(), None, Some(audit))
            .await
            .unwrap();
        store.close().await;
        let found = victim.verified().await.broken.unwrap();
        assert_eq!((found.row, found.how), (10, How::Deleted), "{found:?}");
    }
}

/// The tables themselves refuse what is no new row; rows that a build from before writes beside
/// us are chained, and that is told.
#[tokio::test(flavor = "multi_thread")]
async fn rows_stay_and_those_of_an_older_build_are_chained_and_told() {
    for mut victim in victims().await {
        for sql in [
            "UPDATE @audit SET who = 'mallory' WHERE id = 3",
            "UPDATE @audit SET digest = 'x' WHERE id = 3",
            "DELETE FROM @audit WHERE id = 3",
            "DELETE FROM @audit",
        ] {
            let error = victim.try_run(sql).await.unwrap_err().to_string();
            assert!(error.contains("append-only"), "{sql}: {error}");
        }
        if matches!(victim.raw, Raw::Postgres(_)) {
            let error = victim.try_run("TRUNCATE @audit").await.unwrap_err();
            assert!(error.to_string().contains("append-only"), "{error}");
        }
        let older = "INSERT INTO @audit (at, action, who, origin, generation_before, \
                     generation_after, differences, request_id) \
                     VALUES ('then', 'put', 'older', '', 6, 6, '', '')";
        victim.run(older).await;
        let store = Store::open_with(&victim.url, victim.key.clone())
            .await
            .unwrap();
        let found = victim.verified().await;
        assert_eq!((found.rows, found.broken), (ROWS + 2, None), "by the start");
        victim.run(older).await;
        victim.run(older).await;
        store.append(new("on"), ROWS / 2).await.unwrap();
        store.close().await;
        let found = victim.verified().await;
        assert_eq!((found.rows, found.broken), (ROWS + 6, None));
        assert!(found.notes[0].ends_with("audit-chained: 1 rows up to 13 had no digest until now"));
        assert!(found.notes[1].ends_with("audit-chained: 2 rows up to 16 had no digest until now"));
    }
}

/// Without the key nobody has rows signed that he changed: not by passing them off as old ones,
/// nor by a key of his own.
#[tokio::test(flavor = "multi_thread")]
async fn rows_that_lost_their_digests_are_never_signed_again() {
    let last = format!("id > {}", ROWS - 3);
    let gone = "DELETE FROM @meta WHERE key = 'audit/head'";
    for (rows, head, broken) in [
        ("TRUE", gone, (1, How::Unchained)),
        ("TRUE", "", (1, How::Unchained)),
        (&*last, gone, (ROWS - 2, How::Unchained)),
        (&*last, "", (ROWS - 2, How::Unchained)),
        ("FALSE", gone, (ROWS + 1, How::Head)),
    ] {
        for mut victim in victims().await {
            victim.lay_open().await;
            let sql = format!(
                "UPDATE @audit SET who = 'mallory', previous = '', digest = '' WHERE {rows}; {head}"
            );
            victim.run(&sql).await;
            let store = Store::open_with(&victim.url, victim.key.clone())
                .await
                .unwrap();
            let told = store.audit(2).await.unwrap();
            assert_eq!(told[0].action, "audit-guards");
            assert_eq!(told[1].action, "audit-head", "{rows} {head}");
            store.append(new("on"), ROWS / 2).await.unwrap();
            store.close().await;
            let store = Store::open_with(&victim.url, victim.key.clone()).await;
            store.unwrap().close().await;
            let found = victim.verified().await.broken.unwrap();
            assert_eq!((found.row, found.how), broken, "{rows} {head}: {found:?}");
        }
    }
}

/// A head of another key is somebody's who changed the key, or had none: who did it says what was
/// there before.
#[tokio::test(flavor = "multi_thread")]
async fn another_key_is_told_until_somebody_answers_for_it() {
    for mut victim in victims().await {
        let known = (ROWS, victim.column("digest", ROWS).await);
        let key = Some(Secret::new(&"n".repeat(32)).unwrap());
        let store = Store::open_with(&victim.url, key.clone()).await.unwrap();
        store.append(new("on"), ROWS / 2).await.unwrap();
        store.close().await;
        let found = verify(&victim.url, key.clone(), &[]).await.unwrap();
        let broken = found.broken.unwrap();
        assert_eq!((broken.row, broken.how), (ROWS + 1, How::Head));
        assert!(
            broken
                .detail
                .contains(&format!("--expect {ROWS}:{}", known.1))
        );
        let found = verify(&victim.url, key.clone(), &[known]).await.unwrap();
        assert_eq!((found.rows, found.broken), (ROWS + 2, None));
        let wrong = [(ROWS, "0".repeat(64))];
        assert!(
            verify(&victim.url, key, &wrong)
                .await
                .unwrap()
                .broken
                .is_some()
        );
    }
}
