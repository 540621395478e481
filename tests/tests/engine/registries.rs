//! Builds of all kinds of Dockerfiles from a private registry with TLS and a login, also while it is cut off.
#![allow(clippy::expect_used, reason = "a failed step ends the test with a message")]

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use argus_tests::fixture::LIMIT;
use argus_tests::{Controller, Options, PrivateEngine, Registry, RunOptions};
use serde_json::Value;

use crate::tls::make_certificates;

/// A kind of Dockerfile.
struct Kind {
    name: &'static str,
    /// Further keys of `build`.
    build: &'static str,
    /// `BASE` is the image of the registry.
    dockerfile: &'static str,
    /// Command that succeeds in the container.
    proof: &'static str,
}

/// Kinds that the frontend of each engine knows.
const KINDS: [Kind; 15] = [
    Kind {
        name: "stages",
        build: "target: app",
        dockerfile: "FROM BASE AS build\nRUN echo one > /out\nFROM BASE AS app\nCOPY --from=build /out /app\nFROM build AS test\nRUN false\n",
        proof: "grep one /app",
    },
    Kind {
        name: "cache-mount",
        build: "",
        dockerfile: "FROM BASE\nRUN --mount=type=cache,target=/cache echo one > /cache/a && cp /cache/a /a\n",
        proof: "grep one /a && test ! -e /cache/a",
    },
    Kind {
        name: "bind-mount",
        build: "",
        dockerfile: "FROM BASE\nRUN --mount=type=bind,source=page,target=/mnt/page cp /mnt/page /a\n",
        proof: "grep page /a",
    },
    Kind {
        name: "image-mount",
        build: "",
        dockerfile: "FROM BASE\nRUN --mount=type=bind,from=BASE,source=/bin,target=/mnt /mnt/busybox cp /mnt/busybox /a\n",
        proof: "test -x /a",
    },
    Kind {
        name: "tmpfs-mount",
        build: "",
        dockerfile: "FROM BASE\nRUN --mount=type=tmpfs,target=/fast echo one > /fast/a && cp /fast/a /a\n",
        proof: "grep one /a && test ! -e /fast/a",
    },
    Kind {
        name: "secret-mount",
        build: "secrets: { key: { file: ./secret-mount/key } }",
        dockerfile: "FROM BASE\nRUN --mount=type=secret,id=key wc -c < /run/secrets/key > /size\n",
        proof: "grep 12 /size && test ! -e /run/secrets/key",
    },
    Kind {
        name: "copied-mode",
        build: "",
        dockerfile: "FROM BASE\nCOPY --chmod=751 --chown=7:8 page /page\n",
        proof: "test \"$(stat -c %a:%u:%g /page)\" = 751:7:8",
    },
    Kind {
        name: "platform",
        build: "",
        dockerfile: "FROM --platform=$BUILDPLATFORM BASE\nARG TARGETOS\nRUN echo \"$TARGETOS\" > /os\n",
        proof: "grep linux /os",
    },
    Kind {
        name: "global-argument",
        build: "args: { WORD: two }",
        dockerfile: "ARG IMAGE=BASE\nFROM $IMAGE\nARG WORD=one\nENV SAID=$WORD\nRUN echo \"$WORD\" > /word\n",
        proof: "grep two /word && test \"$SAID\" = two",
    },
    Kind {
        name: "archive",
        build: "",
        dockerfile: "FROM BASE\nADD pages.tar /pages/\n",
        proof: "grep page /pages/page",
    },
    Kind {
        name: "other-image",
        build: "",
        dockerfile: "FROM scratch\nCOPY --from=BASE /bin /bin\nENV PATH=/bin\n",
        proof: "test -x /bin/busybox",
    },
    Kind {
        name: "settings",
        build: "labels: { team: till }",
        dockerfile: "FROM BASE\nSHELL [\"/bin/sh\", \"-eu\", \"-c\"]\nWORKDIR /work\nUSER 7:8\nVOLUME /data\nSTOPSIGNAL SIGINT\nEXPOSE 80\nCMD [\"false\"]\n",
        proof: "test \"$(id -u):$(id -g)\" = 7:8 && test \"$PWD\" = /work",
    },
    Kind {
        name: "own-ignore-file",
        build: "",
        dockerfile: "FROM BASE\nCOPY . /all\n",
        proof: "test -e /all/page && test ! -e /all/key",
    },
    Kind {
        name: "continuation",
        build: "",
        dockerfile: "# escape=`\nFROM BASE\nRUN echo one > /a && `\n    # a comment\n    echo two >> /a\n",
        proof: "test \"$(wc -l < /a)\" = 2",
    },
    Kind {
        name: "inline",
        build: "dockerfileInline: \"FROM BASE\\nCOPY page /page\\n\"",
        dockerfile: "FROM unused\n",
        proof: "grep page /page",
    },
];

