//! The JSON Schemas and the CRD, generated from the types.
