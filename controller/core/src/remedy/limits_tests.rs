//! Heaps of runtimes and limits of processes.

use crate::remedy::test_environment::TestEnvironment;

const MIB: u64 = 1 << 20;

fn web(lines: &str, environment: &str, line: &str, memory: Option<(u64, u64)>) -> TestEnvironment {
    let services = format!(
        "  web:\n    image: web:1\n{lines}    container: {{ name: shop-web, environment: {{ {environment} }} }}\n"
    );
    let mut test = TestEnvironment::new(&services).wrote(line);
    if let Some((peak, limit)) = memory {
        test.evidence().memory_peak = Some(peak * MIB);
        test.run.memory_limit = Some(limit * MIB);
    }
    test
}

const NODE: &str = "FATAL ERROR: Reached heap limit Allocation failed - JavaScript heap out of memory";
const JAVA: &str = "java.lang.OutOfMemoryError: Java heap space";

#[test]
fn full_heap_below_the_limit_has_the_option_of_its_runtime() {
    let memory = "    memory: 1000Mi\n";
    web(memory, "", NODE, Some((300, 1000))).assert_edit(
        "web.container.environment.NODE_OPTIONS",
        "--max-old-space-size=750",
    );
    web(memory, "", JAVA, Some((300, 1000))).assert_edit(
        "web.container.environment.JAVA_TOOL_OPTIONS",
        "a memory peak of 300",
    );
    web("", "NODE_OPTIONS: --trace-gc", NODE, None).assert_edit(
        "web.container.environment.NODE_OPTIONS",
        "to `--trace-gc --max-old-space-size=4096`",
    );
    // The container itself was full.
    web(memory, "", JAVA, Some((990, 1000))).assert_edit("web.memory", "from `1000Mi` to `2000MiB`");
}

#[test]
fn explicit_heap_grows_within_the_limit() {
    let command = "    command: [java, \"-Xmx64m\", -jar, app.jar]\n    memory: 512Mi\n";
    web(command, "", JAVA, Some((100, 512))).assert_edit("web.command", "from `-Xmx64m` to `-Xmx128m`");
    web("", "JAVA_OPTS: \"-Xms1m -Xmx1g\"", JAVA, None)
        .assert_edit("web.container.environment.JAVA_OPTS", "from `-Xmx1g` to `-Xmx2g`");
    let tight = "    command: [java, \"-Xmx400m\", -jar, app.jar]\n    memory: 512Mi\n";
    web(tight, "", JAVA, Some((500, 512))).assert_edit("web.memory", "memory");
}

#[test]
fn denied_thread_is_not_the_limit_of_processes() {
    let limit = "pthread_create failed: Resource temporarily unavailable";
    let edit = web("", "", limit, None).edit().unwrap();
    assert_eq!(edit.key, "argus.policy.pidsLimit");
    let mut measured = web("", "", limit, None);
    measured.evidence().pids_peak = Some(509);
    assert!(
        measured
            .text()
            .contains("the limit is 512, and 509 were measured")
    );
    measured.evidence().pids_peak = Some(100);
    assert_eq!(measured.text(), "none");
    let denied =
        "OpenBLAS blas_thread_init: pthread_create failed for thread 1 of 8: Operation not permitted";
    assert_eq!(web("", "", denied, None).text(), "none");
}

#[test]
fn check_without_a_process_names_the_limit() {
    let services = "  web:\n    image: web:1\n    container:\n      name: shop-web\n      healthcheck: { type: exec, command: [sh, -c, \"true | true\"] }\n";
    let of = |output: &str, peak: Option<u64>| {
        let mut test = TestEnvironment::new(services).unhealthy(output, &[]);
        test.evidence().pids_peak = peak;
        test.edit().map(|edit| edit.key)
    };
    let limit = Some("argus.policy.pidsLimit".to_owned());
    for output in [
        "exec sh: exit code 2: sh: can't fork: Resource temporarily unavailable",
        "exec sh: exit code 254: waiting\nbash: fork: retry: Resource temporarily unavailable",
        "exec sh: exit code 1: RuntimeError: can't start new thread",
        "OCI runtime exec failed: error starting child process: fork/exec /proc/self/exe: resource temporarily unavailable",
    ] {
        assert_eq!(of(output, Some(512)), limit, "{output}");
        assert_eq!(of(output, None), limit, "{output}");
        assert_ne!(of(output, Some(20)), limit, "{output}");
    }
    // The text of the runtime alone does not prove it.
    for output in [
        "OCI runtime exec failed: exec failed: unable to start container process: can't get final child's PID from pipe: EOF",
        "exec sh: exit code 126: OCI runtime exec failed: exec failed: unable to start container process: read init-p: connection reset by peer",
        "exec sh: exit code 1: recv: Resource temporarily unavailable",
    ] {
        assert_eq!(of(output, Some(512)), limit, "{output}");
        assert_ne!(of(output, None), limit, "{output}");
    }
}