/// Kinds that need the frontend of Docker 23 or later.
const NEWER_KINDS: [Kind; 4] = [
    Kind {
        name: "heredoc",
        build: "",
        dockerfile: "FROM BASE\nRUN <<END\necho one > /a\necho two >> /a\nEND\nCOPY <<END /page\nof the file\nEND\n",
        proof: "test \"$(wc -l < /a)\" = 2 && grep file /page",
    },
    Kind {
        name: "linked-copy",
        build: "",
        dockerfile: "FROM BASE\nCOPY --link page /page\n",
        proof: "grep page /page",
    },
    Kind {
        name: "named-folder",
        build: "additionalContexts: { more: ./secret-mount }",
        dockerfile: "FROM BASE\nCOPY --from=more page /page\n",
        proof: "grep page /page",
    },
    Kind {
        name: "named-image",
        build: "additionalContexts: { start: \"docker-image://BASE\" }",
        dockerfile: "FROM start\nCOPY page /page\n",
        proof: "grep page /page",
    },
];

/// Writes the folders of these kinds, and an environment with one service for each, which proves its image and ends.
fn write(argus: &Controller<'_>, environment: &str, kinds: &[Kind], base: &str) {
    let mut spec = format!("version: \"1\"\nproject: {{ name: {environment} }}\nservices:\n");
    for kind in kinds {
        let folder = argus.specs.join(kind.name);
        fs::create_dir_all(&folder).expect("a folder");
        let file = |name: &str, bytes: &[u8]| fs::write(folder.join(name), bytes).expect("a file");
        file("Dockerfile", kind.dockerfile.replace("BASE", base).as_bytes());
        file("Dockerfile.dockerignore", b"key\nDockerfile*\n");
        file("page", b"a page\n");
        file("key", b"twelve bytes");
        file("pages.tar", &pages());
        let build = kind.build.replace("BASE", base);
        let more = if build.is_empty() {
            String::new()
        } else {
            format!(", {build}")
        };
        writeln!(
            spec,
            "  {name}:\n    build: {{ context: ./{name}{more} }}\n    entrypoint: [\"sh\", \"-c\"]\n    command: ['{proof}']\n    oneShot: true\n    \
             container: {{ name: {environment}-{name} }}",
            name = kind.name,
            proof = kind.proof.replace('\'', "''"),
        )
        .expect("writing to a string succeeds");
    }
    argus.write_spec(&format!("{environment}.e2e.yaml"), &spec);
}

/// An archive with one file.
fn pages() -> Vec<u8> {
    let mut header = tar::Header::new_gnu();
    header.set_size(7);
    header.set_mode(0o644);
    let mut archive = tar::Builder::new(Vec::new());
    archive
        .append_data(&mut header, "page", &b"a page\n"[..])
        .expect("a file in memory");
    archive.into_inner().expect("an archive in memory")
}

/// Starts an engine that trusts the authority of a folder, which it reads later.
fn engine_that_trusts(certificates: &Path) -> PrivateEngine {
    let authority = certificates.join("ca.pem").display().to_string();
    PrivateEngine::start_with(Options {
        env: vec![("SSL_CERT_FILE".to_owned(), authority)],
        ..Options::default()
    })
}

fn is_newer(engine: &PrivateEngine) -> bool {
    let version = engine.api("GET", "/version", None).json()["Version"].clone();
    let major = version.as_str().and_then(|version| version.split('.').next());
    major
        .and_then(|major| major.parse::<u32>().ok())
        .expect("a version")
        >= 23
}

