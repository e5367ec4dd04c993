//! What holds whatever happens in whatever order.

use std::time::Duration;

use proptest::prelude::*;

use super::tests::{Bench, SECOND, Through, rules};
use super::*;

#[derive(Clone, Copy, Debug)]
enum Act {
    Ask,
    Rest(usize),
    End(usize, Option<Outcome>),
    Pass(u64),
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let outcome = prop_oneof![
        Just(Some(Outcome::Answered)),
        Just(Some(Outcome::Failed)),
        Just(None)
    ];
    let act = prop_oneof![
        4 => Just(Act::Ask),
        4 => (0..8_usize, outcome).prop_map(|(at, outcome)| Act::End(at, outcome)),
        1 => (0..8_usize).prop_map(Act::Rest),
        1 => (0..3 * SECOND).prop_map(Act::Pass),
    ];
    prop::collection::vec(act, 0..400)
}

proptest! {
    /// Whatever happens: no more probes of one era than there are places, and once all that is
    /// out has ended, it takes at most the time of being open until something passes.
    #[test]
    fn probes_never_exceed_their_number_and_nothing_is_stuck(acts in acts()) {
        let own = BreakerRules { calls: 4, open: Duration::from_secs(1), probes: 2, ..rules() };
        let mut bench = Bench::new(&own);
        let mut out: Vec<Through> = Vec::new();
        let mut eras = std::collections::BTreeMap::<u64, (u32, u32)>::new();
        for act in acts {
            match act {
                Act::Ask => {
                    if let Ok(pass) = bench.ask() {
                        if bench.state() == BreakerState::HalfOpen {
                            let (places, _) = eras.entry(pass.era()).or_default();
                            *places += 1;
                            prop_assert!(*places <= 2, "{eras:?}");
                        }
                        out.push(pass);
                    }
                }
                Act::End(at, outcome) if at < out.len() => {
                    let mut pass = out.remove(at);
                    let change = outcome.and_then(|outcome| pass.tell(outcome, bench.now_us));
                    let is_silent = outcome.is_none() && pass.is_probe();
                    if let (true, Some((places, _))) = (is_silent, eras.get_mut(&pass.era())) {
                        *places -= 1;
                    }
                    if let Some(change) = change {
                        prop_assert!(change.from != change.to);
                    }
                }
                Act::Rest(at) if at < out.len() => {
                    let was_probe = out[at].is_probe();
                    out[at].rest();
                    if let (true, Some((places, _))) = (was_probe, eras.get_mut(&out[at].era())) {
                        *places -= 1;
                    }
                }
                Act::End(..) | Act::Rest(_) => {}
                Act::Pass(us) => bench.now_us += us,
            }
        }
        out.clear();
        bench.now_us += SECOND;
        prop_assert!(bench.ask().is_ok(), "stuck in {:?}", bench.state());
    }
}
