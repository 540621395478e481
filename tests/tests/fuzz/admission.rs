//! Random spec files: each ends in a desired state or in diagnostics with locations inside the file.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use argus_backend::sim::Rng;
use argus_core::time::Timestamp;
use argus_crds::diagnostic::{Diagnostic, render};
use argus_reconciler::specs::admission::{AdmissionInput, SpecAdmitter};
use argus_reconciler::specs::parsed_file::ParsedFile;
use argus_reconciler::specs::registry::Admission;
use argus_tests::fuzz::{Seeds, below, mutate, one_of, read_corpus};

/// Number of seeds of a run without a time.
const SEEDS: u64 = 1_500;
/// Maximum CPU time of one file. Programs without optimizations are an order of magnitude slower.
const LIMIT: Duration = Duration::from_secs(if cfg!(debug_assertions) { 10 } else { 1 });
/// Maximum size of a file with repetitions.
const MAX_REPEATED: usize = 400_000;
/// Value of each variable. A diagnostic may contain it only as a part of a name or a port.
const SECRET: &str = "s3cr3t-5e884898da28";
/// Parts that YAML or the format treat specially.
const PARTS: &[&[u8]] = &[
    b"\n",
    b"\r\n",
    b"\n  ",
    b"\n- ",
    b": ",
    b" #",
    b"\t",
    b"\0",
    b"\xff\xfe",
    b"\xef\xbb\xbf",
    b"\xe2\x80\xa8",
    b"\xf0\x9f\x90\xb3",
    b"&a ",
    b"*a",
    b"<<: *a",
    b"!!binary ",
    b"!x ",
    b"? ",
    b"|\n",
    b">-\n",
    b"---\n",
    b"...\n",
    b"%TAG ! x\n",
    b"[[[[[[[[[[",
    b"{{{{{{",
    b"]",
    b"}",
    b"\"",
    b"'",
    b"\\u0000",
    b"\\ud800",
    b"null",
    b"~",
    b"-1",
    b"0x7f",
    b".nan",
    b"1e999",
    b"18446744073709551616",
    b"0.0.0.0:1-65535:1-65535",
    b"80:80/udp",
    b"../../..",
    b"/var/run/docker.sock",
    b"{{env.X}}",
    b"{{env.",
    b"{{services.a.port}}",
    b"{{uuid}}",
    b"P99999999999999Y",
    b"999999999999h",
    b"999999999Gi",
];

