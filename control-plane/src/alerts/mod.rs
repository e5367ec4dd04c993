//! Alerts on sustained saturation.
//!
//! Separate because it wakes people: what it decides is pure and tested over weeks of simulated
//! traffic, and what it tells goes out by one door. It must never be in the way of a report or of
//! a change of a limit.

mod alert;
mod decide;
mod evaluator;
mod facts;
mod notice;
mod rules;
mod saved;
mod series;
mod service;
mod several;
mod tell;
mod webhook;
mod window;
mod words;

#[cfg(test)]
mod tests;

pub use alert::{Alert, Burning, Cause, Ended, Severity, State, Told};
pub use evaluator::{Evaluator, Facts, Now, Sample};
pub(crate) use notice::instant;
pub use rules::{BUDGET_PPM_MAX, Rules, WINDOW_MS_MAX, WINDOW_MS_MIN};
pub use saved::Saved;
pub use series::{Evidence, Rule};
pub use service::{AlertConfig, Alerts};
pub use tell::Tried;
pub use webhook::{SIGNATURE, Webhook, WebhookError};
pub use window::Counts;
pub use words::{ended, rule, summary, why};
