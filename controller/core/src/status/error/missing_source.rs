//! Errors of missing images, stages, mounted files and programs: the place in the file, and a similar name that exists.

use argus_crds::error::{SpecEdit, StructuredError};

use super::{ErrorScope, failed_action, image_command};
use crate::action::ActionFailure;
use crate::desired::{Accepted, Image, Mount, Service};
use crate::outcome::ActionError;
use crate::remedy;
use crate::status::StatusInput;

/// Adds the change of the file to the error of a missing image, stage or file.
pub(super) fn with_edit(
    input: &StatusInput<'_>,
    error_scope: &ErrorScope<'_>,
    error: StructuredError,
    failure: &ActionFailure,
) -> StructuredError {
    let service = super::service_of(input, error_scope);
    let edit = input
        .accepted
        .zip(service)
        .and_then(|(accepted, service)| match &failure.error {
            ActionError::BadMount(reason) => of_mount(accepted, service, reason, failure.error.similar()),
            ActionError::EntrypointNotFound(reason) => {
                let context = super::context::edit_context(input, accepted, service);
                remedy::of_start(&context, reason).or_else(|| image_command::of_start(service, reason))
            }
            ActionError::BuildFailed { .. } => failed_action::edit_of_build(failure),
            error => of_image(accepted, service, error.similar()?),
        });
    match edit {
        Some(edit) => error.edit(edit),
        None => error,
    }
}

fn of_image(accepted: &Accepted, service: &Service, similar: &str) -> Option<SpecEdit> {
    let reason = format!("the engine has the image `{similar}`");
    let edit = accepted
        .lines
        .edit_service(&accepted.spec_path, service.name.as_str(), "image", reason);
    // The registry can get the other image.
    matches!(service.image, Image::Named(_)).then(|| edit.suggest(similar).likely())
}

fn of_mount(accepted: &Accepted, service: &Service, reason: &str, similar: Option<&str>) -> Option<SpecEdit> {
    let is_source = |mount: &Mount| match mount {
        Mount::Bind { source, .. } => {
            let named = reason
                .find(source.as_str())
                .map(|at| &reason[at + source.len()..]);
            named.is_some_and(|rest| rest.is_empty() || rest.starts_with(['`', ';', '"', ' ']))
        }
        Mount::Volume { .. } => false,
    };
    let index = service.mounts.iter().position(is_source)?;
    let Mount::Bind { source, .. } = &service.mounts[index] else {
        return None;
    };
    let key = format!("container.volumes[{index}]");
    let reason = format!("`{source}` does not exist");
    let edit = accepted
        .lines
        .edit_service(&accepted.spec_path, service.name.as_str(), &key, reason);
    let name = source.rsplit('/').next().unwrap_or_default();
    // The file can contain a template instead of the name.
    let corrected = edit
        .now
        .as_ref()
        .zip(similar)
        .filter(|(now, _)| now.contains(name));
    let corrected = corrected.map(|(now, similar)| now.replacen(name, similar, 1));
    Some(match corrected {
        Some(corrected) => edit.suggest(corrected),
        None => edit,
    })
}
