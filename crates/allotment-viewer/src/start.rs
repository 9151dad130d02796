//! The command line.

use std::ffi::OsString;
use std::path::PathBuf;

use allotment_trace::live::LiveAddress;

pub(crate) const USAGE: &str = "usage: allotment-viewer [FILE]
       allotment-viewer attach ADDRESS

Shows a recording of GPU memory (.altr), or what another tool recorded: GFXReconstruct's JSON lines, JSON dumps of VMA
and D3D12MA, snapshots of PyTorch. Each may be compressed with gzip.

attach ADDRESS follows a program that runs, by the address that it prints: allotment://HOST:PORT/TOKEN. It waits for a
program that starts later with ALLOTMENT_LIVE=ADDRESS in its environment.";

/// The recording or the program that the window shows first.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Start {
    Nothing,
    File(PathBuf),
    Program(LiveAddress),
}

impl Start {
    /// Reads the arguments after the program's name.
    ///
    /// # Errors
    ///
    /// What is wrong with them, or an empty text where the usage says it.
    pub(crate) fn of_arguments(arguments: &[OsString]) -> Result<Self, String> {
        match arguments {
            [] => Ok(Self::Nothing),
            [attach, address] if attach == "attach" => {
                let address = address.to_string_lossy().parse();
                address
                    .map(Self::Program)
                    .map_err(|error: allotment_trace::live::LiveError| error.to_string())
            }
            // A file of this name is opened as ./attach.
            [attach] if attach == "attach" => Err(String::new()),
            [file] => Ok(Self::File(PathBuf::from(file))),
            _ => Err(String::new()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn start(arguments: &[&str]) -> Result<Start, String> {
        Start::of_arguments(&arguments.iter().map(OsString::from).collect::<Vec<_>>())
    }

    #[test]
    fn a_file_or_an_address_may_be_given() {
        assert_eq!(start(&[]), Ok(Start::Nothing));
        assert_eq!(start(&["town.altr"]), Ok(Start::File(PathBuf::from("town.altr"))));
        let address = "allotment://127.0.0.1:4100/00112233445566778899aabbccddeeff";
        assert!(matches!(start(&["attach", address]), Ok(Start::Program(at)) if at.to_string() == address));
        let error = start(&["attach", "127.0.0.1:4100"]).err().unwrap_or_default();
        assert!(error.contains("allotment://HOST:PORT/TOKEN"), "{error}");
        assert_eq!(start(&["attach"]), Err(String::new()));
        assert_eq!(start(&["town.altr", "city.altr"]), Err(String::new()));
    }
}