/// Moves whole lines, changes indentation, or repeats a part up to a large file.
fn mutate_lines(random: &mut Rng, bytes: &mut Vec<u8>, others: &[Vec<u8>]) {
    let mut lines: Vec<Vec<u8>> = bytes.split(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect();
    for _ in 0..below(random, 4) {
        let at = below(random, lines.len());
        match below(random, 5) {
            0 => drop(lines.remove(at)),
            1 => lines.insert(at, lines[below(random, lines.len())].clone()),
            2 => {
                let other: Vec<&[u8]> = one_of(random, others).split(|byte| *byte == b'\n').collect();
                let from = below(random, other.len());
                let end = (from + 1 + below(random, 8)).min(other.len());
                lines.splice(at..at, other[from..end].iter().map(|line| line.to_vec()));
            }
            3 => drop(lines[at].splice(0..0, *b"  ")),
            _ => {
                let indentation = lines[at].iter().take_while(|byte| **byte == b' ').count();
                lines[at].drain(..indentation.min(2));
            }
        }
        if lines.is_empty() {
            lines.push(Vec::new());
        }
    }
    if random.percent(2) {
        let at = below(random, lines.len());
        let end = (at + 1 + below(random, 6)).min(lines.len());
        let part = lines[at..end].to_vec();
        let size: usize = part.iter().map(|line| line.len() + 1).sum();
        for number in 0..below(random, 2_000).min(MAX_REPEATED / size.max(1)) {
            // Other names avoid an early end at the first duplicate.
            let copy = part.iter().map(|line| {
                String::from_utf8_lossy(line)
                    .replace("name: ", &format!("name: n{number}-"))
                    .into_bytes()
            });
            lines.splice(end..end, copy);
        }
    }
    *bytes = lines.join(&b'\n');
}

fn file_of(random: &mut Rng, corpus: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = one_of(random, corpus).clone();
    if random.percent(70) {
        mutate_lines(random, &mut bytes, corpus);
    }
    if random.percent(70) {
        mutate(random, &mut bytes, PARTS, corpus);
    }
    bytes
}

/// The value of each variable that the file names.
fn variables(text: &str) -> BTreeMap<String, String> {
    let names = text
        .split("{{")
        .filter_map(|rest| Some(rest.trim().strip_prefix("env.")?.split("}}").next()?.trim()));
    names.map(|name| (name.to_owned(), SECRET.to_owned())).collect()
}

/// Reports whether a name or a port contains a variable. Names and ports are public.
fn has_public_variable(bytes: &[u8]) -> bool {
    let read = argus_crds::yaml::read("e2e.yaml", bytes);
    let Some(spec) = read.spec.or(read.rest) else {
        return false;
    };
    let services = spec.declared_services();
    let containers = services
        .iter()
        .filter_map(|declared| declared.service.container.as_ref());
    let ports = containers
        .clone()
        .flat_map(|container| container.ports.iter().map(argus_crds::PortText::as_str));
    let names = [spec.isolation.namespace.as_deref(), spec.network.name.as_deref()]
        .into_iter()
        .flatten();
    let names = names
        .chain([spec.project.name.as_str()])
        .chain(services.iter().map(|declared| declared.name));
    // Aliases are names of a container on its networks.
    let aliases = containers.clone().flat_map(|container| {
        let attachments = container.networks.values();
        let of_networks = attachments.flat_map(|attachment| &attachment.aliases);
        container.aliases.iter().chain(of_networks).map(String::as_str)
    });
    let mut public = names
        .chain(containers.map(|container| container.name.as_str()))
        .chain(aliases)
        .chain(ports);
    public.any(|text| text.contains("{{"))
}

fn admit(bytes: &[u8], text: &str) -> Admission {
    let input = AdmissionInput {
        variables: variables(text),
        uuid: "5f1c8a52-0000-8000-a000-000000000000".to_owned(),
        ..AdmissionInput::new(Path::new("/specs/e2e.yaml"), Timestamp(1_763_000_000_000))
    };
    SpecAdmitter::default().admit(&ParsedFile::read("e2e.yaml", bytes), &input, &mut |_| None)
}

fn cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::try_from(time).unwrap()
}

fn check_diagnostic(diagnostic: &Diagnostic, text: &str) {
    assert!(!diagnostic.message.is_empty(), "{diagnostic:?}");
    if let Some(location) = diagnostic.location {
        // YAML has three line ends.
        let text = text.replace("\r\n", "\n").replace('\r', "\n");
        let line = location
            .line
            .checked_sub(1)
            .and_then(|index| text.split('\n').nth(index));
        let length = line.map_or(0, |line| line.chars().count());
        let is_inside = line.is_some() && (1..=length + 1).contains(&location.column);
        assert!(is_inside, "{diagnostic:?} is outside {text:?}");
    }
}

#[test]
fn random_spec_files_end_in_a_spec_or_in_diagnostics() {
    let corpus = read_corpus(&["crds/tests/corpus", "controller/core/tests/corpus", "examples"]);
    let (mut admitted, mut longest) = (0_u64, Duration::ZERO);
    for seed in Seeds::new("admission", SEEDS) {
        let random = &mut Rng::new(seed);
        let bytes = file_of(random, &corpus);
        let text = String::from_utf8_lossy(&bytes);
        let before = cpu_time();
        let admission = admit(&bytes, &text);
        let took = cpu_time().saturating_sub(before);
        assert!(took < LIMIT, "seed {seed}: {took:?} for {} bytes", bytes.len());
        longest = longest.max(took);
        let refused = admission.diagnostics.iter().any(Diagnostic::is_error);
        assert_eq!(
            admission.desired.is_none(),
            refused,
            "seed {seed}: {:?} of {text}",
            admission.diagnostics
        );
        for diagnostic in &admission.diagnostics {
            check_diagnostic(diagnostic, &text);
        }
        let shown = render("e2e.yaml", &text, &admission.diagnostics);
        assert!(
            !shown.contains(SECRET) || has_public_variable(&bytes),
            "seed {seed}: {shown} of {text}"
        );
        if random.percent(5) {
            assert_eq!(
                admit(&bytes, &text),
                admission,
                "seed {seed}: equal inputs give equal admissions"
            );
        }
        admitted += u64::from(admission.desired.is_some());
    }
    println!("admission: {admitted} files admitted, the slowest took {longest:?}");
    assert!(admitted > 0);
}
