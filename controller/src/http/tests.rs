//! What can be asked is what the document says; what cannot is refused in the one form of error.
