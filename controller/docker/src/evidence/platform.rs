//! Platforms of an image and of its engine.

use argus_core::ident::ContainerId;
use argus_core::outcome::ActionError;

use crate::Shared;
use crate::call::{self, READ_TIMEOUT};
use crate::error::Op;

/// Describes the platforms of the container's image and of the engine; `None` if they are equal or unknown.
pub(super) async fn describe_difference(shared: &Shared, id: &ContainerId) -> Option<String> {
    let (image, engine) = platforms(shared, id).await.ok()??;
    (image != engine).then(|| format!("its image is built for `{image}`, but the engine runs `{engine}`"))
}

/// Platforms of the container's image and of the engine, such as `linux/arm64`.
async fn platforms(shared: &Shared, id: &ContainerId) -> Result<Option<(String, String)>, ActionError> {
    let client = shared.connection.client()?;
    let container = client.inspect_container(id.as_str(), None);
    let container = call::run(Op::Inspect, READ_TIMEOUT, container).await?;
    let image = container.image.unwrap_or_default();
    let image = call::run(Op::Inspect, READ_TIMEOUT, client.inspect_image(&image)).await?;
    let engine = call::run(Op::Info, READ_TIMEOUT, client.version()).await?;
    let platform =
        |os: Option<String>, architecture: Option<String>| Some(format!("{}/{}", os?, architecture?));
    Ok(platform(image.os, image.architecture).zip(platform(engine.os, engine.arch)))
}
