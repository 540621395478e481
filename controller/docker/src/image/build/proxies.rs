//! Proxy settings of Docker's configuration file as arguments of a build, as the client of Docker passes them.

use std::collections::BTreeMap;

use serde_json::Value;

/// Keys of the file, with the arguments that each builder knows. It keeps them out of the history and of the build cache.
const KEYS: [(&str, &str); 5] = [
    ("httpProxy", "HTTP_PROXY"),
    ("httpsProxy", "HTTPS_PROXY"),
    ("ftpProxy", "FTP_PROXY"),
    ("noProxy", "NO_PROXY"),
    ("allProxy", "ALL_PROXY"),
];

/// Adds the proxies for builds on the engine at `endpoint`. Arguments of the build itself stay. Its instructions can print their arguments,
/// so only an allowed project gets a URL with a login.
pub(super) fn add(args: &mut BTreeMap<String, String>, config: &Value, endpoint: &str, allowed: bool) {
    let proxies = &config["proxies"];
    let of_engine = proxies.get(endpoint).unwrap_or(&proxies["default"]);
    for (key, name) in KEYS {
        let value = of_engine[key].as_str().unwrap_or_default();
        if value.is_empty() || (value.contains('@') && !allowed) {
            continue;
        }
        for name in [name.to_owned(), name.to_ascii_lowercase()] {
            args.entry(name).or_insert_with(|| value.to_owned());
        }
    }
}

/// User and password in a URL, such as `me:secret` in `http://me:secret@proxy:3128`.
pub(super) fn login(url: &str) -> Option<&str> {
    let (_, rest) = url.split_once("://")?;
    let host = rest.split('/').next().unwrap_or_default();
    let (login, _) = host.rsplit_once('@')?;
    Some(login).filter(|login| login.contains(':'))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const ENGINE: &str = "tcp://engine:2376";

    fn args_with(config: &Value, endpoint: &str, allowed: bool) -> Vec<String> {
        let mut args = [("HTTP_PROXY".to_owned(), "of-the-file".to_owned())].into();
        add(&mut args, config, endpoint, allowed);
        args.iter()
            .map(|(name, value)| format!("{name}={value}"))
            .collect()
    }

    #[test]
    fn proxies_of_the_engine_precede_the_default_ones() {
        let config = json!({"proxies": {
            "default": { "httpProxy": "http://proxy:3128", "noProxy": "localhost,.lab" },
            ENGINE: { "httpsProxy": "http://lab:3128", "noProxy": "" },
        }});
        let default = [
            "HTTP_PROXY=of-the-file",
            "NO_PROXY=localhost,.lab",
            "http_proxy=http://proxy:3128",
            "no_proxy=localhost,.lab",
        ];
        assert_eq!(args_with(&config, "unix:///run/docker.sock", false), default);
        let of_engine = [
            "HTTPS_PROXY=http://lab:3128",
            "HTTP_PROXY=of-the-file",
            "https_proxy=http://lab:3128",
        ];
        assert_eq!(args_with(&config, ENGINE, false), of_engine);
        assert_eq!(args_with(&Value::Null, ENGINE, true).len(), 1);
    }

    #[test]
    fn login_of_a_proxy_is_only_for_an_allowed_project() {
        let config = json!({"proxies": { "default": { "allProxy": "http://me:secret@proxy:3128/" } }});
        assert_eq!(args_with(&config, ENGINE, false).len(), 1);
        assert_eq!(args_with(&config, ENGINE, true).len(), 3);
        assert_eq!(login("http://me:secret@proxy:3128/"), Some("me:secret"));
        for url in [
            "http://proxy/a@b",
            "localhost,.lab",
            "http://me@proxy",
            "me@example.com",
        ] {
            assert_eq!(login(url), None, "{url}");
        }
    }
}
