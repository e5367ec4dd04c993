//! A connection that ends at any message of a flush: what was measured is counted once.

use super::*;

#[path = "../../../tests/support/proxy.rs"]
#[expect(dead_code, reason = "the integration tests use the rest of it")]
mod proxy;

use proxy::{Cut, Proxy};

/// More messages than a flush takes.
const MESSAGES_MAX: usize = 80;
/// Most turns until a flush that was cut off is through.
const TURNS_MAX: usize = 20;

#[tokio::test(flavor = "multi_thread")]
async fn cut_at_any_message_a_flush_counts_once() {
    let Some(database) = test_postgres::Database::new().await else {
        return;
    };
    let proxy = Proxy::before(&database.url);
    let place = Address::parse(&proxy.url(&database.url)).unwrap();
    let mut kept = Kept {
        history: History::open(place, settings()).await,
        place: Where::Database(database),
        upkeep: Upkeep::default(),
        began: crate::clock::now(),
    };
    assert_eq!(kept.history.state().error, None);
    let (mut second, mut arrived, mut cuts) = (0, 0, 0);
    for cut in [Cut::Before, Cut::Within, Cut::After, Cut::InAnswer] {
        for message in 0..MESSAGES_MAX {
            // On a connection that is there, with its statements prepared.
            for armed in [false, true] {
                second += 10;
                arrived += 7;
                kept.history
                    .record(&report("one", "route/a", second - 1, 7));
                if armed {
                    proxy.arm(cut, message);
                }
                flushed(&mut kept, second + 4).await;
            }
            if proxy.disarm().is_none() {
                break;
            }
            cuts += 1;
            assert!(message + 1 < MESSAGES_MAX, "a flush takes more messages");
            let series = kept.series("route/a", 0, second, Step::TenSeconds).await;
            assert_eq!(sum(&series.points).arrived, arrived, "{cut:?} at {message}");
        }
    }
    assert!(cuts > 20, "{cuts} cuts");
    kept.history.close().await;
    let again = History::open(kept.place.place(), settings()).await;
    kept = Kept {
        history: again,
        ..kept
    };
    let series = kept.series("route/a", 0, second, Step::TenSeconds).await;
    assert_eq!(
        sum(&series.points).arrived,
        arrived,
        "what is stored, without what is pending"
    );
}

/// Turns until nothing is left to write.
async fn flushed(kept: &mut Kept, second: i64) {
    for _ in 0..TURNS_MAX {
        kept.turn(second).await;
        let is_idle = kept.history.flushes(|flushes| flushes.doubt().is_none());
        if is_idle && kept.history.pending().rows() == 0 {
            return;
        }
    }
    unreachable!("{:?}", kept.history.state());
}
