//! Samples of the memory and of the processes of containers.

use super::*;

#[test]
fn files_are_found_in_both_cgroup_versions() {
    let id = ContainerId::new("abc123").unwrap();
    let root = Path::new("/cg");
    let version_1 = "12:cpu,cpuacct:/docker/abc123\n7:pids:/docker/abc123\n4:memory:/docker/abc123\n0::/x\n";
    let version_2 = "0::/system.slice/docker-abc123.scope\n";
    let scope = "/cg/system.slice/docker-abc123.scope";
    for (cgroup, controller, expected) in [
        (
            version_1,
            "memory",
            Some(("/cg/memory/docker/abc123", &VERSION_1)),
        ),
        (version_1, "pids", Some(("/cg/pids/docker/abc123", &VERSION_1))),
        (version_2, "memory", Some((scope, &VERSION_2))),
        (version_2, "pids", Some((scope, &VERSION_2))),
        ("4:memory:/user.slice\n", "memory", None),
        // A host without this controller.
        ("4:memory:/docker/abc123\n0::/x\n", "pids", None),
        ("", "memory", None),
        ("nonsense", "memory", None),
    ] {
        let expected = expected.map(|(folder, files)| (PathBuf::from(folder), files));
        assert_eq!(
            find_folder(cgroup, &id, root, controller),
            expected,
            "{controller}: {cgroup}"
        );
    }
}

/// A tracked run whose files are in a temporary folder.
fn tracked(limit: Option<u64>) -> (tempfile::TempDir, MemoryPeaks, ContainerId) {
    let dir = tempfile::tempdir().unwrap();
    let id = ContainerId::new("abc123").unwrap();
    let peaks = MemoryPeaks::default();
    let run = Run {
        started_at: Some(Timestamp(1)),
        folder: dir.path().to_path_buf(),
        pids: dir.path().to_path_buf(),
        files: &VERSION_2,
        limit,
        peaks: Peaks::default(),
        high: None,
        rounds: 0,
    };
    peaks.lock().insert(id.clone(), run);
    (dir, peaks, id)
}

#[test]
fn a_peak_never_decreases_and_belongs_to_one_run() {
    let (dir, peaks, id) = tracked(None);
    let file = dir.path().join("memory.peak");
    let started_at = Some(Timestamp(1));
    for (text, known) in [
        ("100\n", Some(100)),
        ("50\n", Some(100)),
        ("max\n", Some(100)),
        ("200\n", Some(200)),
    ] {
        std::fs::write(&file, text).unwrap();
        assert_eq!(peaks.sample_due(Timestamp(2)), []);
        assert_eq!(peaks.peaks_of(&id, started_at).memory, known, "{text}");
    }
    std::fs::remove_file(&file).unwrap();
    peaks.sample_one(&id);
    assert_eq!(
        peaks.peaks_of(&id, started_at).memory,
        Some(200),
        "the peak survives its cgroup"
    );
    // An old kernel has no peak.
    std::fs::write(dir.path().join("memory.current"), "300\n").unwrap();
    peaks.sample_one(&id);
    assert_eq!(peaks.peaks_of(&id, started_at).memory, Some(300));
    assert_eq!(peaks.peaks_of(&id, Some(Timestamp(2))).memory, None);
    assert_eq!(peaks.peaks_of(&id, started_at).pids, None);
    for (text, known) in [("512\n", 512), ("7\n", 512)] {
        std::fs::write(dir.path().join("pids.current"), text).unwrap();
        peaks.sample_one(&id);
        assert_eq!(peaks.peaks_of(&id, started_at).pids, Some(known));
    }
    std::fs::write(dir.path().join("pids.max"), "600\n").unwrap();
    for (events, known) in [("max 0\n", 512), ("max 3\n", 600)] {
        std::fs::write(dir.path().join("pids.events"), events).unwrap();
        peaks.sample_one(&id);
        assert_eq!(peaks.peaks_of(&id, started_at).pids, Some(known), "{events}");
    }
    peaks.forget(&id);
    assert!(peaks.is_empty());
}

