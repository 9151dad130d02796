//! Nothing: the tests are the programs beside this file, and a package needs a library.
