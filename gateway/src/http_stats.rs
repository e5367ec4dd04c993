//! How long requests took, by route and by upstream: the two durations of the HTTP conventions.
//!
//! Separate because each core writes cells of its own with plain stores, found once for each kind
//! of answer, and whoever asks adds them up. It must never take a lock for a request whose kind
//! of answer its route has seen before, nor grow with what callers send.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use compartment::policy::Policy;
use http::Method;
use telemetry::names::{Instrument, Label};
use telemetry::{Distribution, DurationCell, Example, Family, Figure, Text};

/// Kinds of answers of one route or endpoint; what is beyond is counted together.
const SERIES_PER_PLACE_MAX: usize = 64;
/// Kinds of answers of one process.
const SERIES_MAX: usize = 50_000;

/// The method, out of a closed list: callers can make any up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Verb {
    Get,
    Head,
    Post,
    Put,
    Patch,
    Delete,
    Options,
    Trace,
    Connect,
    Other,
}

impl Verb {
    pub(crate) fn of(method: &Method) -> Self {
        match *method {
            Method::GET => Self::Get,
            Method::HEAD => Self::Head,
            Method::POST => Self::Post,
            Method::PUT => Self::Put,
            Method::PATCH => Self::Patch,
            Method::DELETE => Self::Delete,
            Method::OPTIONS => Self::Options,
            Method::TRACE => Self::Trace,
            Method::CONNECT => Self::Connect,
            _ => Self::Other,
        }
    }

    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Head => "HEAD",
            Self::Post => "POST",
            Self::Put => "PUT",
            Self::Patch => "PATCH",
            Self::Delete => "DELETE",
            Self::Options => "OPTIONS",
            Self::Trace => "TRACE",
            Self::Connect => "CONNECT",
            Self::Other => "_OTHER",
        }
    }
}

/// What kind of answer it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Series {
    /// 0: none.
    pub(crate) status: u16,
    pub(crate) verb: Verb,
    /// A failure by its reason; `None`: none, or the status says it.
    pub(crate) error: Option<&'static str>,
}

impl Series {
    /// Everything that has no room of its own.
    const REST: Self = Self {
        status: 0,
        verb: Verb::Other,
        error: Some("_OTHER"),
    };
}

/// Where requests came in or went out.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Place {
    /// On a route; `None`: on no route.
    Server(Option<Arc<str>>),
    /// At an endpoint of an upstream.
    Client {
        upstream: Arc<str>,
        host: Arc<str>,
        port: u16,
    },
}

type Cells = Vec<(usize, Arc<DurationCell>)>;
type Places = BTreeMap<Place, BTreeMap<Series, Cells>>;

/// All durations of a process.
#[derive(Debug, Default)]
pub(crate) struct HttpStats {
    cores: AtomicUsize,
    series: AtomicUsize,
    places: Mutex<Places>,
}

impl HttpStats {
    /// A number for one more core.
    pub(crate) fn join(&self) -> usize {
        self.cores.fetch_add(1, Ordering::Relaxed)
    }

    /// The cell of this core, the same one for every policy that names the place.
    fn cell(&self, place: &Place, series: Series, core: usize) -> Option<Arc<DurationCell>> {
        let mut places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        let all = places.entry(place.clone()).or_default();
        let is_new = !all.contains_key(&series);
        let is_full =
            all.len() >= SERIES_PER_PLACE_MAX || self.series.load(Ordering::Relaxed) >= SERIES_MAX;
        if is_new && is_full && series != Series::REST {
            return None;
        }
        if is_new {
            self.series.fetch_add(1, Ordering::Relaxed);
        }
        let cells = all.entry(series).or_default();
        if let Some((_, cell)) = cells.iter().find(|(of, _)| *of == core) {
            return Some(Arc::clone(cell));
        }
        let cell = Arc::<DurationCell>::default();
        cells.push((core, Arc::clone(&cell)));
        Some(cell)
    }

