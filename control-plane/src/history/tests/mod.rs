//! The history on a real file, with a clock that the tests move.
//!
//! Separate because the tests are longer than what they test. They must never wait for a clock.

use std::time::{Duration, Instant};

use compartment::{Histogram, Level, Rejection};

use super::upkeep::Upkeep;
use super::*;
use crate::store::test_postgres;

mod cuts;

/// A Monday at midnight.
const BEGAN_S: i64 = 1_767_571_200;
const DAY_S: i64 = 86_400;

/// A place for a history, for as long as this lives.
enum Where {
    Folder(tempfile::TempDir),
    Database(test_postgres::Database),
}

impl Where {
    fn sqlite() -> Self {
        Self::Folder(tempfile::tempdir().unwrap())
    }

    /// A place of the same kind.
    async fn another(&self) -> Self {
        match self {
            Self::Folder(_) => Self::sqlite(),
            Self::Database(_) => Self::Database(test_postgres::Database::new().await.unwrap()),
        }
    }

    /// What holds for a file, or for a server.
    fn of(&self, sqlite: u64, postgres: u64) -> u64 {
        match self {
            Self::Folder(_) => sqlite,
            Self::Database(_) => postgres,
        }
    }

    fn place(&self) -> Address {
        match self {
            Self::Folder(folder) => folder.path().join("store-history.db").into(),
            Self::Database(database) => Address::parse(&database.url).unwrap(),
        }
    }
}

macro_rules! on_both {
    ($($name:ident),+ $(,)?) => {
        mod on_sqlite {
            $(#[tokio::test]
            async fn $name() {
                super::$name(super::Where::sqlite()).await;
            })+
        }
        mod on_postgres {
            $(#[tokio::test]
            async fn $name() {
                if let Some(database) = super::test_postgres::Database::new().await {
                    super::$name(super::Where::Database(database)).await;
                }
            })+
        }
    };
}

on_both!(
    coarse_rows_are_exactly_the_sum_of_fine_ones,
    a_gap_stays_a_gap_and_idle_is_zero,
    a_restart_in_the_middle_of_a_row_loses_nothing,
    old_rows_go_and_coarser_ones_stay,
    a_clock_that_is_set_ahead_for_a_while_empties_nothing,
    the_whole_stays_below_its_bound,
    tenants_beyond_the_busiest_are_summed,
    a_compartment_that_is_gone_keeps_its_history_and_hostile_names_do_no_harm,
    a_day_of_one_compartment_takes_what_is_said,
);

/// A history, where it is, and a clock that the test moves.
struct Kept {
    place: Where,
    history: History,
    upkeep: Upkeep,
    began: Instant,
}

fn settings() -> HistorySettings {
    HistorySettings {
        tenants_max: 3,
        ..HistorySettings::default()
    }
}

impl Kept {
    async fn new(place: Where, settings: HistorySettings) -> Self {
        let history = History::open(place.place(), settings).await;
        assert_eq!(history.state().error, None);
        Self {
            place,
            history,
            upkeep: Upkeep::default(),
            began: crate::clock::now(),
        }
    }

    /// A turn at this second since the beginning.
    async fn turn(&mut self, second: i64) {
        let passed = Duration::from_secs(u64::try_from(second.max(0)).unwrap());
        self.history
            .turn(&mut self.upkeep, self.began + passed, BEGAN_S + second)
            .await;
    }

    async fn restart(self) -> Self {
        self.history.close().await;
        Self {
            history: History::open(self.place.place(), settings()).await,
            ..self
        }
    }

    async fn series(&self, key: &str, from: i64, to: i64, step: Step) -> Series {
        let range = Range {
            from_s: BEGAN_S + from,
            to_s: BEGAN_S + to,
        };
        self.history.series(key, range, step).await.unwrap()
    }
}

