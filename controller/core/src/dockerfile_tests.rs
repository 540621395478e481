//! Tests of the places in a Dockerfile.

use super::*;

const STAGES: &str = "# syntax=docker/dockerfile:1
FROM golang:1.25 AS build
WORKDIR /src
RUN go build \\
    # the static one
    -o /out/srv   ./cmd/srv
RUN cat <<EOF > /etc/motd
RUN go build
EOF
ENTRYPOINT [\"/entry.sh\"]

from build as test
RUN go test $PACKAGES
CMD [\"go\", \"test\"]
FROM alpine:3
COPY --from=biuld /out/srv /usr/bin/
RUN go test $PACKAGES
RUN --mount=type=bind,from=tset,target=/t cp /t/x /
";

fn line_of(step: &str) -> Option<usize> {
    find_step(&parse(STAGES), step).map(|found| found.line)
}

#[test]
fn instruction_has_its_first_line_and_all_its_words() {
    let all = parse(STAGES);
    let lines: Vec<usize> = all.iter().map(|instruction| instruction.line).collect();
    assert_eq!(lines, [2, 3, 4, 7, 10, 12, 13, 14, 15, 16, 17, 18]);
    assert_eq!(all[2].text, "RUN go build -o /out/srv ./cmd/srv");
}

#[test]
fn step_of_a_builder_is_found() {
    for (step, line) in [
        ("[build 3/4] RUN go build     -o /out/srv   ./cmd/srv", Some(4)),
        ("Step 4/9 : RUN go build     -o /out/srv   ./cmd/srv", Some(4)),
        ("[build 4/4] RUN cat <<EOF > /etc/motd (RUN go build)", Some(7)),
        // The builder has replaced the variable.
        ("[test 1/1] RUN go test ./...", Some(13)),
        ("[stage-2 3/4] RUN go test ./...", Some(17)),
        ("Step 7/9 : RUN go test ./...", None),
        ("[stage-2 2/4] COPY --from=biuld /out/srv /usr/bin/", Some(16)),
        ("[stage-2 1/4] FROM alpine:3", Some(15)),
        ("[internal] load build context", None),
        ("RUN go test", None),
    ] {
        assert_eq!(line_of(step), line, "{step}");
    }
    for message in [
        "dockerfile parse error on line 5: unknown instruction: RUNN",
        "dockerfile parse error line 5: unknown instruction: RUNN",
    ] {
        let all = parse(STAGES);
        assert_eq!(find_syntax_error(&all, message).map(|found| found.line), Some(4));
    }
    assert_eq!(find_syntax_error(&parse(STAGES), "exit code: 5 in line 3"), None);
}

#[test]
fn syntax_of_a_newer_frontend_is_no_mistake() {
    let newer = |text: &str, message: &str| find_newer_syntax(&parse(text)[0], message);
    for (text, message, expected) in [
        (
            "RUN <<END\necho one\nEND",
            "parse error line 2: unknown instruction: ECHO",
            Some("<<"),
        ),
        (
            "COPY --link a /",
            "parse error line 1: Unknown flag: link",
            Some("link"),
        ),
        (
            "COPY --lnik a /",
            "parse error on line 1: unknown flag: lnik (did you mean link?)",
            None,
        ),
        (
            "RUNN make",
            "parse error on line 1: unknown instruction: RUNN",
            None,
        ),
        ("RUN <<END\nmake\nEND", "exit code: 2", None),
    ] {
        assert_eq!(newer(text, message), expected, "{text}");
    }
}

#[test]
fn misspelled_stage_is_corrected_where_a_message_names_it() {
    let find = |text: &str, message: &str| {
        let found = find_misspelled_stage(&parse(text), message)?;
        Some((
            found.instruction.line,
            found.similar,
            found.instruction.corrected.unwrap(),
        ))
    };
    let copy = (
        16,
        "build".to_owned(),
        "COPY --from=build /out/srv /usr/bin/".to_owned(),
    );
    for message in [
        "[internal] load metadata for docker.io/library/biuld:latest: dial tcp: no such host",
        "invalid from flag value biuld: pull access denied for biuld, repository does not exist",
    ] {
        assert_eq!(find(STAGES, message).as_ref(), Some(&copy), "{message}");
    }
    let mount = "RUN --mount=type=bind,from=test,target=/t cp /t/x /".to_owned();
    let message = "failed to resolve source metadata for docker.io/library/tset:latest";
    assert_eq!(find(STAGES, message), Some((18, "test".to_owned(), mount)));
    let base = "FROM golang:1 AS build\nFROM biuld AS final\n";
    let message = "load metadata for docker.io/library/biuld:latest";
    let expected = (2, "build".to_owned(), "FROM build AS final".to_owned());
    assert_eq!(find(base, message), Some(expected));
    // These are images.
    for (text, message) in [
        (
            STAGES,
            "load metadata for docker.io/library/alpine:3: no such host",
        ),
        (
            "FROM golang AS golang1\n",
            "docker.io/library/golang:latest: no such host",
        ),
        (
            "FROM a AS one\nCOPY --from=nginx / /\n",
            "docker.io/library/nginx:latest: denied",
        ),
    ] {
        assert_eq!(find(text, message), None, "{message}");
    }
}

#[test]
fn commands_of_an_image_can_be_those_of_an_earlier_stage() {
    let of = |target| {
        let found = commands(STAGES, target).into_iter();
        found.map(|found| (found.line, found.text)).collect::<Vec<_>>()
    };
    let entrypoint = (10, "ENTRYPOINT [\"/entry.sh\"]".to_owned());
    let cmd = (14, "CMD [\"go\", \"test\"]".to_owned());
    assert_eq!(of(Some("Test")), [cmd, entrypoint.clone()]);
    assert_eq!(of(Some("build")), [entrypoint]);
    assert!(of(None).is_empty());
}

#[test]
fn instruction_is_added_to_the_image_that_the_build_makes() {
    let add = |text: &str, target| with_last_instruction(text, "LABEL a=\"1\"", target);
    assert_eq!(
        add("FROM a\nRUN make", None).as_deref(),
        Some("FROM a\nRUN make\nLABEL a=\"1\"\n")
    );
    let stages = "FROM a AS Build\nRUN make\nFROM b AS prod\nRUN <<EOF\nmake\nEOF\n";
    assert!(add(stages, None).is_some());
    assert!(add(stages, Some("Prod")).is_some());
    assert_eq!(add(stages, Some("build")), None, "another stage");
    for open in [
        "FROM a\nRUN make \\",
        "# escape=`\nFROM a\nRUN make `\n# the end\n",
        "# syntax=docker/dockerfile:1.0\nFROM a\n",
        "FROM a\nRUN <<EOF\nmake\n",
        "ARG A\n",
        "",
    ] {
        assert_eq!(add(open, None), None, "{open}");
    }
}

#[test]
fn missing_source_is_the_path_in_the_build_context() {
    let instruction = |text: &str| parse(text).remove(0);
    let copy = instruction("COPY a b /c");
    for (message, path) in [
        (
            "COPY a/ /b: failed to compute cache key: \"/a\" not found: not found",
            Some("a"),
        ),
        (
            "failed to calculate checksum of ref 1::2: \"/src/a.txt\": not found",
            Some("src/a.txt"),
        ),
        ("\"/src/../../a\": not found", None),
        ("COPY a b: exit code: 2", None),
        ("pull: \"image\" not found", None),
    ] {
        assert_eq!(missing_source(&copy, message), path, "{message}");
    }
    let mount = |options: &str| {
        let run = instruction(&format!("RUN --mount=type=bind,{options} make"));
        missing_source(&run, "\"/a\" not found").is_some()
    };
    assert!(mount("source=a,target=/r") && mount("src=./a,target=/r"));
    assert!(!mount("source=b,target=/a") && !mount("from=build,source=a,target=/r"));
    for other in ["COPY --from=build /a /b", "RUN --mount=from=build make", "FROM a"] {
        assert_eq!(
            missing_source(&instruction(other), "\"/a\" not found"),
            None,
            "{other}"
        );
    }
    let owned = instruction("COPY --chown=app:app app/ app2 ./app /srv/app2");
    assert_eq!(
        with_other_source(&owned, "app", "apps").as_deref(),
        Some("COPY --chown=app:app apps/ app2 ./apps /srv/app2")
    );
    assert_eq!(with_other_source(&owned, "ap", "apps"), None);
    let run = instruction("RUN --mount=type=bind,source=confg,target=/c cp -r confg /srv");
    assert_eq!(with_other_source(&run, "confg", "config"), None);
    // The destination often has the same name, and a shortened text has none.
    let same = with_other_source(&instruction("COPY dist /dist"), "dist", "dists");
    assert_eq!(same.as_deref(), Some("COPY dists /dist"));
    let long = instruction(&format!("COPY app {} /srv", "a ".repeat(200)));
    assert_eq!(with_other_source(&long.shortened(), "app", "apps"), None);
}
