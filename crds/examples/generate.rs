//! Generator of the files in `crds/`: the JSON Schemas and the CRD.

use std::error::Error;
use std::path::Path;

fn main() -> Result<(), Box<dyn Error>> {
    for file in argus_crds::schema::generated_files()? {
        std::fs::write(
            Path::new(env!("CARGO_MANIFEST_DIR")).join(file.name),
            file.content,
        )?;
    }
    Ok(())
}
