//! x
use crate::command::*;
pub(crate) const COMMAND: Command = Command { name: "demo", operands: &[], summary: "", details: "", flags: &[], run };
fn run(_: &Arguments<'_>) -> Result<(), Failure> {
    Ok(())
}
