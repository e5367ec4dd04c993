//! The fallback of a route on its page: its steps, and the button that rehearses them.
//!
//! Separate from the form because nothing of the policy changes. It must never rehearse on a read.

use axum::extract::{Path, Request, State};
use axum::response::Response;
use compartment::Key;
use compartment::policy::Policy;
use web::url;

use super::frame::Asked;
use super::readings::Snapshot;
use super::{PageError, see_other};
use crate::api;
use crate::auth;
use crate::drills::{Drill, Step};
use crate::readings::figures_of;
use crate::state::AppState;

/// The ladder of this key, when it is a route's.
pub(super) fn ladder(
    state: &AppState,
    snapshot: &Snapshot,
    policy: &Policy,
    key: &Key,
) -> Option<web::Ladder> {
    let Key::Route(id) = key else { return None };
    let route = policy.routes.iter().find(|route| route.id == *id)?;
    if route.fallback.is_empty() {
        return None;
    }
    let (mut told, key) = (Vec::new(), key.to_string());
    for (_, figures) in snapshot.figured() {
        let own = figures_of(figures, &key);
        let steps = own.map(|one| one.fallbacks.as_slice()).unwrap_or_default();
        compartment::StepFigures::add_all(&mut told, steps);
    }
    let last = state.drills.last_of(id.as_str());
    Some(web::Ladder {
        rehearsal: last.as_ref().map(rehearsal),
        ..web::Ladder::of(policy, route, &told)
    })
}

fn rehearsal(drill: &Drill) -> web::Rehearsal {
    let mut rows = Vec::new();
    for (gateway, told) in &drill.gateways {
        let Some(told) = told else {
            rows.push((gateway.clone(), String::new(), "did not answer".to_owned()));
            continue;
        };
        if let Some(why) = &told.refused {
            rows.push((gateway.clone(), String::new(), why.clone()));
        }
        let steps = told.steps.iter();
        rows.extend(steps.map(|step| (gateway.clone(), step.kind.clone(), came_to(step))));
    }
    web::Rehearsal {
        at: drill.at.clone(),
        passed: drill.passed,
        rows,
    }
}

fn came_to(step: &Step) -> String {
    if !step.answers {
        let why = step.why.as_deref().unwrap_or("no answer");
        return format!("no: {}", why.replace('_', " "));
    }
    match (step.stored, step.status) {
        (Some(stored), _) => format!("yes: {stored} stored"),
        (None, Some(status)) => {
            format!("yes: {status} in {}", web::text::micros(step.took_us))
        }
        (None, None) => "yes".to_owned(),
    }
}

/// The button.
pub(super) async fn rehearse(
    State(state): State<AppState>,
    Path(key): Path<String>,
    request: Request,
) -> Response {
    let (author, asked) = (auth::author(request.extensions()), Asked::of(&request));
    let Ok(Key::Route(id)) = key.parse::<Key>() else {
        return super::missing(request).await;
    };
    let drilled = api::drills::rehearse(&state, id.as_str(), "", &author.name).await;
    match drilled {
        Ok(_) => see_other(&format!("{}#fallback", url::compartment(&key))),
        Err(problem) => {
            let error = PageError::Refused {
                status: problem.status(),
                what: problem.detail().to_owned(),
            };
            error.answer(&asked.request_id, Some(url::compartment(&key)))
        }
    }
}
