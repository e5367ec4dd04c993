//! Charts: measured figures in, paths and tables out.
//!
//! Separate from the pages because every chart keeps the same promises: a gap is a gap, never a
//! line or a zero; what is drawn stands in a table too; words go with colours. It must never
//! measure, nor draw text inside of a drawing that is stretched.

mod heat;
mod hold;
mod path;
mod spark;
mod time;
mod trend;

pub use self::heat::{Cell, HEAT_ROWS_MAX, Heat, HeatRow};
pub use self::hold::{HoldBar, HoldChart, HoldMark};
pub use self::spark::Spark;
pub use self::trend::{Mark, POINTS_MAX, Point, StackRow, TableRow, Trend};
