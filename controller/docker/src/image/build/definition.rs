//! Inputs of the frontend: a folder, which is the tar that the session sends, unpacked into an empty file system; and a file with a text.

use std::collections::HashMap;

use argus_core::hex::hex;
use bollard_buildkit_proto::pb;
use prost::Message as _;
use sha2::{Digest as _, Sha256};

/// Name of the tar in the result of its download.
const FILE: &str = "context";
/// Value of an index and of a time that is not set.
const UNSET: i64 = -1;

/// Returns the operations that download the tar at `url` and unpack it.
pub(super) fn of_folder(name: &str, url: String) -> pb::Definition {
    let mut definition = pb::Definition::default();
    let source = pb::SourceOp {
        identifier: url,
        attrs: HashMap::from([("http.filename".to_owned(), FILE.to_owned())]),
    };
    let source = pb::op::Op::Source(source);
    let download = add(&mut definition, &format!("load {name}"), None, Some(source));
    let copy = pb::FileActionCopy {
        src: format!("/{FILE}"),
        dest: "/".to_owned(),
        mode: -1,
        attempt_unpack_docker_compatibility: true,
        timestamp: UNSET,
        ..pb::FileActionCopy::default()
    };
    let copy = new_file_system(0, pb::file_action::Action::Copy(copy));
    let unpack = add(
        &mut definition,
        &format!("unpack {name}"),
        Some(download),
        Some(copy),
    );
    add(&mut definition, name, Some(unpack), None);
    definition
}

/// Returns the operation that writes a file.
pub(super) fn of_file(name: &str, text: &str) -> pb::Definition {
    let mut definition = pb::Definition::default();
    let write = pb::FileActionMkFile {
        path: format!("/{name}"),
        mode: 0o644,
        data: text.as_bytes().to_vec(),
        timestamp: UNSET,
        ..pb::FileActionMkFile::default()
    };
    let write = new_file_system(UNSET, pb::file_action::Action::Mkfile(write));
    let written = add(&mut definition, &format!("write {name}"), None, Some(write));
    add(&mut definition, name, Some(written), None);
    definition
}

/// An operation that does this in an empty file system, and reads from one of its inputs or from none.
fn new_file_system(from: i64, action: pb::file_action::Action) -> pb::op::Op {
    let action = pb::FileAction {
        input: UNSET,
        secondary_input: from,
        output: 0,
        action: Some(action),
    };
    pb::op::Op::File(pb::FileOp {
        actions: vec![action],
    })
}

/// Adds an operation on the result of another one, and returns its digest. The last one has no operation.
fn add(definition: &mut pb::Definition, name: &str, input: Option<String>, op: Option<pb::op::Op>) -> String {
    let input = input.map(|digest| pb::Input { digest, index: 0 });
    let op = pb::Op {
        inputs: input.into_iter().collect(),
        op,
        ..pb::Op::default()
    };
    let bytes = op.encode_to_vec();
    let digest = format!("sha256:{}", hex(&Sha256::digest(&bytes)));
    let description = ("llb.customname".to_owned(), format!("[internal] {name}"));
    let metadata = pb::OpMetadata {
        description: HashMap::from([description]),
        ..pb::OpMetadata::default()
    };
    definition.def.push(bytes);
    definition.metadata.insert(digest.clone(), metadata);
    digest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_operation_reads_the_one_before() {
        let definition = of_folder("libs", "http://buildkit-session/a/0".to_owned());
        let ops: Vec<pb::Op> = definition
            .def
            .iter()
            .map(|bytes| pb::Op::decode(bytes.as_slice()).unwrap())
            .collect();
        assert_eq!(ops.len(), 3);
        assert!(ops[0].inputs.is_empty() && ops[2].op.is_none());
        for (before, op) in definition.def.iter().zip(&ops[1..]) {
            let digest = format!("sha256:{}", hex(&Sha256::digest(before)));
            assert_eq!(op.inputs[0].digest, digest);
            assert!(definition.metadata.contains_key(&digest));
        }
    }

    #[test]
    fn file_needs_no_input() {
        let definition = of_file("Dockerfile", "FROM scratch\n");
        let write = pb::Op::decode(definition.def[0].as_slice()).unwrap();
        assert!(write.inputs.is_empty());
        let Some(pb::op::Op::File(pb::FileOp { actions })) = write.op else {
            panic!("{write:?}");
        };
        assert_eq!((actions[0].input, actions[0].secondary_input), (UNSET, UNSET));
    }
}