/// The second from `second` on: so many arrivals, half of them refused.
fn reading(gateway: &str, key: &str, second: i64, arrived: u64) -> Reading {
    let level = key.parse::<compartment::Key>().unwrap().level();
    let refused = arrived / 2;
    let mut hold = Histogram::new();
    hold.record_n(1_000 * (arrived + 1), arrived - refused);
    Reading {
        limit: Limit::new(10).unwrap(),
        arrived,
        admitted: arrived - refused,
        completed: arrived - refused,
        rejected: match refused {
            0 => vec![],
            _ => vec![(Rejection::RouteFull, refused)],
        },
        in_flight_us: 500_000,
        peak: u32::try_from(arrived).unwrap(),
        saturated_us: 250_000,
        busy_us: 500_000,
        hold,
        ..Reading::empty(
            gateway.into(),
            key.into(),
            level,
            (BEGAN_S + second) * 1_000,
            1_000_000,
        )
    }
}

/// What every report has, and one compartment.
fn report(gateway: &str, key: &str, second: i64, arrived: u64) -> [Reading; 2] {
    let ceiling = Reading {
        arrived: 0,
        ..reading(gateway, "gateway", second, 0)
    };
    [ceiling, reading(gateway, key, second, arrived)]
}

fn sum(points: &[Point]) -> Row {
    let mut sum = Row::default();
    let rows = points.iter().filter_map(|point| point.figures.as_ref());
    rows.for_each(|row| sum.then(row));
    sum
}

fn heard(points: &[Point]) -> u64 {
    points.iter().map(|point| point.heard.gateway_us).sum()
}

async fn coarse_rows_are_exactly_the_sum_of_fine_ones(place: Where) {
    let mut kept = Kept::new(place, settings()).await;
    let hours = 2;
    for second in 0..hours * 3_600 {
        let busy = u64::try_from(second % 7 + second % 3).unwrap();
        for gateway in ["one", "two"] {
            // One of them is silent for some minutes.
            let silent = gateway == "two" && (1_000..2_000).contains(&second);
            if second % 5 == 0 && !silent {
                kept.history
                    .record(&report(gateway, "route/a", second, busy));
            }
        }
        if second % 600 == 599 {
            kept.turn(second).await;
        }
    }
    kept.turn(hours * 3_600 + 30).await;
    let fine = kept
        .series("route/a", 0, hours * 3_600, Step::TenSeconds)
        .await;
    let minutes = kept.series("route/a", 0, hours * 3_600, Step::Minute).await;
    let hourly = kept.series("route/a", 0, hours * 3_600, Step::Hour).await;
    assert_eq!(
        [fine.points.len(), minutes.points.len(), hourly.points.len()],
        [720, 120, 2]
    );
    let wanted = sum(&fine.points);
    assert!(
        wanted.arrived > 10_000 && wanted.hold.count() > 5_000,
        "{wanted:?}"
    );
    assert_eq!(sum(&minutes.points), wanted);
    assert_eq!(sum(&hourly.points), wanted);
    for (minute, ten) in minutes.points.iter().zip(fine.points.chunks(6)) {
        assert_eq!(minute.figures, Some(sum(ten)));
        assert_eq!(minute.heard.gateway_us, heard(ten));
        let most = ten.iter().map(|point| point.heard.gateways).max();
        assert_eq!(Some(minute.heard.gateways), most);
    }
    assert_eq!(heard(&hourly.points), heard(&fine.points));
    let split: u64 = fine
        .gateways
        .iter()
        .map(|(_, points)| sum(points).arrived)
        .sum();
    assert_eq!((fine.gateways.len(), split), (2, wanted.arrived));
}

