//! Paths of step charts, with gaps.
//!
//! Separate because a gap must be one in every chart alike. Whole numbers keep the pages small
//! and the snapshots calm. It must never join two points over a gap.

/// Width of every chart in units of its drawing.
pub(super) const WIDTH: u64 = 1_000;
/// Height.
pub(super) const HEIGHT: u64 = 200;

/// Maps figures to the drawing.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scale {
    /// Points over the whole width.
    pub(super) points: usize,
    /// The figure at the top.
    pub(super) top: u64,
}

impl Scale {
    /// The left edge of a point; its right edge is the left one of the next.
    pub(super) fn x(self, at: usize) -> u64 {
        let at = u64::try_from(at).unwrap_or(u64::MAX);
        let points = u64::try_from(self.points.max(1)).unwrap_or(u64::MAX);
        (at.saturating_mul(WIDTH) / points).min(WIDTH)
    }

    /// Counted from the top, as drawings are.
    pub(super) fn y(self, figure: u64) -> u64 {
        let top = u128::from(self.top.max(1));
        let figure = u128::from(figure).min(top);
        let up = figure * u128::from(HEIGHT) / top;
        HEIGHT - u64::try_from(up).unwrap_or(HEIGHT)
    }

    /// A line in steps.
    pub(super) fn line(self, figures: &[Option<u64>]) -> String {
        let mut path = String::new();
        for (from, run) in runs(figures) {
            for (n, figure) in run.iter().enumerate() {
                let (x, y) = (self.x(from + n), self.y(*figure));
                let step = if n == 0 {
                    format!("M{x} {y}")
                } else {
                    format!("V{y}")
                };
                path.push_str(&format!("{step}H{}", self.x(from + n + 1)));
            }
        }
        path
    }

    /// The same filled down to the ground.
    pub(super) fn area(self, figures: &[Option<u64>]) -> String {
        let mut path = String::new();
        for (from, run) in runs(figures) {
            path.push_str(&format!("M{} {HEIGHT}", self.x(from)));
            for (n, figure) in run.iter().enumerate() {
                path.push_str(&format!("V{}H{}", self.y(*figure), self.x(from + n + 1)));
            }
            path.push_str(&format!("V{HEIGHT}Z"));
        }
        path
    }
}

/// The runs without a gap, each with the place of its first point.
fn runs(figures: &[Option<u64>]) -> Vec<(usize, Vec<u64>)> {
    let mut runs: Vec<(usize, Vec<u64>)> = Vec::new();
    let mut open = false;
    for (at, figure) in figures.iter().enumerate() {
        match (figure, runs.last_mut()) {
            (Some(figure), Some((_, run))) if open => run.push(*figure),
            (Some(figure), _) => runs.push((at, vec![*figure])),
            (None, _) => {}
        }
        open = figure.is_some();
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gap_is_a_gap() {
        let scale = Scale { points: 4, top: 10 };
        let figures = [Some(0), Some(10), None, Some(5)];
        assert_eq!(scale.line(&figures), "M0 200H250V0H500M750 100H1000");
        assert_eq!(
            scale.area(&figures),
            "M0 200V200H250V0H500V200ZM750 200V100H1000V200Z"
        );
        assert_eq!(scale.line(&[None, None]), "");
    }

    #[test]
    fn nothing_leaves_the_drawing() {
        let scale = Scale { points: 1, top: 0 };
        assert_eq!(scale.line(&[Some(u64::MAX)]), "M0 0H1000");
        assert_eq!((scale.x(usize::MAX), scale.y(u64::MAX)), (WIDTH, 0));
    }
}
