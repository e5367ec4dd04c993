//! `GET /changes`, `/changes/{number}` and `/generations/{number}`.
//!
//! Separate from the steps, which show the same page when they are refused. What a change would do
//! is worked out elsewhere; here it becomes words. It must never change anything.

use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query, Request, State};
use axum::response::Response;
use http::StatusCode;
use serde::Deserialize;
use web::{
    CHANGE_LINES_MAX, ChangeLine, ChangePage, ChangesPage, ClashLine, ComparedLine,
    DIFFERENCE_LINES_MAX, DifferenceLine, GENERATION_LINES_MAX, GenerationLine, GenerationPage,
    SumLine, Template as _, TypedStep, url,
};

use super::frame::{Asked, moment};
use super::readings::Snapshot;
use super::{PageError, html};
use crate::changes::{Change, ChangeError, Clash, Differs, Shown, State as Becomes, Sum};
use crate::clock;
use crate::limits;
use crate::settings::Approvals;
use crate::state::AppState;
use crate::store::Generation;

/// What the address asks for.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct View {
    fragment: String,
    state: String,
    before: String,
}

pub(super) async fn list(
    State(state): State<AppState>,
    view: Result<Query<View>, QueryRejection>,
    request: Request,
) -> Response {
    let Query(view) = view.unwrap_or_default();
    let asked = Asked::of(&request);
    match listed(&state, &asked, &view).await {
        Ok(body) => html(StatusCode::OK, body),
        Err(error) => error.answer(&asked.request_id, Some("/changes".to_owned())),
    }
}

async fn listed(state: &AppState, asked: &Asked, view: &View) -> Result<String, PageError> {
    let current = state.policy_current().await;
    let snapshot = Snapshot::take(state);
    let wanted = Becomes::from_name(&view.state);
    let before = view.before.parse().ok();
    let count = u32::try_from(CHANGE_LINES_MAX).unwrap_or(u32::MAX);
    let changes = state.changes.list(before, wanted, count).await;
    let generations = u32::try_from(GENERATION_LINES_MAX).unwrap_or(u32::MAX);
    let generations = state.generations(None, generations).await;
    let needs = state.settings.approvals().await;
    let store_silent = changes.is_err();
    let lines: Vec<_> = changes.unwrap_or_default().iter().map(line).collect();
    let oldest = lines.last().map(|line| line.number);
    let page = ChangesPage {
        frame: asked.frame(&current, &snapshot, "/changes".to_owned()),
        needs_second: needs.is_ok_and(|needs| needs == Approvals::All),
        state: wanted.map_or(String::new(), |state| state.as_str().to_owned()),
        older: oldest.filter(|oldest| lines.len() >= CHANGE_LINES_MAX && *oldest > 1),
        lines,
        generations: generations
            .unwrap_or_default()
            .iter()
            .map(generation_line)
            .collect(),
        store_silent,
    };
    Ok(match view.fragment.as_str() {
        "live" => page.fragment()?,
        _ => page.render()?,
    })
}

pub(super) async fn show(
    State(state): State<AppState>,
    Path(number): Path<String>,
    view: Result<Query<View>, QueryRejection>,
    request: Request,
) -> Response {
    let Query(view) = view.unwrap_or_default();
    let asked = Asked::of(&request);
    let shown = async {
        let number = parse(&number)?;
        let page = page(&state, &asked, number, None, TypedStep::default()).await?;
        Ok(match view.fragment.as_str() {
            "live" => page.fragment()?,
            _ => page.render()?,
        })
    };
    match shown.await {
        Ok(body) => html(StatusCode::OK, body),
        Err(error) => answer(&error, &asked),
    }
}

fn answer(error: &PageError, asked: &Asked) -> Response {
    error.answer(&asked.request_id, Some("/changes".to_owned()))
}

/// The number in an address.
pub(super) fn parse(number: &str) -> Result<u64, PageError> {
    let what = "There is no such change.";
    number.parse().map_err(|_| PageError::NotFound { what })
}

