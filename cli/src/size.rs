//! x
use crate::error::Failure;
#[derive(Debug, clap::Args)]
pub(crate) struct SizeArgs {}
pub(crate) fn run(_: &SizeArgs) -> Result<(), Failure> {
    Ok(())
}
