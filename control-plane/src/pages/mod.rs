//! The pages: one table of routes, and what every page's answer carries.
//!
//! Separate from the API because people read these. Handlers gather values and hand them to the
//! page structs of `web`; they must never hold HTML, and no page changes anything by GET.

mod advice;
mod alerts;
mod card_words;
mod changes;
mod changes_steps;
mod compartment;
mod docs;
mod dry_run;
mod edit;
mod edit_sent;
mod frame;
mod gateways;
mod held;
mod hour;
mod ladder;
mod list;
mod live;
mod made;
mod on_the_way;
mod over_time;
mod overrides;
mod overview;
mod problem;
mod readings;
mod routes;
mod settings;
mod shadow;
mod sign_in;
mod tenant;
mod tenant_end;
mod tenant_form;
mod tenants;
mod tenants_file;
mod tried_words;
mod undo;
mod welcome;

use axum::Router;
use axum::extract::{DefaultBodyLimit, Request};
use axum::response::{IntoResponse, Response};
use http::{HeaderValue, StatusCode, header};

use crate::access::{self, ADMIN, APPROVER, OPERATOR, PUBLIC, Route, VIEWER};
use crate::api;
use crate::request_id::RequestId;
use crate::state::AppState;

pub(crate) use compartment::findings;
pub(crate) use held::around;
pub(crate) use list::cell;
pub(crate) use live::PageStreams;
pub(crate) use made::Made;
pub(crate) use problem::{PageError, people_status};
pub(crate) use shadow::watches_of;
pub(crate) use sign_in::redirect as redirect_to_sign_in;

/// Largest form.
pub(crate) const FORM_BYTES_MAX: usize = 64 << 10;

/// What a page may load and where it may send forms. Nothing inline, nothing from elsewhere.
const CONTENT_POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; \
     img-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
);

/// The pages that are looked at, and that have moving parts.
fn views() -> Vec<Route> {
    vec![
        Route::at("/").get(VIEWER, overview::show),
        Route::at("/compartments").get(VIEWER, list::show),
        Route::at("/compartments/{key}")
            .get(VIEWER, compartment::show)
            .post(OPERATOR, edit::change),
        Route::at("/tenants")
            .get(VIEWER, tenants::show)
            .post(OPERATOR, tenants::create),
        Route::at("/tenants/{id}")
            .get(VIEWER, tenant::show)
            .post(OPERATOR, tenant::change),
        Route::at("/welcome").get(VIEWER, welcome::show),
        Route::at("/routes").get(VIEWER, routes::show),
        Route::at("/advice").get(VIEWER, advice::show),
        Route::at("/shadow").get(VIEWER, shadow::show),
        Route::at("/changes").get(VIEWER, changes::list),
        Route::at("/overrides")
            .get(VIEWER, overrides::show)
            .post(OPERATOR, overrides::plan),
        Route::at("/changes/{number}").get(VIEWER, changes::show),
        Route::at("/alerts").get(VIEWER, alerts::show),
        Route::at("/gateways").get(VIEWER, gateways::show),
        Route::at("/docs/api").get(VIEWER, docs::show),
    ]
}

