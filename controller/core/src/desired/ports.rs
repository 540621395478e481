//! Parser for published ports, in all forms that Compose accepts, and policy for host ports that are taken.

use core::net::IpAddr;

use serde::{Deserialize, Serialize};

use crate::desired::Port;
use crate::ident::Protocol;

/// Maximum number of ports of one entry.
const MAX_RANGE: u16 = 1000;

/// Reason why a text is not a published port.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadPort {
    /// The text is empty.
    #[error("it is empty")]
    Empty,
    /// The container port after the last colon is missing.
    #[error("it has no container port")]
    NoContainerPort,
    /// A part is not a number from 1 to 65,535.
    #[error("`{0}` is not a port number")]
    Number(String),
    /// The end of a range is lower than its start.
    #[error("the range `{0}` runs backwards")]
    Backwards(String),
    /// A range has more than 1,000 ports.
    #[error("the range `{0}` has more than 1,000 ports")]
    TooLong(String),
    /// The two ranges have different lengths.
    #[error("the ranges have different lengths ({host} and {container})")]
    Unequal {
        /// Number of host ports.
        host: u16,
        /// Number of container ports.
        container: u16,
    },
    /// The part before the host port is not an IP address.
    #[error("`{0}` is not an IP address")]
    Address(String),
    /// The part after the slash is neither `tcp` nor `udp`.
    #[error("the protocol `{0}` is not supported")]
    Protocol(String),
}

impl BadPort {
    /// Returns the hint for the user.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Empty | Self::NoContainerPort => {
                "write `host:container`, such as `8080:80`, or one number for both"
            }
            Self::Number(_) => "write a number from 1 to 65535",
            Self::Backwards(_) => "write the lower port first, such as `8000-8002`",
            Self::TooLong(_) => "split the range, or publish fewer ports",
            Self::Unequal { .. } => "write ranges of equal length, such as `8000-8002:9000-9002`",
            Self::Address(_) => {
                "write `address:host:container` with a numeric address, such as `127.0.0.1:8080:80` or `[::1]:8080:80`"
            }
            Self::Protocol(_) => "write `tcp` or `udp`",
        }
    }
}

/// Ports of one entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Published {
    /// Published ports, one per container port.
    pub ports: Vec<Port>,
    /// True if the entry has a range of host ports for one container port. Only its first port counts.
    pub first_of_range: bool,
}

/// Parses `[ip:]host:container[/tcp|/udp]`, with ranges such as `8000-8002:9000-9002`.
///
/// A single number publishes that container port under the same host port, as the Node tool does (Compose assigns any
/// free port). With an empty host port (`127.0.0.1::80`, `:80`) or the host port 0, Argus assigns one.
///
/// ```
/// use argus_core::desired::ports::parse;
///
/// let port = parse("127.0.0.1:8080:80").unwrap().ports.remove(0);
/// assert_eq!((port.requested, port.container), (Some(8080), 80));
/// assert_eq!(parse("8000-8002:9000-9002").unwrap().ports.len(), 3);
/// assert_eq!(parse("80800:8080").unwrap_err().to_string(), "`80800` is not a port number");
/// ```
///
/// # Errors
/// [`BadPort`] names the invalid part.
pub fn parse(text: &str) -> Result<Published, BadPort> {
    let text = text.trim();
    if text.is_empty() {
        return Err(BadPort::Empty);
    }
    let (numbers, protocol) = protocol(text)?;
    let Sides {
        address,
        host,
        container,
    } = sides(numbers)?;
    if container.is_empty() {
        return Err(BadPort::NoContainerPort);
    }
    let container_range = range(container)?.ok_or_else(|| BadPort::Number(container.to_owned()))?;
    if count(container_range) > MAX_RANGE {
        return Err(BadPort::TooLong(container.to_owned()));
    }
    let host_range = match host {
        None => Some(container_range),
        Some("") => None,
        Some(host) => range(host)?,
    };
    let is_single = container_range.0 == container_range.1;
    if let Some(host_range) = host_range
        && !is_single
        && count(host_range) != count(container_range)
    {
        return Err(BadPort::Unequal {
            host: count(host_range),
            container: count(container_range),
        });
    }
    let port = |number: u16| Port {
        container: number,
        protocol,
        requested: host_range.map(|(first, _)| first + (number - container_range.0)),
        address,
    };
    let first_of_range = is_single && host_range.is_some_and(|(first, last)| first != last);
    Ok(Published {
        ports: (container_range.0..=container_range.1).map(port).collect(),
        first_of_range,
    })
}

struct Sides<'a> {
    address: Option<IpAddr>,
    host: Option<&'a str>,
    container: &'a str,
}

fn protocol(text: &str) -> Result<(&str, Protocol), BadPort> {
    let Some((numbers, protocol)) = text.split_once('/') else {
        return Ok((text, Protocol::Tcp));
    };
    match protocol.to_ascii_lowercase().as_str() {
        "tcp" => Ok((numbers, Protocol::Tcp)),
        "udp" => Ok((numbers, Protocol::Udp)),
        _ => Err(BadPort::Protocol(short(protocol))),
    }
}

fn sides(numbers: &str) -> Result<Sides<'_>, BadPort> {
    let Some((before, container)) = numbers.rsplit_once(':') else {
        return Ok(Sides {
            address: None,
            host: None,
            container: numbers,
        });
    };
    let Some((text, host)) = before.rsplit_once(':') else {
        // `127.0.0.1:80` names an address where the host port belongs.
        return if before.parse::<IpAddr>().is_ok() {
            Err(BadPort::Address(format!("{before}:{}", short(container))))
        } else {
            Ok(Sides {
                address: None,
                host: Some(before),
                container,
            })
        };
    };
    let bare = text
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'))
        .unwrap_or(text);
    let address = match bare {
        "" => None,
        bare => Some(bare.parse().map_err(|_| BadPort::Address(short(text)))?),
    };
    Ok(Sides {
        address,
        host: Some(host),
        container,
    })
}

