//! Published ports as people write them, in every form that Compose takes.

use core::net::IpAddr;

use crate::desired::Port;
use crate::ident::Protocol;

/// The most ports that one entry may stand for.
const LONGEST_RANGE: u16 = 1000;

/// Why a text is not a published port.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadPort {
    /// Nothing is written.
    #[error("is empty")]
    Empty,
    /// There is no container port behind the last colon.
    #[error("names no container port")]
    NoContainerPort,
    /// A part is no number from 1 to 65,535.
    #[error("holds `{0}`, which is no port number")]
    Number(String),
    /// A range that runs backwards.
    #[error("holds the range `{0}`, which runs backwards")]
    Backwards(String),
    /// A range of more ports than one entry may stand for.
    #[error("holds the range `{0}`, which is longer than 1,000 ports")]
    TooLong(String),
    /// Two ranges that do not pair up.
    #[error("pairs {host} host ports with {container} container ports")]
    Unequal {
        /// How many host ports.
        host: u16,
        /// How many container ports.
        container: u16,
    },
    /// The part before the host port is no IP address.
    #[error("holds `{0}`, which is no IP address")]
    Address(String),
    /// The part behind the slash is neither `tcp` nor `udp`.
    #[error("asks for the protocol `{0}`")]
    Protocol(String),
}

impl BadPort {
    /// What to do about it.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Empty | Self::NoContainerPort => {
                "write `host:container`, as in `8080:80`, or one number for both"
            }
            Self::Number(_) => "a port is a number from 1 to 65535",
            Self::Backwards(_) => "write the lower port first, as in `8000-8002`",
            Self::TooLong(_) => "split the range, or publish fewer ports",
            Self::Unequal { .. } => "give both sides the same number of ports, as in `8000-8002:9000-9002`",
            Self::Address(_) => {
                "write `address:host:container` with a numeric address, as in `127.0.0.1:8080:80` or `[::1]:8080:80`"
            }
            Self::Protocol(_) => "only `tcp` and `udp` can be published",
        }
    }
}

/// What one entry publishes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Published {
    /// One for each container port.
    pub ports: Vec<Port>,
    /// A range of host ports was given for one container port: only the first is wanted, as a taken port moves anyway.
    pub first_of_range: bool,
}

/// Reads `[ip:]host:container[/tcp|/udp]`, ranges as in `8000-8002:9000-9002`, `[::1]:8080:80`.
///
/// One bare number publishes that container port under its own number, as the Node tool does (Compose would take any
/// free port). An empty host port (`127.0.0.1::80`, `:80`) or the host port 0 leaves the choice to Argus.
///
/// # Errors
/// [`BadPort`] says which part is wrong.
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
    let inside = range(container)?.ok_or_else(|| BadPort::Number(container.to_owned()))?;
    if count(inside) > LONGEST_RANGE {
        return Err(BadPort::TooLong(container.to_owned()));
    }
    let outside = match host {
        None => Some(inside),
        Some("") => None,
        Some(host) => range(host)?,
    };
    let single = inside.0 == inside.1;
    if let Some(outside) = outside
        && !single
        && count(outside) != count(inside)
    {
        return Err(BadPort::Unequal {
            host: count(outside),
            container: count(inside),
        });
    }
    let port = |number: u16| Port {
        container: number,
        protocol,
        wanted: outside.map(|(first, _)| first + (number - inside.0)),
        address,
    };
    let first_of_range = single && outside.is_some_and(|(first, last)| first != last);
    Ok(Published {
        ports: (inside.0..=inside.1).map(port).collect(),
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
    let Some((written, host)) = before.rsplit_once(':') else {
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
    let bare = written
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'))
        .unwrap_or(written);
    let address = match bare {
        "" => None,
        bare => Some(bare.parse().map_err(|_| BadPort::Address(short(written)))?),
    };
    Ok(Sides {
        address,
        host: Some(host),
        container,
    })
}

/// Both ends of a range, or one number twice; `None` for the number 0, which stands for any port.
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
                        let wanted = port.wanted.map_or("any".to_owned(), |wanted| wanted.to_string());
                        format!("{address}{wanted}->{}/{}", port.container, port.protocol)
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
    fn every_form_that_compose_takes_is_taken() {
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
    fn what_is_no_port_says_why() {
        check(&[
            ("", "is empty"),
            ("  ", "is empty"),
            ("8080:", "names no container port"),
            ("/udp", "names no container port"),
            ("http", "holds `http`, which is no port number"),
            ("8080:http", "holds `http`, which is no port number"),
            ("0", "holds `0`, which is no port number"),
            ("8080:0", "holds `0`, which is no port number"),
            ("70000:80", "holds `70000`, which is no port number"),
            ("80:65536", "holds `65536`, which is no port number"),
            ("+80:80", "holds `+80`, which is no port number"),
            ("-1:80", "holds `-1`, which is no port number"),
            ("0-5:0-5", "holds `0`, which is no port number"),
            (
                "8002-8000:80",
                "holds the range `8002-8000`, which runs backwards",
            ),
            (
                "1-65535",
                "holds the range `1-65535`, which is longer than 1,000 ports",
            ),
            ("8000-8002:80-81", "pairs 3 host ports with 2 container ports"),
            ("8000:80-81", "pairs 1 host ports with 2 container ports"),
            ("localhost:8080:80", "holds `localhost`, which is no IP address"),
            ("127.0.0.1:80", "holds `127.0.0.1:80`, which is no IP address"),
            ("[::1:8080:80", "holds `[::1`, which is no IP address"),
            ("256.0.0.1:80:80", "holds `256.0.0.1`, which is no IP address"),
            ("80:80/sctp", "asks for the protocol `sctp`"),
            ("80:80/", "asks for the protocol ``"),
            ("80:80/tcp/udp", "asks for the protocol `tcp/udp`"),
            ("{{env.PORT}}:80", "holds `{{env.PORT}}`, which is no port number"),
        ]);
    }
}
