//! The dashboard as a pure library: page struct in, HTML out.
//!
//! Separate so that every page can be rendered, snapshotted and looked at without a server. Each
//! page is a struct with named samples. It must never do I/O, read a clock, or print a text that
//! did not go through the templates' escaping: names are hostile everywhere.

mod advice;
mod alerts;
pub mod asset;
mod bar;
mod changes;
pub mod chart;
mod chip;
mod compartment;
mod credit;
mod danger;
mod docs;
mod edit;
mod effective;
mod effective_words;
mod endpoints;
mod field;
mod filter;
mod fleet;
mod frame;
mod gateways;
mod holders;
mod hour;
mod isolation;
mod ladder;
mod lately;
mod list;
mod list_view;
mod over_time;
mod overrides;
mod overview;
mod pager;
mod problem;
mod reading;
mod reason;
mod role;
mod routes;
mod routes_view;
mod samples;
mod settings;
mod shadow;
mod sign_in;
mod state;
mod surround;
mod tenant;
mod tenants;
mod tenants_view;
pub mod text;
mod times;
mod tried;
pub mod url;
mod watch;
mod welcome;

pub use self::alerts::{ALERTS_MAX, AlertCount, AlertRow, AlertsPage, Receivers, RuleRow};
pub use self::compartment::{CompartmentPage, FindingRow, PARTS_MAX, Part, RejectedRow};
pub use advice::{
    AdvicePage, AdviceRow, AdviceView, Advised, Answered, Ask, CARDS_MAX, FINDINGS_MAX, FoundRow,
};
pub use askama::{Error as RenderError, Template};
pub use bar::Bar;
pub use changes::{
    CHANGE_LINES_MAX, ChangeLine, ChangePage, ChangesPage, ClashLine, ComparedLine,
    DIFFERENCE_LINES_MAX, DifferenceLine, GENERATION_LINES_MAX, GenerationLine, GenerationPage,
    SumLine, TypedStep,
};
pub use chip::Chip;
pub use credit::Credit;
pub use danger::{Danger, Standing};
pub use docs::{ApiCall, ApiParameter, DocsPage};
pub use edit::{COMMENT_CHARS_MAX, Conflict, Edit, Settable, Versus, parse_limit};
pub use effective::{Effective, Origin, effective_values};
pub use endpoints::{EndpointCells, EndpointsRow};
pub use field::{Field, fields_of};
pub use filter::{Filter, Sort};
pub use fleet::{GatewayRow, GatewayState};
pub use frame::{Fleet, Frame, Freshness, INTERVALS_MISSED_MAX, Moment, REPORT_INTERVAL_MS};
pub use gateways::{
    FLEET_ROWS_MAX, FleetPage, FleetRow, GatewayToken, HaltRow, MadeToken, TOKEN_ROWS_MAX,
};
pub use holders::{HOLDERS_MAX, Holder, Holders, SpareUse};
pub use hour::Hour;
pub use isolation::{Layer, NotIsolated, not_isolated, shared_layers};
pub use ladder::{Ladder, Rehearsal, Rung};
pub use lately::{Lately, Look};
pub use list::{EXPORT_ROWS_MAX, Known, LIST_ROWS_MAX, ListPage, ListRow, Saturated};
pub use list_view::{Asked, ListView, Order, Wanted};
pub use over_time::{AdviceCard, OverTime};
pub use overrides::{OVERRIDE_ROWS_MAX, OverrideForm, OverrideRow, OverridesPage};
pub use overview::{
    ALERTS_SHOWN_MAX, CHANGES_MAX, ChangeRow, GATEWAYS_MAX, Overview, ROWS_MAX, Row, Totals,
};
pub use pager::Pager;
pub use problem::Problem;
pub use reading::Reading;
pub use reason::{ReasonRow, reason_rows};
pub use role::{Reader, Role};
pub use routes::{Looked, RouteRow, RoutesPage, Slots};
pub use routes_view::RoutesView;
pub use settings::{ApiTokenRow, MadeSecret, PEOPLE_ROWS_MAX, SessionRow, SettingsPage, UserRow};
pub use shadow::{ShadowPage, WATCHES_MAX};
pub use sign_in::{SetUp, SignIn};
pub use state::State;
pub use surround::{BreakerRow, RetryRow, Surround};
pub use tenant::{KeyForm, KeyRow, MadeKey, TenantPage};
pub use tenants::{
    CROWDS_MAX, Crowd, TENANT_ROWS_MAX, TenantForm, TenantRow, TenantsPage, UnknownRow, Used,
};
pub use tenants_view::{TenantsOrder, TenantsView, TenantsWanted};
pub use times::Times;
pub use tried::{Tried, TriedStep, TryForm};
pub use watch::{Beside, Next, Watch, Watched};
pub use welcome::{Arrived, Step, Typed, WelcomePage};

/// Stands between the parts of a fragment, so that a stream can leave out what did not move. No
/// name can forge it: `<` is escaped everywhere.
pub const BETWEEN: &str = "<!--part-->";
