use super::Export;
use std::io;
pub(super) fn write(_export: Export<'_>, _out: &mut impl io::Write) -> io::Result<()> {
    Ok(())
}