async fn a_gap_stays_a_gap_and_idle_is_zero(place: Where) {
    let mut kept = Kept::new(place, settings()).await;
    let ceiling = |second| [reading("one", "gateway", second, 0)];
    for second in 0..10 {
        kept.history.record(&report("one", "route/a", second, 4));
    }
    (10..20).for_each(|second| kept.history.record(&ceiling(second)));
    // Nothing at all from 20 to 40.
    (40..50).for_each(|second| kept.history.record(&ceiling(second)));
    for written in [false, true] {
        if written {
            kept.turn(120).await;
        }
        let series = kept.series("route/a", 0, 50, Step::TenSeconds).await;
        let arrived: Vec<_> = series
            .points
            .iter()
            .map(|point| point.figures.as_ref().map(|row| row.arrived))
            .collect();
        assert_eq!(
            arrived,
            [Some(40), Some(0), None, None, Some(0)],
            "{written}"
        );
        // The limit holds until another one is told.
        let limit = series.points[4].figures.as_ref().unwrap().limit;
        assert_eq!(limit, Limit::new(10).ok());
        assert_eq!(series.points[0].per_second(40), Some(4.0));
        assert_eq!(series.points[0].saturated(), Some(0.25));
        assert_eq!(series.points[0].in_flight(), Some(0.5));
        assert_eq!(series.points[2].in_flight(), None);
        // Of a tenant without a row nobody knows: it may be one of the others.
        let tenant = kept.series("tenant/t", 0, 50, Step::TenSeconds).await;
        assert!(tenant.points.iter().all(|point| point.figures.is_none()));
    }
    let minute = kept.series("route/a", 0, 50, Step::Minute).await;
    assert_eq!(minute.points.len(), 1);
    assert_eq!(minute.points[0].heard.covered_us, 30_000_000);
    assert_eq!(minute.points[0].per_second(60), Some(2.0));
}

async fn a_restart_in_the_middle_of_a_row_loses_nothing(place: Where) {
    let mut kept = Kept::new(place, settings()).await;
    for second in 0..5 {
        kept.history.record(&report("one", "route/a", second, 4));
    }
    let mut kept = {
        kept.turn(6).await;
        kept.restart().await
    };
    for second in 5..10 {
        kept.history.record(&report("one", "route/a", second, 4));
    }
    for written in [false, true] {
        if written {
            kept.turn(120).await;
        }
        for step in Step::ALL {
            let series = kept.series("route/a", 0, 10, step).await;
            let sum = sum(&series.points);
            assert_eq!((sum.arrived, sum.refused()), (40, 20), "{step:?} {written}");
            assert_eq!(heard(&series.points), 10_000_000);
        }
    }
    // Rows that come after their minute was summed up: it is summed up again.
    kept.history.record(&report("two", "route/a", 8, 6));
    kept.turn(240).await;
    for step in Step::ALL {
        let series = kept.series("route/a", 0, 10, step).await;
        assert_eq!(sum(&series.points).arrived, 46, "{step:?}");
    }
}

async fn old_rows_go_and_coarser_ones_stay(place: Where) {
    let mut kept = Kept::new(place, settings()).await;
    for second in 0..120 {
        kept.history.record(&report("one", "route/a", second, 4));
    }
    kept.turn(200).await;
    let arrived = async |kept: &Kept, step| {
        let series = kept.series("route/a", 0, 120, step).await;
        sum(&series.points).arrived
    };
    for step in Step::ALL {
        assert_eq!(arrived(&kept, step).await, 480, "{step:?}");
    }
    // An hour's row is made with the next one that anybody is heard of in.
    for day in [2, 20, 500] {
        kept.history
            .record(&report("one", "route/b", day * DAY_S, 1));
        kept.turn(day * DAY_S + 60).await;
        kept.turn(day * DAY_S + 7_200).await;
        let left = [
            arrived(&kept, Step::TenSeconds).await,
            arrived(&kept, Step::Minute).await,
            arrived(&kept, Step::Hour).await,
        ];
        let wanted = match day {
            2 => [0, 480, 480],
            20 => [0, 0, 480],
            _ => [0, 0, 0],
        };
        assert_eq!(left, wanted, "after {day} days");
    }
}