    /// Forgets places that the policy does not name any more.
    pub(crate) fn keep_only(&self, policy: &Policy) {
        let routes: HashSet<&str> = policy
            .routes
            .iter()
            .map(|route| route.id.as_str())
            .collect();
        let endpoints: HashSet<(&str, &str, u16)> = policy
            .upstreams
            .iter()
            .flat_map(|known| known.endpoints.iter().map(move |at| (known, at)))
            .map(|(known, at)| (known.id.as_str(), at.host.as_str(), at.port))
            .collect();
        let mut places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        places.retain(|place, _| match place {
            Place::Server(None) => true,
            Place::Server(Some(route)) => routes.contains(&**route),
            Place::Client {
                upstream,
                host,
                port,
            } => endpoints.contains(&(&**upstream, &**host, *port)),
        });
        let left = places.values().map(BTreeMap::len).sum();
        self.series.store(left, Ordering::Relaxed);
    }

    /// Both families, server first.
    pub(crate) fn families(&self) -> [Family; 2] {
        let mut server = Family::new(Instrument::ServerDuration);
        let mut client = Family::new(Instrument::ClientDuration);
        let places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        for (place, all) in &*places {
            for (series, cells) in all {
                let mut sum = Distribution::default();
                cells.iter().for_each(|(_, cell)| cell.add_to(&mut sum));
                let figure = Figure::Durations(Box::new(sum));
                let family = match place {
                    Place::Server(_) => &mut server,
                    Place::Client { .. } => &mut client,
                };
                family.push(labels(place, *series), figure);
            }
        }
        [server, client]
    }
}

fn labels(place: &Place, series: Series) -> Vec<(Label, Text)> {
    let mut labels = vec![(Label::Method, Text::Fixed(series.verb.as_str()))];
    match place {
        Place::Server(route) => {
            labels.push((Label::Scheme, Text::Fixed("http")));
            labels.extend(
                route
                    .clone()
                    .map(|route| (Label::Route, Text::Shared(route))),
            );
        }
        Place::Client {
            upstream,
            host,
            port,
        } => {
            let key = Text::from(format!("upstream/{upstream}"));
            labels.push((Label::Compartment, key));
            labels.push((Label::ServerAddress, Text::Shared(Arc::clone(host))));
            labels.push((Label::ServerPort, Text::from(port.to_string())));
        }
    }
    if series.status > 0 {
        labels.push((Label::Status, Text::from(series.status.to_string())));
    }
    // By the conventions the status is the kind of an error that has no other.
    let failed = is_error(place, series.status).then(|| Text::from(series.status.to_string()));
    labels.extend(
        series
            .error
            .map(Text::Fixed)
            .or(failed)
            .map(|text| (Label::ErrorType, text)),
    );
    labels
}

/// For a server a caller's mistake is no error; for a client it is.
const fn is_error(place: &Place, status: u16) -> bool {
    match place {
        Place::Server(_) => status >= 500,
        Place::Client { .. } => status >= 400,
    }
}

/// The durations of one place, as one core writes them.
#[derive(Debug)]
pub(crate) struct Durations {
    place: Place,
    core: usize,
    /// A few: the kinds of answers that this route gave on this core.
    cells: RefCell<Vec<(Series, Arc<DurationCell>)>>,
}

impl Durations {
    pub(crate) const fn new(place: Place, core: usize) -> Self {
        Self {
            place,
            core,
            cells: RefCell::new(Vec::new()),
        }
    }

    /// With the answer that is to be expected there from the start, at 0: whoever reads counters
    /// sees the first one too.
    pub(crate) fn prepared(place: Place, core: usize, stats: &HttpStats, verb: Verb) -> Self {
        let durations = Self::new(place, core);
        let series = Series {
            status: 200,
            verb,
            error: None,
        };
        let cell = stats.cell(&durations.place, series, core);
        durations
            .cells
            .borrow_mut()
            .extend(cell.map(|cell| (series, cell)));
        durations
    }

