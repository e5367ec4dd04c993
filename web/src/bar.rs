//! The geometry of one bar: in flight and peak against the limit.
//!
//! Separate because SVG wants numbers, and whole ones keep the page small and the snapshots calm.
//! It must never decide what is a problem.

use crate::text::wide_ratio;

/// The width of the drawing.
const WIDTH: u32 = 400;
/// The narrowest part of a bar that is still seen.
const SEEN: u64 = 3;

/// One bar, in units of the drawing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bar {
    /// Width of what is in flight.
    pub fill: u64,
    /// Place of the peak, if any.
    pub peak: Option<u64>,
}

impl Bar {
    /// The bar of a limit above 0; without one there is nothing to measure against.
    pub fn new(in_flight: u64, peak: u64, limit: Option<u64>) -> Option<Self> {
        let slots = limit.filter(|slots| *slots > 0)?;
        let width = u64::from(WIDTH);
        let place = |n: u64| wide_ratio(n.min(slots), slots, WIDTH);
        let fill = if in_flight == 0 {
            0
        } else {
            place(in_flight).max(SEEN)
        };
        Some(Self {
            fill,
            peak: (peak > 0).then(|| place(peak).clamp(2, width - 2)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_never_leaves_its_drawing() {
        assert_eq!(
            Bar::new(15, 30, Some(60)),
            Some(Bar {
                fill: 100,
                peak: Some(200)
            })
        );
        assert_eq!(
            Bar::new(90, 120, Some(60)),
            Some(Bar {
                fill: 400,
                peak: Some(398)
            })
        );
        assert_eq!(
            Bar::new(0, 0, Some(60)),
            Some(Bar {
                fill: 0,
                peak: None
            })
        );
        assert_eq!(
            Bar::new(1, 0, Some(1_000_000)),
            Some(Bar {
                fill: 3,
                peak: None
            })
        );
        assert_eq!(Bar::new(5, 5, None), None);
        assert_eq!(Bar::new(0, 0, Some(0)), None);
    }
}
