//! Random documents of a repository: suites, `.env`, `argus.toml` and `OpenAPI`. Each is refused or read, in bounded time and memory.

use std::fs;
use std::path::Path;
use std::time::Duration;

use argus_backend::sim::Rng;
use argus_core::dotenv;
use argus_tests::fuzz::{Seeds, below, mutate, one_of, read_corpus};

use crate::settings::trust;

/// Number of seeds of a run without a time.
const SEEDS: u64 = 300;
/// Maximum CPU time of one document. Programs without optimizations are an order of magnitude slower.
const LIMIT: Duration = Duration::from_secs(if cfg!(debug_assertions) { 20 } else { 2 });
/// Maximum memory of one document.
const MAX_MEMORY_KIB: u64 = 64 * 1024;
/// Maximum size of a document with repetitions.
const MAX_REPEATED: usize = 200_000;

const SUITE: &str = "name: Orders\ncases:\n  - name: page\n    request: { method: GET, path: '/orders/{{env.A}}', headers: { a: b } }\n    \
                     expect: { status: 200, headers: { content-type: { contains: html } }, body: { items: { matches: '^[a-z]+$' } } }\n  \
                     - name: file\n    file: { path: /index.html, exists: true, contains: hello }\n  - name: run\n    exec: { command: ps }\n    \
                     expect: { exitCode: 0, output: { contains: httpd } }\n";
const DOTENV: &str = "# comment\nexport A=1\nB=\"two words\\n$A\"\nC='single'\nD=${A:-x}\n";
const SETTINGS: &str = "specs = \"environments\"\nallow-mount = [\"/data\"]\nenv-allow = [\"A\"]\ntimeout-short = \"10s\"\nlisten = \"127.0.0.1:9470\"\n";

/// Parts that one of the formats treats specially.
const PARTS: &[&[u8]] = &[
    b"\n",
    b"\r\n",
    b"\0",
    b"\xff\xfe",
    b"\xef\xbb\xbf",
    b"{{{{{{{{",
    b"[[[[[[[[[[[[[[[[",
    b"${A:-${A:-${A:-",
    b"\"\"\"",
    b"'''",
    b"= [",
    b"1e999",
    b"18446744073709551616",
    b"&a [*a, *a]",
    b"<<: *a",
    b"$ref: '#/components/schemas/a'",
    b"$ref: '#'",
    b"allOf: [{ $ref: '#/components/schemas/a' }, { $ref: '#/components/schemas/a' }]",
    b"pattern: '(a|a)*{1,1000}'",
    b"minItems: 1000000000",
    b"minLength: 4294967295",
    b"multipleOf: 1e-300",
    b"$matches: '((a+)+)+$'",
    b"enum: []",
];

#[derive(Debug, Clone, Copy)]
enum Kind {
    Suite,
    Dotenv,
    Settings,
    OpenApi,
}

/// Reads a document as the controller and the commands do. Returns true if it is accepted.
fn read(kind: Kind, bytes: &[u8]) -> bool {
    let text = String::from_utf8_lossy(bytes);
    match kind {
        Kind::Suite => {
            let parsed = argus_suite::parse("suite.yaml", bytes);
            assert!(
                parsed.suite.is_some() || !parsed.diagnostics.is_empty(),
                "a refusal has a reason"
            );
            parsed.suite.is_some()
        }
        Kind::Dotenv => !dotenv::read(bytes, &|_| None).variables.is_empty(),
        Kind::Settings => !trust::list_widening(&text, Path::new(".")).is_empty(),
        Kind::OpenApi => !argus_mock::check_openapi(&text)
            .iter()
            .any(argus_crds::Diagnostic::is_error),
    }
}

/// Repeats a part of the bytes up to a large document.
fn repeat(random: &mut Rng, bytes: &mut Vec<u8>) {
    let at = below(random, bytes.len() + 1);
    let end = (at + 1 + below(random, 200)).min(bytes.len());
    let part = bytes[at..end].to_vec();
    if !part.is_empty() {
        let times = below(random, MAX_REPEATED / part.len());
        bytes.splice(at..at, part.repeat(times));
    }
}

/// Sets the peak of the process back to its present memory. Returns that in KiB.
fn reset_peak_kib() -> u64 {
    fs::write("/proc/self/clear_refs", "5").unwrap();
    memory_kib("VmRSS:")
}

/// CPU time of this thread.
fn cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::try_from(time).unwrap()
}

fn memory_kib(key: &str) -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(key)).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

#[test]
fn random_documents_are_read_in_bounded_time_and_memory() {
    let alone = std::env::var_os("ARGUS_FUZZ_SECONDS").is_some();
    let suites = [SUITE.as_bytes().to_vec()];
    let others = [DOTENV, SETTINGS].map(|text| text.as_bytes().to_vec());
    let documents = read_corpus(&["controller/mock/tests/corpus", "examples/mocks"]);
    let (mut accepted, mut slowest, mut largest) = ([0_u32; 4], Duration::ZERO, 0);
    for seed in Seeds::new("documents", SEEDS) {
        let random = &mut Rng::new(seed);
        let kind = *one_of(
            random,
            &[Kind::Suite, Kind::Dotenv, Kind::Settings, Kind::OpenApi],
        );
        let mut bytes = match kind {
            Kind::Suite => suites[0].clone(),
            Kind::Dotenv => others[0].clone(),
            Kind::Settings => others[1].clone(),
            Kind::OpenApi => one_of(random, &documents).clone(),
        };
        mutate(
            random,
            &mut bytes,
            PARTS,
            if matches!(kind, Kind::OpenApi) {
                &documents
            } else {
                &suites
            },
        );
        if below(random, 8) == 0 {
            repeat(random, &mut bytes);
        }
        // Another test of the same process reads its peak.
        let before = if alone {
            reset_peak_kib()
        } else {
            memory_kib("VmHWM:")
        };
        let start = cpu_time();
        accepted[kind as usize] += u32::from(read(kind, &bytes));
        let (took, used) = (
            cpu_time().saturating_sub(start),
            memory_kib("VmHWM:").saturating_sub(before),
        );
        assert!(took < LIMIT, "{kind:?}: {took:?}");
        // Other tests of this process use memory at the same time.
        assert!(!alone || used < MAX_MEMORY_KIB, "{kind:?}: {used} KiB");
        (slowest, largest) = (slowest.max(took), largest.max(used));
    }
    println!(
        "documents: {accepted:?} of suites, .env, argus.toml and OpenAPI accepted, at most {slowest:?} and {largest} KiB"
    );
}
