//! Kinds of damage of a state directory.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use argus_reconciler::journal::checksum::with_checksum;
use rustix::fs::{CWD, FileType, Mode, mknodat};

/// Description and function of a damage.
pub(crate) type Damage = (String, Box<dyn Fn(&Path)>);

const FILES: [&str; 8] = [
    "private/state.json",
    "private/specs.json",
    "private/identity",
    "private/journal.jsonl",
    "private/lock",
    "controller.json",
    "environments/shop.json",
    "environments/shop.env",
];
const FOLDERS: [&str; 5] = [
    "private",
    "private/builds",
    "private/evidence",
    "environments",
    "incidents",
];

/// Returns all kinds of damage.
pub(crate) fn all() -> Vec<Damage> {
    let mut all: Vec<Damage> = Vec::new();
    let mut add = |name: String, damage: Box<dyn Fn(&Path)>| all.push((name, damage));
    for file in FILES {
        add(
            format!("{file} is missing"),
            Box::new(move |state| remove(&state.join(file))),
        );
        for part in [0, 1, 25, 50, 75, 99] {
            let cut = move |state: &Path| change(&state.join(file), |bytes| bytes.truncate(at(bytes, part)));
            add(format!("{file} is cut at {part} %"), Box::new(cut));
        }
        for part in [0, 3, 10, 33, 50, 66, 90, 99] {
            let flip = move |state: &Path| {
                change(&state.join(file), |bytes| {
                    let at = at(bytes, part);
                    if let Some(byte) = bytes.get_mut(at) {
                        *byte ^= 0x01;
                    }
                });
            };
            add(format!("{file} has a flipped bit at {part} %"), Box::new(flip));
        }
        let newer = with_checksum(r#"{"v":99,"schemaVersion":99,"seq":3}"#) + "\n";
        for (what, text) in [
            ("garbage", "\u{1}garbage\n\n}{".to_owned()),
            ("zeros", "\0".repeat(8_192)),
            ("an empty object", "{}".to_owned()),
            ("null", "null".to_owned()),
            ("of a newer version", newer),
        ] {
            let text = text.clone();
            let write =
                move |state: &Path| change(&state.join(file), |bytes| *bytes = text.clone().into_bytes());
            add(format!("{file} is {what}"), Box::new(write));
        }
        for target in ["/nowhere/at/all", "/dev/zero", "/proc/self/mem"] {
            let link = move |state: &Path| replace(&state.join(file), |path| symlink(target, path).unwrap());
            add(format!("{file} is a link to {target}"), Box::new(link));
        }
        let own = file.rsplit('/').next().unwrap_or_default();
        let turn = move |state: &Path| replace(&state.join(file), |path| symlink(own, path).unwrap());
        add(format!("{file} is a link to itself"), Box::new(turn));
        let folder = |path: &Path| fs::create_dir_all(path.join("with/more")).unwrap();
        add(
            format!("{file} is a folder"),
            Box::new(move |state| replace(&state.join(file), folder)),
        );
        let pipe = |path: &Path| mknodat(CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        add(
            format!("{file} is a pipe"),
            Box::new(move |state| replace(&state.join(file), pipe)),
        );
    }
    for folder in FOLDERS {
        add(
            format!("{folder}/ is missing"),
            Box::new(move |state| remove(&state.join(folder))),
        );
        let file = |path: &Path| fs::write(path, "not a folder").unwrap();
        add(
            format!("{folder}/ is a file"),
            Box::new(move |state| replace(&state.join(folder), file)),
        );
        let link = |path: &Path| symlink("/nowhere/at/all", path).unwrap();
        add(
            format!("{folder}/ is a link to nowhere"),
            Box::new(move |state| replace(&state.join(folder), link)),
        );
    }
    add("everything is missing".to_owned(), Box::new(remove));
    let garbage = |state: &Path| {
        for file in FILES {
            change(&state.join(file), |bytes| *bytes = b"\xff\xfe garbage".to_vec());
        }
    };
    add("everything is garbage".to_owned(), Box::new(garbage));
    let marker = |state: &Path| {
        let path = state.join("private/clean_shutdown");
        replace(&path, |path| fs::create_dir(path).unwrap());
    };
    add("the marker is a folder".to_owned(), Box::new(marker));
    all
}

fn at(bytes: &[u8], part: usize) -> usize {
    bytes.len() * part / 100
}

fn change(path: &Path, change: impl Fn(&mut Vec<u8>)) {
    let mut bytes = fs::read(path).unwrap();
    change(&mut bytes);
    fs::write(path, bytes).unwrap();
}

fn replace(path: &Path, make: impl Fn(&Path)) {
    remove(path);
    make(path);
}

fn remove(path: &Path) {
    match fs::symlink_metadata(path) {
        Ok(meta) if meta.is_dir() => fs::remove_dir_all(path).unwrap(),
        Ok(_) => fs::remove_file(path).unwrap(),
        Err(_) => {}
    }
}
