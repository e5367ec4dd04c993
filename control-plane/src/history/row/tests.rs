//! Rows: what is written is read, and sums do not depend on their order.
//!
//! Separate to keep the code short. It must never know the file.

use compartment::HISTOGRAM_BYTES_MAX;
use proptest::prelude::*;

use super::*;

const VARINT_BYTES_MAX: usize = 10;
const REASONS: usize = Rejection::ALL.len();
/// Longest written form.
const ROW_BYTES_MAX: usize =
    VARINT_BYTES_MAX * (16 + 4 * REASONS) + 2 * (HISTOGRAM_BYTES_MAX + VARINT_BYTES_MAX);

fn histogram() -> impl Strategy<Value = Histogram> {
    proptest::collection::vec((0..70_000_000_u64, 1..1_000_u64), 0..6).prop_map(|all| {
        let mut made = Histogram::new();
        all.into_iter().for_each(|(us, n)| made.record_n(us, n));
        made
    })
}

fn reasons() -> impl Strategy<Value = Reasons> {
    proptest::collection::vec((0..REASONS, 1..1_000_000_u64), 0..4).prop_map(|all| {
        let mut made = Reasons::new();
        for (reason, count) in all {
            add_reasons(&mut made, &vec![(Rejection::ALL[reason], count)]);
        }
        made
    })
}

pub(crate) fn row() -> impl Strategy<Value = Row> {
    let limit = prop_oneof![
        Just(None),
        Just(Some(Limit::UNLIMITED)),
        (0..1_000_000_u32).prop_map(|slots| Limit::new(slots).ok()),
    ];
    let counts = proptest::array::uniform9(0..1_u64 << 40);
    (
        limit,
        counts,
        reasons(),
        reasons(),
        histogram(),
        histogram(),
    )
        .prop_map(|(limit, counts, rejected, shadow_rejected, hold, wait)| {
            let [
                arrived,
                admitted,
                completed,
                left_queue,
                candidate_rejected,
                ..,
            ] = counts;
            let [.., in_flight_us, peak, busy_us, saturated_us] = counts;
            Row {
                limit,
                arrived,
                admitted,
                completed,
                left_queue,
                rejected,
                shadow_rejected,
                candidate_rejected,
                in_flight_us,
                peak,
                busy_us,
                saturated_us,
                hold,
                wait,
            }
        })
}

#[test]
fn what_a_lying_gateway_counts_does_not_overflow() {
    let most = Row {
        arrived: u64::MAX,
        peak: u64::MAX,
        rejected: vec![(Rejection::RouteFull, u64::MAX)],
        ..Row::default()
    };
    let mut sum = most.clone();
    sum.then(&most);
    sum.beside(&most);
    assert_eq!(
        (sum.arrived, sum.peak, sum.refused()),
        (u64::MAX, u64::MAX, u64::MAX)
    );
    assert_eq!(Row::from_bytes(&sum.to_bytes()), Ok(sum));
}

#[test]
fn an_idle_row_is_small_and_a_busy_one_is_bounded() {
    assert!(Row::default().to_bytes().len() < 20);
    let mut hold = Histogram::new();
    (0..27).for_each(|power| hold.record_n(1 << power, u64::MAX / 32));
    let busy = Row {
        arrived: u64::MAX,
        rejected: Rejection::ALL.map(|reason| (reason, u64::MAX)).to_vec(),
        shadow_rejected: Rejection::ALL.map(|reason| (reason, u64::MAX)).to_vec(),
        wait: hold.clone(),
        hold,
        ..Row::default()
    };
    assert!(busy.to_bytes().len() <= ROW_BYTES_MAX);
}

proptest! {
    #[test]
    fn a_row_is_read_as_it_was_written(row in row()) {
        let mut bytes = row.to_bytes();
        prop_assert!(bytes.len() <= ROW_BYTES_MAX);
        prop_assert_eq!(Row::from_bytes(&bytes), Ok(row.clone()));
        // A newer build may add to it.
        bytes.extend([1, 2, 3]);
        prop_assert_eq!(Row::from_bytes(&bytes), Ok(row));
    }

    #[test]
    fn any_bytes_are_a_row_or_a_refusal(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let _either = Row::from_bytes(&bytes);
        let mut formed = vec![1];
        formed.extend(bytes);
        if let Ok(row) = Row::from_bytes(&formed) {
            prop_assert_eq!(Row::from_bytes(&row.to_bytes()), Ok(row));
        }
    }

    /// In which pieces rows are added up makes no difference.
    #[test]
    fn sums_do_not_depend_on_their_pieces(
        rows in proptest::collection::vec(row(), 1..8),
        cut in 0..8_usize,
    ) {
        let sum = |rows: &[Row]| {
            let mut sum = Row::default();
            rows.iter().for_each(|row| sum.then(row));
            sum
        };
        let (front, back) = rows.split_at(cut.min(rows.len()));
        prop_assert_eq!(sum(&rows), sum(&[sum(front), sum(back)]));
        let mut turned: Vec<Row> = rows.clone();
        turned.reverse();
        let beside = |rows: &[Row]| {
            let mut sum = Row::default();
            rows.iter().for_each(|row| sum.beside(row));
            (sum.limit.map(|l| l.slots()), sum.arrived, sum.peak, sum.rejected, sum.hold)
        };
        prop_assert_eq!(beside(&rows), beside(&turned));
    }
}
