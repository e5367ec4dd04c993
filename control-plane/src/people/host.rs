//! A user reset on the host itself, for an installation whose last admin forgot the password.
//!
//! Separate because it is the one door that asks for no credential: whoever may write the store's
//! files could do anything anyway. It works beside a control plane that runs, and leaves its row in
//! the audit. It must never print more than the code that was just made.

use wire::Secret;

use super::{People, PeopleError, UserChange};
use crate::clock;
use crate::limits::Author;
use crate::store::Store;

/// Takes this user's password and sessions away; the answer is a one-time code that sets a new one.
/// With `None`, or when there is nobody, all that is said is that there is nobody of that name.
pub async fn reset(
    database_url: &str,
    audit_key: Option<Secret>,
    name: &str,
) -> Result<Secret, PeopleError> {
    let store = Store::open_with(database_url, audit_key).await?;
    let people = People::open(store.clone()).await?;
    let author = Author {
        name: "host".to_owned(),
        origin: String::new(),
        ..Author::default()
    };
    let name = super::rows::user_name(name)?;
    let change = UserChange {
        reset: true,
        disabled: Some(false),
        role: None,
    };
    let changed = people.reset_from_host(&name, change, &author, clock::unix_ms());
    let changed = changed.await;
    store.close().await;
    changed
}
