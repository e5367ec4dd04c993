//! `[routes.timeout]` and `[routes.retry]`.
//!
//! Separate because they say what happens around a permit, not how many there are. It must never
//! accept a value that has no effect.

use std::time::Duration;

use super::cursor::{Keys, Node, Table};
use super::fault::Faults;
use super::scalar::{duration, fraction, whole, word};
use super::text::header_name;
use super::types::{Retry, RetryOn, Timeouts};

/// The most attempts in all.
pub const ATTEMPTS_MAX: u32 = 10;

const TIMEOUT_KEYS: Keys = Keys {
    known: &["attempt", "total", "body_idle", "deadline_header"],
    unenforced: &[],
};
const RETRY_KEYS: Keys = Keys {
    known: &["attempts", "budget", "window", "on", "idempotency_header"],
    unenforced: &[],
};

/// What holds without a `[routes.timeout]`.
pub(super) fn timeouts_default() -> Timeouts {
    Timeouts {
        attempt: Duration::from_secs(15),
        total: Duration::from_secs(60),
        body_idle: None,
        deadline_header: None,
    }
}

/// `[routes.timeout]`.
pub(super) fn timeouts(node: Node<'_>, faults: &mut Faults) -> Option<Timeouts> {
    let default = timeouts_default();
    let table = Table::open(node, TIMEOUT_KEYS, faults)?;
    let attempt = table.or("attempt", default.attempt, faults, duration);
    let total = table.or("total", default.total, faults, duration);
    let body_idle = table.optional("body_idle", faults, duration);
    let deadline_header = table.optional("deadline_header", faults, header_name);
    Some(Timeouts {
        attempt: attempt?,
        total: total?,
        body_idle: body_idle?,
        deadline_header: deadline_header?,
    })
}

/// `[routes.retry]`.
pub(super) fn retry(node: Node<'_>, faults: &mut Faults) -> Option<Retry> {
    let table = Table::open(node, RETRY_KEYS, faults)?;
    let attempts = table.required("attempts", faults, |node, faults| {
        whole(node, 1, ATTEMPTS_MAX, faults)
    });
    let budget = table.optional("budget", faults, |node, faults| {
        fraction(node, true, 1, faults)
    });
    let window = table.or("window", Duration::from_secs(10), faults, duration);
    let on = table.or("on", RETRY_ON_DEFAULT, faults, retry_on);
    let idempotency_header = table.optional("idempotency_header", faults, header_name);
    Some(Retry {
        attempts: attempts?,
        budget: budget?,
        window: window?,
        on: on?,
        idempotency_header: idempotency_header?,
    })
}

const RETRY_ON_DEFAULT: RetryOn = RetryOn {
    connect: true,
    reset: true,
    status_502: true,
    status_503: true,
    status_504: true,
    timeout: false,
};

fn retry_on(node: Node<'_>, faults: &mut Faults) -> Option<RetryOn> {
    type Cause = fn(&mut RetryOn) -> &mut bool;
    let causes: [(&str, Cause); 6] = [
        ("connect", |on| &mut on.connect),
        ("reset", |on| &mut on.reset),
        ("502", |on| &mut on.status_502),
        ("503", |on| &mut on.status_503),
        ("504", |on| &mut on.status_504),
        ("timeout", |on| &mut on.timeout),
    ];
    let mut on = RetryOn {
        connect: false,
        reset: false,
        status_502: false,
        status_503: false,
        status_504: false,
        timeout: false,
    };
    let named = node.each(causes.len(), faults, |node, faults| {
        let cause = word(node, &causes, faults)?;
        if std::mem::replace(cause(&mut on), true) {
            return faults.broken(node, "is named twice");
        }
        Some(())
    })?;
    if named.is_empty() {
        return faults.broken(
            node,
            "must name at least one cause; leave out retry for none",
        );
    }
    Some(on)
}
