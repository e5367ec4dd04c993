//! `migrate`, `backup`, `restore`: what they say and how they end.

mod support;

use std::path::Path;

use support::{Process, run, stderr, stdout};

fn code(folder: &Path, args: &[&str], want: i32) -> String {
    let output = run(folder, args);
    let text = format!("{}{}", stdout(&output), stderr(&output));
    assert_eq!(output.status.code(), Some(want), "{args:?}: {text}");
    text
}

#[test]
fn a_store_is_copied_in_use_and_put_back_when_nobody_uses_it() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let data = data.to_str().unwrap();
    let of = ["--data-dir", data];
    let with = |command: &'static [&'static str]| [command, &of[..]].concat();
    let said = code(folder.path(), &with(&["migrate", "--check"]), 1);
    assert!(said.contains("policy: at 0"), "{said}");
    let said = code(folder.path(), &with(&["migrate"]), 0);
    assert!(said.contains("policy: migrated from 0 to "), "{said}");
    assert!(said.contains("history: migrated from 0 to "), "{said}");
    let said = code(folder.path(), &with(&["migrate", "--check"]), 0);
    assert!(said.contains("policy: up to date at "), "{said}");

    let up = Process::up(folder.path(), "up", &[]);
    let said = code(folder.path(), &with(&["backup", "copy.db"]), 0);
    assert!(said.contains("1 generations, the newest is 1"), "{said}");
    code(folder.path(), &with(&["restore", "copy.db"]), 1);
    drop(up);
    let said = code(folder.path(), &with(&["restore", "copy.db"]), 0);
    assert!(
        said.contains("generation 1 is the newest of store "),
        "{said}"
    );
    assert!(said.contains("what was there is in "), "{said}");
    code(folder.path(), &with(&["restore", "nothing.db"]), 1);
}

#[test]
fn a_wrong_url_is_said_without_its_password() {
    let folder = tempfile::tempdir().unwrap();
    for (url, status) in [
        ("postgres://me:hunter2hunter2@127.0.0.1:9/d", 1),
        (
            "postgres://me:hunter2hunter2@127.0.0.1/d?nonsense=hunter2hunter2",
            1,
        ),
        ("mysql://me:hunter2hunter2@127.0.0.1/d", 2),
    ] {
        let args = ["migrate", "--check", "--database-url", url];
        let text = code(folder.path(), &args, status);
        assert!(!text.contains("hunter2"), "{text}");
    }
}
