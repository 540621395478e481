//! A named folder as an input of the frontend: the tar that the session sends, unpacked into an empty file system.

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
    let action = pb::FileAction {
        // The result is a new file system.
        input: UNSET,
        secondary_input: 0,
        output: 0,
        action: Some(pb::file_action::Action::Copy(copy)),
    };
    let unpack = pb::op::Op::File(pb::FileOp {
        actions: vec![action],
    });
    let unpack = add(
        &mut definition,
        &format!("unpack {name}"),
        Some(download),
        Some(unpack),
    );
    add(&mut definition, name, Some(unpack), None);
    definition
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
}
