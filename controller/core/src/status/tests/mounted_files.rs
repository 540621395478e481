//! Warnings about mounted files that were replaced on the host.

use std::time::Duration;

use super::*;
use crate::desired::Mount;
use crate::desired::mounted_file::MountedFile;

#[test]
fn replaced_file_is_a_warning_until_the_container_starts_again() {
    let mut shop = Shop::ready();
    let accepted = shop.accepted.as_mut().unwrap();
    let mount = Mount::Bind {
        source: "/p/app.conf".to_owned(),
        target: "/app.conf".to_owned(),
        read_only: false,
    };
    accepted
        .desired
        .services
        .get_mut("web")
        .unwrap()
        .mounts
        .push(mount);
    let mut replaced_at = |at| {
        let file = MountedFile {
            replaced_at: at,
            ..MountedFile::default()
        };
        let accepted = shop.accepted.as_mut().unwrap();
        accepted.mounted_files = [("/p/app.conf".to_owned(), file)].into();
        shop.status().diagnostics
    };
    assert_eq!(replaced_at(None), []);
    assert_eq!(
        replaced_at(Some(NOW - Duration::from_secs(1))),
        [],
        "the container started later"
    );
    let warnings = replaced_at(Some(NOW + Duration::from_secs(1)));
    let [warning] = &warnings[..] else {
        panic!("{warnings:?}");
    };
    assert_eq!(warning.path, "services.web.container.volumes");
    assert!(
        warning
            .message
            .starts_with("the running container of `web` still has the former `/p/app.conf`"),
        "{warning:?}"
    );
    let hint = warning.hint.as_deref().unwrap();
    assert!(hint.contains("`argus restart shop/web`"), "{hint}");
}