async fn a_clock_that_is_set_ahead_for_a_while_empties_nothing(place: Where) {
    let mut kept = Kept::new(place, settings()).await;
    for second in 0..60 {
        kept.history.record(&report("one", "route/a", second, 4));
    }
    kept.turn(90).await;
    let ahead = 3 * 365 * DAY_S;
    kept.history.record(&report("one", "route/a", ahead, 9));
    let later = kept.began + Duration::from_secs(200);
    kept.history
        .turn(&mut kept.upkeep, later, BEGAN_S + ahead + 60)
        .await;
    // Set right again: the rows of the future go, those of before are there.
    let later = kept.began + Duration::from_secs(400);
    kept.history
        .turn(&mut kept.upkeep, later, BEGAN_S + 400)
        .await;
    for step in Step::ALL {
        let series = kept.series("route/a", 0, 60, step).await;
        assert_eq!(sum(&series.points).arrived, 240, "{step:?}");
        let future = kept.series("route/a", ahead, ahead + 10, step).await;
        assert_eq!(sum(&future.points).arrived, 0, "{step:?}");
    }
}

#[tokio::test]
async fn a_full_disk_costs_history_and_says_so() {
    let mut kept = Kept::new(Where::sqlite(), settings()).await;
    kept.history.record(&report("one", "route/a", 0, 4));
    kept.turn(30).await;
    let database = kept.history.database().unwrap();
    database.fill(true).await;
    for second in 60..4_000 {
        let key = format!("route/r{}", second % 500);
        kept.history.record(&report("one", &key, second, 4));
    }
    kept.turn(4_100).await;
    let state = kept.history.state();
    assert_eq!(state.state, Standing::Failing);
    let error = state.error.unwrap();
    assert!(error.contains("full"), "{error}");
    assert!(state.pending_rows > 3_000 && state.failing_since.is_some());
    // What waits is there for readers, and is written when there is room.
    let waiting = kept.series("route/r60", 60, 70, Step::TenSeconds).await;
    assert_eq!(sum(&waiting.points).arrived, 4);
    kept.history.database().unwrap().fill(false).await;
    kept.turn(4_110).await;
    let state = kept.history.state();
    assert_eq!(
        (state.state, state.error, state.pending_rows),
        (Standing::Kept, None, 0)
    );
    assert_eq!(state.lost_rows, 0);
    let written = kept.series("route/r60", 60, 70, Step::TenSeconds).await;
    assert_eq!(written, waiting);
}

#[tokio::test]
async fn what_waits_for_a_broken_disk_is_bounded_and_counted() {
    let folder = tempfile::tempdir().unwrap();
    // Not a file: it can never be opened.
    let history = History::open(folder.path().to_owned(), settings()).await;
    assert_eq!(history.state().state, Standing::Failing);
    let keys: Vec<Arc<str>> = (0..5_000).map(|n| format!("route/r{n}").into()).collect();
    for second in 0..40 {
        let one = |key: &Arc<str>| Reading {
            key: Arc::clone(key),
            ..reading("one", "route/a", second * 10, 1)
        };
        let all: Vec<_> = keys.iter().map(one).collect();
        history.record(&all);
        assert!(history.state().pending_rows <= PENDING_ROWS_MAX);
    }
    let state = history.state();
    assert_eq!(
        state.lost_rows + u64::try_from(state.pending_rows).unwrap(),
        200_000
    );
    assert!(state.lost_rows > 0 && state.error.is_some());
    let range = Range {
        from_s: BEGAN_S,
        to_s: BEGAN_S + 10,
    };
    let series = history.series("route/r1", range, Step::TenSeconds).await;
    assert!(matches!(series, Err(HistoryError::Away(_))));
    history.close().await;
}

/// Twenty compartments for six hours.
async fn with_bound(place: Where, bytes_max: u64) -> HistoryState {
    let small = HistorySettings {
        bytes_max,
        ..settings()
    };
    let mut kept = Kept::new(place, small).await;
    for minute in 0..6 * 60 {
        for n in 0..20_u64 {
            let [ceiling, one] = report("one", &format!("route/r{n}"), minute * 60, n + 1);
            kept.history.record(&[ceiling, one]);
        }
        if minute % 10 == 9 {
            kept.turn(minute * 60 + 30).await;
        }
    }
    kept.history.state()
}

