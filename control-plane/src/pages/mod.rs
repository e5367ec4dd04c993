//! The pages: one table of routes, and what every page's answer carries.
//!
//! Separate from the API because people read these. Handlers gather values and hand them to the
//! page structs of `web`; they must never hold HTML, and no page changes anything by GET.

mod advice;
mod alerts;
mod card_words;
mod compartment;
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
mod on_the_way;
mod over_time;
mod overview;
mod problem;
mod readings;
mod routes;
mod shadow;
mod sign_in;
mod tried_words;
mod undo;

use axum::Router;
use axum::extract::{DefaultBodyLimit, Request};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use http::{HeaderValue, StatusCode, header};

use crate::request_id::RequestId;
use crate::state::AppState;

pub(crate) use compartment::findings;
pub(crate) use gateways::Made;
pub(crate) use held::around;
pub(crate) use live::PageStreams;
pub(crate) use problem::PageError;
pub(crate) use shadow::watches_of;
pub(crate) use sign_in::redirect as redirect_to_sign_in;

/// Largest form.
const FORM_BYTES_MAX: usize = 64 << 10;

/// What a page may load and where it may send forms. Nothing inline, nothing from elsewhere.
const CONTENT_POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; \
     img-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
);

/// The pages that are looked at, and that have moving parts.
fn views() -> Router<AppState> {
    Router::new()
        .route("/", get(overview::show))
        .route("/compartments", get(list::show))
        .route("/compartments/{key}", get(compartment::show))
        .route("/routes", get(routes::show))
        .route("/advice", get(advice::show))
        .route("/shadow", get(shadow::show))
        .route("/alerts", get(alerts::show))
        .route("/gateways", get(gateways::show))
}

/// Every page.
pub(crate) fn router() -> Router<AppState> {
    views()
        .route("/compartments/{key}", post(edit::change))
        .route("/compartments/{key}/undo", post(undo::change))
        .route("/compartments/{key}/rehearse", post(ladder::rehearse))
        .route("/alerts/silence", post(alerts::silence))
        .route("/gateways/drain", post(gateways::drain))
        .route("/gateways/revoke", post(gateways::revoke))
        .route("/gateways/tokens", post(gateways::make_token))
        .route("/gateways/tokens/revoke", post(gateways::revoke_token))
        .route("/gateways/try-again", post(gateways::try_again))
        .route("/gateways/go-back", post(gateways::go_back))
        .route("/compartments.csv", get(list::csv))
        .route("/compartments.json", get(list::json))
        .route("/live", get(live::stream))
        .route("/login", get(sign_in::show).post(sign_in::enter))
        .route("/logout", post(sign_in::leave))
        .route("/assets/{name}", get(asset))
        .layer(DefaultBodyLimit::max(FORM_BYTES_MAX))
}

/// Paths that need no sign-in: the form itself and what it looks like.
pub(crate) fn is_public(path: &str) -> bool {
    path == "/login" || path.starts_with("/assets/")
}

/// The answer for every path that is no page.
pub(crate) async fn missing(request: Request) -> Response {
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
fn id_of(extensions: &http::Extensions) -> &str {
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
