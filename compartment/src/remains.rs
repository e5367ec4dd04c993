//! What is left in a hull when nobody is in it.
//!
//! Separate because no figure shows it: ghosts, borrowed slots that a credit pays for, streams
//! among a tenant's requests, the mark that somebody waits. A test or a soak that has ended asks
//! once; a number here is a bug, before it is one that anybody feels. It must never be asked by
//! a request.

use std::sync::Arc;

use crate::Hull;
use crate::cells::Cell;
use crate::route::Route;
use crate::sync::lock;

/// Something that was not given back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remains {
    /// The key of the compartment.
    pub key: Arc<str>,
    /// What is counted.
    pub what: &'static str,
    /// How many.
    pub count: u32,
}

impl Hull {
    /// All that is counted beside the figures and should be nothing once every request has ended.
    pub fn remains(&self) -> Vec<Remains> {
        let ((named, absent), sides) = {
            let rosters = lock(&self.rosters);
            (rosters.routes.all(), rosters.sides())
        };
        let mut all = Vec::new();
        for route in named.iter().chain(&absent).chain(&sides) {
            of_route(route, &mut all);
        }
        all
    }
}

impl Hull {
    /// How many ways through the levels are known: those of the policy in force, and those that
    /// were replaced and may be in use still.
    pub fn ways_known(&self) -> usize {
        lock(&self.rosters).ways.len()
    }
}

fn of_route(route: &Route, all: &mut Vec<Remains>) {
    let (shadow, candidate) = route.ghosts.counts();
    let in_line = u32::try_from(route.queue.line().len()).unwrap_or(u32::MAX);
    let counts = [
        ("ghosts of the limit", shadow),
        ("ghosts of the candidate", candidate),
        ("borrowed on credit", route.credit_held()),
        ("in line", in_line),
        (
            "marked as waited for",
            u32::from(route.word().load().has_waiters()),
        ),
    ];
    note(route.slots.key(), &counts, all);
    route.cells.each(&mut |cell: &Cell| {
        let (ghosts, ghost_streams) = cell.ghost.counts();
        let counts = [
            ("ghosts of the tenant", ghosts),
            ("streams among them", ghost_streams),
            ("streams of the tenant", cell.streams()),
        ];
        note(&cell.key, &counts, all);
    });
}

fn note(key: &Arc<str>, counts: &[(&'static str, u32)], all: &mut Vec<Remains>) {
    for &(what, count) in counts.iter().filter(|(_, count)| *count > 0) {
        let key = Arc::clone(key);
        all.push(Remains { key, what, count });
    }
}
