//! Where a program serves, as it prints it.

use core::fmt;
use core::str::FromStr;

use super::error::LiveError;

const SCHEME: &str = "allotment://";

/// The address of a running program, as [`LiveServer::address`](super::LiveServer::address) returns it:
/// `allotment://127.0.0.1:40123/` and a token of 32 hexadecimal digits. Who has it can see the program's events.
///
/// ```
/// use allotment_trace::live::LiveAddress;
///
/// let address: LiveAddress = "allotment://127.0.0.1:40123/00112233445566778899aabbccddeeff".parse()?;
/// assert_eq!(address.host(), "127.0.0.1:40123");
/// assert!("http://127.0.0.1:40123/".parse::<LiveAddress>().is_err());
/// # Ok::<(), allotment_trace::live::LiveError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiveAddress {
    host: String,
    token: Token,
}

impl LiveAddress {
    pub(super) fn new(host: impl fmt::Display, token: Token) -> Self {
        Self { host: host.to_string(), token }
    }

    /// Returns an address with a new token, for a program that starts later: [`LiveServer::bind`](super::LiveServer::bind)
    /// takes it whole, and so does the variable `ALLOTMENT_LIVE`. A viewer that knows the address can wait for the program.
    ///
    /// ```
    /// use allotment_trace::live::LiveAddress;
    ///
    /// let address = LiveAddress::with_new_token("127.0.0.1:4100")?;
    /// assert!(address.to_string().starts_with("allotment://127.0.0.1:4100/"));
    /// # Ok::<(), allotment_trace::live::LiveError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`LiveError::Address`], if the text is no host and port; [`LiveError::Random`], if the system has no random bytes.
    pub fn with_new_token(host: &str) -> Result<Self, LiveError> {
        Self::new(host, Token::random()?).to_string().parse()
    }

    /// Returns where a server listens, and its token if the text is a whole address and not a host alone.
    pub(super) fn of_server(address: &str) -> Result<(String, Option<Token>), LiveError> {
        if !address.starts_with(SCHEME) {
            return Ok((address.to_owned(), None));
        }
        address.parse().map(|Self { host, token }| (host, Some(token)))
    }

    /// Returns the host and the port, as `127.0.0.1:40123`.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.host
    }

    pub(super) const fn token(&self) -> Token {
        self.token
    }
}

impl fmt::Display for LiveAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{SCHEME}{}/{:032x}", self.host, u128::from_be_bytes(self.token.0))
    }
}

impl FromStr for LiveAddress {
    type Err = LiveError;

    fn from_str(address: &str) -> Result<Self, LiveError> {
        let read = || {
            let (host, token) = address.strip_prefix(SCHEME)?.rsplit_once('/')?;
            let (name, port) = host.rsplit_once(':')?;
            port.parse::<u16>().ok()?;
            let is_token = token.len() == 32 && token.bytes().all(|digit| digit.is_ascii_hexdigit());
            let token = u128::from_str_radix(token, 16).ok().filter(|_| is_token)?;
            let token = Token(token.to_be_bytes());
            (!name.is_empty()).then(|| Self { host: host.to_owned(), token })
        };
        read().ok_or_else(|| LiveError::Address { address: address.to_owned() })
    }
}

/// The secret that a viewer shows.
#[derive(Clone, Copy)]
pub(super) struct Token(pub(super) [u8; Self::BYTES]);

impl Token {
    pub(super) const BYTES: usize = 16;

    /// Returns one that the operating system has drawn.
    pub(super) fn random() -> Result<Self, LiveError> {
        let mut bytes = [0; Self::BYTES];
        getrandom::fill(&mut bytes).map_err(|error| LiveError::Random(error.into()))?;
        Ok(Self(bytes))
    }
}

impl PartialEq for Token {
    /// Takes the same time whichever bytes differ: who measures it learns nothing about them.
    fn eq(&self, other: &Self) -> bool {
        let differ =
            self.0.iter().zip(&other.0).fold(0, |differ, (a, b)| core::hint::black_box(differ | (a ^ b)));
        differ == 0
    }
}

impl Eq for Token {}

impl fmt::Debug for Token {
    /// Logs are read by more people than the address is for.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_read_as_it_is_printed() {
        for host in ["127.0.0.1:1", "[::1]:65535", "workstation.example:80"] {
            let address = LiveAddress::new(host, Token(*b"0123456789abcdef"));
            assert_eq!(address.to_string().parse::<LiveAddress>().unwrap(), address);
            assert!(!format!("{address:?}").contains("3031"), "the token is in no log");
        }
    }

    #[test]
    fn what_is_no_address_is_refused() {
        let token = "00112233445566778899aabbccddeeff";
        let host = "allotment://127.0.0.1:80";
        for address in [
            String::new(),
            format!("127.0.0.1:80/{token}"),
            host.to_owned(),
            format!("{host}/"),
            format!("{host}/{}", &token[1..]),
            format!("{host}/+{}", &token[1..]),
            format!("{host}/{token}0"),
            format!("{host}/é{}", &token[2..]),
            format!("allotment://127.0.0.1/{token}"),
            format!("allotment://127.0.0.1:65536/{token}"),
            format!("allotment://:80/{token}"),
        ] {
            let error = address.parse::<LiveAddress>().unwrap_err();
            assert!(matches!(error, LiveError::Address { .. }), "{address}");
        }
    }
}