/// Forms, exports, and what stands around the pages.
fn others() -> Vec<Route> {
    vec![
        Route::at("/compartments/{key}/undo").post(OPERATOR, undo::change),
        Route::at("/compartments/{key}/rehearse").post(OPERATOR, ladder::rehearse),
        Route::at("/overrides/extend").post(OPERATOR, overrides::extend),
        Route::at("/overrides/cancel").post(OPERATOR, overrides::cancel),
        Route::at("/overrides/approve").post(APPROVER, overrides::approve),
        Route::at("/changes/{number}/approve").post(APPROVER, changes_steps::approve),
        Route::at("/changes/{number}/stage").post(OPERATOR, changes_steps::stage),
        Route::at("/changes/{number}/publish").post(OPERATOR, changes_steps::publish),
        Route::at("/changes/{number}/keep").post(OPERATOR, changes_steps::keep),
        Route::at("/changes/{number}/revert").post(OPERATOR, changes_steps::revert),
        Route::at("/changes/{number}/abandon").post(OPERATOR, changes_steps::abandon),
        Route::at("/changes/{number}/rebase").post(OPERATOR, changes_steps::rebase),
        Route::at("/generations/{number}").get(VIEWER, changes::generation),
        Route::at("/generations/{number}/restore").post(OPERATOR, changes_steps::restore),
        Route::at("/alerts/silence").post(OPERATOR, alerts::silence),
        Route::at("/gateways/drain").post(OPERATOR, gateways::drain),
        Route::at("/gateways/revoke").post(ADMIN, gateways::revoke),
        Route::at("/gateways/tokens").post(ADMIN, gateways::make_token),
        Route::at("/gateways/tokens/revoke").post(ADMIN, gateways::revoke_token),
        Route::at("/gateways/try-again").post(OPERATOR, gateways::try_again),
        Route::at("/gateways/go-back").post(OPERATOR, gateways::go_back),
        Route::at("/tenants/{id}/suspend").post(OPERATOR, tenant_end::suspend),
        Route::at("/tenants/{id}/delete").post(OPERATOR, tenant_end::delete),
        Route::at("/tenants/{id}/keys").post(OPERATOR, tenant::make_key),
        Route::at("/tenants/{id}/keys/revoke").post(OPERATOR, tenant::revoke_key),
        Route::at("/tenants.csv").get(VIEWER, tenants_file::csv),
        Route::at("/tenants.json").get(VIEWER, tenants_file::json),
        Route::at("/welcome/upstream").post(OPERATOR, welcome::upstream),
        Route::at("/welcome/route").post(OPERATOR, welcome::route),
        Route::at("/welcome/tenant").post(OPERATOR, welcome::tenant),
        Route::at("/compartments.csv").get(VIEWER, list::csv),
        Route::at("/compartments.json").get(VIEWER, list::json),
        Route::at("/settings").get(VIEWER, settings::show),
        Route::at("/settings/users").post(ADMIN, settings::make_user),
        Route::at("/settings/users/change").post(ADMIN, settings::change_user),
        Route::at("/settings/users/delete").post(ADMIN, settings::delete_user),
        Route::at("/settings/tokens").post(ADMIN, settings::make_token),
        Route::at("/settings/tokens/revoke").post(ADMIN, settings::revoke_token),
        Route::at("/settings/sessions/end").post(VIEWER, settings::end_session),
        Route::at("/settings/password").post(VIEWER, settings::change_password),
        Route::at("/live").get(VIEWER, live::stream),
        Route::at("/login")
            .get(PUBLIC, sign_in::show)
            .post(PUBLIC, sign_in::enter),
        Route::at("/setup")
            .get(PUBLIC, sign_in::invited)
            .post(PUBLIC, sign_in::set_up),
        Route::at("/logout").post(VIEWER, sign_in::leave),
        Route::at("/assets/{name}").get(PUBLIC, asset),
    ]
}

/// Every page, with what it needs.
pub(crate) fn table() -> Vec<Route> {
    let mut all = views();
    all.extend(others());
    all
}

/// Every page.
pub(crate) fn router() -> Router<AppState> {
    access::router(table()).layer(DefaultBodyLimit::max(FORM_BYTES_MAX))
}

/// The answer for every path that is no page.
pub(crate) async fn missing(request: Request) -> Response {
    if request.uri().path().starts_with("/api/") {
        return api::no_such_call().await.into_response();
    }
    let error = PageError::NotFound {
        what: "There is no such page.",
    };
    error.answer(id_of(request.extensions()), None)
}

/// HTML with the headers of a page.
fn html(status: StatusCode, body: String) -> Response {
    let kind = HeaderValue::from_static("text/html; charset=utf-8");
    let headers = [
        (header::CONTENT_TYPE, kind),
        (header::CONTENT_SECURITY_POLICY, CONTENT_POLICY),
        // Under `no-referrer` a browser sends `origin: null` with our own forms too.
        (
            header::REFERRER_POLICY,
            HeaderValue::from_static("same-origin"),
        ),
    ];
    (status, headers, body).into_response()
}

/// Sends a browser on after a form.
fn see_other(location: &str) -> Response {
    match HeaderValue::from_str(location) {
        Ok(location) => (StatusCode::SEE_OTHER, [(header::LOCATION, location)]).into_response(),
        Err(_) => StatusCode::SEE_OTHER.into_response(),
    }
}

/// The id of a request, as an error page shows it.
pub(crate) fn id_of(extensions: &http::Extensions) -> &str {
    extensions.get::<RequestId>().map_or("", |RequestId(id)| id)
}

async fn asset(request: Request) -> Response {
    let Some(asset) = web::asset::find(request.uri().path()) else {
        return missing(request).await;
    };
    // The address holds a hash of the content, so what is there never changes.
    let forever = HeaderValue::from_static("public, max-age=31536000, immutable");
    let kind = HeaderValue::from_static(asset.content_type);
    (
        [
            (header::CONTENT_TYPE, kind),
            (header::CACHE_CONTROL, forever),
        ],
        asset.content,
    )
        .into_response()
}