    /// Counts one request. The lock is for a kind of answer that was never seen here.
    pub(crate) fn record(
        &self,
        stats: &HttpStats,
        series: Series,
        us: u64,
        example: Option<Example>,
    ) {
        let mut cells = self.cells.borrow_mut();
        let known = cells.iter().find(|(known, _)| *known == series);
        if let Some((_, cell)) = known {
            return cell.record(us, example);
        }
        let own = stats.cell(&self.place, series, self.core);
        let cell = match own {
            Some(cell) => {
                cells.push((series, Arc::clone(&cell)));
                cell
            }
            None => match stats.cell(&self.place, Series::REST, self.core) {
                Some(cell) => cell,
                None => return,
            },
        };
        cell.record(us, example);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{policy, route};

    fn series(status: u16) -> Series {
        Series {
            status,
            verb: Verb::Get,
            error: None,
        }
    }

    fn server(route: &str, core: usize) -> Durations {
        Durations::new(Place::Server(Some(route.into())), core)
    }

    fn page(stats: &HttpStats) -> String {
        telemetry::page(&stats.families())
    }

    #[test]
    fn cores_are_added_up_and_a_new_policy_goes_on_counting() {
        let stats = HttpStats::default();
        let (one, other) = (server("a", stats.join()), server("a", stats.join()));
        one.record(&stats, series(200), 300, None);
        other.record(&stats, series(200), 1_000, None);
        let again = server("a", 0);
        again.record(&stats, series(200), 700, None);
        let text = page(&stats);
        let of = "http_request_method=\"GET\",url_scheme=\"http\",http_route=\"a\",\
                  http_response_status_code=\"200\"";
        for line in [
            format!("http_server_request_duration_seconds_count{{{of}}} 3"),
            format!("http_server_request_duration_seconds_sum{{{of}}} 0.002"),
            format!("http_server_request_duration_seconds_bucket{{{of},le=\"0.000512\"}} 1"),
        ] {
            assert!(text.lines().any(|have| have == line), "{line} in\n{text}");
        }
    }

    #[test]
    fn kinds_of_answers_are_bounded() {
        let stats = HttpStats::default();
        let durations = server("a", 0);
        for status in 100..1_000 {
            durations.record(&stats, series(status), 1, None);
        }
        let [family, _] = stats.families();
        assert_eq!(family.points.len(), SERIES_PER_PLACE_MAX + 1);
        let total: u64 = family
            .points
            .iter()
            .map(|point| match &point.figure {
                Figure::Durations(durations) => durations.count(),
                Figure::Whole(_) | Figure::Number(_) => 0,
            })
            .sum();
        assert_eq!(
            total, 900,
            "nothing is lost: what has no room is counted together"
        );
    }

    #[test]
    fn what_a_policy_does_not_name_any_more_goes() {
        let stats = HttpStats::default();
        server("a", 0).record(&stats, series(200), 1, None);
        server("b", 0).record(&stats, series(200), 1, None);
        Durations::new(Place::Server(None), 0).record(&stats, series(404), 1, None);
        stats.keep_only(&policy(&[route("b", "/b")]));
        let text = page(&stats);
        assert!(!text.contains("\"a\"") && text.contains("\"b\"") && text.contains("\"404\""));
        assert_eq!(stats.series.load(Ordering::Relaxed), 2);
    }

    #[test]
    fn the_kind_of_an_error_is_its_reason_or_its_status() {
        let text = |place: Place, status, error| {
            let stats = HttpStats::default();
            let series = Series {
                status,
                verb: Verb::Other,
                error,
            };
            Durations::new(place, 0).record(&stats, series, 1, None);
            page(&stats)
        };
        let client = || Place::Client {
            upstream: "u".into(),
            host: "h".into(),
            port: 80,
        };
        assert!(text(Place::Server(None), 503, None).contains("error_type=\"503\""));
        assert!(text(Place::Server(None), 503, Some("closed")).contains("error_type=\"closed\""));
        assert!(!text(Place::Server(None), 404, None).contains("error_type"));
        assert!(text(client(), 404, None).contains("error_type=\"404\""));
        assert!(text(client(), 0, Some("reset")).contains("server_port=\"80\",error_type"));
        assert!(text(client(), 200, None).contains("http_request_method=\"_OTHER\""));
    }
}