#[test]
fn refused_processes_are_seen_in_a_folder_of_their_own() {
    // Recorded files of cgroup version 1: a loop of `sleep 9 &` with `--pids-limit 64`.
    let (dir, peaks, id) = tracked(None);
    let pids = dir.path().join("pids");
    std::fs::create_dir(&pids).unwrap();
    peaks.lock().get_mut(&id).unwrap().pids.clone_from(&pids);
    for (file, text) in [
        ("pids.max", "64\n"),
        ("pids.current", "63\n"),
        ("pids.events", "max 3\n"),
    ] {
        std::fs::write(pids.join(file), text).unwrap();
    }
    std::fs::write(dir.path().join("memory.peak"), "100\n").unwrap();
    peaks.sample_one(&id);
    let found = peaks.peaks_of(&id, Some(Timestamp(1)));
    assert_eq!((found.memory, found.pids), (Some(100), Some(64)));
}

#[test]
fn kills_are_counted_in_both_cgroup_versions() {
    // Recorded files: Linux 6.8 with version 2, Linux 5.15 and 4.9 with version 1.
    let version_2 = "low 0\nhigh 0\nmax 71\noom 2\noom_kill 2\noom_group_kill 0\n";
    let version_1 = "oom_kill_disable 0\nunder_oom 0\noom_kill 1\n";
    let old = "oom_kill_disable 0\nunder_oom 1\n";
    for (files, text, kills) in [
        (&VERSION_2, version_2, Some(2)),
        (&VERSION_1, version_1, Some(1)),
        (&VERSION_1, old, None),
    ] {
        let (dir, peaks, id) = tracked(Some(1_000));
        peaks.lock().get_mut(&id).unwrap().files = files;
        let file = dir.path().join(files.kills);
        std::fs::write(&file, text).unwrap();
        peaks.sample_one(&id);
        std::fs::remove_file(&file).unwrap();
        peaks.sample_one(&id);
        assert_eq!(peaks.peaks_of(&id, Some(Timestamp(1))).oom_kills, kills, "{text}");
        assert_eq!(
            peaks.peaks_of(&id, Some(Timestamp(2))).oom_kills,
            None,
            "another run"
        );
    }
}

#[test]
fn old_runs_are_sampled_once_in_five_rounds() {
    let (dir, peaks, id) = tracked(None);
    let file = dir.path().join("memory.peak");
    let mut samples = Vec::new();
    for round in 0..20 {
        std::fs::write(&file, format!("{}\n", round + 1)).unwrap();
        peaks.sample_due(Timestamp(2));
        if peaks.peaks_of(&id, Some(Timestamp(1))).memory == Some(round + 1) {
            samples.push(round);
        }
    }
    assert_eq!(samples, [0, 1, 2, 3, 4, 5, 10, 15]);
}

#[test]
fn use_near_the_limit_is_reported_per_percent_without_cache() {
    let (dir, peaks, id) = tracked(Some(1_000));
    let since = Timestamp(2);
    let high = |used| {
        Some(Some(MemoryUse {
            used,
            limit: 1_000,
            at: since,
        }))
    };
    for (at, current, cache, expected) in [
        (0, 850, 0, None),
        (1, 950, 100, None),
        (2, 950, 10, high(940)),
        (3, 945, 0, None),
        (4, 990, 0, high(990)),
        (5, 850, 0, None),
        (6, 790, 0, Some(None)),
        (7, 790, 0, None),
    ] {
        std::fs::write(dir.path().join("memory.current"), format!("{current}\n")).unwrap();
        std::fs::write(
            dir.path().join("memory.stat"),
            format!("anon 1\ninactive_file {cache}\n"),
        )
        .unwrap();
        peaks.lock().get_mut(&id).unwrap().rounds = 0;
        let changed = peaks.sample_due(Timestamp(at));
        let event = |high| WatchEvent::MemoryHigh(id.clone(), high);
        let expected: Vec<_> = expected.map(event).into_iter().collect();
        assert_eq!(changed, expected, "{current} - {cache}");
    }
}