/// The page of one change; `refused` says why a step was not taken.
pub(super) async fn page(
    state: &AppState,
    asked: &Asked,
    number: u64,
    refused: Option<String>,
    typed: TypedStep,
) -> Result<ChangePage, PageError> {
    let shown = state.change_shown(number).await.map_err(of_change)?;
    let current = state.policy_current().await;
    let snapshot = Snapshot::take(state);
    let connected = state.gateways().into_iter().filter(|one| one.connected);
    let frame = asked.frame(&current, &snapshot, url::change(number));
    let change = &shown.change;
    let body = &change.body;
    let is_own = body.contributors.contains(&asked.person);
    let left = body
        .confirm_by_ms
        .filter(|_| change.state == Becomes::Published);
    let left = left.map(|by| by.saturating_sub(clock::unix_ms()).max(0) / 1_000);
    Ok(ChangePage {
        line: line(change),
        version: change.version,
        base: body.base,
        needs_approval: shown.needs_approval,
        contributors: body.contributors.clone(),
        is_own,
        approvals: body
            .approvals
            .iter()
            .map(|one| (one.by.clone(), moment(&one.at), one.comment.clone()))
            .collect(),
        staged: change.gateway.clone().zip(change.staged),
        reverted: change.reverted,
        reverts_in_s: left.and_then(|left| u64::try_from(left).ok()),
        guard: guard(change),
        differences: body.differences.iter().map(difference).collect(),
        more: body.more,
        clashes: shown.clashes.iter().map(clash).collect(),
        dangers: shown.dangers.clone(),
        faults: shown.faults.clone(),
        findings: findings(&shown),
        effects: shown
            .effects
            .iter()
            .map(|one| (one.key.clone(), one.what_if.because.clone()))
            .collect(),
        gateways: answers(&shown),
        compared: compared(&shown),
        steps: steps(change),
        connected: connected.map(|one| one.id).collect(),
        refused,
        typed,
        frame,
    })
}

fn findings(shown: &Shown) -> Vec<String> {
    let one = |finding: &crate::linter::Finding| {
        format!("{} {}: {}", finding.rule, finding.path, finding.message)
    };
    shown.findings.iter().map(one).collect()
}

fn answers(shown: &Shown) -> Vec<(String, &'static str, u64, String)> {
    let gateways = shown.gateways.iter();
    let one = |one: &crate::changes::Answer| {
        let reason = one.reason.clone().unwrap_or_default();
        (one.gateway.clone(), one.answer, one.generation, reason)
    };
    gateways.map(one).collect()
}

fn compared(shown: &Shown) -> Vec<ComparedLine> {
    let sum = |sum: &Sum| SumLine {
        heard_s: sum.heard_s,
        arrived: sum.arrived,
        refused: sum.refused,
        peak: sum.peak,
    };
    let one = |one: &crate::changes::Compared| ComparedLine {
        key: one.key.clone(),
        before: sum(&one.before),
        after: sum(&one.after),
    };
    shown.compared.iter().map(one).collect()
}

fn steps(change: &Change) -> Vec<(web::Moment, String, String, String)> {
    let one = |one: &crate::changes::Taken| {
        let what = match one.emergency {
            true => format!("{} (emergency)", one.step),
            false => one.step.clone(),
        };
        (moment(&one.at), what, one.by.clone(), one.comment.clone())
    };
    change.body.steps.iter().map(one).collect()
}

fn line(change: &Change) -> ChangeLine {
    ChangeLine {
        number: change.number,
        state: change.state.as_str(),
        author: change.author.clone(),
        at: moment(&change.created_at),
        comment: change.body.comment.clone(),
        keys: change.body.keys.clone(),
        published: change.published,
    }
}

fn generation_line(about: &Generation) -> GenerationLine {
    GenerationLine {
        number: about.number,
        author: about.author.clone(),
        comment: about.comment.clone(),
        at: moment(&about.created_at),
        source: about.source.clone(),
    }
}

fn difference(one: &Differs) -> DifferenceLine {
    DifferenceLine {
        path: one.path.clone(),
        key: one.key.clone(),
        old: one.old.clone(),
        new: one.new.clone(),
    }
}