/// Returns both ends of a range, or one number twice; `None` for the number 0, which means any port.
fn range(text: &str) -> Result<Option<(u16, u16)>, BadPort> {
    let Some((first, last)) = text.split_once('-').filter(|(first, _)| !first.is_empty()) else {
        let port = number(text)?;
        return Ok((port != 0).then_some((port, port)));
    };
    let (first, last) = (number(first)?, number(last)?);
    if first == 0 {
        return Err(BadPort::Number("0".to_owned()));
    }
    if last < first {
        return Err(BadPort::Backwards(text.to_owned()));
    }
    Ok(Some((first, last)))
}

fn number(text: &str) -> Result<u16, BadPort> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let number = digits.then(|| text.parse().ok()).flatten();
    number.ok_or_else(|| BadPort::Number(short(text)))
}

fn count((first, last): (u16, u16)) -> u16 {
    last - first + 1
}

fn short(text: &str) -> String {
    text.chars().take(40).collect()
}

/// Range and strategy for host ports.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PortPolicy {
    /// First port of the range, inclusive.
    pub low: u16,
    /// Last port of the range, inclusive.
    pub high: u16,
    /// Strategy for a taken port.
    pub strategy: PortStrategy,
}

/// Strategy for a taken host port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PortStrategy {
    /// Argus assigns another port from the range.
    Auto,
    /// The service waits until it is free.
    Fail,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(cases: &[(&str, &str)]) {
        for (text, expected) in cases {
            let shown = match parse(text) {
                Ok(published) => {
                    let one = |port: &Port| {
                        let address = port
                            .address
                            .map(|address| format!("{address} "))
                            .unwrap_or_default();
                        let requested = port
                            .requested
                            .map_or("any".to_owned(), |requested| requested.to_string());
                        format!("{address}{requested}->{}/{}", port.container, port.protocol)
                    };
                    let all: Vec<String> = published.ports.iter().map(one).collect();
                    format!(
                        "{}{}",
                        all.join(", "),
                        if published.first_of_range { " (first)" } else { "" }
                    )
                }
                Err(bad) => bad.to_string(),
            };
            assert_eq!(&shown, expected, "`{text}`");
        }
    }

    #[test]
    fn parse_accepts_all_forms_of_compose() {
        check(&[
            ("3000", "3000->3000/tcp"),
            ("3000-3002", "3000->3000/tcp, 3001->3001/tcp, 3002->3002/tcp"),
            ("8000:8000", "8000->8000/tcp"),
            ("49100:22", "49100->22/tcp"),
            (" 8080:80 ", "8080->80/tcp"),
            ("9090-9091:8080-8081", "9090->8080/tcp, 9091->8081/tcp"),
            ("8000-9000:80", "8000->80/tcp (first)"),
            ("127.0.0.1:8001:8001", "127.0.0.1 8001->8001/tcp"),
            (
                "127.0.0.1:5000-5001:5010-5011",
                "127.0.0.1 5000->5010/tcp, 127.0.0.1 5001->5011/tcp",
            ),
            ("127.0.0.1::5000", "127.0.0.1 any->5000/tcp"),
            (":80", "any->80/tcp"),
            ("0:80", "any->80/tcp"),
            ("::80", "any->80/tcp"),
            ("0.0.0.0:8080:80", "0.0.0.0 8080->80/tcp"),
            ("::1:8080:80", "::1 8080->80/tcp"),
            ("[::1]:8080:80", "::1 8080->80/tcp"),
            ("[::]:8080:80/udp", ":: 8080->80/udp"),
            ("[fe80::1]::53/udp", "fe80::1 any->53/udp"),
            ("6060:6060/udp", "6060->6060/udp"),
            ("53/udp", "53->53/udp"),
            ("53:53/TCP", "53->53/tcp"),
            ("65535:65535", "65535->65535/tcp"),
            ("65534-65535", "65534->65534/tcp, 65535->65535/tcp"),
        ]);
    }

    #[test]
    fn parse_names_the_invalid_part() {
        check(&[
            ("", "it is empty"),
            ("  ", "it is empty"),
            ("8080:", "it has no container port"),
            ("/udp", "it has no container port"),
            ("http", "`http` is not a port number"),
            ("8080:http", "`http` is not a port number"),
            ("0", "`0` is not a port number"),
            ("8080:0", "`0` is not a port number"),
            ("70000:80", "`70000` is not a port number"),
            ("80:65536", "`65536` is not a port number"),
            ("+80:80", "`+80` is not a port number"),
            ("-1:80", "`-1` is not a port number"),
            ("0-5:0-5", "`0` is not a port number"),
            ("8002-8000:80", "the range `8002-8000` runs backwards"),
            ("1-65535", "the range `1-65535` has more than 1,000 ports"),
            ("8000-8002:80-81", "the ranges have different lengths (3 and 2)"),
            ("8000:80-81", "the ranges have different lengths (1 and 2)"),
            ("localhost:8080:80", "`localhost` is not an IP address"),
            ("127.0.0.1:80", "`127.0.0.1:80` is not an IP address"),
            ("[::1:8080:80", "`[::1` is not an IP address"),
            ("256.0.0.1:80:80", "`256.0.0.1` is not an IP address"),
            ("80:80/sctp", "the protocol `sctp` is not supported"),
            ("80:80/", "the protocol `` is not supported"),
            ("80:80/tcp/udp", "the protocol `tcp/udp` is not supported"),
            ("{{env.PORT}}:80", "`{{env.PORT}}` is not a port number"),
        ]);
    }
}