#[test]
fn dockerfiles_of_all_kinds_build_from_a_private_registry() {
    let (own, other) = (tempdir(), tempdir());
    let engine = engine_that_trusts(own.path());
    make_certificates(own.path(), &engine.address());
    make_certificates(other.path(), &engine.address());
    let registry = Registry::start_with_tls(&engine, 5063, own.path());
    let untrusted = Registry::start_with_tls(&engine, 5064, other.path());
    engine.make_busybox_image("base:1", &[]);
    engine.make_busybox_image("late:1", &["ENV LATE=yes"]);
    let base = registry.push(&engine, "base:1");
    let late = registry.push(&engine, "late:1");
    engine.docker_ok(&["rmi", "base:1", "late:1"]);
    let login = registry.login().expect("a login").display().to_string();
    let options = RunOptions {
        env: vec![("DOCKER_CONFIG".to_owned(), login)],
        ..RunOptions::default()
    };
    let argus = Controller::start(&engine, options);

    write(&argus, "kinds", &KINDS, &base);
    argus.wait_ready("kinds", LIMIT);
    write(&argus, "newer", &NEWER_KINDS, &base);
    if is_newer(&engine) {
        argus.wait_ready("newer", LIMIT);
    } else {
        let is_capability = |error: &&Value| {
            let message = error["message"].as_str().unwrap_or_default();
            error["code"] == "BUILD_FAILED" && message.contains("needs a newer BuildKit")
        };
        argus.wait_status("newer", LIMIT, "names the missing capability of each", |status| {
            let errors = status["errors"].as_array().map(Vec::as_slice).unwrap_or_default();
            errors.iter().filter(is_capability).count() == NEWER_KINDS.len()
        });
    }
    cut_off_and_back(&argus, registry, own.path(), &late);
    is_not_trusted(&argus, &untrusted);
}

/// A build and a pull wait while their registry is cut off, and then continue without an edit.
fn cut_off_and_back(argus: &Controller<'_>, registry: Registry, certificates: &Path, image: &str) {
    let is_mode = |mode: &str| {
        argus.wait_until(LIMIT, mode, || {
            let status = argus.controller_status();
            (status["mode"] == mode).then_some(status)
        })
    };
    is_mode("Full");
    drop(registry);
    fs::write(
        argus.specs.join("Dockerfile"),
        format!("FROM {image}\nRUN test \"$LATE\" = yes\n"),
    )
    .expect("a file");
    let spec = format!(
        "version: \"1\"\nproject: {{ name: cut }}\nservices:\n  built: {{ build: {{ context: . }}, container: {{ name: cut-built }} }}\n  \
         pulled: {{ image: \"{image}\", container: {{ name: cut-pulled }} }}\n"
    );
    argus.write_spec("cut.e2e.yaml", &spec);
    for code in ["BUILD_FAILED", "IMAGE_PULL_FAILED"] {
        argus.wait_status("cut", LIMIT, "waits for the registry", |status| {
            let errors = status["errors"].as_array().map(Vec::as_slice).unwrap_or_default();
            let Some(error) = errors.iter().find(|error| error["code"] == code) else {
                return false;
            };
            assert!(!error["retryAfter"].is_null(), "it is tried again: {error:#}");
            assert!(error.to_string().contains("connection refused"), "{error:#}");
            true
        });
    }
    let limited = is_mode("Limited");
    assert_eq!(
        limited["modeReason"], "an image registry is unreachable",
        "{limited:#}"
    );
    let _registry = Registry::start_with_tls(argus.engine(), 5063, certificates);
    argus.wait_ready("cut", LIMIT);
    is_mode("Full");
}

/// A registry with a certificate of an unknown authority is named with the place for it.
fn is_not_trusted(argus: &Controller<'_>, untrusted: &Registry) {
    let address = &untrusted.address;
    fs::create_dir_all(argus.specs.join("untrusted")).expect("a folder");
    fs::write(
        argus.specs.join("untrusted/Dockerfile"),
        format!("FROM {address}/base:1\n"),
    )
    .expect("a file");
    let spec = format!(
        "version: \"1\"\nproject: {{ name: untrusted }}\nservices:\n  pulled: {{ image: \"{address}/base:1\", container: {{ name: untrusted-pulled }} }}\n  \
         built: {{ build: {{ context: ./untrusted }}, container: {{ name: untrusted-built }} }}\n"
    );
    argus.write_spec("untrusted.e2e.yaml", &spec);
    let place = format!("/etc/docker/certs.d/{address}/ca.crt");
    argus.wait_status("untrusted", LIMIT, "names the place of the authority", |status| {
        let errors = status["errors"].as_array().map(Vec::as_slice).unwrap_or_default();
        let of = |code: &str| errors.iter().find(|error| error["code"] == code);
        let names = |code: &str| of(code).is_some_and(|error| error.to_string().contains(&place));
        names("IMAGE_PULL_FAILED") && names("BUILD_FAILED")
    });
}

fn tempdir() -> tempfile::TempDir {
    tempfile::tempdir().expect("a folder")
}