async fn the_whole_stays_below_its_bound(place: Where) {
    let another = place.another().await;
    let (roomy, tight) = (place.of(700_000, 1_500_000), place.of(300_000, 800_000));
    let state = with_bound(place, roomy).await;
    assert!(state.used_bytes <= roomy, "{state:?}");
    // The finest rows went first, and not the last hour of them.
    let fine = &state.kept[0];
    assert!(
        fine.from > Some(BEGAN_S) && fine.from <= Some(BEGAN_S + 5 * 3_600),
        "{state:?}"
    );
    assert_eq!(state.kept[1].from, Some(BEGAN_S));
    let state = with_bound(another, tight).await;
    assert!(state.used_bytes <= tight, "{state:?}");
    assert!(state.kept[1].from > Some(BEGAN_S), "{state:?}");
}

async fn tenants_beyond_the_busiest_are_summed(place: Where) {
    let mut kept = Kept::new(place, settings()).await;
    for second in 0..40 {
        let tenant = |n: u64| reading("one", &format!("tenant/t{n}"), second, n);
        let all: Vec<_> = (1..=20).map(tenant).collect();
        kept.history.record(&all);
    }
    kept.turn(60).await;
    let mut named = 0;
    let mut arrived = 0;
    for n in 1..=20 {
        let series = kept
            .series(&format!("tenant/t{n}"), 20, 40, Step::TenSeconds)
            .await;
        let own = sum(&series.points).arrived;
        named += u32::from(own > 0);
        arrived += own;
        assert!(
            n <= 17 || own == n * 20,
            "t{n} is one of the busiest: {own}"
        );
    }
    assert_eq!(named, 3);
    let others = kept.series("tenant/_other", 20, 40, Step::TenSeconds).await;
    assert_eq!(arrived + sum(&others.points).arrived, 20 * 210);
}

async fn a_compartment_that_is_gone_keeps_its_history_and_hostile_names_do_no_harm(place: Where) {
    let mut kept = Kept::new(place, settings()).await;
    kept.history.record(&report("one", "route/a", 0, 4));
    let name = "'; DROP TABLE names; --\u{0}<script>";
    let hostile = Reading {
        key: name.into(),
        gateway: name.into(),
        level: Level::Route,
        ..reading("one", "route/a", 1, 3)
    };
    kept.history.record(&[hostile]);
    kept.turn(30).await;
    for (key, arrived) in [("route/a", 4), (name, 3), ("route/none", 0)] {
        let series = kept.series(key, 0, 10, Step::TenSeconds).await;
        assert_eq!(sum(&series.points).arrived, arrived, "{key:?}");
        assert_eq!(kept.history.knows(key).await, arrived > 0, "{key:?}");
    }
}

/// What a day of one busy compartment takes on disk, printed.
async fn a_day_of_one_compartment_takes_what_is_said(place: Where) {
    // A row of Postgres has a header, and a place in an index beside the table.
    let most = place.of(1_000_000, 2_000_000);
    let mut kept = Kept::new(place, settings()).await;
    const COMPARTMENTS: u64 = 3;
    for slot in 0..DAY_S / 10 {
        let second = slot * 10;
        let one = |n: u64| {
            let mut busy = reading("one", &format!("route/r{n}"), second, 40 + n);
            let spread = u64::try_from(slot % 9).unwrap();
            (0..12).for_each(|step| busy.hold.record_n(900 << step, 20 + spread));
            busy
        };
        let mut all = vec![reading("one", "gateway", second, 0)];
        all.extend((0..COMPARTMENTS).map(one));
        kept.history.record(&all);
        if slot % 360 == 359 {
            kept.turn(second + 20).await;
        }
    }
    kept.turn(DAY_S + 60).await;
    kept.upkeep = Upkeep::default();
    kept.turn(DAY_S + 61).await;
    let used = kept.history.state().used_bytes / (COMPARTMENTS + 1);
    println!("a day of one busy compartment: {used} bytes, rows of all three widths");
    assert!((100_000..most).contains(&used), "{used}");
}
