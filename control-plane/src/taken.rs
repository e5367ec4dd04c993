//! What becomes of a gateway's report.
//!
//! Separate because it comes from a stream of ours or from another control plane, and is shown the
//! same. It must never write the history of a gateway whose stream another one holds.

use wire::stream::proto::Report;
use wire::stream::{MessageError, figures_of};

use crate::clock;
use crate::fleet::{Moment, name_endpoints};
use crate::readings::{Received, ReportMark, Taken, sorted};
use crate::state::AppState;

impl AppState {
    /// Newest figures to the fleet, what happened since the last ones to whoever follows it. False:
    /// the stream is not this gateway's any more.
    pub(crate) fn take_report(
        &self,
        gateway: &str,
        stream: u64,
        generation: u64,
        mut report: Report,
        is_ours: bool,
    ) -> Result<bool, MessageError> {
        let newest = std::mem::take(&mut report.newest);
        self.newest.record(gateway, newest, clock::unix_ms());
        let mark = ReportMark::of(&report);
        let lost = [
            report.dropped_spans,
            report.dropped_logs,
            report.dropped_access_lines,
        ];
        let lost = lost
            .iter()
            .fold(0_u64, |sum, count| sum.saturating_add(*count));
        self.fleet.telemetry_dropped(stream, lost);
        let drained = report.drained;
        self.fleet.about(stream, |about| about.drained = drained);
        let mut figures = figures_of(report)?;
        name_endpoints(&mut figures, gateway);
        let (figures, now) = (sorted(figures), Moment::now());
        let received = Received {
            at: now.at,
            unix_ms: clock::unix_ms(),
        };
        let Taken::Readings(readings) = self.readings.take(gateway, &mark, &figures, received)
        else {
            // Another one that is newer counts already.
            return Ok(true);
        };
        if is_ours {
            self.history.record(&readings);
        }
        self.alerts.observe(&readings);
        self.changes.guards().observe(&readings);
        self.watched
            .take(gateway, &mark, generation, &figures, received);
        self.past.record(&readings);
        let known = self.fleet.report(stream, generation, figures, now);
        // Last: whoever is told that figures moved looks at the fleet.
        self.live.record(&readings);
        Ok(known)
    }
}