fn clash(clash: &Clash) -> ClashLine {
    let shown = |value: &Option<compartment::policy::Value>| {
        let gone = || "nothing".to_owned();
        value.as_ref().map_or_else(gone, |value| value.excerpt())
    };
    ClashLine {
        path: clash.path.to_string(),
        base: shown(&clash.base),
        mine: shown(&clash.ours),
        theirs: shown(&clash.theirs),
    }
}

fn guard(change: &Change) -> Option<String> {
    let guard = change.body.guard.as_ref()?;
    let left = guard.until_ms.saturating_sub(clock::unix_ms()).max(0);
    let left = web::text::duration(u64::try_from(left).unwrap_or(0) / 1_000 * 1_000);
    let unhealthy = match guard.unhealthy.len() {
        0 => String::new(),
        n => format!(" {n} that refused before are left out."),
    };
    Some(format!(
        "Its guard watches for {left} more: it is taken back when a compartment that was healthy \
         refuses more than {}.{} % within a minute.{unhealthy}",
        guard.refused_milli / 10,
        guard.refused_milli % 10
    ))
}

/// An error of a step, as a page of its own.
pub(super) fn of_change(error: ChangeError) -> PageError {
    match error {
        ChangeError::Unknown(_) => PageError::NotFound {
            what: "There is no such change.",
        },
        ChangeError::Limits(error) => PageError::Limits(error),
        error @ (ChangeError::State { .. }
        | ChangeError::Moved { .. }
        | ChangeError::Own { .. }
        | ChangeError::NotApproved(_)
        | ChangeError::Clash { .. }
        | ChangeError::Nothing
        | ChangeError::TooMany
        | ChangeError::TooLong(_)
        | ChangeError::Taken(_)
        | ChangeError::NoGateway(_)
        | ChangeError::Unconfirmed(_)
        | ChangeError::Gone(_)) => PageError::Refused {
            status: StatusCode::CONFLICT,
            what: error.to_string(),
        },
    }
}

pub(super) async fn generation(
    State(state): State<AppState>,
    Path(number): Path<String>,
    request: Request,
) -> Response {
    let asked = Asked::of(&request);
    let shown = async {
        let page = generation_page(&state, &asked, &number).await?;
        page.render().map_err(PageError::from)
    };
    match shown.await {
        Ok(body) => html(StatusCode::OK, body),
        Err(error) => answer(&error, &asked),
    }
}

async fn generation_page(
    state: &AppState,
    asked: &Asked,
    number: &str,
) -> Result<GenerationPage, PageError> {
    let what = "There is no such generation.";
    let gone = || PageError::NotFound { what };
    let number: u64 = number.parse().map_err(|_| gone())?;
    let stored = state.store.generation(number).await?.ok_or_else(gone)?;
    let against = state.store.newest_before(number).await?;
    let before = match state.store.generation(against).await? {
        Some(before) => limits::read(before.document).await?,
        None => compartment::policy::Value::Table(Vec::new()),
    };
    let document = limits::read(stored.document).await?;
    let current = state.policy_current().await;
    let force = std::sync::Arc::clone(&current);
    let work = move || {
        let away = wire::document::diff(&force.document, &document).len();
        (wire::document::diff(&before, &document), away)
    };
    let (differences, away) = tokio::task::spawn_blocking(work)
        .await
        .map_err(|_| crate::store::StoreError::Closed)?;
    let excerpt = |value: &Option<compartment::policy::Value>| {
        value.as_ref().map(compartment::policy::Value::excerpt)
    };
    let shown = differences.iter().take(DIFFERENCE_LINES_MAX);
    let snapshot = Snapshot::take(state);
    Ok(GenerationPage {
        frame: asked.frame(&current, &snapshot, format!("/generations/{number}")),
        line: generation_line(&stored.about),
        against,
        more: differences.len().saturating_sub(DIFFERENCE_LINES_MAX),
        differences: shown
            .map(|one| DifferenceLine {
                path: one.path.to_string(),
                key: None,
                old: excerpt(&one.old),
                new: excerpt(&one.new),
            })
            .collect(),
        away,
    })
}
