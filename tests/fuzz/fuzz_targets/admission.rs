//! Fuzz target of admission: any bytes end in a spec or in diagnostics, never in a panic.
#![no_main]

use argus_core::desired::admit::{SpecContext, admit};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let reading = argus_crds::yaml::read("e2e.yaml", bytes);
    assert!(
        reading.spec.is_some() || reading.diagnostics.iter().any(argus_crds::Diagnostic::is_error),
        "rejected without a diagnostic"
    );
    if let Some(spec) = &reading.spec {
        let site = SpecContext { directory: "/specs".to_owned(), ..SpecContext::default() };
        let admission = admit(spec, &site);
        assert!(
            admission.desired.is_some() || admission.diagnostics.iter().any(argus_crds::Diagnostic::is_error),
            "rejected without a diagnostic"
        );
        for diagnostic in admission.diagnostics {
            let _placed = reading.source.placed(diagnostic);
        }
    }
});
