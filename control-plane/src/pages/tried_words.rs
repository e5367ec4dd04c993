//! What limits say of a tried request, in words: each by itself, and in the end all together.
//!
//! Separate from the limits, which judge and say nothing. It must never call a request refused
//! where it is only judged, nor admitted everywhere where one gateway refuses it.

use compartment::Rejection;
use compartment::policy::{Fallback, Route};
use web::{Tried, TriedStep};

/// What one gateway would say at one limit.
pub(super) enum Says {
    Passes,
    /// A few do, to see whether what is behind it is well again; the others are refused.
    Probes,
    Waits,
    Refuses(Rejection),
    /// It would, and is only judged.
    Judged(Rejection),
}

/// One limit, and what each gateway says there.
pub(super) struct Asked {
    pub(super) step: TriedStep,
    pub(super) says: Vec<Says>,
}

/// What a limit says, and the class of that word.
pub(super) fn words(says: &[Says]) -> (String, &'static str) {
    let count = |wanted: fn(&Says) -> bool| says.iter().filter(|says| wanted(says)).count();
    let refused = says.iter().find_map(|says| match says {
        Says::Refuses(why) => Some(*why),
        Says::Passes | Says::Probes | Says::Waits | Says::Judged(_) => None,
    });
    let judged = says.iter().find_map(|says| match says {
        Says::Judged(why) => Some(*why),
        Says::Passes | Says::Probes | Says::Waits | Says::Refuses(_) => None,
    });
    let refuse = count(|says| matches!(says, Says::Refuses(_)));
    let wait = count(|says| matches!(says, Says::Waits));
    let probe = count(|says| matches!(says, Says::Probes));
    match (refused, wait, probe, judged) {
        _ if says.is_empty() => ("not known".to_owned(), "idle"),
        (Some(why), ..) => (
            format!("{}{}", why.as_str(), on(refuse, says.len())),
            "full",
        ),
        (None, 1.., ..) => (format!("waits{}", on(wait, says.len())), "nearly"),
        (None, 0, 1.., _) => (
            format!("passes probes alone{}", on(probe, says.len())),
            "nearly",
        ),
        (None, 0, 0, Some(why)) => (format!("passes, {} in shadow", why.as_str()), "nearly"),
        (None, 0, 0, None) => ("passes".to_owned(), "busy"),
    }
}

/// Nothing where that is all of one.
fn on(count: usize, gateways: usize) -> String {
    match gateways {
        1 => String::new(),
        _ => format!(" on {count} of {gateways} gateways"),
    }
}

/// What comes of a request on one gateway.
enum End<'a> {
    Admitted,
    /// As long as this breaker has a place for a probe.
    Probe(&'a TriedStep),
    Waits,
    Refused(&'a TriedStep),
}

/// How a request would end on the gateway at this place.
fn end(steps: &[Asked], gateway: usize) -> End<'_> {
    let mut end = End::Admitted;
    for asked in steps {
        match asked.says.get(gateway) {
            Some(Says::Refuses(_)) => return End::Refused(&asked.step),
            // What is behind the line is asked when its turn comes.
            Some(Says::Waits) => return End::Waits,
            Some(Says::Probes) => end = End::Probe(&asked.step),
            Some(Says::Passes | Says::Judged(_)) | None => {}
        }
    }
    end
}

/// What would become of the request, of all that so many gateways say.
pub(super) fn verdict(gateways: usize, steps: &[Asked], route: &Route, tried: &mut Tried) {
    if gateways == 0 {
        tried.verdict =
            "No gateway reports, so nobody knows what is in flight. It goes to".to_owned();
        tried.class = "stale";
        return;
    }
    let (mut refuse, mut wait, mut probe) = (Vec::new(), 0_usize, Vec::new());
    for gateway in 0..gateways {
        match end(steps, gateway) {
            End::Admitted => {}
            End::Probe(step) => probe.push(step.key.as_str()),
            End::Waits => wait += 1,
            End::Refused(step) => refuse.push(step.key.as_str()),
        }
    }
    let on = |count: usize| match count == gateways {
        true => String::new(),
        false => on(count, gateways),
    };
    if !refuse.is_empty() || !probe.is_empty() {
        tried.instead = instead(route);
    }
    let (what, class) = match (refuse.len(), wait, probe.len()) {
        (0, 0, 0) => ("admitted now".to_owned(), "good"),
        (0, 0, count) => {
            let keys = either(probe);
            let place = on(count);
            let words = format!("admitted now{place} as a probe alone: {keys} lets few through");
            (words, "stale")
        }
        (0, count, _) => (format!("kept waiting for a slot now{}", on(count)), "stale"),
        (count, ..) => {
            let class = if count == gateways { "bad" } else { "stale" };
            let keys = either(refuse);
            (format!("refused now{}, by {keys}", on(count)), class)
        }
    };
    (tried.verdict, tried.class) = (format!("Would be {what}. It goes to"), class);
}

/// Each once: gateways may differ.
fn either(mut keys: Vec<&str>) -> String {
    keys.sort_unstable();
    keys.dedup();
    keys.join(" or ")
}

/// What the caller gets when it is refused.
fn instead(route: &Route) -> String {
    let step = |step: &Fallback| match step {
        Fallback::Stale { .. } => "a stored answer",
        Fallback::Upstream { .. } => "another upstream",
        Fallback::Static { .. } => "the fixed answer",
    };
    let steps: Vec<&str> = route.fallback.iter().map(step).collect();
    match steps.is_empty() {
        true => "Refused, the caller gets the error: the route has no fallback.".to_owned(),
        false => format!(
            "Refused, the caller gets the first of these that has an answer: {}, the error.",
            steps.join(", ")
        ),
    }
}
